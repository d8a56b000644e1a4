"""From noisy sums by group to mean curves with their error bands.

Post-processing: it sees released numbers whose noise is known, and public ones, nothing else.

A group's mean in coordinate j, in units of its typical size, is seen as ``m = c + D + noise``: c is
the pooled curve of all groups, of prior variance (b p_j)^2, and D the group's own deviation, of
variance (t p_j)^2, with p the public spectrum. b and t are found for each block of coordinates by
the likelihood of what was released, so groups that do not differ are averaged and groups that do
are left apart; then both are filtered::

    c = v / (v + n^2) m        v = max((b p)^2, m^2 - 4 n^2)

The second term lets through, almost whole, what stands clear of the noise although the prior did
not expect it.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from wattveil.clustering.calendar import Calendar, Counts
from wattveil.clustering.geometry import Floats
from wattveil.clustering.group_sizes import GroupSizes

_CLEAR = 4.0
"""Squared standard deviations taken off before an unexpected coordinate is let through."""
_AMPLITUDES = np.exp(np.linspace(math.log(0.003), math.log(2.0), 27))
_AMPLITUDE_PRIOR = (math.log(0.2), 1.5)
_LEVEL = (0.8, 0.3)
"""Mean load over mean size, as it is expected, and the standard deviation around it."""
_ROUNDS = 2
_EXPECTED, _EXPECTED_APART, _EXPECTED_MISSED = 0.2, 0.04, 0.5
"""In a plan: amplitude of a population's curve, of a group's deviation from it, and the share of
what a band allows for in the correction for clipping."""
_BAND = 1.1
"""What choosing radius, prior and correction by noisy numbers adds to the error, as a factor."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupMeans:
    """Mean curves in public coordinates, and the variance of their errors."""

    mean: Floats
    variance: Floats
    counted: Floats
    """(G,): relative error by the number of customers, which all slots share."""
    uncounted: Floats
    """(G,): that of the whole group's load, where the number is multiplied in again."""
    missed: Floats
    """(G,): relative error that the correction for clipping is expected to leave."""
    hidden: Floats
    """(G,): what the mean of all slots may be higher by, in kW, if giants hide in the noise."""

    def in_kw(self, calendar: Calendar) -> tuple[Floats, Floats]:
        """Return the mean in each slot and its standard error."""
        mean_kw = self.mean @ calendar.weights
        noise = self.variance @ np.square(calendar.weights)
        shared = np.hypot(self.counted, self.missed)[:, None] * mean_kw
        return mean_kw, np.sqrt(noise + np.square(shared))


def filter_means(
    sums: Floats,
    noise_std: float,
    *,
    sizes: GroupSizes,
    calendar: Calendar,
) -> GroupMeans:
    """Return each group's mean curve in kW, corrected for clipping; see the module's docstring.

    Parameters
    ----------
    sums : (G, r)
        Noisy sums of clipped coordinates, in radii and colour.
    noise_std : float
        Standard deviation of the noise of each.
    """
    counted = sizes.customers_std / sizes.customers
    unit = _unit(sizes, calendar)
    seen, noise = sums * unit, np.square(noise_std * unit)
    spectrum, blocks = calendar.spectrum, calendar.blocks
    several = len(sums) > 1
    # A level is as wrong as the number of customers, and differs by the error of its unit.
    level = (blocks == 0) * several
    doubt = noise + np.outer(np.square(counted), level)
    units = np.outer(np.square(sizes.typical_error), level)
    own = np.square(0.3 * spectrum) * several  # (t p)^2
    for _ in range(_ROUNDS):
        centre, _ = _centre(seen, doubt + units + own, spectrum, blocks)
        own = _prior(seen - centre, doubt + units, spectrum, blocks) * several
    centre, centre_error = _centre(seen, doubt + units + own, spectrum, blocks)
    apart = seen - centre
    prior = np.maximum(units + own, (np.square(apart) - _CLEAR * doubt) * several)
    gain = prior / (prior + doubt)
    mean = centre + gain * apart
    variance = np.square(gain) * noise + np.square(1.0 - gain) * (units + own + centre_error)
    scale = (sizes.typical * sizes.correction)[:, None]
    kept = gain[:, 0] if several else np.ones(len(sums))
    put_back = mean[:, 0] * sizes.typical * (sizes.correction - 1.0)
    return GroupMeans(
        mean=mean * scale,
        variance=variance * np.square(_BAND * scale),
        counted=_BAND * kept * counted,
        uncounted=_BAND * (1.0 - kept) * counted,
        missed=_BAND * sizes.correction_error,
        hidden=np.maximum(sizes.most_clipped - put_back, 0.0),
    )


