"""Published baselines that run noisy Lloyd rounds, one class per method.

Blum, Dwork, McSherry and Nissim (2005): in a round every customer adds one point to one sum and 1
to one count, so with points of [-1, 1]^d a customer changes the sums by at most d and the counts by
1, whatever the data: the noise is rigorous, and the costs of rounds add up.
"""

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from sklearn.neighbors import NearestNeighbors

from wattveil.arrays import Floats, Ints, Labels
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
from wattveil.numerics.kmeans.lloyd import assign, k_means

_PACKING_DRAWS = 100


def uniform_initialisation(n_clusters: int, n_slots: int, generator: Generator) -> Floats:
    """Return centroids drawn uniformly from [-1, 1]^d."""
    return generator.uniform(-1.0, 1.0, (n_clusters, n_slots))


def packed_initialisation(n_clusters: int, n_slots: int, generator: Generator) -> Floats:
    """Return centroids of which no two are near each other: the sphere packing of Su et al. (2016).

    Each is drawn at least a from the walls of [-1, 1]^d and 2 a from the others; when 100 draws in
    a row fail, a is halved and all begin anew.
    """
    gap = 1.0
    while True:
        gap /= 2.0
        chosen: list[Floats] = []
        for _ in range(n_clusters):
            drawn = generator.uniform(gap - 1.0, 1.0 - gap, (_PACKING_DRAWS, n_slots))
            if chosen:
                apart = np.linalg.norm(drawn[:, None] - np.array(chosen), axis=2).min(axis=1)
                drawn = drawn[apart >= 2.0 * gap]
            if not len(drawn):
                break
            chosen.append(drawn[0])
        if len(chosen) == n_clusters:
            return np.array(chosen)


# --- noisy rounds ---------------------------------------------------------------------------------


def lap_lloyd(
    points: Floats,
    start: Floats,
    budgets: Sequence[float],
    noise: Noise,
    *,
    count_share: float | None = None,
) -> tuple[Floats, Floats]:
    """Return the centroids and noisy counts after one round for each budget.

    Parameters
    ----------
    points : (P, d)
        In [-1, 1]^d.
    start : (K, d)
        Public, or released before.
    budgets
        Epsilon of each round.
    noise
        Draws and records.
    count_share
        Of a round's epsilon for the counts; None makes the noise of sums and counts alike.
    """
    centroids, counts = start, np.zeros(len(start))
    for epsilon in budgets:
        # A part without customers returns noise only.
        labels = assign(points, centroids) if len(points) else np.empty(0, np.int32)
        centroids, counts = noisy_means(
            points,
            labels,
            centroids,
            noise,
            epsilon=epsilon,
            count_share=count_share,
        )
    return centroids, counts


def noisy_means(
    points: Floats,
    labels: Labels,
    previous: Floats,
    noise: Noise,
    *,
    epsilon: float,
    count_share: float | None = None,
) -> tuple[Floats, Floats]:
    """Return the noisy mean and count of each cluster; one without customers keeps its centroid.

    With the usual share the noise is Lap((d + 1) / epsilon) on every number.
    """
    d = points.shape[1]
    share = 1.0 / (d + 1.0) if count_share is None else count_share
    exact_sums, exact_counts = sums_and_counts(points, labels, len(previous))
    sums = noise.laplace(exact_sums, sensitivity=d, epsilon=(1.0 - share) * epsilon, step="sums")
    counts = noise.laplace(exact_counts, sensitivity=1.0, epsilon=share * epsilon, step="counts")
    means = np.clip(sums / np.maximum(counts, 1.0)[:, None], -1.0, 1.0)
    return np.where(counts[:, None] > 1.0, means, previous), counts


def sums_and_counts(
    points: Floats, labels: Labels | Ints, n_clusters: int
) -> tuple[Floats, Floats]:
    """Return the exact sum and count of each cluster."""
    sums = np.zeros((n_clusters, points.shape[1]))
    np.add.at(sums, labels, points)
    return sums, np.bincount(labels, minlength=n_clusters).astype(np.float64)


# --- methods --------------------------------------------------------------------------------------


_GAUSSIAN_ROUNDS = 3
_GAUSSIAN_COUNT_SHARE = 0.1


