"""K-means of daily load under global differential privacy.

Six things are queried by noisy sums (`queries`): the number of customers; their sizes; the
population mean, if there is little signal; where customers are among public shapes at the sizes
found (coarse stage); which of the merges to K clusters fits them, if that is undecided; and the
centre of each cluster (refining stage). Everything between the queries is arithmetic on released
and public numbers: `wattveil.clustering` has geometry, sizes, middle, codebook, cells (the filter),
stages, merge and choice, and in tuning every constant that was chosen by measurement.
"""

import math
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from wattveil import checks
from wattveil.clustering import cells as filtering
from wattveil.clustering import stages, tuning
from wattveil.clustering.calendar import row_basis, tiled_library, whole_days
from wattveil.clustering.cells import Cells
from wattveil.clustering.choice import chosen
from wattveil.clustering.codebook import make_codebook, shapes_per_level
from wattveil.clustering.geometry import Floats, checked_library
from wattveil.clustering.merge import local_optima, told_apart
from wattveil.clustering.middle import join_middle, public_middle, widened
from wattveil.clustering.sizes import SizeLevels, checked_range, one_level, size_edges, size_levels
from wattveil.clustering.tuning import choose_tuning
from wattveil.engines.inputs import Load, Values, as_rows, estimator_rows, load_rows
from wattveil.errors import InvalidParameterError
from wattveil.pipeline_check import warn_of_fitted_steps
from wattveil.privacy import accounting
from wattveil.privacy.budget import Budget
from wattveil.privacy.guarantee import Guarantee
from wattveil.privacy.private_rows import BoundRowFunction, IntArray, Rows
from wattveil.privacy.private_table import PrivateTable
from wattveil.release.labels import ReleasedLabels, composed_guarantee, release_labels
from wattveil.release.promise import global_promise
from wattveil.release.queries import KMeansQueries, rows_by_group
from wattveil.release.rows.group_places import of_group
from wattveil.release.rows.nearest import nearest_centroid
from wattveil.release.rows.projection import comparable_rows

_MOST_CLUSTERS = 1000
_SIZE_COORDINATES = 9
"""Sizes are measured in the smoothest coordinates: roughness is noise."""
_SHAPE_LENGTH = 0.97
"""Typical length of a normalised customer in the working coordinates."""


