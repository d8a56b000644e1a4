"""The model of a population of customers: what is published, and sampled by anyone for free.

A customer of cluster k has normal scores z with the cluster's correlations; slot h has load
``x = g_k(m_kh + sigma_kh u_h(z_h))``, with g_k the inverse of the cluster's transform and u_h the
map of the slot's margin. Nothing here knows a real customer: the model is made of released numbers.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self, get_args

import numpy as np

from wattveil import checks
from wattveil.clustering._kernels import Counts, Floats
from wattveil.compiled import compiled, over_spans
from wattveil.errors import InvalidParameterError
from wattveil.synthesis.coordinates import Coordinates, TransformName
from wattveil.synthesis.margins import expected_sizes, quantile_maps

BATCH = 65_536
"""Customers drawn at a time. Each span of a batch has a random stream of its own, so the sample
depends neither on how it is taken nor on the threads."""
_FARTHEST = 6.0
_POINTS = 601
"""Loads are tabulated at so many scores between -6 and 6 and read by straight lines: 24 million
loads without an exponential among them. 0.02 of a standard deviation apart, the lines are off by
less than 1e-4 of a load, and the tables of six clusters stay in a processor's cache."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticModel:
    """A released model of daily load. Everything in it may be published."""

    transform: TransformName
    alpha_kw: float
    n_days: int
    """Days in a row; the slots of a day are the columns of ``means`` over it."""
    centroids: Floats
    """(K, d), in kW."""
    means: Floats
    """(K, d), after the transform."""
    covariances: Floats
    """(K, d, d), after the transform."""
    margins: Floats
    """(cosines, waves)"""
    customers: Floats
    """(K,): released customers of each cluster."""
    exports: Counts
    """(K,): 1 where customers with negative load were found; elsewhere no load is below 0."""
    most_kw: float
    """No customer's root-mean-square load is larger."""

    def sample(
        self, n_customers: int, *, seed: int, by: Sequence[float] | None = None
    ) -> tuple[Floats, Counts]:
        """Draw customers; return their load in kW, one row each, and their clusters.

        Parameters
        ----------
        n_customers : int
            Exactly so many rows come back.
        seed : int
            The same model and seed give the same customers.
        by : K weights or None
            The mix of clusters; None takes the released one. Numbers of customers follow it to
            within one.
        """
        load_kw = np.empty((checks.integer("n_customers", n_customers, least=0), self.n_columns))
        clusters = np.empty(n_customers, dtype=np.int64)
        for first in range(0, n_customers, BATCH):
            own = self._cluster_batch(first, n_customers, seed=seed, by=by)
            clusters[first : first + own.size] = own
            self._draw(own, seed, first, load_kw[first : first + own.size])
        return load_kw, clusters

    def batches(
        self, n_customers: int, *, seed: int, by: Sequence[float] | None = None
    ) -> Iterator[tuple[Floats, Counts]]:
        """Yield what `sample` returns in parts, in memory that does not grow."""
        for number in range(n_batches(n_customers)):
            yield self.batch(number, n_customers, seed=seed, by=by)

    def batch(
        self, number: int, n_customers: int, *, seed: int, by: Sequence[float] | None = None
    ) -> tuple[Floats, Counts]:
        """Return one batch of what `sample` returns; each can be drawn without the others."""
        first = number * BATCH
        own = self._cluster_batch(first, n_customers, seed=seed, by=by)
        load_kw = np.empty((own.size, self.n_columns))
        self._draw(own, seed, first, load_kw)
        return load_kw, own

    @property
    def n_columns(self) -> int:
        """How many slots a customer has: d."""
        return int(self.means.shape[1])

    def to_dict(self) -> dict[str, Any]:
        """Return the model as JSON has it."""
        return {
            field.name: value.tolist() if isinstance(value, np.ndarray) else value
            for field in fields(self)
            for value in (getattr(self, field.name),)
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote; refuse what is no model."""
        names = {field.name for field in fields(cls)}
        if set(found) != names:
            odd = sorted(names.symmetric_difference(found))
            raise InvalidParameterError("model", f"with the fields {sorted(names)}", odd)
        plain = {"transform", "alpha_kw", "n_days", "most_kw"}
        values = {name: found[name] for name in plain}
        for name in names - plain:
            values[name] = checks.numbers(name, found[name])
        if not np.isin(values["exports"], (0.0, 1.0)).all():
            raise InvalidParameterError("exports", "0 or 1 for each cluster", "others")
        values["exports"] = values["exports"].astype(np.int64)
        model = cls(**values)
        model._check()
        return model

    def _check(self) -> None:
        """Refuse numbers that are no model."""
        if self.transform not in get_args(TransformName):
            rule = f"one of {get_args(TransformName)}"
            raise InvalidParameterError("transform", rule, self.transform)
        checks.positive("alpha_kw", self.alpha_kw)
        checks.positive("most_kw", self.most_kw)
        n_columns = checks.columns("means", self.means)
        if n_columns % checks.integer("n_days", self.n_days, least=1):
            raise InvalidParameterError("n_days", "a divisor of the columns", self.n_days)
        n_clusters = len(self.means)
        shapes = {
            "means": (n_clusters, n_columns),
            "centroids": (n_clusters, n_columns),
            "covariances": (n_clusters, n_columns, n_columns),
            "margins": expected_sizes(n_columns // self.n_days).shape,
            "customers": (n_clusters,),
            "exports": (n_clusters,),
        }
        for name, shape in shapes.items():
            value = getattr(self, name)
            if value.shape != shape or not np.isfinite(value).all():
                rule = f"finite numbers of shape {shape}"
                raise InvalidParameterError(name, rule, f"shape {value.shape}")
        if (self.customers < 0.0).any():
            raise InvalidParameterError("customers", "at least 0", self.customers.tolist())
        if np.linalg.eigvalsh(self.covariances).min() <= 0.0:
            raise InvalidParameterError("covariances", "positive definite", "others")

    @cached_property
    def _factors(self) -> Floats:
        """(K, d, d): transposes of lower triangles L with L L' the correlations of a cluster."""
        std = np.sqrt(np.einsum("kii->ki", self.covariances))
        lower = np.linalg.cholesky(self.covariances / (std[:, :, None] * std[:, None, :]))
        return np.ascontiguousarray(lower.transpose(0, 2, 1))

    @cached_property
    def _tables(self) -> Floats:
        """(K, d, points): load in kW of each slot at each score."""
        z = np.linspace(-_FARTHEST, _FARTHEST, _POINTS)
        maps = np.tile(
            quantile_maps(self.margins, self.n_columns // self.n_days, z), (self.n_days, 1)
        )
        std = np.sqrt(np.einsum("kii->ki", self.covariances))
        coordinates = Coordinates(
            centroids=self.centroids, transform=self.transform, alpha_kw=self.alpha_kw
        )
        tables = np.empty((len(self.means), self.n_columns, _POINTS))
        for k, (mean, spread, exports) in enumerate(
            zip(self.means, std, self.exports, strict=True)
        ):
            load = coordinates.backward(mean[:, None] + spread[:, None] * maps, k)
            tables[k] = load if exports else np.maximum(load, 0.0)
        return tables

    def _mix(self, by: Sequence[float] | None) -> Floats:
        """Return the weights of the clusters."""
        weights = self.customers if by is None else checks.numbers("by", by)
        fits = weights.shape == self.customers.shape and bool(np.isfinite(weights).all())
        if not fits or (weights < 0.0).any():
            rule = f"{self.customers.size} weights of at least 0"
            raise InvalidParameterError("by", rule, np.shape(weights))
        total = float(weights.sum())
        return weights / total if total > 0.0 else np.full(weights.size, 1.0 / weights.size)

    def _cluster_batch(
        self, first: int, n_customers: int, *, seed: int, by: Sequence[float] | None
    ) -> Counts:
        """Return the clusters of the customers of the batch that begins at this place."""
        checks.integer("seed", seed, least=0)
        ends = np.cumsum(_apportion(n_customers, self._mix(by)))
        # A stride coprime to n visits every place once: clusters are mixed, and exact in all.
        rows = np.arange(first, min(first + BATCH, n_customers), dtype=np.int64)
        places = rows * _stride(n_customers) % n_customers
        return np.searchsorted(ends, places, side="right").astype(np.int64)

    def _draw(self, clusters: Counts, seed: int, batch: int, load_kw: Floats) -> None:
        """Fill the load of the customers of one batch."""
        factors, tables = self._factors, self._tables  # made once, before threads want them
        longest = self.most_kw * math.sqrt(self.n_columns)

        def draw(span: int, first: int, last: int) -> None:
            stream = np.random.SeedSequence(seed, spawn_key=(batch, span))
            own = load_kw[first:last]
            np.random.Generator(np.random.SFC64(stream)).standard_normal(out=own)
            _load_of_scores(own, clusters[first:last], factors, tables, longest)

        over_spans(clusters.size, draw)


def n_batches(n_customers: int) -> int:
    """Return in how many batches so many customers are drawn."""
    return -(-checks.integer("n_customers", n_customers, least=0) // BATCH)


def _apportion(n_customers: int, weights: Floats) -> Counts:
    """Return whole numbers that add up to n and follow the weights: largest remainders first."""
    exact = n_customers * weights
    whole = np.floor(exact).astype(np.int64)
    order = np.argsort(whole - exact, kind="stable")
    whole[order[: n_customers - int(whole.sum())]] += 1
    return whole


def _stride(n: int) -> int:
    """Return a step coprime to n, near its golden section; its multiples stay below 2^63."""
    step = max(1, min(round(0.618033988749895 * n), 2**20 + 7))
    while math.gcd(step, n) > 1:
        step += 1
    return step


@compiled
def _load_of_scores(
    scores: Floats, clusters: Counts, factors: Floats, tables: Floats, longest: float
) -> None:
    """Turn independent normal scores into load, in place."""
    d = scores.shape[1]
    middle = 0.5 * (tables.shape[2] - 1)
    steps = middle / _FARTHEST
    most = 2.0 * middle - 1e-9  # below the last entry: its cell has a right end
    z = np.empty(d)
    for i in range(scores.shape[0]):
        k = clusters[i]
        z[:] = 0.0
        for j in range(d):  # z = L e by columns of L: additions of one slot do not wait for another
            score = scores[i, j]
            for h in range(d):
                z[h] += factors[k, j, h] * score
        squares = 0.0
        for h in range(d):
            place = min(max(z[h] * steps + middle, 0.0), most)
            cell = int(place)
            left = tables[k, h, cell]
            load = left + (place - cell) * (tables[k, h, cell + 1] - left)
            scores[i, h] = load
            squares += load * load
        if squares > longest * longest:
            for h in range(d):
                scores[i, h] *= longest / math.sqrt(squares)
