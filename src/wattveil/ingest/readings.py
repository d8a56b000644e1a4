"""`Readings`: readings that can be larger than memory, with the account of where each row went."""

import datetime as dt
import math
import tempfile
import weakref
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from wattveil.ingest import schema
from wattveil.ingest.judge import Judgement, judge
from wattveil.ingest.options import MeasuredIn, ReadOptions
from wattveil.ingest.report import IngestReport, ProblemLog
from wattveil.ingest.rows import Rows
from wattveil.ingest.settle import Rules, Settlement, settle
from wattveil.ingest.sources import duckdb_reads
from wattveil.ingest.sql import literal
from wattveil.ingest.zones import midnights

_BATCH_ROWS = 65_536
_FIRST_OF_1970 = dt.date(1970, 1, 1)


class Workshop:
    """A DuckDB connection with a folder of its own, both gone when the owner is.

    The folder is made ``within`` another, or where the system has temporary ones.
    """

    def __init__(self, memory_mb: int, *, within: str | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="wattveil-", dir=within)
        self.folder = Path(self._folder.name)
        self.connection = duckdb.connect()
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.execute("SET autoinstall_known_extensions = false")  # nothing is fetched
        self.connection.execute(f"SET memory_limit = '{memory_mb}MB'")
        self.connection.execute(f"SET temp_directory = {literal(str(self.folder / 'spill'))}")
        bar = self.connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()
        if bar == [(True,)]:  # in a notebook without ipywidgets DuckDB refuses to switch it off too
            self.connection.execute("SET enable_progress_bar = false")
        # DuckDB cannot know how long a CSV file is. Joins here are written big JOIN small.
        self.connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        self.close = weakref.finalize(self, _close, self.connection, self._folder)


