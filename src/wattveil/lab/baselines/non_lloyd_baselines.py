"""Published baselines without noisy Lloyd rounds, one class per method, and one private mean.

Noisy grids, local search by the exponential mechanism, randomised response, points in a ball.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import gammainc, gammaincinv
from sklearn.cluster import KMeans
from sklearn.metrics.pairwise import euclidean_distances

from wattveil.arrays import Floats, Ints
from wattveil.calibration import gaussian_s
from wattveil.errors import InvalidParameterError
from wattveil.lab.baselines.baseline_interface import (
    BaselineResult,
    Noise,
    PublicChoices,
    checked,
    claimed_guarantee,
    in_unit_ball,
    keep_chance,
    total_delta,
    total_epsilon,
)
from wattveil.lab.baselines.lloyd_baselines import (
    noisy_means,
    sums_and_counts,
    uniform_initialisation,
)
from wattveil.numerics.kmeans.lloyd import assign
from wattveil.numerics.load_basis import harmonics, public_basis, shape_library
from wattveil.privacy.guarantee import Neighbours

MAX_GRID_SLOTS = 3
_GRID_MAX_CELLS = 1e5
_GRID_STARTS = 10


class UniformGrid:
    """Su, Cao, Li, Bertino and Jin (2016): EUGkM, k-means on a noisy histogram. For d <= 3 only.

    The box is cut into M = (n epsilon / 10)^(2 d / (2 + d)) equal cells; each count gets Laplace
    noise; weighted k-means on the centres of the cells is post-processing.

    Assumed: the same number of cells along every slot, two at least and 100,000 in all at most;
    negative counts are 0; n is public, since the list of customers is.
    """

    @staticmethod
    def fit(
        load_kw: ArrayLike,
        *,
        epsilon: float,
        delta: float,
        public: PublicChoices,
        generator: Generator,
    ) -> BaselineResult:
        """Return the centroids of the noisy histogram: pure epsilon, rigorous."""
        points = public.in_box(checked(load_kw, epsilon=epsilon, delta=delta, public=public))
        d = public.n_slots
        if d > MAX_GRID_SLOTS:
            raise InvalidParameterError(
                "load_kw", f"of at most {MAX_GRID_SLOTS} columns for a grid", d
            )
        wanted = (len(points) * epsilon / 10.0) ** (2.0 * d / (2.0 + d))
        side = int(
            np.clip(wanted, max(2**d, public.n_clusters), _GRID_MAX_CELLS) ** (1.0 / d) + 0.5
        )
        exact, edges = np.histogramdd(points, bins=side, range=[(-1.0, 1.0)] * d)
        noise = Noise(generator)
        counts = noise.laplace(exact, sensitivity=1.0, epsilon=epsilon, step="cells")
        midpoints = [(edge[:-1] + edge[1:]) / 2.0 for edge in edges]
        cells = np.stack(np.meshgrid(*midpoints, indexing="ij"), axis=-1).reshape(-1, d)
        # An empty cell weighs next to nothing: K clusters are found however few cells count.
        weights = np.maximum(counts, 1e-6).ravel()
        seed = int(generator.integers(2**31))
        found = KMeans(public.n_clusters, n_init=_GRID_STARTS, random_state=seed)
        found.fit(cells, sample_weight=weights)
        return BaselineResult(
            centroids_kw=public.from_box(found.cluster_centers_),
            claimed=claimed_guarantee(epsilon),
            true=claimed_guarantee(total_epsilon(noise.steps)),
            known_violations=(),
            steps=tuple(noise.steps),
        )


_BALCAN_GRIDS = 3
_BALCAN_CANDIDATE_SHARE, _BALCAN_SEARCH_SHARE, _BALCAN_MEANS_SHARE = 1.0 / 3.0, 1.0 / 6.0, 1.0 / 2.0
_BALCAN_MAX_SWAPS = 20
_BALCAN_MAX_CANDIDATES = 100
_BALCAN_FEW_SLOTS = 5


class Balcan2017:
    """Balcan, Dick, Liang, Mou and Zhang (2017), clustering in high dimensions, ICML.

    1. Project to p = floor(ln(n) / 2) random dimensions if there are more than five.
    2. Candidates (epsilon / 3): three grids over the projected cube, two of them shifted, halved
       level by level; a cell is kept if its count with Laplace noise exceeds a threshold, kept
       cells are split further, and the centre of each is a candidate.
    3. Local search (epsilon / 6): from K random candidates, swaps drawn by the exponential
       mechanism on the loss in the projected space; then one of the solutions passed is drawn the
       same way.
    4. Means of the clusters in the full space (epsilon / 2), Laplace noise.

    Differs from the authors' code, which spends up to 11/6 epsilon as written, scales its noise to
    one slot instead of a whole row, and divides by exact counts: here projected points are clipped,
    noise fits the L1 length d of a row in the box of public bounds, and counts are noisy. Their
    code goes on with three Lloyd rounds on the same budget; with noise that fits, these double the
    loss (geometric mean over 25 cells of the benchmark of the global tier), so they are omitted.

    Assumed: candidates are supplemented to 2 K by uniform draws from the cube; at most 20 swaps,
    100 candidates (the largest cells by their noisy counts); n is public, since the list of
    customers is.
    """

    @staticmethod
    def fit(
        load_kw: ArrayLike,
        *,
        epsilon: float,
        delta: float,
        public: PublicChoices,
        generator: Generator,
    ) -> BaselineResult:
        """Return the noisy means: epsilon with a delta of its own, not pure."""
        rows = checked(load_kw, epsilon=epsilon, delta=delta, public=public)
        noise = Noise(generator)
        projected = project(public.in_ball(rows), generator)
        found = candidates(projected, epsilon * _BALCAN_CANDIDATE_SHARE, noise, public.n_clusters)
        centres = local_search(
            projected, found.centres, public.n_clusters, epsilon * _BALCAN_SEARCH_SHARE, noise
        )
        centroids, _ = noisy_means(
            public.in_box(rows),
            assign(projected, centres),
            np.zeros((public.n_clusters, public.n_slots)),
            noise,
            epsilon=epsilon * _BALCAN_MEANS_SHARE,
        )
        return BaselineResult(
            centroids_kw=public.from_box(centroids),
            claimed=claimed_guarantee(epsilon),
            true=claimed_guarantee(total_epsilon(noise.steps), found.delta)
            if found.delta < 1.0
            else None,
            known_violations=(
                "a cell without customers is never kept, so one customer can be detected: not pure",
                "the authors' own code spends more than it claims; this is a corrected version",
            ),
            steps=tuple(noise.steps),
        )


def project(points: Floats, generator: Generator) -> Floats:
    """Return the points in few random dimensions, clipped to the unit ball."""
    d = points.shape[1]
    if d > _BALCAN_FEW_SLOTS:
        few = max(1, math.floor(0.5 * math.log(len(points))))
        points = points @ (generator.standard_normal((d, few)) / math.sqrt(few))
    return in_unit_ball(points)


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """Centres of kept cells, and the probability that a single customer's cell is among them."""

    centres: Floats
    delta: float


