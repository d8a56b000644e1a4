"""Which of several merges to refine: what the coarse stage knows of it, and what to ask the data.

Post-processing: it sees released numbers only. Under noise the cheapest merge of the cells need not
be the best for the customers, and refining seldom leads from a bad one to a good one. So the data
are asked. With merges m = 1 … M of centroids c_mk, a customer x costs::

    d_m(x) = min_k |x - c_mk|^2,    f(x) = d(x) - mean_m d_m(x)

and the best merge has the least total F = sum_x f(x). The coarse stage foresees it by its cells:
with middles z_j (of variance V_j) and counts n_j (of variance s_j^2), F is ``sum_j n_j f(z_j)``, to
first order of covariance ::

    L = sum_j s_j^2 f_j f_j' + n_j^2 4 G_j V_j G_j',    G_jm = c_m(z_j) - mean_m c_m(z_j)

with c_m(z_j) the centroid of merge m that cell j belongs to.

Asked is the sum of ``U' f(x) / B``, clipped to length 1: the eigenvectors U of L are the directions
in which F is open. (They are orthogonal to (1, …, 1): it does not matter what is subtracted from
all d_m.) A large B costs noise, a small one cuts customers off; taken is the one that leaves the
least variance by what is foreseen. The answer y, in the unit of F, moves it by
``U l / (l + e^2) (y - U' F)``, l being the eigenvalues and e the error of the answer: noise and
clipping.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from wattveil.clustering import tuning
from wattveil.clustering.cells import smoothness
from wattveil.clustering.geometry import Floats
from wattveil.clustering.merge import Merge, own_spread

_BOUNDS = np.geomspace(0.01, 20.0, 50)
"""Values of B that are tried, in the largest spread of a cell's customers."""
_LEAST = 1e-9
"""Of the largest eigenvalue or spread: less is nothing."""


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


def chosen(
    merges: Sequence[Merge], *, std: float, ask: Callable[[Floats, Floats], Floats]
) -> Merge:
    """Return the merge that fits the customers; nothing is asked if the cheapest does anyway.

    ``ask`` releases the sum of the features of their costs under sets of centroids, with noise of
    standard deviation ``std``.
    """
    question = open_question(merges, std=std)
    if question is None:
        return merges[0]
    return question.best(ask(question.centroids, question.features))


def open_question(merges: Sequence[Merge], *, std: float) -> Question | None:
    """Return what to ask about merges of the same cells, the cheapest first; None if none is open.

    ``std`` is of the noise of an answer to which each customer adds a vector of length 1 at most.
    """
    merges = _plausible(merges[: tuning.MOST_MERGES])
    costs, covariance, widths = _foreseen(merges)
    counts = merges[0].cells.counts
    values, vectors = np.linalg.eigh(covariance)
    is_open = values > _LEAST * values[-1]
    if not is_open.any():  # f of a merge alone is 0
        return None
    values, vectors = values[is_open], vectors[:, is_open]
    seen = costs @ vectors
    width = np.einsum("mq,jmn,nq->j", vectors, widths, vectors)
    spread = np.sqrt(np.square(seen).sum(axis=1) + np.maximum(width, 0.0))
    spread = np.maximum(spread, _LEAST * spread.max())

    def left_open(bound: float) -> tuple[float, float, float]:
        # The costs of a cell's customers are taken to fall off as exp(-|f| / spread).
        lost = float(counts @ (spread * np.exp(-bound / spread)))
        error = (bound * std) ** 2 + lost**2 / values.size
        return float((values * error / (values + error)).sum()), bound, error

    _, bound, error = min(left_open(float(bound)) for bound in _BOUNDS * spread.max())
    kept = np.minimum(1.0, bound / np.maximum(np.linalg.norm(seen, axis=1), _LEAST * bound))
    return Question(
        merges=merges,
        foreseen=counts @ costs,
        directions=vectors,
        bound=bound,
        gains=values / (values + error),
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
    """Return f_j (J, M), L (M, M), and the covariance of f in each cell (J, M, M).

    The last is of a customer around the middle that was released: its own spread, and the error.
    """
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
