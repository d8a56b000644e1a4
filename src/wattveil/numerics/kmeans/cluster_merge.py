"""Merge of coarse cells into K clusters, and the query that selects among several merges.

Post-processing of released centres and counts. `local_optima` runs weighted K-means from many
initialisations. Under noise the merge of minimum cost need not be the best for the customers, and
refining seldom leads from a bad one to a good one; `select_merge` therefore queries the data. With
merges m = 1 … M of centroids c_mk, a customer x costs::

    d_m(x) = min_k |x - c_mk|^2,    f(x) = d(x) - mean_m d_m(x)

and the best merge has the smallest total F = sum_x f(x). The coarse stage predicts it by its cells:
with centres z_j (of variance V_j) and counts n_j (of variance s_j^2), F is ``sum_j n_j f(z_j)``, to
first order of covariance ::

    L = sum_j s_j^2 f_j f_j' + n_j^2 4 G_j V_j G_j',    G_jm = c_m(z_j) - mean_m c_m(z_j)

with c_m(z_j) the centroid of merge m that cell j belongs to.

The query is the sum of ``U' f(x) / B``, clipped to length 1: the eigenvectors U of L are the
directions in which F is uncertain. (They are orthogonal to (1, …, 1): a term common to all d_m
cancels.) A large B costs noise, a small one clips customers; the B of minimum predicted variance is
used. The answer y, in the unit of F, moves it by ``U l / (l + e^2) (y - U' F)``, with l the
eigenvalues and e the error of the answer: noise and clipping.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from threadpoolctl import ThreadpoolController

from wattveil.arrays import Floats, Labels
from wattveil.numerics.kmeans import kmeans_tuning
from wattveil.numerics.kmeans.kmeans_stages import Cells, smoothness, start_cells

_RESTARTS = 20
_SMALLEST, _NEAREST_TO_0, _LEFT = 1e-9, 0.9, 0.05
"""Of a cell that is divided by size: minimum length of its centre, maximum relative offset, and
minimum share of its squared radius that is left."""
_MIN_RADIUS = 0.15
"""Minimum spread of a cluster, in units of the median size."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Merge:
    """One local optimum: the merged cells, the cluster of each, and the centroids."""

    cells: Cells
    labels: Labels
    centroids: Floats
    """(K, r)"""
    cost: float
    """Sum of squared distances of the cells from their centroids, weighted by counts."""

    def clusters(self, *, median_size: float, customers: float) -> Cells:
        """Return K cells, ready to be refined."""
        n_clusters, weights = len(self.centroids), self.cells.counts
        apart = np.square(self.cells.centres - self.centroids[self.labels]).sum(axis=1)
        squared = apart + own_spread(self.cells)
        counts = np.bincount(self.labels, weights=weights, minlength=n_clusters).astype(np.float64)
        spread = np.sqrt(
            np.bincount(self.labels, weights=weights * squared, minlength=n_clusters)
            / np.maximum(counts, 1e-9)
        )
        of_own, of_all = kmeans_tuning.MERGED_COUNT_PRIOR
        return start_cells(
            self.centroids,
            kmeans_tuning.MERGED_RADIUS * np.maximum(spread, _MIN_RADIUS * median_size),
            counts,
            counts_std=of_own * counts + of_all * customers,
            spread=kmeans_tuning.CENTRE_SPREAD,
        )


def own_spread(cells: Cells) -> Floats:
    """Return the mean squared distance of the customers of a cell from its centre, as expected."""
    squared: Floats = kmeans_tuning.OWN_SPREAD * np.square(cells.radii)
    return squared


