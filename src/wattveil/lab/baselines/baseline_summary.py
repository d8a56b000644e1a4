"""Medians and quartiles of a comparison, by mechanism and epsilon."""

import csv
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattveil.arrays import Floats
from wattveil.lab.baselines.accuracy_limit import AccuracyLimit
from wattveil.lab.baselines.baseline_comparison import MECHANISMS, BaselineComparison, MeasuredRun
from wattveil.lab.seeded_draws import shuffled_rows
from wattveil.numerics.measures.verdicts import (
    CONFIDENCE,
    Assessment,
    Interval,
    assess,
    half_sample_error,
    median_interval,
)
from wattveil.privacy.guarantee import Guarantee, Neighbours, Tier

REFERENCE = "global"
"""Mechanism with which the others are compared."""
WILD = (3.0, 0.02)
"""A run is wild if its loss is above 3 times the median of the runs of its kind, plus 0.02."""
MARGIN = 0.1
"""Difference of losses that matters, as a share of the loss of the reference."""
_MIN_COMPARED = 4
_SHUFFLES = 400
_SAME = 1.0 + 1e-9  # sums of budgets may differ in the last digit


class Quartiles(NamedTuple):
    """Quartiles of losses."""

    low: float
    median: float
    high: float


@dataclass(frozen=True, kw_only=True)
class BaselineRow:
    """One mechanism at one epsilon."""

    mechanism: str
    title: str
    epsilon: float
    repeats: int
    nearest: Quartiles
    nearest_interval: Interval
    """Of the median, 95 %: between order statistics of the repetitions."""
    against_b: float
    """Median loss relative to B (no small clusters) in place of exact K-means."""
    wild: float
    """Share of runs whose loss exceeds `WILD`."""
    against: Assessment | None
    """Difference of the median loss from that of the global tier at the same epsilon; None for that
    tier itself, and with fewer than four repetitions."""
    labels: Quartiles | None
    cpu_seconds: float
    claimed: str
    true: str
    true_with_labels: str
    keeps_its_claim: bool
    known_violations: tuple[str, ...]


def summarise(comparison: BaselineComparison) -> list[BaselineRow]:
    """Return a row for every mechanism and epsilon, in the order of the setting."""

    def runs(name: str, epsilon: float) -> list[MeasuredRun]:
        return [one for one in comparison.runs if one.key[:2] == (name, epsilon)]

    return [
        _row(
            runs(name, epsilon),
            [] if name == REFERENCE else runs(REFERENCE, epsilon),
            limit_at(comparison, epsilon),
        )
        for name in comparison.mechanisms
        for epsilon in comparison.setting.epsilons
    ]


def limit_at(comparison: BaselineComparison, epsilon: float) -> AccuracyLimit:
    """Return the limits at one epsilon of the setting."""
    return comparison.limits[comparison.setting.epsilons.index(epsilon)]


