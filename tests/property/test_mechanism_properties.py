"""Whatever the data, mechanisms add up their price and stay on their grid."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from tests.responding import keep_probability, randomised_response
from wattveil.privacy.budget import Budget
from wattveil.privacy.guarantee import Guarantee, Neighbours, Tier, Unit
from wattveil.privacy.mechanisms.gaussian import gaussian_sum
from wattveil.privacy.mechanisms.quantile import noisy_quantile
from wattveil.privacy.secret import Secret
from wattveil.privacy.sensitivity import Ball
from wattveil.release.shapes import load_shapes

finite = st.floats(allow_nan=False, allow_infinity=False)
relations = st.sampled_from(Neighbours)


def budget(neighbours: Neighbours) -> Budget:
    """Return a budget with room for Gaussian parts and a response."""
    promise = Guarantee(
        epsilon=10.0, delta=1e-5, tier=Tier.GLOBAL, neighbours=neighbours, unit=Unit.CUSTOMER
    )
    return Budget(promise, response_epsilon=5.0)


@settings(deadline=None, max_examples=60)
@given(
    rows=npst.arrays(np.float64, npst.array_shapes(min_dims=2, max_dims=2), elements=finite),
    radius=st.floats(1e-3, 1e6),
    rho=st.integers(10**8, 10**17),
    neighbours=relations,
)
def test_no_float_leaves_the_grid(
    rows: NDArray[np.float64], radius: float, rho: int, neighbours: Neighbours
) -> None:
    """Any finite rows: whole steps come out, and values are steps times a power of two."""
    released = gaussian_sum(
        Secret(rows),
        region=Ball(radius=radius),
        rho_units=rho,
        budget=budget(neighbours),
        tag="t",
    )
    vector = released.publish()
    assert vector.steps.dtype == np.int64
    assert math.frexp(vector.region.step)[0] == 0.5
    assert np.array_equal(vector.value, vector.steps * vector.region.step)


@settings(deadline=None, max_examples=30)
@given(
    values=npst.arrays(np.float64, st.integers(0, 20), elements=finite),
    n_steps=st.integers(1, 25),
    rho=st.integers(10**9, 10**17),
    quantile=st.floats(0.01, 0.99),
    neighbours=relations,
)
def test_quantile_spends_exactly_and_stays_inside(
    values: NDArray[np.float64],
    n_steps: int,
    rho: int,
    quantile: float,
    neighbours: Neighbours,
) -> None:
    """Any values: the parts add up to the price, the answer is an odd multiple of its grid."""
    granted = budget(neighbours)
    released = noisy_quantile(
        Secret(values),
        quantile=quantile,
        interval=(0.0, 1.0),
        n_steps=n_steps,
        rho_units=rho,
        budget=granted,
        tag="t",
    )
    assert sum(spend.rho_units for spend in granted.spends) == rho
    assert released.spends == granted.spends
    place = released.publish() * 2.0 ** (n_steps + 1)
    assert place == int(place)
    assert int(place) % 2 == 1
    assert 0.0 < released.value < 1.0


@settings(deadline=None, max_examples=10)
@given(
    rows=npst.arrays(np.float64, st.tuples(st.integers(0, 5), st.integers(1, 30)), elements=finite),
    epsilon=st.floats(0.05, 10.0),
    delta=st.floats(1e-9, 0.1),
    clip_kw=st.floats(0.04, 40.0),
)
def test_load_shape_spends_its_whole_grant(
    rows: NDArray[np.float64], epsilon: float, delta: float, clip_kw: float
) -> None:
    """Any finite load: what is recorded adds up to the declared total, and all is finite."""
    shape = load_shapes(rows, clip_kw=clip_kw, epsilon=epsilon, delta=delta)
    spent = sum(spend.rho_units for spend in shape.spends)
    assert spent == Budget(shape.guarantee).rho_units
    assert shape.mean_kw.shape == (1, rows.shape[1])
    assert np.isfinite(shape.mean_kw).all()
    assert (shape.std_kw > 0.0).all()


@settings(deadline=None, max_examples=30)
@given(
    labels=npst.arrays(np.int64, st.integers(0, 30), elements=st.integers(-1, 3)),
    epsilon=st.floats(0.01, 5.0),
    neighbours=relations,
)
def test_labels_stay_in_their_range(
    labels: NDArray[np.int64], epsilon: float, neighbours: Neighbours
) -> None:
    """One label a customer within 0..K-1, whatever the data."""
    released = randomised_response(
        Secret(labels), n_labels=4, epsilon=epsilon, budget=budget(neighbours), tag="t"
    )
    assert released.publish().shape == labels.shape
    assert set(released.value.tolist()) <= {0, 1, 2, 3}


@settings(deadline=None, max_examples=100)
@given(st.integers(2, 60), st.floats(1e-12, 50.0), st.floats(1.0, 4.0), relations)
def test_keeping_is_likelier_with_more_epsilon_and_fewer_labels(
    n_labels: int, epsilon: float, factor: float, neighbours: Neighbours
) -> None:
    """The chance p grows with epsilon and falls with K; it is a chance in whole parts of 2^-62."""
    p = keep_probability(n_labels=n_labels, epsilon=epsilon, neighbours=neighbours)
    more = keep_probability(n_labels=n_labels, epsilon=epsilon * factor, neighbours=neighbours)
    wider = keep_probability(n_labels=n_labels + 1, epsilon=epsilon, neighbours=neighbours)
    # All K - 1 others are rounded up to whole parts of 2^-62, at the expense of p.
    assert 0 < wider <= p + Fraction(n_labels, 2**62)
    assert p <= more < 1
    assert (p * 2**62).denominator == 1
