"""Peers that count the customers nearest to candidates: FedDP-KMeans and PE-means.

A histogram has sensitivity 1 whatever the size of the load. All noise is Gaussian: the steps
compose exactly as one release with mu = sqrt(sum mu_i^2).
"""

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import gamma

from wattveil.arrays import Floats
from wattveil.calibration import gaussian_s
from wattveil.lab.baselines.baseline_interface import (
    BaselineResult,
    Noise,
    PublicChoices,
    checked,
    claimed_guarantee,
    in_unit_ball,
    total_delta,
)
from wattveil.lab.baselines.lloyd_baselines import sums_and_counts
from wattveil.lab.baselines.tree_baselines import weighted_means
from wattveil.numerics.kmeans.lloyd import assign
from wattveil.numerics.load_basis import shape_library

_COORDINATES = 13

_FED_SHAPES = 28
_FED_RADIUS = 0.5
_FED_SIZES = (0.3, 0.6, 1.0, 1.7, 3.0)
_FED_PROJECTION_SHARE, _FED_WEIGHT_SHARE = 0.25, 0.25
_FED_SUM_PART = 0.5
_FED_FEWEST = 5.0


class FedDpKMeans:
    """Scott, Lampert and Saulpic (ICML 2025), FedDP-KMeans, by its paper and published code.

    1. A noisy matrix of second moments; its first K eigenvectors span the subspace of the start.
    2. The server's own (public) points are projected to it and weighted by a noisy histogram of
       the customers nearest to each; weighted K-means of those with five customers or more.
    3. Noisy means of the customers nearest to each of these K points in the subspace.
    4. DP-Lloyd from there: they run one round.

    Federation aside: all customers are with one party. Server points here are the public shapes of
    `PrivateKMeans`, in kW at five sizes.

    Assumed: Gaussian noise throughout in place of Laplace noise on counts, exactly composed; equal
    rho for the four steps (they give each epsilon 1), half of a step for counts; moments of offsets
    from the given centre in 13 smooth public coordinates, clipped at half of the radius of 99 % of
    them; no round of step 4, whose share goes to step 3. The last three lose less here.
    """

    @staticmethod
    def fit(
        load_kw: ArrayLike,
        *,
        epsilon: float,
        delta: float,
        public: PublicChoices,
        generator: Generator,
        rounds: int = 0,
        several_sizes: bool = True,
        relative_radius: float = _FED_RADIUS,
        coordinates: int | None = _COORDINATES,
    ) -> BaselineResult:
        """Return the centroids after the noisy rounds: (epsilon, delta), rigorous."""
        rows = checked(load_kw, epsilon=epsilon, delta=delta, public=public)
        ball = public.centred_ball(relative_radius=relative_radius, coordinates=coordinates)
        points = ball.points(rows)
        n_clusters, d = public.n_clusters, points.shape[1]
        mu = gaussian_s(epsilon=epsilon, delta=delta)
        noise = Noise(generator)
        # Entries above the diagonal are drawn once: |x|^2 bounds the length of what they change.
        upper = np.triu_indices(d)
        moments = np.zeros((d, d))
        moments[upper] = noise.gaussian(
            (points.T @ points)[upper],
            sensitivity=1.0,
            mu=mu * np.sqrt(_FED_PROJECTION_SHARE),
            step="second moments",
        )
        moments += np.triu(moments, 1).T
        axes = np.linalg.eigh(moments)[1][:, -n_clusters:]
        server = ball.points(server_points(public, several_sizes=several_sizes))
        nearest = assign(points @ axes, server @ axes)
        weights = noise.gaussian(
            np.bincount(nearest, minlength=len(server)).astype(np.float64),
            sensitivity=1.0,
            mu=mu * np.sqrt(_FED_WEIGHT_SHARE),
            step="weights",
        )
        kept = np.flatnonzero(weights >= _FED_FEWEST)
        kept = kept if kept.size else np.array([int(weights.argmax())])
        projected = weighted_means(server[kept] @ axes, weights[kept], n_clusters, generator)
        centroids = projected @ axes.T
        labels = assign(points @ axes, projected)
        step = mu * np.sqrt((1.0 - _FED_PROJECTION_SHARE - _FED_WEIGHT_SHARE) / (1 + rounds))
        for done in range(1 + rounds):
            if done:
                labels = assign(points, centroids)
            exact_sums, exact_counts = sums_and_counts(points, labels, n_clusters)
            mu_sums, mu_counts = step * np.sqrt([_FED_SUM_PART, 1.0 - _FED_SUM_PART])
            sums = noise.gaussian(exact_sums, sensitivity=1.0, mu=mu_sums, step="sums")
            counts = noise.gaussian(exact_counts, sensitivity=1.0, mu=mu_counts, step="counts")
            moved = in_unit_ball(sums / np.maximum(counts, 1.0)[:, None])
            centroids = np.where(counts[:, None] > 1.0 / mu_counts, moved, centroids)
        return BaselineResult(
            centroids_kw=ball.rows(centroids),
            claimed=claimed_guarantee(epsilon, delta),
            true=claimed_guarantee(epsilon, total_delta(noise.steps, epsilon=epsilon)),
            known_violations=(),
            steps=tuple(noise.steps),
        )