def candidates(points: Floats, epsilon: float, noise: Noise, n_clusters: int) -> Candidates:
    """Return the centres of the cells with many customers.

    A customer is in one cell of each level of each grid; each costs epsilon / (grids levels).
    """
    few = points.shape[1]
    levels = max(1, math.floor(math.log(len(points))))
    price = epsilon / (_BALCAN_GRIDS * levels)
    threshold = 2.0 * math.log(len(points)) / price
    centres, counts = np.empty((0, few)), np.empty(0)
    for grid in range(_BALCAN_GRIDS):
        corner, side = np.full(few, -1.0), 2.0
        if grid:  # a shifted cube must hold the ball as well: twice the side
            corner, side = noise.generator.uniform(-3.0, -1.0, (few,)), 4.0
        more, more_counts = kept_cells(
            points, corner, noise, side=side, prices=[price] * levels, threshold=threshold
        )
        centres, counts = np.vstack([centres, more]), np.append(counts, more_counts)
    chosen = centres[np.argsort(-counts)[:_BALCAN_MAX_CANDIDATES]]
    lacking = max(0, 2 * n_clusters - len(chosen))
    return Candidates(
        centres=np.vstack([chosen, noise.generator.uniform(-1.0, 1.0, (lacking, few))]),
        # Some cell that holds this customer alone is kept: P[1 + Lap > threshold] for each.
        delta=_BALCAN_GRIDS * levels * chance_above(threshold - 1.0, price),
    )


