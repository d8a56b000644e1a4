"""The bias of noise in the lowest hours is corrected before sorting."""

import numpy as np

from wattveil.numerics.groups.group_means import GroupMeans, sort_curves
from wattveil.numerics.load_basis import Calendar

CALENDAR = Calendar(n_days=56, n_slots=24, n_coordinates=400)


def means_of(curve: np.ndarray, variance: float) -> GroupMeans:
    """Return one group's curve with errors of so large a variance."""
    mean = (CALENDAR.weights @ curve / curve.size)[None]
    nothing = np.zeros(1)
    return GroupMeans(
        mean=mean,
        variance=np.full_like(mean, variance),
        counted=nothing,
        uncounted=nothing,
        missed=nothing,
        max_clipping_bias=nothing,
    )


def test_the_bias_of_noisy_nights_is_reduced() -> None:
    """A day that repeats, with noise in every coordinate: the lowest hours are too low by less."""
    day = 1.0 + 0.6 * np.sin(2.0 * np.pi * (np.arange(24) - 9.0) / 24.0)
    truth = np.tile(day, 56)
    noise = np.random.default_rng(2).normal(0.0, 0.01, 400) @ CALENDAR.weights
    noisy = np.sort(truth + noise)[::-1]
    found, error = sort_curves(means_of(truth + noise, 1e-4), CALENDAR)
    low = np.sort(truth)[:10].mean()
    assert abs(found[0, -10:].mean() - low) < 0.6 * abs(noisy[-10:].mean() - low)
    assert (np.diff(found[0]) <= 0.0).all()
    assert (error > 0.0).all()


def test_a_group_that_exports_is_left_alone() -> None:
    """A mean day below 0 at noon keeps its lowest hours."""
    day = 0.3 - 0.6 * np.exp(-0.5 * np.square((np.arange(24) - 12.0) / 3.0))
    means = means_of(np.tile(day, 56), 1e-4)
    found, _ = sort_curves(means, CALENDAR)
    assert np.array_equal(found[0], np.sort((means.mean @ CALENDAR.weights)[0])[::-1])
