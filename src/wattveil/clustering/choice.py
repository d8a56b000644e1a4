"""Which of several merges to refine: what the coarse stage knows of it, and what to ask the data.

Post-processing: it sees released numbers only. Under noise the cheapest merge of the cells need not
be the best for the customers, and no number of refining steps leads from one local optimum to
another. So the data are asked. With merges m = 1 … M of centroids c_mk, a customer x costs::

    d_m(x) = min_k |x - c_mk|^2,    f(x) = d(x) - mean_m d_m(x)

and the best merge has the least total F = sum_x f(x). The coarse stage foresees it by its cells:
with middles z_j (of variance V_j) and counts n_j (of variance s_j^2), F is ``sum_j n_j f(z_j)``, of
covariance ::

    L = sum_j s_j^2 f_j f_j' + n_j^2 4 G_j V_j G_j',    G_jm = c_m(z_j) - mean_m c_m(z_j)

The directions in which L is largest, eigenvectors U, are what is worth asking for: the sum of
``U' f(x) / B``, clipped to length 1. More directions, or a longer B, cost more noise; fewer, or a
shorter one, leave more open. The question is the one that leaves the least variance by what is
foreseen. Its answer y moves F by ``U l / (l + e^2) (y - U' F)``, l being the eigenvalues and e the
error of the answer: noise and clipping.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from wattveil.clustering import tuning
from wattveil.clustering.cells import smoothness
from wattveil.clustering.geometry import Floats
from wattveil.clustering.merge import Merge, own_spread

_BOUNDS = np.geomspace(0.01, 20.0, 50)
"""Values of B that are tried, in the largest spread of a cell's customers."""
_LEAST = 1e-9
"""What is divided by is no smaller than this part of what is measured."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """What to ask every customer about merges that cannot be told apart without asking."""

    merges: Sequence[Merge]
    foreseen: Floats
    """F, (M,)."""
    directions: Floats
    """U, (M, q)."""
    bound: float
    """B."""
    gains: Floats
    """l / (l + e^2), (q,)."""
    clipped: Floats
    """What clipping takes from the answer, as foreseen, (q,)."""

    @property
    def centroids(self) -> Floats:
        """The centroids of all merges, (M, K, r)."""
        return np.array([merge.centroids for merge in self.merges])

    @property
    def features(self) -> Floats:
        """U / B: what a customer's M costs are multiplied by, (M, q)."""
        return self.directions / self.bound

    def best(self, answer: Floats) -> Merge:
        """Return the merge of least cost, by what was foreseen and what was answered."""
        found = self.bound * answer + self.clipped
        surprise = found - self.foreseen @ self.directions
        return self.merges[
            int(np.argmin(self.foreseen + self.directions @ (self.gains * surprise)))
        ]


def open_question(merges: Sequence[Merge], *, std: float) -> Question | None:
    """Return what to ask about the merges, the cheapest first; None if one is surely the best.

    ``std`` is of the noise of an answer to which each customer adds a vector of length 1 at most.
    """
    merges = _plausible(merges[: tuning.MOST_MERGES])
    if len(merges) < 2:
        return None
    costs, covariance, widths = _foreseen(merges)
    counts = merges[0].cells.counts
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]

    def possible() -> Iterator[tuple[float, int, float, float]]:
        """Yield the variance that is left open, q, B and e^2 of every question that is tried."""
        for q in range(1, len(merges)):
            chosen = vectors[:, :q]
            width = np.einsum("mq,jmn,nq->j", chosen, widths, chosen)
            spread = np.sqrt(np.square(costs @ chosen).sum(axis=1) + np.maximum(width, 0.0))
            spread = np.maximum(spread, _LEAST * np.abs(costs).max())
            for bound in _BOUNDS * spread.max():
                # The costs of a cell's customers are taken to fall off as exp(-|f| / spread).
                lost = float(counts @ (spread * np.exp(-bound / spread)))
                error = (bound * std) ** 2 + lost**2 / q
                left = (values[:q] * error / (values[:q] + error)).sum() + values[q:].sum()
                yield float(left), q, float(bound), error

    _, q, bound, error = min(possible())
    seen = costs @ vectors[:, :q]
    kept = np.minimum(1.0, bound / np.maximum(np.linalg.norm(seen, axis=1), _LEAST * bound))
    return Question(
        merges=merges,
        foreseen=counts @ costs,
        directions=vectors[:, :q],
        bound=bound,
        gains=values[:q] / (values[:q] + error),
        clipped=counts @ ((1.0 - kept)[:, None] * seen),
    )


def _plausible(merges: Sequence[Merge]) -> Sequence[Merge]:
    """Return the merges whose cost is within its error of the cheapest."""
    costs, covariance, _ = _foreseen(merges)
    total = merges[0].cells.counts @ costs
    error = np.diag(covariance) + covariance[0, 0] - 2.0 * covariance[0]
    near = total - total[0] <= tuning.PLAUSIBLE * np.sqrt(np.maximum(error, 0.0))
    return [merge for merge, kept in zip(merges, near, strict=True) if kept]


def _foreseen(merges: Sequence[Merge]) -> tuple[Floats, Floats, Floats]:
    """Return f_j (J, M), L (M, M), and the covariance of f over each cell's customers (J, M, M)."""
    cells = merges[0].cells
    nearest = np.stack([merge.centroids[merge.labels] for merge in merges], axis=1)
    costs = np.square(cells.middles[:, None] - nearest).sum(axis=2)
    costs -= costs.mean(axis=1, keepdims=True)
    slopes = 2.0 * (nearest - nearest.mean(axis=1, keepdims=True))

    def spread_by(variance: Floats) -> Floats:
        spread: Floats = np.einsum("jmr,jr,jnr->jmn", slopes, variance, slopes, optimize=True)
        return spread

    by_middles = spread_by(cells.variance)
    covariance = np.einsum("j,jm,jn->mn", cells.counts_variance, costs, costs, optimize=True)
    covariance += np.einsum("j,jmn->mn", np.square(cells.counts), by_middles)
    own = own_spread(cells)[:, None] * smoothness(cells.middles.shape[1])
    return costs, covariance, by_middles + spread_by(own)
