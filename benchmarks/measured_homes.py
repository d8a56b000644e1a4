"""Measured customers for the benchmarks of the global tier, in kW, one row of 24 hours each.

The folder is `WATTVEIL_DATA`, by default ``../shared/data`` beside the repository.
"""

import os
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from wattveil.arrays import Floats
from wattveil.numerics.synthesis.day_deviations import fitting_calendar
from wattveil.profiles import Split
from wattveil.release.rows.day_features import typical_days

DATA = Path(os.environ.get("WATTVEIL_DATA", Path(__file__).parents[2] / "shared" / "data"))
LONDON = DATA / "lcl1014" / "lcl1014_hourly_2013_wide.csv.gz"
LONDON_PANELS = DATA / "lcl300_pv_semisynthetic" / "lcl300_net_hourly_2013MarMay_wide.csv.gz"
LONDON_HALF_HOURS = DATA / "lcl1014" / "lcl300_halfhourly_2013-02-04_28d_long.csv.gz"
LONDON_METERS = DATA / "lcl1014" / "lcl1014_meters.csv"
PORTUGAL = DATA / "uci203" / "uci203_hourly_wide.csv.gz"
CITY = DATA / "citylearn17_pv" / "citylearn17_hourly_long.csv.gz"
HOURS = [f"h{hour:02d}" for hour in range(24)]
N_HOURS = len(HOURS)
WEEK = "%Y%U"


def london_homes() -> Floats:
    """Return the mean day of 1,014 homes over a year."""
    days, homes, _ = complete_days(LONDON)
    return means(days, homes)


def london_attributes() -> dict[str, tuple[str, ...]]:
    """Return Acorn group and tariff of those homes, in the same order."""
    table = csv.read_csv(LONDON_METERS).to_pydict()
    place = {meter: row for row, meter in enumerate(table["meter_id"])}
    rows = [place[str(home)] for home in np.unique(complete_days(LONDON)[1])]
    columns = {"acorn": "Acorn_grouped", "tariff": "stdorToU"}
    return {name: tuple(table[column][row] for row in rows) for name, column in columns.items()}


def london_months() -> Floats:
    """Return the mean day of each home and month."""
    days, homes, dates = complete_days(LONDON)
    return means(days, homes, np.array([date[:7] for date in dates.tolist()]))


def london_home_months(*, min_days: int = 15) -> Floats:
    """Return the mean day (homes, 12, 24) of 2013; NaN where a month has too few complete days."""
    days, homes, dates = complete_days(LONDON)
    _, home = np.unique(homes, return_inverse=True)
    month = dates.astype("datetime64[M]").astype(np.int64) % 12
    sums, counts = np.zeros((home.max() + 1, 12, N_HOURS)), np.zeros((home.max() + 1, 12, 1))
    np.add.at(sums, (home, month), days)
    np.add.at(counts, (home, month), 1.0)
    return np.where(counts >= min_days, sums / np.maximum(counts, 1.0), np.nan)


def london_days() -> Floats:
    """Return 100,000 single days of homes."""
    days, _, _ = complete_days(LONDON)
    return days[np.random.default_rng(0).choice(len(days), 100_000, replace=False)]


def london_year() -> Floats:
    """Return the hours of 2013 of homes with a whole day in every season, weekday and weekend."""
    days, homes, dates = complete_days(LONDON)
    _, home = np.unique(homes, return_inverse=True)
    day = (dates.astype("datetime64[D]") - np.datetime64("2013-01-01")).astype(np.int64)
    year = np.full((home.max() + 1, 365, N_HOURS), np.nan)
    year[home, day] = days
    rows = year.reshape(len(year), -1)
    calendar = fitting_calendar(
        rows.shape[1],
        first_day=date(2013, 1, 1),
        n_slots=N_HOURS,
        split=Split.SEASON_WEEKDAY_WEEKEND,
    )
    (typical,) = typical_days(rows, parts=calendar.parts, n_parts=calendar.n_parts)
    return rows[np.isfinite(typical).all(axis=1)]


