"""The series mechanism in floating point with NumPy's noise: for benchmarks only, never released.

Innovations, error feedback and odometer as in the kernel, vectorised over customers.
"""

import math

import numpy as np

from wattveil.arrays import Floats, Ints
from wattveil.numerics.series.strategy import Strategy


class FloatSeries:
    """Noisy sums of innovations over periods, for customers in cells.

    Parameters
    ----------
    strategy
        Public.
    rho
        Budget of all periods together.
    customers, width
        Number of customers, of coordinates of their values.
    """

    def __init__(
        self,
        strategy: Strategy,
        *,
        rho: float,
        customers: int,
        width: int,
        generator: np.random.Generator,
    ) -> None:
        self._strategy, self._generator = strategy, generator
        self.sums_std = math.sqrt(strategy.allowances[-1] / (2.0 * rho))
        self._given = np.zeros((strategy.horizon, customers, width))
        self.used = np.zeros(customers)
        self.period = 0

    def add(self, values: Floats, cells: Ints, n_cells: int) -> Floats:
        """Return the noisy sums (cells, width) of one period; values are 0 for the absent."""
        t, given = self.period, self._given
        row = self._strategy.feedback[t]
        known = np.tensordot(row[:t], given[:t], axes=1) if t else 0.0
        wanted = (values - known) / row[t]
        room = np.maximum(self._strategy.allowances[t] - self.used, 0.0)
        squares = np.square(wanted).sum(axis=1)
        given[t] = wanted * np.minimum(1.0, np.sqrt(room / np.maximum(squares, 1e-300)))[:, None]
        self.used += np.minimum(squares, room)
        self.period += 1
        exact = np.stack([np.bincount(cells, column, n_cells) for column in given[t].T], axis=1)
        return exact + self._generator.normal(0.0, self.sums_std, exact.shape)
