"""Mean load curves of groups with error bands, and duration curves, from noisy sums.

Post-processing of released numbers of known noise, and of public numbers.

The mean of a group in coordinate j, in units of its typical size, is observed as
``m = c + D + noise``: c is the pooled curve of all groups, of prior variance (b p_j)^2, and D the
deviation of the group, of variance (t p_j)^2, with p the public spectrum. b and t are estimated for
each block of coordinates by the likelihood of the released sums, so groups that do not differ are
averaged and groups that do are kept apart; then both are filtered::

    c = v / (v + n^2) m        v = max((b p)^2, m^2 - 4 n^2)

The second term keeps a coordinate that is clearly above the noise although the prior did not
expect it.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import uniform_filter1d

from wattveil.arrays import Floats, Ints
from wattveil.numerics.groups.group_sizes import GroupSizes
from wattveil.numerics.load_basis import Calendar

_CLEAR = 4.0
"""Squared standard deviations subtracted before an unexpected coordinate is kept."""
_AMPLITUDES = np.exp(np.linspace(math.log(0.003), math.log(2.0), 27))
_AMPLITUDE_PRIOR = (math.log(0.2), 1.5)
_LEVEL = (0.8, 0.3)
"""Mean load over mean size, as it is expected, and the standard deviation around it."""
_ROUNDS = 2
_EXPECTED, _EXPECTED_APART, _EXPECTED_MISSED = 0.2, 0.04, 0.5
"""In a plan: amplitude of a population's curve, of a group's deviation from it, and the share of
the stated error of the correction for clipping."""
_BAND = 1.05
"""Factor of the error due to choosing radius, prior and correction from noisy numbers."""
_MISSED_BY_ONE, _MISSED = 0.5, 0.7
"""Share of the stated error of the correction in the band of a single group, whose sizes are fitted
to the counts of all customers, and of several."""
_UNLIKE, _ONE_MORE = 0.7, 0.8
"""The load that clipping removes has another curve than the rest: in coordinate j the standard
deviation of the difference is p_j times the first constant times the load put back, and the second
times what one customer at the radius adds to the mean. The second counts at a large budget, where
noise is small and a few customers beyond the fitted sizes are not.

These constants were chosen on the tuning families of benchmarks/families.py, epsilon 0.3 to 10, one
group and four: docs/load-shapes.md has the coverage on held-out ones."""


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
    max_clipping_bias: Floats
    """(G,): maximum bias of the mean of all slots by clipping of very large customers, in kW."""

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
    noise_std
        Standard deviation of the noise of each.
    """
    counted = sizes.customers_std / sizes.customers
    unit = _unit(sizes, calendar)
    seen, noise = sums * unit, np.square(noise_std * unit)
    spectrum, blocks = calendar.spectrum, calendar.blocks
    several = len(sums) > 1
    # A level is as wrong as the number of customers, and differs by the error of its unit.
    level = (blocks == 0) * several
    error = noise + np.outer(np.square(counted), level)
    units = np.outer(np.square(sizes.typical_error), level)
    own = np.square(0.3 * spectrum) * several  # (t p)^2
    for _ in range(_ROUNDS):
        centre, _ = _centre(seen, error + units + own, spectrum, blocks)
        own = _prior(seen - centre, error + units, spectrum, blocks) * several
    centre, centre_error = _centre(seen, error + units + own, spectrum, blocks)
    apart = seen - centre
    prior = np.maximum(units + own, (np.square(apart) - _CLEAR * error) * several)
    gain = prior / (prior + error)
    mean = centre + gain * apart
    variance = np.square(gain) * noise + np.square(1.0 - gain) * (units + own + centre_error)
    scale = (sizes.typical * sizes.correction)[:, None]
    kept = gain[:, 0] if several else np.ones(len(sums))
    missed = sizes.correction_error * (_MISSED if several else _MISSED_BY_ONE)
    put_back = mean[:, 0] * sizes.typical * (sizes.correction - 1.0)
    return GroupMeans(
        mean=mean * scale,
        variance=variance * np.square(_BAND * scale) + _unlike_variance(put_back, sizes, calendar),
        counted=_BAND * kept * counted,
        uncounted=_BAND * (1.0 - kept) * counted,
        missed=_BAND * missed,
        max_clipping_bias=np.maximum(sizes.max_clipping_bias - put_back, 0.0),
    )


def expected_means(
    noise_std: float,
    *,
    sizes: GroupSizes,
    calendar: Calendar,
) -> GroupMeans:
    """Return the expected result of `filter_means` and its error.

    The release is simulated with curves of the expected spectrum and deviations as large as
    what groups and noise make of them, of alternating sign. Large customers are expected to have
    the curve of the others.
    """
    unit = _unit(sizes, calendar)
    signs = 1.0 - 2.0 * (np.indices(unit.shape).sum(axis=0) % 2)
    curve = _EXPECTED * calendar.expected
    curve[0] = 1.0 / np.sqrt(1.0 + np.square(curve[1:] / calendar.colour[1:]).sum())
    apart = signs * np.hypot(_EXPECTED_APART * calendar.expected, noise_std * unit)
    found = filter_means((curve + apart) / unit, noise_std, sizes=sizes, calendar=calendar)
    put_back = found.mean[:, 0] * (1.0 - 1.0 / sizes.correction)
    unlike = _unlike_variance(put_back, sizes, calendar)
    return replace(
        found,
        mean=curve * (sizes.typical * sizes.correction)[:, None],
        variance=(found.variance - unlike) / _BAND**2,
        counted=found.counted / _BAND,
        uncounted=found.uncounted / _BAND,
        missed=_EXPECTED_MISSED * sizes.correction_error,
    )


