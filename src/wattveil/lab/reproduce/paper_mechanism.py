"""The paper's mechanism and its Algorithm 2, for figures only: seeded and repeatable.

`LeaveOneOutKMeans` computes the exact answer and the covariance of the noise once; its diagnostics
are private and for internal use, as these figures are. Noise is scaled to any s (the noise that
hides a difference v has v' S^-1 v = s^2, so S is proportional to 1 / s^2) and is drawn with a seed,
which a release never does.

Algorithm 2 draws log-normal customers per cluster: logs y = log(x + alpha); their mean, shifted as
far as the noise shifted the centroid; a second moment with Wishart noise; samples of that normal
distribution; back by exp and - alpha. Assumed, because the paper does not specify it: the noise of
a released centroid c~ enters the mean of the logs as log(c~ + alpha) - log(c + alpha); Wishart
noise has the epsilon of the centroids, with the longest row of the cluster as its bound.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from wattveil import calibration
from wattveil.arrays import Floats, Ints
from wattveil.errors import InvalidParameterError
from wattveil.lab.baselines.baseline_interface import (
    EXACT_INITS,
    EXACT_SEED,
    accuracy_loss,
    clustering_loss,
    exact_answer,
)
from wattveil.lab.seeded_draws import Generator
from wattveil.numerics.leave_one_out.ellipsoid import paper_lemma
from wattveil.numerics.leave_one_out.leave_one_out_runs import Columns, leave_one_out
from wattveil.privacy.mechanisms.modulo import modulo_flip
from wattveil.privacy.opening import reveal
from wattveil.release.instance import InstanceDiagnostics, LeaveOneOutKMeans

N_CLUSTERS = 6
ALPHA_KW = 15.0
"""The paper's alpha, which keeps log(x + alpha) defined where customers export."""

_EPSILON, _DELTA = 1.0, 0.01
"""Budget at which the covariance is computed; its value does not matter."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PaperMechanism:
    """Exact answer and noise.

    Attributes
    ----------
    rows : (P, d)
        The data set.
    factor : (K d, K d)
        Symmetric, F F' the covariance of the noise at s = 1.
    exact
        What the estimator computed; its covariance is that of `factor` at another s.
    """

    rows: Floats
    factor: Floats
    exact: InstanceDiagnostics

    @cached_property
    def loss(self) -> float:
        """The clustering loss r(X, q) of the exact answer."""
        return clustering_loss(self.rows, self.exact.centroids, self.exact.labels)

    @property
    def power(self) -> float:
        """The noise power tr S at s = 1."""
        return float(np.square(self.factor).sum())

    @property
    def sensitivity(self) -> float:
        """Delta c of white noise: its standard deviation at s = 1."""
        return float(np.sqrt(self.power / len(self.factor)))

    def expected_loss(self, s: float) -> float:
        """Return the mean DP accuracy loss with the exact labels.

        E r(X, q~) - r(X, q) = sum_k n_k / P tr S_k, S_k the noise of centroid k. (The paper leaves
        the weights n_k / P out.)
        """
        power = np.square(self.factor).sum(axis=1).reshape(N_CLUSTERS, -1).sum(axis=1)
        return float(self.exact.sizes @ power / len(self.rows) / s**2 / self.loss)

    def centroids(self, s: float, generator: Generator) -> Floats:
        """Draw noisy centroids."""
        noise = self.factor @ generator.standard_normal(len(self.factor)) / s
        return self.exact.centroids + noise.reshape(self.exact.centroids.shape)

    def flip(self, epsilon: float, delta: float = 0.0) -> float:
        """Return the chance rho that a label in L moves."""
        return modulo_flip(
            n_labels=N_CLUSTERS, changed=self.exact.labels_changed, epsilon=epsilon, delta=delta
        )

    def labels(self, epsilon: float, generator: Generator) -> Ints:
        """Draw the labels: those in L move with chance rho to one of the others."""
        labels, own = self.exact.labels.copy(), self.exact.label_set
        moves = generator.random(own.size) < self.flip(epsilon)
        offsets = generator.integers(1, N_CLUSTERS, own.size)
        labels[own] = np.where(moves, (labels[own] + offsets) % N_CLUSTERS, labels[own])
        return labels

    def accuracy_loss(self, centroids: Floats, labels: Ints | None = None) -> float:
        """Return the DP accuracy loss of an answer; without labels, of the nearest centroids."""
        return accuracy_loss(self.rows, centroids, labels, exact=self.loss)


class LemmaNoise(NamedTuple):
    """The noise of the paper's lemma at s = 1."""

    violation: float
    """Largest v' S^-1 v, which should be 1. It depends on the units of the data."""
    feasible_power: float
    """tr S of noise of the same shape, scaled until the constraint holds."""


