"""Extreme customers and degenerate data sets, for tests of every estimator."""

import math

import numpy as np
import pytest

CANARIES = {
    "far above": np.full(24, 1e6),
    "far below": np.full(24, -1e5),
    "nothing": np.zeros(24),
    "spike": np.eye(24)[7] * 3000.0,
    "tiny": np.full(24, 1e-9),
    "too large to square": np.full(24, 1e300),
    "alternating": np.tile([1e9, -1e9], 12),
    "typical": np.full(24, 0.5),
}
"""Load of one customer, kW."""

DATA_SETS = {
    "no customers": np.zeros((0, 24)),
    "one customer": np.ones((1, 24)),
    "all zero": np.zeros((40, 24)),
    "all invalid": np.full((30, 24), math.nan),
    "huge": np.full((3, 24), 1e300),
    "one slot": np.linspace(0.1, 3.0, 50)[:, None],
    "identical": np.ones((50, 2)),
    "export": np.full((20, 96), -2.0),
}
"""Load of all customers, kW."""

every_edge_case = pytest.mark.parametrize("rows", DATA_SETS.values(), ids=DATA_SETS)
