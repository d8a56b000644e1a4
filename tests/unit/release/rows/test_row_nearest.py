"""Nearest centroids, offsets and costs of rows, each against a direct computation in NumPy."""

import math

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.kmeans import kmeans_stages as filtering
from wattveil.numerics.kmeans.lloyd import assign
from wattveil.privacy.mechanisms.contributions import NO_DATA
from wattveil.release.rows.load_features import (
    cost_features,
    nearest_cells,
    nearest_centroid,
    nearest_offsets,
    with_nearest,
)

CENTROIDS = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])


@pytest.fixture
def at_centroids() -> Floats:
    """Return one row near each centroid, in their order."""
    return CENTROIDS + 0.25


def nearest(rows: Floats, centroids: Floats = CENTROIDS) -> list[int]:
    """Return the labels as a list."""
    found: list[int] = nearest_centroid(rows, centroids=centroids)[0].tolist()
    return found


def test_missing_values_are_no_data_by_rule(at_centroids: Floats) -> None:
    """NaN or infinity anywhere in a row: no label."""
    rows = np.repeat(at_centroids, [3, 1, 1], axis=0)
    rows[0, 1], rows[1, 0], rows[4, 1] = math.nan, math.inf, -math.inf
    assert nearest(rows) == [NO_DATA, NO_DATA, 0, 1, NO_DATA]


def test_huge_loads_saturate(at_centroids: Floats) -> None:
    """A load of 1e300 kW has a label, and no other label changes."""
    at_centroids[1] = [1e300, 0.0]
    assert nearest(at_centroids) == [0, 1, 2]
    at_centroids[1] = [-1e308, 1e308]
    assert nearest(at_centroids) == [0, 2, 2]


def test_a_label_depends_on_its_own_row_alone() -> None:
    """To the last bit: alone, beside others, in any layout, beside rows without data."""
    generator = np.random.default_rng(3)
    centres = generator.normal(size=(5, 24))
    rows = generator.normal(size=(200, 24))
    rows[:100] = (centres[0] + centres[1]) / 2.0  # on the border, where an ulp decides
    rows[:100] += generator.normal(scale=1e-16, size=(100, 24))
    whole = nearest(rows, centres)
    gaps = np.asfortranarray(rows)
    gaps[::2] = math.nan
    assert nearest(gaps, centres)[1::2] == whole[1::2]
    alone = [nearest(row[None], centres)[0] for row in rows]
    assert alone == whole == assign(rows, centres).tolist()


def test_rows_without_data_are_dropped(at_centroids: Floats) -> None:
    """`with_nearest` returns load and label, and keeps the customers that have one."""
    at_centroids[1, 0] = math.nan
    load, labels, stays = with_nearest(at_centroids, centroids=CENTROIDS)
    assert np.array_equal(load, at_centroids, equal_nan=True)
    assert labels.tolist() == [0, NO_DATA, 2]
    assert stays.tolist() == [True, False, True]


def test_cells_of_groups_and_centroids(at_centroids: Floats) -> None:
    """Group by group, centroid by centroid; without group or data there is no cell."""
    rows = np.repeat(at_centroids, 2, axis=0)
    rows[5, 0] = math.inf
    places = np.array([0, 2, 1, NO_DATA, 3, 0])
    (cells,) = nearest_cells(rows, places, centroids=CENTROIDS)
    assert cells.tolist() == [0, 6, 4, NO_DATA, 11, NO_DATA]


def test_offsets_by_a_plain_loop() -> None:
    """Nearest centre, shell by length, offset in radii and colour: one row at a time."""
    generator = np.random.default_rng(1)
    rows, centres = generator.normal(size=(101, 9)), generator.normal(size=(7, 9))
    radii = generator.uniform(0.5, 2.0, size=7)
    colour, shells = filtering.noise_colour(9, 0.25), np.array([0.5, 1.0, 2.0])
    labels, offsets, cells = nearest_offsets(
        rows[20:101], centres=centres, radii=radii, colour=colour, shells=shells
    )
    for i, row in enumerate(rows[20:]):
        own = int(np.square(centres - row).sum(axis=1).argmin())
        offset = (row - centres[own]) / radii[own] / colour
        assert labels[i] == own
        assert offsets[i] == pytest.approx(offset)
        assert cells[i] == 4 * own + int((np.linalg.norm(offset) >= shells).sum())


def test_cost_features_by_differences_of_squares() -> None:
    """The cost of each row under each set, minus that under the first, times the features."""
    generator = np.random.default_rng(3)
    rows, centroids = generator.normal(size=(101, 9)), generator.normal(size=(4, 3, 9))
    features = generator.normal(size=(4, 2))
    apart = np.square(rows[:, None, None] - centroids).sum(axis=3)
    costs = apart.min(axis=2)
    expected = (costs - costs[:, :1]) @ features
    cells, found = cost_features(rows, centroids=centroids, features=features)
    assert found == pytest.approx(expected)
    assert cells.tolist() == [0] * 101
    # Features that add up to 0 cancel what is common to all sets.
    features -= features.mean(axis=0)
    found = cost_features(rows, centroids=centroids, features=features)[1]
    assert found == pytest.approx(costs @ features)


def test_cost_features_of_a_row_have_the_same_bits_in_any_block() -> None:
    """Alone, in another order, in another block: lemma 1 of the proof of the transcript."""
    generator = np.random.default_rng(4)
    rows, centroids = generator.normal(size=(301, 9)), generator.normal(size=(5, 3, 9))
    features = generator.normal(size=(5, 4))
    found = cost_features(rows, centroids=centroids, features=features)[1]
    order = generator.permutation(301)
    shuffled = cost_features(rows[order], centroids=centroids, features=features)[1]
    assert np.array_equal(shuffled, found[order])
    for i in (0, 7, 63, 64, 300):
        alone = cost_features(rows[i : i + 1], centroids=centroids, features=features)[1]
        assert np.array_equal(alone, found[i : i + 1])


def test_rows_of_another_width_are_refused() -> None:
    """Compiled loops check no bounds: the width is checked before them."""
    rows, ones = np.ones((2, 3)), np.ones(3)
    refused = pytest.raises(InvalidParameterError, match="load_kw must be an array with 2 columns")
    with refused:
        nearest_centroid(rows, centroids=CENTROIDS)
    with refused:
        nearest_offsets(rows, centres=CENTROIDS, radii=ones, colour=ones, shells=ones)
    with refused:
        cost_features(rows, centroids=CENTROIDS[None], features=np.ones((1, 1)))
