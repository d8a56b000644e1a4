"""Families of customers by roughness, half of them held out of every choice of a constant.

A profile that averages a year is smooth; one that averages four weeks is not, and its customers
differ more. A family is one such data set, in kW, one row per customer, and belongs to one split:

* ``tuning``: constants of the global tier may be chosen on it, and bands calibrated;
* ``held-out``: figures are reported on it, and nothing is chosen by it.

The split was fixed before any constant of version 0.2 was chosen. London's 1,014 homes are divided:
the 300 with half-hourly readings and 207 others are held out, 507 are for tuning, and the two
halves are observed in different weeks. Buildings (CityLearn), clients (Portugal) and homes with
panels are divided likewise. Simulated families differ in seed, mix, climate, season and slots.
Constants of version 0.1 were chosen on all 1,014 homes of London (mean day of the year), and on
London with panels: what both versions share there is not unseen.

``python benchmarks/families.py`` lists them. Measured data are read from `WATTVEIL_DATA`; a family
whose file is absent is skipped with the reason. Rows are cached in ``.cache/families``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Literal, NamedTuple

import measured_homes as measured
import numpy as np
from global_tier_cases import say
from numpy.typing import NDArray
from pyarrow import csv

from wattveil.arrays import Floats
from wattveil.simulate import DEFAULT_MIX, LONDON_MIX, SUNNY, TEMPERATE, Climate, simulate_kwh

Split = Literal["tuning", "held-out"]
Roughness = Literal["smooth year", "some weeks", "single month"]

CACHE = Path(__file__).parents[1] / ".cache" / "families"
HALF_HOURS = measured.DATA / "lcl1014" / "lcl300_halfhourly_2013-02-04_28d_long.csv.gz"
MIN_DAYS = 0.5
"""Share of complete days below which a home is left out."""
_VERSION = 1
"""Part of the name of a cached file: change it with the meaning of a family."""

SOLAR_MIX: Mapping[str, float] = {
    "single": 0.2,
    "couple": 0.25,
    "family": 0.25,
    "pv": 0.2,
    "ev": 0.1,
}
HEATED_MIX: Mapping[str, float] = {
    "single": 0.15,
    "couple": 0.2,
    "family": 0.25,
    "retired": 0.2,
    "night_shift": 0.05,
    "electric_heating": 0.15,
}


class Loaded(NamedTuple):
    """A family's rows in kW, slots of a day, description and split."""

    rows: Floats
    slots: int
    description: str
    split: Split


@dataclass(frozen=True)
class Family:
    """One data set: how its profiles were averaged, and whether constants may be chosen on it."""

    name: str
    split: Split
    roughness: Roughness
    description: str
    make: Callable[[], Floats]
    has_sizes: bool = True
    """Whether it is clustered in kW, not only as shapes."""
    is_large: bool = False
    """Whether it has 5,000 customers or more."""

    def rows(self) -> Floats:
        """Return the customers in kW, from the cache if they are there, or FileNotFoundError."""
        stored = CACHE / f"{self.name.replace(' ', '-')}-{_VERSION}.npy"
        if stored.exists():
            return np.asarray(np.load(stored), dtype=np.float64)
        rows = self.make()
        CACHE.mkdir(parents=True, exist_ok=True)
        np.save(stored, rows)
        return rows


@cache
def load(name: str) -> Loaded | None:
    """Return a family by name; if its data are absent, print the reason and return None."""
    family = FAMILIES[name]
    try:
        rows = family.rows()
    except FileNotFoundError as absent:
        say(f"skipped {name}: {absent}; set WATTVEIL_DATA")
        return None
    return Loaded(rows, rows.shape[1], family.description, family.split)


def names(split: Split | None = None, *, large: bool | None = False) -> list[str]:
    """Return the names of the families of a split, small or large or (None) both."""
    return [
        family.name
        for family in FAMILIES.values()
        if split in (None, family.split) and large in (None, family.is_large)
    ]


