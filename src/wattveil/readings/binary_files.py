"""Files that are no tables, by their first bytes: binary files, with their names, and notes."""

import re
from collections import Counter

_BINARY_BYTES = 4_096
_NAMES = {
    b"PK\x03\x04": "a ZIP archive or XLSX workbook",
    b"\xd0\xcf\x11\xe0": "an XLS workbook",
    b"\x89HDF\r\n\x1a\n": "HDF5",
    b"SQLite format 3\0": "a SQLite database (duckdb:/// and sqlite:/// take a query)",
    b"BZh": "bzip2",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a RAR archive",
    b"%PDF": "PDF",
    b"ARROW1": "Arrow",
    b"MATLAB": "MATLAB",
}
_MIN_ROWS = 2
_CELLS = re.compile(r"[,;|\t]")
_NUMBERS = re.compile(r"[-\d.:/\s]+")  # separated by blanks
_NUMBER = re.compile(r"""[\s"'=]*[-+]?\d[\d.,:/ T+-]*(k?wh)?["'\s]*""", re.IGNORECASE)


def binary_name(start: bytes) -> str | None:
    """Return what a binary file is; None if it may be text."""
    for magic, name in _NAMES.items():
        if start.startswith(magic):
            return name
    return "a binary file" if b"\0" in start[:_BINARY_BYTES] else None


def is_prose(start: bytes) -> bool:
    """Return whether a file is a text without a table, such as a note beside meter data.

    A table has several lines with a number or a date in one of their cells, all as many.
    """
    if b"\0" in start or start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in {b"<", b"{", b"["}:
        return False
    rows: Counter[int] = Counter()
    for line in start.decode("latin-1").splitlines():
        cells = line.split() if _NUMBERS.fullmatch(line) else _CELLS.split(line)
        rows[len(cells)] += any(map(_NUMBER.fullmatch, cells[1:]))
    return max(rows.values(), default=0) < _MIN_ROWS
