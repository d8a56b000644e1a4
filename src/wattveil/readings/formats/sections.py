"""Exports in sections: one heading and one block of ``start to end, usage`` per day or direction.

Southern California Edison and cooperatives on NISC software write such files. A heading may name
the direction. If it does not, the signs of the section's values do: values of both signs are net,
values of at most 0 are received. A net section supersedes the two it is made of.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa

from wattveil.errors import InvalidFileError
from wattveil.readings.formats.table_columns import plain_name
from wattveil.readings.row_positions import ROW_COLUMN
from wattveil.readings.sources import lines

SECTIONED = "SCE and NISC interval text"
SECTIONED_HEAD = re.compile(
    r"(?im)^\W*(?:energy\W+(?:\w+\W+)?time period|interval block ?data for period)"
)
_TITLE = re.compile(r"(?i)energy\W+(\w+)?\W*time period\b.*?usage")
_ROW = re.compile(
    r"^\s*\"?(\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?)\W*to\W*"
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?)"
)
_CUSTOMER = re.compile(r"(?i)^\W*for(?: account| meter)?\s*:\s*([A-Z0-9-]{4,})\s*,*$")
_UNIT = re.compile(r"(?i)real energy in ([a-z]+-?[a-z]*)|\((k?wh)\)")
_BATCH_ROWS = 65_536
_MAX_LENGTH = timedelta(days=1)
SCHEMA = pa.schema(
    [
        ("customer", pa.string()),
        ("stamp", pa.timestamp("us")),
        ("minutes", pa.int16()),
        ("value", pa.float64()),
        ("unreadable", pa.string()),
        ("channel", pa.string()),
        ("quality", pa.string()),
        ("register", pa.string()),
        (ROW_COLUMN, pa.int64()),
    ]
)


@dataclass
class _Section:
    """One block of rows: its direction by its heading, and the range of its values."""

    named: str = ""
    lowest: float = 0.0
    highest: float = 0.0

    @property
    def channel(self) -> str:
        if self.named:
            return self.named
        if self.lowest < 0 < self.highest:
            return "net"
        return "received" if self.lowest < 0 else "delivered"


@dataclass(frozen=True)
class _Row:
    section: int
    line: int
    start: datetime
    end: datetime
    text: str
    value: float | None
    quality: str


def section_batches(
    path: Path, customer: str, home: str, *, rows_before: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in sections, in the columns of a staged table.

    Parameters
    ----------
    path
        The file.
    customer
        Its customer, as the caller states it; if empty, as the file does.
    home
        Name of its home, if neither does.
    rows_before
        Lines of the files before this one.
    """
    sections: list[_Section] = []
    for row in _rows(path, sections):
        if isinstance(row, str):
            customer = customer or row
        elif row.value is not None:
            own = sections[row.section]
            own.lowest, own.highest = min(own.lowest, row.value), max(own.highest, row.value)
    by_values = [own.channel for own in sections if not own.named]
    if by_values.count("net") > 1:  # a damaged value may have another sign than its section
        expected = "at most one section without a stated direction that has values of both signs"
        raise InvalidFileError(path, "sections", expected, ", ".join(by_values))
    customer = customer or home
    held: list[tuple[object, ...]] = []
    seen: list[_Section] = []
    for row in _rows(path, seen):
        if isinstance(row, str):
            continue
        minutes = round((row.end - row.start).total_seconds() / 60)
        unreadable = row.text if row.value is None and row.text else None
        channel = sections[row.section].channel
        own_row = (customer, row.start, minutes, row.value, unreadable, channel, row.quality, "")
        held.append((*own_row, rows_before + row.line))
        if len(held) >= _BATCH_ROWS:
            yield _batch(held)
            held.clear()
    if held:
        yield _batch(held)


def _batch(rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _rows(path: Path, sections: list[_Section]) -> Iterator[_Row | str]:
    """Yield the rows, and the customer where the file names it; collect the sections."""
    for number, raw in lines(path):
        line = raw.decode("utf-8-sig" if number == 1 else "utf-8", errors="replace")
        line = line.replace("\u00a0", " ")
        if found := _ROW.match(line):
            if not sections:
                sections.append(_Section())
            yield _row(path, number, line, found, len(sections) - 1)
        elif found := _TITLE.search(line):
            sections.append(_Section(_direction(found[1])))
            _check_unit(path, number, line)
        elif found := _CUSTOMER.match(line):
            yield found[1]


def _row(path: Path, number: int, line: str, found: "re.Match[str]", section: int) -> _Row:
    try:
        cells = [cell.strip() for cell in next(csv.reader([line]))]
    except csv.Error as error:
        raise InvalidFileError(path, f"line {number}", "cells of CSV", line[:80]) from error
    text = cells[1] if len(cells) > 1 else ""
    try:
        start, end = (datetime.fromisoformat(found[place]) for place in (1, 2))
    except ValueError as error:
        raise InvalidFileError(path, f"line {number}", "two time stamps", line[:80]) from error
    if abs(end - start) > _MAX_LENGTH:  # clocks that go back make an interval end before it starts
        raise InvalidFileError(path, f"line {number}", "an interval of at most a day", line[:80])
    try:
        value = float(text) if text else None
    except ValueError:
        value = None
    quality = next(iter(cells[2:3]), "")
    estimated = plain_name(quality) in {"estimated", "e", "est"}
    return _Row(section, number, start, end, text, value, "estimated" if estimated else "valid")


def _direction(word: str | None) -> str:
    return {"delivered": "delivered", "received": "received", "net": "net"}.get(
        (word or "").lower(), ""
    )


def _check_unit(path: Path, number: int, line: str) -> None:
    found = _UNIT.search(line)
    name = plain_name((found[1] or found[2]) if found else "")
    if name in {"", "kilowatt_hours", "kwh"}:
        return
    raise InvalidFileError(path, f"line {number}", "usage in kilowatt-hours", line[:120])
