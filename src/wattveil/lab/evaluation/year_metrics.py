"""Fidelity metrics F20 of docs/evaluation.md, of customers over consecutive days. PRIVATE.

What a planner sizes a feeder with: how high all customers peak together, how much their days have
in common, the largest homes' peaks, and how load moves from slot to slot.
"""

from wattveil.lab.evaluation.customer_samples import Sample, SampleLayout
from wattveil.lab.evaluation.fidelity_metrics import NEEDS_YEARS, FidelityMetric
from wattveil.numerics.measures.fidelity_measures import kolmogorov_smirnov
from wattveil.numerics.measures.year_measures import daily_correlation, year_ratios

_LEAST_DAYS = 28
_RATIOS = {
    "coincident peak": "coincident peak of all",
    "daily energy, variation": "daily energy of all, variation",
    "95 % peak": "95 % quantile of peaks",
    "median ramp": "median ramp",
    "flat hours": "flat hours",
}
"""Figures of `year_ratios`, and their names in the table."""


def year_errors(real: Sample, other: Sample) -> tuple[float, ...]:
    """F20: ``|S / R - 1|`` of figures of all customers; days are weekdays or weekends."""
    ratios = year_ratios(real.load_kw, other.load_kw, day_groups=real.layout.day_type)
    return tuple(abs(ratios[name] - 1.0) for name in _RATIOS)


def common_days(real: Sample, other: Sample) -> tuple[float]:
    """F20: difference of the mean correlation of two customers' daily energies."""
    found = [daily_correlation(one.load_kw, one.layout.day_type) for one in (real, other)]
    return (abs(found[1] - found[0]),)


def annual_energy(real: Sample, other: Sample) -> tuple[float]:
    """F20: KS of the customers' energies over all days."""
    return (kolmogorov_smirnov(real.energy_kwh, other.energy_kwh),)


def _too_short(layout: SampleLayout, _customers: int) -> str:
    return "" if layout.series and layout.days >= _LEAST_DAYS else NEEDS_YEARS


YEAR_METRICS = (
    FidelityMetric(
        figures=tuple((f"F20 {name}", "relative") for name in _RATIOS.values()),
        measure=year_errors,
        missing=_too_short,
    ),
    FidelityMetric(
        figures=(("F20 daily energy, correlation of customers", ""),),
        measure=common_days,
        missing=_too_short,
    ),
    FidelityMetric(
        figures=(("F20 energy over all days, KS", ""),), measure=annual_energy, missing=_too_short
    ),
)
