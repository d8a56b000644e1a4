"""The level of each day that all customers have in common, from noisy sums.

A cold week raises the energy of every home. The sum over customers of their daily energies relative
to their mean typical day, less 1, contains the seasons: its means over the parts of the year
correct the typical days (`split_levels`). What is left, relative to these means, has noise of known
variance v. The level is a stationary process with a part that lasts and a part that does not::

    Cov(c_t, c_u) = a phi^|t - u| + w 1{t = u}

a, phi and w are those of the largest likelihood of the noisy levels (in Fourier coordinates, where
days are almost independent: Whittle's approximation), with a public prior of a and w. What the
model contains is one draw from the distribution of the levels given the noisy ones. Their mean
would be smoother than the truth: the larger the noise, the less synthetic load would vary from day
to day.
"""

import datetime as dt
import math

import numpy as np

from wattveil.arrays import Floats, Ints
from wattveil.numerics.synthesis import synthesis_tuning

_LASTING = np.array([0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98])
_SIZES = np.exp(np.linspace(math.log(0.003), math.log(0.3), 31))
"""Values of phi, and of the square roots of a and w, that are compared."""
_EXPECTED, _EXPECTED_SPREAD = (0.06, 0.02), 0.7
"""Public prior: medians of the square roots of a and w, and standard deviation of their logs."""
MAX_LEVEL = 0.6
_WEEKS_OF_YEAR = 364


def noisy_levels(sums: Floats, std: float, *, customers: float) -> Floats:
    """Return (2, n_days): the noisy level of each day, and its standard deviation around the level.

    ``sums`` are those of `day_features`, over their clip radius, with noise of standard deviation
    ``std``.
    """
    n = max(customers, 10.0)
    radius = synthesis_tuning.LEVEL_RADIUS * math.sqrt(sums.size)
    unit = synthesis_tuning.LEVEL_LOADING * radius / n
    # Besides the noise, customers' own days do not cancel.
    variance = np.square(unit * std) + np.square(synthesis_tuning.LEVEL_RADIUS) / n
    return np.array([unit * sums, np.full(sums.size, math.sqrt(variance))])


def split_levels(noisy: Floats, parts: Ints) -> tuple[Floats, Floats]:
    """Return noisy levels relative to the mean of their part of the year, and these means.

    The first, (2, n_days), are as `noisy_levels`; the means, (2, n_parts), with their standard
    deviations, are those of the parts over the mean of all parts, less 1.
    """
    counts = np.bincount(parts)
    found = np.bincount(parts, weights=noisy[0]) / counts
    means = limited(found - found.mean())
    within = (noisy[0] - found[parts]) / (1.0 + means[parts])
    return np.array([within, noisy[1]]), np.array([means, noisy[1, 0] / np.sqrt(counts)])


def read_levels(noisy: Floats, *, parts: Ints, fresh: Floats) -> Floats:
    """Return the level of each day: 0 on average over the days of each part of the year.

    ``noisy`` are `noisy_levels`; ``fresh`` are normal numbers, one for each day.
    """
    n_days, variance = parts.size, float(np.square(noisy[1, 0]))
    seen = np.fft.rfft(noisy[0], norm="ortho")
    spectrum = level_spectrum(noisy)
    kept = spectrum / (spectrum + variance)
    spare = np.fft.rfft(fresh, norm="ortho")
    levels = np.fft.irfft(kept * seen + np.sqrt(kept * variance) * spare, n_days, norm="ortho")
    levels = limited(levels)
    for part in np.unique(parts):
        levels[parts == part] -= levels[parts == part].mean()
    return levels


def limited(levels: Floats) -> Floats:
    """Return levels within their public bounds."""
    return np.clip(levels, -MAX_LEVEL, MAX_LEVEL)


def level_spectrum(noisy: Floats) -> Floats:
    """Return the variance of each Fourier coordinate of the levels behind noisy ones."""
    seen = np.square(np.abs(np.fft.rfft(noisy[0], norm="ortho")))
    return _spectrum(seen, float(np.square(noisy[1, 0])), noisy.shape[1])


def _spectrum(seen: Floats, variance: float, n_days: int) -> Floats:
    """Return the variance of each Fourier coordinate of the levels."""
    waves = np.cos(2.0 * math.pi * np.arange(seen.size) / n_days)
    # sum_k phi^|k| cos(k w) = (1 - phi^2) / (1 - 2 phi cos w + phi^2)
    lasting = (1.0 - _LASTING**2)[:, None] / (
        1.0 - 2.0 * _LASTING[:, None] * waves + _LASTING[:, None] ** 2
    )
    best, found = math.inf, np.zeros(seen.size)
    for curve in lasting:
        for size in _SIZES:
            spectra = size**2 * curve + np.square(_SIZES)[:, None]
            total = spectra + variance
            misfit = (np.log(total) + seen / total)[:, 1:].sum(axis=1)
            for sizes, expected in ((size, _EXPECTED[0]), (_SIZES, _EXPECTED[1])):
                misfit = misfit + 0.5 * np.square(np.log(sizes / expected) / _EXPECTED_SPREAD)
            at = int(misfit.argmin())
            if misfit[at] < best:
                best, found = float(misfit[at]), spectra[at]
    return found


def levels_of(levels: Floats, own_first: dt.date, *, first_day: dt.date, n_days: int) -> Floats:
    """Return the levels of a calendar: of the same day, or of one whole years of weeks away.

    A day for which no such day is among the data has level 0.
    """
    places = (first_day - own_first).days + np.arange(n_days)
    places = np.where(
        (places >= 0) & (places < levels.size), places, np.mod(places, _WEEKS_OF_YEAR)
    )
    inside = places < levels.size
    return np.where(inside, levels[np.minimum(places, levels.size - 1)], 0.0)
