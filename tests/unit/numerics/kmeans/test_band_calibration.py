"""Factors of standard errors: by count, by size, for export, and where bias dominates."""

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.numerics.kmeans import kmeans_tuning
from wattveil.numerics.kmeans.band_calibration import band_factors, sizes_and_exports

SLOTS = 4


def curves(lengths: list[float]) -> Floats:
    """Return flat curves of these lengths."""
    return np.outer(lengths, np.full(SLOTS, SLOTS**-0.5))


@pytest.mark.parametrize("is_shape", [True, False])
def test_factors_at_the_measured_counts(*, is_shape: bool) -> None:
    """By hand: the table times the term for bias; constant below the first count."""
    table, bias_at, of_feature = (
        (
            kmeans_tuning.SHAPE_BAND_FACTORS,
            kmeans_tuning.SHAPE_BIAS_AT,
            1.0,
        )
        if is_shape
        else (
            kmeans_tuning.LOAD_BAND_FACTORS,
            kmeans_tuning.LOAD_BIAS_AT,
            np.interp(1.0, kmeans_tuning.BAND_SIZES, kmeans_tuning.SIZE_BAND_FACTORS),
        )
    )
    known = np.array(kmeans_tuning.BAND_COUNTS)
    centres = curves([1.0] * known.size)
    found = band_factors(centres, 7.0 * known, np.full(known.size, 7.0), is_shape=is_shape)
    by_hand = [g * (1.0 + (s / bias_at) ** 2) ** 0.5 for g, s in zip(table, known, strict=True)]
    assert found == pytest.approx(np.array(by_hand) * of_feature)
    empty = band_factors(centres[:2], np.array([-3.0, 0.0]), np.ones(2), is_shape=is_shape)
    assert empty == pytest.approx([table[0] * of_feature] * 2)


def test_sizes_are_in_mean_sizes_and_export_widens() -> None:
    """The mean is weighted by counts; a curve below 0 has the factor of export besides."""
    centres = curves([1.0, 3.0, 3.0])
    centres[2, 0] *= -1.0
    counts = np.array([50.0, 25.0, 25.0])
    sizes, exports = sizes_and_exports(centres, counts)
    assert sizes == pytest.approx([0.5, 1.5, 1.5])
    assert exports.tolist() == [False, False, True]
    found = band_factors(centres, counts, np.ones(3), is_shape=False)
    assert found[2] / found[1] == pytest.approx(kmeans_tuning.EXPORT_BAND_FACTOR)
    shapes = band_factors(centres, counts, np.ones(3), is_shape=True)
    assert shapes[2] == shapes[1]


def test_nothing_released_is_no_error() -> None:
    """Counts and curves of 0 have finite factors."""
    for is_shape in (True, False):
        found = band_factors(np.zeros((2, SLOTS)), np.zeros(2), np.ones(2), is_shape=is_shape)
        assert np.isfinite(found).all()


def test_bias_does_not_vanish_with_the_noise() -> None:
    """The factor grows as the count in standard errors does, so that their ratio has a floor."""
    known = np.array([1e3, 1e4, 1e5])
    factors = [
        band_factors(curves([1.0]), np.array([one]), np.ones(1), is_shape=False)[0] for one in known
    ]
    of_size = np.interp(1.0, kmeans_tuning.BAND_SIZES, kmeans_tuning.SIZE_BAND_FACTORS)
    floor = of_size * kmeans_tuning.LOAD_BAND_FACTORS[-1] / kmeans_tuning.LOAD_BIAS_AT
    assert np.array(factors) / known == pytest.approx([floor] * 3, rel=1e-2)
