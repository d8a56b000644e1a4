"""The product `clusters`: load curves of customer segments with error bands, and their sizes."""

import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from wattveil import calibration, checks
from wattveil.arrays import Floats
from wattveil.numerics.groups.group_sizes import ALL_CUSTOMERS
from wattveil.numerics.kmeans.lloyd import assign, k_means
from wattveil.numerics.load_basis import whole_days
from wattveil.products.plan_calibration import Roughness, calibrated, supported_range
from wattveil.products.product import (
    Achievement,
    Allotment,
    Choice,
    Expectation,
    Headline,
    Product,
    ReleasedProduct,
    Run,
    Work,
)
from wattveil.products.request import ReleaseRequest
from wattveil.products.segment_figures import segment_figures, segment_headline
from wattveil.products.segments import DISTINGUISHABLE, SUPPORTED, achieved_support
from wattveil.products.tables import (
    CLUSTER,
    CUSTOMERS,
    CUSTOMERS_STD,
    GROUP,
    LOAD_KW,
    SHAPE,
    SHAPE_STD,
    SLOT,
    STD_KW,
    TIME,
    Column,
    Table,
    TableLayout,
    crossed,
)
from wattveil.profiles import TimeGrid
from wattveil.release.kmeans import PrivateKMeans, private_kmeans_by_class
from wattveil.simulate import simulate_load_kw
from wattveil.sklearn_base import clone
from wattveil.web.charts import ReportFigure
from wattveil.web.results import Result, ResultTable, records_table

_FURTHER = re.compile(
    "(population mean|coarse|refining) step [0-9]{1,3}: (counts|offsets)|merge selection"
)
"""Draws that a fit may make beyond the fewest."""
_SIMULATED = 1500
"""Maximum of simulated customers; for more of them the noise is smaller instead."""
_POPULATIONS = 4
_RUNS = 6
"""Populations of few homes differ: several are simulated, with some runs each."""
_STRONGEST = 30.0
"""Above this Gaussian signal the noise of a simulation is negligible."""
_NONE_SUPPORTED = (
    "clusters: no segment is expected to be supported: the curves will mostly show noise."
)

_Estimator = TypeVar("_Estimator", bound=PrivateKMeans)


