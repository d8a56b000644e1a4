"""Samples of customers for metrics: column layout, statistics, pairs of populations. PRIVATE.

A `Sample` computes once what several metrics need. `read_populations` reads profiles with profiles,
or readings with readings, into arrays that can be compared.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances

from wattveil.arrays import Floats
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.grid.large_customers import NOBODY, SetAside, usual_rows
from wattveil.numerics.kmeans.lloyd import LloydResult, k_means
from wattveil.numerics.measures import fidelity_measures
from wattveil.numerics.measures.fidelity_measures import (
    GroupDemand,
    autocorrelation,
    group_demand,
    load_factor,
    sorted_slots,
)
from wattveil.profiles import Hours, Profiles, Split, covered_days, hours_from_readings
from wattveil.readings import read_readings

FEW = 2000
"""Maximum number of rows of metrics that need all pairs."""
_BASE_QUANTILE = 0.05
_STARTS = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class SampleLayout:
    """Layout of the columns of a sample.

    Attributes
    ----------
    slots_per_day
        Columns per day.
    days
        Number of days.
    series
        Whether the days are consecutive (a series), or typical days.
    week
        Whether seven typical days are a week, Monday to Sunday.
    first_weekday
        Weekday of the first day of a series; Monday is 0.
    """

    slots_per_day: int
    days: int = 1
    series: bool = False
    week: bool = False
    first_weekday: int = 0

    @property
    def slot_hours(self) -> float:
        """Length of a slot in hours."""
        return 24.0 / self.slots_per_day

    @property
    def run(self) -> int:
        """Number of consecutive slots without a break."""
        return self.slots_per_day * (self.days if self.series or self.week else 1)

    @property
    def hour(self) -> Floats:
        """Hour of the day at which each slot of a day begins."""
        return np.arange(self.slots_per_day, dtype=np.float64) * self.slot_hours

    @property
    def day_type(self) -> NDArray[np.int64]:
        """Type of each day: weekday or weekend of a series, else one type each."""
        if not self.series:
            return np.arange(self.days)
        weekday = (self.first_weekday + np.arange(self.days)) % 7
        return (weekday >= 5).astype(np.int64)  # noqa: PLR2004 -- Saturday


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """A sample of customers in random order, with cached statistics.

    Attributes
    ----------
    load_kw : (customers, slots of all days)
        Load in kW.
    layout
        Layout of the columns.
    centroids : (K, d)
        Centroids of the real customers, in the shape of `typical`.
    """

    load_kw: Floats
    layout: SampleLayout
    centroids: Floats

    @cached_property
    def days(self) -> Floats:
        """The load by day: (customers, days, slots of a day)."""
        return self.load_kw.reshape(len(self.load_kw), self.layout.days, -1)

    @cached_property
    def typical(self) -> Floats:
        """One row per customer: its typical days, or the mean day of a series."""
        return self.days.mean(axis=1) if self.layout.series else self.load_kw

    @cached_property
    def rows(self) -> Floats:
        """Rows of slot metrics: customers, or the single days of a series."""
        if self.layout.series:
            return self.load_kw.reshape(-1, self.layout.slots_per_day)
        return self.load_kw

    @cached_property
    def few(self) -> Floats:
        """At most `FEW` of the rows, evenly spaced."""
        return evenly(self.rows, FEW)

    @cached_property
    def sorted_slots(self) -> Floats:
        """The loads of every slot in ascending order: (d, rows)."""
        return sorted_slots(self.rows)

    @cached_property
    def mean_kw(self) -> Floats:
        """Mean load of every slot: (d,)."""
        mean_kw: Floats = self.rows.mean(axis=0)
        return mean_kw

    @cached_property
    def aggregate_kw(self) -> Floats:
        """Mean load of all customers in every column, over time."""
        aggregate_kw: Floats = self.load_kw.mean(axis=0)
        return aggregate_kw

    @cached_property
    def covariance(self) -> Floats:
        """Of the slots: (d, d)."""
        return fidelity_measures.covariance(self.rows)

    @cached_property
    def day_peak_kw(self) -> Floats:
        """Highest load of every customer and day, sorted."""
        return np.sort(self.days.max(axis=2), axis=None)

    @cached_property
    def energy_kwh(self) -> Floats:
        """Mean daily energy of every customer, sorted."""
        return np.sort(self.load_kw.mean(axis=1) * 24.0)

    @cached_property
    def ramps_kw(self) -> Floats:
        """Differences of consecutive slots, of all customers; sorted."""
        runs = self.load_kw.reshape(len(self.load_kw), -1, self.layout.run)
        return np.sort(np.diff(runs, axis=2), axis=None)

    @cached_property
    def own_squares(self) -> Floats:
        """Squared distances between all pairs of the few rows."""
        return squared_distances(self.few, self.few)

    @cached_property
    def load_factor(self) -> Floats:
        """Mean over peak of each customer, sorted."""
        return np.sort(load_factor(self.load_kw))

    @cached_property
    def base_kw(self) -> Floats:
        """The 5 % quantile of each customer's slots, sorted: the base load."""
        place = int(_BASE_QUANTILE * self.load_kw.shape[1])
        return np.sort(np.partition(self.load_kw, place, axis=1)[:, place])

    @cached_property
    def clusters(self) -> LloydResult:
        """K-means of few customers."""
        rows = evenly(self.typical, FEW)
        return k_means(rows, min(len(self.centroids), len(rows)), seed=0, n_init=_STARTS)

    @cached_property
    def _by_lag(self) -> dict[int, Floats]:
        return {}

    @cached_property
    def _by_homes(self) -> dict[int, GroupDemand]:
        return {}

    def autocorrelation(self, lag: int) -> Floats:
        """Correlation of each customer's load with that of ``lag`` slots later; sorted."""
        if lag not in self._by_lag:
            self._by_lag[lag] = self._autocorrelation(lag)
        return self._by_lag[lag]

    def groups(self, homes: int) -> GroupDemand:
        """Demand of random groups of homes."""
        if homes not in self._by_homes:
            self._by_homes[homes] = group_demand(self.load_kw, homes)
        return self._by_homes[homes]

    def _autocorrelation(self, lag: int) -> Floats:
        runs = self.load_kw.reshape(len(self.load_kw), -1, self.layout.run)
        n = len(runs)
        before, after = runs[:, :, :-lag].reshape(n, -1), runs[:, :, lag:].reshape(n, -1)
        return np.sort(autocorrelation(before, after))