def _close(
    connection: duckdb.DuckDBPyConnection, folder: "tempfile.TemporaryDirectory[str]"
) -> None:
    connection.close()
    folder.cleanup()


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where readings come from and by which rules they are read."""

    files: tuple[Path, ...]
    rows: Rows
    unit: MeasuredIn
    options: ReadOptions
    lengths: tuple[int, ...]  # interval lengths that occur, in minutes
    log: ProblemLog | None = None
    problems_to: Path | None = None


class Readings:
    """Readings as one table of `READINGS_SCHEMA`; made by `read_readings`.

    Nothing is read until something is asked for. `report` and the table need the exact road of
    `settle` for all rows; profiles need it only for customers whose rows are in each other's way.
    """

    def __init__(self, workshop: Workshop, source: Source) -> None:
        self._workshop = workshop
        self.source = source
        self._settled: Settlement | None = None

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The connection that holds the source; for `wattveil.profiles`."""
        return self._workshop.connection

    @property
    def guesses(self) -> tuple[str, ...]:
        """What was not given and was inferred from the data."""
        return self.source.rows.guesses

    @property
    def clock(self) -> str | None:
        """The zone whose clock the stamps show; None if they are instants."""
        zone = self.source.options.timezone
        return None if self.source.rows.stamp.aware or zone in {None, "UTC"} else zone

    @property
    def base_minutes(self) -> int:
        """The length that divides every interval."""
        return math.gcd(*self.source.lengths)

    @property
    def report(self) -> IngestReport:
        """The account of every row."""
        settled = self.settled()
        return self.account(
            rows_in=settled.rows_in,
            rows_out=settled.rows_out,
            dropped=settled.by_row + settled.dropped,
            merged=settled.merged,
            notes=settled.notes,
        )

    def to_arrow(self) -> pa.Table:
        """Return the table, by customer and time. It has to fit in memory."""
        return self.batches().read_all()

    def batches(self) -> pa.RecordBatchReader:
        """Return the table batch by batch."""
        cursor = self.connection.cursor()
        reader = cursor.sql(self._table_sql()).to_arrow_reader(_BATCH_ROWS)
        batches = (batch.cast(schema.READINGS_SCHEMA) for batch in reader)
        return pa.RecordBatchReader.from_batches(schema.READINGS_SCHEMA, batches)

    def write_parquet(self, path: str | Path) -> None:
        """Write the table to a Parquet file."""
        target = literal(str(path))
        self.connection.execute(f"COPY ({self._table_sql()}) TO {target} (FORMAT parquet)")

    def close(self) -> None:
        """Give the temporary folder back; it goes with the object otherwise."""
        self._workshop.close()

    # What follows is for `wattveil.profiles`.

    def judged(self, *, in_order: bool = False) -> Judgement:
        """Judge rows one by one, and nothing else yet."""
        return judge(self.source.rows, self.source.unit, self.source.options, in_order=in_order)

    def settled(self, only: str | None = None) -> Settlement:
        """Settle all rows, or those of the customers in the table ``only``."""
        if only is None and self._settled is not None:
            return self._settled
        folder = self._workshop.folder / (only or "all")
        folder.mkdir(exist_ok=True)
        judged = folder / "judged.parquet"
        chosen = f"SEMI JOIN {only} USING (customer_id)" if only else ""
        unwanted = "EXCLUDE (written)" if self.source.problems_to is None else ""
        judged_sql = self.judged(in_order=True).sql(in_order=True)
        with duckdb_reads(self.source.files):
            self.connection.execute(f"""
                COPY (SELECT * {unwanted} FROM ({judged_sql}) {chosen})
                TO {literal(str(judged))} (FORMAT parquet)
            """)
        result = settle(self.connection, judged, self._rules(), folder)
        if only is None:
            self._settled = result
            if self.source.problems_to is not None:
                self._write_problems(result, self.source.problems_to)
        return result

    def account(
        self,
        *,
        rows_in: int,
        rows_out: int,
        dropped: Counter[schema.Drop],
        merged: Counter[schema.Merge],
        notes: Counter[schema.Note],
    ) -> IngestReport:
        """Make the report; what a streaming reader left out comes on top."""
        by_text = Counter({reason.text: rows for reason, rows in dropped.items()})
        remarks: Counter[str] = Counter({str(note): rows for note, rows in notes.items()})
        if self.source.log is not None:
            rows_in += self.source.log.dropped.total()
            by_text += self.source.log.dropped
            remarks += self.source.log.notes
        return IngestReport(
            files=tuple(path.name for path in self.source.files),
            rows_in=rows_in,
            rows_out=rows_out,
            dropped={reason: rows for reason, rows in by_text.items() if rows},
            merged={str(reason): rows for reason, rows in merged.items() if rows},
            notes={note: rows for note, rows in remarks.items() if rows},
            guesses=self.guesses,
            options=self.source.options.to_json(),
        )

    def period_us(self) -> tuple[int, int] | None:
        """Return the period as instants: midnights of the stamps' zone."""
        if self.source.options.period is None:
            return None
        days = np.array(
            [(day - _FIRST_OF_1970).days for day in self.source.options.period], dtype=np.int64
        )
        first, end = midnights(self.source.options.timezone or "UTC", days).tolist()
        return first, end

    def _rules(self) -> Rules:
        rows = self.source.rows
        return Rules(
            unit=self.source.unit,
            clock=self.clock,
            end_stamped=rows.end_stamped,
            period_us=self.period_us(),
            conflicts=self.source.options.conflicts,
            register_rollover=self.source.options.register_rollover,
            has_channels=rows.has_channels,
            has_qualities=rows.has_qualities,
        )

    def _table_sql(self) -> str:
        return f"SELECT * FROM ({self.settled().sql}) ORDER BY customer_id, start_utc, minutes"

    def _write_problems(self, settled: Settlement, path: Path) -> None:
        """Write every row that was dropped, or that contradicted another, with its reason."""
        parts = [
            f"SELECT reason, source_row::VARCHAR AS source_row, written FROM ({sql})"
            for sql in settled.problems
        ]
        if self.source.log is not None:
            left_out = literal(str(self.source.log.path))
            parts.append(f"SELECT * FROM read_csv({left_out}, all_varchar = true, header = true)")
        union = " UNION ALL ".join(parts)
        self.connection.execute(
            f"COPY ({union}) TO {literal(str(path))} (FORMAT {path.suffix.removeprefix('.')})"
        )