class Clusters(Product):
    """Clusters of all customers, or of each group with the whole allotment in parallel."""

    name = "clusters"
    title = "Customer segments"
    default_weight = 3.0  # clusters answer the most questions and need the most
    choices = ("n_clusters", "normalise", "by", "clusters_by_group")
    postprocessing = (
        "load curves: noisy sums, filtered with the known noise and a public prior, then merged",
        "sizes of segments: noisy counts, clipped at 0",
    )

    def is_of_listed_groups(self, request: ReleaseRequest) -> bool:
        """Whether each group is clustered separately."""
        return request.clusters_by_group

    def layouts(self, choice: Choice) -> tuple[TableLayout, ...]:
        """Return curves and sizes of the clusters of all customers, or of each group."""
        request = choice.request
        levels = request.levels if request.clusters_by_group else ALL_CUSTOMERS
        curve = LOAD_KW, STD_KW
        if request.normalise:
            curve = SHAPE, SHAPE_STD
        groups, clusters = crossed(levels, request.n_clusters)
        sizes = TableLayout(
            name="cluster_sizes",
            text="Number of customers per segment (cluster).",
            keys={GROUP: groups, CLUSTER: clusters},
            values=(replace(CUSTOMERS, minimum=0.0), CUSTOMERS_STD),
        )
        return centroid_layout(choice, levels, curve), sizes

    def run_groups(self, request: ReleaseRequest) -> tuple[str | None, ...]:
        """Return the groups that are clustered separately."""
        return request.levels if request.clusters_by_group else (None,)

    def draws(self, tags: Sequence[str], choice: Choice) -> Mapping[str, int]:
        """Return the draws of a fit: further steps and the selection of a merge may be among them.

        Unless the signal is strong the population mean is queried, in two or three steps; a single
        cluster is then that mean, for which no cells are counted.
        """
        steps = {
            "refining": 1,
            "population mean": 2 if any("population mean" in tag for tag in tags) else 0,
        }
        steps["coarse"] = 0 if steps["population mean"] and choice.request.n_clusters == 1 else 1
        due = [
            f"{stage} step {step + 1}: {what}"
            for stage, number in steps.items()
            for step in range(number)
            for what in ("counts", "offsets")
        ]
        due += ["number of customers", *([] if choice.request.normalise else ["sizes"])]
        return dict.fromkeys([*due, *filter(_FURTHER.fullmatch, tags)], 0)

    def expected(self, choice: Choice, allotment: Allotment) -> tuple[Expectation, ...]:
        """Simulate the release."""
        request = choice.request
        by_group = request.clusters_by_group
        plan = plan_kmeans(
            cluster_estimator(choice, allotment),
            n_customers=request.customers_per_group if by_group else request.customers,
            n_slots=choice.grid.columns,
            typical_kw=request.typical_kw,
            roughness=request.roughness,
        )
        unit = "relative to unit L2 norm" if request.normalise else "kW"
        apart = f"of {request.n_clusters}"
        loss = [100.0 * one for one in (plan.expected_loss, *plan.loss_range)]
        percent = "%" if math.isfinite(loss[0]) else "none if each customer is a segment"
        # Of clusters that agree, the simulation counts one; none of them can be distinguished.
        differ = plan.distinguishable_clusters > 1 or request.n_clusters == 1
        supported = plan.supported_clusters if differ else 0
        hidden = "" if supported else _NONE_SUPPORTED
        return (
            Expectation("error of a load curve", plan.expected_error, unit, *plan.error_range),
            Expectation("loss relative to exact segments", loss[0], percent, loss[1], loss[2]),
            Expectation(SUPPORTED, supported, apart, *plan.supported_range, hidden),
            Expectation(DISTINGUISHABLE, plan.distinguishable_clusters if differ else 0, apart),
        )

    def query(self, work: Work, allotment: Allotment) -> Mapping[Hashable, PrivateKMeans]:
        """Release the clusters of all customers, or of each group."""
        request, budget = work.request, allotment.guarantee
        asked = cluster_estimator(work.choice, allotment)
        asked.set_params(epsilon=budget.epsilon, delta=budget.delta)  # those of the allotment
        if request.clusters_by_group:
            work.kmeans = private_kmeans_by_class(asked, work.rows, work.groups, request.levels)
        else:
            work.kmeans = {ALL_CUSTOMERS[0]: asked.fit(work.rows)}
        return work.kmeans

    def tabulate(
        self, released: Mapping[Hashable, PrivateKMeans], choice: Choice, allotment: Allotment
    ) -> ReleasedProduct:
        """Return centroids and sizes."""
        runs = tuple(
            Run(group=str(level) if choice.request.clusters_by_group else None, spends=fit.spends_)
            for level, fit in released.items()
        )
        fits = released.values()
        means = np.vstack([fit.cluster_centers_ for fit in fits])
        centroids, sizes = self.layouts(choice)
        return ReleasedProduct(
            name=self.name,
            allotment=allotment,
            runs=runs,
            tables=(
                centroids.filled(
                    centroids.within(means).ravel(),
                    np.vstack([fit.cluster_centers_std_ for fit in fits]).ravel(),
                ),
                sizes.filled(
                    np.concatenate([fit.cluster_sizes_ for fit in fits]),
                    np.concatenate([fit.cluster_sizes_std_ for fit in fits]),
                ),
            ),
        )

    def achieved(
        self, record: Mapping[str, Any], tables: Mapping[str, Table]
    ) -> tuple[Achievement, ...]:
        """Return the number of supported clusters, and of those that one of the flags counts."""
        del record
        if not {"centroids", "cluster_sizes"} <= set(tables):
            return ()
        return achieved_support(tables["centroids"], tables["cluster_sizes"])

    def headline(self, tables: Mapping[str, Table], choice: Choice) -> Headline:
        """Return how many segments there are, and the largest."""
        found = segment_headline(tables.get("centroids"), tables.get("cluster_sizes"))
        if found.sentence and (whose := self.population(choice.request)):
            return found._replace(sentence=f"{found.sentence[:-1]} (segments of {whose}).")
        return found

    def figures(self, tables: Mapping[str, Table], choice: Choice) -> Iterator[ReportFigure]:
        """Return the curve of each cluster, the sizes, and a map of the clusters."""
        if "centroids" in tables:
            yield from segment_figures(
                tables["centroids"],
                tables.get("cluster_sizes"),
                unit_norm=choice.request.normalise,
            )