def london_half_hours() -> Floats:
    """Return 28 winter days of homes without gaps: mean load in kW of each half-hour."""
    table = csv.read_csv(LONDON_HALF_HOURS)
    homes, row = np.unique(table["meter_id"].to_numpy().astype(str), return_inverse=True)
    start = table["timestamp"].to_numpy().astype("datetime64[m]").astype(np.int64)
    slot = (start - start.min()) // 30
    load_kw = np.full((homes.size, slot.max() + 1), np.nan)
    load_kw[row, slot] = 2.0 * table["kwh"].to_numpy()
    return load_kw[np.isfinite(load_kw).all(axis=1)]


def london_panels() -> Floats:
    """Return the mean net day of 300 homes and 14 weeks; 30 % have simulated panels."""
    days, homes, dates = complete_days(LONDON_PANELS)
    weeks = np.array([np.datetime64(date).item().strftime(WEEK) for date in dates.tolist()])
    return means(days, homes, weeks)


def portugal_clients() -> Floats:
    """Return the mean day of 203 clients of very different size."""
    kw = portugal_hours()
    return np.stack([kw[:, hour::N_HOURS].mean(axis=1) for hour in range(N_HOURS)], axis=1)


def portugal_hours() -> Floats:
    """Return 1,000 hours of 203 clients, from midnight on, one row per client."""
    table = _read(PORTUGAL, text=("timestamp",))
    return np.stack([table[name].to_numpy() for name in table.column_names[1:]])


def city_weeks() -> Floats:
    """Return the mean net day of 17 buildings and 53 weeks."""
    return city_weeks_and_buildings()[0]


def city_weeks_and_buildings() -> tuple[Floats, NDArray[np.str_]]:
    """Return the mean net day of each building and week, and the building of each row."""
    table = _read(CITY, text=("meter_id", "timestamp"))
    stamps = table["timestamp"].to_pylist()
    weeks = np.array([np.datetime64(stamp[:10]).item().strftime(WEEK) for stamp in stamps])
    hours = np.array([int(stamp[11:13]) for stamp in stamps])
    meters = table["meter_id"].to_numpy().astype(str)
    groups = _groups(meters, weeks)
    cells = groups * 24 + hours
    counts = np.bincount(cells, minlength=24 * (groups.max() + 1))
    sums = np.bincount(cells, weights=table["net_kwh"].to_numpy(), minlength=counts.size)
    whole = counts.reshape(-1, 24).all(axis=1)
    first = np.unique(groups, return_index=True)[1]
    return (sums / np.maximum(counts, 1)).reshape(-1, 24)[whole], meters[first][whole]


@cache
def complete_days(path: Path) -> tuple[Floats, NDArray[np.str_], NDArray[np.str_]]:
    """Return the complete days of a table with 24 columns, their homes and their dates."""
    table = _read(path, text=("meter_id", "date"))
    kw = np.column_stack([table[hour].to_numpy() for hour in HOURS])
    complete = np.isfinite(kw).all(axis=1)
    homes, dates = (table[name].to_numpy().astype(str) for name in ("meter_id", "date"))
    return kw[complete], homes[complete], dates[complete]


def _read(path: Path, *, text: tuple[str, ...]) -> pa.Table:
    """Return a table whose columns are numbers, apart from some."""
    as_text = csv.ConvertOptions(column_types=dict.fromkeys(text, pa.string()))
    table = csv.read_csv(path, convert_options=as_text)
    for position, name in enumerate(table.column_names):
        if name not in text:
            table = table.set_column(position, name, pc.cast(table[name], pa.float64()))
    return table


def means(rows: Floats, *keys: NDArray[np.str_]) -> Floats:
    """Return the mean of the rows that agree in every key, in the order of the keys."""
    groups = _groups(*keys)
    sums = np.stack([np.bincount(groups, weights=column) for column in rows.T], axis=1)
    return sums / np.bincount(groups)[:, None]


def _groups(*keys: NDArray[np.str_]) -> NDArray[np.int64]:
    """Return the number of the group of each row: rows that agree in every key, sorted."""
    joined = np.array([" ".join(words) for words in zip(*keys, strict=True)])
    groups: NDArray[np.int64] = np.unique(joined, return_inverse=True)[1]
    return groups
