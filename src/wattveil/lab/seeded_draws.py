"""Seeded random draws of internal experiments: assignment, splits and planted customers.

Nothing here is noise of a release. Results are internal and never published, so a plain seeded
generator, which makes an experiment repeatable, is the right source.
"""

import zlib

import numpy as np
from numpy.typing import NDArray

from wattveil.arrays import Floats, Ints

Generator = np.random.Generator

_OUTLIER_LEVEL = 20.0
_STREAM = 8_023
"""Separates this stream from every other seeded generator of the package."""


class RandomAssignment:
    """Random assignment of customers: who is included, in which order, and planted outliers.

    Parameters
    ----------
    seed
        Makes an experiment repeatable; it protects nothing.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng([seed, _STREAM])

    def fair_coins(self, count: int) -> NDArray[np.bool_]:
        """Return independent fair coin flips."""
        return self._generator.random(count) < 0.5  # noqa: PLR2004 - fair

    def order(self, count: int) -> Ints:
        """Return 0 to count - 1 in random order."""
        return self._generator.permutation(count)

    def planted_outliers(self, load_kw: Floats, count: int) -> Floats:
        """Return customers of about 20 times the mean load: half normal, half gamma."""
        level, columns = _OUTLIER_LEVEL * load_kw.mean(), load_kw.shape[1]
        half = count // 2
        normal = self._generator.normal(level, 0.5 * level, (half, columns))
        gamma = self._generator.gamma(2.0, level / 2.0, (count - half, columns))
        return np.vstack([normal, gamma])


def shuffled_rows(seed: int, repeat: int, n_rows: int) -> Ints:
    """Return all row numbers in an order that is determined by seed and repeat."""
    return np.random.default_rng([seed, repeat]).permutation(n_rows)


def named_generator(seed: int, name: str) -> Generator:
    """Return a generator that is determined by seed and name, whatever was drawn before."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])
