"""K-means of daily load under global differential privacy.

The algorithm makes up to six kinds of noisy queries (`queries`): the number of customers; their
sizes; the population mean, if there is little signal; counts and centres of cells at public shapes
and released sizes (coarse stage); a selection among merges of these cells to K clusters, if several
are plausible; and the centre of each cluster (refining stage). All computation between the queries
is post-processing of released and public numbers: `numerics.load_basis`,
`numerics.size_distribution`, `numerics.kmeans.kmeans_stages` and `numerics.kmeans.cluster_merge`.
The constants that were chosen by measurement are in `numerics.kmeans.kmeans_tuning`.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.engines.local import Load, Values, as_rows, estimator_rows, load_rows
from wattveil.errors import InvalidParameterError
from wattveil.numerics.kmeans import codebooks, kmeans_tuning
from wattveil.numerics.kmeans import kmeans_stages as stages
from wattveil.numerics.kmeans.cluster_merge import local_optima, select_merge
from wattveil.numerics.kmeans.rough_coordinates import curves_of, pool_rough
from wattveil.numerics.load_basis import checked_library, row_basis, tiled_library, whole_days
from wattveil.numerics.segment_support import segment_support
from wattveil.numerics.size_distribution import (
    SizeLevels,
    checked_range,
    one_level,
    size_edges,
    size_levels,
)
from wattveil.privacy import accounting
from wattveil.privacy.guarantee import Budget, Guarantee, global_guarantee
from wattveil.privacy.mechanisms.gaussian import PrivateTable
from wattveil.privacy.private_data import BoundRowFunction, Rows
from wattveil.release.estimator import PrivateEstimator
from wattveil.release.pipeline_check import check_caller
from wattveil.release.queries import KMeansQueries, rows_by_group
from wattveil.release.randomised_labels import ReleasedLabels, composed_guarantee, release_labels
from wattveil.release.rows.load_features import comparable_rows, nearest_centroid, of_group
from wattveil.sklearn_base import BaseEstimator, ClusterMixin, check_is_fitted, clone
from wattveil.web.curves import Chart
from wattveil.web.results import ChartedResult, ResultTable

if TYPE_CHECKING:  # scikit-learn comes with an extra
    from sklearn.utils import Tags

_MAX_CLUSTERS = 1000
_SIZE_COORDINATES = 9
"""Sizes are measured in the smoothest coordinates."""
_SHAPE_LENGTH = 0.97
"""Typical length of a normalised customer in the working coordinates."""


class PrivateKMeans(PrivateEstimator, ClusterMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """K-means released under global differential privacy.

    Parameters
    ----------
    n_clusters : int
        K, at most 1,000.
    epsilon, delta : float
        The whole budget of centroids and sizes.
    clip_kw : float or None
        Public bound on the root-mean-square load of a customer; larger rows are clipped to it. None
        clips no row: the contribution of a customer is bounded in any case.
    plausible_kw : (float, float)
        Public range of the root-mean-square load of customers, in which sizes are estimated. A wide
        range costs little, unless customers are few (n mu below 20); load in a wrong unit (W, kWh
        per day) makes the release useless.
    normalise : bool
        Cluster shapes: every row is scaled to unit L2 norm first. Needs far fewer customers for the
        same accuracy.
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
    supported_ : (K,)
        Whether the noise supports each cluster: more customers than 2 standard errors, and a curve
        that differs from those of the others by more than 2. Supported clusters come first.
    n_distinguishable_ : int
        Number of clusters that differ pairwise by more than their noise; below K the budget did not
        support K clusters.
    size_scale_ : (float, float) or None
        Released median root-mean-square load in kW, and standard deviation of its logarithm; None
        with ``normalise``.
    guarantee_ : Guarantee
        Tier "global".
    spends_ : tuple of Spend
        The transcript: the cost of each query. The sum is the grant, to the last unit.
    public_choices_ : dict
        Every parameter that shaped the release.

    Notes
    -----
    Rows with NaN or infinity, and with ``normalise`` rows of zeros, are excluded. Values
    saturate at 1e9 kW. No rows, or rows of NaN alone, are released like any others: an error would
    tell how many customers there are. Load in W instead of kW is no error either; a released median
    ``size_scale_`` near the upper end of ``plausible_kw`` is a sign of it.

    There is no ``random_state``: reproducible noise gives no protection. Sampling from released
    models, which is post-processing, has one.

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
            Load in kW, one row per customer, or `Profiles` of one average day; P may be 0. `Rows`
            stay with their engine.
        y : None
            Ignored.
        """
        check_caller()
        budget = Budget(self.guarantee())
        table = PrivateTable(self._private_rows(X, reset=True), budget)
        self._release(table, budget, share=1.0)
        self.guarantee_, self.spends_ = budget.guarantee, budget.spends
        self.public_choices_ = self.get_params()
        return self

    def predict(self, X: ArrayLike) -> Ints:  # noqa: N803 - scikit-learn's name
        """Return the nearest released centroid of each row, -1 for one without data.

        What is returned is exact, and private to the caller.
        """
        check_is_fitted(self)
        rows = self.comparable(self._plain_rows(X))
        return nearest_centroid(rows, centroids=self.cluster_centers_)[0]

    def fit_predict(self, X: ArrayLike, y: object = None) -> Ints:  # noqa: N803 - scikit-learn's
        """Release the clusters and return that of each row: private to the caller, not stored."""
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
        """Release one randomised label per customer, at an epsilon of its own.

        The nearest released centroid of each row, through a channel: see `release_labels`. The cost
        of centroids and labels together is `guarantee_with`.
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
        """Return the guarantee of these centroids and their labels, at the delta of the centroids.

        Holds if the epsilon of the labels was decided before the centroids were seen. Labels of
        other centroids, also of an earlier fit, are refused: their cost is unknown here.
        """
        check_is_fitted(self)
        if not all(np.array_equal(one.centroids, self.cluster_centers_) for one in labels):
            raise InvalidParameterError("labels", "labels of these centroids", "labels of others")
        guarantees = [one.guarantee for one in labels]
        budgets = [
            Budget(guarantee, response_epsilon=guarantee.epsilon) for guarantee in guarantees
        ]
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
        units = budget.share(share)
        cells, sizes = self._find_clusters(
            queries, budget, granted=units, basis=basis, n_days=n_days
        )
        self._set_released(cells, sizes, basis)

    def _find_clusters(
        self, queries: KMeansQueries, budget: Budget, *, granted: int, basis: Floats, n_days: int
    ) -> tuple[stages.Cells, SizeLevels]:
        """Find the clusters: post-processing, except for what ``queries`` release and charge.

        ``granted`` units are used, to the last one, of what is left of the budget.
        """
        n_slots = basis.shape[1]
        library = checked_library(self.public_library, n_slots)
        begun = budget.remaining_rho_units

        def left() -> int:
            return granted - (begun - budget.remaining_rho_units)

        def part(fraction: float) -> int:
            return int(Fraction(fraction) * granted)

        # 1. Number of customers n, and from the signal n mu the tuning of all later stages.
        mu = math.sqrt(2.0 * granted / accounting.RHO_UNITS)
        units = part(kmeans_tuning.COUNT_SHARE)
        counted, customers_std = queries.customers(rho_units=units)
        customers = max(counted, 1.0)  # a noisy count may be negative
        signal = customers * mu
        tuning = kmeans_tuning.choose_tuning(
            signal / self.n_clusters, n_slots=n_slots, n_clusters=self.n_clusters
        )

        # 2. Sizes, and the public shapes in the working coordinates.
        sizes = self._sizes(queries, granted, n_slots=n_slots, customers=customers, mu=mu)
        size = math.exp(sizes.log_median)
        further = max(max(codebooks.shapes_per_level(tuning, sizes)) - len(library), 0)
        library = np.vstack([library, tiled_library(n_slots, n_days, further)])
        queries.keep_coordinates(tuning.coordinates)
        shapes = library @ basis[: tuning.coordinates].T
        colour = stages.noise_colour(tuning.coordinates, tuning.colour)

        # 3. The population mean: of shapes, and with little signal as one of the clusters.
        mean_share, radii = kmeans_tuning.mean_steps(
            signal, n_clusters=self.n_clusters, is_shape=self.normalise
        )
        mean, is_wide = None, False
        if mean_share:
            prior = stages.prior_population_mean(
                shapes, size=size, customers=customers, std=customers_std
            )
            mean, is_wide = stages.population_mean_stage(
                queries.step,
                prior,
                radii=radii,
                size=size,
                colour=colour,
                units=int(mean_share * left()),
                is_shape=self.normalise,
            )
        has_mean = kmeans_tuning.population_mean_share(signal) > 0.0
        if mean is not None and self.n_clusters == 1:
            cells = stages.as_only_cluster(mean, size=size)
        else:
            # 4. Coarse stage on the codebook, then one of its merges to K clusters.
            rest = 1.0 - mean_share
            if mean is None or is_wide:
                codebook = codebooks.make_codebook(shapes, sizes, tuning)
                if is_wide and tuning.pools_rough:
                    tuning = replace(tuning, coarse_steps=kmeans_tuning.WIDE_COARSE_STEPS)
            else:
                centred = codebooks.shape_codebook if self.normalise else codebooks.load_codebook
                codebook = centred(shapes, mean, sizes, self.n_clusters)
            units = part(rest * kmeans_tuning.COARSE_SHARE)
            coarse = stages.coarse_stage(
                queries.step, codebook.cells, colour=colour, tuning=tuning, units=units
            )
            merges = local_optima(
                codebook.confirmed(coarse), self.n_clusters - has_mean, is_shape=self.normalise
            )
            # Without a unit there would be no noise scale.
            units = max(part(rest * kmeans_tuning.SELECTION_SHARE), 1)
            std = math.sqrt(accounting.RHO_UNITS / (2.0 * units))
            merge = select_merge(merges, std=std, query=partial(queries.costs, rho_units=units))
            cells = merge.clusters(median_size=size, customers=0.5 * (customers + sizes.total))
            if mean is not None and has_mean:
                cells = stages.add_population_mean(cells, mean)

        # 5. Refinement and smoothing with the rest of the budget, then standard errors.
        cells, steps = stages.refining_stage(
            queries.step, cells, colour=colour, tuning=tuning, units=left()
        )
        if tuning.pools_rough:
            cells = pool_rough(cells, steps, colour=colour, is_shape=self.normalise)
        cells = stages.finish_clusters(
            cells, is_shape=self.normalise, has_population_mean=has_mean, std=customers_std
        )
        return cells, sizes

    def _sizes(
        self, queries: KMeansQueries, granted: int, *, n_slots: int, customers: float, mu: float
    ) -> SizeLevels:
        """Query the sizes of the customers, unless they are all 1."""
        if self.normalise:
            return one_level(_SHAPE_LENGTH, customers)
        low, high = (kw * math.sqrt(n_slots) for kw in checked_range(self.plausible_kw))
        edges = size_edges(low, high, signal=customers * mu)
        share = kmeans_tuning.size_share(customers * mu, range_ratio=high / low)
        smooth, units = min(_SIZE_COORDINATES, n_slots), int(share * granted)
        counts, std = queries.sizes(edges, coordinates=smooth, rho_units=units)
        return size_levels(counts, edges, std=std, mu=mu)

    def _set_released(self, cells: stages.Cells, sizes: SizeLevels, basis: Floats) -> None:
        """Turn cells into centroids in kW with standard errors."""
        centres, std = curves_of(cells, basis, is_shape=self.normalise)
        counts, counts_std = np.maximum(cells.counts, 0.0), np.sqrt(cells.counts_variance)
        sizes_std = np.hypot(counts_std, kmeans_tuning.COUNT_BIAS * counts)
        support = segment_support(centres, std, counts, sizes_std)
        order = np.lexsort((-counts, ~support.supported))  # supported first, then by size
        self.cluster_centers_, self.cluster_centers_std_ = centres[order], std[order]
        self.cluster_sizes_, self.cluster_sizes_std_ = counts[order], sizes_std[order]
        self.supported_ = support.supported[order]
        self.n_distinguishable_ = int(support.curve.sum())
        self.size_scale_ = (
            None
            if self.normalise
            else (math.exp(sizes.log_median) / math.sqrt(basis.shape[1]), sizes.log_std)
        )
        self._warn_of_delta(self.delta)

    def guarantee(self) -> Guarantee:
        """Return what a fit will guarantee; refuse parameters that scikit-learn wants unchecked."""
        checks.integer("n_clusters", self.n_clusters, minimum=1, maximum=_MAX_CLUSTERS)
        if self.clip_kw is not None:
            checks.positive("clip_kw", self.clip_kw)
        checked_range(self.plausible_kw)
        return global_guarantee(
            epsilon=checks.positive_epsilon("epsilon", self.epsilon),
            delta=checks.probability("delta", self.delta),
        )

    def __sklearn_tags__(self) -> "Tags":
        """Declare that rows with NaN are accepted: they are excluded."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def private_kmeans_by_class(
    estimator: PrivateKMeans, load_kw: Load, classes: Values, levels: Sequence[Hashable]
) -> "KMeansByClass":
    """Release the clusters of each public class of customers, each with the whole budget.

    A few very large customers among homes would occupy clusters and distort the sizes; clustered by
    tariff class they do not. ``levels`` is the public list of classes: each gets a release, also an
    empty one. Customers of other classes are excluded.

    Formal guarantee
    ----------------
    The caller ensures that a customer's class is public. Then all releases together satisfy the
    guarantee of one: a customer is in one of them (parallel composition).
    """
    table = rows_by_group(load_rows(load_kw), {"classes": classes}, {"levels": levels})
    return KMeansByClass(
        (level, clone(estimator).fit(table.select(of_group.bind(place=place))))
        for place, level in enumerate(levels)
    )


class KMeansByClass(dict[Hashable, PrivateKMeans], ChartedResult):
    """Released clusters by class: each class maps to its estimator. All of it may be published."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of all releases together, which is that of one."""
        return next(iter(self.values())).guarantee_

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {name: partial(self._joined, name) for name in ("centroids", "cluster_sizes")}

    def _joined(self, name: str) -> ResultTable:
        parts = [one.to_arrow(name) for one in self.values()]
        columns = {
            "group": [
                level for level, part in zip(self, parts, strict=True) for _ in part["cluster"]
            ],
            **{
                column: np.concatenate([part[column].to_numpy() for part in parts])
                for column in parts[0].column_names
            },
        }
        keys = ("group", "cluster", "slot") if name == "centroids" else ("group", "cluster")
        return ResultTable(columns, keys)

    def _chart(self) -> Chart:
        charts = {level: one._chart() for level, one in self.items()}  # noqa: SLF001 - same base
        curves = [
            curve._replace(name=f"{level}, {curve.name}", number=number)
            for number, (level, curve) in enumerate(
                (level, curve) for level, chart in charts.items() for curve in chart.curves
            )
        ]
        return next(iter(charts.values()))._replace(curves=curves)
