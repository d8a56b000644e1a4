"""The paired audit: independent checks of its bounds, and releases whose epsilon is known."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.sample_bundles import EVERYTHING, product_names, some_profiles
from tests.statistical.harness import guarantee
from wattveil.errors import InvalidParameterError
from wattveil.lab.audit.epsilon_bounds import (
    PairedAudit,
    max_probability,
    paired_bound,
    probability_lower_bound,
)
from wattveil.lab.audit.release_audit import WHOLE, PairedReleases

RNG = np.random.default_rng(5)


@pytest.mark.parametrize(("hits", "trials"), [(0, 7), (3, 7), (7, 7), (120, 500)])
def test_clopper_pearson_by_independent_computation(hits: int, trials: int) -> None:
    """SciPy's exact interval has the same ends."""
    exact = stats.binomtest(hits, trials).proportion_ci(0.99, method="exact")
    assert probability_lower_bound(np.array(hits), trials, 0.005) == pytest.approx(exact.low)
    assert max_probability(np.array(hits), trials, 0.005) == pytest.approx(exact.high)


def test_both_bounds_agree() -> None:
    """The one on epsilon is above its claim exactly where the one on delta is."""
    for likely, unlikely in ((0.9, 0.1), (0.3, 0.2), (0.05, 0.5)):
        for delta in (0.0, 0.1):
            found = PairedAudit(
                claim=guarantee(epsilon=1.0, delta=delta),
                likely=likely,
                unlikely=unlikely,
                hits=0,
                misses=0,
                trials=1,
            )
            above = max(likely - delta, 0.0)
            assert found.epsilon == pytest.approx(
                max(math.log(above / unlikely), 0.0) if above else 0.0
            )
            assert found.delta == pytest.approx(max(likely - math.e * unlikely, 0.0))
            assert found.refutes == (found.epsilon > 1.0)


def test_releases_that_differ_and_releases_that_do_not() -> None:
    """A shift of one number of three is detected; noise alone is not."""
    claim = guarantee(epsilon=1.0, delta=1e-6)
    same, other = RNG.normal(size=(2, 400, 3))
    assert not paired_bound(same, other, claim=claim, level=1e-3).refutes
    shifted = other + np.array([0.0, 9.0, 0.0])
    found = paired_bound(same, shifted, claim=claim, level=1e-3)
    assert found.refutes
    assert found.hits > 195
    assert (found.misses, found.trials) == (0, 200)
    assert "of 200 releases" in found.evidence


def test_the_bound_of_a_gaussian_stays_below_the_true_epsilon() -> None:
    """At s = 1 and delta = 0.1 the true epsilon is 1.02: the bound comes near from below."""
    x, y = RNG.normal(size=(2, 20_000, 1))
    found = paired_bound(x + 1.0, y, claim=guarantee(epsilon=1.02, delta=0.1), level=1e-3)
    assert 0.8 < found.epsilon <= 1.02


def test_a_claim_beyond_floats_is_never_refuted() -> None:
    """e^epsilon overflows at 710; such a claim is vacuous."""
    x = np.zeros((50, 1))
    assert not paired_bound(x, x + 1.0, claim=guarantee(epsilon=1e4), level=0.05).refutes


@pytest.mark.parametrize("shapes", [((2, 1), (2, 1)), ((8, 1), (9, 1)), ((8, 1), (8, 2))])
def test_observations_that_do_not_fit(shapes: tuple[tuple[int, int], tuple[int, int]]) -> None:
    """Too few, or not the same on both sides."""
    with pytest.raises(InvalidParameterError):
        paired_bound(np.zeros(shapes[0]), np.zeros(shapes[1]), claim=guarantee(), level=0.05)


def test_any_ids_can_be_audited() -> None:
    """Also those that a release would refuse to publish: an audit reads labels, not ids."""
    ids = tuple(f"=CUSTOMER-{number}" for number in range(12))
    releases = PairedReleases.of(EVERYTHING, replace(some_profiles(12), customer_ids=ids))
    for canary in (False, True):
        assert {*releases.observe(canary=canary)} == {*product_names(EVERYTHING), WHOLE}
