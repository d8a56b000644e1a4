"""What a model of synthetic customers will be worth."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from wattveil import checks
from wattveil.clustering.lloyd import k_means
from wattveil.measures.slots import correlation_error, slot_distance
from wattveil.planning.kmeans import rehearsal_of, simulated_rows
from wattveil.release.synthetic import LoadSynthesizer

_POPULATIONS = 3
_RUNS = 2
_SAMPLED = 4000


@dataclass(frozen=True, kw_only=True)
class SyntheticPlan:
    """Expected worth of a model, from public parameters and a simulated population."""

    slot_distance: float
    """Median of `slot_distance` between customers and synthetic ones."""
    correlation_error: float
    """Median of the mean absolute error of the correlation of two slots."""


def plan_synthesizer(
    estimator: LoadSynthesizer,
    *,
    n_customers: int,
    n_slots: int = 24,
    typical_kw: float | None = None,
) -> SyntheticPlan:
    """Rehearse a release on simulated customers, as `plan_kmeans` does.

    If ``estimator`` has centroids, the rehearsal is given those of the simulated customers.
    """
    checks.integer("n_customers", n_customers, least=1)
    checks.integer("n_slots", n_slots, least=1)
    rehearsal, n_simulated = rehearsal_of(estimator, n_customers)
    distances, errors = [], []
    for population in range(_POPULATIONS):
        rows = simulated_rows(n_simulated, n_slots, seed=population, typical_kw=typical_kw)
        if estimator.centroids is not None:
            k = min(estimator.n_clusters, len(rows))
            centroids = k_means(estimator.comparable(rows), k, seed=0, n_init=3).centroids
            rehearsal.set_params(centroids=centroids, n_clusters=k)
        for run in range(_RUNS):
            sampled, _ = clone(rehearsal).fit(rows).sample(_SAMPLED, seed=run)
            distances.append(slot_distance(rows, sampled))
            errors.append(correlation_error(rows, sampled))
    return SyntheticPlan(
        slot_distance=float(np.median(distances)), correlation_error=float(np.median(errors))
    )
