"""The Lloyd step that baselines share, on any customers: no removal exceeds the sensitivity."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.baseline_transcripts import Recorded
from wattveil.arrays import Floats
from wattveil.lab.baselines.baseline_interface import PublicChoices, total_epsilon
from wattveil.lab.baselines.lloyd_baselines import lap_lloyd

BUDGETS = (0.5, 1.0, 2.0)


@given(
    points=arrays(np.float64, (8, 3), elements=st.floats(-1e3, 1e3)),
    customer=st.integers(0, 7),
    seed=st.integers(0, 99),
)
@settings(max_examples=40, deadline=None)
def test_shared_rounds(points: Floats, customer: int, seed: int) -> None:
    """A removal changes sums and counts of each round by their sensitivity at most."""
    rows = np.clip(points, -1.0, 1.0)
    start = np.random.default_rng(seed).uniform(-1.0, 1.0, (4, 3))

    def transcript(rows: Floats, first: Recorded | None = None) -> Recorded:
        noise = Recorded(seed, first)
        lap_lloyd(rows, start, BUDGETS, noise)
        return noise

    first = transcript(rows)
    reached = transcript(np.delete(rows, customer, axis=0), first).reached()
    assert len(reached) == 2 * len(BUDGETS)
    assert max(reached) <= 1.0 + 1e-9
    assert total_epsilon(first.steps) == pytest.approx(sum(BUDGETS))


def test_the_longest_customer_reaches_it() -> None:
    """The sensitivity is tight: a customer in the corner of the box reaches it in every step."""
    rows = np.vstack([np.ones(3), -np.eye(3)])
    start = np.eye(2, 3)
    first = Recorded(0)
    lap_lloyd(rows, start, BUDGETS, first)
    without = Recorded(0, first)
    lap_lloyd(rows[1:], start, BUDGETS, without)
    assert without.reached() == pytest.approx(np.ones(6))


@given(load=arrays(np.float64, (5, 2), elements=st.floats(-1e6, 1e6)))
@settings(max_examples=50, deadline=None)
def test_bounds_hold_any_load(load: Floats) -> None:
    """Whatever the load, the box is [-1, 1], the ball has radius 1, and taken bounds are valid."""
    public = PublicChoices.taken_from(load, 2)
    boxed = public.in_box(load)
    assert np.abs(boxed).max() <= 1.0
    assert np.linalg.norm(public.in_ball(load), axis=1).max() <= 1.0 + 1e-9
    inside = np.clip(load, public.low_kw, public.high_kw)
    assert public.from_box(boxed) == pytest.approx(inside, rel=1e-6, abs=1e-6)
