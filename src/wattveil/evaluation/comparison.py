"""How like real customers synthetic ones are: every metric, with chance and a control beside it.

The real customers are cut into two halves, many times. One half A judges three others of the same
size: the other half B (what chance does), synthetic customers S, and the control C, which is B with
every customer replaced by the centroid of its cluster::

    noise = 95 % quantile of D(A, B)      score = median of D(A, S)      control = median of D(A, C)

Equal sizes matter: most distances are larger for small samples, whatever these are.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from wattveil import checks
from wattveil.clustering.lloyd import k_means
from wattveil.errors import InvalidParameterError
from wattveil.evaluation.fidelity import SLOT_METRICS
from wattveil.evaluation.fidelity_customers import CUSTOMER_METRICS
from wattveil.evaluation.fidelity_joint import JOINT_METRICS
from wattveil.evaluation.halves import Ints, draw_rows
from wattveil.evaluation.metric import Metric
from wattveil.evaluation.sample import Floats, Layout, Sample
from wattveil.evaluation.utility import UTILITY_METRICS
from wattveil.measures.verdicts import NOISE_QUANTILE, ratio_to_noise, verdict_of

METRICS: tuple[Metric, ...] = tuple(
    sorted(
        (*SLOT_METRICS, *CUSTOMER_METRICS, *JOINT_METRICS, *UTILITY_METRICS),
        key=lambda metric: metric.number,
    )
)
UNDEFINED = "not defined here"
LEAST_CUSTOMERS, LEAST_REPEATS = 40, 20
_FARTHEST_UNITS = 100.0
_CONTROL_STARTS = 3


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure of a metric; NaN where it could not be measured.

    Attributes
    ----------
    score, control : float
        Median distance of the synthetic customers and of the control.
    noise : float
        95 % of the distances of other real customers are below it.
    ratio, control_ratio : float
        Score and control over noise.
    verdict : str
        A `Verdict`, or why there is none.
    """

    metric: str
    unit: str
    score: float
    noise: float
    control: float
    ratio: float
    control_ratio: float
    verdict: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """Synthetic customers beside real ones. PRIVATE: it stays in house.

    Attributes
    ----------
    rows : tuple of Row
        One a figure.
    real, synthetic, control : Sample
        One half each, of the first repeat, for pictures.
    customers, synthetic_customers, repeats : int
        How many there were, and how often halves were drawn.
    """

    rows: tuple[Row, ...]
    real: Sample
    synthetic: Sample
    control: Sample
    customers: int
    synthetic_customers: int
    repeats: int

    def to_json(self) -> dict[str, object]:
        """Return everything but the pictures; null where a number is not finite."""
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
    layout: Layout,
    *,
    n_clusters: int = 6,
    repeats: int = LEAST_REPEATS,
    seed: int = 0,
    advance: Callable[[], object] = lambda: None,
) -> Evaluation:
    """Measure every metric.

    Parameters
    ----------
    real_kw, synthetic_kw : (customers, slots of all days)
        Finite, in the same unit.
    layout
        What the slots are, of both.
    n_clusters
        Of the control, and of the metrics that need clusters.
    repeats
        How often the real customers are cut into halves.
    seed
        Of the halves.
    advance
        Called after each repeat.
    """
    checks.integer("repeats", repeats, least=LEAST_REPEATS)
    checks.integer("seed", seed, least=0)
    for name, load_kw in (("real", real_kw), ("synthetic", synthetic_kw)):
        if len(load_kw) < LEAST_CUSTOMERS:
            raise InvalidParameterError(name, f"at least {LEAST_CUSTOMERS} customers", len(load_kw))
    _check_units(real_kw, synthetic_kw)
    halves = _Halves(real_kw, synthetic_kw, layout, n_clusters)
    measured = [metric for metric in METRICS if not metric.missing(layout, halves.size)]
    found: list[Floats] = []
    for repeat in range(repeats):
        found.append(_distances(measured, halves.draw(seed, repeat)))
        advance()
    first = halves.draw(seed, 0)
    rows = _rows(np.stack(found), layout, halves.size)
    return Evaluation(
        rows=rows,
        real=first[0],
        synthetic=first[2],
        control=first[3],
        customers=len(real_kw),
        synthetic_customers=len(synthetic_kw),
        repeats=repeats,
    )