def chance_above(x: float, epsilon: float) -> float:
    """Return P[Lap(1 / epsilon) > x]."""
    tail = 0.5 * math.exp(-epsilon * abs(x))
    return tail if x > 0.0 else 1.0 - tail


def kept_cells(
    points: Floats,
    corner: Floats,
    noise: Noise,
    *,
    side: float,
    prices: Sequence[float],
    threshold: float,
) -> tuple[Floats, Floats]:
    """Return centre and noisy count of every cell of one grid above the threshold."""
    centres, counts = np.empty((0, points.shape[1])), np.empty(0)
    for price in prices:
        side /= 2.0
        cells, cell_of, exact = np.unique(
            np.floor((points - corner) / side), axis=0, return_inverse=True, return_counts=True
        )
        seen = noise.laplace(exact.astype(np.float64), sensitivity=1.0, epsilon=price, step="cells")
        kept = seen > threshold
        centres = np.vstack([centres, corner + (cells[kept] + 0.5) * side])
        counts = np.append(counts, seen[kept])
        points = points[kept[cell_of.reshape(-1)]]  # only kept cells are split further
    return centres, counts


def local_search(
    points: Floats, centres: Floats, n_clusters: int, epsilon: float, noise: Noise
) -> Floats:
    """Return K of the candidates, by noisy swaps and a noisy choice among the solutions passed.

    A customer adds at most 4, the squared diameter of the unit ball, to the loss of a solution.
    """
    # Candidates outside the ball only cost: their nearest point of it is nearer to every customer.
    centres = in_unit_ball(centres)
    squares = euclidean_distances(points, centres, squared=True)  # (P, candidates)
    swaps = min(n_clusters, _BALCAN_MAX_SWAPS)
    budget = epsilon / (swaps + 1)
    current = noise.generator.choice(len(centres), n_clusters, replace=False)
    passed, losses = [current], [squares[:, current].min(axis=1).sum()]
    for _ in range(swaps):
        costs = np.empty((n_clusters, len(centres)))
        for out in range(n_clusters):
            rest = squares[:, np.delete(current, out)].min(axis=1, initial=np.inf)
            costs[out] = np.minimum(rest[:, None], squares).sum(axis=0)
        drawn = noise.choose(costs.ravel(), sensitivity=4.0, epsilon=budget, step="swap")
        out, into = divmod(drawn, len(centres))
        current = current.copy()
        current[out] = into
        passed.append(current)
        losses.append(costs[out, into])
    best = noise.choose(np.array(losses), sensitivity=4.0, epsilon=budget, step="solution")
    return centres[passed[best]]


_XIA_BITS = 4
_XIA_ROUNDS = 2


class Xia2020:
    """Xia, Hua, Tong and Zhong (2020), local k-means, Comput. & Secur. 90, by its abstract.

    1. Once: each customer codes every value in b bits and sends each bit by randomised response.
    2. Rounds: the server sends centroids; each customer answers with the nearest one to its *true*
       values, by randomised response (the extended mechanism); the server averages the stored
       values of each group, corrected for the response.

    The only one here without a trusted curator, and the only baseline that releases labels: the
    answers of the last round. The basic mechanism sends the index in clear and guarantees nothing.

    Assumed: b = 4, half the budget for the values and half for the answers, 2 rounds (they lose 0.8
    times what 5 do), a uniformly random initialisation.
    """

    @staticmethod
    def fit(
        load_kw: ArrayLike,
        *,
        epsilon: float,
        delta: float,
        public: PublicChoices,
        generator: Generator,
    ) -> BaselineResult:
        """Return centroids and the last answers: pure epsilon, also against the utility itself."""
        points = public.in_box(checked(load_kw, epsilon=epsilon, delta=delta, public=public))
        noise = Noise(generator)
        sent = send_values(points, epsilon / 2.0, noise)
        centroids = uniform_initialisation(public.n_clusters, public.n_slots, generator)
        answers = np.zeros(len(points), np.int64)
        for _ in range(_XIA_ROUNDS):
            nearest = assign(points, centroids).astype(np.int64)
            budget = epsilon / 2.0 / _XIA_ROUNDS
            answers = noise.respond(nearest, public.n_clusters, epsilon=budget, step="answer")
            centroids = corrected_means(sent, answers, centroids, epsilon=budget)
        paid = claimed_guarantee(total_epsilon(noise.steps), neighbours=Neighbours.REPLACE_ONE)
        return BaselineResult(
            centroids_kw=public.from_box(centroids),
            labels=answers,
            claimed=claimed_guarantee(epsilon, neighbours=Neighbours.REPLACE_ONE),
            true=paid,
            true_with_labels=paid,
            known_violations=("bits, rounds and split are assumed",),
            steps=tuple(noise.steps),
        )


