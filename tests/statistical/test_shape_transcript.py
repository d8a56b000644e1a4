"""The whole adaptive transcript of load shapes: its privacy loss is the one claimed."""

import math
from typing import Any

import numpy as np
import pytest

from tests.statistical import faults
from tests.statistical.harness import draws as sample_size
from tests.transcripts import Draw, privacy_loss, record, replay, squared_signal
from wattveil.privacy import accounting
from wattveil.privacy.budget import Budget
from wattveil.release.promise import global_promise
from wattveil.release.shapes import load_shapes
from wattveil.simulate import simulate_load_kw

EPSILON, DELTA = 1.0, 0.2
DEVIATIONS = 5.0


def with_and_without_a_giant() -> tuple[list[Draw], list[Draw]]:
    """Return the draws of one release with a giant, and of the same release without."""
    rows = simulate_load_kw(customers=30, seed=9)
    more = np.vstack([rows, np.full((1, 24), 1e6)])
    groups = ["a", "b"] * 15
    promise: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA}
    seen = record(lambda: load_shapes(more, groups=[*groups, "a"], levels="ab", **promise))
    return seen, replay(lambda: load_shapes(rows, groups=groups, levels="ab", **promise), seen)


def measured_delta(runs: int) -> tuple[float, float]:
    """Return the measured delta of "a giant is there or not" with its standard error."""
    losses = np.array([privacy_loss(*with_and_without_a_giant()) for _ in range(runs)])
    excess = np.maximum(0.0, 1.0 - np.exp(EPSILON - losses))
    return float(excess.mean()), float(excess.std() / math.sqrt(runs))


def test_transcript_has_the_claimed_delta() -> None:
    """Neither above the claim, nor far below: a giant uses the whole budget."""
    delta, error = measured_delta(sample_size(200))
    assert abs(delta - DELTA) < DEVIATIONS * error


def test_half_the_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of half the scale under a scale that claims to be whole."""
    honest = accounting.noise_scale
    monkeypatch.setattr(accounting, "noise_scale", lambda **fields: 0.5 * honest(**fields))
    delta, error = measured_delta(sample_size(60))
    assert delta - DELTA > DEVIATIONS * error


def test_forgotten_clipping_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A giant that goes to the grid as it is."""
    monkeypatch.setattr(
        "wattveil.privacy.sensitivity.Ball.to_grid",
        lambda self, rows: np.trunc(np.clip(rows, -8.0, 8.0) / self.step).astype(np.int64),
    )
    delta, error = measured_delta(sample_size(40))
    assert delta - DELTA > DEVIATIONS * error


def test_an_exchanged_share_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of the sums spent on the counts as well: 1.44 times the grant, exactly."""
    grant = 2.0 * Budget(global_promise(epsilon=EPSILON, delta=DELTA)).rho_units * 1e-18
    assert squared_signal(*with_and_without_a_giant()) <= grant
    faults.exchanged_share(monkeypatch)
    assert squared_signal(*with_and_without_a_giant()) == pytest.approx(1.44 * grant, rel=1e-3)
