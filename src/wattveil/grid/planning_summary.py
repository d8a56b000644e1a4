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

import numpy as np
from scipy import stats

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.grid.experiment import DEFAULT_REDRAWS, GridComparison, GridRow
from wattveil.grid.grid_metrics import Compared
from wattveil.grid.observation import GridSetting, Observation
from wattveil.web.charts import TWO_SIDED_95
from wattveil.web.formatting import format_count, format_number

DEFAULT_MARGIN = 0.05
_LOWEST_VOLTAGE = "A1 voltage, KS"
_PEAK = "A5 peak"
_IN_PERCENT = {"A3 losses": "%", "B9 peak loading, 99 %": "% of rating"}
"""Metrics that are shares, and their unit in percent."""
_QUANTITIES = {
    _PEAK: "peak load",
    _LOWEST_VOLTAGE: "voltage drop, largest",
    "A3 losses": "losses",
    "A4 peak current, largest": "peak current, largest",
    "A6 hosting capacity, load": "hosting capacity, load",
    "A6 hosting capacity, PV": "hosting capacity, PV",
    "B8 ADMD of 64 homes, W1": "average-day ADMD of 64 homes",
    "B8 ADMD of 4 homes, W1": "average-day ADMD of 4 homes",
    "B9 peak loading, 99 %": (
        "transformer peak loading, {homes} homes on {kva:g} kVA, 99th percentile"
    ),
}
"""Metrics of the summary, in its order, and what their values are."""
_COMPARED_BY = ("W1", "W1 by hour", "KS", "NRMSE")
_VALUES_BY = {Compared.VALUE.value: "difference", Compared.RATIO.value: "ratio"}
_LIGHT_LOAD = 0.1
"""Share of the nominal load below which a feeder hardly distinguishes populations."""


_POWER, _LOW_POWER = 0.8, 0.1
"""Usual power of a test, and the power below which the sample is called too small."""


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
    known_margin(margin)
    found = {row.metric: row for row in comparison.rows}
    setting = comparison.setting
    return tuple(
        _compared(_quantity(metric, setting), found[metric], setting.feeder.slack_pu, margin)
        for metric in _QUANTITIES
        if metric in found
    )


def known_margin(margin: float) -> float:
    """Return the margin; refuse one that accepts nothing or everything."""
    if not 0.0 < checks.finite("margin", margin) <= 1.0:
        raise InvalidParameterError("margin", "above 0 and at most 1", margin)
    return margin


def _quantity(metric: str, setting: GridSetting) -> str:
    """Return the name of a quantity; of transformers with homes and rating."""
    return _QUANTITIES[metric].format(homes=setting.transformer_homes, kva=setting.transformer_kva)


def summary_notes(comparison: GridComparison) -> tuple[str, ...]:
    """Return what the summary leaves out and why, and voltage and flow where homes feed in."""
    setting = comparison.setting
    found = {row.metric for row in comparison.rows}
    omitted = [_quantity(metric, setting) for metric in _QUANTITIES if metric not in found]
    houses = format_count(setting.placement.houses, "house")
    notes = [f"Omitted: {name}, because there are only {houses}." for name in omitted]
    if comparison.redraws < DEFAULT_REDRAWS:
        notes.append(
            f"Only {comparison.redraws} redraws: intervals, power and verdicts vary with --seed."
            f" Use at least {DEFAULT_REDRAWS} for results that are reported."
        )
    real, synthetic = (_extremes(seen) for seen in (comparison.real, comparison.synthetic))
    notes.append(
        f"Highest voltage {real[0]:.4f} pu (one synthetic sample: {synthetic[0]:.4f}), lowest flow"
        f" from the substation {format_number(real[1])} kW ({format_number(synthetic[1])}); a"
        " negative flow is reverse flow."
    )
    return tuple(notes)


def _extremes(seen: Observation) -> tuple[float, float]:
    """Return the highest voltage and the lowest flow from the substation, of solved snapshots."""
    solved = np.isfinite(seen.flow.source_kw)
    if not solved.any():
        return math.nan, math.nan
    highest_pu, lowest_kw = seen.voltage_pu[solved].max(), seen.flow.source_kw[solved].min()
    return float(highest_pu), float(lowest_kw)


def light_load(comparison: GridComparison) -> str:
    """Return a warning if the feeder is nearly unloaded; an empty text otherwise."""
    nominal_kw = float(comparison.setting.feeder.nominal_kw.sum())
    peak_kw = next(row.real for row in comparison.rows if row.metric == _PEAK)
    if peak_kw >= _LIGHT_LOAD * nominal_kw:
        return ""
    return (
        f"The peak load is {100.0 * peak_kw / nominal_kw:.1f} % of the nominal load of the feeder."
        " Voltages, currents, losses and hosting capacities are those of a nearly unloaded"
        ' feeder: "equivalent" says little about the customers there. Use more houses, or a smaller'
        " feeder."
    )


def _compared(name: str, row: GridRow, slack_pu: float, margin: float) -> PlanningRow:
    real, synthetic = row.real, row.synthetic
    ends: Sequence[float] = (row.difference_low, row.difference_high)
    unit = row.unit
    if row.metric == _LOWEST_VOLTAGE:  # relative to the voltage, any difference would be small
        real, synthetic, unit = max(slack_pu - real, 0.0), max(slack_pu - synthetic, 0.0), "pu"
        ends = (-row.difference_high, -row.difference_low)
    low, high = (value / real if real > 0.0 else math.nan for value in ends)
    if row.metric in _IN_PERCENT:
        real, synthetic, unit = 100.0 * real, 100.0 * synthetic, _IN_PERCENT[row.metric]
    return compared(name, unit, (real, synthetic), (low, high), margin)


