"""Every baseline: what it spends, what it finds, what it refuses."""

import math
from dataclasses import replace

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.calibration import gaussian_delta
from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.lab.baselines.baseline_comparison import MECHANISMS
from wattveil.lab.baselines.baseline_interface import (
    BaselineResult,
    PublicChoices,
    accuracy_loss,
    exact_answer,
)
from wattveil.privacy.guarantee import Neighbours, Tier

PURE = ["blum-2005", "su-2016", "uniform-grid", "ren-2017", "xia-2020", "ni-2021"]
GAUSSIAN = [
    "gaussian-lloyd",
    "mean",
    "google-lsh",
    "fast-lloyd",
    "feddp-kmeans",
    "pe-means",
    "centred-lloyd",
]
SEEDED = [*PURE, *GAUSSIAN, "yu-2016", "balcan-2017", "lu-shen-2020", "dpm"]
FIND_CLUSTERS = [name for name in SEEDED if name not in {"mean", "xia-2020"}]


def fitted(
    name: str, rows: Floats, public: PublicChoices, *, epsilon: float = 1.0, seed: int = 0
) -> BaselineResult:
    """Run one baseline."""
    return MECHANISMS[name].fit(
        rows,
        epsilon=epsilon,
        delta=1e-6,
        public=public,
        generator=np.random.default_rng(seed),
    )


@pytest.mark.parametrize("name", PURE)
@pytest.mark.parametrize("epsilon", [0.1, 7.0])
def test_pure_budgets_add_up(
    name: str, epsilon: float, blobs: Floats, public: PublicChoices
) -> None:
    """The prices of all noisy answers together are the epsilon that was claimed."""
    found = fitted(name, blobs, public, epsilon=epsilon)
    assert found.true is not None
    assert math.fsum(step.sensitivity / step.scale for step in found.steps) == pytest.approx(
        epsilon
    )
    assert found.true.epsilon == pytest.approx(epsilon)
    assert found.claimed.epsilon == epsilon
    assert (found.claimed.delta, found.true.delta) == (0.0, 0.0)
    assert found.true.tier is Tier.GLOBAL


@pytest.mark.parametrize("name", GAUSSIAN)
def test_gaussian_budgets_add_up(name: str, blobs: Floats, public: PublicChoices) -> None:
    """The squares of all mu together give the delta that was claimed, and no less noise."""
    found = fitted(name, blobs, public, epsilon=2.0)
    mu = math.sqrt(math.fsum((step.sensitivity / step.scale) ** 2 for step in found.steps))
    assert gaussian_delta(epsilon=2.0, s=mu) == pytest.approx(1e-6, rel=1e-6)
    assert found.true is not None
    assert found.true.delta == pytest.approx(1e-6, rel=1e-6)


def test_balcan_is_not_pure(blobs: Floats, public: PublicChoices) -> None:
    """Its budgets add up to epsilon, and cells of lone customers cost delta = 3 L / 2 e^e' / n²."""
    found = fitted("balcan-2017", blobs, public, epsilon=1.0)
    assert math.fsum(step.price for step in found.steps) == pytest.approx(1.0)
    levels = math.floor(math.log(400))
    delta = 3 * levels / 2 * math.exp(1.0 / 3.0 / (3 * levels)) / 400**2
    assert found.true is not None
    assert found.claimed.delta == 0.0
    assert found.true.delta == pytest.approx(delta)


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_dpm_adds_up(epsilon: float, blobs: Floats, public: PublicChoices) -> None:
    """Counts and splits cost two fifths of epsilon, Gaussian means three fifths and delta."""
    found = fitted("dpm", blobs, public, epsilon=epsilon)
    pure = math.fsum(step.price for step in found.steps if step.pure)
    assert pure <= 0.4 * epsilon * (1.0 + 1e-12)
    (mu,) = (step.price for step in found.steps if not step.pure)
    assert gaussian_delta(epsilon=0.6 * epsilon, s=mu) == pytest.approx(1e-6, rel=1e-6)
    assert found.true is not None
    assert found.true.epsilon == pytest.approx(pure + 0.6 * epsilon)
    assert found.known_violations


