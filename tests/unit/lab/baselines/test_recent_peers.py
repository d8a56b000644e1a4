"""Peers of 2021 to 2026: sensitivities, noise scales and parts, each by a second computation."""

import math
import sys
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from sklearn.cluster import KMeans

from tests.baseline_transcripts import Recorded
from wattveil.arrays import Floats
from wattveil.calibration import gaussian_s
from wattveil.lab.baselines import relative_lloyd_baselines, tree_baselines
from wattveil.lab.baselines.baseline_interface import (
    Noise,
    PublicChoices,
    accuracy_loss,
    exact_answer,
    smooth_basis,
)
from wattveil.lab.baselines.histogram_baselines import (
    FedDpKMeans,
    PeMeans,
    largest_votes,
    levy_flights,
    packed_ball,
    server_points,
)
from wattveil.lab.baselines.relative_lloyd_baselines import CentredLloyd, FastLloyd, folded
from wattveil.lab.baselines.tree_baselines import (
    Dpm,
    GoogleLsh,
    centreness,
    drawn_split,
    growing_budgets,
    lsh_leaves,
    separated,
    weighted_means,
)
from wattveil.simulate import simulate_load_kw

GAUSSIAN = [CentredLloyd, FastLloyd, GoogleLsh, FedDpKMeans, PeMeans]
Peer = type[CentredLloyd | FastLloyd | GoogleLsh | FedDpKMeans | PeMeans]


def transcripts_with_and_without(
    peer: Peer, rows: Floats, public: PublicChoices, monkeypatch: pytest.MonkeyPatch
) -> Recorded:
    """Return the transcript without the last customer, replayed from the one with it."""
    transcripts: list[Recorded] = []

    def recorded(_: object) -> Recorded:
        transcripts.append(Recorded(0, transcripts[0] if transcripts else None))
        transcripts[-1].generator = np.random.default_rng(5)
        return transcripts[-1]

    monkeypatch.setattr(sys.modules[peer.__module__], "Noise", recorded)
    for data in (rows, rows[:-1]):
        peer.fit(data, epsilon=1.0, delta=1e-6, public=public, generator=np.random.default_rng(9))
    return transcripts[1]


