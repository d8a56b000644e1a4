"""Planner's summary of `wattveil evaluate`: the quantities that size a network. PRIVATE.

The metrics of an evaluation are distances, relative to sampling variability. A planner needs signed
differences, and whether they matter. The summary has a few quantities of all customers, the
relative difference of the synthetic from the real ones with its 95 % interval, and the test of
equivalence of `grid.planning_summary`. With the values t of the real and s of the synthetic
customers, and both populations resampled (bootstrap)::

    log(s / t) ± 1.96 SD(log(s* / t*))
"""

import math
from collections.abc import Iterator

import numpy as np

from wattveil.arrays import Floats
from wattveil.grid.planning_summary import PlanningRow, compared, known_margin
from wattveil.lab.evaluation.customer_samples import SampleLayout
from wattveil.lab.seeded_draws import Generator, named_generator
from wattveil.numerics.measures.year_measures import high_peak
from wattveil.web.charts import TWO_SIDED_95

HOMES = 64
"""Homes of a group, such as those of a distribution transformer; the same as in `wattveil grid`."""
_REDRAWS, _GROUPS, _MANY_GROUPS = 50, 20, 400
"""Bootstrap samples, groups drawn in each, and groups drawn for the value itself."""


def load_summary(
    real_kw: Floats, synthetic_kw: Floats, layout: SampleLayout, *, margin: float, seed: int = 0
) -> tuple[PlanningRow, ...]:
    """Return the quantities that size a network, each with a test of equivalence.

    Parameters
    ----------
    real_kw, synthetic_kw : (customers, slots of all days)
        Finite, in kW.
    layout
        Layout of the columns of both.
    margin
        Relative difference that the study accepts, such as 0.05 for 5 %.
    seed
        Of the bootstrap and of the groups of homes.
    """
    known_margin(margin)
    generator = named_generator(seed, "load summary")
    both = real_kw, synthetic_kw
    values = [dict(_quantities(load_kw, _MANY_GROUPS, generator)) for load_kw in both]
    redrawn = [
        [dict(_quantities(_resampled(load_kw, generator), _GROUPS, generator)) for load_kw in both]
        for _ in range(_REDRAWS)
    ]
    units = _units(layout)
    rows = []
    for name, unit in units.items():
        real, synthetic = values[0][name], values[1][name]
        away = [_log_ratio(one[0][name], one[1][name]) for one in redrawn]
        reach = TWO_SIDED_95 * float(np.std(away, ddof=1))
        middle = _log_ratio(real, synthetic)
        interval = math.expm1(middle - reach), math.expm1(middle + reach)
        rows.append(compared(name, unit, (real, synthetic), interval, margin))
    return tuple(rows)


_PEAK, _GROUP_PEAK = "coincident peak", f"ADMD of {HOMES} homes"
_OWN_PEAK = "95th percentile of peaks of single homes"
_ENERGY, _FACTOR = "energy per day", "load factor of all homes together"


def _units(layout: SampleLayout) -> dict[str, str]:
    """Return the unit of each quantity; profiles have no peak of a home, but one of its mean."""
    names = (_PEAK, _GROUP_PEAK, _OWN_PEAK, _ENERGY, _FACTOR)
    units = ("kW per home", "kW per home", "kW", "kWh per home", "share")
    found = dict(zip(names, units, strict=True))
    if not layout.series:
        del found[_OWN_PEAK]
    return found


def _quantities(load_kw: Floats, groups: int, generator: Generator) -> Iterator[tuple[str, float]]:
    """Yield the quantities of a population: the load of all, of groups, and of single homes."""
    mean_kw = load_kw.mean(axis=0)
    peak_kw = float(mean_kw.max())
    yield _PEAK, peak_kw
    members = generator.integers(len(load_kw), size=(groups, HOMES))
    yield _GROUP_PEAK, float(np.mean([load_kw[own].mean(axis=0).max() for own in members]))
    yield _OWN_PEAK, high_peak(load_kw)
    yield _ENERGY, 24.0 * float(mean_kw.mean())
    yield _FACTOR, float(mean_kw.mean()) / peak_kw if peak_kw > 0.0 else math.nan


def _resampled(load_kw: Floats, generator: Generator) -> Floats:
    """Return a bootstrap sample of customers."""
    return np.asarray(load_kw[generator.integers(len(load_kw), size=len(load_kw))])


def _log_ratio(real: float, synthetic: float) -> float:
    """Return log(s / t); NaN where one is not above 0, as of a net exporter."""
    return math.log(synthetic / real) if real > 0.0 < synthetic else math.nan