def send_values(points: Floats, epsilon: float, noise: Noise) -> Floats:
    """Return unbiased values in which every bit went through randomised response.

    A bit is kept with p = e^x / (1 + e^x), x = epsilon / (d b); (sent - (1 - p)) / (2 p - 1) is
    right on average.
    """
    per_bit = epsilon / (points.shape[1] * _XIA_BITS)
    max_code = 2**_XIA_BITS - 1
    codes = np.rint((points + 1.0) / 2.0 * max_code).astype(np.int64)
    places = np.arange(_XIA_BITS)
    bits = codes[..., None] >> places & 1
    keep = keep_chance(2, per_bit)
    sent = np.empty(bits.shape)
    for slot in range(points.shape[1]):
        for place in places:
            step = f"slot {slot}, bit {place}"
            sent[:, slot, place] = noise.respond(
                bits[:, slot, place], 2, epsilon=per_bit, step=step
            )
    unbiased = (sent - (1.0 - keep)) / (2.0 * keep - 1.0)
    values: Floats = 2.0 * (unbiased @ 2.0**places) / max_code - 1.0
    return values


def corrected_means(sent: Floats, answers: Ints, previous: Floats, *, epsilon: float) -> Floats:
    """Return the mean of each group, corrected for randomised answers.

    With keep chance p and q = (1 - p) / (K - 1), group r holds sum_k M_kr of what belongs to
    cluster k, M = (p - q) I + q: so what belongs to k is (group k - q total) / (p - q).
    """
    n_clusters = len(previous)
    keep = keep_chance(n_clusters, epsilon)
    other = (1.0 - keep) / (n_clusters - 1)
    sums, counts = sums_and_counts(sent, answers, n_clusters)
    sums = (sums - other * sums.sum(axis=0)) / (keep - other)
    counts = (counts - other * counts.sum()) / (keep - other)
    means = np.clip(sums / np.maximum(counts, 1.0)[:, None], -1.0, 1.0)
    return np.where(counts[:, None] > 1.0, means, previous)


_LU_SHEN_ROUNDS = 20
_LU_SHEN_VIOLATIONS = (
    "the output lies in a ball around the exact mean, which differs between neighbours",
    "so some outputs have probability 0 for one of two neighbours, for any epsilon",
    "size of the ball and sensitivity use exact means and counts",
    "an empty cluster can be detected, since its centroid stays",
)


class LuShen2020:
    """Lu and Shen (2020), guaranteed convergence, arXiv 2002.01043, by its abstract: not private.

    Each round: m_k is the exact mean of the customers nearest to the published centroid c_k. Any
    point of the ball around m_k with radius |m_k - c_k| lowers the loss, so a point of that ball is
    published by the exponential mechanism, those near m_k more likely.

    Assumed: 20 rounds of the same budget (10 lose twice as much); the density is exp(-epsilon_t |z
    - m_k| / (2 s_k)), with the sensitivity s_k = 2 sqrt(d) / n_k of a mean of n_k points of [-1,
    1]^d; a uniformly random initialisation.
    """

    @staticmethod
    def fit(
        load_kw: ArrayLike,
        *,
        epsilon: float,
        delta: float,
        public: PublicChoices,
        generator: Generator,
    ) -> BaselineResult:
        """Return the last published centroids: no guarantee."""
        points = public.in_box(checked(load_kw, epsilon=epsilon, delta=delta, public=public))
        d = public.n_slots
        centroids = uniform_initialisation(public.n_clusters, d, generator)
        for _ in range(_LU_SHEN_ROUNDS):
            labels = assign(points, centroids)
            for cluster in np.unique(labels):
                members = points[labels == cluster]
                sensitivity = 2.0 * np.sqrt(d) / len(members)
                centroids[cluster] = point_in_ball(
                    members.mean(axis=0),
                    centroids[cluster],
                    rate=epsilon / _LU_SHEN_ROUNDS / (2.0 * sensitivity),
                    generator=generator,
                )
        return BaselineResult(
            centroids_kw=public.from_box(centroids),
            claimed=claimed_guarantee(epsilon),
            true=None,
            known_violations=_LU_SHEN_VIOLATIONS,
        )


