"""Positions of rows in their files, as the list of problems states them.

Rows of a source are numbered from 1, in the order of its files. The position of a row is the line
of a text file (blank lines are not counted), the row of a table without lines (Parquet, a
database), or the reading of a file that is streamed; if there are several files, with the name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from wattveil.readings.sources import Scan, numbered
from wattveil.readings.sql_text import ident, literal

LINE, ROW, READING = "line", "row", "reading"
_BEYOND = 1 << 62  # more rows than any source has
ROW_COLUMN = "row"
"""Column of staged tables: number of the row of the source of which a reading is."""


@dataclass(frozen=True, kw_only=True)
class FileSpan:
    """Rows of one file among those of a source."""

    path: Path
    first: int  # number of its first row
    before: int = 0  # lines of the file above that row
    unit: str = LINE


def file_spans(
    connection: duckdb.DuckDBPyConnection, scan: Scan, files: Sequence[Path], *, first: int = 1
) -> list[FileSpan]:
    """Return the rows of each file of a scan; they are counted if there are several files."""
    rows = dict.fromkeys(map(str, files), 0)
    if len(files) > 1:
        rows |= rows_by_file(connection, scan)
    unit = ROW if scan.lines_before is None else LINE
    spans = []
    for path in files:
        spans.append(FileSpan(path=path, first=first, before=scan.lines_before or 0, unit=unit))
        first += rows[str(path)]
    return spans


def rows_by_file(connection: duckdb.DuckDBPyConnection, scan: Scan) -> dict[str, int]:
    """Count the rows of each file of a scan."""
    named = scan.sql
    if "filename = true" not in named:
        named = f"{named.removesuffix(')')}, filename = true)"
    query = f"SELECT filename, count(*) FROM {named} GROUP BY filename"
    return {str(name): int(rows) for name, rows in connection.execute(query).fetchall()}


def with_rows(problems: Sequence[str], scan: Scan, row: str, *, staged: bool) -> str:
    """Write the SELECT of all problems with the column ``row``, the number of their row.

    ``row`` computes it from ``source_row``; a staged table has a column of its own for it.
    """
    joined, own = "", ident(ROW_COLUMN)
    if staged and ROW_COLUMN in scan.types:
        row, joined = (
            own,
            f"JOIN (SELECT {own}, source_row FROM {numbered(scan)}) USING (source_row)",
        )
    return " UNION ALL ".join(
        f"SELECT reason, {row} AS {own}, written FROM ({sql}) {joined}" for sql in problems
    )


def positions_sql(
    connection: duckdb.DuckDBPyConnection, problems: str, spans: Sequence[FileSpan]
) -> str:
    """Write the SELECT of reason, position and text of problems, which have the column ``row``."""
    row = ident(ROW_COLUMN)
    if len(spans) == 1:
        position = f"{literal(spans[0].unit + ' ')} || ({row} + {_shift(spans[0])})"
        return f"SELECT reason, {position} AS source_row, written FROM ({problems}) ORDER BY {row}"
    made = pa.table(
        {
            "first_row": [span.first for span in spans],
            "next_row": [*(span.first for span in spans[1:]), _BEYOND],
            "begins": [f"{span.path.name}, {span.unit} " for span in spans],
            "shift": [_shift(span) for span in spans],
        }
    )
    connection.register("spans_made", made)
    connection.execute("CREATE OR REPLACE TABLE spans AS FROM spans_made")
    connection.unregister("spans_made")
    return f"""
        SELECT reason, begins || ({row} + shift) AS source_row, written
        FROM ({problems}) JOIN spans ON {row} >= first_row AND {row} < next_row
        ORDER BY {row}
    """


def _shift(span: FileSpan) -> int:
    """Return what is added to the number of a row in the source for that in its file."""
    return span.before + 1 - span.first
