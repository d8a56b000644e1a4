"""No synthetic customer is a copy of a real one: exact copies, largest values, planted outliers.

What is measured here is a lower bound on what could be wrong, never the guarantee. Each measure is
shown to catch a generator that copies.
"""

import numpy as np
import pytest
from numpy.typing import NDArray

from wattveil import LoadSynthesizer
from wattveil.simulate import simulate_load_kw

Floats = NDArray[np.float64]

RECONSTRUCTED = 0.3
"""An outlier is found again if a synthetic customer is nearer than this part of its length."""


def copied_share(real: Floats, made: Floats) -> float:
    """Return the share of synthetic values that equal a real reading of their slot.

    Zero is left out: a model of customers who never export ends there, as meters do.
    """
    copies = [np.isin(made[:, h], real[:, h]) & (made[:, h] != 0.0) for h in range(real.shape[1])]
    return float(np.mean(copies))


def shared_maxima(real: Floats, made: Floats) -> float:
    """Return the share of slots in which both have the same largest value."""
    return float((real.max(axis=0) == made.max(axis=0)).mean())


def nearest_ratios(outliers: Floats, made: Floats) -> Floats:
    """Return how near the nearest synthetic customer is to each outlier, in outlier lengths."""
    squares = (
        np.square(outliers).sum(axis=1)[:, None]
        - 2.0 * outliers @ made.T
        + np.square(made).sum(axis=1)
    )
    nearest = np.sqrt(np.maximum(squares.min(axis=1), 0.0))
    ratios: Floats = nearest / np.linalg.norm(outliers, axis=1)
    return ratios


def planted_outliers(real: Floats, generator: np.random.Generator) -> Floats:
    """Return 100 customers of about twenty times the mean load: 50 normal ones, 50 gamma."""
    level = 20.0 * real.mean()
    normal = generator.normal(level, 0.5 * level, (50, real.shape[1]))
    gamma = generator.gamma(2.0, level / 2.0, (50, real.shape[1]))
    return np.vstack([normal, gamma])


@pytest.fixture(scope="module")
def real() -> Floats:
    """Return homes with all the digits of their readings."""
    return simulate_load_kw(customers=1000, seed=11)


@pytest.mark.parametrize("epsilon", [1.0, 1e5])
def test_no_value_is_a_copy(real: Floats, epsilon: float) -> None:
    """Not one of 240,000 values equals a reading of its slot, even where noise hides nothing."""
    made = LoadSynthesizer(epsilon=epsilon).fit(real).sample(10_000, seed=1)[0]
    assert copied_share(real, made) == 0.0
    assert shared_maxima(real, made) == 0.0


def test_copies_are_caught(real: Floats) -> None:
    """One value in a thousand that is copied, and a largest value that is kept, are both seen."""
    made = LoadSynthesizer().fit(real).sample(10_000, seed=1)[0]
    copying = made.copy()
    copying[::1000] = real[:10]
    assert copied_share(real, copying) == pytest.approx(1e-3, rel=0.05)
    clipped = np.minimum(20.0 * made, real.max(axis=0))
    assert shared_maxima(real, clipped) > 0.9


def test_planted_outliers_are_not_found_again(real: Floats) -> None:
    """None of 100 outliers lies near a synthetic customer, at epsilon 1; of copies all would."""
    generator = np.random.default_rng(12)
    outliers = planted_outliers(real, generator)
    rows = generator.permutation(np.vstack([real, outliers]))
    made = LoadSynthesizer(plausible_kw=(0.04, 400.0)).fit(rows).sample(20_000, seed=1)[0]
    assert (nearest_ratios(outliers, made) < RECONSTRUCTED).mean() == 0.0
    copies = rows[generator.integers(0, len(rows), 20_000)]
    assert (nearest_ratios(outliers, copies) < RECONSTRUCTED).mean() == 1.0
