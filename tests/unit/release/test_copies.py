"""No synthetic customer is a copy of a real one: exact copies, largest values, planted outliers.

What is measured here is a lower bound on what could be wrong, never the guarantee. Each measure is
shown to catch a generator that copies.
"""

import numpy as np
import pytest
from numpy.typing import NDArray

from wattveil import LoadSynthesizer
from wattveil.lab.attacks.synthetic_attacks import copied_share, reconstructed_share, shared_maxima
from wattveil.lab.seeded_draws import RandomAssignment
from wattveil.simulate import simulate_load_kw

Floats = NDArray[np.float64]


@pytest.fixture(scope="module")
def real() -> Floats:
    """Return homes with all the digits of their readings."""
    return simulate_load_kw(customers=1000, seed=11)


@pytest.mark.parametrize("epsilon", [1.0, 1e5])
def test_no_value_is_a_copy(real: Floats, epsilon: float) -> None:
    """Not one of 240,000 values equals a reading of its slot, even where noise hides nothing."""
    made = LoadSynthesizer(epsilon=epsilon).fit(real).sample(10_000, random_state=1)[0]
    assert copied_share(real, made) == 0.0
    assert shared_maxima(real, made) == 0.0


def test_copies_are_caught(real: Floats) -> None:
    """One value in a thousand that is copied, and a largest value that is kept, are both seen."""
    made = LoadSynthesizer().fit(real).sample(10_000, random_state=1)[0]
    copying = made.copy()
    copying[::1000] = real[:10]
    assert copied_share(real, copying) == pytest.approx(1e-3, rel=0.05)
    clipped = np.minimum(20.0 * made, real.max(axis=0))
    assert shared_maxima(real, clipped) > 0.9


def test_planted_outliers_are_not_found_again(real: Floats) -> None:
    """Outliers in the data lie near a synthetic customer no oftener than others of their law.

    A hundredth of either does by chance, at epsilon 1; of copies all would.
    """
    assignment = RandomAssignment(12)
    outliers, others = (assignment.planted_outliers(real, 100) for _ in range(2))
    rows = np.vstack([real, outliers])
    made = LoadSynthesizer(plausible_kw=(0.04, 400.0)).fit(rows).sample(20_000, random_state=1)[0]
    assert reconstructed_share(outliers, made) < reconstructed_share(others, made) + 0.07
    copies = rows[assignment.order(len(rows))]
    assert reconstructed_share(outliers, copies) == 1.0
    assert reconstructed_share(others, copies) < 0.5
