"""Level of synthetic customers of a group: they follow the released mean load of the group.

Clusters distinguish groups only in part, so that customers drawn by the shares of a group are
closer to all customers than those of the group are. The mean load of the group is released too, and
the drawn load is multiplied by one factor for each slot of the profiles. With d_q the drawn and g_q
the released mean in slot q, s_q its standard error, D, G and s their means over the days, and the
share of a squared difference that noise does not explain as weights::

    level   T   = D + w (G - D),                      w = max(0, 1 - s^2 / (G - D)^2)
    slot    t_q = T (d_q / D + v (g_q / G - d_q / D)),  v = max(0, 1 - sum s_q^2 / sum e_q^2)

where e_q = g_q - d_q G / D; the factor is t_q / d_q. A difference within one standard error changes
nothing, so a sample of a group whose mean load is imprecise follows all customers: `GroupLevel` and
`DrawnMean` have warnings of it. Errors of slots are taken as perfectly correlated in s, which is
the largest that it can be. This is post-processing of a bundle.
"""

import datetime as dt
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from wattveil.arrays import Floats, Ints
from wattveil.bundle.bundle_files import read_manifest, read_table, table_path
from wattveil.numerics.synthesis.population_model import SyntheticModel
from wattveil.numerics.synthesis.year_model import YearModel
from wattveil.profiles import TimeGrid
from wattveil.readings.timestamps import DAY_US
from wattveil.web.charts import TWO_SIDED_95

_DRAWN = 2048
"""Customers drawn for the mean of the model: the factors do not depend on the sample."""
_MAX_FACTOR = 4.0
_MIN_SLOT = 0.05
"""Slots with less than this share of the mean load, as where homes feed in, keep their shape."""
_MAX_RELATIVE_ERROR = 0.2
"""Standard error of a group's mean load, over that load, above which a sample is warned of."""
_MAX_SLOT_ERRORS = 3.0
"""Standard errors by which drawn and released load of a slot may differ without a warning."""
_EPOCH = dt.date(1970, 1, 1)
_WEEKS = (dt.date(2001, 1, 1), 364)
"""First day, a Monday, and days of a year of whole weeks: weights of profiles without dates."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupLevel:
    """Factors of the load of a group, and the released mean load that it follows."""

    grid: TimeGrid
    factors: Floats
    """(cells of the grid,)"""
    released: Floats
    """(cells,): released mean load of the group in kW."""
    std: Floats
    """(cells,): its standard errors."""
    weights: Floats
    """(cells,): shares of the time of the data; they add up to 1."""
    max_kw: float
    """Bound of the model: of every slot of years, and of the root-mean-square load of profiles."""

    @property
    def released_kw(self) -> float:
        """Released mean load of the group."""
        return float(self.weights @ self.released)

    @property
    def std_kw(self) -> float:
        """Standard error of the released mean load."""
        return float(self.weights @ self.std)

    @property
    def warning(self) -> str:
        """A warning if the mean load is so imprecise that a sample does not follow the group."""
        if self.std_kw <= _MAX_RELATIVE_ERROR * self.released_kw:
            return ""
        return (
            "this sample mostly follows all customers; do not size equipment for the group with"
            f" it. The released mean load of the group, {self.released_kw:.3f} kW, has a standard"
            f" error of {self.std_kw:.3f} kW, above {100.0 * _MAX_RELATIVE_ERROR:.0f} %."
        )

    def apply(self, load_kw: Floats, first_day: dt.date | None) -> Floats:
        """Return the load of customers of the group.

        Parameters
        ----------
        load_kw : (customers, slots of all days)
            Drawn from the model.
        first_day
            Of the columns of years; None: the columns are those of profiles.
        """
        factors = self.factors
        if first_day is not None:
            columns = day_columns(self.grid, first_day, load_kw.shape[1] // self.grid.slots)
            factors = factors.reshape(-1, self.grid.slots)[columns].ravel()
            return np.asarray(np.clip(load_kw * factors, -self.max_kw, self.max_kw))
        scaled = load_kw * np.append(factors, factors[: load_kw.shape[1] - factors.size])
        size = np.sqrt(np.square(scaled).mean(axis=1, keepdims=True))
        return np.asarray(scaled * np.minimum(1.0, self.max_kw / np.maximum(size, 1e-12)))

    def by_cell(self, load_kw: Floats, first_day: dt.date | None) -> tuple[Floats, Floats]:
        """Return the mean load of customers in the cells of the grid, and the time in each.

        Parameters
        ----------
        load_kw, first_day
            As in `apply`.
        """
        if first_day is None:
            return load_kw[:, : self.grid.cells], self.weights
        n_days, slots = load_kw.shape[1] // self.grid.slots, self.grid.slots
        days = _day_counts(self.grid, first_day, n_days)
        inside = day_columns(self.grid, first_day, n_days) == np.arange(days.size)[:, None]
        shares = inside / np.maximum(days, 1.0)[:, None]
        means = np.einsum("cd,nds->ncs", shares, load_kw.reshape(-1, n_days, slots), optimize=True)
        return means.reshape(len(load_kw), -1), np.repeat(days / (n_days * slots), slots)


@dataclass(kw_only=True, eq=False)
class DrawnMean:
    """Mean load of drawn customers of a group, summed as they are written."""

    level: GroupLevel
    comparable: bool
    """Whether the sample has the days and the weather of the data."""
    customers: int = 0
    sums: Floats = field(default_factory=lambda: np.zeros(1))
    """(1 + cells,): over customers, of the mean load and of the load in each cell."""
    squares: Floats = field(default_factory=lambda: np.zeros(1))
    """(1 + cells,): of the same numbers."""
    seen: Floats = field(default_factory=lambda: np.zeros(1))
    """(cells,): time of the sample in each cell."""

    def add(self, load_kw: Floats, first_day: dt.date | None) -> None:
        """Count customers of the sample.

        Parameters
        ----------
        load_kw, first_day
            Scaled load, and its first day, as in `GroupLevel.apply`.
        """
        means, self.seen = self.level.by_cell(load_kw, first_day)
        found = np.column_stack([means @ self.seen, means])
        self.customers += len(found)
        self.sums = self.sums + found.sum(axis=0)
        self.squares = self.squares + np.square(found).sum(axis=0)

    @property
    def mean_kw(self) -> float:
        """Mean load of a drawn customer."""
        return float(self.sums[0]) / self.customers

    @property
    def _sampling_errors(self) -> Floats:
        """(1 + cells,): standard errors by the number of customers drawn."""
        means = self.sums / self.customers
        variance = np.maximum(self.squares / self.customers - np.square(means), 0.0)
        return np.asarray(np.sqrt(variance / self.customers))

    @property
    def slot(self) -> tuple[int, float]:
        """Cell with the largest difference, and the difference in standard errors.

        The errors are those of the release and of the customers drawn.
        """
        away = self.sums[1:] / self.customers - self.level.released
        errors = np.hypot(self.level.std, self._sampling_errors[1:])
        ratios = np.where(self.seen > 0.0, away / np.maximum(errors, 1e-12), 0.0)
        cell = int(np.argmax(np.abs(ratios)))
        return cell, float(ratios[cell])

    def to_json(self) -> dict[str, object]:
        """Return drawn and released mean load as JSON values."""
        cell, ratio = self.slot
        return {
            "drawn_kw": self.mean_kw,
            "released_kw": self.level.released_kw,
            "released_std_kw": self.level.std_kw,
            "largest_difference": {
                "slot": self.level.grid.labels[cell],
                "drawn_kw": float(self.sums[1 + cell]) / self.customers,
                "released_kw": float(self.level.released[cell]),
                "released_std_kw": float(self.level.std[cell]),
                "standard_errors": ratio,
            },
            "warning": " ".join(self.warnings) or None,
        }

    @property
    def statement(self) -> str:
        """Drawn against released mean load: of all slots, and of that with the largest difference.

        The largest one is in standard errors of the difference.
        """
        level, (cell, ratio) = self.level, self.slot
        released = f"{level.released_kw:.3f} kW (standard error {level.std_kw:.3f})"
        text = f"Mean load: drawn {self.mean_kw:.3f} kW, released for the group {released}"
        text += "" if self.comparable else ", of other days or other weather"
        return (
            f"{text}. Largest difference at {level.grid.labels[cell]}: drawn"
            f" {self.sums[1 + cell] / self.customers:.3f} kW, released"
            f" {level.released[cell]:.3f} kW (standard error {level.std[cell]:.3f}),"
            f" {ratio:+.1f} standard errors"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of an imprecise group, and of differences that errors do not explain."""
        found = [self.level.warning]
        away = self.mean_kw - self.level.released_kw
        limit = TWO_SIDED_95 * float(np.hypot(self.level.std_kw, self._sampling_errors[0]))
        if self.comparable and abs(away) > limit:
            found.append(
                "the drawn mean load differs from the released one of the group by"
                f" {away:+.3f} kW, beyond its error and that of {self.customers:,} customers"
                f" ({limit:.3f} kW)."
            )
        cell, ratio = self.slot
        if self.comparable and abs(ratio) > _MAX_SLOT_ERRORS:
            found.append(
                f"at {self.level.grid.labels[cell]}, the drawn load differs from the released"
                f" curve of the group by {ratio:+.1f} standard errors: the sample does not follow"
                " the curve there."
            )
        return tuple(filter(None, found))