class GaussianLloyd:
    """DP-Lloyd with Gaussian noise, accounted exactly: the plain mechanism of today.

    Rows are clipped to a ball; each round releases noisy sums and counts; all rounds together are
    one Gaussian release with mu = sqrt(sum mu_i^2).

    Assumed: a packed start within the bounds of the slots, to which means are brought back: both
    are public, and together take the loss to 0.71 times that of a start at random directions
    without bounds (geometric mean over 25 cells of the benchmark of the global tier; a start at
    positive directions of random length to 0.78). 3 rounds, which lose less than 7; a tenth of each
    for the counts (0.05 to 0.2 differ by a tenth, 0.5 is worse).
    """

    @staticmethod
    def fit(
        load_kw: ArrayLike,
        *,
        epsilon: float,
        delta: float,
        public: PublicChoices,
        generator: Generator,
        rounds: int = _GAUSSIAN_ROUNDS,
    ) -> BaselineResult:
        """Return the centroids after some noisy rounds: (epsilon, delta), rigorous."""
        points = public.in_ball(checked(load_kw, epsilon=epsilon, delta=delta, public=public))
        mu = gaussian_s(epsilon=epsilon, delta=delta) / np.sqrt(rounds)
        mu_counts, mu_sums = mu * np.sqrt([_GAUSSIAN_COUNT_SHARE, 1.0 - _GAUSSIAN_COUNT_SHARE])
        noise = Noise(generator)
        start = packed_initialisation(public.n_clusters, public.n_slots, generator)
        centroids = _within_bounds(public.from_box(start) / public.radius, public)
        for _ in range(rounds):
            labels = assign(points, centroids)
            exact_sums, exact_counts = sums_and_counts(points, labels, public.n_clusters)
            sums = noise.gaussian(exact_sums, sensitivity=1.0, mu=mu_sums, step="sums")
            counts = noise.gaussian(exact_counts, sensitivity=1.0, mu=mu_counts, step="counts")
            moved = _within_bounds(sums / np.maximum(counts, 1.0)[:, None], public)
            # A count within its own noise is indistinguishable from zero.
            centroids = np.where(counts[:, None] > 1.0 / mu_counts, moved, centroids)
        return BaselineResult(
            centroids_kw=centroids * public.radius,
            claimed=claimed_guarantee(epsilon, delta),
            true=claimed_guarantee(epsilon, total_delta(noise.steps, epsilon=epsilon)),
            known_violations=(),
            steps=tuple(noise.steps),
        )


def _within_bounds(centroids: Floats, public: PublicChoices) -> Floats:
    """Bring centroids back to the bounds of the slots and to the ball: both are public."""
    low, high = public.low_kw / public.radius, public.high_kw / public.radius
    return in_unit_ball(np.clip(centroids, low, high))


_BLUM_ROUNDS = 5


