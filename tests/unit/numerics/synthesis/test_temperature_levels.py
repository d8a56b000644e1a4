"""Response of levels to temperature: estimated, with its error, and applied to other weather."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.numerics.synthesis.test_years import NEW_YEAR, SLOTS, calendar_of, year_model
from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.synthesis.day_levels import level_spectrum
from wattveil.numerics.synthesis.temperature_levels import (
    TemperatureResponse,
    known_temperatures,
    temperature_response,
)
from wattveil.profiles import Split

CALENDAR = calendar_of(365, Split.SEASON_WEEKDAY_WEEKEND)
PARTS = CALENDAR.parts
SIZES = np.array([1.3, 1.3, 1.0, 1.1, 0.7, 0.7, 0.95, 0.95])
SLOPES = np.array([0.02, 0.01, 0.03])
ERROR = 0.03


def weather(seed: int, *, mean_c: float = 12.0) -> Floats:
    """Return daily means of a year: cold in January, with spells of some days."""
    generator = np.random.default_rng(seed)
    spell = np.zeros(365)
    for day in range(1, 365):
        spell[day] = 0.8 * spell[day - 1] + 1.8 * generator.normal()
    year = np.cos(2.0 * np.pi * (np.arange(365) - 20) / 365.0)
    return np.asarray(mean_c - 9.0 * year + spell)


def degrees(temperature_c: Floats) -> Floats:
    """Return the three regressors, in plain loops."""
    rows = []
    for day, today in enumerate(temperature_c):
        before = temperature_c[max(day - 1, 0)]
        rows.append([max(15.5 - today, 0.0), max(15.5 - before, 0.0), max(today - 22.0, 0.0)])
    return np.array(rows).T


def noisy_of(temperature_c: Floats, seed: int) -> Floats:
    """Return noisy levels with the planted response, a rest that lasts, and noise."""
    generator = np.random.default_rng(seed)
    found, levels = degrees(temperature_c), np.zeros(365)
    for day in range(1, 365):
        levels[day] = 0.9 * levels[day - 1] + 0.01 * generator.normal()
    for part in range(8):
        own = part == PARTS
        away = found[:, own] - found[:, own].mean(axis=1, keepdims=True)
        levels[own] += SLOPES @ away / SIZES[part]
    return np.array([levels + ERROR * generator.normal(size=365), np.full(365, ERROR)])


def response_of(noisy: Floats, temperature_c: Floats) -> TemperatureResponse:
    """Return the response of a year."""
    return temperature_response(
        noisy,
        temperature_c,
        calendar=CALENDAR,
        sizes=SIZES,
        fresh=np.random.default_rng(0).normal(size=365),
    )


def squared_scores(*, years: int, late: int = 0) -> float:
    """Return the mean square of errors over standard errors, of heating and cooling."""
    scores = []
    for seed in range(years):
        temperature_c = weather(seed)
        found = response_of(noisy_of(temperature_c, 100 + seed), np.roll(temperature_c, late))
        for (mean, error), planted in ((found.heating, 0.03), (found.cooling, 0.03)):
            scores.append((mean - planted) / error)
    return float(np.mean(np.square(scores)))


def test_the_planted_response_is_found_with_its_error() -> None:
    """The mean of 48 squared scores is 1, with standard deviation 0.2; not so two days late."""
    assert 0.5 < squared_scores(years=24) < 1.6
    assert squared_scores(years=4, late=2) > 1.6
    found = response_of(noisy_of(weather(1), 5), weather(1))
    assert found.heating[0] == pytest.approx(0.03, abs=4.0 * found.heating[1])
    assert found.heating[1] < 0.003
    assert not found.warning
    other = response_of(noisy_of(weather(1), 5), weather(2))  # of another year: hardly any
    assert abs(other.heating[0]) < 0.015


def test_a_response_that_noise_hides_is_flagged() -> None:
    """Levels without any response: both bands contain 0, and the warning says so."""
    noisy = np.array([0.05 * np.random.default_rng(9).normal(size=365), np.full(365, 0.05)])
    found = response_of(noisy, weather(1))
    assert all(abs(mean) < 1.96 * error for mean, error in (found.heating, found.cooling))
    assert "contains 0" in found.warning


def test_the_estimate_solves_the_normal_equations() -> None:
    """Weighted by the inverse of a covariance that is written out, slopes and errors agree."""
    temperature_c = weather(3)
    noisy = noisy_of(temperature_c, 4)
    found = response_of(noisy, temperature_c)
    curves = degrees(temperature_c)
    for part in range(8):
        own = part == PARTS
        curves[:, own] -= curves[:, own].mean(axis=1, keepdims=True)
        curves[:, own] /= SIZES[part]
    turns = 2.0 * np.pi * np.arange(1, 366) / 365.25
    waves = [np.cos(turns), np.sin(turns), np.cos(2.0 * turns), np.sin(2.0 * turns)]
    every = np.vstack([curves, [part == PARTS for part in range(8)], waves])
    precision = np.array([400.0] * 3 + [0.0] * 8 + [1.0 / 0.09] * 4)
    solved, left = np.zeros(15), np.eye(15)
    for _ in range(5):
        rest = noisy[0] - solved @ every
        spectrum = level_spectrum(np.array([rest, noisy[1]])) + ERROR**2
        lags = np.fft.irfft(spectrum, 365)  # of a covariance that repeats after a year
        covariance = lags[np.abs(np.arange(365)[:, None] - np.arange(365)[None])]
        weighted = np.linalg.solve(covariance, every.T)
        left = every @ weighted + np.diag(precision)
        solved = np.linalg.solve(left, weighted.T @ noisy[0])
    assert found.slopes == pytest.approx(solved[:3], rel=1e-6, abs=1e-9)
    assert found.covariance == pytest.approx(np.linalg.inv(left)[:3, :3], rel=1e-6, abs=1e-12)
    # The error of the noise enters that of the slopes.
    doubtful = response_of(np.array([noisy[0], 3.0 * noisy[1]]), temperature_c)
    assert doubtful.heating[1] > 1.5 * found.heating[1]


def test_levels_of_other_weather_by_hand() -> None:
    """Two degrees more on every day: in winter, levels fall by the slopes over the size."""
    temperature_c = weather(6, mean_c=3.0)  # below 15.5 degrees all year but for warm days
    found = response_of(noisy_of(temperature_c, 7), temperature_c)
    usual = found.levels(temperature_c, CALENDAR, own=CALENDAR)
    warmer = found.levels(temperature_c + 2.0, CALENDAR, own=CALENDAR)
    cold = temperature_c < 13.0
    cold[1:] &= cold[:-1]
    cold[0] = False
    fall = 2.0 * (found.slopes[0] + found.slopes[1]) / SIZES[PARTS]
    assert (usual - warmer)[cold] == pytest.approx(fall[cold], rel=1e-9)
    next_year = replace(CALENDAR, first_day=NEW_YEAR + dt.timedelta(days=364), n_days=30)
    again = found.levels(temperature_c[:30], next_year, own=CALENDAR)
    same = np.arange(30) != 0  # the levels that temperature does not explain are those of 52 weeks
    assert (again - usual[:30])[same & (next_year.parts == PARTS[:30])] == pytest.approx(0.0)


def test_days_beyond_the_data_are_counted() -> None:
    """Colder, warmer and limited days by hand; weather within that of the data has none."""
    temperature_c = weather(6)
    found = response_of(noisy_of(temperature_c, 7), temperature_c)
    days = [NEW_YEAR + dt.timedelta(days=day) for day in range(365 + 30)]
    low, high = temperature_c.min(), temperature_c.max()
    new = np.full(30, temperature_c.mean())
    new[:4], new[4:9], new[9] = low - 0.1, high + 0.1, low
    sample = replace(CALENDAR, first_day=days[365], n_days=30)

    def seen(own: Floats) -> tuple[int, ...]:
        series = dict(zip(days, np.concatenate([temperature_c, own]), strict=True))
        one = found.extrapolation(series, sample, own=CALENDAR)
        assert bool(one.warning) == bool(one.colder + one.warmer + one.limited)
        assert f"{one.colder} are colder and {one.warmer} warmer than any" in one.statement
        return one.days, one.colder, one.warmer, one.limited

    assert seen(new) == (30, 4, 5, 0)
    assert seen(np.full(30, temperature_c.mean())) == (30, 0, 0, 0)
    new[:12] = low - 40.0  # 3 % per degree: far above 60 %
    days_limited = (found.levels(new, sample, own=CALENDAR) == 0.6).sum()
    assert seen(new) == (30, 12, 0, days_limited)
    assert days_limited >= 12


def test_a_cold_year_needs_more_energy() -> None:
    """A sample with four degrees less needs what the response says; words and JSON say it too."""
    model = year_model(spread=-1.5, split=Split.WEEKDAY_WEEKEND)
    own = calendar_of(365)
    temperature_c = weather(8, mean_c=0.0)
    away = degrees(temperature_c)
    for part in range(2):
        away[:, part == own.parts] -= away[:, part == own.parts].mean(axis=1, keepdims=True)
    noisy = np.array([SLOPES @ away, np.full(365, 0.003)])
    model = replace(model, noisy_levels=noisy, levels=noisy[0])
    days = [NEW_YEAR + dt.timedelta(days=day) for day in range(730)]
    series = dict(zip(days, np.concatenate([temperature_c, temperature_c - 4.0]), strict=True))
    found = model.temperature_response(series)
    assert found.heating[0] == pytest.approx(0.03, rel=0.05)
    assert found.statement.startswith("+3.0 % (+3.0 to +3.0) of the mean load per °C below 15.5")
    assert found.to_json()["heating_per_c"] == found.heating[0]
    usual = model.sample(300, random_state=1, by=[1, 0], temperatures_c=series)[0]
    colder = model.sample(
        300,
        random_state=1,
        by=[1, 0],
        first_day=NEW_YEAR + dt.timedelta(days=365),
        n_days=365,
        temperatures_c=series,
    )[0]
    assert usual.shape == (300, 365 * SLOTS)
    assert colder.sum() / usual.sum() == pytest.approx(1.0 + 4.0 * 0.03, abs=0.02)


def test_a_series_without_a_day_is_refused() -> None:
    """The error names the days, of the data and of the sample."""
    days = {NEW_YEAR + dt.timedelta(days=day): 10.0 for day in range(365) if day not in (3, 40)}
    with pytest.raises(InvalidParameterError, match=r"missing: 2013-01-04, 2013-02-10$"):
        known_temperatures(days, CALENDAR)
    with pytest.raises(InvalidParameterError, match=r"every day from 2013-01-01 to 2013-12-31"):
        year_model().temperature_response({})
    full = days | {NEW_YEAR + dt.timedelta(days=day): 10.0 for day in (3, 40)}
    with pytest.raises(InvalidParameterError, match="2014-01-02, 2014-01-03, … and 4 more days"):
        year_model().sample(
            1, random_state=0, first_day=dt.date(2014, 1, 1), n_days=7, temperatures_c=full
        )