@pytest.mark.parametrize("name", ["yu-2016", "lu-shen-2020"])
def test_baselines_without_a_guarantee_are_marked(
    name: str, blobs: Floats, public: PublicChoices
) -> None:
    """They claim epsilon, have no actual guarantee, and list the known violations."""
    found = fitted(name, blobs, public)
    assert found.claimed.epsilon == 1.0
    assert found.true is None
    assert found.known_violations


def test_local_privacy_is_for_replaced_data(blobs: Floats, public: PublicChoices) -> None:
    """Local privacy protects every value of a customer; labels are included."""
    found = fitted("xia-2020", blobs, public, epsilon=4.0)
    assert found.true is not None
    assert found.true.neighbours is Neighbours.REPLACE_ONE
    assert found.labels is not None
    assert found.labels.shape == (400,)
    assert found.true_with_labels == found.true


def test_wattveil_through_the_same_interface(blobs: Floats, public: PublicChoices) -> None:
    """Global and instance tier come with labels, each under its own tier."""
    ours = fitted("global", blobs, public, epsilon=20.0)
    white = fitted("instance-white", blobs, public, epsilon=20.0)
    paper = fitted("paper", blobs, public, epsilon=20.0)
    for found in (ours, white, paper):
        assert found.labels is not None
        assert found.true is not None
        assert found.true_with_labels is not None
        assert found.true_with_labels.epsilon > found.true.epsilon
        assert accuracy_loss(blobs, found.centroids_kw, exact=exact_answer(blobs, 4).loss) < 1.0
    assert ours.true is not None
    assert ours.true.tier is Tier.GLOBAL
    assert (ours.true.epsilon, ours.true.delta) == (20.0, 1e-6)
    assert white.true is not None
    assert white.true.tier is white.claimed.tier is Tier.INSTANCE
    assert white.true.epsilon == pytest.approx(20.0)
    assert white.true.delta == 1e-6
    assert paper.claimed.tier is Tier.GLOBAL  # the paper claims differential privacy
    assert paper.true is not None
    assert paper.true.tier is Tier.INSTANCE
    assert paper.true.delta > 100 * paper.claimed.delta


@pytest.mark.parametrize("name", FIND_CLUSTERS)
def test_without_noise_they_find_clusters(name: str, blobs: Floats, public: PublicChoices) -> None:
    """With next to no noise the best of some random starts is the exact answer."""
    exact = exact_answer(blobs, 4).loss
    losses = [
        accuracy_loss(
            blobs, fitted(name, blobs, public, epsilon=1e4, seed=seed).centroids_kw, exact=exact
        )
        for seed in range(1 if name in {"uniform-grid", "pe-means"} else 6)
    ]
    # Centres of cells, and candidates, are a little beside the customers; five rounds may not fit
    # 2 K pieces.
    coarse = {"uniform-grid": 0.05, "ni-2021": 0.02, "pe-means": 0.02}
    assert -1e-9 < min(losses) < coarse.get(name, 0.002)


def test_values_in_few_bits_stay_a_little_off(blobs: Floats, public: PublicChoices) -> None:
    """Local privacy without noise finds the clusters up to its sixteen levels."""
    exact = exact_answer(blobs, 4).loss
    losses = [
        accuracy_loss(
            blobs,
            fitted("xia-2020", blobs, public, epsilon=1e5, seed=seed).centroids_kw,
            exact=exact,
        )
        for seed in range(6)
    ]
    assert 0.001 < min(losses) < 0.5


def test_one_mean_finds_no_cluster(blobs: Floats, public: PublicChoices) -> None:
    """The trivial answer is the same profile K times, and loses what clusters would explain."""
    found = fitted("mean", blobs, public, epsilon=1e5).centroids_kw
    assert (found == found[0]).all()
    assert accuracy_loss(blobs, found, exact=exact_answer(blobs, 4).loss) > 50.0


