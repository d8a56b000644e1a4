"""`profiles_from_readings`: the average day of every customer that is covered well enough."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar, overload

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wattveil.errors import InvalidFileError
from wattveil.ingest.options import Estimated, ReadOptions
from wattveil.ingest.readings import Readings
from wattveil.ingest.schema import SPACES
from wattveil.ingest.sources import duckdb_reads
from wattveil.ingest.sql import ident, paths
from wattveil.profiles.account import ProfileAccount, ProfileRules
from wattveil.profiles.cells import Cells, make_cells
from wattveil.profiles.coverage import Averages, average
from wattveil.profiles.grid import Grid
from wattveil.profiles.table import Profiles

NO_USABLE_READING = "no usable reading"

_Kept = TypeVar("_Kept")
_Kept_co = TypeVar("_Kept_co", covariant=True)


@dataclass(frozen=True, repr=False)  # the default would print ids and loads
class ProfileBuild:
    """Profiles, with the account of how they came about; counts are exact, so in house only.

    ``averages`` holds every customer with a reading, those who were left out too, and ``kept`` says
    which of them have a profile.
    """

    profiles: Profiles
    account: ProfileAccount
    cells: Cells
    averages: Averages
    kept: NDArray[np.bool_]


class KeptReadings(Protocol[_Kept_co]):
    """Readings that an engine reads."""

    @property
    def options(self) -> ReadOptions:
        """How they are read."""

    def profiles(self, rules: ProfileRules, *, attributes: str | Path | None = None) -> _Kept_co:
        """Return their profiles, which the engine keeps."""


@overload
def profiles_from_readings(
    readings: Readings,
    *,
    grid: Grid | None = ...,
    timezone: str | None = ...,
    least_days: int = ...,
    longest_gap_hours: float | None = ...,
    attributes: str | Path | None = ...,
) -> Profiles: ...


@overload
def profiles_from_readings(
    readings: KeptReadings[_Kept],
    *,
    grid: Grid | None = ...,
    timezone: str | None = ...,
    least_days: int = ...,
    longest_gap_hours: float | None = ...,
    attributes: str | Path | None = ...,
) -> _Kept: ...


def profiles_from_readings(
    readings: Readings | KeptReadings[_Kept],
    *,
    grid: Grid | None = None,
    timezone: str | None = None,
    least_days: int = 14,
    longest_gap_hours: float | None = None,
    attributes: str | Path | None = None,
) -> Profiles | _Kept:
    """Average the readings of each customer into one profile.

    A profile is the mean load in kW of each cell of the grid, in local time. A customer has one
    profile, whatever the number of readings. An hour that clocks skip or show twice is one reading
    less or more in its cell.

    Parameters
    ----------
    readings
        What `read_readings` gave. An engine's stay there, and so do the profiles: they have
        `write_parquet`, and can be given to releases.
    grid
        Columns of the profile; an average day of 24 hours if left out.
    timezone
        IANA zone of the grid's hours. Left out, it is that of the readings, else UTC.
    least_days
        A customer needs readings on at least so many local days, and in every cell at least one.
    longest_gap_hours
        A customer may be without readings for at most so long, between its first and its last.
    attributes
        CSV or Parquet file with a column customer_id (or meter_id) and one for each attribute.

    Notes
    -----
    ``least_days`` and ``longest_gap_hours`` decide which customers stay. They are public parameters
    and stand in ``rules`` of the result; do not tune them by looking at it.
    """
    options = readings.source.options if isinstance(readings, Readings) else readings.options
    rules = ProfileRules(
        grid=grid or Grid(),
        timezone=timezone or options.timezone or "UTC",
        least_days=least_days,
        longest_gap_hours=longest_gap_hours,
    )
    if isinstance(readings, Readings):
        return build_by_rules(readings, rules, attributes=attributes).profiles
    return readings.profiles(rules, attributes=attributes)


def build_profiles(
    readings: Readings,
    *,
    grid: Grid | None = None,
    timezone: str | None = None,
    least_days: int = 14,
    longest_gap_hours: float | None = None,
    attributes: str | Path | None = None,
) -> ProfileBuild:
    """Do what `profiles_from_readings` does, and keep what the quality picture shows."""
    rules = ProfileRules(
        grid=grid or Grid(),
        timezone=timezone or readings.source.options.timezone or "UTC",
        least_days=least_days,
        longest_gap_hours=longest_gap_hours,
    )
    return build_by_rules(readings, rules, attributes=attributes)


def build_by_rules(
    readings: Readings, rules: ProfileRules, *, attributes: str | Path | None = None
) -> ProfileBuild:
    """Do what `build_profiles` does, by rules that were checked."""
    rules.check_lengths(readings.source.lengths)
    grid = rules.grid
    cells = make_cells(readings, grid, rules.timezone)
    averages = average(cells, with_gaps=rules.longest_gap_hours is not None)
    kept, dropped = _choose(cells, averages, rules)
    names = tuple(np.array(averages.customer_ids, dtype=object)[kept].tolist())
    load_kw = averages.load_kw[kept]
    if grid.closing_midnight:
        load_kw = np.column_stack([load_kw, load_kw[:, 0]])
    flagged = readings.source.options.estimated is Estimated.FLAG
    columns = {}
    if attributes is not None:
        columns = _look_up(attribute_table(readings.connection, Path(attributes)), names)
    account = ProfileAccount(
        readings=cells.report,
        straddling=cells.straddling,
        unfit=cells.unfit,
        profiles=len(names),
        customers_dropped=dropped,
        without_attributes=sum(not any(found) for found in zip(*columns.values(), strict=True)),
    )
    profiles = Profiles(
        customer_ids=names,
        load_kw=load_kw,
        grid=grid,
        timezone=rules.timezone,
        attributes=columns,
        estimated_share=averages.estimated_share[kept] if flagged else None,
        rules=rules.to_json(cells.report),
        account=account.to_json(),
    )
    return ProfileBuild(profiles, account, cells, averages, kept)


def _choose(
    cells: Cells, averages: Averages, rules: ProfileRules
) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Apply the rules of coverage; a customer is counted under the first that it fails."""
    kept = np.ones(len(averages.customer_ids), dtype=bool)
    dropped = {NO_USABLE_READING: cells.customers - kept.size}
    failures = [
        (f"readings on fewer than {rules.least_days} days", averages.days < rules.least_days),
        ("a cell of the grid without reading", np.isnan(averages.load_kw).any(axis=1)),
    ]
    if (longest := rules.longest_gap_hours) is not None:
        broken = averages.longest_gap_hours > longest
        failures.append((f"a gap of more than {longest:g} hours", broken))
    for reason, fails in failures:
        dropped[reason] = int((kept & fails).sum())
        kept &= ~fails
    return kept, {reason: customers for reason, customers in dropped.items() if customers}


