"""Level of synthetic years of a group: drawn customers follow the released mean load of the group.

Clusters distinguish groups only in part, so that customers drawn by the shares of a group are
closer to all customers than those of the group are. The mean load of the group is released too, and
the drawn load is multiplied by one factor for each slot of the profiles. With d_q the drawn and g_q
the released mean in slot q, s_q its standard error, D, G and s their means over the days, and the
share of a squared difference that noise does not explain as weights::

    level   T   = D + w (G - D),                      w = max(0, 1 - s^2 / (G - D)^2)
    slot    t_q = T (d_q / D + v (g_q / G - d_q / D)),  v = max(0, 1 - sum s_q^2 / sum e_q^2)

where e_q = g_q - d_q G / D; the factor is t_q / d_q. A difference within one standard error changes
nothing. Errors of slots are taken as perfectly correlated in s, which is the
largest that it can be. This is post-processing of a bundle.
"""

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wattveil.arrays import Floats, Ints
from wattveil.bundle.bundle_files import read_manifest, read_table, table_path
from wattveil.numerics.synthesis.year_model import YearModel
from wattveil.profiles import TimeGrid
from wattveil.readings.timestamps import DAY_US
from wattveil.web.charts import TWO_SIDED_95

_DRAWN = 2048
"""Customers drawn for the mean of the model: the factors do not depend on the sample."""
_MAX_FACTOR = 4.0
_MIN_SLOT = 0.05
"""Slots with less than this share of the mean load, as where homes feed in, keep their shape."""
_EPOCH = dt.date(1970, 1, 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupLevel:
    """Factors of the load of a group, and the released mean load that it follows."""

    grid: TimeGrid
    factors: Floats
    """(cells of the grid,)"""
    released_kw: float
    std_kw: float
    max_kw: float

    def apply(self, load_kw: Floats, first_day: dt.date) -> Floats:
        """Return the load of years of the group.

        Parameters
        ----------
        load_kw : (customers, slots of all days)
            Drawn from the model.
        first_day
            Of the columns.
        """
        n_days = load_kw.shape[1] // self.grid.slots
        factors = self.factors.reshape(-1, self.grid.slots)[
            day_columns(self.grid, first_day, n_days)
        ]
        return np.asarray(np.clip(load_kw * factors.ravel(), -self.max_kw, self.max_kw))


@dataclass(kw_only=True, eq=False)
class DrawnMean:
    """Mean load of drawn customers, summed as they are written."""

    level: GroupLevel
    comparable: bool
    """Whether the sample has the days and the weather of the data."""
    customers: int = 0
    total_kw: float = 0.0
    squares: float = 0.0

    def add(self, own_kw: Floats, first_day: dt.date) -> Floats:
        """Scale and count drawn customers; return their load.

        Parameters
        ----------
        own_kw, first_day
            As in `GroupLevel.apply`.
        """
        load_kw = self.level.apply(own_kw, first_day)
        means = load_kw.mean(axis=1)
        self.customers += means.size
        self.total_kw += float(means.sum())
        self.squares += float(means @ means)
        return load_kw

    @property
    def mean_kw(self) -> float:
        """Mean load of a drawn customer."""
        return self.total_kw / self.customers

    def to_json(self) -> dict[str, object]:
        """Return drawn and released mean load as JSON values."""
        return {
            "drawn_kw": self.mean_kw,
            "released_kw": self.level.released_kw,
            "released_std_kw": self.level.std_kw,
            "warning": self.warning or None,
        }

    @property
    def statement(self) -> str:
        """Drawn against released mean load."""
        released = f"{self.level.released_kw:.3f} kW (standard error {self.level.std_kw:.3f})"
        text = f"Mean load: drawn {self.mean_kw:.3f} kW, released for the group {released}"
        return text if self.comparable else f"{text}, of other days or another weather"

    @property
    def warning(self) -> str:
        """A warning if the two differ by more than their errors explain; else nothing."""
        variance = max(self.squares / self.customers - self.mean_kw**2, 0.0) / self.customers
        away = self.mean_kw - self.level.released_kw
        limit = TWO_SIDED_95 * float(np.hypot(self.level.std_kw, np.sqrt(variance)))
        if not self.comparable or abs(away) <= limit:
            return ""
        return (
            f"the drawn mean load differs from the released one of the group by {away:+.3f} kW,"
            f" beyond its error and that of {self.customers:,} customers ({limit:.3f} kW)."
        )


def group_level(bundle: Path, group: str, mix: list[float], model: YearModel) -> GroupLevel | None:
    """Return how the load of a group is scaled; None if its mean load was not released.

    Parameters
    ----------
    bundle
        Folder of a release with years.
    group
        A group of the release.
    mix
        Share of each cluster of years in the group.
    model
        Model of years of the bundle.
    """
    if not (bundle / table_path("load_shapes", "parquet")).exists():
        return None
    rows = [row for row in read_table(bundle, "load_shapes").to_pylist() if row["group"] == group]
    rows.sort(key=lambda row: row["slot"])
    grid = TimeGrid.from_json(read_manifest(bundle)["profiles"]["grid"])
    released, std = (
        np.array([row[name] for row in rows], dtype=np.float64)[: grid.cells]
        for name in ("load_kw", "std_kw")
    )
    if released.size != grid.cells or not np.isfinite([released, std]).all():
        return None
    calendar = model.calendar
    columns = day_columns(grid, calendar.first_day, calendar.n_days)
    days = np.bincount(columns, minlength=grid.cells // grid.slots).astype(np.float64)
    sums = np.zeros((days.size, grid.slots))
    for load_kw, _ in model.batches(_DRAWN, random_state=0, by=mix):
        by_day = load_kw.sum(axis=0).reshape(calendar.n_days, grid.slots)
        np.add.at(sums, columns, by_day / _DRAWN)
    drawn = (sums / np.maximum(days, 1.0)[:, None]).ravel()
    weights = np.repeat(days, grid.slots) / (days.sum() * grid.slots)
    return GroupLevel(
        grid=grid,
        factors=level_factors(drawn, released, std, weights),
        released_kw=float(weights @ released),
        std_kw=float(weights @ std),
        max_kw=model.typical.max_kw,
    )


def level_factors(drawn: Floats, released: Floats, std: Floats, weights: Floats) -> Floats:
    """Return the factor of each slot; 1 if one of the means is not positive.

    Parameters
    ----------
    drawn, released, std
        Mean load of each slot of drawn customers, and of the release with its standard error.
    weights
        Of the slots, by the days of the data; they add up to 1.
    """
    mean, wanted, error = float(weights @ drawn), float(weights @ released), float(weights @ std)
    if mean <= 0.0 or wanted <= 0.0:
        return np.ones(drawn.size)
    target = mean + _explained(error**2, (wanted - mean) ** 2) * (wanted - mean)
    away = released - drawn * (wanted / mean)
    trust = _explained(float(weights @ std**2), float(weights @ away**2))
    slots = target * (drawn / mean + trust * away / wanted)
    usual = (drawn > _MIN_SLOT * mean) & (slots > 0.0) & (weights > 0.0)
    factors = np.full(drawn.size, target / mean)
    factors[usual] = slots[usual] / drawn[usual]
    return np.asarray(np.clip(factors, 1.0 / _MAX_FACTOR, _MAX_FACTOR))


def day_columns(grid: TimeGrid, first_day: dt.date, n_days: int) -> Ints:
    """Return the column of days of a grid in which each day is counted."""
    first = (first_day - _EPOCH).days
    return np.asarray(grid.cell_of((first + np.arange(n_days)) * DAY_US) // grid.slots)


def _explained(noise: float, square: float) -> float:
    """Return the share of a squared difference that noise does not explain."""
    return max(0.0, 1.0 - noise / square) if square > 0.0 else 0.0