def compare_medians(losses: Floats, reference: Floats) -> Assessment:
    """Return the verdict on the difference of two medians.

    Limit: 95th percentile of the difference when runs are assigned to the two mechanisms at random.
    Error: delete-half jackknife. Margin: a tenth of the median of the reference.
    """
    both = np.concatenate((losses, reference))
    chance, halves = [], []
    for number in range(_SHUFFLES):
        order = shuffled_rows(0, number, both.size)
        chance.append(_apart(both[order[: losses.size]], both[order[losses.size :]]))
        halves.append(
            np.median(losses[shuffled_rows(1, number, losses.size)[: losses.size // 2]])
            - np.median(reference[shuffled_rows(2, number, reference.size)[: reference.size // 2]])
        )
    return assess(
        _apart(losses, reference),
        error=half_sample_error(np.array(halves), kept=losses.size // 2, of=losses.size),
        replicates=losses.size,
        limit=float(np.quantile(chance, CONFIDENCE)),
        margin=MARGIN * abs(float(np.median(reference))),
    )


def _apart(losses: Floats, others: Floats) -> float:
    return float(abs(np.median(losses) - np.median(others)))


def _row(
    runs: list[MeasuredRun], reference: list[MeasuredRun], limit: AccuracyLimit
) -> BaselineRow:
    first = runs[0]
    compared = None
    if min(len(runs), len(reference)) >= _MIN_COMPARED:
        compared = compare_medians(
            *(np.array([one.nearest for one in side]) for side in (runs, reference))
        )
    return BaselineRow(
        mechanism=first.key.mechanism,
        title=MECHANISMS[first.key.mechanism].title,
        epsilon=first.key.epsilon,
        repeats=len(runs),
        nearest=_quartiles([one.nearest for one in runs]),
        nearest_interval=median_interval(np.array([one.nearest for one in runs])),
        against_b=limit.against_b(float(np.median([one.nearest for one in runs]))),
        wild=float(np.mean(is_wild(np.array([one.nearest for one in runs])))),
        against=compared,
        labels=None
        if first.labels is None
        else _quartiles([one.labels for one in runs if one.labels is not None]),
        cpu_seconds=float(np.median([one.cpu_seconds for one in runs])),
        claimed=guarantee_text(first.claimed),
        true=guarantee_text(first.true),
        true_with_labels="" if first.labels is None else guarantee_text(first.true_with_labels),
        keeps_its_claim=keeps(first.claimed, first.true),
        known_violations=first.known_violations,
    )


def is_wild(losses: Floats) -> NDArray[np.bool_]:
    """Return which runs are above 3 medians + 0.02 of their own cell."""
    times, more = WILD
    wild: NDArray[np.bool_] = losses > times * np.median(losses) + more
    return wild


def _quartiles(losses: list[float]) -> Quartiles:
    return Quartiles(*np.quantile(losses, [0.25, 0.5, 0.75]).tolist())


def keeps(claimed: Guarantee, true: Guarantee | None) -> bool:
    """Whether the claim holds."""
    return (
        true is not None
        and (true.tier, true.neighbours) == (claimed.tier, claimed.neighbours)
        and true.epsilon <= claimed.epsilon * _SAME
        and true.delta <= claimed.delta * _SAME
    )


def guarantee_text(guarantee: Guarantee | None) -> str:
    """Return a guarantee as short text; only the global tier is called DP."""
    if guarantee is None:
        return "none"
    kind = "DP" if guarantee.tier is Tier.GLOBAL else "instance"
    if guarantee.neighbours is Neighbours.REPLACE_ONE:
        kind = "local DP"
    return f"{kind} ({guarantee.epsilon:.4g}, {guarantee.delta:.3g})"


def to_json(comparison: BaselineComparison, rows: list[BaselineRow]) -> dict[str, Any]:
    """Return the whole comparison as JSON values."""
    return {
        "private": True,
        "setting": asdict(comparison.setting),
        "left_out": list(comparison.left_out),
        "limits": [asdict(one) for one in comparison.limits],
        "rows": [
            {
                **asdict(row),
                "nearest": row.nearest._asdict(),
                "nearest_interval": [_finite(end) for end in row.nearest_interval],
                "labels": None if row.labels is None else row.labels._asdict(),
            }
            for row in rows
        ],
    }


def _finite(end: float) -> float | None:
    """Return an end of an interval; None if the repetitions are too few for one."""
    return end if math.isfinite(end) else None


def write_csv(comparison: BaselineComparison, rows: list[BaselineRow], path: Path) -> None:
    """Write one line per mechanism and epsilon, with the limits at that epsilon."""
    losses = [f"{kind}_{part}" for kind in ("nearest", "labels") for part in Quartiles._fields]
    facts = [
        "against_b",
        "one_draw",
        "no_small_clusters",
        "bound",
        "wild",
        "cpu_seconds",
        "claimed",
        "true",
        "true_with_labels",
        "keeps_its_claim",
        "known_violations",
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["mechanism", "epsilon", "repeats", *losses, *facts])
        for row in rows:
            limit = limit_at(comparison, row.epsilon)
            writer.writerow(
                [
                    row.mechanism,
                    row.epsilon,
                    row.repeats,
                    *row.nearest,
                    *(row.labels or ("", "", "")),
                    row.against_b,
                    limit.one_draw,
                    limit.no_small_clusters,
                    limit.bound,
                    row.wild,
                    row.cpu_seconds,
                    row.claimed,
                    row.true,
                    row.true_with_labels,
                    row.keeps_its_claim,
                    "; ".join(row.known_violations),
                ]
            )
