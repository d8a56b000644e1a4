"""Columns of several files that are read as one table: matched by name, in any order.

A file may lack columns of the first file, or have others, if none of them has a role: the columns
of customer, time stamp, value and their descriptions must be the same in every file, as each file
would be read alone.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from wattveil.errors import InvalidFileError
from wattveil.readings.formats.table_columns import FoundLayout, find_layout
from wattveil.readings.options import UNREAD, ReadOptions

_REMEDY = (
    "Name the columns of all files in the same way, or read the files separately, in Python with"
    " read_readings(FILE).write_parquet(…); what it writes can be read together"
)


def match_columns(headers: Mapping[Path, list[str]], options: ReadOptions) -> tuple[str, ...]:
    """Check that files with other columns than the first are read alike; return what is not read.

    Raises
    ------
    InvalidFileError
        A file lacks a column that is needed, or another column of it has a role.

    Parameters
    ----------
    headers
        Column names of each file, in the order of the files.
    """
    (first, names), *others = headers.items()
    checked, notes = {frozenset(names)}, []
    due: FoundLayout | None = None
    for path, own in others:
        if frozenset(own) in checked:
            continue
        checked.add(frozenset(own))
        due = due or find_layout(names, options, path=first)
        found = find_layout(own, options, path=path)
        for role, column in _roles(found).items():
            if (expected := _roles(due).get(role)) != column:
                rule = f"{role} {_shown(expected)}, as in {first}"
                raise InvalidFileError(path, "header", rule, _shown(column), remedy=_REMEDY)
        unread = [one for one in found.assumptions if one.startswith(UNREAD)]
        notes += [f"{one} (in {path.name})" for one in unread if one not in due.assumptions]
    return tuple(notes)


def _roles(found: FoundLayout) -> dict[str, object]:
    """Return what the names of columns determine, by role."""
    own = {"layout": type(found.table).__name__, **asdict(found.table)}
    rest = {"unit": found.unit.value, "time stamp": found.stamp.value}
    return {**own, **rest, "column of units": found.unit_column}


def _shown(column: object) -> str:
    """Return a column, or several, in words."""
    if column is None:
        return "no column"
    return ", ".join(map(repr, column))[:200] if isinstance(column, tuple) else repr(column)