def compared(
    quantity: str,
    unit: str,
    values: tuple[float, float],
    interval: tuple[float, float],
    margin: float,
) -> PlanningRow:
    """Return a row with its verdict.

    Parameters
    ----------
    quantity, unit
        What is compared.
    values
        Of the real and of the synthetic customers.
    interval
        Of the relative difference, 95 %.
    margin
        Relative difference that the study accepts.
    """
    (real, synthetic), (low, high) = values, interval
    difference = (synthetic - real) / real if real > 0.0 else math.nan
    if -margin <= low and high <= margin:
        equivalence = Equivalence.EQUIVALENT
    elif low > margin or high < -margin:
        equivalence = Equivalence.DIFFERENT
    else:
        equivalence = Equivalence.INCONCLUSIVE
    return PlanningRow(
        quantity=quantity,
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


def powerless(rows: Sequence[PlanningRow], margin: float) -> str:
    """Return that agreement within the margin cannot be shown, if no test has power; or nothing.

    It names a margin that can be: for all quantities, or for the most precise one.
    """
    margins = _min_margins(rows)
    if not margins or any(row.power > 0.0 for row in rows):
        return ""
    widest, narrow = (math.ceil(100.0 * end(margins.values())) for end in (max, min))
    text = f"Too few customers to show agreement within ±{100.0 * margin:g} %"
    if narrow > 100:  # noqa: PLR2004 - percent: no larger margin is accepted
        return f"{text}, or within any other margin."
    name = min(margins, key=margins.__getitem__)
    which = f"±{narrow} % for {name}" if widest > 100 else f"±{widest} % for all quantities"  # noqa: PLR2004
    return f"{text}; they can show {which}."


def min_margin(rows: Sequence[PlanningRow]) -> str:
    """Return the smallest margin at which every test has a power of 80 %, in words."""
    margins = _min_margins(rows)
    if not margins:
        return ""
    widest = max(margins, key=margins.__getitem__)
    return (
        f"Smallest margin with {100.0 * _POWER:.0f} % power: ±{100.0 * min(margins.values()):.1f} %"
        f" for the most precise quantity, ±{100.0 * margins[widest]:.1f} % for all ({widest})."
    )


def _min_margins(rows: Sequence[PlanningRow]) -> dict[str, float]:
    """Return the smallest margin of each quantity at which its test has a power of 80 %.

    By `_power`, 2 Φ((m / reach - 1) 1.96) - 1 = 0.8 for m = reach (1 + 1.2816 / 1.96).
    """
    factor = 1.0 + float(stats.norm.ppf(0.5 + 0.5 * _POWER)) / TWO_SIDED_95
    found = {row.quantity: factor * 0.5 * (row.high - row.low) for row in rows}
    return {name: margin for name, margin in found.items() if math.isfinite(margin)}


def beyond_margin(rows: Sequence[PlanningRow], margin: float) -> str:
    """Return a note on inconclusive quantities that differ by more than the margin; or nothing."""
    beyond = [
        f"{row.quantity}: {100.0 * row.difference:+.1f} %"
        for row in rows
        if row.equivalence is Equivalence.INCONCLUSIVE and abs(row.difference) > margin
    ]
    if not beyond:
        return ""
    return (
        "Inconclusive, but the estimate itself exceeds the margin:"
        f" {'; '.join(beyond)}. Do not use these quantities as if they agreed."
    )


def summary_text(rows: Sequence[PlanningRow], margin: float) -> str:
    """Return the outcomes, what is beyond the margin, and margins with power, for a page."""
    first = powerless(rows, margin), summary_sentence(rows, margin)
    texts = (*first, beyond_margin(rows, margin), min_margin(rows))
    return " ".join(text for text in texts if text)


def format_difference(row: PlanningRow) -> str:
    """Return the relative difference and its interval, in percent."""
    if math.isnan(row.difference):
        return "not defined"
    shown = (f"{100.0 * one:+.1f}" for one in (row.difference, row.low, row.high))
    return "{} % ({} to {})".format(*shown)


def format_equivalence(row: PlanningRow) -> str:
    """Return the verdict; if it is inconclusive, with the power of the test, and its cause."""
    if row.equivalence is not Equivalence.INCONCLUSIVE or math.isnan(row.power):
        return row.equivalence.value
    cause = ": too few customers" if row.power < _LOW_POWER else ""
    return f"{row.equivalence.value} (power {100.0 * row.power:.0f} %{cause})"


def metric_parts(row: GridRow) -> tuple[str, str, str]:
    """Return the name of a metric, the value that is shown of it, and how it is compared."""
    shown = ", ".join(filter(None, (row.shown, row.unit)))
    name, _, last = row.metric.rpartition(", ")
    if last in _COMPARED_BY:
        return name, shown, last
    by = "whole curve" if row.compares == Compared.DISTRIBUTION else _VALUES_BY[row.compares]
    return row.metric, shown, by


def is_zero_throughout(row: GridRow) -> bool:
    """Whether nothing of a metric occurred, with real or with synthetic customers."""
    return not any((row.real, row.synthetic, row.difference_low, row.difference_high))