def expected_means(
    noise_std: float,
    *,
    sizes: GroupSizes,
    calendar: Calendar,
) -> GroupMeans:
    """Return what `filter_means` is expected to find, and with what error.

    The release is walked through with curves of the expected spectrum and deviations as large as
    what groups and noise make of them, of alternating sign.
    """
    unit = _unit(sizes, calendar)
    signs = 1.0 - 2.0 * (np.indices(unit.shape).sum(axis=0) % 2)
    curve = _EXPECTED * calendar.expected
    curve[0] = 1.0 / np.sqrt(1.0 + np.square(curve[1:] / calendar.colour[1:]).sum())
    apart = signs * np.hypot(_EXPECTED_APART * calendar.expected, noise_std * unit)
    found = filter_means((curve + apart) / unit, noise_std, sizes=sizes, calendar=calendar)
    return replace(
        found,
        mean=curve * (sizes.typical * sizes.correction)[:, None],
        variance=found.variance / _BAND**2,
        counted=found.counted / _BAND,
        uncounted=found.uncounted / _BAND,
        missed=_EXPECTED_MISSED * found.missed / _BAND,
    )


def _unit(sizes: GroupSizes, calendar: Calendar) -> Floats:
    """Return what turns a sum in radii and colour into a mean in typical sizes."""
    unit: Floats = (sizes.radii / (sizes.typical * sizes.customers))[:, None] * calendar.colour
    return unit


def _centre(
    seen: Floats, variance: Floats, spectrum: Floats, blocks: Counts
) -> tuple[Floats, Floats]:
    """Return the filtered mean of all groups and its variance."""
    weights = 1.0 / variance
    error = 1.0 / weights.sum(axis=0)
    pooled = (seen * weights).sum(axis=0) * error
    prior = _prior(pooled[None], error[None], spectrum, blocks)
    level = blocks == 0
    prior[level] = _LEVEL[1] ** 2
    away = pooled - _LEVEL[0] * level
    prior = np.maximum(prior, np.square(away) - _CLEAR * error)
    gain = prior / (prior + error)
    return pooled - (1.0 - gain) * away, gain * error


def _prior(seen: Floats, noise: Floats, spectrum: Floats, blocks: Counts) -> Floats:
    """Return the prior variance of each coordinate: amplitude^2 p^2, one amplitude a block.

    The amplitude's square is its posterior mean on a grid, under a wide log-normal prior.
    """
    middle, width = _AMPLITUDE_PRIOR
    prior = np.empty(spectrum.size)
    for block in range(int(blocks.max()) + 1):
        inside = blocks == block
        power = np.square(spectrum[inside])
        variance = noise[:, inside] + np.square(_AMPLITUDES)[:, None, None] * power
        misfit = (np.log(variance) + np.square(seen[:, inside]) / variance).sum(axis=(1, 2))
        misfit += np.square((np.log(_AMPLITUDES) - middle) / width)
        likely = np.exp(-0.5 * (misfit - misfit.min()))
        prior[inside] = (likely @ np.square(_AMPLITUDES)) / likely.sum() * power
    return prior
