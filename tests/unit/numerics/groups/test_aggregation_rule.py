"""Aggregation rules on noisy counts: error probability, disjoint cells, coarser ones instead."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from wattveil.errors import InvalidParameterError
from wattveil.numerics.groups.aggregation_rule import (
    ALPHA,
    AggregationRule,
    CellLimits,
    CellStatus,
    cell_names,
    cells_of,
    decide,
    max_shares,
)
from wattveil.privacy.mechanisms.contributions import STEP

RULE = AggregationRule.parse("15/15")
SURE = {"mean_kw": 0.5, "std_kw": 0.001, "clip_kw": 0.01}
"""Load of cells in which no customer is large."""


def limits_of(counts: list[float], std: float, **load: float) -> CellLimits:
    """Return limits of cells that all have the same load."""
    cells = cells_of(len(counts))
    same = {name: np.full(len(cells), value) for name, value in {**SURE, **load}.items()}
    return CellLimits.of(cells, np.array(counts), std, **same)


def test_the_threshold_has_the_stated_error() -> None:
    """N - 1 customers pass with 1e-3, by the tail of the normal law and by a sum over the grid."""
    for std in (1.0, 5.0):
        tail = stats.norm.sf((RULE.min_count(std) - 14) / std)
        assert 0.999 * ALPHA < tail <= ALPHA
    # Discrete Gaussian of standard deviation 1 on a grid of 2^-20, coarser than that of counts.
    step = 2.0**-20
    beyond = np.arange(math.ceil((RULE.min_count(1.0) - 14) / step), 10 / step) * step
    drawn = np.exp(-0.5 * np.square(beyond)).sum() * step / math.sqrt(2.0 * math.pi)
    assert 0.999 * ALPHA < drawn <= ALPHA
    assert step > STEP


def test_cells_are_groups_and_neighbours() -> None:
    """Two, four, ... neighbours of the public list, and last all; each with its parts."""
    cells = cells_of(5)
    members = [cell.members for cell in cells]
    assert members[5:] == [(0, 1), (2, 3), (0, 1, 2, 3), (0, 1, 2, 3, 4)]
    for cell in cells[5:]:
        assert cell.parts is not None
        assert sum((members[part] for part in cell.parts), ()) == cell.members
    assert cell_names(["a", "b", "c", "d", "e"])[5:] == (
        "a + b",
        "c + d",
        "a to d (4 groups)",
        "all groups together",
    )
    assert cell_names(["all"]) == ("all",)
    with pytest.raises(InvalidParameterError, match="levels"):
        cell_names(["a", "b", "a + b", "c", "d"])


def test_a_small_group_stands_with_its_neighbour() -> None:
    """The neighbour is not published by itself: the difference would be the small group."""
    cells = cells_of(4)
    found = decide(RULE, cells, limits_of([3.0, 100.0, 100.0, 100.0], 1.0))
    assert found == (
        CellStatus.COARSER,
        CellStatus.COARSER,
        CellStatus.PUBLISHED,
        CellStatus.PUBLISHED,
        CellStatus.PUBLISHED,
        CellStatus.FINER,
        CellStatus.FINER,
    )


def test_what_cannot_be_joined_is_hidden() -> None:
    """Where all groups together are too few, nothing is published."""
    found = decide(RULE, cells_of(2), limits_of([3.0, 4.0], 1.0))
    assert set(found) == {CellStatus.TOO_FEW}
    found = decide(RULE, cells_of(2), limits_of([30.0, 40.0], 1.0, clip_kw=100.0))
    assert set(found) == {CellStatus.TOO_LARGE_SHARE}


def test_a_finer_cover_is_joined_with_its_neighbour() -> None:
    """Two covered neighbours stand within four if the other two cannot be covered."""
    found = decide(RULE, cells_of(4), limits_of([50.0, 50.0, 2.0, 3.0], 1.0))
    assert found[-1] is CellStatus.PUBLISHED
    assert set(found[:-1]) == {CellStatus.COARSER}


def test_the_rule_holds_within_one_release() -> None:
    """Two releases of one list: noise publishes one group, then the sum of it and a hidden one."""
    first = decide(RULE, cells_of(2), limits_of([28.0, 0.0], 4.0))
    second = decide(RULE, cells_of(2), limits_of([28.0, 5.0], 4.0))
    assert first[0] is second[-1] is CellStatus.PUBLISHED
    assert first[1] is CellStatus.TOO_FEW


def test_the_share_of_a_customer() -> None:
    """By hand: 2 kW of (100 - 3.29 x 5) x (0.5 - 3.29 x 0.01) kW; 1 where the load may be 0."""
    z = stats.norm.isf(5e-4)
    one = {"counts": np.array([100.0]), "counts_std": np.array([5.0]), "clip_kw": np.array([2.0])}
    share = max_shares(**one, mean_kw=np.array([0.5]), std_kw=np.array([0.01]))
    due = 2.0 / ((100 - z * 5) * (0.5 - z * 0.01))
    assert share[0] == pytest.approx(due, rel=1e-5)
    assert max_shares(**one, mean_kw=np.array([-0.1]), std_kw=np.array([0.01]))[0] == 1.0


@settings(max_examples=200)
@given(
    st.lists(st.floats(-50, 300), min_size=1, max_size=17),
    st.floats(0.1, 20),
    st.floats(0.001, 5),
)
def test_published_cells_are_disjoint_and_meet_the_rule(
    counts: list[float], std: float, clip_kw: float
) -> None:
    """For any counts; and every group that could stand somewhere does."""
    cells, limits = cells_of(len(counts)), limits_of(counts, std, clip_kw=clip_kw)
    status = decide(RULE, cells, limits)
    shown = [at for at, one in enumerate(status) if one is CellStatus.PUBLISHED]
    members = [member for at in shown for member in cells[at].members]
    assert len(set(members)) == len(members)
    for at in shown:
        k = len(cells[at].members)
        assert limits.counts[at] >= 14 + 3.09 * std * math.sqrt(k)
        assert limits.max_share[at] <= 0.15
    passes = {
        at
        for at in range(len(cells))
        if limits.counts[at] >= RULE.min_count(limits.counts_std[at])
        and limits.max_share[at] <= 0.15
    }
    reachable = {member for at in passes for member in cells[at].members}
    assert set(members) == reachable


def test_rare_errors_in_simulation() -> None:
    """A group of 14 customers is published by itself about as often as stated, 1e-3, not more."""
    draws, std = 10_000, 4.0
    true, random = np.array([14.0, 200.0, 90.0, 80.0]), np.random.default_rng(5)
    cells = cells_of(true.size)
    wrong = sum(
        decide(RULE, cells, limits_of(list(true + random.normal(0, std, true.size)), std))[0]
        is CellStatus.PUBLISHED
        for _ in range(draws)
    )
    law = stats.binom(draws, ALPHA)
    assert law.ppf(1e-4) <= wrong <= law.isf(1e-6)


@pytest.mark.parametrize("text", ["15", "15/", "1/15", "15/0", "15/101", "a/b", "15/15/15"])
def test_no_rules(text: str) -> None:
    """Refused with field and rule."""
    with pytest.raises(InvalidParameterError, match="rule"):
        AggregationRule.parse(text)


def test_rules_are_written_shortly() -> None:
    """As people write them."""
    assert str(AggregationRule.parse("100/15.50")) == "100/15.5"