class Blum2005:
    """Blum, Dwork, McSherry and Nissim (2005), "Practical privacy: the SuLQ framework": DP-Lloyd.

    Lloyd's rounds with Laplace noise on sums and counts, the same budget for each.

    Assumed: 5 rounds and a uniformly random initialisation, as Su et al. (2016) run it; load is
    clipped slot by slot to public bounds.
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
        """Return the centroids after five noisy rounds: pure epsilon, rigorous."""
        points = public.in_box(checked(load_kw, epsilon=epsilon, delta=delta, public=public))
        noise = Noise(generator)
        centroids, _ = lap_lloyd(
            points,
            uniform_initialisation(public.n_clusters, public.n_slots, generator),
            [epsilon / _BLUM_ROUNDS] * _BLUM_ROUNDS,
            noise,
        )
        return BaselineResult(
            centroids_kw=public.from_box(centroids),
            claimed=claimed_guarantee(epsilon),
            true=claimed_guarantee(total_epsilon(noise.steps)),
            known_violations=(),
            steps=tuple(noise.steps),
        )


_SU_RHO = 0.225
_SU_MIN_ROUNDS, _SU_MAX_ROUNDS = 2, 7


class Su2016:
    """Su, Cao, Li, Bertino and Jin (2016), "DP k-means clustering": DPLloyd-Impr.

    DP-Lloyd, initialised by sphere packing, with a number of rounds that depends on the budget, and
    the split between sums and counts of minimum error::

        w = (4 d rho^2)^(1/3)                       weight of the counts against a slot
        epsilon_m = sqrt(500 K^3 (d + w)^3) / n     minimum epsilon per round
        T = epsilon / epsilon_m, between 2 and 7

    Assumed: rho = 0.225, their figure; n is public, since the list of customers is.
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
        """Return the centroids after two to seven noisy rounds: pure epsilon, rigorous."""
        points = public.in_box(checked(load_kw, epsilon=epsilon, delta=delta, public=public))
        d = public.n_slots
        weight = count_weight(d)
        min_epsilon = np.sqrt(500.0 * public.n_clusters**3 * (d + weight) ** 3) / len(points)
        rounds = int(np.clip(epsilon / min_epsilon, _SU_MIN_ROUNDS, _SU_MAX_ROUNDS))
        noise = Noise(generator)
        centroids, _ = lap_lloyd(
            points,
            packed_initialisation(public.n_clusters, d, generator),
            [epsilon / rounds] * rounds,
            noise,
            count_share=weight / (d + weight),
        )
        return BaselineResult(
            centroids_kw=public.from_box(centroids),
            claimed=claimed_guarantee(epsilon),
            true=claimed_guarantee(total_epsilon(noise.steps)),
            known_violations=(),
            steps=tuple(noise.steps),
        )


def count_weight(n_slots: int) -> float:
    """Return w, the budget weight of the counts relative to that of a slot."""
    return float(np.cbrt(4.0 * n_slots * _SU_RHO**2))


_YU_NEIGHBOURS = 20
_YU_DROPPED_SHARE = 0.005
_YU_ROUNDS = 2
_YU_VIOLATIONS = (
    "outliers are dropped by exact data",
    "the initialisation is a set of exact customers",
    "only the rounds after it are noisy: not differentially private",
)


class Yu2016:
    """Yu, Luo, Chen and Ding (2016), outlier-eliminated k-means, Appl. Intell. 45, by its abstract.

    1. Drop outliers: the largest mean distance to the 20 nearest neighbours.
    2. Start at dense places: the densest customer, then the one of largest density times distance
       to those chosen.
    3. DP-Lloyd with Laplace noise.

    Assumed: half a percent of the customers is dropped, at least one; density is one over the mean
    distance of step 1; 2 rounds of the same budget, which lose 0.68 times what 5 do; noise is added
    to sums and counts (the abstract may be read as noise on the data themselves).
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
        """Return the centroids after two noisy rounds from an exact start: no guarantee."""
        points = public.in_box(checked(load_kw, epsilon=epsilon, delta=delta, public=public))
        kept, density = without_outliers(points)
        noise = Noise(generator)
        centroids, _ = lap_lloyd(
            kept,
            dense_initialisation(kept, density, public.n_clusters),
            [epsilon / _YU_ROUNDS] * _YU_ROUNDS,
            noise,
        )
        return BaselineResult(
            centroids_kw=public.from_box(centroids),
            claimed=claimed_guarantee(epsilon),
            true=None,
            known_violations=_YU_VIOLATIONS,
            steps=tuple(noise.steps),
        )


def without_outliers(points: Floats) -> tuple[Floats, Floats]:
    """Return the customers who stay, and the density around each."""
    neighbours = min(_YU_NEIGHBOURS, len(points) - 1)
    if neighbours == 0:
        return points, np.ones(1)
    distances, _ = NearestNeighbors(n_neighbors=neighbours).fit(points).kneighbors()
    alone = distances.mean(axis=1)
    dropped = max(1, round(_YU_DROPPED_SHARE * len(points)))
    stay = np.sort(np.argsort(alone, kind="stable")[:-dropped])
    return points[stay], 1.0 / np.maximum(alone[stay], 1e-9)


def dense_initialisation(points: Floats, density: Floats, n_clusters: int) -> Floats:
    """Return customers in dense places, far from each other."""
    chosen = [int(density.argmax())]
    nearest = np.full(len(points), np.inf)
    for _ in range(1, n_clusters):
        nearest = np.minimum(nearest, np.linalg.norm(points - points[chosen[-1]], axis=1))
        chosen.append(int((density * nearest).argmax()))
    return points[chosen]


_REN_PARTS = 4
_REN_ROUNDS = 1


class Ren2017:
    """Ren, Xiong, Yao, Ma and Lin (2017), "DPLK-means", IEEE DSC, as others describe it.

    1. Split the customers at random into parts; DP-Lloyd on each part.
    2. Merge the centroids of all parts into K by k-means: they are released, so that costs nothing.
    3. DP-Lloyd on all customers from there.

    Assumed: 4 parts drawn by independent random assignment, half the budget for each stage, 1 round
    each (3 lose twice as much), a packed start. A customer is in one part, so the first stage costs
    what one part costs.
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
        """Return the centroids after both stages: pure epsilon, rigorous."""
        points = public.in_box(checked(load_kw, epsilon=epsilon, delta=delta, public=public))
        d, n_clusters = public.n_slots, public.n_clusters
        budgets = [epsilon / 2.0 / _REN_ROUNDS] * _REN_ROUNDS
        noise = Noise(generator)
        part_of = generator.integers(_REN_PARTS, size=len(points))
        branches, found = [], []
        for part in range(_REN_PARTS):
            branch = Noise(generator)
            start = packed_initialisation(n_clusters, d, generator)
            found.append(lap_lloyd(points[part_of == part], start, budgets, branch)[0])
            branches.append(branch)
        noise.took_one_of(branches)
        start = k_means(np.vstack(found), n_clusters, seed=generator).centroids
        centroids, _ = lap_lloyd(points, start, budgets, noise)
        return BaselineResult(
            centroids_kw=public.from_box(centroids),
            claimed=claimed_guarantee(epsilon),
            true=claimed_guarantee(total_epsilon(noise.steps)),
            known_violations=("parts, rounds and budgets are assumed",),
            steps=tuple(noise.steps),
        )


