"""Medians and quartiles of a comparison, by mechanism and epsilon."""

import csv
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wattveil.lab.baselines.baseline_comparison import MECHANISMS, BaselineComparison, MeasuredRun
from wattveil.privacy.guarantee import Guarantee, Neighbours, Tier

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
    labels: Quartiles | None
    cpu_seconds: float
    claimed: str
    true: str
    true_with_labels: str
    keeps_its_claim: bool
    known_violations: tuple[str, ...]


def summarise(comparison: BaselineComparison) -> list[BaselineRow]:
    """Return a row for every mechanism and epsilon, in the order of the setting."""
    return [
        _row([one for one in comparison.runs if one.key[:2] == (name, epsilon)])
        for name in comparison.mechanisms
        for epsilon in comparison.setting.epsilons
    ]


def _row(runs: list[MeasuredRun]) -> BaselineRow:
    first = runs[0]
    return BaselineRow(
        mechanism=first.key.mechanism,
        title=MECHANISMS[first.key.mechanism].title,
        epsilon=first.key.epsilon,
        repeats=len(runs),
        nearest=_quartiles([one.nearest for one in runs]),
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
        "rows": [
            {
                **asdict(row),
                "nearest": row.nearest._asdict(),
                "labels": None if row.labels is None else row.labels._asdict(),
            }
            for row in rows
        ],
    }


def write_csv(rows: list[BaselineRow], path: Path) -> None:
    """Write one line per mechanism and epsilon."""
    losses = [f"{kind}_{part}" for kind in ("nearest", "labels") for part in Quartiles._fields]
    facts = [
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
            writer.writerow(
                [
                    row.mechanism,
                    row.epsilon,
                    row.repeats,
                    *row.nearest,
                    *(row.labels or ("", "", "")),
                    row.cpu_seconds,
                    row.claimed,
                    row.true,
                    row.true_with_labels,
                    row.keeps_its_claim,
                    "; ".join(row.known_violations),
                ]
            )