def server_points(public: PublicChoices, *, several_sizes: bool) -> Floats:
    """Return public shapes at the typical size, or at five sizes around it."""
    shapes = shape_library(public.n_slots, _FED_SHAPES)
    sizes = np.array(_FED_SIZES if several_sizes else (1.0,))
    lengths = sizes * public.typical_kw * np.sqrt(public.n_slots)
    scaled: Floats = (lengths[:, None, None] * shapes).reshape(-1, public.n_slots)
    return scaled


_PE_GENERATIONS = 4.0
_PE_MAX_EPSILON = 10.0
_PE_STEP = 0.05
_PE_TAIL = 1.75
_PE_PER_MUTANT = 5
_PE_FEWEST_MUTANTS = 4
_PE_PACKING_DRAWS = 100


class PeMeans:
    """Humphries, Karami and Kerschbaum (2026), PE-means, by its paper's abstract and its code.

    A population of candidates evolves; customers only vote for the nearest. In each generation the
    votes get Gaussian noise; the smallest are set to 0 so that the others add up to n; weighted
    K-means of the candidates gives K centroids; these and L mutants of each, moved by Levy flights
    of a part of the radius, are the next population::

        generations = 4 sqrt(d), epsilon times as many for epsilon from 1 to 10
        L = n / (5 K), at least 4; halved when the votes' power is below that of their noise

    Assumed: the start is packed in the ball (candidates drawn apart from each other); 13 smooth
    public coordinates in place of the slots, and steps of 5 % of the radius in place of 1 %: both
    lose less here below epsilon 3 (`fit` takes either).
    """

    @staticmethod
    def fit(
        load_kw: ArrayLike,
        *,
        epsilon: float,
        delta: float,
        public: PublicChoices,
        generator: Generator,
        coordinates: int | None = _COORDINATES,
        step: float = _PE_STEP,
    ) -> BaselineResult:
        """Return the centroids of the last generation: (epsilon, delta), rigorous."""
        rows = checked(load_kw, epsilon=epsilon, delta=delta, public=public)
        ball = public.centred_ball(coordinates=coordinates)
        points = ball.points(rows)
        d = points.shape[1]
        n, n_clusters = public.n_customers, public.n_clusters
        generations = max(
            1, int(int(_PE_GENERATIONS * np.sqrt(d)) * min(max(1.0, epsilon), _PE_MAX_EPSILON))
        )
        mu = gaussian_s(epsilon=epsilon, delta=delta) / np.sqrt(generations)
        mutants = max(n // (_PE_PER_MUTANT * n_clusters), _PE_FEWEST_MUTANTS)
        noise = Noise(generator)
        population = packed_ball((mutants + 1) * n_clusters, d, generator)
        centroids = population[:n_clusters]
        for _ in range(generations):
            exact = np.bincount(assign(points, population), minlength=len(population))
            votes = noise.gaussian(exact.astype(np.float64), sensitivity=1.0, mu=mu, step="votes")
            votes = largest_votes(votes, n)
            if np.square(votes).sum() < len(votes) / mu**2:
                mutants = max(mutants // 2, _PE_FEWEST_MUTANTS)
            voted = votes > 0.0
            centroids = weighted_means(population[voted], votes[voted], n_clusters, generator)
            flights = levy_flights(n_clusters * mutants, d, generator)
            moved = in_unit_ball(np.repeat(centroids, mutants, axis=0) + step * flights)
            population = np.vstack([centroids, moved])
        return BaselineResult(
            centroids_kw=ball.rows(centroids),
            claimed=claimed_guarantee(epsilon, delta),
            true=claimed_guarantee(epsilon, total_delta(noise.steps, epsilon=epsilon)),
            known_violations=(),
            steps=tuple(noise.steps),
        )


def largest_votes(votes: Floats, n_customers: int) -> Floats:
    """Return the largest votes up to a sum of n, the others 0."""
    order = np.argsort(-votes)
    last = int(np.searchsorted(np.cumsum(votes[order]), n_customers))
    threshold = max(float(votes[order[min(last, len(votes) - 1)]]), 0.0)
    return np.where((votes >= threshold) & (votes > 0.0), votes, 0.0)


def levy_flights(count: int, n_dimensions: int, generator: Generator) -> Floats:
    """Return steps with tails of exponent 1.75 (Mantegna's algorithm)."""
    beta = _PE_TAIL
    scale = gamma(1.0 + beta) * np.sin(np.pi * beta / 2.0)
    scale /= gamma((1.0 + beta) / 2.0) * beta * 2.0 ** ((beta - 1.0) / 2.0)
    size = (count, n_dimensions)
    numerator = generator.normal(0.0, scale ** (1.0 / beta), size)
    flights: Floats = numerator / np.abs(generator.standard_normal(size)) ** (1.0 / beta)
    return flights


def packed_ball(count: int, n_dimensions: int, generator: Generator) -> Floats:
    """Return points of the unit ball that are far apart: the gap is halved where draws fail."""
    gap = 1.0
    while True:
        gap /= 2.0
        chosen = np.empty((0, n_dimensions))
        while len(chosen) < count:
            drawn = generator.standard_normal((_PE_PACKING_DRAWS, n_dimensions))
            drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
            drawn *= (1.0 - gap) * generator.random((len(drawn), 1)) ** (1.0 / n_dimensions)
            apart = np.linalg.norm(drawn[:, None] - chosen, axis=2).min(axis=1, initial=np.inf)
            fitting = drawn[apart >= 2.0 * gap]
            if not len(fitting):
                break
            chosen = np.vstack([chosen, fitting[:1]])
        if len(chosen) == count:
            return chosen
