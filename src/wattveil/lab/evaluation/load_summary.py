"""Planner's summary of `wattveil evaluate`: the quantities that size a network. PRIVATE.

The metrics of an evaluation are distances, relative to sampling variability. A planner needs signed
differences, and whether they matter. The summary has a few quantities of all customers, the
relative difference of the synthetic from the real ones with its 95 % interval, and the test of
equivalence of `grid.planning_summary`. With the values t of the real and s of the synthetic
customers, and both populations resampled (bootstrap)::

    log(s / t) ± 1.96 SD(log(s* / t*))
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from wattveil.arrays import Floats
from wattveil.grid.planning_summary import Equivalence, PlanningRow, compared, known_margin
from wattveil.lab.evaluation.customer_samples import SampleLayout
from wattveil.lab.seeded_draws import Generator, named_generator
from wattveil.numerics.measures.year_measures import high_peak
from wattveil.web.charts import TWO_SIDED_95

HOMES = 64
"""Homes of a group, such as those of a distribution transformer; the same as in `wattveil grid`."""
_REDRAWS, _GROUPS = 50, 400
"""Bootstrap samples, and groups drawn in each, as many as for the value itself: with fewer, their
random choice would widen the interval."""
_CELLS = 1_000_000
"""Readings of groups in memory at once: 8 MB."""
_MANY = 5
"""Synthetic customers for each real one, from which more of them hardly narrow an interval."""


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
    values = [dict(_quantities(load_kw, generator)) for load_kw in both]
    redrawn = [
        [dict(_quantities(_resampled(load_kw, generator), generator)) for load_kw in both]
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
        shown = name if layout.series or name != _GROUP_PEAK else f"average-day {name}"
        rows.append(compared(shown, unit, (real, synthetic), interval, margin))
    return tuple(rows)


def more_customers(rows: Sequence[PlanningRow], real: int, synthetic: int) -> str:
    """Return the advice to draw more synthetic customers, if that narrows intervals; or nothing.

    Parameters
    ----------
    rows
        Summary of `load_summary`.
    real, synthetic
        Numbers of customers.
    """
    unclear = any(row.equivalence is Equivalence.INCONCLUSIVE for row in rows)
    if not unclear or synthetic >= _MANY * real:
        return ""
    return (
        f"Inconclusive quantities: drawing more synthetic customers ({_MANY * real:,} instead of"
        f" {synthetic:,}) narrows the intervals and spends no privacy budget."
    )


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


def _quantities(load_kw: Floats, generator: Generator) -> Iterator[tuple[str, float]]:
    """Yield the quantities of a population: the load of all, of groups, and of single homes."""
    mean_kw = load_kw.mean(axis=0)
    peak_kw = float(mean_kw.max())
    yield _PEAK, peak_kw
    members = generator.integers(len(load_kw), size=(_GROUPS, HOMES))
    at_once = max(1, _CELLS // (HOMES * load_kw.shape[1]))
    blocks = (members[first : first + at_once] for first in range(0, _GROUPS, at_once))
    peaks = [load_kw[block].mean(axis=1).max(axis=1) for block in blocks]
    yield _GROUP_PEAK, float(np.concatenate(peaks).mean())
    yield _OWN_PEAK, high_peak(load_kw)
    yield _ENERGY, 24.0 * float(mean_kw.mean())
    yield _FACTOR, float(mean_kw.mean()) / peak_kw if peak_kw > 0.0 else math.nan


def _resampled(load_kw: Floats, generator: Generator) -> Floats:
    """Return a bootstrap sample of customers."""
    return np.asarray(load_kw[generator.integers(len(load_kw), size=len(load_kw))])


def _log_ratio(real: float, synthetic: float) -> float:
    """Return log(s / t); NaN where one is not above 0, as of a net exporter."""
    return math.log(synthetic / real) if real > 0.0 < synthetic else math.nan
