"""Load duration curves: never rising, better than sorted noise, for a day, a year and by group."""

import math
from datetime import date

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.simulated_load import simulated_homes
from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Budget
from wattveil.release.group_load import LoadDuration, load_duration_curve
from wattveil.simulate import LONDON_MIX, simulate_kwh

DAYS = 56


def release(load_kw: NDArray[np.float64], **options: object) -> LoadDuration:
    """Release at epsilon 1 unless said otherwise."""
    return load_duration_curve(load_kw, **{"epsilon": 1.0, "delta": 1e-6, **options})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def eight_weeks() -> NDArray[np.float64]:
    """Return the hourly load of 600 simulated homes over eight weeks."""
    return simulate_kwh(
        customers=600,
        days=DAYS,
        start=date(2025, 1, 6),
        timezone="Europe/London",
        minutes=60,
        mix=LONDON_MIX,
        seed=4,
    )


def descending(load_kw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the exact duration curve."""
    return -np.sort(-load_kw.sum(axis=0))


def test_a_long_curve_beats_sorted_noise(eight_weeks: NDArray[np.float64]) -> None:
    """Sorting after noise biases the ends. Smooth coordinates: at most half the error."""
    truth = descending(eight_weeks)
    columns = eight_weeks.shape[1]
    generator = np.random.default_rng(6)
    found = [release(eight_weeks) for _ in range(5)]
    mu = math.sqrt(2e-18 * Budget(found[0].guarantee).rho_units)
    rms = np.sqrt(np.square(eight_weeks).mean(axis=1, keepdims=True))

    def naive_curve(clip_kw: float) -> NDArray[np.float64]:
        total = (eight_weeks * np.minimum(1.0, clip_kw / rms)).sum(axis=0)
        return -np.sort(
            -(total + generator.normal(0.0, clip_kw * math.sqrt(columns) / mu, columns))
        )

    curves = [naive_curve(clip_kw) for clip_kw in (0.25, 0.5, 1.0, 2.0)]
    naive = min(curves, key=lambda curve: float(np.square(curve - truth).mean()))
    ours = np.mean([np.square(curve.load_kw[0] - truth).mean() for curve in found])
    assert 2.0 * math.sqrt(ours) < np.sqrt(np.square(naive - truth).mean())
    top = np.mean([curve.load_kw[0, :10].mean() for curve in found]) - truth[:10].mean()
    bottom = np.mean([curve.load_kw[0, -10:].mean() for curve in found]) - truth[-10:].mean()
    assert abs(bottom) < abs(naive[-10:].mean() - truth[-10:].mean()) / 2.0
    assert abs(top) < 0.25 * truth[0]


def test_curves_never_rise_and_say_their_error(eight_weeks: NDArray[np.float64]) -> None:
    """By group: one row a level, descending, with a positive error at each rank."""
    groups = ["a", "b"] * 300
    curve = release(eight_weeks, groups=groups, levels=["a", "b", "empty"])
    assert curve.load_kw.shape == curve.std_kw.shape == (3, 24 * DAYS)
    assert (np.diff(curve.load_kw, axis=1) <= 0.0).all()
    assert (curve.std_kw > 0.0).all()
    assert curve.levels == ("a", "b", "empty")
    assert sum(spend.rho_units for spend in curve.spends) == Budget(curve.guarantee).rho_units


@pytest.mark.untraced
@pytest.mark.usefixtures("cached_constants")
def test_bands_of_a_day_cover() -> None:
    """95 % bands of the 24 sorted hours hold the truth in about 95 %."""
    load_kw = simulated_homes(1500)
    truth = descending(load_kw)
    inside = [
        np.abs(curve.load_kw[0] - truth) < 1.96 * curve.std_kw[0]
        for curve in (release(load_kw) for _ in range(100))
    ]
    assert 0.86 < np.mean(inside) < 0.995


@pytest.mark.parametrize("slots", [0, -24, 5, 24.0, True])
def test_a_part_of_a_day_is_refused(slots: object) -> None:
    """Columns are whole days."""
    with pytest.raises(InvalidParameterError, match="slots_per_day must be"):
        release(np.ones((3, 48)), slots_per_day=slots)


def test_half_hours_are_slots_too() -> None:
    """A day of 48 half-hours, and two days of them."""
    for columns in (48, 96):
        assert release(np.ones((3, columns)), slots_per_day=48).load_kw.shape == (1, columns)
