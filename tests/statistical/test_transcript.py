"""The whole adaptive transcript of each global release: correct and tight, or the fault is caught.

The privacy loss of a transcript is the log-likelihood ratio of the released numbers under the data
and under its neighbour, at the queries that were made. Its mean excess over epsilon is the true
delta of the pair; for a customer who is clipped in every query it equals the claimed delta, which
shows that the accounting is correct and wastes nothing. The distance of the exact answers, in noise
scales, is measured in one run without error; the scale of the noise, in several runs.
"""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.release_transcripts import Draws, privacy_loss, record, replay, squared_signal
from tests.statistical import faults
from tests.statistical.harness import accepts, centre_p, refuses, variance_p
from tests.statistical.harness import draws as sample_size
from wattveil.arrays import Floats
from wattveil.bundle.verify.verify_budget import composed_epsilon
from wattveil.engines.local import LocalRows
from wattveil.numerics.kmeans import cluster_merge
from wattveil.privacy import accounting
from wattveil.privacy.guarantee import Budget, global_guarantee
from wattveil.privacy.mechanisms.gaussian import PrivateTable
from wattveil.release.group_load import load_shapes
from wattveil.release.kmeans import PrivateKMeans
from wattveil.release.queries import KMeansQueries
from wattveil.release.rows import load_features, synthesis_features
from wattveil.release.synthetic import LoadSynthesizer
from wattveil.simulate import simulate_load_kw

EPSILON, DELTA = 1.0, 0.2
pytestmark = pytest.mark.filterwarnings("ignore:delta = 0.2")  # large, to be seen in few runs
GUARANTEE: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA}
CENTROIDS = np.full((1, 24), 0.4)

Pair = Callable[[], tuple[Draws, Draws]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, cached_constants: None) -> None:  # noqa: ARG001 - used
    """Skip what no loss depends on: restarts depend on released numbers only.

    With one merge there is no choice to query: that query is measured separately.
    """
    monkeypatch.setattr(cluster_merge, "_RESTARTS", 1)


@cache
def homes() -> Floats:
    """Return a few homes, the same in every run."""
    return simulate_load_kw(customers=30, seed=9)


def large_customer_pair(release: Callable[..., object]) -> tuple[Draws, Draws]:
    """Return the draws of a release with a very large customer, and of the same without."""
    rows = homes()
    seen = record(lambda: release(np.vstack([rows, np.full((1, 24), 1e6)])))
    return seen, replay(lambda: release(rows), seen)


def shapes_of_two_groups(rows: Any) -> object:  # noqa: ANN401 - a matrix
    """Release the load shapes of two groups."""
    groups = ["ab"[i % 2] for i in range(len(rows))]
    return load_shapes(rows, groups=groups, levels="ab", **GUARANTEE)


def choice_of_merge(rows: Floats) -> object:
    """Query by how much one centroid costs less than another, in 20 features, with the budget."""
    budget = Budget(global_guarantee(**GUARANTEE))
    sets = np.array([CENTROIDS, 0.5 * CENTROIDS])
    table = PrivateTable(LocalRows(rows), budget)
    queries = KMeansQueries(table, basis=np.eye(24), normalise=False, longest=math.inf)
    return queries.costs(sets, np.full((2, 20), 0.1), rho_units=budget.rho_units)


RELEASES: dict[str, Pair] = {
    "clusters": partial(
        large_customer_pair,
        lambda rows: PrivateKMeans(n_clusters=2, **GUARANTEE).fit(rows),
    ),
    "merge selection": partial(large_customer_pair, choice_of_merge),
    "load shapes": partial(large_customer_pair, shapes_of_two_groups),
    "synthetic customers": partial(
        large_customer_pair,  # centroids are given: the release that finds them is above
        lambda rows: LoadSynthesizer(n_clusters=1, centroids=CENTROIDS, **GUARANTEE).fit(rows),
    ),
}
every_release = pytest.mark.parametrize("pair", RELEASES.values(), ids=RELEASES)


def granted_signal() -> float:
    """Return the s^2 = 2 rho that the whole budget buys."""
    return 2.0 * Budget(global_guarantee(**GUARANTEE)).rho_units / accounting.RHO_UNITS


def noise_p(runs: list[tuple[Draws, Draws]]) -> float:
    """Return the p-value of "every released number has noise of the stated scale"."""
    noise = [(draw.noisy - draw.exact) / draw.scale for seen, _ in runs for draw in seen]
    return variance_p(np.concatenate(noise), 1.0)


@every_release
def test_transcript_has_the_claimed_delta(pair: Pair) -> None:
    """Neither above the claim nor below: a very large customer uses the whole budget.

    The loss of a transcript of signal s is N(s^2 / 2, s^2) if the noise has the stated scale, so
    that s alone decides its delta.
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
def test_noise_below_the_stated_scale_is_caught(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    """Features that are rounded and not clipped: more than the grant."""
    faults.no_clipping(monkeypatch, largest=8.0)
    lengths = load_features.row_lengths
    # Moments are clipped where they are computed, too: both are forgotten.
    monkeypatch.setattr(synthesis_features, "row_lengths", lambda rows: lengths(rows) / 3.0)
    assert squared_signal(*pair()) > 5.0 * granted_signal()


def test_an_exchanged_share_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of the sums spent on the counts as well: 1.44 times the grant, exactly."""
    grant = granted_signal()
    assert squared_signal(*RELEASES["load shapes"]()) <= grant
    faults.exchanged_share(monkeypatch)
    moved = squared_signal(*RELEASES["load shapes"]())
    assert moved == pytest.approx(1.44 * grant, rel=1e-3)


def test_privacy_loss_distributions_agree() -> None:
    """The recorded charges, composed by a PLD accountant, give the epsilon granted."""
    km = PrivateKMeans(epsilon=1.0, delta=1e-6).fit(simulate_load_kw(customers=50))
    parts = [math.sqrt(2.0 * spend.rho_units / accounting.RHO_UNITS) for spend in km.spends_]
    assert composed_epsilon(gaussian_s=parts, delta=1e-6) == pytest.approx(1.0, rel=2e-3)
