"""From noisy sums by group to mean curves and duration curves with their error bands.

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
from scipy.ndimage import uniform_filter1d

from wattveil.clustering.calendar import Calendar, Counts
from wattveil.clustering.geometry import Floats
from wattveil.clustering.group_sizes import UNCORRECTED, GroupSizes

_CLEAR = 4.0
"""Squared standard deviations taken off before an unexpected coordinate is let through."""
_AMPLITUDES = np.exp(np.linspace(math.log(0.003), math.log(2.0), 27))
_AMPLITUDE_PRIOR = (math.log(0.2), 1.5)
_ROUNDS = 2
_EXPECTED, _EXPECTED_APART = 0.2, 0.07
"""Amplitude of a population's curve, and of a group's deviation from it, in a plan."""
_BAND = 1.2
"""What choosing radius, prior and correction by noisy numbers adds to the error, as a factor."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupMeans:
    """Mean curves in public coordinates, and the variance of their errors."""

    mean: Floats
    variance: Floats
    counted: Floats
    """(G,): relative error of the number of customers, which all slots share."""
    missed: Floats
    """(G,): relative error that the correction for clipping is expected to leave."""

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
    customers: tuple[Floats, Floats],
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
    customers : (G,), (G,)
        Customers of each group and the error of that number.
    """
    number, number_std = customers
    unit = _unit(number, sizes, calendar)
    seen, noise = sums * unit, np.square(noise_std * unit)
    spectrum, blocks = calendar.spectrum, calendar.blocks
    several = len(sums) > 1
    own = np.square(0.3 * spectrum) * several  # (t p)^2
    for _ in range(_ROUNDS):
        centre, centre_error = _centre(seen, noise + own, spectrum, blocks)
        own = _prior(seen - centre, noise, spectrum, blocks) * several
    centre, centre_error = _centre(seen, noise + own, spectrum, blocks)
    apart = seen - centre
    prior = np.maximum(own, (np.square(apart) - _CLEAR * noise) * several)
    gain = prior / (prior + noise)
    mean = centre + gain * apart
    variance = gain * noise + np.square(1.0 - gain) * centre_error
    scale = (sizes.typical * sizes.correction)[:, None]
    return GroupMeans(
        mean=mean * scale,
        variance=variance * np.square(_BAND * scale),
        counted=_BAND * number_std / number,
        missed=_BAND * UNCORRECTED * (1.0 - 1.0 / sizes.correction),
    )


def expected_means(
    noise_std: float,
    *,
    customers: tuple[Floats, Floats],
    sizes: GroupSizes,
    calendar: Calendar,
) -> GroupMeans:
    """Return what `filter_means` is expected to find, and with what error.

    The release is walked through with curves of the expected spectrum and deviations as large as
    what groups and noise make of them, of alternating sign.
    """
    unit = _unit(customers[0], sizes, calendar)
    signs = 1.0 - 2.0 * (np.indices(unit.shape).sum(axis=0) % 2)
    curve = _EXPECTED * calendar.spectrum
    curve[0] = 1.0 / np.sqrt(1.0 + np.square(curve[1:] / calendar.colour[1:]).sum())
    apart = signs * np.hypot(_EXPECTED_APART * calendar.spectrum, noise_std * unit)
    found = filter_means(
        (curve + apart) / unit, noise_std, customers=customers, sizes=sizes, calendar=calendar
    )
    return replace(
        found,
        mean=curve * (sizes.typical * sizes.correction)[:, None],
        variance=found.variance / _BAND**2,
        counted=found.counted / _BAND,
        missed=found.missed / _BAND,
    )


def sort_curves(means: GroupMeans, calendar: Calendar) -> tuple[Floats, Floats]:
    """Return each group's curve in descending order and the error at each rank.

    The filtered curve is sorted, not the noisy one: noise would make the highest hours too high and
    the lowest too low. Coordinates of the expected square, ``sign(m) sqrt(m^2 + v)``, and isotonic
    regression of them along the filtered order were measured too: 0 to 20 % less accurate.

    Hours of nearly the same load change places, so the error at a rank is that of the average over
    the ranks around it, a fiftieth of all.
    """
    curves = calendar.weights
    load = means.mean @ curves
    order = np.argsort(-load, axis=1, kind="stable")
    load = np.take_along_axis(load, order, axis=1)
    width = max(1, load.shape[1] // 50)
    squares = np.square(means.missed[:, None] * load)  # customers times mean: no count in it
    for curve, variance in zip(curves, means.variance.T, strict=True):
        nearby = uniform_filter1d(curve[order], width, axis=1, mode="nearest")
        squares += variance[:, None] * np.square(nearby)
    return load, np.sqrt(squares)


def _unit(customers: Floats, sizes: GroupSizes, calendar: Calendar) -> Floats:
    """Return what turns a sum in radii and colour into a mean in typical sizes."""
    unit: Floats = (sizes.radii / (sizes.typical * customers))[:, None] * calendar.colour
    return unit


def _centre(
    seen: Floats, variance: Floats, spectrum: Floats, blocks: Counts
) -> tuple[Floats, Floats]:
    """Return the filtered mean of all groups and its variance."""
    weights = 1.0 / variance
    error = 1.0 / weights.sum(axis=0)
    pooled = (seen * weights).sum(axis=0) * error
    prior = _prior(pooled[None], error[None], spectrum, blocks)
    prior[blocks == 0] = 1.0  # the level is not shrunk: it is of the size's own order
    prior = np.maximum(prior, np.square(pooled) - _CLEAR * error)
    gain = prior / (prior + error)
    return gain * pooled, gain * error


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
