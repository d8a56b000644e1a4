"""Excel workbooks: the sheet of readings as CSV text that says exactly what the cells hold.

Dates and times are written in ISO form, numbers with a decimal point and all their digits, whatever
the format of the cell or the language of the program. Row n of the sheet is line n of the text.
"""

import csv
import datetime as dt
import io
import re
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO

from wattveil.archives import BROKEN_ZIP, UnsafeArchiveError, checked_members, member_chunks
from wattveil.errors import InvalidFileError, MissingExtraError, WattveilError

_MAX_PARTS = 10_000
_MAX_BYTES = 1 << 30
_MAX_CELLS = 50_000_000
_EXACT = 10**15  # Excel keeps 15 digits of a number
_NEAR = dt.timedelta(milliseconds=50)  # stamps made by adding 1/96 of a day drift
_SECOND = dt.timedelta(seconds=1)
_INSPECTED_ROWS = 200
_MIN_READINGS = 3  # rows of a sheet that look like readings
_CELL = re.compile(rb"""\br\s*=\s*["']([A-Z]{1,3})(\d{1,7})["']""")
_OVERLAP = 32  # bytes of a cell's address that a chunk may cut
_DATE_TEXT = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
_NUMBER_TEXT = re.compile(r"\s*-?\d*[.,]?\d+\s*")
_SHOWN_SHEETS = 10

_Cell = str | float | bool | dt.datetime | dt.time | dt.timedelta | None


@dataclass(frozen=True)
class _Sheet:
    """A sheet, whose rows can be read more than once."""

    name: str
    rows: Callable[[], Iterator[Sequence[_Cell]]]


def workbook_sheet(path: Path, table: str | None) -> Iterator[bytes]:
    """Yield the sheet of readings as CSV text in UTF-8.

    Parameters
    ----------
    path
        XLSX or XLS file.
    table
        Name of the sheet; the only one that looks like readings if it is left out.
    """
    try:
        with path.open("rb") as file:
            if zipfile.is_zipfile(file):
                _check_size(path)
                sheets = _xlsx_sheets(file)
            else:
                sheets = _xls_sheets(path)
            yield from _as_csv(_chosen(sheets, path, table), path)
    except ImportError as error:
        raise MissingExtraError(f"{path.name}: reading Excel workbooks", "excel") from error
    except WattveilError:
        raise
    except Exception as error:  # a broken file breaks the libraries in many ways
        expected = "a complete workbook without a password"
        raise InvalidFileError(path, "workbook", expected, str(error)[:300]) from error


def _xlsx_sheets(file: BinaryIO) -> list[_Sheet]:
    import openpyxl  # noqa: PLC0415 -- an extra, needed only here

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
    if lost := [str(one.message) for one in said if "invalid" in str(one.message)]:
        raise ValueError(lost[0])  # a sheet may be left out
    # On what has no meaning for the cells: checks of input, formats by condition.
    warnings.filterwarnings("ignore", module=r"openpyxl\.worksheet")

    def rows_of(name: str) -> Callable[[], Iterator[Sequence[_Cell]]]:
        sheet = book[name]
        sheet.reset_dimensions()  # some programs state them wrongly
        return lambda: sheet.iter_rows(values_only=True)

    return [_Sheet(sheet.title, rows_of(sheet.title)) for sheet in book.worksheets]


def _xls_sheets(path: Path) -> list[_Sheet]:
    import xlrd  # noqa: PLC0415 -- an extra, needed only here

    book = xlrd.open_workbook(path, logfile=io.StringIO(), on_demand=True, ragged_rows=True)

    def cell(value: str | float, kind: int) -> _Cell:
        if kind == xlrd.XL_CELL_DATE and isinstance(value, float):
            return _stamp(value, xlrd.xldate_as_datetime(value, book.datemode))
        if kind == xlrd.XL_CELL_BOOLEAN:
            return bool(value)
        if kind == xlrd.XL_CELL_ERROR:
            return "#N/A"
        return value

    def rows_of(name: str) -> Callable[[], Iterator[Sequence[_Cell]]]:
        sheet = book.sheet_by_name(name)
        return lambda: (
            [
                cell(value, kind)
                for value, kind in zip(sheet.row_values(n), sheet.row_types(n), strict=True)
            ]
            for n in range(sheet.nrows)
        )

    return [_Sheet(name, rows_of(name)) for name in book.sheet_names()]


def _stamp(serial: float, stamp: dt.datetime) -> dt.datetime | dt.time:
    """Return the time of a day where a number of days has no whole part."""
    return stamp if serial >= 1 else stamp.time()


