"""Factors of standard errors: wide for clusters that may be empty, and where bias dominates."""

import numpy as np
import pytest

from wattveil.numerics.kmeans import kmeans_tuning
from wattveil.numerics.kmeans.band_calibration import band_factors


@pytest.mark.parametrize("is_shape", [True, False])
def test_factors_at_the_measured_counts(*, is_shape: bool) -> None:
    """By hand: the table times the term for bias; constant below the first count."""
    table, bias_at = (
        (kmeans_tuning.SHAPE_BAND_FACTORS, kmeans_tuning.SHAPE_BIAS_AT)
        if is_shape
        else (kmeans_tuning.LOAD_BAND_FACTORS, kmeans_tuning.LOAD_BIAS_AT)
    )
    known = np.array(kmeans_tuning.BAND_COUNTS)
    found = band_factors(7.0 * known, np.full(known.size, 7.0), is_shape=is_shape)
    by_hand = [g * (1.0 + (s / bias_at) ** 2) ** 0.5 for g, s in zip(table, known, strict=True)]
    assert found == pytest.approx(by_hand)
    empty = band_factors(np.array([-3.0, 0.0]), np.ones(2), is_shape=is_shape)
    assert empty == pytest.approx([table[0]] * 2)


def test_bias_does_not_vanish_with_the_noise() -> None:
    """The factor grows as the count in standard errors does, so that their ratio has a floor."""
    known = np.array([1e3, 1e4, 1e5])
    factors = band_factors(known, np.ones(3), is_shape=False)
    floor = kmeans_tuning.LOAD_BAND_FACTORS[-1] / kmeans_tuning.LOAD_BIAS_AT
    assert factors / known == pytest.approx([floor] * 3, rel=1e-2)
