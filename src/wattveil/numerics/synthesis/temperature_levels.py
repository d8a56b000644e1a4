"""Levels of days under other temperatures: the response of released levels to public weather.

The noisy level of each day is regressed on degrees of daily mean temperatures below and above
public base temperatures. A degree adds the same load in every part of the year, so that the level
of a day of part p, which is relative to the typical days of that part, is::

    c_t = sum_k b_k (d_kt - mean of d_k over the days of p) / m_p + r_t

d_1 = max(15.5 - T_t, 0), d_2 the same of the day before, because buildings store heat, and
d_3 = max(T_t - 22, 0); m_p is the typical load of part p over that of the year. r_t is what
temperature does not explain: two waves of the year, for daylight, and a process like that of levels
(`day_levels`). b is estimated by generalised least squares, with one constant per part, and with a
public prior of b, normal around 0: what the noise hides is shrunk to 0. All of this is
post-processing of released numbers.
"""

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.synthesis.day_deviations import YearCalendar
from wattveil.numerics.synthesis.day_levels import (
    MAX_LEVEL,
    level_spectrum,
    levels_of,
    limited,
    read_levels,
)

HEATING_BASE_C, COOLING_BASE_C = 15.5, 22.0
"""Public base temperatures of heating and cooling degrees: daily means."""
_EXPECTED, _EXPECTED_WAVE = 0.05, 0.3
"""Standard deviations of the public priors: of b, 5 % of the mean load per degree; of waves."""
_ROUNDS = 5
"""Of estimating b, then the spectrum of r."""
_DAYS_OF_YEAR, _WAVES = 365.25, 2
_MOST_NAMED = 3
_Z95 = 1.96


@dataclass(frozen=True, kw_only=True, eq=False)
class TemperatureResponse:
    """Response of the common level to temperature, with its covariance."""

    slopes: Floats
    """(3,): b, as shares of the mean load of a year per degree."""
    covariance: Floats
    """(3, 3): of the slopes, given the noisy levels."""
    usual: Floats
    """(3, parts): mean degrees over the days of the data in each part of the year."""
    sizes: Floats
    """(parts,): typical load of each part over that of the year."""
    rest: Floats
    """(n_days,): levels of the days of the data that temperature does not explain."""

    @property
    def heating(self) -> tuple[float, float]:
        """Load added by a degree below `HEATING_BASE_C` that lasts, and its standard error."""
        return self._sum(np.array([1.0, 1.0, 0.0]))

    @property
    def cooling(self) -> tuple[float, float]:
        """Load added by a degree above `COOLING_BASE_C`, and its standard error."""
        return self._sum(np.array([0.0, 0.0, 1.0]))

    @property
    def statement(self) -> str:
        """The response in words, with 95 % bands."""
        texts = []
        for (mean, error), side, base in (
            (self.heating, "below", HEATING_BASE_C),
            (self.cooling, "above", COOLING_BASE_C),
        ):
            low, high = (100.0 * (mean + sign * _Z95 * error) for sign in (-1.0, 1.0))
            band = f"{100.0 * mean:+.1f} % ({low:+.1f} to {high:+.1f})"
            texts.append(f"{band} of the mean load per °C {side} {base:g} °C")
        return "; ".join(texts)

    @property
    def warning(self) -> str:
        """Why the weather of a sample may have no effect; empty if one band excludes 0."""
        if any(abs(mean) > _Z95 * error for mean, error in (self.heating, self.cooling)):
            return ""
        return (
            "the 95 % band of the response to temperature contains 0, below and above the base"
            " temperatures: the release does not show that load depends on temperature, so the"
            " weather of the sample has little or no effect on it"
        )

    def to_json(self) -> dict[str, float]:
        """Return shares of the mean load per degree, and base temperatures, as JSON values."""
        (heating, heating_std), (cooling, cooling_std) = self.heating, self.cooling
        return {
            "heating_per_c": heating,
            "heating_std": heating_std,
            "heating_base_c": HEATING_BASE_C,
            "cooling_per_c": cooling,
            "cooling_std": cooling_std,
            "cooling_base_c": COOLING_BASE_C,
        }

    def levels(self, degrees_c: Floats, calendar: YearCalendar, *, own: YearCalendar) -> Floats:
        """Return the levels of a calendar with these daily mean temperatures.

        ``own`` is the calendar of the data, from whose days the unexplained levels are taken.
        """
        return limited(self._unlimited(degrees_c, calendar, own))

    def extrapolation(
        self,
        temperatures_c: Mapping[dt.date, float],
        calendar: YearCalendar,
        *,
        own: YearCalendar,
    ) -> "Extrapolation":
        """Return how far the weather of a calendar is outside that of the data, ``own``."""
        new, known = (known_temperatures(temperatures_c, one) for one in (calendar, own))
        levels = self._unlimited(new, calendar, own)
        return Extrapolation(
            days=calendar.n_days,
            colder=int((new < known.min()).sum()),
            warmer=int((new > known.max()).sum()),
            limited=int((np.abs(levels) > MAX_LEVEL).sum()),
            range_c=(float(known.min()), float(known.max())),
        )

    def _unlimited(self, degrees_c: Floats, calendar: YearCalendar, own: YearCalendar) -> Floats:
        """Return levels before they are limited to their public bounds."""
        away = degree_days(degrees_c) - self.usual[:, calendar.parts]
        rest = levels_of(
            self.rest, own.first_day, first_day=calendar.first_day, n_days=calendar.n_days
        )
        return np.asarray(self.slopes @ away / self.sizes[calendar.parts] + rest)

    def _sum(self, weights: Floats) -> tuple[float, float]:
        variance = weights @ self.covariance @ weights
        return float(weights @ self.slopes), math.sqrt(variance)


