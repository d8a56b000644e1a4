"""A set of customers as metrics see it; what several metrics need is computed once. PRIVATE."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances

from wattveil.clustering.lloyd import LloydResult, k_means
from wattveil.measures import slots
from wattveil.measures.customers import GroupDemand, autocorrelation, group_demand, load_factor
from wattveil.measures.samples import sorted_slots

Floats = NDArray[np.float64]

FEW = 2000
"""Rows that metrics of all pairs look at."""
_BASE_QUANTILE = 0.05
_STARTS = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """What the columns are.

    Attributes
    ----------
    slots_per_day : int
        Columns of a day.
    days : int
        Days side by side.
    series : bool
        Whether the days follow each other in time (a series), or are typical ones.
    week : bool
        Whether seven typical days are a week, Monday to Sunday.
    first_weekday : int
        Weekday of the first day of a series; Monday is 0.
    """

    slots_per_day: int
    days: int = 1
    series: bool = False
    week: bool = False
    first_weekday: int = 0

    @property
    def slot_hours(self) -> float:
        """Length of a slot."""
        return 24.0 / self.slots_per_day

    @property
    def run(self) -> int:
        """How many slots follow each other without a break."""
        return self.slots_per_day * (self.days if self.series or self.week else 1)

    @property
    def hour(self) -> Floats:
        """Hour of the day at which each slot of a day begins."""
        return np.arange(self.slots_per_day, dtype=np.float64) * self.slot_hours

    @property
    def kind_of_day(self) -> NDArray[np.int64]:
        """Which kind of day each is: weekday or weekend of a series, else one kind each."""
        if not self.series:
            return np.arange(self.days)
        weekday = (self.first_weekday + np.arange(self.days)) % 7
        return (weekday >= 5).astype(np.int64)  # noqa: PLR2004 -- Saturday


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Customers in random order.

    Attributes
    ----------
    load_kw : (customers, slots of all days)
    layout : Layout
    centroids : (K, d)
        Published ones, or those of the real customers, in the shape of `typical`.
    """

    load_kw: Floats
    layout: Layout
    centroids: Floats

    @cached_property
    def days(self) -> Floats:
        """The load by day: (customers, days, slots of a day)."""
        return self.load_kw.reshape(len(self.load_kw), self.layout.days, -1)

    @cached_property
    def typical(self) -> Floats:
        """One row a customer: its typical days, or the mean day of a series."""
        return self.days.mean(axis=1) if self.layout.series else self.load_kw

    @cached_property
    def rows(self) -> Floats:
        """What the d slots of a metric are: customers, or the single days of a series."""
        if self.layout.series:
            return self.load_kw.reshape(-1, self.layout.slots_per_day)
        return self.load_kw

    @cached_property
    def few(self) -> Floats:
        """At most `FEW` of the rows, evenly from all."""
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
        return slots.covariance(self.rows)

    @cached_property
    def day_peak_kw(self) -> Floats:
        """Highest load of every customer and day, sorted."""
        return np.sort(self.days.max(axis=2), axis=None)

    @cached_property
    def energy_kwh(self) -> Floats:
        """Energy a day of every customer, mean of its days, sorted."""
        return np.sort(self.load_kw.mean(axis=1) * 24.0)

    @cached_property
    def ramps_kw(self) -> Floats:
        """Steps from a slot to the next without a break between, of all customers; sorted."""
        runs = self.load_kw.reshape(len(self.load_kw), -1, self.layout.run)
        return np.sort(np.diff(runs, axis=2), axis=None)

    @cached_property
    def own_squares(self) -> Floats:
        """Squared distance of every two of the few rows."""
        return squared_distances(self.few, self.few)

    @cached_property
    def load_factor(self) -> Floats:
        """Mean over peak of each customer, sorted."""
        return np.sort(load_factor(self.load_kw))

    @cached_property
    def base_kw(self) -> Floats:
        """The 5 % quantile of each customer's slots, sorted: what it has at least at night."""
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


def evenly(rows: Floats, most: int) -> Floats:
    """Return at most so many rows, evenly spread over all."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]