class PrivateKMeans(ClusterMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """K-means released under global differential privacy.

    Parameters
    ----------
    n_clusters : int
        K, at most 1,000.
    epsilon, delta : float
        The whole budget of centroids and sizes.
    clip_kw : float or None
        Public bound on a customer's root-mean-square load; larger ones are scaled back to it. None
        scales nobody: what one customer can do is bounded anyway.
    plausible_kw : (float, float)
        Public range of customers' root-mean-square load, in which sizes are looked for. A wide
        range costs next to nothing, unless customers are few (n mu below 20); the wrong unit (W,
        kWh a day) costs the release.
    normalise : bool
        Cluster shapes: every customer's row is scaled to length 1 first. Needs far fewer customers
        for the same accuracy.
    public_library : (M, d) or None
        Own public shapes for the coarse stage, the most common first; the built-in ones follow as
        far as more are needed.
    slots_per_day : int or None
        For rows of several days (a week, weekday and weekend, seasons): slots of one of them. None
        is a row of one day.

    Attributes
    ----------
    cluster_centers_ : (K, d)
        Released, in kW; with ``normalise`` in units of a row's length.
    cluster_centers_std_ : (K, d)
        Standard error of each number, from the known noise and the public prior.
    cluster_sizes_, cluster_sizes_std_ : (K,)
        Released customers in each cluster, noisy, and their standard errors.
    n_told_apart_ : int
        How many clusters there are of which every two differ by more than their noise; below K the
        budget could not support K clusters.
    size_scale_ : (float, float) or None
        Median root-mean-square load in kW and spread of its logarithm, as released; None with
        ``normalise``.
    guarantee_ : Guarantee
        Tier "global".
    spends_ : tuple of Spend
        The transcript: what each ask cost. The sum is the grant, to the last unit.
    public_choices_ : dict
        Every parameter that shaped the release.

    Notes
    -----
    Rows with NaN or infinity contribute nothing, by rule; so does, with ``normalise``, a row of
    zeros. Values saturate at 1e9 kW.

    **Formal guarantee.** (epsilon, delta)-DP for zero-out of one customer, for any data: every
    number released is computed from `KMeansQueries` under one budget. Proof:
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
        normalise: bool = False,
        public_library: ArrayLike | None = None,
        slots_per_day: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.clip_kw = clip_kw
        self.plausible_kw = plausible_kw
        self.normalise = normalise
        self.public_library = public_library
        self.slots_per_day = slots_per_day

    def fit(self, X: Load, y: object = None) -> Self:  # noqa: N803, ARG002 - scikit-learn's
        """Release the clusters of the customers.

        Parameters
        ----------
        X : (P, d)
            Load in kW, one row a customer; P may be 0. `Rows` are left where their engine has them.
        y : None
            Ignored.
        """
        warn_of_fitted_steps()
        budget = Budget(self.guarantee())
        table = PrivateTable(self._private_rows(X, reset=True), budget)
        self._release(table, budget, share=1.0)
        self.guarantee_, self.spends_ = budget.guarantee, budget.spends
        self.public_choices_ = self.get_params()
        return self

    def predict(self, X: ArrayLike) -> IntArray:  # noqa: N803 - scikit-learn's name
        """Return the nearest released centroid of each row, -1 for one without data.

        What is returned is exact, and private to the caller.
        """
        check_is_fitted(self)
        rows = self.comparable(self._plain_rows(X))
        return nearest_centroid(rows, centroids=self.cluster_centers_)[0]

    def fit_predict(self, X: ArrayLike, y: object = None) -> IntArray:  # noqa: N803 - scikit-learn's
        """Release the clusters and return each row's: private to the caller, and kept nowhere."""
        return self.fit(X, y).predict(X)

    def release_labels(
        self,
        X: Load,  # noqa: N803 - scikit-learn's name
        *,
        epsilon: float,
        customer_ids: Values,
        real_ids: bool = False,
        design: Literal["cheapest", "response"] = "cheapest",
    ) -> ReleasedLabels:
        """Release one randomised label a customer, at a price of its own.

        The nearest released centroid of each row, through a channel: see `release_labels`. What
        centroids and labels cost together is `guarantee_with`.
        """
        check_is_fitted(self)
        return release_labels(
            self.comparable_rows(self._private_rows(X, reset=False)),
            centroids=self.cluster_centers_,
            sizes=self.cluster_sizes_,
            epsilon=epsilon,
            customer_ids=customer_ids,
            real_ids=real_ids,
            design=design,
        )

    def guarantee_with(self, *labels: ReleasedLabels) -> Guarantee:
        """Return the promise of these centroids and their labels, at the delta of the centroids.

        Holds if the epsilon of the labels was decided before the centroids were seen. Labels of
        other centroids, also of an earlier fit, are refused: what those cost is not known here.
        """
        check_is_fitted(self)
        if not all(np.array_equal(one.centroids, self.cluster_centers_) for one in labels):
            raise InvalidParameterError("labels", "released for these centroids", "others")
        promises = [one.guarantee for one in labels]
        budgets = [Budget(promise, response_epsilon=promise.epsilon) for promise in promises]
        delta = self.guarantee_.delta
        return composed_guarantee(Budget(self.guarantee_), *budgets, delta=delta)

    def comparable(self, load_kw: Floats) -> Floats:
        """Return rows as `fit` uses them, in the units of the centroids; NaN without data.

        Exact, and private to the caller.
        """
        return self._comparable(load_kw.shape[1])(load_kw)[0]

    def comparable_rows(self, rows: Rows[Floats]) -> Rows[Floats]:
        """Return private rows as `fit` uses them, in the units of the centroids."""
        return rows.map(self._comparable(rows.width))

    def _comparable(self, n_slots: int) -> BoundRowFunction[tuple[Floats]]:
        return comparable_rows.bind(normalise=self.normalise, longest=self._longest(n_slots))

    def _plain_rows(self, X: ArrayLike, *, reset: bool = False) -> Floats:  # noqa: N803 - scikit-learn's name
        """Return a float matrix; anything else is refused without quoting it."""
        options = {"order": "C", "ensure_all_finite": False, "ensure_min_samples": 0}
        return estimator_rows(self, X, reset=reset, **options)

    def _private_rows(self, X: Load, *, reset: bool) -> Rows[Floats]:  # noqa: N803 - scikit-learn's name
        """Return the rows to be clustered: an engine's rows unchanged, other data as a matrix."""
        return as_rows(X, partial(self._plain_rows, reset=reset))

    def _longest(self, n_slots: int) -> float:
        """Return the length to which rows are clipped."""
        return math.inf if self.clip_kw is None else self.clip_kw * math.sqrt(n_slots)

    def _release(self, load_kw: PrivateTable[Floats], budget: Budget, *, share: float) -> None:
        """Query, filter and merge with this share of the budget; set the learned attributes."""
        n_slots = load_kw.width
        n_days = whole_days(n_slots, self.slots_per_day or n_slots)
        basis = row_basis(n_slots, n_days)
        queries = KMeansQueries(
            load_kw,
            basis=basis,
            normalise=self.normalise,
            longest=self._longest(n_slots),
        )
        self._find_clusters(queries, budget, share=share, basis=basis, n_days=n_days)

    def _find_clusters(
        self, queries: KMeansQueries, budget: Budget, *, share: float, basis: Floats, n_days: int
    ) -> None:
        """Find the clusters: post-processing, except for what ``queries`` release and charge."""
        n_slots = basis.shape[1]
        library = checked_library(self.public_library, n_slots)
        granted = budget.share(share)
        mu = math.sqrt(2.0 * granted / accounting.RHO_UNITS)
        units = budget.share(share * tuning.COUNT_SHARE)
        counted, customers_std = queries.customers(rho_units=units)
        customers = max(counted, 1.0)  # a noisy count may be negative
        signal = customers * mu
        how = choose_tuning(signal / self.n_clusters, n_slots=n_slots, n_clusters=self.n_clusters)
        sizes = self._sizes(queries, granted, n_slots=n_slots, customers=customers, mu=mu)
        size = math.exp(sizes.log_median)
        further = max(max(shapes_per_level(how, sizes)) - len(library), 0)
        library = np.vstack([library, tiled_library(n_slots, n_days, further)])

        queries.keep_coordinates(how.coordinates)
        basis = basis[: how.coordinates]
        shapes = library @ basis.T
        colour = filtering.noise_colour(how.coordinates, how.colour)

        def left() -> int:
            return granted - (budget.rho_units - budget.remaining_rho_units)

        for_middle = tuning.middle_share(signal)
        middle = None
        if for_middle:
            public = public_middle(shapes, size=size, customers=customers, std=customers_std)
            units = int(for_middle * left())
            middle = stages.middle_stage(
                queries.step, public, size=size, colour=colour, units=units
            )
        if middle is not None and self.n_clusters == 1:
            cells = widened(middle, size=size)
        else:
            rest = share * (1.0 - for_middle)
            coarse = make_codebook(shapes, sizes, how)
            units = budget.share(rest * tuning.COARSE_SHARE)
            cells = stages.coarse_stage(
                queries.step, coarse.cells, colour=colour, how=how, units=units
            )
            merges = local_optima(coarse.confirmed(cells), self.n_clusters - (middle is not None))
            units = max(budget.share(rest * tuning.CHOICE_SHARE), 1)  # 0 would have no noise scale
            std = math.sqrt(accounting.RHO_UNITS / (2.0 * units))
            merge = chosen(merges, std=std, ask=partial(queries.costs, rho_units=units))
            cells = merge.clusters(median_size=size, customers=0.5 * (customers + sizes.total))
            cells = cells if middle is None else join_middle(cells, middle)
        cells = stages.refining_stage(queries.step, cells, colour=colour, how=how, units=left())
        cells = stages.last_look(
            cells, is_shape=self.normalise, has_middle=middle is not None, std=customers_std
        )
        self._set_released(cells, sizes, basis)

    def _sizes(
        self, queries: KMeansQueries, granted: int, *, n_slots: int, customers: float, mu: float
    ) -> SizeLevels:
        """Query the sizes of the customers, unless they are all 1."""
        if self.normalise:
            return one_level(_SHAPE_LENGTH, customers)
        least, most = (kw * math.sqrt(n_slots) for kw in checked_range(self.plausible_kw))
        edges = size_edges(least, most, signal=customers * mu)
        share = tuning.size_share(customers * mu, range_ratio=most / least)
        smooth, units = min(_SIZE_COORDINATES, n_slots), int(share * granted)
        counts, std = queries.sizes(edges, coordinates=smooth, rho_units=units)
        return size_levels(counts, edges, std=std, mu=mu)

    def _set_released(self, cells: Cells, sizes: SizeLevels, basis: Floats) -> None:
        """Turn cells into centroids in kW with standard errors."""
        self.cluster_centers_ = cells.middles @ basis
        self.cluster_centers_std_ = np.sqrt(cells.variance @ np.square(basis))
        self.cluster_sizes_ = np.maximum(cells.counts, 0.0)
        self.cluster_sizes_std_ = np.sqrt(cells.counts_variance)
        self.n_told_apart_ = told_apart(cells)
        self.size_scale_ = (
            None
            if self.normalise
            else (math.exp(sizes.log_median) / math.sqrt(basis.shape[1]), sizes.log_spread)
        )

    def guarantee(self) -> Guarantee:
        """Return what a fit will promise; refuse parameters that scikit-learn wants unchecked."""
        checks.integer("n_clusters", self.n_clusters, least=1, most=_MOST_CLUSTERS)
        if self.clip_kw is not None:
            checks.positive("clip_kw", self.clip_kw)
        checked_range(self.plausible_kw)
        return global_promise(
            epsilon=checks.positive_epsilon("epsilon", self.epsilon),
            delta=checks.probability("delta", self.delta),
        )

    def __sklearn_tags__(self) -> Tags:
        """Say that rows with NaN are accepted: they contribute nothing."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def private_kmeans_by_class(
    estimator: PrivateKMeans, load_kw: Load, classes: Values, levels: Sequence[Hashable]
) -> dict[Hashable, PrivateKMeans]:
    """Release the clusters of each public class of customers, each with the whole budget.

    A few giants among homes take clusters and spoil the sizes; clustered by tariff class they do
    not. ``levels`` is the public list of classes: each gets a release, also if nobody is in it, and
    customers of other classes get none.

    Formal guarantee
    ----------------
    The caller ensures that a customer's class is public. Then all releases together satisfy the
    guarantee of one: a customer is in one of them (parallel composition).
    """
    table = rows_by_group(load_rows(load_kw), {"classes": classes}, {"levels": levels})
    return {
        level: clone(estimator).fit(table.select(of_group.bind(place=place)))
        for place, level in enumerate(levels)
    }