def _check_size(path: Path) -> None:
    """Refuse an XLSX file whose sheets expand to more than memory should hold."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts = checked_members(archive, max_files=_MAX_PARTS, max_bytes=_MAX_BYTES)
            for part in parts:
                if part.filename.startswith("xl/") and part.filename.endswith(".xml"):
                    _check_grid(path, part.filename, member_chunks(archive, part))
    except UnsafeArchiveError as error:
        raise InvalidFileError(
            path, "workbook", f"a file with {error}", "a different file"
        ) from error
    except BROKEN_ZIP as error:
        if isinstance(error, InvalidFileError):
            raise
        raise InvalidFileError(path, "workbook", "a complete file", str(error)) from error


def _check_grid(path: Path, name: str, content: Iterable[bytes]) -> None:
    """Bound rows by columns: one cell in the last corner makes a grid of 17 billion."""
    rows = columns = 1
    rest = b""
    for chunk in content:
        for letters, number in _CELL.findall(rest + chunk):
            rows = max(rows, int(number))
            columns = max(columns, _column(letters))
        rest = chunk[-_OVERLAP:]
    if rows * columns > _MAX_CELLS:
        expected = f"a sheet of at most {_MAX_CELLS:,} cells, or the sheet as CSV"
        raise InvalidFileError(path, name, expected, f"{rows:,} rows by {columns:,} columns")


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - ord("A") + 1
    return number


def _chosen(sheets: list[_Sheet], path: Path, table: str | None) -> _Sheet:
    """Return the sheet of readings."""
    shown = [sheet.name for sheet in sheets[:_SHOWN_SHEETS]]
    if table is not None:
        named = [sheet for sheet in sheets if sheet.name == table]
        if not named:
            raise InvalidFileError(path, "sheets", f"a sheet {table!r}", shown)
        return named[0]
    likely = [sheet for sheet in sheets if _looks_like_readings(sheet)]
    if not likely:
        likely = [sheet for sheet in sheets if any(_filled(row) for row in sheet.rows())]
    if len(likely) != 1:
        raise InvalidFileError(path, "sheets", "one sheet of readings, or table=…", shown)
    return likely[0]


def _filled(row: Sequence[_Cell]) -> bool:
    return any(cell not in {None, ""} for cell in row)


def _looks_like_readings(sheet: _Sheet) -> bool:
    """Return whether rows at the top hold a date and a number each."""
    found = 0
    for number, row in enumerate(sheet.rows()):
        dated = any(
            isinstance(cell, dt.date) or (isinstance(cell, str) and _DATE_TEXT.search(cell))
            for cell in row
        )
        found += dated and any(_is_number(cell) for cell in row)
        if found == _MIN_READINGS or number == _INSPECTED_ROWS:
            break
    return found == _MIN_READINGS


def _is_number(cell: _Cell) -> bool:
    if isinstance(cell, str):
        return _NUMBER_TEXT.fullmatch(cell) is not None
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


def _as_csv(sheet: _Sheet, path: Path) -> Iterator[bytes]:
    """Write the rows. A column is of stamps if one of them is no midnight, else of dates."""
    stamped: set[int] = set()
    seconds: set[int] = set()
    width = 0
    for row in sheet.rows():
        width = max(width, len(row))
        for column, cell in enumerate(row):
            if isinstance(cell, dt.datetime):
                if _whole_second(cell).time() != dt.time():
                    stamped.add(column)
            elif isinstance(cell, (dt.time, dt.timedelta)) and _rounded(cell) % (60 * _SECOND):
                seconds.add(column)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for number, row in enumerate(sheet.rows(), start=1):
        texts = [
            _text(cell, at=(path, number, column), stamped=stamped, seconds=seconds)
            for column, cell in enumerate(row)
        ]
        # An empty row is an empty line, so that rows keep their numbers.
        writer.writerow([*texts, *[""] * (width - len(texts))] if any(texts) else [])
        yield buffer.getvalue().encode()
        buffer.seek(0)
        buffer.truncate()


def _text(cell: _Cell, *, at: tuple[Path, int, int], stamped: set[int], seconds: set[int]) -> str:
    column = at[2]
    match cell:
        case None:
            return ""
        case bool():
            return str(cell).lower()
        case int() | float():
            return _number(cell, at)
        case dt.datetime():
            stamp = _whole_second(cell)
            return stamp.isoformat(sep=" ") if column in stamped else stamp.date().isoformat()
        case dt.time() | dt.timedelta():
            return _clock(cell, seconds=column in seconds)
        case _:
            return str(cell)


def _number(value: float, at: tuple[Path, int, int]) -> str:
    """Write all digits, without an exponent."""
    if abs(value) >= _EXACT:
        path, row, column = at
        where = f"row {row}, column {column + 1}"
        expected = "meter numbers stored as text: Excel keeps 15 digits of a number"
        raise InvalidFileError(path, where, expected, value)
    return f"{int(value)}" if value == int(value) else f"{Decimal(repr(value)):f}"


def _whole_second(stamp: dt.datetime) -> dt.datetime:
    """Undo the rounding of days with fractions."""
    nearest = (stamp + _SECOND / 2).replace(microsecond=0)
    return nearest if abs(nearest - stamp) <= _NEAR else stamp


def _rounded(value: dt.time | dt.timedelta) -> dt.timedelta:
    """Return the time since midnight, or a duration, to the second where it is near one."""
    if isinstance(value, dt.time):
        value = dt.timedelta(
            hours=value.hour,
            minutes=value.minute,
            seconds=value.second,
            microseconds=value.microsecond,
        )
    nearest = _SECOND * round(value / _SECOND)
    return nearest if abs(nearest - value) <= _NEAR else value


def _clock(value: dt.time | dt.timedelta, *, seconds: bool) -> str:
    """Write hours and minutes, and seconds where the column has them; 24:00 is an end of a day."""
    elapsed = _rounded(value)
    hours, rest = divmod(elapsed, dt.timedelta(hours=1))
    minutes, rest = divmod(rest, dt.timedelta(minutes=1))
    text = f"{hours:02}:{minutes:02}"
    return f"{text}:{rest / _SECOND:02.0f}" if seconds else text