def squared_distances(rows: Floats, others: Floats) -> Floats:
    """Return ``|x - y|^2`` of every row and every other row."""
    found: Floats = euclidean_distances(rows, others, squared=True)
    return found


def evenly(rows: Floats, maximum: int) -> Floats:
    """Return at most ``maximum`` rows, evenly spaced."""
    if len(rows) <= maximum:
        return rows
    return rows[np.linspace(0, len(rows) - 1, maximum).astype(np.int64)]


# --- real and synthetic populations ---------------------------------------------------------------


_MAX_MISSING = 0.02


@dataclass(frozen=True, kw_only=True, eq=False)
class Populations:
    """Real and synthetic customers on the same columns.

    Attributes
    ----------
    real_kw, synthetic_kw : (customers, slots of all days)
        Finite.
    left_out
        Customers of each that were excluded because of gaps.
    set_aside
        Very large customers that were excluded.
    """

    real_kw: Floats
    synthetic_kw: Floats
    layout: SampleLayout
    left_out: tuple[int, int] = (0, 0)
    set_aside: SetAside = NOBODY

    @property
    def exclusions(self) -> tuple[str, ...]:
        """Numbers of customers that were excluded because of gaps, in words."""
        return tuple(
            f"{count:,} {name} customers have gaps and are excluded."
            for name, count in zip(("real", "synthetic"), self.left_out, strict=True)
            if count
        )

    @property
    def warning(self) -> str:
        """A warning of fewer synthetic than real customers, whose peak is biased; or nothing."""
        real, synthetic = len(self.real_kw), len(self.synthetic_kw)
        if synthetic >= real:
            return ""
        return (
            f"there are fewer synthetic ({synthetic:,}) than real customers ({real:,}). The"
            " coincident peak of fewer homes is higher by chance, and their load factor lower:"
            " draw at least as many synthetic customers."
        )


