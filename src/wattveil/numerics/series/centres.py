"""Radii of a series, from a released histogram of the lengths of customers' offsets.

Post-processing: released and public numbers only. The centre of the next period is the prediction
of `smoothing.smooth_means`; a radius is chosen once, in period 1, and holds for the horizon. A
narrow radius clips customers, a wide one adds noise. Clipping is what limits trends: a customer who
buys a car is far from the centre, and what is clipped of the change is missing from the trend. So
the radius is wide, and nearly the same in kW for all groups: a car is as large in a small home.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from wattveil.arrays import Floats

LENGTH_EDGES = np.geomspace(0.15, 12.0, 20)
"""Bounds of the lengths of offsets in the histogram, in typical sizes of the customer's group."""

_MEDIANS, _LOG_STDS = np.geomspace(0.25, 3.0, 22), np.linspace(0.3, 0.9, 9)
_LOG_STD_PRIOR = (0.55, 0.15)
_FIT_ERROR = 0.02
"""Share of the customers that a log-normal which does not quite fit puts into a wrong cell."""
_FILTERED = 3.0
"""Coordinates' worth of noise that the filter leaves in a curve."""
_LOST = 6.0
"""Weight of what is clipped: it is not averaged over periods, and an adopter is clipped later."""
_WIDER = (60.0, 0.15)
"""With more than this signal, customers over the standard deviation of a sum, the radius grows by
this share for each doubling: noise falls as 1 / n, what clipping does to a trend as n^-1/2."""
_LEVEL_CLIPPING = (0.02, 5.0, 0.15)
"""Relative standard deviation of levels by clipping: a + b exp(-R / typical size) n^-1/2, at most
the last number."""
_TREND_CLIPPING = (0.8, 0.6)
"""Of slopes per year, of one customer in typical sizes: a exp(-b R / typical size). Changes of
single customers are clipped, so it falls with the root of their number."""
_COMMON = 0.6
"""Part of a radius that is the same in kW for all groups smaller than the mean."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SeriesRadii:
    """Radii of the groups, and the error that clipping is expected to cause."""

    radii_kw: Floats
    """(G,): length of an offset, in colour, that uses the allowance of a customer."""
    typical_kw: Floats
    """(G,): typical size of a customer."""
    customers: Floats
    """(G,): released number of customers in period 1, at least 1."""

    @property
    def level_clipping(self) -> Floats:
        """(G,): relative standard deviation of the levels by clipping."""
        floor, narrow, highest = _LEVEL_CLIPPING
        beyond = np.exp(-self.radii_kw / self.typical_kw) / np.sqrt(self.customers)
        return np.minimum(floor + narrow * beyond, highest)

    def trend_clipping_kw(self, customers: Floats) -> Floats:
        """(G,): standard deviation of slopes per year by clipping, in kW."""
        height, decay = _TREND_CLIPPING
        of_one = height * self.typical_kw * np.exp(-decay * self.radii_kw / self.typical_kw)
        return of_one / np.sqrt(np.maximum(customers, 1.0))


def choose_radii(
    lengths: Floats,
    *,
    lengths_std: float,
    typical_kw: Floats,
    customers: Floats,
    level_std: float,
) -> SeriesRadii:
    """Return the radius of each group.

    It minimises ``3 (level_std R / n)^2 + (6 E(length - R)+)^2`` per group, under log-normals
    weighed by the likelihood of the histogram, and is widened where there is much signal.

    Parameters
    ----------
    lengths : (cells,)
        Noisy number of customers by the length of their offset in `LENGTH_EDGES`, all groups.
    lengths_std
        Standard deviation of its noise.
    typical_kw, customers : (G,)
        Released size and number of customers of each group.
    level_std
        Standard deviation of the noise of an unfiltered sum of a period, in radii.
    """
    excess = _expected_excess(lengths, lengths_std)
    noise = level_std * LENGTH_EDGES / np.maximum(customers, 10.0)[:, None]
    chosen = (_FILTERED * np.square(noise) + np.square(_LOST * excess)).argmin(axis=1)
    common = np.average(typical_kw, weights=np.maximum(customers, 1.0))
    size = (1.0 - _COMMON) * typical_kw + _COMMON * np.maximum(common, typical_kw)
    return SeriesRadii(
        radii_kw=size * LENGTH_EDGES[chosen] * widening(customers, level_std),
        typical_kw=typical_kw,
        customers=np.maximum(customers, 1.0),
    )


def widening(customers: Floats, level_std: float) -> Floats:
    """Return the factor by which radii grow with the signal."""
    signal, growth = _WIDER
    return 1.0 + growth * np.log2(np.maximum(customers / (signal * level_std), 1.0))


def _expected_excess(lengths: Floats, lengths_std: float) -> Floats:
    """Return E(length - R)+ for R at each bound, the mean over log-normals by their likelihood."""
    log_edges = np.log(LENGTH_EDGES)
    medians, stds = (grid.reshape(-1, 1) for grid in np.meshgrid(np.log(_MEDIANS), _LOG_STDS))
    total = max(float(lengths.sum()), 10.0)
    shares = np.diff(ndtr((log_edges - medians) / stds), prepend=0.0, append=1.0, axis=1)
    variance = lengths_std**2 + np.square(_FIT_ERROR * total)
    misfit = np.square(lengths - total * shares).sum(axis=1) / variance
    misfit += np.square((stds[:, 0] - _LOG_STD_PRIOR[0]) / _LOG_STD_PRIOR[1])
    chance = np.exp(-0.5 * (misfit - misfit.min()))
    high = (medians + np.square(stds) - log_edges) / stds
    excess = np.exp(medians + 0.5 * np.square(stds)) * ndtr(high) - LENGTH_EDGES * ndtr(high - stds)
    found: Floats = chance @ excess / chance.sum()
    return found