@dataclass(frozen=True, kw_only=True)
class Extrapolation:
    """Days of a sample whose weather is outside that of the data, or whose level is limited."""

    days: int
    colder: int
    """Days colder than any day of the data."""
    warmer: int
    limited: int
    """Days whose common level would be outside its public bounds."""
    range_c: tuple[float, float]
    """Lowest and highest daily mean temperature of the data."""

    @property
    def statement(self) -> str:
        """The numbers of days in words."""
        low, high = self.range_c
        return (
            f"of the {self.days:,} days of the sample, {self.colder:,} are colder and"
            f" {self.warmer:,} warmer than any day of the data ({low:g} to {high:g} °C); on"
            f" {self.limited:,} days the common level was capped at ±{100.0 * MAX_LEVEL:.0f} %"
        )

    @property
    def warning(self) -> str:
        """The statement with its consequence; empty if there is no such day."""
        if not self.colder + self.warmer + self.limited:
            return ""
        return f"{self.statement}. Load of these days is extrapolated, or cut off by the limit"

    def to_json(self) -> dict[str, object]:
        """Return the numbers of days as JSON values."""
        return {
            "days": self.days,
            "days_colder_than_data": self.colder,
            "days_warmer_than_data": self.warmer,
            "days_limited": self.limited,
            "data_range_c": list(self.range_c),
        }


def temperature_response(
    noisy: Floats, degrees_c: Floats, *, calendar: YearCalendar, sizes: Floats, fresh: Floats
) -> TemperatureResponse:
    """Return the response of noisy levels to the daily mean temperatures of the same days.

    ``noisy`` are `noisy_levels`; ``sizes`` the typical load of each part over that of the year;
    ``fresh`` normal numbers, one for each day.
    """
    parts, degrees = calendar.parts, degree_days(degrees_c)
    inside = (parts == np.arange(sizes.size)[:, None]).astype(np.float64)
    usual = degrees @ inside.T / inside.sum(axis=1)
    curves = (degrees - usual[:, parts]) / sizes[parts]
    others = np.vstack([inside, _waves(calendar)])
    n, every = len(curves), np.vstack([curves, others])
    deviations = np.concatenate(
        [np.full(n, _EXPECTED), np.full(len(inside), np.inf), np.full(2 * _WAVES, _EXPECTED_WAVE)]
    )
    prior = np.diag(np.square(1.0 / deviations))
    found, precision = np.zeros(len(every)), prior
    for _ in range(_ROUNDS):
        rest = np.array([noisy[0] - found @ every, noisy[1]])
        scale = np.sqrt(level_spectrum(rest) + np.square(noisy[1, 0]))
        white, seen = _whitened(every, scale), _whitened(noisy[0], scale)
        precision = white @ white.T + prior
        found = np.linalg.solve(precision, white @ seen)
    unexplained = noisy[0] - found[:n] @ curves
    return TemperatureResponse(
        slopes=found[:n],
        covariance=np.linalg.inv(precision)[:n, :n],
        usual=usual,
        sizes=sizes,
        rest=read_levels(np.array([unexplained, noisy[1]]), parts=parts, fresh=fresh),
    )


def degree_days(degrees_c: Floats) -> Floats:
    """Return (3, days): heating degrees, those of the day before, and cooling degrees."""
    heating = np.maximum(HEATING_BASE_C - degrees_c, 0.0)
    before = np.concatenate([heating[:1], heating[:-1]])
    return np.array([heating, before, np.maximum(degrees_c - COOLING_BASE_C, 0.0)])


def known_temperatures(temperatures_c: Mapping[dt.date, float], calendar: YearCalendar) -> Floats:
    """Return the temperature of each day of a calendar; refuse a series without one of them."""
    days = [calendar.first_day + dt.timedelta(days=day) for day in range(calendar.n_days)]
    missing = [day.isoformat() for day in days if day not in temperatures_c]
    if missing:
        named = ", ".join(missing[:_MOST_NAMED])
        if len(missing) > _MOST_NAMED:
            more = len(missing) - _MOST_NAMED
            named += f", … and {more} more day{'s' * (more > 1)}"
        span = f"for every day from {days[0]} to {days[-1]}"
        text = f"Temperatures are needed {span}; missing: {named}"
        raise InvalidParameterError("temperatures", "", named, text=text)
    return np.array([temperatures_c[day] for day in days])


def _waves(calendar: YearCalendar) -> Floats:
    """Return (waves, days): sines and cosines of the year."""
    first = calendar.first_day.timetuple().tm_yday
    turns = 2.0 * math.pi * (first + np.arange(calendar.n_days)) / _DAYS_OF_YEAR
    return np.array([wave((1 + k) * turns) for k in range(_WAVES) for wave in (np.cos, np.sin)])


def _whitened(values: Floats, scale: Floats) -> Floats:
    """Return series in coordinates in which noisy levels are independent, of variance 1."""
    seen = np.fft.rfft(values, norm="ortho") / scale
    return np.asarray(np.fft.irfft(seen, values.shape[-1], norm="ortho"))