def london(split: Split, first: date, weeks: int | None, *, n_homes: int | None = None) -> Floats:
    """Return the mean day of a split's homes over some weeks of 2013, or over the year."""
    kw, homes, dates = measured.complete_days(measured.LONDON)
    inside = np.isin(homes, london_meters(split))
    if weeks is not None:
        last = first + timedelta(weeks=weeks)
        inside &= (dates >= first.isoformat()) & (dates < last.isoformat())
    rows = _mean_days(kw[inside], homes[inside], at_least=MIN_DAYS * 7 * (weeks or 0))
    if n_homes is not None:
        rows = rows[np.random.default_rng(n_homes).permutation(len(rows))[:n_homes]]
    return rows


def london_half_hours() -> Floats:
    """Return the mean day of 300 held-out homes over four weeks, in 48 slots."""
    table = csv.read_csv(HALF_HOURS)
    stamps = table["timestamp"].to_numpy().astype("datetime64[m]")
    days = stamps.astype("datetime64[D]")
    slots = ((stamps - days).astype(np.int64)) // 30
    homes = np.unique(table["meter_id"].to_numpy().astype(str), return_inverse=True)[1]
    cells = homes * 48 + slots
    kwh = np.bincount(cells, weights=table["kwh"].to_numpy(), minlength=48 * (homes.max() + 1))
    counts = np.bincount(cells, minlength=kwh.size)
    return (2.0 * kwh / np.maximum(counts, 1)).reshape(-1, 48)


def london_months(split: Split) -> Floats:
    """Return the mean day of each home and month of a split."""
    kw, homes, dates = measured.complete_days(measured.LONDON)
    inside = np.isin(homes, london_meters(split))
    months = np.array([day[:7] for day in dates[inside].tolist()])
    return measured.means(kw[inside], homes[inside], months)


def london_days(split: Split, n_days: int) -> Floats:
    """Return single days of the homes of a split."""
    kw, homes, _ = measured.complete_days(measured.LONDON)
    rows = kw[np.isin(homes, london_meters(split))]
    return rows[np.random.default_rng(1).choice(len(rows), n_days, replace=False)]


