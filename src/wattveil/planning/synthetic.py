"""What a model of synthetic customers will be worth."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from wattveil import checks
from wattveil.clustering.geometry import Floats
from wattveil.clustering.lloyd import k_means
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


def slot_distance(rows: Floats, sampled: Floats) -> float:
    """Return W1 between the loads of a slot over their standard deviation, mean of all slots.

    W1 = integral |F^-1(u) - G^-1(u)| du, at 500 equal steps. It is private when the rows are.
    """
    u = (np.arange(500) + 0.5) / 500
    apart = np.abs(np.quantile(rows, u, axis=0) - np.quantile(sampled, u, axis=0)).mean(axis=0)
    return float((apart / np.maximum(rows.std(axis=0), 1e-12)).mean())


def correlation_error(rows: Floats, sampled: Floats) -> float:
    """Return the mean absolute difference of the correlations of two slots; private as above."""
    pairs = np.triu_indices(rows.shape[1], 1)

    def correlations(load_kw: Floats) -> Floats:
        centred = load_kw - load_kw.mean(axis=0)
        covariance = centred.T @ centred
        std = np.sqrt(np.maximum(np.diag(covariance), 1e-24))
        found: Floats = (covariance / np.outer(std, std))[pairs]
        return found

    return float(np.abs(correlations(rows) - correlations(sampled)).mean())
