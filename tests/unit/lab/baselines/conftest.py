"""Customers that any clustering must find, and generators."""

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.lab.baselines.baseline_interface import PublicChoices

CORNERS = np.array([[1.0, 1.0], [9.0, 1.0], [1.0, 9.0], [9.0, 9.0]])


@pytest.fixture
def blobs() -> Floats:
    """Return 400 customers of two slots in four far clusters."""
    generator = np.random.default_rng(7)
    return np.repeat(CORNERS, 100, axis=0) + 0.3 * generator.standard_normal((400, 2))


@pytest.fixture
def public() -> PublicChoices:
    """Return bounds that hold them all."""
    return PublicChoices(
        n_clusters=4,
        n_customers=400,
        low_kw=np.zeros(2),
        high_kw=np.full(2, 10.0),
        clip_kw=10.0,
        typical_kw=7.0,
        centre_kw=np.full(2, 5.0),
        spread_kw=12.0,
    )