def centroid_layout(
    choice: Choice, levels: Sequence[str], values: tuple[Column, ...]
) -> TableLayout:
    """Return a table of load curves: one row per group, cluster and slot."""
    request, times = choice.request, choice.grid.labels
    n_slots = len(times)
    groups, rows = crossed(levels, request.n_clusters * n_slots)
    return TableLayout(
        name="centroids",
        text="Typical load curves: the mean load of each customer segment (cluster).",
        keys={
            GROUP: groups,
            CLUSTER: rows // n_slots,
            SLOT: rows % n_slots,
            TIME: np.array(times)[rows % n_slots],
        },
        values=values,
        max_rms=None if request.normalise else request.clip_kw,
    )


def several_days(grid: TimeGrid) -> int | None:
    """Return the slots per day if a row has several days, else None."""
    return grid.slots if grid.cells > grid.slots else None


def cluster_estimator(choice: Choice, allotment: Allotment) -> PrivateKMeans:
    """Return the estimator to be fitted."""
    return PrivateKMeans(
        epsilon=allotment.guarantee.epsilon,
        delta=allotment.guarantee.delta,
        n_clusters=choice.request.n_clusters,
        clip_kw=choice.request.clip_kw,
        plausible_kw=choice.request.plausible_kw,
        normalise=choice.request.normalise,
        slots_per_day=several_days(choice.grid),
    )


@dataclass(frozen=True, kw_only=True)
class KMeansPlan(Result):
    """Expected accuracy of clusters, from public parameters and simulated populations."""

    queries: dict[str, float]
    """Share of the budget of each query, in order."""
    signal: float
    """nu = n mu / K. Below 10, little more than the population mean is released; above 300, the
    noise is hardly visible."""
    expected_loss: float
    """Median accuracy loss (r(private) - r(exact)) / r(exact); infinite if r(exact) = 0."""
    loss_range: tuple[float, float]
    """Range of the loss of one release: it held 85 to 92 % of held-out releases
    (docs/global-tier.md)."""
    expected_error: float
    """Median of `centroid_error`: in kW, with ``normalise`` relative to unit L2 norm."""
    error_range: tuple[float, float]
    """The same of the error: 82 to 96 %."""
    supported_clusters: int
    """Median number of ``supported_`` clusters: request no more than this. With 0, the number of
    customers is too small for any."""
    supported_range: tuple[int, int]
    """The same of this number: 97 %."""
    distinguishable_clusters: int
    """Median of ``n_distinguishable_``."""

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        names = (
            "signal",
            "expected_loss",
            "expected_error",
            "supported_clusters",
            "distinguishable_clusters",
        )
        ranges = {
            f"{name}_{end}": getattr(self, f"{name}_range")[place]
            for name in ("loss", "error", "supported")
            for place, end in enumerate(("low", "high"))
        }
        queries = [{"query": name, "share": share} for name, share in self.queries.items()]
        return {
            "plan": lambda: records_table(
                [{**{name: getattr(self, name) for name in names}, **ranges}]
            ),
            "queries": lambda: records_table(queries, "query"),
        }


