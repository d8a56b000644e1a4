"""Whether noise can be drawn for a period of a series: decided by public numbers, before it begins.

A query with too little of the budget would be refused by the kernel in the middle of a period,
after others were drawn.
"""

from itertools import pairwise

from wattveil.errors import InvalidParameterError
from wattveil.privacy.accounting import noise_scale
from wattveil.privacy.mechanisms.contributions import UNIT
from wattveil.privacy.mechanisms.gaussian import MIN_SCALE
from wattveil.release.load_series import SEGMENTS, ReleasedSeries
from wattveil.release.segment_series import found_in, period_units

LARGEST_SCALE = 2.0**48
"""Of noise, in steps: that of the kernel, as a test compares."""
LEAST_PART = 2000
"""No query gets less than one in so many units of its part: one in 847 was seen, of K-means."""


def check_noise(past: ReleasedSeries, *, period: int, recluster: bool) -> None:
    """Refuse a period for whose queries, or for those of later periods, noise cannot be drawn."""
    design = past.design
    parts = {name: units for name, units in design.rho_units.items() if name != SEGMENTS}
    if (segments := design.segments) is not None:
        begun = found_in(past.segments)
        if recluster or segments.is_due(period, begun):
            begun = (*begun, period)
        parts[SEGMENTS] = period_units(segments, past.segments, period, begun)
        planned = segments.planned(begun, period + 1)
        accrued = [segments.schedule(at, planned).accrued for at in range(period, design.horizon)]
        if later := [after - before for before, after in pairwise(accrued)]:
            parts[f"{SEGMENTS} in later periods"] = min(later)
    for name, units in parts.items():
        least, most = (
            noise_scale(squared_sensitivity=UNIT**2, rho_units=max(part, 1))
            for part in (units, units // LEAST_PART)
        )
        if least < MIN_SCALE or most > LARGEST_SCALE:
            rule = f"such that noise can be drawn for what is left for {name}"
            field = "recluster" if recluster else "epsilon"
            raise InvalidParameterError(field, rule, design.guarantee.epsilon)
