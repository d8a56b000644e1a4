"""The product `synthesis`: a model of synthetic customers, and a first sample from it."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.linalg import LinAlgError
from plotly.graph_objects import Figure
from pyarrow import compute

from wattveil import calibration, checks
from wattveil.arrays import Floats, Ints
from wattveil.errors import InvalidFileError
from wattveil.numerics.groups.group_sizes import ALL_CUSTOMERS
from wattveil.numerics.kmeans.lloyd import k_means
from wattveil.numerics.measures.fidelity_measures import correlation_error, slot_distance
from wattveil.numerics.synthesis import SyntheticModel
from wattveil.products.clusters import (
    Clusters,
    cluster_estimator,
    several_days,
    simulated_rows,
    simulation_of,
)
from wattveil.products.curve_figures import slot_table
from wattveil.products.findings import Finding, gathered, same_numbers
from wattveil.products.product import (
    Allotment,
    Choice,
    Contents,
    Expectation,
    Product,
    ReleasedProduct,
    Run,
    Work,
)
from wattveil.products.request import ReleaseRequest
from wattveil.products.segment_figures import scale_of
from wattveil.products.segments import largest_segments, segments
from wattveil.products.tables import CLUSTER, SLOT, TIME, Column, Table, TableLayout
from wattveil.release.kmeans import PrivateKMeans
from wattveil.release.synthetic import LoadSynthesizer
from wattveil.sklearn_base import clone
from wattveil.web.charts import ReportFigure, add_band, colour, label_times, new_figure
from wattveil.web.curves import Curve, add_curve
from wattveil.web.formatting import format_number
from wattveil.web.pages import PageTable
from wattveil.web.results import Result, ResultTable, records_table

MODEL = "synthetic_model.json"
FIRST_SET, FIRST_SEED = 1000, 1
"""Number of customers sampled for the bundle, and the public seed: the sample is reproducible."""
_POPULATIONS = 3
_RUNS = 2
_SAMPLED = 4000
_PERCENTILES = (5, 25, 75, 95)
_CAPTION = (
    "Customers sampled from the released model of each segment: 50 % lie in the dark band, 90 % in"
    " the light one. None is a real customer. Sample more with wattveil synthesize."
    " The vertical scale fits the supported segments."
)


class Synthesis(Product):
    """A model of the customers around each released centroid: `LoadSynthesizer`."""

    name = "synthesis"
    title = "Synthetic customers"
    default_weight = 2.0
    needs = "segments of all customers, and no normalise"
    documents = (MODEL,)
    postprocessing = ("synthetic customers: sampled from the released model",)

    def is_requested(self, request: ReleaseRequest) -> bool:
        """Whether there are clusters of all customers, in kW, to model."""
        clustered = request.weight("clusters") > 0.0 and not request.clusters_by_group
        return clustered and not request.normalise and request.weight(self.name) > 0.0

    def layouts(self, choice: Choice) -> tuple[TableLayout, ...]:
        """Return the table of the sampled customers."""
        grid = choice.grid
        rows = np.arange(FIRST_SET * grid.columns)
        customers, slots = rows // grid.columns, rows % grid.columns
        number = Column(
            name="customer", text="number of the synthetic customer", type="int64", minimum=0.0
        )
        layout = TableLayout(
            name="synthetic",
            text="Synthetic customers, sampled from the released model; none is a real customer.",
            keys={
                number: customers,
                SLOT: slots,
                TIME: np.array(grid.labels)[slots],
            },
            values=(CLUSTER, Column(name="load_kw", text="load", unit="kW")),
        )
        return (layout,)

    def draws(self, tags: Sequence[str], choice: Choice) -> Mapping[str, int]:
        """Return one histogram and three sums."""
        del tags
        n_clusters = choice.request.n_clusters
        return {
            "customers by cluster and export": n_clusters,
            "lengths": 0,
            "moments": 0,
            "margins": 0,
        }

    def expected(self, choice: Choice, allotment: Allotment) -> tuple[Expectation, ...]:
        """Simulate the release, around clusters of simulated customers, which are released too."""
        request = choice.request
        anywhere = np.zeros((request.n_clusters, choice.grid.columns))
        # Budgets by weight are proportional in rho, whose square root is the signal.
        weights = request.weight(Clusters.name) / request.weight(self.name)
        s = math.sqrt(weights) / allotment.count_std
        clusters = cluster_estimator(choice, allotment)
        clusters.set_params(epsilon=calibration.gaussian_epsilon(s=s, delta=clusters.delta))
        plan = plan_synthesizer(
            _synthesizer(choice, allotment, anywhere),
            n_customers=request.customers,
            n_slots=choice.grid.columns,
            typical_kw=request.typical_kw,
            clusters=clusters,
        )
        return (
            Expectation("distance W1 from real customers", plan.slot_distance, "SD"),
            Expectation("correlation error", plan.correlation_error, ""),
        )

    def query(self, work: Work, allotment: Allotment) -> LoadSynthesizer:
        """Release a model around the released centroids."""
        budget = allotment.guarantee
        asked = _synthesizer(work.choice, allotment, *_curves(work.kmeans[ALL_CUSTOMERS[0]]))
        asked.set_params(epsilon=budget.epsilon, delta=budget.delta)  # those of the allotment
        return asked.fit(work.rows)

    def tabulate(
        self, released: LoadSynthesizer, choice: Choice, allotment: Allotment
    ) -> ReleasedProduct:
        """Return the model, and customers sampled from it."""
        return ReleasedProduct(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=released.spends_),),
            tables=(self.layouts(choice)[0].filled(*first_set(released.model_)),),
            documents={MODEL: model_text(released.model_)},
        )

    def recompute(self, contents: Contents) -> Iterator[Finding]:
        """Sample the customers again from the model."""
        if {"synthetic", "centroids"} <= set(contents.tables):
            yield gathered(
                "the synthetic customers come from the model",
                _sample_problems(contents),
                "sampled again with the public seed, around the released curves",
            )

    def figures(self, tables: Mapping[str, Table], choice: Choice) -> Iterator[ReportFigure]:
        """Return the spread of synthetic customers around each load curve."""
        del choice
        if not {"synthetic", "centroids"} <= set(tables):
            return
        released = segments(tables["centroids"], tables.get("cluster_sizes"))
        shown, rest = largest_segments(released)
        spreads = {one.curve.number: _spread(one.curve, tables["synthetic"]) for one in shown}
        drawn = [np.vstack([one.curve.load, *_rows(spreads[one.curve.number])]) for one in shown]
        limits = scale_of(shown, [(rows.min(axis=0), rows.max(axis=0)) for rows in drawn])
        supports = any(one.is_supported for one in shown)
        for one in shown:
            curve, spread = one.curve, spreads[one.curve.number]
            none = " · too small to be sampled" if spread is None else ""
            yield ReportFigure(
                f"Segment {curve.name}{none}",
                _spread_figure(curve, spread, limits),
                _CAPTION + rest,
                alt=f"Synthetic customers of segment {curve.name}{none}: {_words(spread)}",
                is_faded=one.sized is False,
                is_supported=one.is_supported or not supports,
                table=_spread_table([one.curve for one in shown], spreads)
                if one is shown[0]
                else None,
            )


def _curves(found: PrivateKMeans) -> tuple[Floats, Floats]:
    """Return released centroids, and their numbers of customers with standard errors."""
    return found.cluster_centers_, np.array([found.cluster_sizes_, found.cluster_sizes_std_])


def _synthesizer(
    choice: Choice, allotment: Allotment, centroids: Floats, sizes: Floats | None = None
) -> LoadSynthesizer:
    """Return the estimator to be fitted, around released centroids."""
    return LoadSynthesizer(
        n_clusters=choice.request.n_clusters,
        epsilon=allotment.guarantee.epsilon,
        delta=allotment.guarantee.delta,
        clip_kw=choice.request.clip_kw,
        plausible_kw=choice.request.plausible_kw,
        slots_per_day=several_days(choice.grid),
        centroids=centroids,
        sizes=sizes,
    )


def model_text(model: SyntheticModel) -> str:
    """Return the model as JSON text, as in a bundle."""
    return json.dumps(model.to_dict(), separators=(",", ":"))


def read_model(bundle: Path) -> SyntheticModel:
    """Read the model of a bundle."""
    path = bundle / MODEL
    try:
        return SyntheticModel.from_dict(json.loads(path.read_text("utf-8")))
    except OSError as error:
        raise InvalidFileError(
            path, "file", "a bundle that was released with synthesis", None
        ) from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidFileError(path, "content", "a synthetic model", str(error)) from error


def first_set(model: SyntheticModel) -> tuple[Ints, Floats]:
    """Return the clusters and the load of the first sample, slot by slot."""
    load_kw, clusters = model.sample(FIRST_SET, random_state=FIRST_SEED)
    return np.repeat(clusters, load_kw.shape[1]), load_kw.ravel()


def _sample_problems(contents: Contents) -> Iterator[str]:
    """Compare the sample of a bundle with one from its model."""
    try:
        model = read_model(contents.folder)
        clusters, load_kw = first_set(model)
    except (InvalidFileError, LookupError, ValueError, LinAlgError) as error:
        yield f"they cannot be sampled: {type(error).__name__}"
        return
    if (contents.folder / MODEL).read_text("utf-8") != model_text(model):
        yield "the file of the model contains more than the model"
    curves_of, _ = Clusters().layouts(contents.choice)
    means = curves_of.within(model.centroids).ravel()
    if not same_numbers(means, contents.tables["centroids"].column("load_kw")):
        yield "the model has other centroids"
    sampled, table = (("load_kw", load_kw), ("cluster", clusters)), contents.tables["synthetic"]
    if not all(same_numbers(table.column(name), values) for name, values in sampled):
        yield "another sample is drawn from it"


def _spread(curve: Curve, synthetic: Table) -> Floats | None:
    """Return the percentiles of the synthetic customers of a cluster; None if it has none."""
    own = synthetic.data.filter(compute.equal(synthetic.data["cluster"], curve.number))
    if not own.num_rows:
        return None
    load = own["load_kw"].to_numpy().reshape(-1, curve.load.size)
    percentiles: Floats = np.percentile(load, _PERCENTILES, axis=0)
    return percentiles


def _rows(spread: Floats | None) -> Sequence[Floats]:
    return () if spread is None else (spread[0], spread[-1])


def _spread_figure(curve: Curve, spread: Floats | None, limits: tuple[float, float]) -> Figure:
    """Return a figure of a load curve with 50 % and 90 % of its synthetic customers."""
    figure, along = new_figure(height=230, legend=False), range(curve.load.size)
    if spread is not None:
        for low, high, shade in ((0, -1, 0.15), (1, -2, 0.3)):
            shown = colour(curve.number)
            add_band(figure, along, spread[low], spread[high], colour=shown, opacity=shade)
    add_curve(figure, curve._replace(std=None), along)
    label_times(figure, curve.along)
    figure.update_yaxes(title_text="kW", rangemode="tozero", range=limits)
    return figure


def _spread_table(drawn: Sequence[Curve], spreads: Mapping[int, Floats | None]) -> PageTable:
    """Return the range of 90 % of the customers of each cluster, by slot."""
    texts = [
        ["none"] * curve.load.size
        if (spread := spreads[curve.number]) is None
        else [
            f"{format_number(low)} to {format_number(high)}"
            for low, high in zip(spread[0], spread[-1], strict=True)
        ]
        for curve in drawn
    ]
    return slot_table("Range of 90 % of the synthetic customers, kW", drawn, texts)


def _words(spread: Floats | None) -> str:
    if spread is None:
        return "none"
    return f"95 % lie below {format_number(spread[-1].max())} kW at all times"


@dataclass(frozen=True, kw_only=True)
class SyntheticPlan(Result):
    """Expected accuracy of a model, from public parameters and simulated populations."""

    slot_distance: float
    """Median of `slot_distance` between real and synthetic customers, in standard deviations."""
    correlation_error: float
    """Median of the mean absolute error of the correlation of two slots."""

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"plan": lambda: records_table([vars(self)])}


def plan_synthesizer(
    estimator: LoadSynthesizer,
    *,
    n_customers: int,
    n_slots: int = 24,
    typical_kw: float | None = None,
    clusters: PrivateKMeans | None = None,
) -> SyntheticPlan:
    """Simulate the release on simulated customers, as `plan_kmeans` does.

    If ``estimator`` has centroids, those of the simulated customers replace them: exact ones, or
    with ``clusters`` those of a simulated release, whose sizes are used as well.

    Parameters
    ----------
    estimator
        Estimator to be fitted.
    n_customers, n_slots, typical_kw
        As for `plan_kmeans`.
    clusters
        Estimator of the release that the centroids and sizes of ``estimator`` come from.
    """
    checks.integer("n_customers", n_customers, minimum=1)
    checks.integer("n_slots", n_slots, minimum=1)
    simulation, n_simulated = simulation_of(estimator, n_customers)
    earlier = None if clusters is None else simulation_of(clusters, n_customers)[0]
    distances, errors = [], []
    for population in range(_POPULATIONS):
        rows = simulated_rows(
            n_simulated,
            n_slots,
            seed=population,
            typical_kw=typical_kw,
            slots_per_day=estimator.slots_per_day,
        )
        if estimator.centroids is not None and earlier is None:
            k = min(estimator.n_clusters, len(rows))
            centroids = k_means(estimator.comparable(rows), k, seed=0, n_init=3).centroids
            simulation.set_params(centroids=centroids, n_clusters=k)
        for run in range(_RUNS):
            if earlier is not None:
                centroids, sizes = _curves(clone(earlier).fit(rows))
                simulation.set_params(centroids=centroids, sizes=sizes)
            sampled, _ = clone(simulation).fit(rows).sample(_SAMPLED, random_state=run)
            distances.append(slot_distance(rows, sampled))
            errors.append(correlation_error(rows, sampled))
    return SyntheticPlan(
        slot_distance=float(np.median(distances)), correlation_error=float(np.median(errors))
    )
