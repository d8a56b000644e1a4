"""The whole adaptive transcript of a global release, measured: right and tight, or caught.

The privacy loss of a transcript is the log-likelihood ratio of what left under the data and under
its neighbour, at the questions that were really asked. Its mean excess over epsilon,
E (1 - e^(epsilon - loss))_+, is the true delta of the pair; for a customer who is clipped in every
ask it equals the claimed delta, which shows that the accounting is right and wastes nothing.
"""

import math

import numpy as np
import pytest

from tests.statistical.harness import draws as sample_size
from tests.transcripts import Draw, privacy_loss, record, replay
from wattveil.cross_check import composed_epsilon
from wattveil.privacy import accounting
from wattveil.release.kmeans import PrivateKMeans
from wattveil.simulate import simulate_load_kw

EPSILON, DELTA = 1.0, 0.2
GIANT = np.full((1, 24), 1e6)
DEVIATIONS = 5.0


def measured_delta(runs: int) -> tuple[float, float]:
    """Return the measured delta of "a giant is there or not" with its standard error."""
    rows = simulate_load_kw(customers=30, seed=9)
    km = PrivateKMeans(n_clusters=2, epsilon=EPSILON, delta=DELTA)
    losses = np.empty(runs)
    for run in range(runs):
        seen: list[Draw] = record(lambda: km.fit(np.vstack([rows, GIANT])))
        losses[run] = privacy_loss(seen, replay(lambda: km.fit(rows), seen))
    excess = np.maximum(0.0, 1.0 - np.exp(EPSILON - losses))
    return float(excess.mean()), float(excess.std() / math.sqrt(runs))


def test_transcript_has_the_claimed_delta() -> None:
    """Neither above the claim, nor far below: an outlier uses the whole budget."""
    delta, error = measured_delta(sample_size(150))
    assert abs(delta - DELTA) < DEVIATIONS * error


def test_half_the_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same measurement refuses a kernel that draws noise of half the scale."""
    honest = accounting.noise_scale
    monkeypatch.setattr(accounting, "noise_scale", lambda **fields: 0.5 * honest(**fields))
    delta, error = measured_delta(sample_size(60))
    assert delta - DELTA > DEVIATIONS * error


def test_forgotten_clipping_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same measurement refuses offsets that are rounded and not clipped."""
    monkeypatch.setattr(
        "wattveil.privacy.sensitivity.Ball.to_grid",
        lambda self, rows: np.trunc(np.clip(rows, -8.0, 8.0) / self.step).astype(np.int64),
    )
    delta, error = measured_delta(sample_size(40))
    assert delta - DELTA > DEVIATIONS * error


def test_privacy_loss_distributions_agree() -> None:
    """The recorded asks, composed numerically by the second road, give the epsilon granted."""
    km = PrivateKMeans(epsilon=1.0, delta=1e-6).fit(simulate_load_kw(customers=50))
    parts = [math.sqrt(2.0 * spend.rho_units / accounting.RHO_UNITS) for spend in km.spends_]
    assert composed_epsilon(gaussian_s=parts, delta=1e-6) == pytest.approx(1.0, rel=2e-3)
