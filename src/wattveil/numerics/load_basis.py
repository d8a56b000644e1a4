"""Public prior knowledge of load curves: smooth bases of one or more days, and daily shapes.

Nothing in this module is learnt from data. A good prior makes the release more accurate, a bad one
less; the guarantee does not depend on it.

`public_basis` has orthonormal curves of one day, `shape_library` typical daily shapes. `Calendar`
extends the basis to rows of D days of H slots: a coordinate is the product of a curve over the days
(cosines) and a curve over the slots of a day. Load is smooth in both, so a few hundred of the 8,760
coordinates of a year contain almost all of the curve of a population, and the noise of the others
is avoided. The order of the coordinates, and the division of the noise among them, is public; the
two power laws were read off summary figures of one year of open data and of simulated meters.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import dct
from scipy.special import ndtri

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.errors import InvalidParameterError

HOURS = 24.0
"""A row is one day, cut into equal slots."""

_SMOOTHNESS = 0.7
"""Length scale of the periodic part, in radians of the day: about 2.7 hours."""
_MIDNIGHT = (0.3, 2.0)
"""Variance and length scale in hours of the part that may jump at midnight."""


def public_basis(n_slots: int) -> Floats:
    """Return orthonormal curves as rows, from smooth to rough.

    They are the eigenvectors of the prior covariance of a daily curve: level, plus a smooth
    periodic part, plus a smooth part that need not join at midnight::

        k(h, h') = 1 + exp(-2 sin^2(pi (h - h') / 24) / 0.7^2) + 0.3 exp(-(h - h')^2 / (2 2^2))
    """
    hours = np.arange(n_slots) * HOURS / n_slots
    apart = np.abs(hours[:, None] - hours[None])
    periodic = np.exp(-2.0 * np.sin(np.pi * apart / HOURS) ** 2 / _SMOOTHNESS**2)
    variance, scale = _MIDNIGHT
    _, vectors = np.linalg.eigh(1.0 + periodic + variance * np.exp(-0.5 * (apart / scale) ** 2))
    # eigh leaves the signs open. Curves have peaks of equal height and opposite sign, so the first
    # entry that is not small decides.
    vectors = vectors[:, ::-1].T
    sizes = np.abs(vectors)
    first = (sizes > 0.5 * sizes.max(axis=1, keepdims=True)).argmax(axis=1)
    return np.ascontiguousarray(
        vectors * np.sign(vectors[np.arange(n_slots), first])[:, None], dtype=np.float64
    )


def harmonics(n_coordinates: int) -> Floats:
    """Return the harmonic of each basis curve: level 0, then 1, 1, 2, 2 and so on."""
    return np.ceil(np.arange(n_coordinates) / 2.0)


def shape_library(n_slots: int, count: int) -> Floats:
    """Return ``count`` public daily shapes as rows of unit norm, the most common first.

    The first 28 are described shapes; the others are smooth positive curves of low discrepancy.
    """
    hours = np.arange(n_slots) * HOURS / n_slots
    described = _described_shapes(hours)[:count]
    further = count - len(described)
    shapes = described
    if further > 0:
        apart = np.abs(hours[:, None] - hours[None])
        covariance = np.exp(-2.0 * np.sin(np.pi * apart / HOURS) ** 2 / 0.8**2)
        factor = np.linalg.cholesky(covariance + 1e-6 * np.eye(n_slots))
        curves = ndtri(_low_discrepancy_points(n_slots, further))
        shapes = np.vstack([described, np.log1p(np.exp(1.5 * (factor @ curves).T))])
    unit: Floats = shapes / np.linalg.norm(shapes, axis=1, keepdims=True)
    return unit


def checked_library(library: ArrayLike | None, n_slots: int) -> Floats:
    """Return the given public shapes at unit norm; none if None."""
    if library is None:
        return np.empty((0, n_slots))
    shapes = checks.numbers("public_library", library)
    fits = shapes.ndim == 2 and shapes.shape[0] > 0 and shapes.shape[1] == n_slots
    if not fits or not np.isfinite(shapes).all() or not shapes.any(axis=1).all():
        rule = f"a matrix of {n_slots} columns, finite, without a row of zeros"
        raise InvalidParameterError("public_library", rule, shapes.shape)
    shapes = shapes / np.abs(shapes).max(axis=1, keepdims=True)  # no length under- or overflows
    unit: Floats = shapes / np.linalg.norm(shapes, axis=1, keepdims=True)
    return unit


def _low_discrepancy_points(n_dimensions: int, count: int) -> Floats:
    """Return points of the unit cube as columns: multiples, modulo 1, of the roots of primes."""
    candidates = np.arange(2, 20 * (n_dimensions + 4))
    primes = [p for p in candidates if all(p % q for q in range(2, int(p**0.5) + 1))]
    steps = np.sqrt(np.array(primes[:n_dimensions], dtype=np.float64))
    return np.modf(steps[:, None] * np.arange(1, count + 1))[0]


def _described_shapes(hours: Floats) -> Floats:
    """Return 28 shapes put together from humps at public hours of the day."""

    def hump(hour: float, width: float) -> Floats:
        apart = np.abs(hours - hour)
        return np.exp(-0.5 * (np.minimum(apart, HOURS - apart) / width) ** 2)

    return np.array(
        [
            # flat; evening peak; business day; morning and evening
            np.ones_like(hours),
            0.4 + hump(19.5, 3.0),
            0.4 + hump(13.0, 3.5),
            0.4 + 0.7 * hump(7.0, 2.0) + hump(19.0, 2.5),
            # panels on the roof; night heating; one wide hump elsewhere; night and evening
            0.5 + hump(20.0, 2.5) - 1.2 * hump(13.0, 3.0),
            0.4 + hump(2.5, 3.0),
            0.4 + hump(7.5, 3.0),
            0.4 + hump(10.5, 3.0),
            0.4 + hump(16.5, 3.0),
            0.4 + hump(22.5, 3.0),
            0.4 + hump(4.5, 3.0),
            0.4 + hump(3.0, 3.0) + 0.5 * hump(20.0, 2.5),
            # strong panels; two humps; narrow humps on little else
            0.2 + hump(20.0, 1.8) - 2.5 * hump(13.0, 3.0),
            0.6 + hump(8.0, 2.0) + hump(13.0, 2.0),
            0.6 + hump(11.0, 2.0) + hump(18.0, 2.0),
            0.6 + hump(1.0, 2.0) + hump(13.0, 2.5),
            0.6 + hump(4.0, 2.0) + hump(17.0, 2.0),
            0.1 + hump(19.5, 1.6),
            0.1 + hump(13.0, 2.5),
            0.1 + hump(1.5, 2.0),
            0.1 + hump(7.5, 1.8),
            0.1 + hump(10.5, 2.0),
            0.1 + hump(16.5, 2.0),
            0.1 + hump(22.5, 2.0),
            # a dip at noon, in the night, in the evening; early and late
            1.0 - 0.7 * hump(13.0, 4.0),
            1.0 - 0.7 * hump(3.0, 4.0),
            1.0 - 0.7 * hump(20.0, 3.0),
            0.5 + hump(7.0, 2.0) + hump(22.0, 2.0),
        ]
    )


_SEASONAL = (0.2, 0.5)
"""Amplitude of day curve i >= 1 beside the yearly mean: 0.2 i^-0.5."""
_COLOUR = 0.75
"""Exponent of the noise colour (1 + harmonic)^-0.75 of a day; .5 costs 5 %, 1 costs 2 %."""
_WEEKLY = 2.5
"""Amplitude of the weekly pattern relative to that of neighbouring day curves."""
_WEEK = 7.0
_FEWEST_COORDINATES = 96


@dataclass(frozen=True, kw_only=True, eq=False)
class Calendar:
    """Public coordinates of rows of ``n_days`` days of ``n_slots`` slots: the first of a basis."""

    n_days: int
    n_slots: int
    n_coordinates: int

    @cached_property
    def day_curves(self) -> Floats:
        """(D, D): orthonormal cosines over the days, slow first."""
        curves: Floats = dct(np.eye(self.n_days), axis=0, norm="ortho")
        return np.ascontiguousarray(curves)

    @cached_property
    def slot_curves(self) -> Floats:
        """(H, H): the public basis of a day."""
        return public_basis(self.n_slots)

    @cached_property
    def places(self) -> Ints:
        """(r, 2): day curve and slot curve of each coordinate, the likeliest to matter first."""
        expected = self._seasonal[:, None] * self._daily[None]
        first = np.argsort(-expected, axis=None, kind="stable")[: self.n_coordinates]
        return np.stack(np.unravel_index(first, expected.shape), axis=1).astype(np.int64)

    @cached_property
    def colour(self) -> Floats:
        """(r,): the public scale a_j of the noise of each coordinate, 1 for the mean."""
        return self._seasonal[self.places[:, 0]] ** 0.5 * self._daily[self.places[:, 1]] ** _COLOUR

    @cached_property
    def spectrum(self) -> Floats:
        """(r,): the expected size of each coordinate of a population's curve, within its block."""
        return self._daily[self.places[:, 1]]

    @property
    def expected(self) -> Floats:
        """(r,): the same for a plan, which cannot learn the amplitude of each block."""
        return self._seasonal[self.places[:, 0]] * self.spectrum

    @cached_property
    def blocks(self) -> Ints:
        """(r,): coordinates of one block are equally rough; block 0 is the mean of all slots."""
        day, slot = self.places.T
        octave = np.where(day > 0, 1 + np.log2(np.maximum(day, 1)).astype(np.int64), 0)
        octave = np.where(self._is_weekly[day], 40, octave)
        band = np.minimum((harmonics(self.n_slots)[slot] + 1) // 2, 2).astype(np.int64)
        band = np.where(day == 0, np.minimum(slot, 1), band)  # a mean day is one block
        return np.unique(3 * octave + band, return_inverse=True)[1].astype(np.int64)

    @cached_property
    def weights(self) -> Floats:
        """(r, D H): each coordinate's curve, in kW for a coordinate of 1 kW."""
        day, slot = self.places.T
        curves = self.day_curves[day][:, :, None] * self.slot_curves[slot][:, None, :]
        flat: Floats = curves.reshape(day.size, -1) * self._root
        return flat

    @property
    def curves(self) -> tuple[Floats, Floats, Ints, Floats]:
        """Curves, places and scales that transform load to weighted coordinates z / a."""
        scale = 1.0 / (self._root * self.colour)
        return self.day_curves, self.slot_curves, self.places, scale

    @property
    def _root(self) -> float:
        return math.sqrt(self.n_days * self.n_slots)

    @property
    def _is_weekly(self) -> NDArray[np.bool_]:
        """Day curves near one, two or three waves per week: cosine i has i / 2 waves in D days."""
        waves = np.arange(self.n_days) * _WEEK / (2.0 * self.n_days)
        near = 1.1 * _WEEK / (2.0 * self.n_days)
        weekly: NDArray[np.bool_] = (np.abs(waves - np.round(waves)) <= near) & (waves > 0.5)
        return weekly

    @property
    def _seasonal(self) -> Floats:
        day = np.arange(self.n_days)
        height, decay = _SEASONAL
        amplitude = np.where(day > 0, height * np.maximum(day, 1.0) ** -decay, 1.0)
        return np.where(self._is_weekly, _WEEKLY * amplitude, amplitude)

    @property
    def _daily(self) -> Floats:
        return 1.0 / (1.0 + harmonics(self.n_slots))


def public_calendar(columns: int, *, n_days: int, signal: float) -> Calendar:
    """Return the coordinates to query: of one day all, of several days as many as n mu."""
    n_coordinates = int(min(max(signal, _FEWEST_COORDINATES), columns))
    return Calendar(n_days=n_days, n_slots=columns // n_days, n_coordinates=n_coordinates)


def row_basis(columns: int, n_days: int) -> Floats:
    """Return orthonormal curves over rows of ``n_days`` days, by descending expected size."""
    if n_days == 1:
        return public_basis(columns)
    calendar = Calendar(n_days=n_days, n_slots=columns // n_days, n_coordinates=columns)
    return calendar.weights / math.sqrt(columns)


def tiled_library(columns: int, n_days: int, count: int) -> Floats:
    """Return ``count`` public shapes, the same on every day of the row; rows of length 1."""
    return np.tile(shape_library(columns // n_days, count), n_days) / math.sqrt(n_days)


def whole_days(columns: int, slots_per_day: int) -> int:
    """Return the number of days of ``columns`` slots; reject a part of a day."""
    n_days = columns // checks.integer("slots_per_day", slots_per_day, minimum=1)
    if n_days * slots_per_day != columns:
        rule = "a divisor of the number of columns"
        raise InvalidParameterError("slots_per_day", rule, slots_per_day)
    return n_days
