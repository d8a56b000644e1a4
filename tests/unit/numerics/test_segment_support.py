"""Which segments the noise supports, by two computations."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattveil.numerics.segment_support import distinguishable_curves, segment_support


def by_hand(
    curves: list[list[float]], stds: list[list[float]], counts: list[float], errors: list[float]
) -> list[bool]:
    """Return the distinguishable segments by loops over slots and pairs, from the definition."""
    total = [sum(std * std for std in row) for row in stds]
    order = sorted(range(len(curves)), key=lambda place: (total[place], place))
    kept: list[int] = []
    for one in order:
        if counts[one] <= errors[one]:
            continue
        ratios = []
        for other in kept:
            apart = math.dist(curves[one], curves[other])
            ratios.append(apart > 2.0 * math.sqrt(total[one] + total[other]))
        if all(ratios):
            kept.append(one)
    kept = kept or order[:1]
    return [place in kept for place in range(len(curves))]


@st.composite
def released(
    draw: st.DrawFn,
) -> tuple[list[list[float]], list[list[float]], list[float], list[float]]:
    """Return curves, standard errors, counts and their errors: eighths, so that sums are exact."""
    segments, slots = draw(st.integers(1, 6)), draw(st.integers(1, 4))

    def rows(low: int, high: int, width: int) -> list[list[float]]:
        number = st.integers(low, high).map(lambda eighths: eighths / 8.0)
        row = st.lists(number, min_size=width, max_size=width)
        return draw(st.lists(row, min_size=segments, max_size=segments))

    return (
        rows(-40, 40, slots),
        rows(1, 12, slots),
        [row[0] for row in rows(0, 800, 1)],
        [row[0] for row in rows(1, 200, 1)],
    )


@given(released())
def test_flags_follow_from_the_definition(
    tables: tuple[list[list[float]], list[list[float]], list[float], list[float]],
) -> None:
    """Arrays and loops agree, and at least one segment is distinguishable."""
    curves, stds, counts, errors = tables
    arrays = map(np.array, (curves, stds, counts, errors))
    found = segment_support(*arrays)
    assert found.curve.tolist() == by_hand(curves, stds, counts, errors)
    assert found.size.tolist() == [
        count > 2.0 * error for count, error in zip(counts, errors, strict=True)
    ]
    assert found.curve.any()


def flags(distances: list[float], stds: list[float], counts: list[float]) -> list[bool]:
    """Return the flags of flat curves of one slot, with counts that have a standard error of 1."""
    curves, variance = np.array(distances)[:, None], np.square(stds)
    found = distinguishable_curves(curves, variance, np.array(counts), np.ones(len(counts)))
    return [bool(flag) for flag in found]


@pytest.mark.parametrize(
    ("distances", "stds", "counts", "due"),
    [
        ([0.0, 5.0, 10.0], [0.1, 0.1, 0.1], [9.0, 9.0, 9.0], [True, True, True]),
        # 2 sqrt(1 + 1) = 2.83: just above, and just below.
        ([0.0, 2.84], [1.0, 1.0], [9.0, 9.0], [True, True]),
        ([0.0, 2.82], [1.0, 1.0], [9.0, 9.0], [True, False]),
        # Of two curves that agree, the more certain counts.
        ([0.0, 0.0, 9.0], [0.2, 0.1, 0.1], [9.0, 9.0, 9.0], [False, True, True]),
        # A curve that may be any of the others takes nothing from them.
        ([0.0, 5.0, 10.0], [0.1, 40.0, 0.1], [9.0, 9.0, 9.0], [True, False, True]),
        # What may be empty does not count, unless all may be.
        ([0.0, 5.0, 10.0], [0.1, 0.1, 0.1], [9.0, 0.9, 9.0], [True, False, True]),
        ([0.0, 5.0], [0.2, 0.1], [0.5, 0.5], [False, True]),
        ([3.0], [9.0], [0.0], [True]),
    ],
)
def test_cases_by_hand(
    distances: list[float], stds: list[float], counts: list[float], due: list[bool]
) -> None:
    """Each rule of the definition decides one case."""
    assert flags(distances, stds, counts) == due
