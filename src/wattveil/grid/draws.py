"""The only module of `grid` that draws lots: who lives where. No noise, nothing is released."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Urn:
    """Draws customers with replacement; the same seed gives the same draws.

    Parameters
    ----------
    seed
        Of the draws: repeats an experiment, protects nobody.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def shuffled(self, values: Ints) -> Ints:
        """Return the values in random order."""
        return self._generator.permutation(values)

    def customers(self, classes: Ints, wanted: Ints) -> Ints:
        """Return for each house a customer of the class that it wants.

        Parameters
        ----------
        classes : (P,)
            Class of each customer of the pool; each wanted class has one at least.
        wanted : (N,)
            Class of each house.
        """
        by_class = np.argsort(classes, kind="stable")
        count = np.bincount(classes, minlength=int(wanted.max()) + 1)
        first = np.cumsum(count) - count
        chosen = self._generator.integers(0, count[wanted])
        rows: Ints = by_class[first[wanted] + chosen]
        return rows
