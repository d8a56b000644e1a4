"""Whatever the data, mechanisms spend their price and stay on their grid."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from tests.single_queries import gaussian_histogram, keep_probability, respond_to_labels, sum_of
from wattveil.privacy.guarantee import Budget, Guarantee, Neighbours, Tier, Unit
from wattveil.release.group_load import load_shapes

finite = st.floats(allow_nan=False, allow_infinity=False)
relations = st.sampled_from(Neighbours)


def budget(neighbours: Neighbours) -> Budget:
    """Return a budget with room for Gaussian parts and a response."""
    guarantee = Guarantee(
        epsilon=10.0, delta=1e-5, tier=Tier.GLOBAL, neighbours=neighbours, unit=Unit.CUSTOMER
    )
    return Budget(guarantee, response_epsilon=5.0)


@settings(deadline=None, max_examples=60)
@given(
    rows=npst.arrays(np.float64, npst.array_shapes(min_dims=2, max_dims=2)),
    rho=st.integers(10**8, 10**17),
    neighbours=relations,
)
def test_no_float_leaves_the_grid(
    rows: NDArray[np.float64], rho: int, neighbours: Neighbours
) -> None:
    """Any rows, NaN and infinity too: whole steps, and values that are steps times 2^-25."""
    granted = budget(neighbours)
    totals = sum_of(rows, rho_units=rho, budget=granted).publish()
    assert totals.steps.dtype == np.int64
    assert totals.value.shape == (1, rows.shape[1])
    assert np.array_equal(totals.value.ravel(), totals.steps * 2.0**-25)
    assert [spend.rho_units for spend in granted.spends] == [rho]


@settings(deadline=None, max_examples=30)
@given(
    cells=npst.arrays(np.int64, st.integers(0, 20), elements=st.integers(-1, 4)),
    rho=st.integers(10**9, 10**17),
    neighbours=relations,
)
def test_counts_spend_exactly_and_stay_near(
    cells: NDArray[np.int64], rho: int, neighbours: Neighbours
) -> None:
    """Any cells: the price is charged, and released minus exact is within nine scales."""
    granted = budget(neighbours)
    released = gaussian_histogram(cells, n_cells=5, rho_units=rho, budget=granted)
    totals = released.publish()
    assert released.spends == granted.spends
    exact = np.bincount(cells[cells >= 0], minlength=5)
    assert (np.abs(totals.value - exact) <= 9.0 * totals.std).all()


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
    """One label per customer within 0..K-1, whatever the data."""
    found = respond_to_labels(labels, n_labels=4, epsilon=epsilon, budget=budget(neighbours))
    assert found.shape == labels.shape
    assert set(found.tolist()) <= {0, 1, 2, 3}


@settings(deadline=None, max_examples=40)
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