def _unit(sizes: GroupSizes, calendar: Calendar) -> Floats:
    """Return the factor from a sum in radii and colour to a mean in typical sizes."""
    unit: Floats = (sizes.radii / (sizes.typical * sizes.customers))[:, None] * calendar.colour
    return unit


def _unlike_variance(put_back: Floats, sizes: GroupSizes, calendar: Calendar) -> Floats:
    """Return the variance of each coordinate by clipped customers of another curve, in kW^2."""
    unlike = np.hypot(_UNLIKE * put_back, _ONE_MORE * sizes.radii / sizes.customers)
    found: Floats = np.square(np.outer(unlike, calendar.expected * (calendar.blocks > 0)))
    return found


def _centre(
    seen: Floats, variance: Floats, spectrum: Floats, blocks: Ints
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


def _prior(seen: Floats, noise: Floats, spectrum: Floats, blocks: Ints) -> Floats:
    """Return the prior variance of each coordinate: amplitude^2 p^2, one amplitude per block.

    The amplitude's square is its posterior mean on a grid, under a wide log-normal prior.
    """
    log_mean, log_std = _AMPLITUDE_PRIOR
    prior = np.empty(spectrum.size)
    for block in range(int(blocks.max()) + 1):
        inside = blocks == block
        power = np.square(spectrum[inside])
        variance = noise[:, inside] + np.square(_AMPLITUDES)[:, None, None] * power
        misfit = (np.log(variance) + np.square(seen[:, inside]) / variance).sum(axis=(1, 2))
        misfit += np.square((np.log(_AMPLITUDES) - log_mean) / log_std)
        likely = np.exp(-0.5 * (misfit - misfit.min()))
        prior[inside] = (likely @ np.square(_AMPLITUDES)) / likely.sum() * power
    return prior


_EXPORTS = 0.05
"""A mean day that falls below this share of its mean may go below 0 on other days."""


def sort_curves(means: GroupMeans, calendar: Calendar) -> tuple[Floats, Floats]:
    """Return each group's curve in descending order and the error at each rank.

    The filtered curve is sorted, not the noisy one: noise would make the highest hours too high and
    the lowest too low. Coordinates of the expected square, ``sign(m) sqrt(m^2 + v)``, and isotonic
    regression of them along the filtered order were measured too: 0 to 20 % less accurate.

    Hours of nearly the same load change places, so the error at a rank is that of the average over
    the ranks around it, a fiftieth of all.
    """
    curves = calendar.weights
    filtered = means.mean @ curves
    days = (len(filtered), calendar.n_days, calendar.n_slots)
    variance = (means.variance @ np.square(curves)).reshape(days).mean(axis=1)
    groups = zip(filtered.reshape(days), variance, strict=True)
    load = np.array([_settle(*group).ravel() for group in groups])
    order = np.argsort(-load, axis=1, kind="stable")
    moved = np.take_along_axis(load - filtered, order, axis=1)
    load = np.take_along_axis(load, order, axis=1)
    width = max(1, load.shape[1] // 50)
    squares = np.square(np.hypot(means.missed, means.uncounted)[:, None] * load)
    squares += uniform_filter1d(np.square(moved), width, axis=1, mode="nearest")
    for curve, own in zip(curves, means.variance.T, strict=True):
        nearby = uniform_filter1d(curve[order], width, axis=1, mode="nearest")
        squares += own[:, None] * np.square(nearby)
    return load, np.sqrt(squares)


def _settle(days: Floats, variance: Floats) -> Floats:
    """Return days (D, H) whose lowest slots are not lower than noise of that variance explains.

    The filter takes deviations from the mean day m to be as large at night as in the evening. Load
    deviates in proportion: a slot that deviates by more, S^2 > a^2 m^2, is drawn together by as
    much of it as noise explains. What is left below the mean is bent, so that no slot falls below
    0: m (1 + u) becomes m exp(u), by no more than the error again. Slot means stay.

    A group that exports on a mean day is left as it is.
    """
    mean = days.mean(axis=0)
    if mean.min() <= _EXPORTS * mean.mean():
        return days
    away = days - mean
    spread = np.square(away).mean(axis=0)  # S^2
    if not spread.any():
        return days
    in_proportion = spread.sum() / np.square(mean).sum() * np.square(mean)  # a^2 m^2
    kept = np.maximum(in_proportion, spread - variance) / np.maximum(spread, in_proportion)
    drawn = mean + np.sqrt(np.minimum(kept, 1.0)) * away
    below = np.minimum(drawn / mean - 1.0, 0.0)
    bent = np.where(below < 0.0, np.exp(below), drawn / mean)
    change = mean * bent / bent.mean(axis=0) - drawn
    explained = np.sqrt(variance / np.maximum(np.square(change).mean(axis=0), variance))
    settled: Floats = drawn + explained * change
    return settled