def london_panels(split: Split, first: date, weeks: int) -> Floats:
    """Return the mean net day of each home and week; 30 % of the homes have simulated panels."""
    kw, homes, dates = measured.complete_days(measured.LONDON_PANELS)
    last = first + timedelta(weeks=weeks)
    inside = np.isin(homes, london_meters(split))
    inside &= (dates >= first.isoformat()) & (dates < last.isoformat())
    since = dates[inside].astype("datetime64[D]") - np.datetime64(first)
    return measured.means(kw[inside], homes[inside], (since.astype(np.int64) // 7).astype(str))


@cache
def london_meters(split: Split) -> NDArray[np.str_]:
    """Return the meters of a split: 507 each, the half-hourly ones held out."""
    meters = np.unique(measured.complete_days(measured.LONDON)[1])
    finer = np.unique(csv.read_csv(HALF_HOURS)["meter_id"].to_numpy().astype(str))
    others = np.setdiff1d(meters, finer)
    others = others[np.random.default_rng(26).permutation(others.size)]
    n_further = meters.size // 2 - finer.size
    held_out = np.concatenate([finer, others[:n_further]])
    return np.setdiff1d(meters, held_out) if split == "tuning" else np.sort(held_out)


def city_weeks(split: Split) -> Floats:
    """Return the mean net day of the weeks of 8 buildings (tuning) or 9 (held out)."""
    rows, buildings = measured.city_weeks_and_buildings()
    known = np.unique(buildings)
    return rows[np.isin(buildings, known[:8] if split == "tuning" else known[8:])]


def portugal_weeks(split: Split) -> Floats:
    """Return the mean day of five weeks of every other client."""
    kw = measured.portugal_hours()[:, : 5 * 7 * 24]
    first = 0 if split == "tuning" else 1
    return kw[first::2].reshape(-1, 5, 7, 24).mean(axis=2).reshape(-1, 24)


def simulated(
    n_customers: int,
    *,
    days: int,
    start: date,
    minutes: int,
    mix: Mapping[str, float],
    seed: int,
    climate: Climate = TEMPERATE,
) -> Floats:
    """Return the mean day of simulated customers over some days; some at a time."""
    block = 5_000

    def part(first: int) -> Floats:
        kwh = simulate_kwh(
            customers=min(block, n_customers - first),
            days=days,
            start=start,
            timezone="Etc/UTC",
            minutes=minutes,
            mix=mix,
            seed=seed + first // block,
            climate=climate,
        )
        mean_day: Floats = kwh.reshape(len(kwh), days, -1).mean(axis=1)
        return mean_day * 60.0 / minutes

    return np.concatenate([part(first) for first in range(0, n_customers, block)])


def _mean_days(kw: Floats, homes: NDArray[np.str_], *, at_least: float) -> Floats:
    """Return the mean day of each home with enough complete days."""
    _, home, counts = np.unique(homes, return_inverse=True, return_counts=True)
    enough = (counts >= at_least)[home]
    return measured.means(kw[enough], homes[enough])


def _all() -> list[Family]:
    start = date(2013, 1, 1)
    tuning = [
        Family(
            "london year",
            "tuning",
            "smooth year",
            "507 homes of London, mean day of 2013",
            partial(london, "tuning", start, None),
        ),
        Family(
            "london 12 weeks",
            "tuning",
            "some weeks",
            "homes of London, 14 January to 7 April",
            partial(london, "tuning", date(2013, 1, 14), 12),
        ),
        Family(
            "london 4 weeks",
            "tuning",
            "single month",
            "homes of London, 29 April to 26 May",
            partial(london, "tuning", date(2013, 4, 29), 4),
        ),
        Family(
            "london 250",
            "tuning",
            "single month",
            "250 homes of London, 3 to 30 June",
            partial(london, "tuning", date(2013, 6, 3), 4, n_homes=250),
        ),
        Family(
            "city weeks",
            "tuning",
            "single month",
            "net weeks of 8 buildings with panels (CityLearn)",
            partial(city_weeks, "tuning"),
        ),
        Family(
            "panel weeks",
            "tuning",
            "single month",
            "home-weeks of London, simulated panels on 30 %, 4 March to 14 April",
            partial(london_panels, "tuning", date(2013, 3, 4), 6),
        ),
        Family(
            "portugal weeks",
            "tuning",
            "single month",
            "client-weeks of 102 clients of Portugal, of very different size",
            partial(portugal_weeks, "tuning"),
            has_sizes=False,
        ),
        Family(
            "simulated year",
            "tuning",
            "smooth year",
            "1,000 simulated homes, 24 slots, a year",
            partial(simulated, 1_000, days=364, start=start, minutes=60, mix=LONDON_MIX, seed=2601),
        ),
        Family(
            "simulated 4 weeks, 48",
            "tuning",
            "single month",
            "500 simulated homes with panels and cars, 48 slots, 4 weeks of May",
            partial(
                simulated,
                500,
                days=28,
                start=date(2013, 5, 6),
                minutes=30,
                mix=SOLAR_MIX,
                seed=2611,
            ),
        ),
        Family(
            "simulated 12 weeks, 96",
            "tuning",
            "some weeks",
            "800 simulated homes, 96 slots, 12 weeks of winter",
            partial(
                simulated,
                800,
                days=84,
                start=date(2013, 1, 7),
                minutes=15,
                mix=LONDON_MIX,
                seed=2621,
            ),
        ),
        Family(
            "simulated 10,000",
            "tuning",
            "some weeks",
            "10,000 simulated homes, 24 slots, 8 weeks",
            partial(
                simulated,
                10_000,
                days=56,
                start=date(2013, 2, 4),
                minutes=60,
                mix=LONDON_MIX,
                seed=2631,
            ),
            is_large=True,
        ),
        Family(
            "simulated 100,000",
            "tuning",
            "single month",
            "100,000 simulated homes, 24 slots, 2 weeks",
            partial(
                simulated,
                100_000,
                days=14,
                start=date(2013, 3, 4),
                minutes=60,
                mix=LONDON_MIX,
                seed=2661,
            ),
            is_large=True,
        ),
        Family(
            "london months",
            "tuning",
            "single month",
            "home-months of 507 homes of London",
            partial(london_months, "tuning"),
            is_large=True,
        ),
    ]
    held_out = [
        Family(
            "london year, held out",
            "held-out",
            "smooth year",
            "507 other homes of London, mean day of 2013",
            partial(london, "held-out", start, None),
        ),
        Family(
            "london autumn",
            "held-out",
            "some weeks",
            "other homes of London, 2 September to 24 November",
            partial(london, "held-out", date(2013, 9, 2), 12),
        ),
        Family(
            "london july",
            "held-out",
            "single month",
            "other homes of London, 1 to 28 July",
            partial(london, "held-out", date(2013, 7, 1), 4),
        ),
        Family(
            "london 250, 8 weeks",
            "held-out",
            "some weeks",
            "250 other homes of London, 7 October to 1 December",
            partial(london, "held-out", date(2013, 10, 7), 8, n_homes=250),
        ),
        Family(
            "london february, 48",
            "held-out",
            "single month",
            "300 other homes of London, 48 slots, 4 February to 3 March",
            london_half_hours,
        ),
        Family(
            "city weeks, held out",
            "held-out",
            "single month",
            "net weeks of 9 other buildings with panels (CityLearn)",
            partial(city_weeks, "held-out"),
        ),
        Family(
            "panel weeks, held out",
            "held-out",
            "single month",
            "home-weeks of other homes of London, simulated panels on 30 %, 15 April to 26 May",
            partial(london_panels, "held-out", date(2013, 4, 15), 6),
        ),
        Family(
            "portugal weeks, held out",
            "held-out",
            "single month",
            "client-weeks of 101 other clients of Portugal",
            partial(portugal_weeks, "held-out"),
            has_sizes=False,
        ),
        Family(
            "simulated 4 weeks",
            "held-out",
            "single month",
            "1,100 simulated homes with panels and cars in a sunny climate, 24 slots, 4 weeks",
            partial(
                simulated,
                1_100,
                days=28,
                start=date(2014, 8, 4),
                minutes=60,
                mix=SOLAR_MIX,
                seed=92601,
                climate=SUNNY,
            ),
        ),
        Family(
            "simulated year, 48",
            "held-out",
            "smooth year",
            "700 simulated homes, electric heating, 48 slots, a year",
            partial(simulated, 700, days=364, start=start, minutes=30, mix=HEATED_MIX, seed=92611),
        ),
        Family(
            "simulated 4 weeks, 96",
            "held-out",
            "single month",
            "400 simulated homes, electric heating, 96 slots, 4 weeks of November",
            partial(
                simulated,
                400,
                days=28,
                start=date(2014, 11, 3),
                minutes=15,
                mix=HEATED_MIX,
                seed=92621,
            ),
        ),
        Family(
            "simulated 10,000, held out",
            "held-out",
            "single month",
            "10,000 simulated homes and businesses, 24 slots, 4 weeks",
            partial(
                simulated,
                10_000,
                days=28,
                start=date(2014, 10, 6),
                minutes=60,
                mix=DEFAULT_MIX,
                seed=92631,
            ),
            is_large=True,
        ),
        Family(
            "simulated 100,000, held out",
            "held-out",
            "single month",
            "100,000 simulated homes, electric heating, 24 slots, 2 weeks",
            partial(
                simulated,
                100_000,
                days=14,
                start=date(2014, 1, 6),
                minutes=60,
                mix=HEATED_MIX,
                seed=92661,
            ),
            is_large=True,
        ),
        Family(
            "london months, held out",
            "held-out",
            "single month",
            "home-months of 507 other homes of London",
            partial(london_months, "held-out"),
            is_large=True,
        ),
        Family(
            "london days, held out",
            "held-out",
            "single month",
            "100,000 single days of 507 other homes of London",
            partial(london_days, "held-out", 100_000),
            is_large=True,
        ),
    ]
    return [*tuning, *held_out]


FAMILIES: Mapping[str, Family] = {family.name: family for family in _all()}


def main() -> None:
    """List the families with their number of customers and slots."""
    say("| family | split | roughness | customers | slots | description |")
    say("|---" * 6 + "|")
    for family in FAMILIES.values():
        loaded = load(family.name)
        if loaded is not None:
            n_customers = len(loaded.rows)
            say(
                f"| {family.name} | {family.split} | {family.roughness} | {n_customers:,} | "
                f"{loaded.slots} | {family.description} |"
            )


if __name__ == "__main__":
    main()
