"""The queries of the global tier without an integer grid, to measure the cost of the grid.

Sums are floating point and the noise is NumPy's: for benchmarks only, never for a release.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from wattveil.arrays import Floats
from wattveil.numerics.kmeans.kmeans_stages import Cells, Statistics
from wattveil.privacy import accounting
from wattveil.privacy.guarantee import Spend
from wattveil.privacy.mechanisms.gaussian import PrivateTable
from wattveil.privacy.noise import NoiseSource
from wattveil.release import kmeans
from wattveil.release.rows import load_features


@contextmanager
def without_grid(generator: np.random.Generator) -> Iterator[None]:
    """Let releases inside the block query without grid, with noise from a generator."""
    with mock.patch.object(kmeans, "KMeansQueries", partial(FloatQueries, generator=generator)):
        yield


@contextmanager
def with_noise_of(seed: int) -> Iterator[None]:
    """Let queries of the same tag have the same noise in every release inside such a block."""

    class SeededQueries(FloatQueries):
        def _noisy(self, exact: Floats, rho_units: int, tag: str) -> tuple[Floats, float]:
            self._generator = np.random.default_rng([seed, *tag.encode()])
            return super()._noisy(exact, rho_units, tag)

    queries = partial(SeededQueries, generator=np.random.default_rng(seed))
    with mock.patch.object(kmeans, "KMeansQueries", queries):
        yield


@contextmanager
def grid_with_noise_of(generator: np.random.Generator) -> Iterator[None]:
    """Let releases inside the block keep the grid, with a generator's noise rounded to it.

    With the same seed as `without_grid` both have the same noise, up to the rounding.
    """

    def rounded(_: NoiseSource, scale: float, size: int) -> NDArray[np.int64]:
        return np.rint(scale * generator.standard_normal(size)).astype(np.int64)

    with mock.patch.object(NoiseSource, "discrete_gaussian", rounded):
        yield


class FloatQueries:
    """The queries of `wattveil.release.queries.KMeansQueries`, in the same order."""

    def __init__(
        self,
        load_kw: PrivateTable[Floats],
        *,
        basis: Floats,
        normalise: bool,
        longest: float,
        generator: np.random.Generator,
    ) -> None:
        (load,) = load_kw._rows._joined()  # noqa: SLF001 - of `LocalRows`, in a benchmark
        rows, has_data = load_features.project_rows(
            load, basis=basis, normalise=normalise, longest=longest
        )
        self._rows = np.ascontiguousarray(rows[has_data])
        self._budget = load_kw._budget  # noqa: SLF001 - in a benchmark
        self._generator = generator

    def keep_coordinates(self, coordinates: int) -> None:
        """Query the first coordinates only from now on."""
        self._rows = np.ascontiguousarray(self._rows[:, :coordinates])

    def customers(self, *, rho_units: int) -> tuple[float, float]:
        """Return the noisy number of customers and its standard deviation."""
        counted, std = self._noisy(np.array([float(len(self._rows))]), rho_units, "customers")
        return float(counted[0]), std

    def sizes(self, edges: Floats, *, coordinates: int, rho_units: int) -> tuple[Floats, float]:
        """Return a noisy histogram of sizes and its standard deviation."""
        (cells,) = load_features.size_cells(self._rows, edges=edges, coordinates=coordinates)
        return self._noisy(np.bincount(cells, minlength=edges.size + 1), rho_units, "sizes")

    def costs(self, centroids: Floats, features: Floats, *, rho_units: int) -> Floats:
        """Return the noisy sum of the clipped features of the customers' costs."""
        _, found = load_features.cost_features(self._rows, centroids=centroids, features=features)
        found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1.0)
        return self._noisy(found.sum(axis=0), rho_units, "merge selection")[0]

    def step(
        self,
        cells: Cells,
        *,
        colour: Floats,
        shells: tuple[float, ...],
        rho_units: tuple[int, int],
        tag: str,
    ) -> Statistics:
        """Return the noisy counts and sums of clipped offsets of each cell."""
        n_cells, columns = cells.centres.shape
        labels, offset, cell_and_shell = load_features.nearest_offsets(
            self._rows,
            centres=cells.centres,
            radii=cells.radii,
            colour=colour,
            shells=np.array(shells),
        )
        offset /= np.maximum(np.linalg.norm(offset, axis=1, keepdims=True), 1.0)
        exact = np.stack([np.bincount(labels, column, n_cells) for column in offset.T], axis=1)
        for_counts, for_sums = rho_units
        sums, sums_std = self._noisy(exact.ravel(), for_sums, f"{tag}: offsets")
        counted = np.bincount(cell_and_shell, minlength=n_cells * (len(shells) + 1))
        counts, counts_std = self._noisy(counted, for_counts, f"{tag}: counts")
        return Statistics(
            counts=counts.reshape(n_cells, -1),
            counts_std=counts_std,
            sums=sums.reshape(n_cells, columns),
            sums_std=sums_std,
        )

    def _noisy(self, exact: Floats, rho_units: int, tag: str) -> tuple[Floats, float]:
        self._budget.charge(Spend(tag=tag, mechanism="floating point", rho_units=rho_units))
        std = 1.0 / np.sqrt(2.0 * rho_units / accounting.RHO_UNITS)
        return exact + std * self._generator.standard_normal(exact.size), float(std)
