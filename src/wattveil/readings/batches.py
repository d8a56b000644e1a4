"""Batches of the one table that every streaming reader makes, and the sink for what is left out.

A reader yields record batches of `READINGS_SCHEMA`, of about `BATCH_ROWS` rows each. A reading that
the file marks as missing has the quality ``missing`` and no kwh.
"""

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from wattveil.readings.schema import READINGS_SCHEMA

BATCH_ROWS = 65_536
MAX_MINUTES = 1440
NOTE = "noted: "


class ProblemSink(Protocol):
    """Receiver of every reading that a reader omits or changes."""

    def count(self, reason: str, where: str, row: Mapping[str, object] | None = None) -> None:
        """Count one problem.

        Parameters
        ----------
        reason
            Reason, the same text for all problems of the kind.
        where
            Line of the file.
        row
            The reading that was left out or merged into another. Without one, the problem is a
            remark about the file (its reason starts with `NOTE`) and no reading is lost, so that
            readings in the file = rows yielded + problems counted with a row.
        """


class BatchBuilder:
    """Gathers rows into record batches of `READINGS_SCHEMA`."""

    def __init__(self) -> None:
        self._customer_ids: list[str] = []
        self._starts_us: list[int] = []
        self._minutes: list[int] = []
        self._kwh: list[float | None] = []
        self._channels: list[str] = []
        self._qualities: list[str] = []

    def __len__(self) -> int:
        """Count the rows gathered so far."""
        return len(self._kwh)

    @property
    def full(self) -> bool:
        """Whether it is time to `take`."""
        return len(self._kwh) >= BATCH_ROWS

    def add(  # noqa: PLR0917 -- one argument per column; called once per reading
        self,
        customer_id: str,
        start_us: int,
        minutes: int,
        kwh: float | None,
        channel: str,
        quality: str,
    ) -> None:
        """Add one row."""
        self._customer_ids.append(customer_id)
        self._starts_us.append(start_us)
        self._minutes.append(minutes)
        self._kwh.append(kwh)
        self._channels.append(channel)
        self._qualities.append(quality)

    def add_run(
        self,
        *,
        customer_id: str,
        first_start_us: int,
        minutes: int,
        kwh: Sequence[float | None],
        channel: str,
        qualities: Sequence[str],
    ) -> None:
        """Add rows that follow one another without a gap."""
        step_us = minutes * 60_000_000
        count = len(kwh)
        self._customer_ids.extend([customer_id] * count)
        self._starts_us.extend(first_start_us + step_us * i for i in range(count))
        self._minutes.extend([minutes] * count)
        self._kwh.extend(kwh)
        self._channels.extend([channel] * count)
        self._qualities.extend(qualities)

    def take(self) -> pa.RecordBatch:
        """Hand over the rows gathered so far and start anew."""
        columns = (
            self._customer_ids,
            self._starts_us,
            self._minutes,
            self._kwh,
            self._channels,
            self._qualities,
        )
        arrays = [
            pa.array(column, type=field.type)
            for column, field in zip(columns, READINGS_SCHEMA, strict=True)
        ]
        for column in columns:
            column.clear()
        return pa.RecordBatch.from_arrays(arrays, schema=READINGS_SCHEMA)


class ProblemLog:
    """Log of the readings that the streaming readers (Green Button, NEM12) omit.

    ``count`` is called once per problem: with the omitted row, or without one for a remark about
    the file. Rows go to a file at once, so that a bad file does not fill the memory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.dropped: Counter[str] = Counter()
        self.notes: Counter[str] = Counter()
        self.staged: list[str] = []  # SELECTs of reason, row, written: left out by a known format
        self._file = path.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file)
        self._writer.writerow(("reason", "source_row", "written"))

    def count(self, reason: str, where: str, row: Mapping[str, object] | None = None) -> None:
        """Count one problem."""
        if row is None:
            self.notes[reason.removeprefix(NOTE)] += 1
            return
        self.dropped[reason] += 1
        self._writer.writerow(
            (reason, where, ", ".join(str(value) for value in row.values() if value is not None))
        )

    def close(self) -> None:
        """Finish the file."""
        self._file.close()
