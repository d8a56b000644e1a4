"""All steps once more: an average where nothing moved, the last steps where much did."""

from dataclasses import replace

import numpy as np
import pytest

from wattveil.clustering import tuning
from wattveil.clustering.cells import Cells, Statistics, start_cells, update
from wattveil.clustering.look_back import Steps, look_back

K, R, STEPS = 200, 5, 6
COLOUR = np.ones(R)
CUSTOMERS = 50.0


def asked(truth: np.ndarray, *, sums_std: float, seed: int) -> tuple[Cells, Steps]:
    """Return the filtered cells and the steps behind them; ``truth`` (STEPS, K, R) may move."""
    generator = np.random.default_rng(seed)
    radii, counts = np.ones(K), np.full(K, CUSTOMERS)
    prior = start_cells(np.zeros((K, R)), radii, counts, counts_std=0.01 * counts, spread=0.55)
    cells, steps = prior, []
    for step, middles in enumerate(truth):
        sums = CUSTOMERS * (middles - cells.middles) + generator.normal(0.0, sums_std, (K, R))
        seen = Statistics(
            counts=np.full((K, 1), CUSTOMERS), counts_std=0.1, sums=sums, sums_std=sums_std
        )
        steps.append((cells, seen))
        cells = update(cells, seen, step=step, colour=COLOUR)
    return cells, steps


def error(cells: Cells, truth: np.ndarray) -> float:
    """Return the root-mean-square error of the middles at the last step."""
    return float(np.sqrt(np.square(cells.middles - truth[-1]).mean()))


def resting() -> np.ndarray:
    """Return middles that stay."""
    prior = start_cells(np.zeros((K, R)), np.ones(K), np.ones(K), counts_std=np.ones(K), spread=0.5)
    middles = np.random.default_rng(1).normal(0.0, np.sqrt(prior.variance))
    return np.repeat(middles[None], STEPS, axis=0)


def test_without_drift_it_is_the_average_of_all_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Precisions add up: 1 / v = 1 / prior + steps / noise^2, and the mean is weighed by them."""
    monkeypatch.setattr(tuning, "DRIFTS", (0.0,))
    last, steps = asked(resting(), sums_std=10.0, seed=2)
    found = look_back(last, steps, colour=COLOUR)
    noise = (10.0 / last.counts[:, None]) ** 2
    seen = [cells.middles + one.sums / last.counts[:, None] for cells, one in steps]
    prior = steps[0][0].variance
    variance = 1.0 / (1.0 / prior + STEPS / noise)
    assert found.variance == pytest.approx(np.maximum(variance, last.variance))
    assert found.middles == pytest.approx(variance * np.sum(seen, axis=0) / noise)
    assert found.counts is last.counts


@pytest.mark.parametrize(("sums_std", "gain"), [(2.0, 0.9), (10.0, 0.95)])
def test_middles_that_rest_are_known_better(sums_std: float, gain: float) -> None:
    """Steps that saw the same middle are all used; the filter forgot the first ones.

    The more noise, the more the prior decides, in both.
    """
    truth = resting()
    last, steps = asked(truth, sums_std=sums_std, seed=3)
    found = look_back(last, steps, colour=COLOUR)
    assert error(found, truth) < gain * error(last, truth)
    assert error(found, truth) < np.sqrt(found.variance.mean())
    assert (found.variance >= last.variance).all()


@pytest.mark.parametrize("sums_std", [2.0, 10.0])
def test_middles_that_move_are_not_averaged_away(sums_std: float) -> None:
    """Where customers changed cells the last steps decide, as in the filter."""
    truth = resting()
    away = np.random.default_rng(4).normal(0.0, 1.0, (STEPS, K, R))
    away *= tuning.DRIFT * tuning.DRIFT_DECAY ** np.arange(STEPS)[:, None, None]
    truth = truth + np.cumsum(away[::-1], axis=0)[::-1]
    last, steps = asked(truth, sums_std=sums_std, seed=5)
    found = look_back(last, steps, colour=COLOUR)
    assert error(found, truth) < 1.1 * error(last, truth)
    averaged = np.mean([c.middles + s.sums / CUSTOMERS for c, s in steps], axis=0)
    assert error(found, truth) < 0.7 * error(replace(last, middles=averaged), truth)


def test_each_cluster_is_judged_by_itself() -> None:
    """Half of the clusters rest, half move: each half is as well known as it would be alone."""
    rests = resting()
    moves = rests + 0.6 * np.array([2.0, 1.0, 0.4, 0.1, 0.0, 0.0])[:, None, None]
    truth = np.where((np.arange(K) < K // 2)[None, :, None], rests, moves)
    last, steps = asked(truth, sums_std=2.0, seed=6)
    both = look_back(last, steps, colour=COLOUR).middles - truth[-1]
    alone = look_back(*asked(rests, sums_std=2.0, seed=6), colour=COLOUR).middles - rests[-1]
    half = slice(0, K // 2)
    assert np.sqrt(np.square(both[half]).mean()) == pytest.approx(
        np.sqrt(np.square(alone[half]).mean())
    )
