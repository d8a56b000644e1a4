"""The whole adaptive transcript of each global release, measured: right and tight, or caught.

The privacy loss of a transcript is the log-likelihood ratio of what left under the data and under
its neighbour, at the questions that were really asked. Its mean excess over epsilon is the true
delta of the pair; for a customer who is clipped in every ask it equals the claimed delta, which
shows that the accounting is right and wastes nothing. How far the exact answers are apart, in
noise scales, is seen in one run without error; that the noise has its scale is seen in some.
"""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.statistical import faults
from tests.statistical.harness import accepts, centre_p, refuses, variance_p
from tests.statistical.harness import draws as sample_size
from tests.transcripts import Draw, privacy_loss, record, replay, squared_signal
from wattveil.clustering import merge
from wattveil.cross_check import composed_epsilon
from wattveil.engines.local import LocalRows
from wattveil.privacy import accounting
from wattveil.privacy.budget import Budget
from wattveil.privacy.sensitivity import FloatArray
from wattveil.release.asks import Asks
from wattveil.release.kmeans import PrivateKMeans
from wattveil.release.promise import global_promise
from wattveil.release.shapes import load_shapes
from wattveil.release.synthetic import LoadSynthesizer
from wattveil.simulate import simulate_load_kw
from wattveil.synthesis.features import moment_features

EPSILON, DELTA = 1.0, 0.2
PROMISE: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA}
CENTROIDS = np.full((1, 24), 0.4)

Pair = Callable[[], tuple[list[Draw], list[Draw]]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, constants_once: None) -> None:  # noqa: ARG001 - used
    """Spend no time on what no loss depends on: restarts see released numbers only.

    With one merge there is no choice to ask for: that ask is measured by itself.
    """
    monkeypatch.setattr(merge, "_RESTARTS", 1)


@cache
def homes() -> FloatArray:
    """Return a few homes, the same in every run."""
    return simulate_load_kw(customers=30, seed=9)


def with_and_without_a_giant(release: Callable[..., object]) -> tuple[list[Draw], list[Draw]]:
    """Return the draws of one release with a giant, and of the same release without."""
    rows = homes()
    seen = record(lambda: release(np.vstack([rows, np.full((1, 24), 1e6)])))
    return seen, replay(lambda: release(rows), seen)


def shapes_of_two_groups(rows: Any) -> object:  # noqa: ANN401 - a matrix
    """Release the load shapes of two groups."""
    groups = ["ab"[i % 2] for i in range(len(rows))]
    return load_shapes(rows, groups=groups, levels="ab", **PROMISE)


def choice_of_merge(rows: FloatArray) -> object:
    """Ask by how much one centroid costs less than another, in 20 features, with the budget."""
    budget = Budget(global_promise(**PROMISE))
    sets = np.array([CENTROIDS, 0.5 * CENTROIDS])
    asks = Asks(LocalRows(rows), budget)
    return asks.costs(sets, np.full((2, 20), 0.1), rho_units=budget.rho_units)


RELEASES: dict[str, Pair] = {
    "clusters": partial(
        with_and_without_a_giant, lambda rows: PrivateKMeans(n_clusters=2, **PROMISE).fit(rows)
    ),
    "choice of merge": partial(with_and_without_a_giant, choice_of_merge),
    "load shapes": partial(with_and_without_a_giant, shapes_of_two_groups),
    "synthetic customers": partial(
        with_and_without_a_giant,  # centroids are given: how they are found is measured above
        lambda rows: LoadSynthesizer(n_clusters=1, centroids=CENTROIDS, **PROMISE).fit(rows),
    ),
}
every_release = pytest.mark.parametrize("pair", RELEASES.values(), ids=RELEASES)


def granted_signal() -> float:
    """Return the s^2 = 2 rho that the whole budget buys."""
    return 2.0 * Budget(global_promise(**PROMISE)).rho_units / accounting.RHO_UNITS


def noise_p(runs: list[tuple[list[Draw], list[Draw]]]) -> float:
    """Return the p-value of "every number that left has the noise that it states"."""
    noise = [(draw.noisy - draw.exact) / draw.sigma for seen, _ in runs for draw in seen]
    return variance_p(np.concatenate(noise), 1.0)


@every_release
def test_transcript_has_the_claimed_delta(pair: Pair) -> None:
    """Neither above the claim, nor below: a giant uses the whole budget, whatever was drawn.

    The loss of a transcript of signal s is N(s^2 / 2, s^2) if the noise is what it is said to be,
    so that s alone decides its delta.
    """
    runs = [pair() for _ in range(sample_size(30))]
    s = np.sqrt([squared_signal(*run) for run in runs])
    delta = stats.norm.cdf(s / 2 - EPSILON / s)
    delta -= math.exp(EPSILON) * stats.norm.cdf(-s / 2 - EPSILON / s)
    assert delta == pytest.approx(DELTA, rel=1e-4)
    losses = np.array([privacy_loss(*run) for run in runs])
    accepts(variance_p((losses - s**2 / 2) / s, 1.0))
    accepts(centre_p((losses - s**2 / 2) / s, 1.0))
    accepts(noise_p(runs))


@every_release
def test_noise_below_its_word_is_caught(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of half the scale that a release states."""
    faults.weaker_noise(monkeypatch)
    refuses(noise_p([pair() for _ in range(8)]))  # the shortest release has 20 numbers


@every_release
def test_half_the_noise_is_caught(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that draws and states noise of half the scale: four times the signal, exactly."""
    honest = accounting.noise_scale
    monkeypatch.setattr(accounting, "noise_scale", lambda **fields: 0.5 * honest(**fields))
    assert squared_signal(*pair()) == pytest.approx(4.0 * granted_signal(), rel=1e-4)


@every_release
def test_forgotten_clipping_is_caught(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are rounded and not clipped: more than the grant."""
    monkeypatch.setattr(
        "wattveil.privacy.sensitivity.Ball.to_grid",
        lambda self, rows: np.trunc(np.clip(rows, -8.0, 8.0) / self.step).astype(np.int64),
    )
    monkeypatch.setattr(  # moments are clipped where they are made, too: both are forgotten
        "wattveil.release.synthetic.moment_features",
        lambda scores, radius: 3.0 * moment_features(scores, radius),
    )
    assert squared_signal(*pair()) > 5.0 * granted_signal()


def test_an_exchanged_share_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of the sums spent on the counts as well: 1.44 times the grant, exactly."""
    grant = granted_signal()
    assert squared_signal(*RELEASES["load shapes"]()) <= grant
    faults.exchanged_share(monkeypatch)
    moved = squared_signal(*RELEASES["load shapes"]())
    assert moved == pytest.approx(1.44 * grant, rel=1e-3)


def test_privacy_loss_distributions_agree() -> None:
    """The recorded asks, composed numerically by the second road, give the epsilon granted."""
    km = PrivateKMeans(epsilon=1.0, delta=1e-6).fit(simulate_load_kw(customers=50))
    parts = [math.sqrt(2.0 * spend.rho_units / accounting.RHO_UNITS) for spend in km.spends_]
    assert composed_epsilon(gaussian_s=parts, delta=1e-6) == pytest.approx(1.0, rel=2e-3)
