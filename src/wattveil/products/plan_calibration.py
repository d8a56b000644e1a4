"""Calibration of plans: how measured customers differ from simulated ones.

A plan runs the release on simulated customers. Measured ones differ, in shapes and in the sizes of
the largest. How smooth a profile is depends on the period that it averages, which is a public
choice. So the simulated error and accuracy loss are multiplied by a factor that depends on it::

    factor = level longer^steps,    steps = 0 (single month), 1 (some weeks), 2 (smooth year)

and stated with the range from 1/spread to spread times that. That of a mean load has one factor
for all periods. ``python benchmarks/bench_plans.py
--split tuning --fit`` repeats the calibration on the tuning families of `benchmarks/families.py`;
``python benchmarks/bench_plans.py`` reports on the others.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, NamedTuple

Quantity = Literal["error", "loss"]

_FIVE_WEEKS, _HALF_A_YEAR = 35, 183


class Roughness(StrEnum):
    """Period that a profile averages: the longer, the smoother."""

    SMOOTH_YEAR = "smooth year"
    SOME_WEEKS = "some weeks"
    SINGLE_MONTH = "single month"

    @classmethod
    def of_days(cls, days: int) -> "Roughness":
        """Return that of profiles that average so many days.

        >>> ", ".join(Roughness.of_days(days) for days in (34, 35, 182, 365))
        'single month, some weeks, some weeks, smooth year'
        """
        if days < _FIVE_WEEKS:
            return cls.SINGLE_MONTH
        return cls.SOME_WEEKS if days < _HALF_A_YEAR else cls.SMOOTH_YEAR


class Law(NamedTuple):
    """Calibration of one quantity of one kind of clusters."""

    level: float
    longer: float
    spread: float


_OF_SHAPES: Mapping[Quantity, Law] = {
    "error": Law(level=0.98, longer=0.91, spread=1.95),
    "loss": Law(level=0.9, longer=1.22, spread=2.87),
}
_OF_LOAD: Mapping[Quantity, Law] = {
    "error": Law(level=0.81, longer=1.05, spread=1.86),
    "loss": Law(level=1.25, longer=1.02, spread=3.32),
}
"""The loss in kW is least certain: it depends on how few customers have how much of the load."""

_OF_MEAN_LOAD = Law(level=1.39, longer=1.0, spread=2.24)
_OF_GROUPS = Law(level=2.52, longer=1.0, spread=2.5)
"""Of a mean load, of all customers and of the group in which it is largest. The simulated error is
that of a release; a release states a larger one, for its choices from noisy numbers, and measured
sizes are more dispersed than simulated ones. The range of all customers is that of every tuning
family; that of groups is the median of the cells, with a spread that holds nine of ten releases of
all of them, and a quarter more: ``python benchmarks/bench_load_plans.py --split tuning``."""

_SUPPORTED_APART = 1
"""Clusters by which the supported ones of a release differ from the plan in nine of ten."""


def steps(roughness: Roughness) -> int:
    """Return how many steps smoother profiles are than those of a single month."""
    return [Roughness.SINGLE_MONTH, Roughness.SOME_WEEKS, Roughness.SMOOTH_YEAR].index(roughness)


def factor(of: Quantity, *, is_shape: bool, roughness: Roughness) -> float:
    """Return the factor of a simulated error or loss."""
    law = _law(of, is_shape=is_shape)
    return float(law.level * law.longer ** steps(roughness))


def calibrated(
    simulated: float, of: Quantity, *, is_shape: bool, roughness: Roughness
) -> tuple[float, tuple[float, float]]:
    """Return the expected value of a simulated one, and its range."""
    value = simulated * factor(of, is_shape=is_shape, roughness=roughness)
    spread = _law(of, is_shape=is_shape).spread
    return value, (value / spread, value * spread)


def mean_load_range(simulated_kw: float, n_groups: int) -> tuple[float, tuple[float, float]]:
    """Return the standard error that a release of mean load will state, and its range, in kW.

    Parameters
    ----------
    simulated_kw
        Expected error of the group in which it is largest.
    n_groups
        Number of groups.
    """
    law = _OF_MEAN_LOAD if n_groups == 1 else _OF_GROUPS
    value = simulated_kw * law.level
    return value, (value / law.spread, value * law.spread)


def supported_range(expected: int, n_clusters: int) -> tuple[int, int]:
    """Return the range of the number of supported clusters."""
    return max(expected - _SUPPORTED_APART, 0), min(expected + _SUPPORTED_APART, n_clusters)


def _law(of: Quantity, *, is_shape: bool) -> Law:
    return (_OF_SHAPES if is_shape else _OF_LOAD)[of]
