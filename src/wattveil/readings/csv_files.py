"""CSV files: the header below a letterhead, and the scan of files, whose columns match by name."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from wattveil.errors import InvalidFileError
from wattveil.readings.sources import Scan, compression_of, head_of
from wattveil.readings.sql_text import ident, literal, paths

_MAX_LETTERHEAD, _FOLLOWING = 80, 5  # lines
_DELIMITERS = ",;\t|"
_EXCEL_FIRST = re.compile(r'"?sep=.?"?\s*', re.IGNORECASE)


READ_SEPARATELY = (
    "Read the files of each format separately, in Python with"
    " read_readings(FILES).write_parquet(…); what it writes can be read together"
)


def scan_csv(files: list[Path], *, skip_lines: int) -> Scan:
    """Describe CSV files with one header for all; every field stays text until it is checked."""
    headers = csv_headers(files, skip_lines=skip_lines)
    for path, names in headers.items():
        if names != headers[files[0]]:
            told = (path, "header", f"the header of {files[0]}", ", ".join(names)[:200])
            raise InvalidFileError(*told, remedy=READ_SEPARATELY)
    return scan_by_name(headers, skip_lines=skip_lines)


def csv_headers(files: list[Path], *, skip_lines: int) -> dict[Path, list[str]]:
    """Return the column names of each file; place and delimiter of the headers must be the same."""
    found = {path: find_header(path, skip_lines) for path in files}
    line, delimiter, _ = found[files[0]]
    for path, (own_line, own_delimiter, names) in found.items():
        if (own_line, own_delimiter) != (line, delimiter):
            expected = f"a header in line {line + 1} with {delimiter!r} between columns, as in"
            told = (
                f"line {own_line + 1}",
                f"{expected} {files[0]}",
                own_delimiter.join(names)[:200],
            )
            raise InvalidFileError(path, *told, remedy=READ_SEPARATELY)
    return {path: names for path, (_, _, names) in found.items()}


def scan_by_name(headers: Mapping[Path, list[str]], *, skip_lines: int) -> Scan:
    """Describe CSV files as one table with the columns of the first file, matched by name.

    Columns that another file lacks are empty there, and its additional ones are not read: the
    caller must have checked that they have no role.
    """
    files = list(headers)
    names = headers[files[0]]
    line, delimiter, _ = find_header(files[0], skip_lines)
    compressions = {compression_of(path) for path in files}
    if len(compressions) > 1:
        raise InvalidFileError(
            files[0], "source", "files compressed all in one way", "several ways"
        )
    compression = compressions.pop()

    def call(some: Sequence[Path]) -> str:
        return (
            f"read_csv({paths(some)}, auto_detect = false, header = true,"
            f" skip = {line}, delim = {literal(delimiter)}, quote = '\"', escape = '\"',"
            f" compression = '{compression}'"
        )

    types = dict.fromkeys(names, "VARCHAR")
    if all(own == names for own in headers.values()):
        sql = f"{call(files)}, columns = {_struct(types)})"
        return Scan(sql, types, csv_call=call(files), lines_before=line + 1)
    if "filename" in {name.lower() for name in names}:  # taken by the name of the file of a row
        expected = f"the header of {files[0]}, which has a column `filename`"
        other = next(path for path, own in headers.items() if own != names)
        raise InvalidFileError(other, "header", expected, ", ".join(headers[other])[:200])
    parts = []
    for own, run in groupby(files, key=headers.__getitem__):  # in the order of the files
        places = {name: f"c{place}" for place, name in enumerate(own)}
        columns = ", ".join(
            f"{places.get(name, 'NULL::VARCHAR')} AS {ident(name)}" for name in names
        )
        texts = _struct(dict.fromkeys(places.values(), "VARCHAR"))
        table = f"{call(list(run))}, columns = {texts}, filename = true)"
        parts.append(f"SELECT {columns}, filename FROM {table}")
    return Scan(f"({' UNION ALL '.join(parts)})", types, lines_before=line + 1)


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
