"""Feeders from files: the two that come with the package, CSV tables, MATPOWER cases.

>>> feeder = read_feeder("case141")
>>> feeder.buses, feeder.radial, round(feeder.nominal_kw.sum())
(141, True, 11945)
"""

import csv
import math
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np

from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.grid.matpower import read_matpower
from wattveil.grid.network import Feeder, Floats

BUILT_IN = ("case141", "ieee123")

_BUSES, _BRANCHES = "buses.csv", "branches.csv"
_BUS_COLUMNS = ("bus", "base_kv", "slack_pu", "p_kw", "q_kvar")
_MORE_BUS_COLUMNS = ("cap_kvar",)
_BRANCH_COLUMNS = ("from_bus", "to_bus", "r_ohm", "x_ohm")
_MORE_BRANCH_COLUMNS = ("b_us", "rated_a")

Row = Mapping[str, str]


def read_feeder(source: str | Path) -> Feeder:
    """Read a feeder, and refuse what is none.

    Parameters
    ----------
    source
        ``"case141"`` or ``"ieee123"``, which come with the package; a folder with ``buses.csv``
        (columns bus, base_kv, slack_pu, p_kw, q_kvar and, if wanted, cap_kvar; slack_pu has a value
        in one row) and ``branches.csv`` (from_bus, to_bus, r_ohm, x_ohm, b_us, rated_a; the last
        two may be missing); or a MATPOWER case file, ``.m``.
    """
    if source in BUILT_IN:
        return _read_folder(Path(str(files("wattveil.grid") / "data" / str(source))))
    path = Path(source)
    if path.suffix == ".m" and path.is_file():
        return read_matpower(path)
    if path.is_dir():
        return _read_folder(path)
    rule = f"one of {list(BUILT_IN)}, a folder with {_BUSES} and {_BRANCHES}, or a .m file"
    raise InvalidParameterError("feeder", rule, str(source))


def _read_folder(folder: Path) -> Feeder:
    bus_file, branch_file = folder / _BUSES, folder / _BRANCHES
    buses = _rows(bus_file, _BUS_COLUMNS, _MORE_BUS_COLUMNS)
    branches = _rows(branch_file, _BRANCH_COLUMNS, _MORE_BRANCH_COLUMNS)
    held_pu = _numbers(bus_file, buses, "slack_pu", math.nan)
    held = np.flatnonzero(~np.isnan(held_pu))
    if held.size != 1:
        raise InvalidFileError(bus_file, "column slack_pu", "a value in one row", held.size)
    levels = np.unique(_numbers(bus_file, buses, "base_kv", math.nan))
    if levels.size != 1:
        expected = "one voltage level in every row"
        raise InvalidFileError(bus_file, "column base_kv", expected, levels.tolist())
    names = tuple(row["bus"].strip() for row in buses)
    position = {name: number for number, name in enumerate(names)}
    ends = {}
    for column in ("from_bus", "to_bus"):
        for number, row in enumerate(branches):
            if row[column].strip() not in position:
                where = f"line {number + 2}, column {column}"
                raise InvalidFileError(branch_file, where, f"a bus of {_BUSES}", row[column])
        ends[column] = np.array([position[row[column].strip()] for row in branches], np.int64)
    try:
        return Feeder(
            name=folder.name,
            base_kv=float(levels[0]),
            bus_names=names,
            slack=int(held[0]),
            slack_pu=float(held_pu[held[0]]),
            nominal_kw=_numbers(bus_file, buses, "p_kw", 0.0),
            nominal_kvar=_numbers(bus_file, buses, "q_kvar", 0.0),
            capacitor_kvar=_numbers(bus_file, buses, "cap_kvar", 0.0),
            r_ohm=_numbers(branch_file, branches, "r_ohm", math.nan),
            x_ohm=_numbers(branch_file, branches, "x_ohm", math.nan),
            b_us=_numbers(branch_file, branches, "b_us", 0.0),
            rated_a=_numbers(branch_file, branches, "rated_a", math.nan),
            **ends,
        )
    except InvalidParameterError as error:
        raise InvalidFileError(folder, error.field, error.rule, error.value) from error


def _rows(path: Path, needed: Sequence[str], allowed: Collection[str]) -> list[Row]:
    """Return the rows of a table that has the columns of a feeder and no others."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.DictReader(file, restval="")
            columns = table.fieldnames or ()
            rows: list[Row] = list(table)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidFileError(path, "content", "a CSV table", str(error)) from error
    for column in needed:
        if column not in columns:
            raise InvalidFileError(path, "header", f"a column {column}", list(columns))
    for column in columns:
        if column not in needed and column not in allowed:
            expected = f"columns {[*needed, *allowed]} alone"
            raise InvalidFileError(path, "header", expected, column)
    for number, row in enumerate(rows):
        if None in row:  # where DictReader keeps the cells that have no column
            raise InvalidFileError(path, f"line {number + 2}", f"{len(columns)} cells", "more")
    if not rows:
        raise InvalidFileError(path, "content", "at least one row", 0)
    return rows


def _numbers(path: Path, rows: Sequence[Row], column: str, empty: float) -> Floats:
    """Return a column of numbers; ``empty`` stands for a cell or a column that is not there."""
    values = np.full(len(rows), empty)
    for number, row in enumerate(rows):
        text = row.get(column, "").strip()
        if text:
            try:
                values[number] = float(text)
            except ValueError as error:
                where = f"line {number + 2}, column {column}"
                raise InvalidFileError(path, where, "a number", text) from error
    return values
