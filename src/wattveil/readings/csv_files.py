"""CSV files: the header below a letterhead, and the scan of files with one header."""

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

from wattveil.errors import InvalidFileError
from wattveil.readings.sources import Scan, compression_of, head_of
from wattveil.readings.sql_text import literal, paths

_MAX_LETTERHEAD, _FOLLOWING = 80, 5  # lines
_DELIMITERS = ",;\t|"
_EXCEL_FIRST = re.compile(r'"?sep=.?"?\s*', re.IGNORECASE)


def scan_csv(files: list[Path], *, skip_lines: int) -> Scan:
    """Describe CSV files with one header for all; every field stays text until it is checked."""
    line, delimiter, names = find_header(files[0], skip_lines)
    for path in files[1:]:
        if (header := find_header(path, skip_lines)) != (line, delimiter, names):
            found = header[1].join(header[2])
            told = (path, f"line {header[0] + 1}", f"the header of {files[0]}", found[:200])
            raise InvalidFileError(*told, remedy="Read files of different columns separately")
    compressions = {compression_of(path) for path in files}
    if len(compressions) > 1:
        raise InvalidFileError(
            files[0], "source", "files compressed all in one way", "several ways"
        )
    compression = compressions.pop()
    call = (
        f"read_csv({paths(files)}, auto_detect = false, header = true,"
        f" skip = {line}, delim = {literal(delimiter)}, quote = '\"', escape = '\"',"
        f" compression = '{compression}'"
    )
    types = dict.fromkeys(names, "VARCHAR")
    return Scan(f"{call}, columns = {_struct(types)})", types, csv_call=call, lines_before=line + 1)


def find_header(path: Path, skip_lines: int) -> tuple[int, str, list[str]]:
    """Return the lines before the header of a CSV file, its delimiter and its column names.

    The header is the first line, or below a letterhead the first line with as many cells as one of
    the lines after it. Cells without a name get their number.
    """
    lines = io.StringIO(head_of(path), newline=None).read().split("\n")
    line = skip_lines
    if not skip_lines:
        line = _header_line(lines[:_MAX_LETTERHEAD])
    where = f"line {line + 1}"
    if line >= len(lines) or not lines[line].strip():
        raise InvalidFileError(path, where, "a header with column names", "an empty line")
    header = lines[line]
    delimiter = max(_DELIMITERS, key=header.count)
    if delimiter not in header:
        raise InvalidFileError(path, where, "columns separated by , ; | or tab", header[:200])
    cells = [name.strip() for name in next(csv.reader([header], delimiter=delimiter))]
    names = [name or f"column {place}" for place, name in enumerate(cells, start=1)]
    if len({name.lower() for name in names}) < len(names) or not any(cells):
        raise InvalidFileError(path, where, "column names that differ", header[:200])
    return line, delimiter, names


def _header_line(lines: Sequence[str]) -> int:
    """Return the place of the first line that has as many cells as one of those after it."""
    filled = [(place, line) for place, line in enumerate(lines) if line.strip()]
    counts = [(place, max(map(line.count, _DELIMITERS))) for place, line in filled]
    for number, (place, count) in enumerate(counts):
        following = [other for _, other in counts[number + 1 : number + 1 + _FOLLOWING]]
        if count and (count in following or not following):
            cells = filled[number][1].strip(_DELIMITERS + " ")
            if any(sign in cells for sign in _DELIMITERS) and not _EXCEL_FIRST.fullmatch(cells):
                return place
    return filled[0][0] if filled else 0


def typed_csv(scan: Scan, types: dict[str, str]) -> str:
    """Write a scan of CSV files that fails on the first field that is not of its type."""
    return f"{scan.csv_call}, columns = {_struct({**scan.types, **types})})"


def _struct(types: dict[str, str]) -> str:
    return "{" + ", ".join(f"{literal(name)}: '{kind}'" for name, kind in types.items()) + "}"
