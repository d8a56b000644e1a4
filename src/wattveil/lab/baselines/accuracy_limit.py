"""Limits of accuracy: how small the loss of a private K-means can be on given customers.

INTERNAL: computed from exact customers. Three numbers, each an accuracy loss against exact K-means,
for a Gaussian release with parameter mu (rho = mu^2 / 2):

A, one draw
    Clusters, their counts and the shape of the noise are known, and the whole budget is spent on
    one draw for the K means. A customer with offset D from the mean of its n_k customers moves it
    by D / n_k. The noise of minimum power that hides every customer of cluster k has covariance
    S_k / (mu n_k)^2, where S_k is the ellipsoid of minimum trace with D' S_k^-1 D <= 1 for all of
    them; tr S_k = d_eff R_k^2 for the radius R_k of the cluster. To first order the loss is

        A_1 = 1 / (n r) sum_k tr S_k / (mu^2 n_k),        r the loss of exact K-means.

    A is the mean over draws of the loss with each customer at the nearest centroid, at most A_1.
B, no small clusters
    Exact K-means in which no cluster has fewer than 5 / mu customers: five standard deviations of
    the noise of a count. A smaller cluster can hardly be told from an empty one.
Bound
    An unbiased rho-zCDP release of the means with covariance C obeys D' C^-1 D <= n_k^2 (e^(2 rho)
    - 1) for every customer (Hammersley, Chapman and Robbins), so at fixed clusters its loss is at
    least A_1 mu^2 / (e^(mu^2) - 1).

A and B are benchmarks, not lower bounds: a biased release (clipped, smoothed, shrunk towards a
prior) can lose less than A where the noise is large. The bound does not cover biased releases.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wattveil.arrays import Floats
from wattveil.calibration import gaussian_s
from wattveil.lab.baselines.baseline_interface import (
    EXACT_SEED,
    accuracy_loss,
    clustering_loss,
    exact_answer,
)
from wattveil.numerics.kmeans.lloyd import LloydResult, k_means, lloyd
from wattveil.numerics.leave_one_out.ellipsoid import minimum_trace_ellipsoid

MIN_STANDARD_DEVIATIONS = 5.0
"""A cluster of B has at least this many standard deviations of a count's noise, 1 / mu each."""
_DRAWS = 100
_GAP = 1e-2
"""Relative gap at which the search for an ellipsoid ends: A needs no more digits."""
_STARTS = 5
_INITS = 3
_MAX_TRIMS = 40
_NO_SPREAD = 1e-9


@dataclass(frozen=True, kw_only=True)
class AccuracyLimit:
    """Limits at one epsilon."""

    epsilon: float
    mu: float
    one_draw: float
    """A."""
    first_order: float
    """A_1, with each customer in its exact cluster."""
    no_small_clusters: float
    """B."""
    min_customers: float
    """5 / mu, the smallest cluster of B."""
    bound: float
    """Of unbiased releases at fixed clusters."""

    @property
    def reference(self) -> float:
        """Return max(A, B), what a private release can be expected to reach."""
        return max(self.one_draw, self.no_small_clusters)

    def against_b(self, loss: float) -> float:
        """Return an accuracy loss relative to B in place of exact K-means.

        (r(private) - r(B)) / r(B); negative if smaller clusters were found after all.
        """
        return (1.0 + loss) / (1.0 + self.no_small_clusters) - 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class _Shaped:
    """Exact clusters, and the factor of the noise of minimum power of each mean, for mu = 1."""

    rows: Floats
    exact: LloydResult

    @cached_property
    def factors(self) -> Floats:
        """(K, d, d): F_k with F_k F_k' = S_k / n_k^2; zero for customers who are all alike."""
        d = self.rows.shape[1]
        factors = np.zeros((len(self.exact.centroids), d, d))
        for cluster, centroid in enumerate(self.exact.centroids):
            offsets = self.rows[self.exact.labels == cluster] - centroid
            size = np.abs(self.rows).max()
            if len(offsets) and np.abs(offsets).max() > _NO_SPREAD * size:
                found = minimum_trace_ellipsoid(offsets, gamma_c=1.0, gap=_GAP)
                factors[cluster] = found.factor / len(offsets)
        return factors

    def first_order(self, mu: float) -> float:
        """Return A_1 = 1 / (n r) sum_k n_k tr(F_k F_k') / mu^2."""
        powers = np.square(self.factors).sum(axis=(1, 2))
        return float(powers @ self.exact.counts) / (mu**2 * len(self.rows) * self.exact.loss)

    def one_draw(self, mu: float) -> float:
        """Return A, the mean loss of seeded draws."""
        generator = np.random.default_rng(EXACT_SEED)
        shape = self.exact.centroids.shape
        draws = (
            np.einsum("kij,kj->ki", self.factors, generator.standard_normal(shape))
            for _ in range(_DRAWS)
        )
        losses = [
            accuracy_loss(self.rows, self.exact.centroids + noise / mu, exact=self.exact.loss)
            for noise in draws
        ]
        return float(np.mean(losses))