def attribute_table(connection: duckdb.DuckDBPyConnection, path: Path) -> pa.Table:
    """Read a table of attributes: texts, the customer first, each of them once."""
    reader = f"read_csv({paths([path])}, all_varchar = true, header = true)"
    if path.suffix == ".parquet":
        reader = f"read_parquet({paths([path])})"
    with duckdb_reads([path]):
        table = connection.sql(f"SELECT * FROM {reader}").to_arrow_table()
    key = next((name for name in ("customer_id", "meter_id") if name in table.column_names), None)
    if key is None:
        expected = "a column customer_id or meter_id"
        raise InvalidFileError(path, "header", expected, table.column_names)
    names = [str(name).strip(SPACES) for name in table[key].to_pylist()]
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InvalidFileError(path, f"column {ident(key)}", "each customer once", twice)
    texts = {"customer_id": pa.array(names, pa.string())}
    for column in table.column_names:
        if column != key:
            values = (None if value is None else str(value) for value in table[column].to_pylist())
            texts[column] = pa.array(values, pa.string())
    return pa.table(texts)


def _look_up(table: pa.Table, customer_ids: tuple[str, ...]) -> dict[str, tuple[str | None, ...]]:
    """Look every customer up in the table of attributes."""
    row_of = {name: row for row, name in enumerate(table[0].to_pylist())}
    rows = pa.array([row_of.get(name) for name in customer_ids], pa.int64())
    return {
        column: tuple(table[column].take(rows).to_pylist()) for column in table.column_names[1:]
    }
