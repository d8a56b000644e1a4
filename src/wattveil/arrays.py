"""Types of arrays: one name per element type, for the whole tree."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Labels = NDArray[np.int32]
"""The cluster of each point."""
Texts = NDArray[np.object_]
"""Python strings, as Arrow and the engines return them."""
Names = NDArray[np.bytes_]
"""Keyed hashes of customer ids, as hexadecimal digits."""