def read_populations(real: Path, synthetic: Path, *, timezone: str | None) -> Populations:
    """Read two files of profiles, or two of readings, over the days that both cover."""
    for path in (real, synthetic):
        if not path.exists():
            raise InvalidFileError(path, "file", "an existing file; check the path", None)
    kinds = [Profiles.are_in(path) for path in (real, synthetic)]
    if all(kinds):
        if timezone is not None:
            raise InvalidParameterError("timezone", "omitted for profiles", timezone)
        return of_profiles(Profiles.read_parquet(real), Profiles.read_parquet(synthetic))
    if any(kinds):
        names = ["profiles" if one else "readings" for one in kinds]
        remedy = (
            "Synthetic years are compared hour by hour: pass the raw readings of the real customers"
            " as REAL, or draw average days (`wattveil synthesize` without --years)"
            if kinds[0]
            else "Convert the readings with `wattveil profiles`"
        )
        text = f"REAL contains {names[0]} but SYNTHETIC contains {names[1]}. {remedy}"
        raise InvalidParameterError("synthetic", "", names[1], text=text)
    zone = timezone or "UTC"
    both = [read_readings(str(path), timezone=zone) for path in (real, synthetic)]
    spans = [covered_days(readings, zone) for readings in both]
    first, end = max(span[0] for span in spans), min(span[1] for span in spans)
    if end <= first:
        found = [f"{one} to {other}" for one, other in spans]
        raise InvalidParameterError("synthetic", "of days that the real ones have", found)
    hours = [
        hours_from_readings(each, first_day=first, n_days=(end - first).days, timezone=zone)
        for each in both
    ]
    return of_hours(*hours)


def usual_populations(both: Populations) -> Populations:
    """Return the populations without very large customers, as `wattveil grid` compares them."""
    if not len(both.real_kw) or not len(both.synthetic_kw):
        return both
    usual, others, set_aside = usual_rows(both.real_kw, both.synthetic_kw)
    return replace(
        both,
        real_kw=both.real_kw[usual],
        synthetic_kw=both.synthetic_kw[others],
        set_aside=set_aside,
    )


def of_profiles(real: Profiles, synthetic: Profiles) -> Populations:
    """Return the columns of two sets of profiles; the closing midnight is the first slot again."""
    if real.grid.without_days != synthetic.grid.without_days:
        raise InvalidParameterError("synthetic", f"on the grid {real.grid!r}", synthetic.grid)
    if real.timezone != synthetic.timezone:
        raise InvalidParameterError("synthetic", f"in {real.timezone}", synthetic.timezone)
    grid = real.grid
    layout = SampleLayout(
        slots_per_day=grid.slots, days=grid.cells // grid.slots, week=grid.split is Split.WEEK
    )
    return Populations(
        real_kw=real.load_kw[:, : grid.cells],
        synthetic_kw=synthetic.load_kw[:, : grid.cells],
        layout=layout,
    )


def of_hours(real: Hours, synthetic: Hours) -> Populations:
    """Return two sets of consecutive days; customers with many gaps are excluded."""
    days = [each.load_kw.shape[1] // each.slots_per_day for each in (real, synthetic)]
    when = [(each.first_day, each.slots_per_day) for each in (real, synthetic)]
    if when[0] != when[1] or days[0] != days[1]:
        raise InvalidParameterError("synthetic", f"of {days[0]} days, {when[0]}", when[1])
    loads = [_filled(each.load_kw, each.slots_per_day) for each in (real, synthetic)]
    return Populations(
        real_kw=loads[0],
        synthetic_kw=loads[1],
        layout=SampleLayout(
            slots_per_day=real.slots_per_day,
            days=days[0],
            series=True,
            first_weekday=real.first_day.weekday(),
        ),
        left_out=(len(real.load_kw) - len(loads[0]), len(synthetic.load_kw) - len(loads[1])),
    )


def _filled(load_kw: Floats, slots_per_day: int) -> Floats:
    """Return customers with few gaps, each gap filled from a week or a day before or after.

    Daylight saving time skips a slot every spring, and few meters have a complete year.
    """
    few = np.isnan(load_kw).mean(axis=1) <= _MAX_MISSING
    filled = load_kw[few]
    for days in (-7, 7, -1, 1):
        row, slot = np.nonzero(np.isnan(filled))
        source = slot + days * slots_per_day
        inside = (source >= 0) & (source < filled.shape[1])
        filled[row[inside], slot[inside]] = filled[row[inside], source[inside]]
    whole: Floats = filled[np.isfinite(filled).all(axis=1)]
    return whole
