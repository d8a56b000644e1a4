"""Public coordinates of a load curve over one day or many: smooth first.

A row of D days of H slots is written in products of curves over the days of the year (cosines) and
curves over the day (`geometry.public_basis`). Load is smooth in both, so a few hundred of the 8,760
coordinates of a year hold almost all of a population's curve, and noise on the others need not be
paid for. Which coordinates come first, and how the noise is divided among them, is public; the two
power laws were read off summary figures of one year of open data and of simulated meters.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

from wattveil import checks
from wattveil.clustering.geometry import Floats, harmonics, public_basis, shape_library
from wattveil.errors import InvalidParameterError

Counts = NDArray[np.int64]

_SEASONAL = (0.2, 0.5)
"""Amplitude of day curve i >= 1 beside the yearly mean: 0.2 i^-0.5."""
_COLOUR = 0.75
"""Exponent of the noise colour (1 + harmonic)^-0.75 of a day; .5 costs 5 %, 1 costs 2 %."""
_WEEKLY = 2.5
"""A week's rhythm stands out by so much from the days around it."""
_WEEK = 7.0
_FEWEST_COORDINATES = 96


@dataclass(frozen=True, kw_only=True, eq=False)
class Calendar:
    """The first ``n_coordinates`` public coordinates of rows of so many days and slots a day."""

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
    def places(self) -> Counts:
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
    def blocks(self) -> Counts:
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
    def curves(self) -> tuple[Floats, Floats, Counts, Floats]:
        """What turns load into weighted coordinates z / a: curves, places and scales of them."""
        scale = 1.0 / (self._root * self.colour)
        return self.day_curves, self.slot_curves, self.places, scale

    @property
    def _root(self) -> float:
        return math.sqrt(self.n_days * self.n_slots)

    @property
    def _is_weekly(self) -> NDArray[np.bool_]:
        """Day curves near one, two or three waves a week: cosine i has i / 2 waves in D days."""
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
    """Return the coordinates worth asking for: of a day all, of more as many as n mu."""
    n_coordinates = int(min(max(signal, _FEWEST_COORDINATES), columns))
    return Calendar(n_days=n_days, n_slots=columns // n_days, n_coordinates=n_coordinates)


def row_basis(columns: int, n_days: int) -> Floats:
    """Return orthonormal curves over rows of so many days, the likeliest to matter first."""
    if n_days == 1:
        return public_basis(columns)
    calendar = Calendar(n_days=n_days, n_slots=columns // n_days, n_coordinates=columns)
    return calendar.weights / math.sqrt(columns)


def tiled_library(columns: int, n_days: int, count: int) -> Floats:
    """Return so many public shapes, the same on every day of the row; rows of length 1."""
    return np.tile(shape_library(columns // n_days, count), n_days) / math.sqrt(n_days)


def whole_days(columns: int, slots_per_day: int) -> int:
    """Return how many days so many columns are; refuse a part of a day."""
    n_days = columns // checks.integer("slots_per_day", slots_per_day, least=1)
    if n_days * slots_per_day != columns:
        rule = "a divisor of the number of columns"
        raise InvalidParameterError("slots_per_day", rule, slots_per_day)
    return n_days
