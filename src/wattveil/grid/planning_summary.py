"""Planning summary: a few quantities of a feeder study, compared with a tolerance. PRIVATE.

The metrics of `GridComparison` state whether synthetic customers can be distinguished from real
ones. A planner also needs to know whether the difference matters. The summary states the relative
difference of the quantities that size a feeder, with its 95 % interval, and compares the interval
with the tolerance of the study: an equivalence test.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.grid.experiment import GridComparison, GridRow

DEFAULT_TOLERANCE = 0.1
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


class Agreement(StrEnum):
    """Whether the interval of a relative difference lies within the tolerance."""

    WITHIN = "within"
    """The whole interval does."""
    OUTSIDE = "outside"
    """No part of it does."""
    UNCLEAR = "unclear"
    """A part of it does, or there is none."""


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
    """

    quantity: str
    unit: str
    real: float
    synthetic: float
    difference: float
    low: float
    high: float
    agreement: Agreement


def planning_summary(
    comparison: GridComparison, *, tolerance: float = DEFAULT_TOLERANCE
) -> tuple[PlanningRow, ...]:
    """Return the quantities that size a feeder, compared with a tolerance.

    Parameters
    ----------
    comparison
        Result of `compare_on_feeder`.
    tolerance
        Relative difference that the study accepts, such as 0.1 for 10 %.
    """
    if not 0.0 < checks.finite("tolerance", tolerance) <= 1.0:
        raise InvalidParameterError("tolerance", "above 0 and at most 1", tolerance)
    found = {row.metric: row for row in comparison.rows}
    slack_pu = comparison.setting.feeder.slack_pu
    return tuple(
        _compared(name, found[metric], slack_pu, tolerance)
        for metric, name in _QUANTITIES.items()
        if metric in found
    )


def _compared(name: str, row: GridRow, slack_pu: float, tolerance: float) -> PlanningRow:
    real, synthetic = row.real, row.synthetic
    ends: Sequence[float] = (row.difference_low, row.difference_high)
    unit = row.unit
    if row.metric == _LOWEST_VOLTAGE:  # relative to the voltage, any difference would be small
        real, synthetic, unit = max(slack_pu - real, 0.0), max(slack_pu - synthetic, 0.0), "pu"
        ends = (-row.difference_high, -row.difference_low)
    difference, low, high = (
        value / real if real > 0.0 else math.nan for value in (synthetic - real, *ends)
    )
    if -tolerance <= low and high <= tolerance:
        agreement = Agreement.WITHIN
    elif low > tolerance or high < -tolerance:
        agreement = Agreement.OUTSIDE
    else:
        agreement = Agreement.UNCLEAR
    return PlanningRow(
        quantity=name,
        unit=unit,
        real=real,
        synthetic=synthetic,
        difference=difference,
        low=low,
        high=high,
        agreement=agreement,
    )


def summary_sentence(rows: Sequence[PlanningRow], tolerance: float) -> str:
    """Return how many quantities agree, in words."""
    count = {one: sum(row.agreement is one for row in rows) for one in Agreement}
    return (
        f"Tolerance ±{100.0 * tolerance:g} %: {count[Agreement.WITHIN]} of {len(rows)} quantities"
        f" are within, {count[Agreement.OUTSIDE]} outside, {count[Agreement.UNCLEAR]} unclear."
    )


def format_difference(row: PlanningRow) -> str:
    """Return the relative difference and its interval, in percent."""
    if math.isnan(row.difference):
        return "not defined"
    shown = (f"{100.0 * one:+.1f}" for one in (row.difference, row.low, row.high))
    return "{} % ({} to {})".format(*shown)


def is_zero_throughout(row: GridRow) -> bool:
    """Whether nothing of a metric occurred, with real or with synthetic customers."""
    return not any((row.real, row.synthetic, row.difference_low, row.difference_high))