def plan_kmeans(
    estimator: PrivateKMeans,
    *,
    n_customers: int,
    n_slots: int = 24,
    typical_kw: float | None = None,
    roughness: Roughness = Roughness.SOME_WEEKS,
) -> KMeansPlan:
    """Simulate the release on simulated customers.

    Noise and customers enter a release through n mu alone, so a large population is represented by
    a small one with less noise. Error and loss are calibrated to measured customers
    (`plan_calibration`); docs/global-tier.md shows how far this holds for others.

    Parameters
    ----------
    estimator
        Estimator to be fitted.
    n_customers
        Public estimate of the number of customers.
    n_slots
        Slots of a row: of one day, or of several if the estimator has ``slots_per_day``. The days
        of a simulated customer are equal, and the calibration is of one day.
    typical_kw
        Public estimate of the median root-mean-square load of a customer; None leaves the simulated
        customers unchanged.
    roughness
        Period that a profile averages.
    """
    checks.integer("n_customers", n_customers, minimum=1)
    checks.integer("n_slots", n_slots, minimum=1)
    simulation, n_simulated = simulation_of(estimator, n_customers)
    runs, losses, errors = [], [], []
    for population in range(_POPULATIONS):
        rows = simulated_rows(
            n_simulated,
            n_slots,
            seed=population,
            typical_kw=typical_kw,
            slots_per_day=estimator.slots_per_day,
        )
        exact = estimator.comparable(rows)
        exact = exact[np.isfinite(exact).all(axis=1)]
        best = k_means(exact, min(estimator.n_clusters, len(exact)), seed=0, n_init=3).loss
        own = []
        for _ in range(_RUNS):
            run = clone(simulation).fit(rows)
            nearest = run.cluster_centers_[assign(exact, run.cluster_centers_)]
            runs.append(run)
            own.append(float(np.square(exact - nearest).sum(axis=1).mean()))
            errors.append(centroid_error(exact, run.cluster_centers_))
        # Lloyd ends in a local optimum: a release with little noise may be better.
        best = min(best, *own)
        # As many clusters as customers have no loss: any loss is infinitely more.
        losses += [loss / best - 1.0 if best else math.inf for loss in own]
    granted = sum(spend.rho_units for spend in runs[0].spends_)
    loss, loss_range = calibrated(
        float(np.median(losses)), "loss", is_shape=estimator.normalise, roughness=roughness
    )
    error, error_range = calibrated(
        float(np.median(errors)), "error", is_shape=estimator.normalise, roughness=roughness
    )
    supported = int(np.median([run.supported_.sum() for run in runs]))
    return KMeansPlan(
        queries={spend.tag: spend.rho_units / granted for spend in runs[0].spends_},
        signal=n_customers * _signal(estimator) / estimator.n_clusters,
        expected_loss=loss,
        loss_range=loss_range,
        expected_error=error,
        error_range=error_range,
        supported_clusters=supported,
        supported_range=supported_range(supported, estimator.n_clusters),
        distinguishable_clusters=int(np.median([run.n_distinguishable_ for run in runs])),
    )


def simulation_of(
    estimator: _Estimator, n_customers: int, *, most: int = _SIMULATED
) -> tuple[_Estimator, int]:
    """Return the estimator for fewer customers with less noise, and their number."""
    n_simulated = min(n_customers, most)
    mu = _signal(estimator)
    s = min(mu * n_customers / n_simulated, max(_STRONGEST, mu))
    simulation: _Estimator = clone(estimator).set_params(
        epsilon=calibration.gaussian_epsilon(s=s, delta=estimator.delta),
    )
    return simulation, n_simulated


def _signal(estimator: PrivateKMeans) -> float:
    """Return mu of the whole budget."""
    return 1.0 / Allotment.of(estimator.guarantee()).count_std


def centroid_error(rows: Floats, centroids: Floats) -> float:
    """Return the distance of centroids from the exact means of the rows nearest to them.

    Root mean square over slots and rows. It is exact, hence private when the rows are.
    """
    labels = assign(rows, centroids)
    squares = 0.0
    for k in np.unique(labels):
        inside = rows[labels == k]
        squares += len(inside) * float(np.square(inside.mean(axis=0) - centroids[k]).mean())
    return math.sqrt(squares / len(rows))


def simulated_rows(
    customers: int,
    n_slots: int,
    *,
    seed: int,
    typical_kw: float | None = None,
    slots_per_day: int | None = None,
) -> Floats:
    """Return load profiles of simulated customers with this number of slots and median size.

    Rows of several days repeat one day.
    """
    hourly = _simulated_homes(customers, seed)
    of_day = n_slots if slots_per_day is None else slots_per_day
    hours = (np.arange(of_day) + 0.5) * 24.0 / of_day - 0.5
    between = [np.interp(hours, np.arange(24), unit, period=24.0) for unit in np.eye(24)]
    rows: Floats = np.tile(hourly @ np.array(between), whole_days(n_slots, of_day))
    if typical_kw is not None:
        sizes = np.sqrt(np.square(rows).mean(axis=1))
        rows *= checks.positive("typical_kw", typical_kw) / np.median(sizes)
    return rows


@lru_cache(maxsize=2 * _POPULATIONS)  # every plan simulates with the same customers
def _simulated_homes(customers: int, seed: int) -> Floats:
    """Return hourly load profiles of simulated homes. Do not change them."""
    return simulate_load_kw(customers=customers, seed=seed)
