"""Clip radii and the maximum clipping bias, from size counts."""

import math

import numpy as np
import pytest

from wattveil.errors import InvalidParameterError
from wattveil.numerics.groups.group_sizes import checked_limits, expected_counts, read_sizes

CLIP, EDGES = checked_limits(2.0, None, (0.04, 40.0))


def test_size_cells_end_at_the_plausible_sizes() -> None:
    """The last bound is the largest plausible size, so a clip up to it has customers above it."""
    assert EDGES[[0, -1]] == pytest.approx([0.04, 40.0])
    ratios = EDGES[1:] / EDGES[:-1]
    assert ratios == pytest.approx(np.full(ratios.shape, 1.6), rel=0.1)
    assert checked_limits(None, None, (1.0, 4.0))[0] == (0.0, math.inf)


@pytest.mark.parametrize("clip_kw", [0.02, 50.0])
def test_a_clip_outside_the_range_is_refused(clip_kw: float) -> None:
    """The number of customers above it would be unknown."""
    with pytest.raises(
        InvalidParameterError, match=r"clip_kw must be within plausible_kw, 0\.04 to"
    ):
        checked_limits(clip_kw, None, (0.04, 40.0))


@pytest.mark.parametrize(("clip_kw", "max_clip_kw"), [(2.0, 3.0), (None, 0.0), (None, 1e-10)])
def test_a_bound_on_the_clip_is_a_size_and_stands_alone(
    clip_kw: float | None, max_clip_kw: float
) -> None:
    """Beside a clip there is nothing to choose; below 1e-9 kW arithmetic is not safe."""
    with pytest.raises(InvalidParameterError, match=r"max_clip_kw must be"):
        checked_limits(clip_kw, max_clip_kw, (0.04, 40.0))


def test_a_clip_is_chosen_up_to_its_bound() -> None:
    """Each group's own choice below the bound, else the bound, with the share of those above."""
    number = np.array([5000.0, 5000.0])
    typical = np.array([0.5, 8.0])
    counts = np.vstack(
        [expected_counts(number[:1], EDGES, typical_kw=kw, log_std=0.5) for kw in typical.tolist()]
    )
    free, bound = (
        read_sizes(
            (counts, 0.1),
            (number, 0.1),
            EDGES,
            sums_std=1.0,
            within=checked_limits(None, highest, (0.04, 40.0))[0],
        )
        for highest in (None, 10.0)
    )
    assert free.radii[1] > 10.0
    assert bound.radii.tolist() == [free.radii[0], 10.0]
    assert bound.clipped_share[1] == pytest.approx(0.33, abs=0.03)  # above 10 kW, of a normal
    assert bound.correction[1] > free.correction[1]


def test_the_share_above_a_clip_is_that_of_the_sizes() -> None:
    """Of log-normal sizes, whatever the clip within the range, up to its very end."""
    number = np.array([5000.0])
    counts = expected_counts(number, EDGES, typical_kw=1.0, log_std=1.2)
    for clip_kw, share in ((1.0, 0.5), (3.32, 0.1587), (40.0, 0.001)):
        sizes = read_sizes(
            (counts, 0.1), (number, 0.1), EDGES, sums_std=1.0, within=(clip_kw, clip_kw)
        )
        assert sizes.clipped_share == pytest.approx([share], abs=0.02)


def test_maximum_clipping_bias() -> None:
    """By hand: customers times the excess of their cell over the clip, and the noise of the sum."""
    counts = np.zeros((1, EDGES.size + 1))
    counts[0, -2:] = 3.0, 2.0  # below 40 kW, and above: taken for 40 kW
    number = np.array([5.0])
    sizes = read_sizes((counts, 0.01), (number, 0.01), EDGES, sums_std=1.0, within=CLIP)
    assert sizes.max_clipping_bias * sizes.customers == pytest.approx([5.0 * 38.0], rel=0.02)
    noisy = read_sizes((counts, 4.0), (number, 0.01), EDGES, sums_std=1.0, within=CLIP)
    assert noisy.max_clipping_bias == pytest.approx([38.0])  # no customer is clipped by more
    counts[0, 0], number = 5000.0, number + 5000.0  # below the clip
    noisy = read_sizes((counts, 4.0), (number, 0.01), EDGES, sums_std=1.0, within=CLIP)
    exceeds = np.append(EDGES, 40.0)[np.append(EDGES, 40.0) > 2.0] - 2.0
    expected = 5.0 * 38.0 + 1.96 * 4.0 * np.sqrt(np.square(exceeds).sum())
    assert noisy.max_clipping_bias * noisy.customers == pytest.approx([expected])
