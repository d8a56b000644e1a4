"""Planning summary: equivalence of the quantities that size a feeder. PRIVATE.

The metrics of `GridComparison` state whether synthetic customers can be distinguished from real
ones. A planner also needs to know whether the difference matters. The summary states the relative
difference of the quantities that size a feeder, with its 95 % interval, and tests equivalence: two
one-sided tests, each at 2.5 %, against the margin that the study accepts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scipy import stats

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.grid.experiment import GridComparison, GridRow
from wattveil.web.charts import TWO_SIDED_95

DEFAULT_MARGIN = 0.05
_LOWEST_VOLTAGE = "A1 voltage, KS"
_QUANTITIES = {
    "A5 peak": "peak load",
    _LOWEST_VOLTAGE: "voltage drop, largest",
    "A3 losses": "losses",
    "A4 peak current, largest": "peak current, largest",
    "A6 hosting capacity, load": "hosting capacity, load",
    "A6 hosting capacity, panels": "hosting capacity, PV",
    "B8 ADMD of 64 homes, W1": "ADMD of 64 homes",
    "B8 ADMD of 4 homes, W1": "ADMD of 4 homes",
    "B9 peak loading, 99 %": "transformer load, 99 %",
}
"""Metrics of the summary, in its order, and what their values are."""


class Equivalence(StrEnum):
    """Outcome of a test of equivalence."""

    EQUIVALENT = "equivalent"
    """The whole interval of the relative difference is within the margin."""
    DIFFERENT = "different"
    """The whole interval is beyond the margin."""
    INCONCLUSIVE = "inconclusive"
    """A part of it is within, or there is none."""


@dataclass(frozen=True, kw_only=True)
class PlanningRow:
    """One quantity of the real and of the synthetic customers.

    Attributes
    ----------
    real, synthetic
        Value of the real sample, and median of the samples of synthetic customers.
    difference, low, high
        Relative difference, with its 95 % interval; NaN where the real value is 0, or where half of
        the power flows have no solution.
    power
        Probability of the verdict "equivalent" if there were no difference: low power means that
        the experiment has too few customers or houses for this margin.
    """

    quantity: str
    unit: str
    real: float
    synthetic: float
    difference: float
    low: float
    high: float
    power: float
    equivalence: Equivalence


def planning_summary(
    comparison: GridComparison, *, margin: float = DEFAULT_MARGIN
) -> tuple[PlanningRow, ...]:
    """Return the quantities that size a feeder, each with a test of equivalence.

    Parameters
    ----------
    comparison
        Result of `compare_on_feeder`.
    margin
        Relative difference that the study accepts, such as 0.05 for 5 %.
    """
    if not 0.0 < checks.finite("margin", margin) <= 1.0:
        raise InvalidParameterError("margin", "above 0 and at most 1", margin)
    found = {row.metric: row for row in comparison.rows}
    slack_pu = comparison.setting.feeder.slack_pu
    return tuple(
        _compared(name, found[metric], slack_pu, margin)
        for metric, name in _QUANTITIES.items()
        if metric in found
    )


def _compared(name: str, row: GridRow, slack_pu: float, margin: float) -> PlanningRow:
    real, synthetic = row.real, row.synthetic
    ends: Sequence[float] = (row.difference_low, row.difference_high)
    unit = row.unit
    if row.metric == _LOWEST_VOLTAGE:  # relative to the voltage, any difference would be small
        real, synthetic, unit = max(slack_pu - real, 0.0), max(slack_pu - synthetic, 0.0), "pu"
        ends = (-row.difference_high, -row.difference_low)
    difference, low, high = (
        value / real if real > 0.0 else math.nan for value in (synthetic - real, *ends)
    )
    if -margin <= low and high <= margin:
        equivalence = Equivalence.EQUIVALENT
    elif low > margin or high < -margin:
        equivalence = Equivalence.DIFFERENT
    else:
        equivalence = Equivalence.INCONCLUSIVE
    return PlanningRow(
        quantity=name,
        unit=unit,
        real=real,
        synthetic=synthetic,
        difference=difference,
        low=low,
        high=high,
        power=_power(0.5 * (high - low), margin),
        equivalence=equivalence,
    )


def _power(reach: float, margin: float) -> float:
    """Return the probability that an interval around 0, of this reach, is within the margin.

    With the standard error s = reach / 1.96, the estimate is N(0, s^2), and its interval is within
    the margin m if it is at most m - reach from 0::

        P = 2 Φ((m - reach) / s) - 1, at least 0
    """
    if not math.isfinite(reach):
        return math.nan
    if reach == 0.0:
        return 1.0
    return max(2.0 * float(stats.norm.cdf((margin / reach - 1.0) * TWO_SIDED_95)) - 1.0, 0.0)


def summary_sentence(rows: Sequence[PlanningRow], margin: float) -> str:
    """Return the number of quantities by outcome, in words."""
    count = {one: sum(row.equivalence is one for row in rows) for one in Equivalence}
    return (
        f"Margin ±{100.0 * margin:g} %: {count[Equivalence.EQUIVALENT]} of {len(rows)} quantities"
        f" are equivalent, {count[Equivalence.DIFFERENT]} different,"
        f" {count[Equivalence.INCONCLUSIVE]} inconclusive."
    )


def format_difference(row: PlanningRow) -> str:
    """Return the relative difference and its interval, in percent."""
    if math.isnan(row.difference):
        return "not defined"
    shown = (f"{100.0 * one:+.1f}" for one in (row.difference, row.low, row.high))
    return "{} % ({} to {})".format(*shown)


def format_equivalence(row: PlanningRow) -> str:
    """Return the verdict; if it is inconclusive, with the power of the test."""
    if row.equivalence is not Equivalence.INCONCLUSIVE or math.isnan(row.power):
        return row.equivalence.value
    return f"{row.equivalence.value} (power {100.0 * row.power:.0f} %)"


def is_zero_throughout(row: GridRow) -> bool:
    """Whether nothing of a metric occurred, with real or with synthetic customers."""
    return not any((row.real, row.synthetic, row.difference_low, row.difference_high))