@pytest.mark.parametrize("name", [*PURE, *GAUSSIAN, "balcan-2017"])
def test_little_budget_is_paid_in_accuracy(name: str, blobs: Floats, public: PublicChoices) -> None:
    """Methods with a guarantee lose the clusters at epsilon 0.01."""
    exact = exact_answer(blobs, 4).loss
    losses = [
        accuracy_loss(
            blobs, fitted(name, blobs, public, epsilon=0.01, seed=seed).centroids_kw, exact=exact
        )
        for seed in range(5)
    ]
    assert np.median(losses) > 10.0


@pytest.mark.parametrize("name", SEEDED)
def test_the_same_generator_gives_the_same_answer(
    name: str, blobs: Floats, public: PublicChoices
) -> None:
    """A comparison can be repeated; another seed gives another answer within the domain."""
    first, again, other = (fitted(name, blobs, public, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.centroids_kw, again.centroids_kw)
    assert not np.array_equal(first.centroids_kw, other.centroids_kw)
    assert first.centroids_kw.shape == (4, 2)
    assert np.isfinite(first.centroids_kw).all()


@pytest.mark.parametrize("name", ["global", "instance-white"])
def test_our_own_noise_has_no_seed(name: str, blobs: Floats, public: PublicChoices) -> None:
    """What Wattveil itself releases cannot be fixed from here either."""
    first, again = (fitted(name, blobs, public, seed=1) for _ in range(2))
    assert not np.array_equal(first.centroids_kw, again.centroids_kw)


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name != "diffprivlib"])
def test_bad_input_is_refused(name: str, blobs: Floats, public: PublicChoices) -> None:
    """What makes no sense is refused by name before anything is drawn."""
    fit = MECHANISMS[name].fit
    given = {"public": public, "generator": np.random.default_rng(0)}
    with pytest.raises(InvalidParameterError, match="epsilon must be"):
        fit(blobs, epsilon=0.0, delta=1e-6, **given)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="delta must be above 0"):
        fit(blobs, epsilon=1.0, delta=1.0, **given)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="load_kw must be an array with 2 columns"):
        fit(blobs[:, :1], epsilon=1.0, delta=1e-6, **given)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="n_clusters must be at most"):
        fit(blobs[:3], epsilon=1.0, delta=1e-6, **given)  # type: ignore[arg-type]
    broken = blobs.copy()
    broken[5, 1] = np.nan
    with pytest.raises(InvalidDataError, match="rows 5 violate the rule 'finite load'"):
        fit(broken, epsilon=1.0, delta=1e-6, **given)  # type: ignore[arg-type]


def test_a_grid_has_three_slots_at_most() -> None:
    """More cells than customers would hold nothing but noise."""
    rows = np.random.default_rng(0).random((50, 4))
    with pytest.raises(InvalidParameterError, match="at most 3 columns for a grid"):
        fitted("uniform-grid", rows, PublicChoices.taken_from(rows, 2))


def test_public_choices(blobs: Floats, public: PublicChoices) -> None:
    """The box is [-1, 1] and back, the ball has radius 1, and bounds that hold nothing fail."""
    wild = np.vstack([blobs, [[1e6, -1e6]]])
    boxed = public.in_box(wild)
    assert np.abs(boxed).max() <= 1.0
    assert boxed[-1].tolist() == [1.0, -1.0]
    assert public.from_box(boxed[:-1]) == pytest.approx(np.clip(blobs, 0.0, 10.0))
    assert np.linalg.norm(public.in_ball(wild), axis=1).max() <= 1.0 + 1e-12
    assert public.in_ball(blobs) * public.radius == pytest.approx(blobs)
    taken = PublicChoices.taken_from(blobs, 4)
    assert (taken.low_kw > 0.0).all()
    assert (taken.high_kw < 10.5).all()
    PublicChoices.taken_from(np.zeros((5, 2)), 2)  # all alike: still a box
    for wrong in (
        {"low_kw": np.full(2, 10.0)},
        {"high_kw": np.full(3, 10.0)},
        {"low_kw": np.array([0.0, np.nan])},
        {"clip_kw": 0.0},
        {"n_clusters": 1},
    ):
        with pytest.raises(InvalidParameterError, match=next(iter(wrong)).split("_")[0]):
            replace(public, **wrong)