def point_in_ball(centre: Floats, edge: Floats, *, rate: float, generator: Generator) -> Floats:
    """Draw z with density exp(-rate |z - centre|) from the ball that ends at ``edge``.

    Its distance has density r^(d-1) exp(-rate r): a gamma law cut off at the radius.
    """
    d = centre.size
    radius = float(np.linalg.norm(edge - centre))
    cut = float(gammainc(d, rate * radius))
    share = generator.random()
    # Where the law is so flat that its cut is 0 it is uniform: (r / radius)^d is.
    uniform = radius * share ** (1.0 / d)
    distance = float(gammaincinv(d, share * cut)) / rate if cut > 0.0 else uniform
    direction = generator.standard_normal(d)
    drawn: Floats = centre + min(distance, radius) * direction / np.linalg.norm(direction)
    return drawn


_MEAN_COORDINATES = 9
_MEAN_LIBRARY = 12
_MEAN_PRIOR_STD = 0.4
_MEAN_RELATIVE_RADIUS = 0.6


class PrivateMean:
    """The trivial answer: one private mean profile for every cluster, with the whole budget.

    A strong one: the sum of offsets from the mean of public shapes at the usual size, clipped at a
    radius in usual sizes, in nine smooth coordinates, weighed against a prior. A mechanism that
    does not beat it found no clusters.

    Assumed: the prior is the best of five on 100 and 246 London homes; the number of customers is
    public, since their list is.
    """

    @staticmethod
    def fit(
        load_kw: ArrayLike,
        *,
        epsilon: float,
        delta: float,
        public: PublicChoices,
        generator: Generator,
        relative_radius: float = _MEAN_RELATIVE_RADIUS,
    ) -> BaselineResult:
        """Return K times the same profile: (epsilon, delta), rigorous."""
        rows = checked(load_kw, epsilon=epsilon, delta=delta, public=public)
        d = public.n_slots
        coordinates = min(_MEAN_COORDINATES, d)
        basis = public_basis(d)[:coordinates]
        size = public.typical_kw * np.sqrt(d)
        mean_shape = shape_library(d, _MEAN_LIBRARY).mean(axis=0)
        centre = basis @ (size * mean_shape / np.linalg.norm(mean_shape))
        smooth = (1.0 + harmonics(coordinates)) ** -2.0
        variance = np.square(_MEAN_PRIOR_STD * size) * smooth / smooth.sum()

        radius = relative_radius * size
        offsets = rows @ basis.T - centre
        lengths = np.linalg.norm(offsets, axis=1, keepdims=True)
        clipped = offsets * np.minimum(1.0, radius / np.maximum(lengths, 1e-12))
        noise = Noise(generator)
        mu = gaussian_s(epsilon=epsilon, delta=delta)
        total = noise.gaussian(clipped.sum(axis=0), sensitivity=radius, mu=mu, step="sum")
        weight = variance / (variance + np.square(radius / mu / len(rows)))
        profile = (centre + weight * total / len(rows)) @ basis
        return BaselineResult(
            centroids_kw=np.tile(profile, (public.n_clusters, 1)),
            claimed=claimed_guarantee(epsilon, delta),
            true=claimed_guarantee(epsilon, total_delta(noise.steps, epsilon=epsilon)),
            known_violations=(),
            steps=tuple(noise.steps),
        )
