"""What a metric is, and the distances that metrics are made of."""

from collections.abc import Callable
from dataclasses import dataclass

from wattveil.grid.network import Floats
from wattveil.grid.observe import Observation
from wattveil.measures.samples import wasserstein

Value = Callable[[Observation], float]
Sample = Callable[[Observation], Floats]
Distance = Callable[[Observation, Observation], float]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One row of the table: a value that says what it is about, and a distance that is judged."""

    name: str
    unit: str
    value: Value
    distance: Distance


def by_difference(name: str, unit: str, value: Value) -> Metric:
    """Return the metric whose distance is ``|s - t|``, in the unit of the value."""
    return Metric(name=name, unit=unit, value=value, distance=lambda s, t: abs(value(s) - value(t)))


def by_ratio(name: str, unit: str, value: Value) -> Metric:
    """Return the metric whose distance is ``|s / t - 1|``."""
    return Metric(
        name=name, unit=unit, value=value, distance=lambda s, t: abs(value(s) / value(t) - 1.0)
    )


def by_wasserstein(name: str, unit: str, sample: Sample) -> Metric:
    """Return the metric whose distance is that of two sorted samples; its value is the mean."""
    return Metric(
        name=name,
        unit=unit,
        value=lambda seen: float(sample(seen).mean()),
        distance=lambda s, t: wasserstein(sample(s), sample(t)),
    )
