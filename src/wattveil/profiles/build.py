"""`profiles_from_readings`: the average day of every customer that is covered well enough."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattveil import checks
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.ingest.options import Estimated, known_zone
from wattveil.ingest.readings import Readings
from wattveil.ingest.sources import duckdb_reads
from wattveil.ingest.sql import ident, paths
from wattveil.profiles.cells import Cells, make_cells
from wattveil.profiles.coverage import Averages, average
from wattveil.profiles.grid import Grid
from wattveil.profiles.table import Profiles


@dataclass(frozen=True)
class ProfileBuild:
    """Profiles, with the account of how they came about; counts are exact, so in house only.

    ``dropped`` counts customers by reason. ``averages`` holds every customer with a reading, those
    who were left out too, and ``kept`` says which of them have a profile.
    """

    profiles: Profiles
    cells: Cells
    averages: Averages
    kept: NDArray[np.bool_]
    dropped: Mapping[str, int]

    @property
    def customers_in(self) -> int:
        """How many customers the source names."""
        return len(self.profiles) + sum(self.dropped.values())


def profiles_from_readings(
    readings: Readings,
    *,
    grid: Grid | None = None,
    timezone: str | None = None,
    least_days: int = 14,
    longest_gap_hours: float | None = None,
    attributes: str | Path | None = None,
) -> Profiles:
    """Average the readings of each customer into one profile.

    A profile is the mean load in kW of each cell of the grid, in local time. A customer has one
    profile, whatever the number of readings. An hour that clocks skip or show twice is one reading
    less or more in its cell.

    Parameters
    ----------
    readings
        What `read_readings` gave.
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
    return build_profiles(
        readings,
        grid=grid,
        timezone=timezone,
        least_days=least_days,
        longest_gap_hours=longest_gap_hours,
        attributes=attributes,
    ).profiles


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
    grid = grid or Grid()
    zone = timezone or readings.source.options.timezone or "UTC"
    known_zone("timezone", zone)
    checks.integer("least_days", least_days, least=1)
    if longest_gap_hours is not None:
        checks.positive("longest_gap_hours", longest_gap_hours)
    base = readings.base_minutes
    if grid.minutes % base or min(readings.source.lengths) > grid.minutes:
        rule = f"a multiple of the readings' {base} minutes"
        raise InvalidParameterError("grid.minutes", rule, grid.minutes)

    cells = make_cells(readings, grid, zone)
    averages = average(cells, with_gaps=longest_gap_hours is not None)
    kept, dropped = _choose(cells, averages, least_days, longest_gap_hours)
    names = tuple(np.array(averages.customer_ids, dtype=object)[kept].tolist())
    load_kw = averages.load_kw[kept]
    if grid.closing_midnight:
        load_kw = np.column_stack([load_kw, load_kw[:, 0]])
    flagged = readings.source.options.estimated is Estimated.FLAG
    columns = {} if attributes is None else _attributes(cells, Path(attributes), names)
    unmatched = sum(not any(values) for values in zip(*columns.values(), strict=True))
    profiles = Profiles(
        customer_ids=names,
        load_kw=load_kw,
        grid=grid,
        timezone=zone,
        attributes=columns,
        estimated_share=averages.estimated_share[kept] if flagged else None,
        rules={
            "readings": cells.report.options,
            "guesses": list(cells.report.guesses),
            "grid": grid.to_json(),
            "timezone": zone,
            "least_days": least_days,
            "longest_gap_hours": longest_gap_hours,
        },
        account={
            "readings": cells.report.to_json(),
            "readings_in_two_cells": cells.straddling,
            "readings_longer_than_a_cell": cells.too_long,
            "customers_dropped": dropped,
            "customers_without_attributes": unmatched,
        },
    )
    return ProfileBuild(profiles, cells, averages, kept, dropped)


def _choose(
    cells: Cells, averages: Averages, least_days: int, longest_gap_hours: float | None
) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Apply the rules of coverage; a customer is counted under the first that it fails."""
    kept = np.ones(len(averages.customer_ids), dtype=bool)
    dropped = {"no usable reading": cells.customers - kept.size}
    rules = [
        (f"readings on fewer than {least_days} days", averages.days < least_days),
        ("a cell of the grid without reading", np.isnan(averages.load_kw).any(axis=1)),
    ]
    if longest_gap_hours is not None:
        broken = averages.longest_gap_hours > longest_gap_hours
        rules.append((f"a gap of more than {longest_gap_hours:g} hours", broken))
    for reason, fails in rules:
        dropped[reason] = int((kept & fails).sum())
        kept &= ~fails
    return kept, {reason: customers for reason, customers in dropped.items() if customers}


def _attributes(
    cells: Cells, path: Path, customer_ids: tuple[str, ...]
) -> dict[str, tuple[str | None, ...]]:
    """Look every customer up in the table of attributes."""
    reader = f"read_csv({paths([path])}, all_varchar = true, header = true)"
    if path.suffix == ".parquet":
        reader = f"read_parquet({paths([path])})"
    with duckdb_reads([path]):
        table = cells.readings.connection.sql(f"SELECT * FROM {reader}").to_arrow_table()
    key = next((name for name in ("customer_id", "meter_id") if name in table.column_names), None)
    if key is None:
        expected = "a column customer_id or meter_id"
        raise InvalidFileError(path, "header", expected, table.column_names)
    names = [str(name) for name in table[key].to_pylist()]
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InvalidFileError(path, f"column {ident(key)}", "each customer once", twice)
    row_of = {name: row for row, name in enumerate(names)}
    columns = {}
    for column in table.column_names:
        if column != key:
            values = [None if value is None else str(value) for value in table[column].to_pylist()]
            columns[column] = tuple(
                values[row_of[name]] if name in row_of else None for name in customer_ids
            )
    return columns
