"""What a release of clusters will be worth."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from sklearn.base import clone

from wattveil import calibration, checks
from wattveil.clustering.geometry import Floats
from wattveil.clustering.lloyd import assign, k_means
from wattveil.privacy import accounting
from wattveil.privacy.budget import Budget
from wattveil.release.kmeans import PrivateKMeans
from wattveil.simulate import simulate_load_kw

_SIMULATED = 1500
"""Most customers to rehearse with; more of them are rehearsed by less noise instead."""
_POPULATIONS = 4
_RUNS = 6
"""Few homes differ from population to population, so several are simulated, with some runs each."""
_STRONGEST = 30.0
"""Beyond this Gaussian signal a rehearsal has no noise to speak of."""


_Estimator = TypeVar("_Estimator", bound=PrivateKMeans)


@dataclass(frozen=True, kw_only=True)
class KMeansPlan:
    """Expected worth of a release, from public parameters and a simulated population."""

    asks: dict[str, float]
    """Share of the budget of each ask, in order."""
    signal: float
    """nu = n mu / K. Below 10 little more than one mean can be told; above 300 the noise hardly
    shows."""
    expected_loss: float
    """Median accuracy loss (r(private) - r(exact)) / r(exact); infinite if r(exact) = 0."""
    expected_error: float
    """Median of `centroid_error`: in kW, with ``normalise`` in units of a row's length."""
    clusters_told_apart: int
    """Median of ``n_told_apart_``: ask for no more clusters than this."""


def plan_kmeans(
    estimator: PrivateKMeans,
    *,
    n_customers: int,
    n_slots: int = 24,
    typical_kw: float | None = None,
) -> KMeansPlan:
    """Rehearse a release on simulated customers.

    Noise and customers enter a release through n mu alone, so a large population is rehearsed by a
    small one with less noise. How far this holds for other data than the simulated is shown in
    docs/global-tier.md.

    Parameters
    ----------
    estimator : PrivateKMeans
        What is going to be fitted.
    n_customers : int
        Public guess of the number of customers.
    n_slots : int
        Slots of the day.
    typical_kw : float or None
        Public guess of the median root-mean-square load of a customer; None leaves the simulated
        customers as they are.
    """
    checks.integer("n_customers", n_customers, least=1)
    checks.integer("n_slots", n_slots, least=1)
    rehearsal, n_simulated = rehearsal_of(estimator, n_customers)
    runs, losses, errors = [], [], []
    for population in range(_POPULATIONS):
        rows = simulated_rows(n_simulated, n_slots, seed=population, typical_kw=typical_kw)
        exact = estimator.comparable(rows)
        exact = exact[np.isfinite(exact).all(axis=1)]
        best = k_means(exact, min(estimator.n_clusters, len(exact)), seed=0, n_init=3).loss
        for _ in range(_RUNS):
            run = clone(rehearsal).fit(rows)
            nearest = run.cluster_centers_[assign(exact, run.cluster_centers_)]
            runs.append(run)
            loss = float(np.square(exact - nearest).sum(axis=1).mean())
            # As many clusters as customers lose nothing: whatever is lost is infinitely more.
            losses.append(loss / best - 1.0 if best else math.inf)
            errors.append(centroid_error(exact, run.cluster_centers_))
    granted = sum(spend.rho_units for spend in runs[0].spends_)
    return KMeansPlan(
        asks={spend.tag: spend.rho_units / granted for spend in runs[0].spends_},
        signal=n_customers * _signal(estimator) / estimator.n_clusters,
        expected_loss=float(np.median(losses)),
        expected_error=float(np.median(errors)),
        clusters_told_apart=int(np.median([run.n_told_apart_ for run in runs])),
    )


def rehearsal_of(estimator: _Estimator, n_customers: int) -> tuple[_Estimator, int]:
    """Return the estimator for fewer customers with less noise, and how many they are."""
    n_simulated = min(n_customers, _SIMULATED)
    mu = _signal(estimator)
    s = min(mu * n_customers / n_simulated, max(_STRONGEST, mu))
    rehearsal: _Estimator = clone(estimator).set_params(
        epsilon=calibration.gaussian_epsilon(s=s, delta=estimator.delta),
    )
    return rehearsal, n_simulated


def _signal(estimator: PrivateKMeans) -> float:
    """Return mu of the whole budget."""
    budget = Budget(estimator.guarantee())
    return math.sqrt(2.0 * budget.rho_units / accounting.RHO_UNITS)


def centroid_error(rows: Floats, centroids: Floats) -> float:
    """Return how far centroids are from the exact means of the rows nearest to them.

    Root mean square over slots and rows. It is exact, hence private when the rows are.
    """
    labels = assign(rows, centroids)
    squares = 0.0
    for k in np.unique(labels):
        inside = rows[labels == k]
        squares += len(inside) * float(np.square(inside.mean(axis=0) - centroids[k]).mean())
    return math.sqrt(squares / len(rows))


@lru_cache(maxsize=_POPULATIONS)  # a search for a budget rehearses with the same customers
def simulated_rows(
    customers: int, n_slots: int, *, seed: int, typical_kw: float | None = None
) -> Floats:
    """Return simulated days, cut into so many slots, of customers of this median size."""
    hourly = simulate_load_kw(customers=customers, seed=seed)
    hours = (np.arange(n_slots) + 0.5) * 24.0 / n_slots - 0.5
    rows = np.array([np.interp(hours, np.arange(24), row, period=24.0) for row in hourly])
    if typical_kw is not None:
        sizes = np.sqrt(np.square(rows).mean(axis=1))
        rows *= checks.positive("typical_kw", typical_kw) / np.median(sizes)
    return rows
