"""The paper's mechanism on one data set, ready to be drawn from many times.

`LeaveOneOutKMeans` computes the exact answer and the covariance of the noise once; its diagnostics
are private and stay in house, as these figures do. What is drawn here is scaled to any s (the noise
that hides a difference v has v' S^-1 v = s^2, so S is proportional to 1 / s^2) and repeats with a
seed, which a release never does.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from wattveil import calibration
from wattveil.baselines.loss import (
    EXACT_SEED,
    EXACT_STARTS,
    accuracy_loss,
    clustering_loss,
    exact_answer,
)
from wattveil.clustering._columns import Columns
from wattveil.clustering._kernels import Indices
from wattveil.clustering.geometry import Floats
from wattveil.clustering.leave_one_out import leave_one_out
from wattveil.clustering.paper_lemma import paper_lemma
from wattveil.errors import InvalidParameterError
from wattveil.instance.kmeans import InstanceDiagnostics, LeaveOneOutKMeans
from wattveil.privacy.mechanisms.modulo import modulo_flip
from wattveil.privacy.opening import reveal
from wattveil.reproduce.draws import Lots

N_CLUSTERS = 6

_EPSILON, _DELTA = 1.0, 0.01
"""Where the covariance is computed: any would do."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Mechanism:
    """Exact answer and noise.

    Attributes
    ----------
    rows : (P, d)
        The data set.
    factor : (K d, K d)
        Symmetric, F F' the covariance of the noise at s = 1.
    exact : InstanceDiagnostics
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

    def centroids(self, s: float, lots: Lots) -> Floats:
        """Draw noisy centroids."""
        noise = self.factor @ lots.standard_normal(len(self.factor)) / s
        return self.exact.centroids + noise.reshape(self.exact.centroids.shape)

    def flip(self, epsilon: float, delta: float = 0.0) -> float:
        """Return the chance rho that a label in L moves."""
        return modulo_flip(
            n_labels=N_CLUSTERS, changed=self.exact.labels_changed, epsilon=epsilon, delta=delta
        )

    def labels(self, epsilon: float, lots: Lots) -> Indices:
        """Draw the labels: those in L move with chance rho to one of the others."""
        labels, own = self.exact.labels.copy(), self.exact.label_set
        moves = lots.random(own.size) < self.flip(epsilon)
        offsets = lots.integers(1, N_CLUSTERS, own.size)
        labels[own] = np.where(moves, (labels[own] + offsets) % N_CLUSTERS, labels[own])
        return labels

    def accuracy_loss(self, centroids: Floats, labels: Indices | None = None) -> float:
        """Return the DP accuracy loss of an answer; without labels, of the nearest centroids."""
        return accuracy_loss(self.rows, centroids, labels, exact=self.loss)


class LemmaNoise(NamedTuple):
    """The noise of the paper's lemma at s = 1."""

    violation: float
    """Largest v' S^-1 v, which should be 1. It depends on the units of the data."""
    mended_power: float
    """tr S of noise of its colour that does meet the constraint."""


def paper_mechanism(rows: Floats, *, noise: Literal["coloured", "white"]) -> Mechanism:
    """Cluster the rows as the paper does, nothing merged, and find the noise."""
    model = LeaveOneOutKMeans(
        n_clusters=N_CLUSTERS,
        epsilon_c=_EPSILON,
        delta_c=_DELTA,
        noise=noise,
        min_cluster_size=0,
        n_init=EXACT_STARTS,
        random_state=EXACT_SEED,
    )
    exact = reveal(model.fit(rows).diagnostics_)
    s = calibration.gaussian_s(epsilon=_EPSILON, delta=_DELTA)
    return Mechanism(rows=rows, factor=s * symmetric_root(exact.covariance), exact=exact)


def paper_lemma_noise(rows: Floats) -> LemmaNoise | None:
    """Return what is wrong with the noise of the paper's lemma; None where it says nothing.

    It asks for removals that move the centroids in K d directions, and a cluster's own n removals
    move it in n - 1 at most.
    """
    runs = leave_one_out(rows, exact_answer(rows, N_CLUSTERS))
    try:
        factor, violation = paper_lemma(Columns.of_removals(runs))
    except InvalidParameterError:
        return None
    return LemmaNoise(violation=violation, mended_power=float(np.square(factor).sum()))


def symmetric_root(covariance: Floats) -> Floats:
    """Return the root that every machine agrees on; others turn with the signs of eigenvectors."""
    values, vectors = np.linalg.eigh(covariance)
    root: Floats = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root