def local_optima(cells: Cells, n_clusters: int, *, is_shape: bool) -> list[Merge]:
    """Return different merges of the cells that the coarse stage confirmed, the cheapest first.

    Cells of load are divided by size.
    """
    from sklearn import config_context  # noqa: PLC0415
    from sklearn.cluster import KMeans  # noqa: PLC0415 -- a third of a second, for releases alone

    part = _confirmed_cells(cells, n_clusters)
    if not is_shape:
        part = divided_by_size(part)
    # Fixed seeds: the restarts use released numbers only. For so few points threads cost more
    # than they save, and so do checks of arguments.
    unchecked = config_context(assume_finite=True, skip_parameter_validation=True)
    with _thread_pools().limit(limits=1), unchecked:
        fits = [
            KMeans(n_clusters, n_init=1, random_state=seed).fit(
                part.centres, sample_weight=part.counts
            )
            for seed in range(_RESTARTS)
        ]
    merges = [
        Merge(cells=part, labels=fit.labels_, centroids=fit.cluster_centers_, cost=fit.inertia_)
        for fit in fits
    ]
    return _distinct(sorted(merges, key=lambda merge: merge.cost))


@cache
def _thread_pools() -> ThreadpoolController:
    """Return the libraries with threads of their own, all loaded by now: a slow search."""
    return ThreadpoolController()


def _confirmed_cells(cells: Cells, n_clusters: int) -> Cells:
    """Return the confirmed cells, their counts positive; all if too few are confirmed."""
    confirmed = cells.counts > kmeans_tuning.CONFIRMED * np.sqrt(cells.counts_variance)
    weights = np.where(confirmed, np.maximum(cells.counts, 0.0), 0.0)
    if np.count_nonzero(weights) <= n_clusters:
        weights = np.maximum(cells.counts, 1e-3)
    kept = weights > 0.0
    return Cells(
        centres=cells.centres[kept],
        radii=cells.radii[kept],
        counts=weights[kept],
        counts_variance=cells.counts_variance[kept],
        variance=cells.variance[kept],
    )


def divided_by_size(cells: Cells) -> Cells:
    """Return three cells for each: at its centre c, and at c (1 ± s), with a third of its count.

    s is SIZE_OFFSET radii over |c|, below 1. What the offsets explain of the spread of the
    customers is taken from the radii.
    """
    lengths = np.maximum(np.linalg.norm(cells.centres, axis=1), _SMALLEST)
    relative = np.minimum(kmeans_tuning.SIZE_OFFSET * cells.radii / lengths, _NEAREST_TO_0)
    explained = 2.0 / 3.0 * np.square(relative * lengths) / kmeans_tuning.OWN_SPREAD
    left = np.maximum(np.square(cells.radii) - explained, _LEFT * np.square(cells.radii))
    factors = np.concatenate([1.0 - relative, np.ones_like(relative), 1.0 + relative])
    return Cells(
        centres=factors[:, None] * np.tile(cells.centres, (3, 1)),
        radii=np.tile(np.sqrt(left), 3),
        counts=np.tile(cells.counts / 3.0, 3),
        counts_variance=np.tile(cells.counts_variance / 3.0, 3),
        variance=np.tile(cells.variance, (3, 1)),
    )


def _distinct(merges: Sequence[Merge]) -> list[Merge]:
    """Return merges of different cost: many initialisations find the same one."""
    different: list[Merge] = []
    for merge in merges:
        if not different or merge.cost > (1.0 + 1e-6) * different[-1].cost:
            different.append(merge)
    return different


_BOUNDS = np.geomspace(0.01, 20.0, 50)
"""Candidate values of B, in units of the largest spread of a cell."""
_MIN = 1e-9
"""Relative to the largest eigenvalue or spread: smaller ones are treated as 0."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SelectionQuery:
    """A query to select among merges that the coarse stage cannot distinguish."""

    merges: Sequence[Merge]
    predicted: Floats
    """F, (M,)."""
    directions: Floats
    """U, (M, q)."""
    bound: float
    """B."""
    gains: Floats
    """l / (l + e^2), (q,)."""
    clipped: Floats
    """What clipping takes from the answer, as predicted, (q,)."""

    @property
    def centroids(self) -> Floats:
        """The centroids of all merges, (M, K, r)."""
        return np.array([merge.centroids for merge in self.merges])

    @property
    def features(self) -> Floats:
        """U / B: factors of a customer's M costs, (M, q)."""
        return self.directions / self.bound

    def best(self, answer: Floats) -> Merge:
        """Return the merge of minimum cost, from the prediction and the released answer."""
        found = self.bound * answer + self.clipped
        surprise = found - self.predicted @ self.directions
        return self.merges[
            int(np.argmin(self.predicted + self.directions @ (self.gains * surprise)))
        ]


