"""Largest results of attacks that a guarantee permits."""

import math

import numpy as np
import pytest

from wattveil.lab.audit.intruder_record import permitted_result
from wattveil.privacy.guarantee import global_guarantee

AUC = "membership inference by distance, AUC"
FOUND = {
    0.01: "members found at 1 % false positives",
    0.001: "members found at 0.1 % false positives",
}


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
def test_randomised_response_attains_the_bounds(epsilon: float) -> None:
    """The mechanism with the largest loss: membership with noise of (epsilon, 0)."""
    guarantee = global_guarantee(epsilon=epsilon, delta=1e-12)
    right = 1.0 / (1.0 + math.exp(-epsilon))  # AUC of one bit: (1 + right - wrong) / 2
    assert permitted_result(AUC, guarantee) == pytest.approx(right, abs=1e-9)
    for share, attack in FOUND.items():
        # A guess of "member" at a share of the bits that say so: TPR / FPR = e^epsilon.
        scaled = share * math.exp(epsilon)
        if share < 1.0 - right:
            assert permitted_result(attack, guarantee) == pytest.approx(scaled, abs=1e-9)
        else:
            assert scaled > permitted_result(attack, guarantee) > right  # type: ignore[operator]


@pytest.mark.parametrize(("epsilon", "delta"), [(0.2, 1e-6), (1.0, 0.01), (2.0, 0.2)])
def test_the_auc_is_the_integral_over_false_positives(epsilon: float, delta: float) -> None:
    """Of the smallest of both bounds of (epsilon, delta), and never above 1."""
    share = np.linspace(0.0, 1.0, 200_001)
    kept = 1.0 - np.exp(-epsilon) * (1.0 - delta - share)
    curve = np.minimum(np.minimum(np.exp(epsilon) * share + delta, kept), 1.0)
    found = permitted_result(AUC, global_guarantee(epsilon=epsilon, delta=delta))
    assert found == pytest.approx(float(np.trapezoid(curve, share)), abs=1e-6)


def test_other_attacks_have_no_bound() -> None:
    """A large epsilon permits everything; copies and differences are not bounded by it alone."""
    guarantee = global_guarantee(epsilon=100.0, delta=1e-6)
    assert permitted_result("planted outliers reconstructed", guarantee) is None
    for attack in (AUC, *FOUND.values()):
        assert permitted_result(attack, guarantee) == pytest.approx(1.0)
