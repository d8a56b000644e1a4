"""Private whole numbers in [0, n): cluster labels and the cells of a table."""

import numpy as np

from wattveil import checks
from wattveil.errors import InvalidDataError
from wattveil.privacy.secret import Secret
from wattveil.privacy.sensitivity import IntArray

NO_DATA = -1
"""The cell of a customer who is on the list without data (the zero-out neighbour)."""


def check_cells(cells: Secret[IntArray], n_cells: int, *, field: str = "cells") -> IntArray:
    """Return the cells; refuse, in house, any outside [0, n_cells) that is not `NO_DATA`."""
    checks.integer(f"n_{field}", n_cells, least=1)
    values = checks.numbers(field, cells.reveal())
    if values.ndim != 1 or (values != np.trunc(values)).any():
        raise InvalidDataError(f"{field} is a vector of whole numbers", [])
    bad = np.flatnonzero((values < NO_DATA) | (values >= n_cells))
    if bad.size:
        raise InvalidDataError(f"{field} between 0 and {n_cells - 1}, or -1", bad.tolist())
    return values.astype(np.int64)