@pytest.mark.parametrize("peer", GAUSSIAN)
@pytest.mark.parametrize("wild", [[1e6, 1e6], [-1e6, 3.0], [5.0, 5.0], [9.0, 1.0]])
def test_a_customer_changes_no_answer_by_more_than_its_sensitivity(
    peer: Peer,
    wild: list[float],
    blobs: Floats,
    public: PublicChoices,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As long as every noisy answer is the same, for the same public number of customers."""
    replayed = transcripts_with_and_without(peer, np.vstack([blobs, [wild]]), public, monkeypatch)
    assert max(replayed.reached()) <= 1.0 + 1e-9
    if peer is CentredLloyd and max(wild) == 1e6:
        assert replayed.reached() == pytest.approx(np.ones(5))


def test_rows_that_are_not_clipped_are_found(
    blobs: Floats, public: PublicChoices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same audit refutes a peer whose clipping is removed."""
    monkeypatch.setattr(
        "wattveil.lab.baselines.baseline_interface.in_unit_ball", lambda points: points
    )
    rows = np.vstack([blobs, [[1e6, 1e6]]])
    replayed = transcripts_with_and_without(CentredLloyd, rows, public, monkeypatch)
    assert max(replayed.reached()) > 10.0


# --- DP-Lloyd around a mean, FastLloyd ------------------------------------------------------------


def test_centred_lloyd_divides_rho(blobs: Floats, public: PublicChoices) -> None:
    """15 % of rho is for the mean; of the rest a tenth for counts, in equal rounds."""
    found = CentredLloyd.fit(
        blobs,
        epsilon=1.0,
        delta=1e-6,
        public=public,
        generator=np.random.default_rng(0),
        rounds=3,
    )
    rho = gaussian_s(epsilon=1.0, delta=1e-6) ** 2
    shares = [step.price**2 / rho for step in found.steps]
    assert [step.step for step in found.steps] == ["mean", *(["sums", "counts"] * 3)]
    assert shares == pytest.approx([0.15, *([0.85 / 3 * 0.9, 0.85 / 3 * 0.1] * 3)])
    told = CentredLloyd.fit(
        blobs,
        epsilon=1.0,
        delta=1e-6,
        public=public,
        generator=np.random.default_rng(0),
        rounds=1,
        told_mean=True,
    )
    assert [step.step for step in told.steps] == ["sums", "counts"]
    assert math.fsum(step.price**2 for step in told.steps) == pytest.approx(rho)


def test_centred_lloyd_reaches_smooth_k_means() -> None:
    """Without noise it is K-means of the smooth parts: shapes from random, kW from several sizes.

    What it lacks is what 13 coordinates cannot express.
    """
    rows = simulate_load_kw(customers=300)
    public = PublicChoices.taken_from(rows, 3)
    basis = smooth_basis(24, 13)
    smooth = public.centre_kw + (rows - public.centre_kw) @ basis.T @ basis
    exact = exact_answer(smooth, 3)
    for several in (True, False):
        losses = [
            accuracy_loss(
                smooth,
                CentredLloyd.fit(
                    rows,
                    epsilon=1e5,
                    delta=1e-6,
                    public=public,
                    generator=np.random.default_rng(seed),
                    rounds=40,
                    relative_radius=20.0,
                    several_sizes=several,
                ).centroids_kw,
                exact=exact.loss,
            )
            for seed in range(5)
        ]
        assert min(losses) < 0.03


def test_fast_lloyd_has_the_scales_of_its_paper(blobs: Floats, public: PublicChoices) -> None:
    """First round: half the diagonal; then eta. sums : counts as sqrt(4 d) : 1 in mu squared."""
    found = FastLloyd.fit(
        blobs, epsilon=2.0, delta=1e-6, public=public, generator=np.random.default_rng(0), alpha=0.4
    )
    d, n_clusters, diagonal = 2, 4, 2.0 * math.sqrt(2.0)
    eta = 0.4 * diagonal / (2.0 * n_clusters ** (1.0 / d))
    scale = 1.0 / gaussian_s(epsilon=2.0, delta=1e-6)
    wanted = 0.004 * 4 * 400**2 / (n_clusters**3 * eta**2 * (1 + math.sqrt(4 * d)) ** 2 * scale**2)
    rounds = int(max(2, min(7, wanted)))
    root = math.sqrt(1.0 + math.sqrt(4.0 * d))
    assert 2 < rounds < 7
    assert len(found.steps) == 2 * rounds
    for done in range(rounds):
        sums, counts = found.steps[2 * done : 2 * done + 2]
        longest = eta if done else diagonal / 2.0
        assert sums.sensitivity == pytest.approx(longest)
        assert sums.scale == pytest.approx(
            scale * root / (4.0 * d) ** 0.25 * math.sqrt(rounds) * longest
        )
        assert counts.scale == pytest.approx(scale * root * math.sqrt(rounds))


def test_folding_reflects_at_the_walls() -> None:
    """A point beyond a wall comes back by as much; twice beyond, it is reflected twice."""
    assert folded(np.array([[0.3, 1.2, -1.5, 3.1, -3.2, 5.0]])) == pytest.approx(
        np.array([[0.3, 0.8, -0.5, -0.9, 0.8, 1.0]])
    )


def test_far_customers_are_left_out() -> None:
    """Only offsets up to the maximum distance are added up and counted."""
    points = np.array([[0.0, 0.1], [0.0, 0.9], [0.9, 0.9]])
    sums, counts = relative_lloyd_baselines.sums_within(points, np.array([[0.0, 0.0]]), 0.9)
    assert counts.tolist() == [2.0]
    assert sums == pytest.approx(np.array([[0.0, 1.0]]))


# --- Google's LSH tree, DPM -----------------------------------------------------------------------


def test_lsh_tree_divides_and_counts() -> None:
    """With hardly any noise every customer is in one leaf, and leaves have their exact counts."""
    points = np.random.default_rng(0).standard_normal((500, 5))
    noise = Noise(np.random.default_rng(1))
    leaves, counts = lsh_leaves(points, noise, n_customers=500, depth=6, mu_level=1e6, fewest=20.0)
    inside = leaves >= 0
    assert np.bincount(leaves[inside], minlength=len(counts)) == pytest.approx(counts, abs=0.01)
    assert counts.min() > 19.9
    assert len(counts) > 6
    assert {step.step for step in noise.steps} == {"counts"}
    assert len(noise.steps) <= 6
    # A customer is in no leaf only if its node was dropped beside a sibling that was kept.
    assert inside.mean() > 0.8
    alone, of_root = lsh_leaves(points, noise, n_customers=500, depth=6, mu_level=1e6, fewest=400.0)
    assert alone.tolist() == [0] * 500
    assert of_root.tolist() == [500.0]


def test_lsh_spends_all_on_its_deepest_path(blobs: Floats, public: PublicChoices) -> None:
    """19 of 20 parts of rho are for sums; each of the levels gets the same of the rest."""
    found = GoogleLsh.fit(
        blobs, epsilon=3.0, delta=1e-6, public=public, generator=np.random.default_rng(0)
    )
    rho = gaussian_s(epsilon=3.0, delta=1e-6) ** 2
    shares = {step.step: step.price**2 / rho for step in found.steps}
    assert shares["sums"] == pytest.approx(0.95)
    assert shares["counts"] == pytest.approx(0.05 / 4)


def test_weighted_means_repeat_what_is_there() -> None:
    """Fewer released points than clusters are all taken, and the last one again."""
    points = np.array([[0.0], [1.0]])
    generator = np.random.default_rng(0)
    found = weighted_means(points, np.ones(2), 4, generator)
    assert found.ravel().tolist() == [0.0, 1.0, 1.0, 1.0]
    many = np.array([[0.0], [0.1], [5.0], [5.1]])
    found = np.sort(weighted_means(many, np.array([3.0, 1.0, 1.0, 1.0]), 2, generator).ravel())
    assert found == pytest.approx([0.025, 5.05])


def test_weighted_means_are_those_of_scikit_learn() -> None:
    """The weighted cost is that of scikit-learn's K-means; a heavy point is a centroid's place."""
    generator = np.random.default_rng(0)
    for size in (8, 40, 200):
        points, weights = generator.standard_normal((size, 5)), generator.exponential(size=size)
        peer = KMeans(4, n_init=10, random_state=0).fit(points, sample_weight=weights)
        found = weighted_means(points, weights, 4, generator)
        apart = np.square(points[:, None] - found).sum(axis=2).min(axis=1)
        assert apart @ weights < 1.05 * peer.inertia_
    points, weights = generator.standard_normal((50, 5)), np.ones(50)
    weights[7] = 1e9
    found = weighted_means(points, weights, 4, generator)
    assert np.abs(found - points[7]).max(axis=1).min() < 1e-4


def test_a_split_has_its_sensitivity() -> None:
    """Removing any customer changes no score by more than half of what the choice assumes."""
    points = np.random.default_rng(3).uniform(-1.0, 1.0, (40, 2))
    seen: list[Floats] = []

    class Scores(Noise):
        def choose(self, costs: Floats, *, sensitivity: float, epsilon: float, step: str) -> int:
            assert sensitivity == pytest.approx(2.0 * (3.6 + 5.0))
            seen.append(costs)
            return super().choose(costs, sensitivity=sensitivity, epsilon=epsilon, step=step)

    for count in (3.0, 39.3, 80.0):
        seen.clear()
        for rows in (points, *(np.delete(points, row, axis=0) for row in range(40))):
            drawn_split(rows, count, Scores(np.random.default_rng(0)), epsilon=1.0)
        change = max(float(np.abs(one - seen[0]).max()) for one in seen[1:])
        assert 4.0 < change <= 8.6 + 1e-9


def test_dpm_finds_the_gap() -> None:
    """With next to no noise it splits where nobody is, in the middle; counts are exact."""
    generator = np.random.default_rng(0)
    points = np.vstack(
        [generator.uniform(-0.9, -0.4, (60, 2)), generator.uniform(0.4, 0.9, (60, 2))]
    )
    points[:, 1] = generator.uniform(-0.9, 0.9, 120)
    coordinate, position = drawn_split(points, 120.0, Noise(generator), epsilon=1e6)
    assert coordinate == 0
    assert -0.4 < position < 0.4
    tree = separated(
        points,
        Noise(generator),
        n_customers=120,
        count_budgets=np.full(2, 1e6),
        split_budgets=np.full(2, 1e6),
    )
    assert tree.counts == pytest.approx(np.bincount(tree.labels), abs=1e-3)
    assert len(tree.counts) >= 2
    for label in range(len(tree.counts)):  # no set reaches across the gap
        assert len(set(np.sign(points[tree.labels == label, 0]))) == 1


def test_dpm_stops_at_small_sides(blobs: Floats, public: PublicChoices) -> None:
    """A split whose noisy side is below n / 2^7 is not made: at a tiny epsilon, few are."""
    few = Dpm.fit(
        blobs, epsilon=0.01, delta=1e-6, public=public, generator=np.random.default_rng(0)
    )
    assert few.centroids_kw.shape == (4, 2)
    budgets = growing_budgets(1.0, 7)
    assert math.fsum(budgets) == pytest.approx(1.0)
    assert all(
        later / earlier == pytest.approx(math.sqrt(2)) for earlier, later in pairwise(budgets)
    )


def test_centreness_joins_its_pieces() -> None:
    """0 at the ends, t at the quantiles q and 1 - q, 1 in the middle, times the count."""
    below = np.array([0, 10, 60, 110, 120])
    assert centreness(below, 120.0) == pytest.approx(120.0 * np.array([0.0, 0.3, 1.0, 0.3, 0.0]))
    assert tree_baselines.centreness(np.array([0]), -5.0) == pytest.approx([0.0])


# --- FedDP-KMeans, PE-means -----------------------------------------------------------------------


def test_feddp_divides_rho(blobs: Floats, public: PublicChoices) -> None:
    """A quarter each for moments and weights; the rest for means, half of it for their counts."""
    for rounds in (0, 2):
        found = FedDpKMeans.fit(
            blobs,
            epsilon=1.0,
            delta=1e-6,
            public=public,
            generator=np.random.default_rng(0),
            rounds=rounds,
        )
        rho = gaussian_s(epsilon=1.0, delta=1e-6) ** 2
        shares = [step.price**2 / rho for step in found.steps]
        part = 0.25 / (1 + rounds)
        assert shares == pytest.approx([0.25, 0.25, *([part, part] * (1 + rounds))])


def test_server_points_are_public_shapes(public: PublicChoices) -> None:
    """Rows at the typical size, or at five sizes around it; nothing is read from customers."""
    one, several = (server_points(public, several_sizes=several) for several in (False, True))
    rms = np.sqrt(np.square(one).mean(axis=1))
    assert rms == pytest.approx(np.full(28, public.typical_kw))
    assert len(several) == 5 * 28


def test_votes_are_cut_at_the_number_of_customers() -> None:
    """The largest votes that add up to n stay; negative ones never do."""
    votes = np.array([5.0, -3.0, 40.0, 30.0, 25.0, 8.0])
    assert largest_votes(votes, 75).tolist() == [0.0, 0.0, 40.0, 30.0, 25.0, 0.0]
    assert largest_votes(votes, 1000).tolist() == [5.0, 0.0, 40.0, 30.0, 25.0, 8.0]


def test_pe_means_uses_the_generations_of_its_code(blobs: Floats, public: PublicChoices) -> None:
    """4 sqrt(d) histograms of the same noise, epsilon times as many above 1."""
    for epsilon, generations in ((0.5, 5), (3.0, 15)):
        found = PeMeans.fit(
            blobs, epsilon=epsilon, delta=1e-6, public=public, generator=np.random.default_rng(0)
        )
        mu = gaussian_s(epsilon=epsilon, delta=1e-6)
        assert [step.scale for step in found.steps] == pytest.approx(
            [math.sqrt(generations) / mu] * generations
        )


def test_flights_have_heavy_tails() -> None:
    """Far steps are as frequent as a stable law of exponent 1.75 has them, not as a normal law."""
    steps = np.abs(levy_flights(200_000, 1, np.random.default_rng(0)).ravel())
    stable = stats.levy_stable(1.75, 0.0)
    for distance in (5.0, 10.0):
        share = (steps > distance).mean()
        assert share == pytest.approx(2.0 * stable.sf(distance), rel=0.35)
    assert stats.norm.sf(5.0) < 0.001 * (steps > 5.0).mean()


def test_packed_candidates_are_apart() -> None:
    """Candidates stay in the ball and keep a common distance."""
    points = packed_ball(60, 3, np.random.default_rng(0))
    apart = np.linalg.norm(points[:, None] - points, axis=2) + 9.0 * np.eye(60)
    assert np.linalg.norm(points, axis=1).max() < 1.0
    assert apart.min() >= 0.25
