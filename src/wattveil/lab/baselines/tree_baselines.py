"""Peers that divide the customers by a tree: Google's LSH clustering, and DPM.

A customer is in one node of every level. So the noise of the counts of a level is that of one
count, the sums of all leaves have the sensitivity of one row, and costs add up over levels.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from wattveil.arrays import Floats, Ints
from wattveil.calibration import gaussian_s
from wattveil.lab.baselines.baseline_interface import (
    BaselineResult,
    Noise,
    PublicChoices,
    checked,
    claimed_guarantee,
    in_unit_ball,
    total_delta,
    total_epsilon,
)
from wattveil.lab.baselines.lloyd_baselines import sums_and_counts

_INITS = 10
_MAX_ROUNDS = 100
_TOLERANCE = 1e-6
_COORDINATES = 13
_RADIUS = 0.5
"""Of the ball that holds 99 % of the offsets: losses are lower than with all of it."""


def weighted_means(
    points: Floats, weights: Floats, n_clusters: int, generator: Generator
) -> Floats:
    """Return K centroids of weighted released points; where there are fewer, the last is repeated.

    Post-processing: the best of ten runs of K-means from k-means++ starts, all runs at once, since
    there are few points. A point without weight counts next to nothing.
    """
    if len(points) <= n_clusters:
        return points[np.minimum(np.arange(n_clusters), len(points) - 1)]
    weights = np.maximum(weights, 1e-6)
    runs = np.arange(_INITS)
    centroids = np.empty((_INITS, n_clusters, points.shape[1]))
    cost = np.ones((_INITS, len(points)))
    for cluster in range(n_clusters):
        reach = np.cumsum(cost * weights, axis=1)
        drawn = generator.random((_INITS, 1)) * reach[:, -1:]
        centroids[:, cluster] = points[np.minimum((reach < drawn).sum(axis=1), len(points) - 1)]
        apart = np.square(points - centroids[:, cluster, None]).sum(axis=2)
        cost = np.minimum(cost, apart) if cluster else apart
    squares = np.square(points).sum(axis=1)[:, None]
    losses = np.full(_INITS, np.inf)
    for _ in range(_MAX_ROUNDS):
        lengths = np.square(centroids).sum(axis=2)[:, None]
        distances = squares - 2.0 * points @ centroids.transpose(0, 2, 1) + lengths
        nearest = distances.argmin(axis=2)
        before, losses = losses, distances.min(axis=2) @ weights
        if not (losses < before * (1.0 - _TOLERANCE)).any():
            break
        members = np.zeros(distances.shape)
        members[runs[:, None], np.arange(len(points)), nearest] = weights
        counts = members.sum(axis=1)[:, :, None]
        means = members.transpose(0, 2, 1) @ points / np.maximum(counts, 1e-12)
        centroids = np.where(counts > 0.0, means, centroids)
    best: Floats = centroids[losses.argmin()]
    return best


_LSH_DEPTH = 4
_LSH_COUNT_SHARE = 0.05
_LSH_NOISE_RATIO = 10.0
_LSH_BRANCHING = 3.0


class GoogleLsh:
    """Google's LSH clustering (Chang and Kamath 2021), by its published code.

    A tree of random hyperplanes through the centre: a node with enough customers by its noisy count
    is split by the sign of a random projection, one per level; a child with too few is dropped. The
    noisy mean of each leaf, weighted by its count, is a coreset, and K-means of it the result. With
    sigma the standard deviation of the noise of a sum for customers of norm 1::

        fewest customers of a node = min(10 sqrt(d) sigma, n / (2 K))    of a node to split: 3 times

    Assumed: counts get Gaussian noise in place of discrete Laplace noise: over the levels it
    composes exactly, and has half the variance at the same cost. 5 % of rho is for counts (their
    multipliers, 1 and 20), divided among 4 levels in place of 20, in 13 smooth public coordinates
    in place of the slots: both lose less here. n is public.
    """

    @staticmethod
    def fit(
        load_kw: ArrayLike,
        *,
        epsilon: float,
        delta: float,
        public: PublicChoices,
        generator: Generator,
        depth: int = _LSH_DEPTH,
        count_share: float = _LSH_COUNT_SHARE,
        relative_radius: float = _RADIUS,
        coordinates: int | None = _COORDINATES,
    ) -> BaselineResult:
        """Return the centroids of the coreset: (epsilon, delta), rigorous."""
        rows = checked(load_kw, epsilon=epsilon, delta=delta, public=public)
        ball = public.centred_ball(relative_radius=relative_radius, coordinates=coordinates)
        points = ball.points(rows)
        mu = gaussian_s(epsilon=epsilon, delta=delta)
        mu_sums, mu_level = mu * np.sqrt([1.0 - count_share, count_share / depth])
        low_noise = _LSH_NOISE_RATIO * math.sqrt(points.shape[1]) / mu_sums
        fewest = max(1.0, min(low_noise, public.n_customers / (2.0 * public.n_clusters)))
        noise = Noise(generator)
        leaves, counts = lsh_leaves(
            points,
            noise,
            n_customers=public.n_customers,
            depth=depth,
            mu_level=mu_level,
            fewest=fewest,
        )
        inside = leaves >= 0  # customers of dropped nodes are in no leaf
        exact, _ = sums_and_counts(points[inside], leaves[inside], len(counts))
        sums = noise.gaussian(exact, sensitivity=1.0, mu=mu_sums, step="sums")
        coreset = in_unit_ball(sums / counts[:, None])
        centroids = weighted_means(coreset, counts, public.n_clusters, generator)
        return BaselineResult(
            centroids_kw=ball.rows(centroids),
            claimed=claimed_guarantee(epsilon, delta),
            true=claimed_guarantee(epsilon, total_delta(noise.steps, epsilon=epsilon)),
            known_violations=(),
            steps=tuple(noise.steps),
        )


def lsh_leaves(
    points: Floats, noise: Noise, *, n_customers: int, depth: int, mu_level: float, fewest: float
) -> tuple[Ints, Floats]:
    """Return the leaf of each customer, -1 without one, and the noisy count of each leaf."""
    node_of = np.zeros(len(points), np.int64)  # number within the level; -1: not in this level
    node_counts = np.array([float(n_customers)])
    leaf_of = np.full(len(points), -1, np.int64)
    leaf_counts: list[float] = []
    for level in range(depth + 1):
        splits = (node_counts >= _LSH_BRANCHING * fewest) & (level < depth)
        child_counts = np.empty(0)
        child_of = np.full(len(points), -1, np.int64)
        if splits.any():
            hyperplane = noise.generator.standard_normal(points.shape[1])
            place = np.where(splits, np.cumsum(splits) - 1, -1)  # among the nodes that split
            inside = node_of >= 0
            parent = np.where(inside, place[node_of], -1)
            child_of = np.where(parent >= 0, 2 * parent + (points @ hyperplane < 0.0), -1)
            exact = np.bincount(child_of[child_of >= 0], minlength=2 * int(splits.sum()))
            child_counts = noise.gaussian(
                exact.astype(np.float64), sensitivity=1.0, mu=mu_level, step="counts"
            )
        kept = child_counts >= fewest
        has_child = np.zeros(len(node_counts), bool)
        has_child[np.flatnonzero(splits)] = kept.reshape(-1, 2).any(axis=1)
        for node in np.flatnonzero(~has_child):
            leaf_of[node_of == node] = len(leaf_counts)
            leaf_counts.append(max(float(node_counts[node]), 1.0))
        number = np.where(kept, np.cumsum(kept) - 1, -1)
        node_of = np.where(child_of >= 0, number[child_of], -1) if kept.size else child_of
        node_counts = child_counts[kept]
        if not node_counts.size:
            break
    return leaf_of, np.array(leaf_counts)


_DPM_LEVELS = 7
_DPM_COUNT_SHARE, _DPM_SPLIT_SHARE, _DPM_MEAN_SHARE = 0.2, 0.2, 0.6
_DPM_CENTRE_WEIGHT, _DPM_EMPTY_WEIGHT = 1.0, 5.0
_DPM_T, _DPM_Q = 0.3, 1.0 / 12.0
_DPM_INTERVALS = 40
_DPM_VIOLATIONS = (
    "the authors' width of an interval is a noisy quantile of gaps between neighbouring values",
    "gaps are averaged over coordinates by rank: a customer can change all, not two as assumed",
    "here the width is public",
)


class Dpm:
    """Liebenow et al. (2023/24), "DPM: Clustering Sensitive Data through Separation", by its code.

    Up to seven times a set is split at an interval of one coordinate that the exponential mechanism
    draws: one with few customers (emptiness, weight 5) and as many on either side (centreness,
    weight 1). A split with a side below n / 2^7 by its noisy count is not made. The noisy means of
    all sets are the result. Later levels get sqrt(2) times the epsilon of the one before.

    Assumed: weighted K-means of the means, since it does not take K; the width of an interval is
    public, 1/20 of the radius, and its share of epsilon goes to counts and splits, 0.2 each, the
    means get 0.6; n is public. The Gaussian means get the whole delta; epsilons add up.
    """

    @staticmethod
    def fit(
        load_kw: ArrayLike,
        *,
        epsilon: float,
        delta: float,
        public: PublicChoices,
        generator: Generator,
        levels: int = _DPM_LEVELS,
        relative_radius: float = _RADIUS,
        coordinates: int | None = None,
    ) -> BaselineResult:
        """Return the centroids of the sets: (epsilon, delta), rigorous with a public width."""
        rows = checked(load_kw, epsilon=epsilon, delta=delta, public=public)
        ball = public.centred_ball(relative_radius=relative_radius, coordinates=coordinates)
        points = ball.points(rows)
        noise = Noise(generator)
        tree = separated(
            points,
            noise,
            n_customers=public.n_customers,
            count_budgets=growing_budgets(_DPM_COUNT_SHARE * epsilon, levels),
            split_budgets=growing_budgets(_DPM_SPLIT_SHARE * epsilon, levels),
        )
        epsilon_means = _DPM_MEAN_SHARE * epsilon
        mu = gaussian_s(epsilon=epsilon_means, delta=delta)
        exact, _ = sums_and_counts(points, tree.labels, len(tree.counts))
        sums = noise.gaussian(exact, sensitivity=1.0, mu=mu, step="sums")
        means = in_unit_ball(sums / np.maximum(tree.counts, 1.0)[:, None])
        centroids = weighted_means(means, tree.counts, public.n_clusters, generator)
        return BaselineResult(
            centroids_kw=ball.rows(centroids),
            claimed=claimed_guarantee(epsilon, delta),
            true=claimed_guarantee(
                total_epsilon(noise.steps) + epsilon_means,
                total_delta(noise.steps, epsilon=epsilon_means),
            ),
            known_violations=_DPM_VIOLATIONS,
            steps=tuple(noise.steps),
        )


def growing_budgets(epsilon: float, levels: int) -> Floats:
    """Return the epsilon of each level, sqrt(2) times that of the level before."""
    parts = np.sqrt(2.0 ** np.arange(levels))
    budgets: Floats = epsilon * parts / parts.sum()
    return budgets


@dataclass(frozen=True, kw_only=True, eq=False)
class Separated:
    """The set of each customer, and the noisy count of each set."""

    labels: Ints
    counts: Floats


def separated(
    points: Floats,
    noise: Noise,
    *,
    n_customers: int,
    count_budgets: Floats,
    split_budgets: Floats,
) -> Separated:
    """Split the customers level by level; a customer is in one set of each level."""
    labels = np.zeros(len(points), np.int64)
    counts = [float(n_customers)]
    fewest = n_customers / 2.0 ** len(split_budgets)
    growing = [0]  # sets that may be split at this level
    for count_budget, split_budget in zip(count_budgets, split_budgets, strict=True):
        branches, further = [], []
        for label in growing:
            branch = Noise(noise.generator)
            members = np.flatnonzero(labels == label)
            coordinate, position = drawn_split(
                points[members], counts[label], branch, epsilon=split_budget
            )
            above = points[members, coordinate] > position
            sides = branch.laplace(
                np.array([(~above).sum(), above.sum()], np.float64),
                sensitivity=1.0,
                epsilon=count_budget,
                step="counts",
            )
            branches.append(branch)
            if sides.min() > fewest:
                labels[members[above]] = len(counts)
                further += [label, len(counts)]
                counts[label] = float(sides[0])
                counts.append(float(sides[1]))
        if branches:
            noise.took_one_of(branches)
        growing = further
    return Separated(labels=labels, counts=np.array(counts))


def drawn_split(points: Floats, count: float, noise: Noise, *, epsilon: float) -> tuple[int, float]:
    """Return the coordinate and position of a split, by the exponential mechanism.

    Scores are those of the paper times the noisy count, so that one customer changes centreness by
    at most t / q = 3.6 and emptiness by 1, whatever the count. They are not monotone: twice that.
    """
    edges = np.linspace(-1.0, 1.0, _DPM_INTERVALS + 1)
    middles = (edges[:-1] + edges[1:]) / 2.0
    ordered = np.sort(points, axis=0)
    scores = np.empty((points.shape[1], _DPM_INTERVALS))
    for coordinate, values in enumerate(ordered.T):
        inside = np.diff(np.searchsorted(values, edges))
        below = np.searchsorted(values, middles)
        scores[coordinate] = _DPM_CENTRE_WEIGHT * centreness(
            below, count
        ) + _DPM_EMPTY_WEIGHT * np.clip(count - inside, 0.0, count)
    sensitivity = 2.0 * (_DPM_CENTRE_WEIGHT * _DPM_T / _DPM_Q + _DPM_EMPTY_WEIGHT)
    drawn = noise.choose(-scores.ravel(), sensitivity=sensitivity, epsilon=epsilon, step="split")
    coordinate, interval = divmod(drawn, _DPM_INTERVALS)
    return coordinate, float(middles[interval])


def centreness(below: Ints, count: float) -> Floats:
    """Return count times the score of splits with ``below`` customers on one side.

    From 0 at the ends to t at the quantiles q and 1 - q, then to 1 in the middle.
    """
    count = max(count, 1.0)
    depth = count / 2.0 - np.abs(below - count / 2.0)
    outer = depth * _DPM_T / _DPM_Q
    inner = count * _DPM_T + (depth - count * _DPM_Q) * (1.0 - _DPM_T) / (0.5 - _DPM_Q)
    scores: Floats = np.where(depth <= count * _DPM_Q, outer, inner)
    return scores