class _Halves:
    """Draws two halves of real customers, and as many synthetic ones and controls."""

    def __init__(
        self, real_kw: Floats, synthetic_kw: Floats, layout: Layout, n_clusters: int
    ) -> None:
        self._real_kw, self._synthetic_kw, self._layout = real_kw, synthetic_kw, layout
        self.size = min(len(real_kw) // 2, len(synthetic_kw))
        typical = Sample(load_kw=real_kw, layout=layout, centroids=np.empty((0, 0))).typical
        checks.integer("clusters", n_clusters, least=1, most=self.size)
        clusters = k_means(typical, n_clusters, seed=0, n_init=_CONTROL_STARTS)
        self._labels = clusters.labels.astype(np.int64)
        self._centroids = clusters.centroids
        # Of a series, the mean series of the customers of a cluster is its centroid.
        sums = np.zeros((n_clusters, real_kw.shape[1]))
        np.add.at(sums, clusters.labels, real_kw)
        self._control_kw = sums / np.maximum(clusters.counts, 1)[:, None]

    def draw(self, seed: int, repeat: int) -> tuple[Sample, Sample, Sample, Sample]:
        """Return A, B, S and C."""
        order = draw_rows(seed, 2 * repeat, len(self._real_kw))
        others = draw_rows(seed, 2 * repeat + 1, len(self._synthetic_kw))[: self.size]
        one, other = order[: self.size], order[self.size : 2 * self.size]
        return (
            self._sample(self._real_kw, one),
            self._sample(self._real_kw, other),
            self._sample(self._synthetic_kw, others),
            self._sample(self._control_kw, self._labels[other]),
        )

    def _sample(self, load_kw: Floats, rows: Ints) -> Sample:
        return Sample(load_kw=load_kw[rows], layout=self._layout, centroids=self._centroids)


def _distances(metrics: list[Metric], samples: tuple[Sample, Sample, Sample, Sample]) -> Floats:
    """Return the distances of B, S and C from A: (3, figures)."""
    judge, *others = samples
    return np.array(
        [
            [figure for metric in metrics for figure in metric.measure(judge, other)]
            for other in others
        ]
    )


def _rows(found: Floats, layout: Layout, customers: int) -> tuple[Row, ...]:
    """Judge distances of all repeats, (repeats, 3, figures)."""
    noise = np.quantile(found[:, 0], NOISE_QUANTILE, axis=0)
    score, control = np.median(found[:, 1:], axis=0)
    figures = iter(zip(score.tolist(), noise.tolist(), control.tolist(), strict=True))
    rows = []
    for metric in METRICS:
        reason = metric.missing(layout, customers)
        for name, unit in metric.figures:
            numbers = (math.nan,) * 3 if reason else next(figures)
            rows.append(_row(name, unit, numbers, reason))
    return tuple(rows)


def _row(name: str, unit: str, numbers: tuple[float, ...], reason: str) -> Row:
    score, noise, control = numbers
    if not reason and math.isnan(score + noise):
        reason = UNDEFINED
    ratio, control_ratio = (
        math.nan if reason else ratio_to_noise(value, noise) for value in (score, control)
    )
    return Row(
        metric=name,
        unit=unit,
        score=score,
        noise=noise,
        control=control,
        ratio=ratio,
        control_ratio=control_ratio,
        verdict=reason or verdict_of(ratio, control_ratio).value,
    )


def _check_units(real_kw: Floats, synthetic_kw: Floats) -> None:
    """Refuse W for kW, or kWh a day: no model errs by so much."""
    sizes = [float(np.median(np.abs(each).mean(axis=1))) for each in (real_kw, synthetic_kw)]
    if max(sizes) > _FARTHEST_UNITS * min(sizes):
        rule = "in the unit of the real customers, kW"
        found = f"a median load of {sizes[1]:.3g} beside {sizes[0]:.3g}"
        raise InvalidParameterError("synthetic", rule, found)


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
