"""The only module of `reproduce` that makes a source of random numbers. No noise of a release.

Everything drawn here is looked at in a figure and never published, so it may repeat: a seed and a
name give the same draws every time.
"""

import zlib

import numpy as np

Lots = np.random.Generator


def lots(seed: int, name: str) -> Lots:
    """Return a source of its own for each name: a figure is the same whatever is drawn before."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])