def accuracy_limits(
    rows: Floats, n_clusters: int, *, epsilons: Sequence[float], delta: float
) -> tuple[AccuracyLimit, ...]:
    """Return the limits at each epsilon; of a Gaussian release with exact accounting."""
    shaped = _Shaped(rows=rows, exact=exact_answer(rows, n_clusters))
    found = []
    for epsilon in epsilons:
        mu = gaussian_s(epsilon=epsilon, delta=delta)
        first_order = shaped.first_order(mu)
        min_customers = MIN_STANDARD_DEVIATIONS / mu
        found.append(
            AccuracyLimit(
                epsilon=epsilon,
                mu=mu,
                one_draw=shaped.one_draw(mu),
                first_order=first_order,
                no_small_clusters=loss_without_small_clusters(rows, shaped.exact, min_customers),
                min_customers=min_customers,
                bound=first_order * mu**2 / float(np.expm1(mu**2)),
            )
        )
    return tuple(found)


def loss_without_small_clusters(rows: Floats, exact: LloydResult, min_customers: float) -> float:
    """Return B: the least loss found of at most K clusters with ``min_customers`` or more each.

    A search, so an upper estimate of the optimum: Lloyd from several starts, in which customers of
    clusters that are too small are set aside and K clusters are sought among the others, and in
    which clusters that are too small are given up.
    """
    if exact.counts.min() >= min_customers:
        return 0.0
    n_clusters = len(exact.centroids)
    losses = [
        loss / exact.loss - 1.0
        for start in range(_STARTS)
        for loss in _trimmed(rows, n_clusters, min_customers, start)
    ]
    return max(0.0, min(losses))


def _trimmed(rows: Floats, n_clusters: int, min_customers: float, seed: int) -> Iterator[float]:
    """Yield the losses of clusterings of all rows that are large enough, the single mean's last."""
    core = np.arange(len(rows))
    for _ in range(_MAX_TRIMS):
        if len(core) < max(n_clusters, min_customers):
            break
        found = k_means(rows[core], n_clusters, seed=seed, n_init=_INITS)
        yield _without_small(rows, found.centroids, min_customers)
        large = found.counts >= min_customers
        if large.all():
            # Whoever was set aside joins the nearest cluster: none becomes smaller.
            yield clustering_loss(rows, found.centroids)
            break
        core = core[large[found.labels]]
    yield clustering_loss(rows, rows.mean(axis=0, keepdims=True))


def _without_small(rows: Floats, centroids: Floats, min_customers: float) -> float:
    """Run Lloyd on all rows; give up the smallest cluster until all are large enough."""
    while True:
        found = lloyd(rows, centroids)
        if len(centroids) == 1 or found.counts.min() >= min_customers:
            return found.loss
        centroids = np.delete(found.centroids, found.counts.argmin(), axis=0)
