"""Channels, corrected counts and tables for any input that is accepted."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from wattveil.arrays import Floats
from wattveil.numerics.label_channel import label_cost, nearest_with_total, squared_distances
from wattveil.privacy.accounting import log_ratio
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.mechanisms.response import PARTS, Channel, response_channel
from wattveil.release.randomised_labels import label_design, release_labels
from wattveil.release.rows.load_features import nearest_centroid

relations = st.sampled_from(list(Neighbours))


@st.composite
def channels(draw: st.DrawFn) -> Channel:
    """Make any channel of two to five labels, with chances as small as one part."""
    n = draw(st.integers(2, 5))
    cuts = st.lists(st.integers(1, PARTS - 1), min_size=n - 1, max_size=n - 1, unique=True)
    rows = [np.diff([0, *sorted(draw(cuts)), PARTS]) for _ in range(n + 1)]
    return Channel(np.array(rows, dtype=np.int64))


@settings(deadline=None, max_examples=150)
@given(channels(), relations)
def test_epsilon_is_the_least_that_holds(channel: Channel, neighbours: Neighbours) -> None:
    """Every compared pair of chances is within e^epsilon, and some pair needs all of it."""
    rows = channel.parts.tolist()
    firsts = rows if neighbours is Neighbours.REPLACE_ONE else rows[-1:]
    ratios = [
        Fraction(max(a, b), min(a, b))
        for first in firsts
        for second in rows
        for a, b in zip(first, second, strict=True)
    ]
    epsilon = channel.epsilon(neighbours)
    assert epsilon == log_ratio(*max(ratios).as_integer_ratio())
    assert math.isclose(math.exp(epsilon), max(ratios), rel_tol=1e-12)
    if neighbours is Neighbours.REPLACE_ONE:
        zero_out = channel.epsilon(Neighbours.ZERO_OUT)
        assert zero_out <= epsilon <= 2.0 * zero_out * (1.0 + 1e-15)


@settings(deadline=None, max_examples=60)
@given(
    centres=npst.arrays(
        np.float64, st.tuples(st.integers(2, 6), st.just(3)), elements=st.floats(-50, 50)
    ),
    epsilon=st.floats(1e-6, 30.0),
    data=st.data(),
)
def test_a_design_is_private_and_no_worse_than_response(
    centres: Floats, epsilon: float, data: st.DataObject
) -> None:
    """For any centroids, sizes and epsilon."""
    n = len(centres)
    raw = data.draw(npst.arrays(np.float64, n, elements=st.floats(0.0, 1.0)))
    weights = (raw + 1e-9) / (raw + 1e-9).sum()
    channel = label_design(centres, weights, epsilon=epsilon, design="cheapest")
    response = response_channel(n_labels=n, epsilon=epsilon, neighbours=Neighbours.ZERO_OUT)
    cost = squared_distances(centres)
    assert channel.epsilon(Neighbours.ZERO_OUT) <= epsilon
    assert label_cost(channel.parts, cost, weights) <= label_cost(response.parts, cost, weights)


@settings(deadline=None, max_examples=60)
@given(
    rows=npst.arrays(np.float64, st.tuples(st.integers(0, 12), st.just(2))),
    epsilon=st.floats(0.05, 20.0),
)
def test_any_load_has_labels(rows: Floats, epsilon: float) -> None:
    """NaN, infinities, 1e308: always an answer, one label per customer, sizes that add up."""
    centres = np.array([[0.0, 0.0], [1.0, 2.0], [5.0, -1.0]])
    released = release_labels(
        rows, centroids=centres, sizes=[3, 2, 1], epsilon=epsilon, customer_ids=range(len(rows))
    )
    assert set(released.labels.tolist()) <= {0, 1, 2}
    assert len(set(released.ids)) == len(rows)
    # Exact where every size can be estimated; an omitted direction changes the sum a little.
    assert math.isclose(released.sizes.sum(), len(rows), abs_tol=1e-3)
    assert math.isclose(released.shares.sum(), 1.0, abs_tol=1e-9)
    (labels,) = nearest_centroid(rows, centroids=centres)
    assert ((labels == -1) == ~np.isfinite(rows).all(axis=1)).all()


@settings(deadline=None, max_examples=100)
@given(
    values=npst.arrays(
        np.float64, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=st.floats(-1e6, 1e6)
    ),
    total=st.floats(0.0, 1e6),
)
def test_counts_fit_together(values: Floats, total: float) -> None:
    """At least 0, the right sum, and the order of a row kept."""
    found = nearest_with_total(values, np.full(len(values), total))
    assert found.min() >= 0.0
    assert np.allclose(found.sum(axis=1), total, atol=1e-6)
    for before, after in zip(values, found, strict=True):
        assert (np.diff(after[np.argsort(before, kind="stable")]) >= 0.0).all()