def paper_mechanism(rows: Floats, *, noise: Literal["coloured", "white"]) -> PaperMechanism:
    """Cluster the rows as the paper does, without merging, and compute the noise covariance."""
    model = LeaveOneOutKMeans(
        n_clusters=N_CLUSTERS,
        epsilon_c=_EPSILON,
        delta_c=_DELTA,
        noise=noise,
        min_cluster_size=0,
        n_init=EXACT_INITS,
        random_state=EXACT_SEED,
    )
    exact = reveal(model.fit(rows).diagnostics_)
    s = calibration.gaussian_s(epsilon=_EPSILON, delta=_DELTA)
    return PaperMechanism(rows=rows, factor=s * symmetric_root(exact.covariance), exact=exact)


def paper_lemma_noise(rows: Floats) -> LemmaNoise | None:
    """Return the violation by the noise of the paper's lemma; None where the lemma does not apply.

    It needs removals that move the centroids in K d directions, and a cluster's own n removals
    move it in n - 1 at most.
    """
    runs = leave_one_out(rows, exact_answer(rows, N_CLUSTERS))
    try:
        factor, violation = paper_lemma(Columns.of_removals(runs))
    except InvalidParameterError:
        return None
    return LemmaNoise(violation=violation, feasible_power=float(np.square(factor).sum()))


def symmetric_root(covariance: Floats) -> Floats:
    """Return the symmetric root, the same on every machine: independent of eigenvector signs."""
    values, vectors = np.linalg.eigh(covariance)
    root: Floats = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root


# --- Algorithm 2 ----------------------------------------------------------------------------------


Moment = Literal["second", "centred"]


def algorithm_2(
    mechanism: PaperMechanism,
    *,
    centroids: Floats,
    wanted: Ints,
    epsilon: float | None,
    moment: Moment,
    generator: Generator,
) -> Floats:
    """Draw a customer of each wanted cluster.

    Parameters
    ----------
    centroids : (K, d)
        Noisy.
    wanted : (N,)
        Cluster of each customer to draw.
    epsilon
        Of the Wishart noise; None adds none.
    moment
        "second" is the paper to the letter, X X' / n, which is no covariance; "centred" is what it
        must have meant.
    """
    exact, drawn = mechanism.exact, np.empty((wanted.size, mechanism.rows.shape[1]))
    for k in np.unique(wanted):
        logs = np.log(mechanism.rows[exact.labels == k] + ALPHA_KW)
        offsets = logs if moment == "second" else logs - logs.mean(axis=0)
        covariance = offsets.T @ offsets / len(logs)
        if epsilon is not None:
            covariance += wishart_noise(
                n=len(logs),
                width=logs.shape[1],
                epsilon=epsilon,
                longest=float(np.linalg.norm(offsets, axis=1).max()),
                generator=generator,
            )
        moved = np.log(np.maximum(centroids[k] + ALPHA_KW, 1e-3)) - np.log(
            exact.centroids[k] + ALPHA_KW
        )
        own = np.flatnonzero(wanted == k)
        scores = generator.standard_normal((own.size, logs.shape[1]))
        drawn[own] = (
            np.exp(logs.mean(axis=0) + moved + scores @ symmetric_root(covariance)) - ALPHA_KW
        )
    return drawn


def wishart_noise(
    *, n: int, width: int, epsilon: float, longest: float, generator: Generator
) -> Floats:
    """Draw W for n rows no longer than ``longest``: the paper's mechanism, **not private**."""
    scale = 3.0 / (2.0 * n * epsilon) * longest**2
    draws = np.sqrt(scale) * generator.standard_normal((width, width + 1))
    noise: Floats = draws @ draws.T
    return noise
