"""All steps once more: an average where nothing moved, the last steps where much did."""

from dataclasses import replace

import numpy as np
import pytest

from wattveil.numerics.kmeans import kmeans_tuning
from wattveil.numerics.kmeans.kmeans_stages import (
    Cells,
    Statistics,
    Steps,
    smooth_steps,
    start_cells,
    update,
)

K, R, STEPS = 200, 5, 6
COLOUR = np.ones(R)
CUSTOMERS = 50.0


def filtered(truth: np.ndarray, *, sums_std: float, seed: int) -> tuple[Cells, Steps]:
    """Return the filtered cells and the steps behind them; ``truth`` (STEPS, K, R) may move."""
    generator = np.random.default_rng(seed)
    radii, counts = np.ones(K), np.full(K, CUSTOMERS)
    prior = start_cells(np.zeros((K, R)), radii, counts, counts_std=0.01 * counts, spread=0.55)
    cells, steps = prior, []
    for step, centres in enumerate(truth):
        sums = CUSTOMERS * (centres - cells.centres) + generator.normal(0.0, sums_std, (K, R))
        observed = Statistics(
            counts=np.full((K, 1), CUSTOMERS), counts_std=0.1, sums=sums, sums_std=sums_std
        )
        steps.append((cells, observed))
        cells = update(cells, observed, step=step, colour=COLOUR)
    return cells, steps


def error(cells: Cells, truth: np.ndarray) -> float:
    """Return the root-mean-square error of the centres at the last step."""
    return float(np.sqrt(np.square(cells.centres - truth[-1]).mean()))


def resting() -> np.ndarray:
    """Return centres that stay."""
    prior = start_cells(np.zeros((K, R)), np.ones(K), np.ones(K), counts_std=np.ones(K), spread=0.5)
    centres = np.random.default_rng(1).normal(0.0, np.sqrt(prior.variance))
    return np.repeat(centres[None], STEPS, axis=0)


def test_without_drift_it_is_the_average_of_all_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Precisions add up: 1 / v = 1 / prior + steps / noise^2, and the mean is weighed by them."""
    monkeypatch.setattr(kmeans_tuning, "DRIFTS", (0.0,))
    last, steps = filtered(resting(), sums_std=10.0, seed=2)
    found = smooth_steps(last, steps, colour=COLOUR)
    noise = (10.0 / last.counts[:, None]) ** 2
    observed = [cells.centres + one.sums / last.counts[:, None] for cells, one in steps]
    prior = steps[0][0].variance
    variance = 1.0 / (1.0 / prior + STEPS / noise)
    assert found.variance == pytest.approx(np.maximum(variance, last.variance))
    assert found.centres == pytest.approx(variance * np.sum(observed, axis=0) / noise)
    assert found.counts is last.counts


@pytest.mark.parametrize(("sums_std", "gain"), [(2.0, 0.9), (10.0, 0.95)])
def test_static_centres_are_estimated_better(sums_std: float, gain: float) -> None:
    """All steps with the same centre are used; the filter had discounted the first ones.

    The more noise, the more the prior decides, in both.
    """
    truth = resting()
    last, steps = filtered(truth, sums_std=sums_std, seed=3)
    found = smooth_steps(last, steps, colour=COLOUR)
    assert error(found, truth) < gain * error(last, truth)
    assert error(found, truth) < np.sqrt(found.variance.mean())
    assert (found.variance >= last.variance).all()


@pytest.mark.parametrize("sums_std", [2.0, 10.0])
def test_moving_centres_are_not_averaged_away(sums_std: float) -> None:
    """Where customers changed cells the last steps decide, as in the filter."""
    truth = resting()
    away = np.random.default_rng(4).normal(0.0, 1.0, (STEPS, K, R))
    away *= kmeans_tuning.DRIFT * kmeans_tuning.DRIFT_DECAY ** np.arange(STEPS)[:, None, None]
    truth = truth + np.cumsum(away[::-1], axis=0)[::-1]
    last, steps = filtered(truth, sums_std=sums_std, seed=5)
    found = smooth_steps(last, steps, colour=COLOUR)
    assert error(found, truth) < 1.1 * error(last, truth)
    averaged = np.mean([c.centres + s.sums / CUSTOMERS for c, s in steps], axis=0)
    assert error(found, truth) < 0.7 * error(replace(last, centres=averaged), truth)


def test_each_cluster_is_smoothed_by_itself() -> None:
    """Half of the clusters rest, half move: each half is as well known as it would be alone."""
    rests = resting()
    moves = rests + 0.6 * np.array([2.0, 1.0, 0.4, 0.1, 0.0, 0.0])[:, None, None]
    truth = np.where((np.arange(K) < K // 2)[None, :, None], rests, moves)
    last, steps = filtered(truth, sums_std=2.0, seed=6)
    both = smooth_steps(last, steps, colour=COLOUR).centres - truth[-1]
    alone = smooth_steps(*filtered(rests, sums_std=2.0, seed=6), colour=COLOUR).centres - rests[-1]
    half = slice(0, K // 2)
    assert np.sqrt(np.square(both[half]).mean()) == pytest.approx(
        np.sqrt(np.square(alone[half]).mean())
    )