_NI_TIMES = 2
_NI_ROUNDS = 2
_NI_GROWTH = 1.5


class Ni2021:
    """Ni, Qiao, Chen, Zhang and Zhong (2021), DP-KCCM, Neurocomputing 424, by its abstract.

    1. Start with m K centroids, m > 1.
    2. DP-Lloyd on them, with a budget that grows from round to round.
    3. Merge the closest pair into its mean by weight, again and again, until K are left: they are
       released, so that costs nothing.

    Assumed: m = 2, 2 rounds (they lose 0.8 times what 5 do), epsilon_t proportional to 1.5^t, a
    packed start, noisy counts as weights.
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
        """Return the merged centroids: pure epsilon, since the budgets are fixed in advance."""
        points = public.in_box(checked(load_kw, epsilon=epsilon, delta=delta, public=public))
        noise = Noise(generator)
        growing = _NI_GROWTH ** np.arange(_NI_ROUNDS)
        centroids, counts = lap_lloyd(
            points,
            packed_initialisation(_NI_TIMES * public.n_clusters, public.n_slots, generator),
            (epsilon * growing / growing.sum()).tolist(),
            noise,
        )
        merged = merge_closest(centroids, np.maximum(counts, 1.0), public.n_clusters)
        return BaselineResult(
            centroids_kw=public.from_box(merged),
            claimed=claimed_guarantee(epsilon),
            true=claimed_guarantee(total_epsilon(noise.steps)),
            known_violations=(
                "the adaptive budgets of the source are not specified",
                "budgets that follow exact sizes or shifts would void the guarantee",
            ),
            steps=tuple(noise.steps),
        )


def merge_closest(centroids: Floats, weights: Floats, n_clusters: int) -> Floats:
    """Merge the closest two until ``n_clusters`` are left."""
    centroids, weights = centroids.copy(), weights.copy()
    while len(centroids) > n_clusters:
        apart = np.linalg.norm(centroids[:, None] - centroids, axis=2)
        np.fill_diagonal(apart, np.inf)
        i, j = sorted(np.unravel_index(apart.argmin(), apart.shape))
        centroids[i] = np.average(centroids[[i, j]], axis=0, weights=weights[[i, j]])
        weights[i] += weights[j]
        centroids, weights = np.delete(centroids, j, axis=0), np.delete(weights, j)
    return centroids
