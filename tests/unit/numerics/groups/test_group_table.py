"""Tables of clusters by groups: shapes, totals, shares."""

import math

import numpy as np
import pytest

from wattveil.errors import InvalidParameterError
from wattveil.numerics.groups.group_table import (
    GroupTable,
    checked_counts,
    consistent_shares,
    share_errors,
)

LEVELS = {"area": ["north", "south"], "class": ["home", "shop", "farm"]}


def test_shape_of_a_table() -> None:
    """The number of levels of each attribute, in their order, then the clusters."""
    assert GroupTable.of(LEVELS, n_clusters=4).shape == (2, 3, 4)
    assert GroupTable.of({}, n_clusters=3).shape == (3,)


@pytest.mark.parametrize("values", [[], ["a", "a"], ["a", "b", "a"]])
def test_bad_levels_are_named(values: list[str]) -> None:
    """A list of different values."""
    with pytest.raises(InvalidParameterError, match=r"levels\['area'\] must be a list"):
        GroupTable.of({"area": values}, n_clusters=2)


def test_own_totals() -> None:
    """Without known totals a group keeps the sum of its noisy counts, or 0."""
    noisy = np.array([[6.0, -2.0, 4.0], [-3.0, -1.0, 2.0]])
    found = consistent_shares(noisy, std=1.0, totals=None)
    assert found.totals.tolist() == [8.0, 0.0]
    assert found.consistent_counts[0] == pytest.approx([5.0, 0.0, 3.0])
    assert found.shares[0] == pytest.approx([0.625, 0.0, 0.375])
    assert found.consistent_counts[1].tolist() == [0.0, 0.0, 0.0]
    assert found.shares[1] == pytest.approx([1.0 / 3.0] * 3)
    assert found.shares_std[1].tolist() == [1.0, 1.0, 1.0]
    s = found.shares[0]
    assert found.shares_std[0] == pytest.approx(np.sqrt((1.0 - s) ** 2 + 2.0 * s**2) / 8.0)


def test_known_totals() -> None:
    """Known totals are met exactly, also by empty groups, and make the shares more certain."""
    noisy = np.array([[6.0, -2.0, 4.0], [3.0, -1.0, 2.0]])
    found = consistent_shares(noisy, std=1.0, totals=np.array([11.0, 0.0]))
    assert found.consistent_counts.sum(axis=-1) == pytest.approx([11.0, 0.0])
    assert found.consistent_counts.min() >= 0.0
    assert found.shares[0] == pytest.approx(found.consistent_counts[0] / 11.0)
    assert found.shares_std[0] == pytest.approx([math.sqrt(2.0 / 3.0) / 11.0] * 3)
    assert found.shares_std[1].tolist() == [1.0, 1.0, 1.0]


def test_one_cluster_has_all_customers() -> None:
    """A share of 1 without error."""
    for known in (False, True):
        errors = share_errors(np.ones((2, 1)), np.array([5.0, 9.0]), std=3.0, known_totals=known)
        assert errors.tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize(
    "bad", [[1.0], [[1.0, 2.0]], [1.0, -1.0], [1.0, math.nan], [1.0, math.inf]]
)
def test_bad_counts_are_named(bad: object) -> None:
    """The right shape, finite, at least 0."""
    with pytest.raises(InvalidParameterError, match="totals must be finite, at least 0, of shape"):
        checked_counts("totals", bad, (2,))  # type: ignore[arg-type]  # wrong on purpose
    assert checked_counts("totals", [0.0, 1.0], (2,)).tolist() == [0.0, 1.0]
