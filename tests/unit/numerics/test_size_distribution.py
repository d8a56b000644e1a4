"""Log-normals behind noisy size counts."""

import numpy as np
import pytest
from scipy.stats import norm

from wattveil.numerics.size_distribution import fit_log_normal, log_normals

LOG_EDGES = np.log(0.04) + np.arange(15) * np.log(1.6)


def counts_of(median: float, spread: float, customers: float) -> np.ndarray:
    """Return exact counts of the size cells."""
    below = norm.cdf((LOG_EDGES - median) / spread)
    counts: np.ndarray = customers * np.diff(below, prepend=0.0, append=1.0)
    return counts


@pytest.mark.parametrize(("median", "spread"), [(-0.7, 0.6), (0.3, 0.4), (-1.5, 0.9)])
def test_a_log_normal_is_found(median: float, spread: float) -> None:
    """Without noise the fit is exact, within a step of the grid."""
    found = fit_log_normal(counts_of(median, spread, 5000.0), LOG_EDGES, 0.01)
    assert found == pytest.approx((median, spread, 5000.0), rel=0.15, abs=0.05)


def test_a_second_count_decides_when_sizes_are_noise() -> None:
    """With uninformative sizes, the number of customers is the separate count."""
    nothing = np.zeros(LOG_EDGES.size + 1)
    found = log_normals(nothing, LOG_EDGES, std=1e6, counted=(700.0, 1.0))
    assert found.total == pytest.approx(np.full_like(found.total, 700.0), rel=1e-3)
    assert found.total_std == pytest.approx(np.ones_like(found.total), rel=1e-3)
