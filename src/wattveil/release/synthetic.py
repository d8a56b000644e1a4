"""Synthetic customers and synthetic years: clusters and a model of each, under one budget.

`LoadSynthesizer` makes four queries after those of the clusters (`PrivateKMeans`), each customer in
its nearest cluster: the numbers of customers without and with export; the distances from the
centroids; first and second moments of the offsets; and the margins of the slots.

`YearSynthesizer` releases such a model of the typical days of the customers (season, weekday and
weekend). Seven more queries, over all customers together, are for their sizes; for the level of
each day that they have in common; for the deviations of their days from the typical ones, as
averages over the days of each customer; and for the spread of these deviations in shape and in
level, base loads and peaks.

`release.rows.synthesis_features` and `release.rows.day_features` have the contributions of a
customer, `numerics.synthesis` reads the noisy sums; sampling from a released model is
post-processing.
"""

import datetime as dt
import math
from collections.abc import Sequence
from functools import partial
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.engines.local import Load, as_rows
from wattveil.errors import InvalidParameterError
from wattveil.numerics.kmeans.lloyd import checked_points
from wattveil.numerics.load_basis import whole_days
from wattveil.numerics.synthesis import day_deviations, population_model, synthesis_tuning
from wattveil.numerics.synthesis.cluster_counts import ClusterCounts
from wattveil.numerics.synthesis.coordinates import Coordinates, TransformName
from wattveil.numerics.synthesis.day_deviations import YearCalendar, fitting_calendar
from wattveil.numerics.synthesis.figure_maps import peak_edges, year_size_edges
from wattveil.numerics.synthesis.population_model import SyntheticModel
from wattveil.numerics.synthesis.synthetic_customers import SyntheticCustomers
from wattveil.numerics.synthesis.year_model import make_year_model
from wattveil.privacy.guarantee import Budget, Guarantee
from wattveil.privacy.mechanisms.gaussian import PrivateTable
from wattveil.privacy.private_data import Rows
from wattveil.profiles.time_grid import Split
from wattveil.release.kmeans import PrivateKMeans
from wattveil.release.pipeline_check import check_caller
from wattveil.release.queries import SynthesisQueries, YearQueries
from wattveil.release.rows.day_features import typical_days
from wattveil.sklearn_base import check_is_fitted


