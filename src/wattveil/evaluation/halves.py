"""The only module of `evaluation` that draws lots for the table: who is in which half.

No noise, nothing is released.
"""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def draw_rows(seed: int, repeat: int, n_rows: int) -> Ints:
    """Return all row numbers in an order that seed and repeat decide."""
    return np.random.default_rng([seed, repeat]).permutation(n_rows)