def group_level(
    bundle: Path, group: str, mix: list[float], model: YearModel | SyntheticModel
) -> GroupLevel | None:
    """Return how the load of a group is scaled; None if its mean load was not released.

    Parameters
    ----------
    bundle
        Folder of a release with synthetic customers.
    group
        A group of the release.
    mix
        Share of each cluster of the model in the group.
    model
        Model of years, or of average days, of the bundle.
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
    first_day, period = None, _WEEKS
    if isinstance(model, YearModel):
        first_day, max_kw = model.calendar.first_day, model.typical.max_kw
        period = (first_day, model.calendar.n_days)
    else:
        max_kw = model.max_kw
        if grid.first_day is not None:
            period = (grid.first_day, grid.n_days)
    days = _day_counts(grid, *period)
    level = GroupLevel(
        grid=grid,
        factors=np.ones(grid.cells),
        released=released,
        std=std,
        weights=np.repeat(days, grid.slots) / (days.sum() * grid.slots),
        max_kw=max_kw,
    )
    drawn = np.zeros(grid.cells)
    for load_kw, _ in model.batches(_DRAWN, random_state=0, by=mix):
        drawn += level.by_cell(load_kw, first_day)[0].sum(axis=0) / _DRAWN
    return replace(level, factors=level_factors(drawn, released, std, level.weights))


def _day_counts(grid: TimeGrid, first_day: dt.date, n_days: int) -> Floats:
    """Return the number of days in each column of days of a grid."""
    columns = day_columns(grid, first_day, n_days)
    return np.bincount(columns, minlength=grid.cells // grid.slots).astype(np.float64)


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