class LoadSynthesizer(PrivateKMeans):
    """A model of synthetic customers released under global differential privacy.

    Parameters
    ----------
    n_clusters, epsilon, delta, clip_kw, plausible_kw, public_library
        As in `PrivateKMeans`; the budget is for clusters and model together.
    load_transform : {"asinh", "log"}
        "asinh" accepts export (negative load); "log" is the paper's log(x + alpha).
    alpha_kw : float
        Public alpha of "log": above the deepest export of any customer.
    slots_per_day : int or None
        For rows of several days (a week, weekday and weekend, seasons); None is one day.
    centroids : (K, d) or None
        Centroids that are public or were released before: no budget is spent on
        clusters, and the guarantee covers the model alone.
    sizes : (2, K) or None
        Numbers of customers released with these centroids, and their standard errors: the
        counts of this release are averaged with them.

    Attributes
    ----------
    model_ : SyntheticModel
        Released: what `sample` draws from.

    Notes
    -----
    The learned attributes of `PrivateKMeans` are set as well; with ``centroids`` given, only those
    that do not describe the search for them. Rows with NaN or infinity are excluded.

    **Formal guarantee.** (epsilon, delta)-DP for zero-out of one customer, for any data: clusters,
    two histograms and two sums by cells under one budget, each customer in one cell of each; the
    rest is post-processing. Proofs: docs/proofs/gaussian-sum.md, their adaptive composition
    docs/proofs/adaptive-transcript.md.
    """

    def __init__(
        self,
        *,
        n_clusters: int = 6,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        clip_kw: float | None = None,
        plausible_kw: tuple[float, float] = (0.04, 40.0),
        public_library: ArrayLike | None = None,
        load_transform: Literal["asinh", "log"] = "asinh",
        alpha_kw: float = 15.0,
        slots_per_day: int | None = None,
        centroids: ArrayLike | None = None,
        sizes: ArrayLike | None = None,
    ) -> None:
        super().__init__(n_clusters=n_clusters, epsilon=epsilon, delta=delta, clip_kw=clip_kw)
        self.plausible_kw = plausible_kw
        self.public_library = public_library
        self.slots_per_day = slots_per_day
        self.load_transform = load_transform
        self.alpha_kw = alpha_kw
        self.centroids = centroids
        self.sizes = sizes

    def sample(
        self,
        n_customers: int,
        *,
        random_state: int | None = None,
        by: Sequence[float] | None = None,
    ) -> SyntheticCustomers:
        """Draw customers from the released model, at no cost. See `SyntheticModel.sample`."""
        check_is_fitted(self)
        return self.model_.sample(n_customers, random_state=random_state, by=by)

    def guarantee(self) -> Guarantee:
        """Return what a fit will guarantee; refuse parameters that scikit-learn wants unchecked."""
        if self.load_transform not in get_args(TransformName):
            rule = f"one of {get_args(TransformName)}"
            raise InvalidParameterError("load_transform", rule, self.load_transform)
        checks.positive("alpha_kw", self.alpha_kw)
        return super().guarantee()

    def _release(self, load_kw: PrivateTable[Floats], budget: Budget, *, share: float) -> None:
        """Release the clusters, unless they are given, then the model with what is left."""
        if self.centroids is None:
            super()._release(load_kw, budget, share=share * synthesis_tuning.CLUSTER_SHARE)
            known = np.array([self.cluster_sizes_, self.cluster_sizes_std_])
        else:
            known = self._known_sizes()
            given = checks.numbers("centroids", self.centroids)
            shape = (self.n_clusters, load_kw.width)
            if given.shape != shape:
                raise InvalidParameterError("centroids", f"of shape {shape}", given.shape)
            self.cluster_centers_ = checked_points(given, field="centroids")
            of_clusters = (
                "cluster_centers_std_",
                "supported_",
                "n_distinguishable_",
                "size_scale_",
            )
            for name in of_clusters:
                self.__dict__.pop(name, None)  # of an earlier fit without given centroids
        to = Coordinates(
            centroids=self.cluster_centers_,
            transform=self.load_transform,
            alpha_kw=self.alpha_kw,
            n_days=whole_days(load_kw.width, self.slots_per_day or load_kw.width),
        )
        left = budget.share(share) - sum(spend.rho_units for spend in budget.spends)
        queries = SynthesisQueries(load_kw, to, longest=self._longest(load_kw.width))
        self.model_, self.cluster_sizes_std_ = _find_model(
            queries, to, left, known=known, max_kw=self._max_kw()
        )
        self.cluster_sizes_ = self.model_.customers
        if self.centroids is not None:  # otherwise the release of clusters has checked it
            self._warn_of_delta(self.delta)

    def _known_sizes(self) -> Floats:
        """Return the given sizes and their standard errors; infinite ones if none are given."""
        if self.sizes is None:
            return np.array([np.zeros(self.n_clusters), np.full(self.n_clusters, math.inf)])
        given = checks.numbers("sizes", self.sizes)
        if given.shape != (2, self.n_clusters) or not (given[1] > 0.0).all():
            rule = f"of shape {(2, self.n_clusters)}, with standard errors above 0"
            raise InvalidParameterError("sizes", rule, given.shape)
        return given

    def _max_kw(self) -> float:
        """Return the public bound on the root-mean-square load of a synthetic customer."""
        return self.plausible_kw[1] if self.clip_kw is None else self.clip_kw


def _find_model(
    queries: SynthesisQueries, to: Coordinates, left: int, *, known: Floats, max_kw: float
) -> tuple[SyntheticModel, Floats]:
    """Query counts, lengths, moments and margins with these units of the budget.

    ``known`` are numbers of customers that were released before, with their standard errors. Return
    the model with the standard errors of its numbers of customers.
    """
    count_units, length_units, margin_units = (
        int(part * left)
        for part in (
            synthesis_tuning.COUNT_SHARE,
            synthesis_tuning.RADIUS_SHARE,
            synthesis_tuning.MARGIN_SHARE,
        )
    )
    units = left - count_units - length_units - margin_units
    counts, std = queries.exports(rho_units=count_units)
    sizes = ClusterCounts.of(counts, std, known)
    edges = population_model.radius_edges(to)
    radius = population_model.choose_radius(*queries.lengths(edges, rho_units=length_units), edges)
    moments = queries.moments(radius.clip, rho_units=units)
    found = population_model.read_clusters(*moments, sizes[:2], radius, to)
    means, covariances = population_model.in_slots(found, to)
    deviations = np.sqrt(np.einsum("kii->ki", covariances))
    margins = queries.margins(means, deviations, rho_units=margin_units)
    model = population_model.make_model(
        found,
        to,
        margins=margins,
        customers=sizes.customers,
        exports=sizes.exports(to.centroids),
        max_kw=max_kw,
    )
    return model, sizes.customers_std


