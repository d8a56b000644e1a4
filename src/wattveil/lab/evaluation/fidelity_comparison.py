"""Comparison of synthetic with real customers: every metric, sampling variability and a control.

The real customers are split at random into halves, many times. One half A is compared with three
others of the same size: the other half B (sampling variability), synthetic customers S, and the
control C, which is B with every customer replaced by the centroid of its cluster::

    noise = 95 % quantile of D(A, B)      score = median of D(A, S)      control = median of D(A, C)

Equal sizes matter: most distances are larger for small samples. The verdict is that of
`numerics.measures.verdicts.assess` with the noise as limit and the control as margin: a metric by
which centroids cannot be distinguished from customers has no power.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import numpy as np

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.errors import InvalidParameterError
from wattveil.lab.evaluation.customer_samples import Sample, SampleLayout
from wattveil.lab.evaluation.fidelity_metrics import (
    CUSTOMER_METRICS,
    JOINT_METRICS,
    SLOT_METRICS,
    FidelityMetric,
)
from wattveil.lab.evaluation.utility_metrics import UTILITY_METRICS
from wattveil.lab.evaluation.year_metrics import YEAR_METRICS
from wattveil.lab.seeded_draws import (
    shuffled_rows,
)
from wattveil.numerics.kmeans.lloyd import k_means
from wattveil.numerics.measures.fidelity_measures import NOISE_QUANTILE, ratio_to_noise
from wattveil.numerics.measures.verdicts import assess, half_sample_error
from wattveil.web.results import PrivateResult, ResultTable, records_table

METRICS: tuple[FidelityMetric, ...] = tuple(
    sorted(
        (*SLOT_METRICS, *CUSTOMER_METRICS, *JOINT_METRICS, *YEAR_METRICS, *UTILITY_METRICS),
        key=lambda metric: metric.number,
    )
)
UNDEFINED = "not defined"
MIN_CUSTOMERS, MIN_REPEATS = 40, 20
_MAX_SIZE_RATIO = 100.0
_CONTROL_STARTS = 3


@dataclass(frozen=True, kw_only=True)
class FidelityRow:
    """One figure of a metric; NaN where it is not defined.

    Attributes
    ----------
    score, control
        Median distance of the synthetic customers and of the control.
    low, high
        Interval of the score, 95 %: delete-half jackknife over the real customers.
    noise
        95th percentile of the distances between random halves of the real customers.
    smallest_detectable
        Smallest true distance that would be found different with probability 80 %.
    ratio, control_ratio
        Score and control over noise.
    verdict
        A `Verdict`, or the reason why there is none.
    """

    metric: str
    unit: str
    score: float
    low: float
    high: float
    noise: float
    smallest_detectable: float
    control: float
    ratio: float
    control_ratio: float
    verdict: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Evaluation(PrivateResult):
    """Comparison of synthetic with real customers. PRIVATE, internal use only.

    Attributes
    ----------
    rows
        One per figure.
    real, synthetic, control
        Samples of the first split, for figures.
    customers, synthetic_customers, repeats
        Numbers of customers and of random splits.
    """

    rows: tuple[FidelityRow, ...]
    real: Sample
    synthetic: Sample
    control: Sample
    customers: int
    synthetic_customers: int
    repeats: int

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"metrics": lambda: records_table([asdict(row) for row in self.rows], "metric")}

    def to_json(self) -> dict[str, object]:
        """Return everything except the samples as JSON values; null if not finite."""
        return {
            "private": True,
            "customers": self.customers,
            "synthetic_customers": self.synthetic_customers,
            "repeats": self.repeats,
            "metrics": [
                {name: _finite(value) for name, value in asdict(row).items()} for row in self.rows
            ],
        }


def evaluate_load(
    real_kw: Floats,
    synthetic_kw: Floats,
    layout: SampleLayout,
    *,
    n_clusters: int = 6,
    repeats: int = MIN_REPEATS,
    seed: int = 0,
    advance: Callable[[], object] = lambda: None,
) -> Evaluation:
    """Compute every metric for synthetic customers, random halves and the control.

    Parameters
    ----------
    real_kw, synthetic_kw : (customers, slots of all days)
        Finite, in the same unit.
    layout
        Layout of the columns of both.
    n_clusters
        Of the control, and of the metrics that need clusters.
    repeats
        Number of random splits of the real customers.
    seed
        Of the random splits.
    advance
        Called after each repeat.
    """
    checks.integer("repeats", repeats, minimum=MIN_REPEATS)
    checks.integer("seed", seed, minimum=0)
    for name, load_kw in (("real", real_kw), ("synthetic", synthetic_kw)):
        if len(load_kw) < MIN_CUSTOMERS:
            raise InvalidParameterError(name, f"at least {MIN_CUSTOMERS} customers", len(load_kw))
    _check_units(real_kw, synthetic_kw)
    splits = _RandomSplits(real_kw, synthetic_kw, layout, n_clusters)
    measured = [metric for metric in METRICS if not metric.missing(layout, splits.size)]
    found: list[Floats] = []
    for repeat in range(repeats):
        found.append(_distances(measured, splits.draw(seed, repeat)))
        advance()
    first = splits.draw(seed, 0)
    rows = _rows(np.stack(found), layout, kept=splits.size, of=len(real_kw))
    return Evaluation(
        rows=rows,
        real=first[0],
        synthetic=first[2],
        control=first[3],
        customers=len(real_kw),
        synthetic_customers=len(synthetic_kw),
        repeats=repeats,
    )


class _RandomSplits:
    """Random splits of the real customers, with synthetic customers and controls of equal size."""

    def __init__(
        self, real_kw: Floats, synthetic_kw: Floats, layout: SampleLayout, n_clusters: int
    ) -> None:
        self._real_kw, self._synthetic_kw, self._layout = real_kw, synthetic_kw, layout
        self.size = min(len(real_kw) // 2, len(synthetic_kw))
        typical = Sample(load_kw=real_kw, layout=layout, centroids=np.empty((0, 0))).typical
        checks.integer("clusters", n_clusters, minimum=1, maximum=self.size)
        clusters = k_means(typical, n_clusters, seed=0, n_init=_CONTROL_STARTS)
        self._labels = clusters.labels.astype(np.int64)
        self._centroids = clusters.centroids
        # Of a series, the mean series of the customers of a cluster is its centroid.
        sums = np.zeros((n_clusters, real_kw.shape[1]))
        np.add.at(sums, clusters.labels, real_kw)
        self._control_kw = sums / np.maximum(clusters.counts, 1)[:, None]

    def draw(self, seed: int, repeat: int) -> tuple[Sample, Sample, Sample, Sample]:
        """Return A, B, S and C."""
        order = shuffled_rows(seed, 2 * repeat, len(self._real_kw))
        others = shuffled_rows(seed, 2 * repeat + 1, len(self._synthetic_kw))[: self.size]
        one, other = order[: self.size], order[self.size : 2 * self.size]
        return (
            self._sample(self._real_kw, one),
            self._sample(self._real_kw, other),
            self._sample(self._synthetic_kw, others),
            self._sample(self._control_kw, self._labels[other]),
        )

    def _sample(self, load_kw: Floats, rows: Ints) -> Sample:
        return Sample(load_kw=load_kw[rows], layout=self._layout, centroids=self._centroids)


def _distances(
    metrics: list[FidelityMetric], samples: tuple[Sample, Sample, Sample, Sample]
) -> Floats:
    """Return the distances of B, S and C from A: (3, figures)."""
    reference, *others = samples
    return np.array(
        [
            [figure for metric in metrics for figure in metric.measure(reference, other)]
            for other in others
        ]
    )


def _rows(found: Floats, layout: SampleLayout, *, kept: int, of: int) -> tuple[FidelityRow, ...]:
    """Return the rows from the distances of all repeats, (repeats, 3, figures).

    ``kept`` customers ``of`` all real ones are in each half.
    """
    figures = iter(np.moveaxis(found, 2, 0))
    rows = []
    for metric in METRICS:
        reason = metric.missing(layout, kept)
        for name, unit in metric.figures:
            distances = np.full((1, 3), math.nan) if reason else next(figures)
            rows.append(_row(name, unit, distances, reason, kept=kept, of=of))
    return tuple(rows)


def _row(
    name: str, unit: str, distances: Floats, reason: str, *, kept: int, of: int
) -> FidelityRow:
    """Return the row of a figure from its distances, (repeats, 3)."""
    noise = float(np.quantile(distances[:, 0], NOISE_QUANTILE))
    score, control = np.median(distances[:, 1:], axis=0).tolist()
    if not reason and math.isnan(score + noise):
        reason = UNDEFINED
    if reason:
        undefined = ("low", "high", "smallest_detectable", "ratio", "control_ratio")
        return FidelityRow(
            metric=name,
            unit=unit,
            score=score,
            noise=noise,
            control=control,
            verdict=reason,
            **dict.fromkeys(undefined, math.nan),
        )
    found = assess(
        score,
        error=half_sample_error(distances[:, 1], kept=kept, of=of),
        replicates=len(distances),
        limit=noise,
        margin=control,
    )
    return FidelityRow(
        metric=name,
        unit=unit,
        score=score,
        low=found.interval.low,
        high=found.interval.high,
        noise=noise,
        smallest_detectable=found.smallest_detectable,
        control=control,
        ratio=ratio_to_noise(score, noise),
        control_ratio=ratio_to_noise(control, noise),
        verdict=found.verdict.value,
    )


def _check_units(real_kw: Floats, synthetic_kw: Floats) -> None:
    """Refuse loads in another unit, such as W or kWh per day."""
    sizes = [float(np.median(np.abs(each).mean(axis=1))) for each in (real_kw, synthetic_kw)]
    if max(sizes) > _MAX_SIZE_RATIO * min(sizes):
        rule = "in the unit of the real customers, kW"
        found = f"a median load of {sizes[1]:.3g} beside {sizes[0]:.3g}"
        raise InvalidParameterError("synthetic", rule, found)


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