def select_merge(
    merges: Sequence[Merge], *, std: float, query: Callable[[Floats, Floats], Floats]
) -> Merge:
    """Return the merge that fits the customers; no query is made if only one is plausible.

    ``query`` releases the sum of the features of their costs under sets of centroids, with noise of
    standard deviation ``std``.
    """
    selection = selection_query(merges, std=std)
    if selection is None:
        return merges[0]
    return selection.best(query(selection.centroids, selection.features))


def selection_query(merges: Sequence[Merge], *, std: float) -> SelectionQuery | None:
    """Return the query about merges of the same cells, the cheapest first; None for one merge.

    ``std`` is of the noise of an answer to which each customer adds a vector of length 1 at most.
    """
    merges = _plausible(merges[: kmeans_tuning.MAX_MERGES])
    costs, covariance, widths = _predicted(merges)
    counts = merges[0].cells.counts
    values, vectors = np.linalg.eigh(covariance)
    is_open = values > _MIN * values[-1]
    if not is_open.any():  # f of a merge alone is 0
        return None
    values, vectors = values[is_open], vectors[:, is_open]
    observed = costs @ vectors
    width = np.einsum("mq,jmn,nq->j", vectors, widths, vectors)
    spread = np.sqrt(np.square(observed).sum(axis=1) + np.maximum(width, 0.0))
    spread = np.maximum(spread, _MIN * spread.max())

    def left_open(bound: float) -> tuple[float, float, float]:
        # The costs of a cell's customers are taken to fall off as exp(-|f| / spread).
        lost = float(counts @ (spread * np.exp(-bound / spread)))
        error = (bound * std) ** 2 + lost**2 / values.size
        return float((values * error / (values + error)).sum()), bound, error

    _, bound, error = min(left_open(float(bound)) for bound in _BOUNDS * spread.max())
    kept = np.minimum(1.0, bound / np.maximum(np.linalg.norm(observed, axis=1), _MIN * bound))
    return SelectionQuery(
        merges=merges,
        predicted=counts @ costs,
        directions=vectors,
        bound=bound,
        gains=values / (values + error),
        clipped=counts @ ((1.0 - kept)[:, None] * observed),
    )


def _plausible(merges: Sequence[Merge]) -> Sequence[Merge]:
    """Return the merges whose cost is within its error of the cheapest."""
    costs, covariance, _ = _predicted(merges)
    total = merges[0].cells.counts @ costs
    error = np.diag(covariance) + covariance[0, 0] - 2.0 * covariance[0]
    near = total - total[0] <= kmeans_tuning.PLAUSIBLE * np.sqrt(np.maximum(error, 0.0))
    return [merge for merge, kept in zip(merges, near, strict=True) if kept]


def _predicted(merges: Sequence[Merge]) -> tuple[Floats, Floats, Floats]:
    """Return f_j (J, M), L (M, M), and the covariance of f in each cell (J, M, M).

    The last is of a customer around the released centre: its own spread, and the error.
    """
    cells = merges[0].cells
    nearest = np.stack([merge.centroids[merge.labels] for merge in merges], axis=1)
    costs = np.square(cells.centres[:, None] - nearest).sum(axis=2)
    costs -= costs.mean(axis=1, keepdims=True)
    slopes = 2.0 * (nearest - nearest.mean(axis=1, keepdims=True))

    def spread_by(variance: Floats) -> Floats:
        spread: Floats = np.einsum("jmr,jr,jnr->jmn", slopes, variance, slopes, optimize=True)
        return spread

    by_centres = spread_by(cells.variance)
    covariance = np.einsum("j,jm,jn->mn", cells.counts_variance, costs, costs, optimize=True)
    covariance += np.einsum("j,jmn->mn", np.square(cells.counts), by_centres)
    own = own_spread(cells)[:, None] * smoothness(cells.centres.shape[1])
    return costs, covariance, by_centres + spread_by(own)