class YearSynthesizer(LoadSynthesizer):
    """A model of the load of customers over years, released under global differential privacy.

    Parameters
    ----------
    first_day : date
        The local day of the first slots.
    n_clusters, epsilon, delta, plausible_kw
        As in `LoadSynthesizer`; the budget is for everything together.
    clip_kw : float or None
        Public bound on the root-mean-square load of a customer's typical days, to which they and
        the counted sizes are clipped. It does not bound single slots.
    slots_per_day : int
        Slots of a day, at most 96.
    split : Split
        The parts of the year that have a typical day of their own; each must occur in the data.

    Attributes
    ----------
    year_model_ : YearModel
        Released: what `sample` draws from.

    Notes
    -----
    `fit` takes one row per customer: the load in kW of all slots of consecutive local days, as
    `hours_from_readings` gives it. A day with a slot of NaN or infinity is missing; a
    customer without any day of some part of the year is excluded. Learned
    attributes of `LoadSynthesizer` are those of the typical days.

    **Formal guarantee.** (epsilon, delta)-DP for zero-out of one customer with all its days, for
    any data: what `LoadSynthesizer` queries of the typical days, five histograms and two sums,
    under one budget. A customer is in one cell of each histogram and adds one vector of length at
    most 1 to each sum, whatever the number of its days. Proof: docs/proofs/adaptive-transcript.md.
    """

    def __init__(
        self,
        *,
        first_day: dt.date,
        n_clusters: int = 6,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        clip_kw: float | None = None,
        plausible_kw: tuple[float, float] = (0.04, 40.0),
        slots_per_day: int = 24,
        split: Split = Split.SEASON_WEEKDAY_WEEKEND,
    ) -> None:
        super().__init__(n_clusters=n_clusters, epsilon=epsilon, delta=delta, clip_kw=clip_kw)
        self.plausible_kw = plausible_kw
        self.slots_per_day: int = slots_per_day
        self.first_day = first_day
        self.split = split

    def fit(self, X: Load, y: object = None) -> Self:  # noqa: N803, ARG002 - scikit-learn's
        """Release the model of customers from the load of all their days.

        Parameters
        ----------
        X : (P, days times slots)
            Load in kW, one row per customer; P may be 0. `Rows` stay with their engine.
        y : None
            Ignored.
        """
        check_caller()
        budget = Budget(self.guarantee())
        hours = as_rows(X, partial(super()._plain_rows, reset=True))
        calendar = self._calendar(hours.width)
        queries = YearQueries(PrivateTable(hours, budget), calendar)
        self._release(queries.typical_days(), budget, share=synthesis_tuning.TYPICAL_SHARE)
        self._find_days(queries, calendar, budget)
        self.guarantee_, self.spends_ = budget.guarantee, budget.spends
        self.public_choices_ = self.get_params()
        return self

    def sample(
        self,
        n_customers: int,
        *,
        random_state: int | None = None,
        by: Sequence[float] | None = None,
    ) -> SyntheticCustomers:
        """Draw customers with the calendar of the data, at no cost. See `YearModel.sample`."""
        check_is_fitted(self)
        return self.year_model_.sample(n_customers, random_state=random_state, by=by)

    def _plain_rows(self, X: ArrayLike, *, reset: bool = False) -> Floats:  # noqa: N803 - scikit-learn's name
        """Return the exact typical days of customers, private to the caller."""
        hours = super()._plain_rows(X, reset=reset)
        calendar = self._calendar(hours.shape[1])
        return typical_days(hours, parts=calendar.parts, n_parts=calendar.n_parts)[0]

    def _private_rows(self, X: Load, *, reset: bool) -> Rows[Floats]:  # noqa: N803 - scikit-learn's name
        """Return the typical days of customers, which clusters and labels describe."""
        hours = as_rows(X, partial(super()._plain_rows, reset=reset))
        calendar = self._calendar(hours.width)
        return hours.map(typical_days.bind(parts=calendar.parts, n_parts=calendar.n_parts))

    def _calendar(self, columns: int) -> YearCalendar:
        """Return the public calendar of rows of this length."""
        return fitting_calendar(
            columns, first_day=self.first_day, n_slots=self.slots_per_day, split=self.split
        )

    def _max_kw(self) -> float:
        """Return the public bound on the load of a synthetic customer in any slot."""
        return self.plausible_kw[1]

    def _size_range(self) -> tuple[float, float]:
        """Return the public range in which sizes are counted: up to the public bound."""
        min_kw, max_kw = self.plausible_kw
        bound = max_kw if self.clip_kw is None else max(self.clip_kw, 10.0 * min_kw)
        return min_kw, bound

    def _find_days(self, queries: YearQueries, calendar: YearCalendar, budget: Budget) -> None:
        """Query sizes, levels, days and their figures with the remaining budget."""
        size_units, figure_units, level_units = map(
            budget.share,
            (
                synthesis_tuning.SIZE_SHARE,
                synthesis_tuning.FIGURE_SHARE,
                synthesis_tuning.LEVEL_SHARE,
            ),
        )
        edges = year_size_edges(self._size_range())
        sizes = queries.sizes(edges, rho_units=size_units)
        peaks, spreads = peak_edges(self.plausible_kw), day_deviations.spread_edges()
        moments, levels, *counts = queries.days(
            (spreads, spreads, day_deviations.base_edges(), peaks),
            rho_units=budget.remaining_rho_units - level_units - 4 * figure_units,
            level_units=level_units,
            figure_units=figure_units,
        )
        self.year_model_ = make_year_model(
            self.model_,
            calendar,
            sizes=(*sizes, edges),
            levels=(levels[0][0], levels[1]),
            moments=(moments[0][0], moments[1]),
            figures=counts[:3],
            peaks=(*counts[3], peaks),
        )
