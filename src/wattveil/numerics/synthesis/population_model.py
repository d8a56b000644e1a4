"""Model of a population of customers: its fit from noisy sums, and sampling from it.

Post-processing of released and public numbers; sampling costs no budget. A customer of cluster k
has normal scores z with the correlations of the cluster; slot h has load
``x = g_k(m_kh + sigma_kh u_h(z_h))``, with g_k the inverse of the transform of the cluster and u_h
the quantile map of the margin of the slot.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self, get_args

import numpy as np
from scipy.special import ndtr, ndtri

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.compiled import compiled, over_spans
from wattveil.errors import InvalidParameterError
from wattveil.numerics.size_distribution import fit_log_normal
from wattveil.numerics.synthesis import noisy_moments, synthesis_tuning
from wattveil.numerics.synthesis.coordinates import Coordinates, TransformName
from wattveil.numerics.synthesis.noisy_moments import (
    ClusterMoments,
    NoisyMoments,
    expected_sizes,
    moments_std,
    quantile_maps,
    read_margins,
    read_moments,
)
from wattveil.numerics.synthesis.synthetic_customers import (
    SyntheticCustomers,
    model_chart,
    model_tables,
)
from wattveil.web.curves import Chart
from wattveil.web.results import ChartedResult, ResultTable

BATCH = 65_536
"""Customers drawn at a time. Each span of a batch has a random stream of its own, so the sample
depends neither on how it is taken nor on the threads."""
_FARTHEST = 6.0
_POINTS = 601
"""Loads are tabulated at so many scores between -6 and 6 and read by straight lines: 24 million
loads without an exponential among them. 0.02 of a standard deviation apart, the lines are off by
less than 1e-4 of a load, and the tables of six clusters stay in a processor's cache."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticModel(ChartedResult):
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
    exports: Ints
    """(K,): 1 where customers with negative load were found; elsewhere no load is below 0."""
    max_kw: float
    """No customer's root-mean-square load is larger."""

    def __repr__(self) -> str:
        """Return the numbers of segments and slots, not the arrays."""
        n_segments, n_slots = self.centroids.shape
        return f"SyntheticModel({n_segments} segments, {n_slots} slots; sample(n) draws customers)"

    def sample(
        self,
        n_customers: int,
        *,
        random_state: int | None = None,
        by: Sequence[float] | None = None,
        random_mix: bool = False,
    ) -> SyntheticCustomers:
        """Draw customers; return their load in kW, one row each, and their clusters.

        Drawing is post-processing of the release, and has no privacy cost.

        Parameters
        ----------
        n_customers
            Number of rows returned.
        random_state
            The same model and number give the same customers; None draws new ones.
        by : (K,)
            The mix of clusters; None takes the released one.
        random_mix
            Draw the cluster of each customer by chance, as in a random group of homes. Otherwise
            numbers of customers follow the mix to within one, so that samples of a few homes
            differ less from each other than groups of real homes.
        """
        seed = known_random_state(random_state)
        load_kw = np.empty((checks.integer("n_customers", n_customers, minimum=0), self.n_columns))
        clusters = np.empty(n_customers, dtype=np.int64)
        for first in range(0, n_customers, BATCH):
            own = self._cluster_batch(first, n_customers, seed=seed, by=by, random_mix=random_mix)
            clusters[first : first + own.size] = own
            self._draw(own, seed, first, load_kw[first : first + own.size])
        return SyntheticCustomers(load_kw, clusters, slots_per_day=self.n_columns // self.n_days)

    def batches(
        self,
        n_customers: int,
        *,
        random_state: int,
        by: Sequence[float] | None = None,
        random_mix: bool = False,
    ) -> Iterator[tuple[Floats, Ints]]:
        """Yield what `sample` returns in parts, in memory that does not grow."""
        for number in range(n_batches(n_customers)):
            yield self.batch(
                number, n_customers, random_state=random_state, by=by, random_mix=random_mix
            )

    def batch(
        self,
        number: int,
        n_customers: int,
        *,
        random_state: int,
        by: Sequence[float] | None = None,
        random_mix: bool = False,
    ) -> tuple[Floats, Ints]:
        """Return one batch of what `sample` returns; each can be drawn without the others."""
        first = number * BATCH
        own = self._cluster_batch(
            first, n_customers, seed=random_state, by=by, random_mix=random_mix
        )
        load_kw = np.empty((own.size, self.n_columns))
        self._draw(own, random_state, first, load_kw)
        return load_kw, own

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return model_tables(self.centroids, self.customers, self.exports)

    def _statement(self) -> str:
        return "A released model: sample() draws synthetic customers without privacy cost."

    def _chart(self) -> Chart:
        return model_chart(self.centroids, self.n_columns // self.n_days)

    @property
    def n_columns(self) -> int:
        """Number of slots per customer, d."""
        return int(self.means.shape[1])

    def to_dict(self) -> dict[str, Any]:
        """Return the model as JSON values."""
        return {
            field.name: value.tolist() if isinstance(value, np.ndarray) else value
            for field in fields(self)
            for value in (getattr(self, field.name),)
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Return the model of a `to_dict` record; reject an invalid one."""
        names = {field.name for field in fields(cls)}
        if set(found) != names:
            odd = sorted(names.symmetric_difference(found))
            raise InvalidParameterError(
                "model", f"an object with the fields {', '.join(sorted(names))}", odd
            )
        plain = {"transform", "alpha_kw", "n_days", "max_kw"}
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
        """Reject invalid parameters."""
        if self.transform not in get_args(TransformName):
            rule = f"one of {get_args(TransformName)}"
            raise InvalidParameterError("transform", rule, self.transform)
        checks.positive("alpha_kw", self.alpha_kw)
        checks.positive("max_kw", self.max_kw)
        n_columns = checks.columns("means", self.means)
        if n_columns % checks.integer("n_days", self.n_days, minimum=1):
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
        self,
        first: int,
        n_customers: int,
        *,
        seed: int,
        by: Sequence[float] | None,
        random_mix: bool,
    ) -> Ints:
        """Return the clusters of the customers of the batch that begins at this place."""
        checks.integer("random_state", seed, minimum=0)
        mix = self._mix(by)
        if random_mix:  # a stream of its own: longer than the keys of the streams of loads
            stream = np.random.SeedSequence(seed, spawn_key=(first, 0, 1))
            chances = np.random.default_rng(stream).random(min(BATCH, n_customers - first))
            shares = np.cumsum(mix)
            return np.searchsorted(shares / shares[-1], chances, side="right").astype(np.int64)
        ends = np.cumsum(_apportion(n_customers, mix))
        # A stride coprime to n visits every place once: clusters are mixed, and exact in all.
        rows = np.arange(first, min(first + BATCH, n_customers), dtype=np.int64)
        places = rows * _stride(n_customers) % n_customers
        return np.searchsorted(ends, places, side="right").astype(np.int64)

    def _draw(self, clusters: Ints, seed: int, batch: int, load_kw: Floats) -> None:
        """Fill the load of the customers of one batch."""
        factors, tables = self._factors, self._tables  # made once, before threads want them
        longest = self.max_kw * math.sqrt(self.n_columns)

        def draw(span: int, first: int, last: int) -> None:
            stream = np.random.SeedSequence(seed, spawn_key=(batch, span))
            own = load_kw[first:last]
            np.random.Generator(np.random.SFC64(stream)).standard_normal(out=own)
            _load_of_scores(own, clusters[first:last], factors, tables, longest)

        over_spans(clusters.size, draw)


def known_random_state(random_state: int | None) -> int:
    """Return the number that determines a sample; None draws a new one."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    return random_state


def n_batches(n_customers: int) -> int:
    """Return the number of batches for a number of customers."""
    return -(-checks.integer("n_customers", n_customers, minimum=0) // BATCH)


def _apportion(n_customers: int, weights: Floats) -> Ints:
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
    scores: Floats, clusters: Ints, factors: Floats, tables: Floats, longest: float
) -> None:
    """Turn independent normal scores into load, in place."""
    d = scores.shape[1]
    centre = 0.5 * (tables.shape[2] - 1)
    steps = centre / _FARTHEST
    last = 2.0 * centre - 1e-9  # below the last entry: its cell has a right end
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
            place = min(max(z[h] * steps + centre, 0.0), last)
            cell = int(place)
            left = tables[k, h, cell]
            load = left + (place - cell) * (tables[k, h, cell + 1] - left)
            scores[i, h] = load
            squares += load * load
        if squares > longest * longest:
            for h in range(d):
                scores[i, h] *= longest / math.sqrt(squares)


_RADIUS_RANGE = (0.2, 20.0)
"""Range of the cells for the lengths of the coloured offsets, in typical ones."""
_RADIUS_RATIO = 1.25


def radius_edges(coordinates: Coordinates) -> Floats:
    """Return the bounds of the cells in which the lengths of the offsets are counted."""
    low, high = _RADIUS_RANGE
    steps = np.arange(math.log(low), math.log(high), math.log(_RADIUS_RATIO))
    return np.asarray(coordinates.typical_length * np.exp(steps))


@dataclass(frozen=True, kw_only=True)
class Radius:
    """Clip radius of the offsets, and the bias of their squares by clipping."""

    clip: float
    inflation: float
    """Mean square before clipping over that after it."""


def choose_radius(counts: Floats, std: float, edges: Floats) -> Radius:
    """Return the radius that holds a fixed share of customers, by a log-normal fit to counts.

    With log length N(m, s^2) and t = log clip:
    E min(l, clip)^2 = e^(2m + 2s^2) Phi((t - m) / s - 2 s) + clip^2 (1 - Phi((t - m) / s)).
    """
    median, spread, _ = fit_log_normal(counts, np.log(edges), std)

    def clipped_square(quantile: float) -> float:
        above = math.exp(2.0 * (median + quantile * spread)) * ndtr(-quantile)
        return float(
            math.exp(2.0 * median + 2.0 * spread**2) * ndtr(quantile - 2.0 * spread) + above
        )

    inside = float(ndtri(synthesis_tuning.KEPT_INSIDE))
    return Radius(
        clip=math.exp(median + inside * spread),
        # The farthest percent stays clipped: the fit is too inaccurate there.
        inflation=clipped_square(float(ndtri(0.99))) / clipped_square(inside),
    )


def read_clusters(
    sums: Floats, std: float, counts: tuple[Floats, Floats], radius: Radius, to: Coordinates
) -> ClusterMoments:
    """Return the moments of each cluster from noisy sums of `moment_features`."""
    r = to.n_coordinates
    means, seconds = read_moments(sums, radius.clip, r)
    means_std, seconds_std = moments_std(std, radius.clip, r)
    colours = to.colour[:, None] * to.colour[None]
    noisy = NoisyMoments(
        counts=counts[0],
        counts_std=counts[1],
        sums=means / to.colour,
        sums_std=means_std / to.colour,
        seconds=seconds * radius.inflation / colours,
        seconds_std=seconds_std * radius.inflation / colours,
    )
    return noisy_moments.read_clusters(noisy, to.mean_offsets(noisy.levels))


def in_slots(found: ClusterMoments, to: Coordinates) -> tuple[Floats, Floats]:
    """Return means (K, d) and covariances (K, d, d) after the transform, slot by slot."""
    means = to.centres + found.means @ to.curves
    covariances = to.curves.T @ found.covariances @ to.curves
    return means, covariances + found.levels[:, None, None] * to.rest


def make_model(
    found: ClusterMoments,
    to: Coordinates,
    *,
    margins: tuple[Floats, float],
    customers: Floats,
    exports: Ints,
    max_kw: float,
) -> SyntheticModel:
    """Return the model.

    ``margins`` are noisy sums with their standard deviation, ``customers`` noisy numbers.
    """
    means, covariances = in_slots(found, to)
    customers = np.maximum(customers, 0.0)
    n_slots = means.shape[1] // to.n_days
    coefficients = read_margins(
        margins[0], std=margins[1], customers=max(float(customers.sum()), 10.0), n_slots=n_slots
    )
    return SyntheticModel(
        transform=to.transform,
        alpha_kw=to.alpha_kw,
        n_days=to.n_days,
        centroids=to.centroids,
        means=means,
        covariances=covariances,
        margins=coefficients,
        customers=customers,
        exports=exports,
        max_kw=max_kw,
    )
