"""Profiles from several files or from a query, as one file that does not change.

What is counted in a budget must stay what it is: a folder that grows or a database that is written
is read once, and never again.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from wattveil import checks
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.ingest.databases import spill_query
from wattveil.profiles import Grid, Profiles, Split

_ID = "customer_id"


def gather_profiles(sources: Sequence[Path]) -> Profiles:
    """Return the profiles of files, and of all Parquet files in folders, as one table.

    They must be of one kind: grid, time zone, rules and attributes.
    """
    files = [file for source in sources for file in _files(source)]
    parts = [Profiles.read_parquet(file) for file in files]
    first = parts[0]
    for file, part in zip(files, parts, strict=True):
        for field in ("grid", "timezone", "rules"):
            if (found := getattr(part, field)) != (due := getattr(first, field)):
                raise InvalidFileError(file, field, f"{due}, as in {files[0]}", str(found))
        if part.attributes.keys() != first.attributes.keys():
            due = f"{[*first.attributes]}, as in {files[0]}"
            raise InvalidFileError(file, "attributes", due, str([*part.attributes]))
    return Profiles(
        customer_ids=tuple(name for part in parts for name in part.customer_ids),
        load_kw=np.concatenate([part.load_kw for part in parts]),
        grid=first.grid,
        timezone=first.timezone,
        attributes={
            name: tuple(value for part in parts for value in part.attributes[name])
            for name in first.attributes
        },
        rules=first.rules,
    )


def query_profiles(
    database: str, query: str, *, timezone: str, minutes: int, split: str
) -> Profiles:
    """Return profiles that a query yields, a row a customer.

    Its columns are ``customer_id``, ``kw_1`` to ``kw_d`` in the order of the grid, and attributes.
    """
    grid = Grid(minutes=minutes, split=checks.enum_value("split", split, Split))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "rows.parquet"
        spill_query(database, query, target)
        rows = pq.read_table(target).to_pydict()
    loads = [f"kw_{number}" for number in range(1, grid.columns + 1)]
    if missing := [name for name in (_ID, *loads) if name not in rows]:
        rule = f"one with columns {_ID} and kw_1 to kw_{grid.columns}"
        raise InvalidParameterError("sql", rule, f"without {missing[0]}")
    attributes = [name for name in rows if name not in {_ID, *loads}]
    return Profiles(
        customer_ids=tuple(map(str, rows[_ID])),
        load_kw=np.array([_numbers(name, rows[name]) for name in loads]).T.reshape(-1, len(loads)),
        grid=grid,
        timezone=timezone,
        attributes={name: tuple(map(_text, rows[name])) for name in attributes},
    )


def keep_profiles(profiles: Profiles, out: Path) -> None:
    """Write profiles to a new file, for its owner alone."""
    try:
        out.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        rule = "a new file: what is registered must stay what it is"
        raise InvalidParameterError("name", rule, out.name) from None
    try:
        profiles.write_parquet(out)
    except BaseException:
        out.unlink()
        raise


def _files(source: Path) -> list[Path]:
    found = sorted(source.rglob("*.parquet")) if source.is_dir() else [source]
    if not found:
        raise InvalidFileError(source, "folder", "Parquet files of `wattveil profiles`", "none")
    return found


def _numbers(name: str, values: Sequence[object]) -> list[float]:
    """Read a column; what is no number is refused, and not repeated."""
    try:
        return [float(str(value)) for value in values]
    except ValueError:
        raise InvalidParameterError("sql", f"one whose {name} is a number", "another") from None


def _text(value: object) -> str | None:
    return None if value is None else str(value)
