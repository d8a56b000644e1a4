"""The series mechanism in floating point with NumPy's noise: for benchmarks only, never released.

Innovations, error feedback and odometer as in the kernel, vectorised over customers.
"""

import math

import numpy as np

from wattveil import PrivateKMeans
from wattveil.arrays import Floats, Ints
from wattveil.numerics.kmeans.kmeans_stages import Cells, Statistics
from wattveil.numerics.series.strategy import Strategy
from wattveil.numerics.size_distribution import SizeLevels
from wattveil.privacy import accounting
from wattveil.release.rows import load_features


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


class KeptKMeans(PrivateKMeans):  # type: ignore[misc]  # scikit-learn has no types
    """The release itself, which keeps cells and basis of the released clusters."""

    def _set_released(self, cells: Cells, sizes: SizeLevels, basis: Floats) -> None:
        self.cells_, self.basis_ = cells, basis
        super()._set_released(cells, sizes, basis)


class FloatSteps:
    """Refining steps and sizes of one period, in floating point.

    Parameters
    ----------
    load_kw
        Customers of the period.
    basis
        Of the first period's clusters.
    """

    def __init__(self, load_kw: Floats, basis: Floats, generator: np.random.Generator) -> None:
        rows, there = load_features.project_rows(
            np.ascontiguousarray(load_kw), basis=basis, normalise=True, longest=math.inf
        )
        self._rows, self._generator = np.ascontiguousarray(rows[there]), generator

    def step(
        self,
        cells: Cells,
        /,
        *,
        colour: Floats,
        shells: tuple[float, ...],
        rho_units: tuple[int, int],
        tag: str,  # noqa: ARG002 - of a query
    ) -> Statistics:
        """Return noisy counts and sums of clipped offsets of each cell."""
        n_cells = len(cells.centres)
        labels, offsets, places = load_features.nearest_offsets(
            self._rows,
            centres=cells.centres,
            radii=cells.radii,
            colour=colour,
            shells=np.array(shells),
        )
        offsets /= np.maximum(np.linalg.norm(offsets, axis=1, keepdims=True), 1.0)
        sums = np.stack([np.bincount(labels, column, n_cells) for column in offsets.T], axis=1)
        counts = np.bincount(places, minlength=n_cells * (len(shells) + 1)).reshape(n_cells, -1)
        counts_std, sums_std = (noise_std(units) for units in rho_units)
        return Statistics(
            counts=counts + self._generator.normal(0.0, counts_std, counts.shape),
            counts_std=counts_std,
            sums=sums + self._generator.normal(0.0, sums_std, sums.shape),
            sums_std=sums_std,
        )

    def sizes(
        self,
        centres: Floats,
        /,
        *,
        rho_units: int,
        tag: str,  # noqa: ARG002 - of a query
    ) -> tuple[Floats, float]:
        """Return the noisy number of customers nearest to each centre."""
        apart = np.square(centres).sum(axis=1) - 2.0 * self._rows @ centres.T
        counts = np.bincount(apart.argmin(axis=1), minlength=len(centres))
        std = noise_std(rho_units)
        return counts + self._generator.normal(0.0, std, counts.size), std


def noise_std(rho_units: int) -> float:
    """Return the standard deviation of noise at this cost."""
    return 1.0 / math.sqrt(2.0 * rho_units / accounting.RHO_UNITS)
