"""Customers that are planted to be looked for, and the lots that decide which of them are there.

No noise and nothing that is released: a plain seeded generator is right for it.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_GIANT_KW = 1e6
_OUTLIER_LEVEL = 20.0
_STREAM = 8_023
"""No other generator of the package begins here: coins have nothing to do with a release's own."""


class Lots:
    """Draws coins and customers; the same seed gives the same ones.

    Parameters
    ----------
    seed
        Repeats an experiment, protects nobody.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng([seed, _STREAM])

    def coins(self, count: int) -> NDArray[np.bool_]:
        """Toss fair coins."""
        return self._generator.random(count) < 0.5  # noqa: PLR2004 - fair

    def order(self, count: int) -> NDArray[np.int64]:
        """Return 0 to count - 1 in random order."""
        return self._generator.permutation(count)

    def planted_outliers(self, load_kw: Floats, count: int) -> Floats:
        """Return customers of about twenty times the mean load: half normal ones, half gamma."""
        level, columns = _OUTLIER_LEVEL * load_kw.mean(), load_kw.shape[1]
        half = count // 2
        normal = self._generator.normal(level, 0.5 * level, (half, columns))
        gamma = self._generator.gamma(2.0, level / 2.0, (count - half, columns))
        return np.vstack([normal, gamma])


def giant(columns: int) -> Floats:
    """Return the worst customer for a clipped sum: clipped in every ask, so at the full bound.

    The digits of its readings are its own: a copy of one of them gives it away.
    """
    return _GIANT_KW + np.pi * np.arange(1.0, columns + 1.0)
