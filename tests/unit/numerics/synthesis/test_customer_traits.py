"""Traits of synthetic customers: what they follow, and how they depend on each other."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from wattveil.arrays import Floats
from wattveil.numerics.synthesis import synthesis_tuning
from wattveil.numerics.synthesis.customer_traits import (
    draw_bases,
    draw_habits,
    draw_spreads,
    draw_unevenness,
    floored,
    low_loads,
    lowest_loads,
    rank_points,
    rank_scores,
)
from wattveil.numerics.synthesis.day_deviations import DayToDay
from wattveil.numerics.synthesis.figure_maps import customer_sizes
from wattveil.numerics.synthesis.year_paths import FORMS

SLOTS, PARTS, N = 6, 2, 4000
QUANTILES = np.array([np.linspace(0.05, 0.5, 101), np.linspace(-2.0, -0.5, 101)])


def typical_days(seed: int = 0) -> Floats:
    """Return typical days of customers of different sizes and shapes."""
    generator = np.random.default_rng(seed)
    sizes = np.exp(0.6 * generator.standard_normal((N, 1)))
    return np.asarray(sizes * np.exp(0.5 * generator.standard_normal((N, SLOTS * PARTS))))


def test_scores_of_ranks_are_normal() -> None:
    """Whatever the figure, with the order of its values."""
    values = np.exp(np.random.default_rng(1).standard_normal(N))
    scores = rank_scores(values, rank_points(values))
    assert scores.mean() == pytest.approx(0.0, abs=0.03)
    assert scores.std() == pytest.approx(1.0, abs=0.05)
    assert spearmanr(scores, values).statistic > 0.999


def test_large_customers_vary_less() -> None:
    """Spreads keep their released distribution and are linked with sizes as declared."""
    zeros = np.zeros(SLOTS)
    days = DayToDay(
        factors=np.zeros((2, SLOTS, SLOTS)),
        slow=zeros,
        decay=zeros,
        margins=np.zeros((1, 1)),
        spreads=np.array([[-1.0, 0.2], [0.1, 0.4]]),
        base=QUANTILES,
    )
    generator = np.random.default_rng(2)
    scores = generator.standard_normal(N)
    shapes, ratios = draw_spreads(days, scores, generator)
    for values, (mean, deviation) in zip((shapes, ratios), days.spreads, strict=True):
        assert np.log(values).mean() == pytest.approx(mean, abs=0.03)
        assert np.log(values).std() == pytest.approx(deviation, rel=0.06)
    found = np.corrcoef([scores, np.log(shapes), np.log(ratios)])
    assert found[0, 1] == pytest.approx(synthesis_tuning.SIZE_LINK, abs=0.05)
    assert found[1, 2] == pytest.approx(synthesis_tuning.SPREAD_LINK, abs=0.05)


def test_base_loads_follow_their_distribution_and_typical_days_stay_above() -> None:
    """Of customers without export: also linked with the lowest typical load; energy is kept."""
    typical_kw = typical_days()
    exports = np.zeros(N, dtype=np.int64)
    low = low_loads(typical_kw, SLOTS)
    scores = rank_scores(low, rank_points(low))
    found_kw, base_kw = draw_bases(typical_kw, exports, QUANTILES, scores, np.random.default_rng(3))
    relative = base_kw / customer_sizes(found_kw)
    assert np.quantile(relative, [0.1, 0.5, 0.9]) == pytest.approx([0.095, 0.275, 0.455], abs=0.03)
    assert spearmanr(relative, low).statistic > 0.8
    least = synthesis_tuning.LOWEST_TYPICAL * base_kw
    assert (found_kw.min(axis=1) >= least * (1.0 - 1e-9)).all()
    assert found_kw.sum(axis=1) == pytest.approx(typical_kw.sum(axis=1))


def test_the_base_load_of_export_is_below_all_typical_load() -> None:
    """Typical days of customers that export are not changed."""
    typical_kw = typical_days() - 1.0
    exports = np.ones(N, dtype=np.int64)
    found_kw, base_kw = draw_bases(
        typical_kw, exports, QUANTILES, np.zeros(N), np.random.default_rng(4)
    )
    assert np.array_equal(found_kw, typical_kw)
    assert (base_kw <= typical_kw.min(axis=1)).all()


def test_typical_load_has_a_floor_without_export() -> None:
    """Relative to the size; customers that export have none."""
    typical_kw = typical_days() - 1.0
    exports = np.arange(N) % 2
    found_kw = floored(typical_kw, exports)
    assert np.array_equal(found_kw[1::2], typical_kw[1::2])
    min_kw = synthesis_tuning.TYPICAL_FLOOR * customer_sizes(typical_kw)
    assert (found_kw[::2] >= min_kw[::2, None]).all()
    assert (lowest_loads(found_kw)[::2] > 0.0).all()


def test_spreads_of_slots_differ_smoothly() -> None:
    """Their mean square is 1, and neighbours are alike."""
    logs = np.log(draw_unevenness(N, 24, np.random.default_rng(5)))
    assert np.exp(2.0 * logs).mean() == pytest.approx(1.0, abs=0.05)
    assert logs.std() == pytest.approx(synthesis_tuning.UNEVENNESS, rel=0.05)
    assert np.corrcoef(logs[:, 0], logs[:, 1])[0, 1] > 0.8


def test_habits_have_the_declared_distribution() -> None:
    """Means and deviations of logs, and every form of a margin equally often."""
    rough, habit, holding, forms = draw_habits(N, np.random.default_rng(6))
    tuning = synthesis_tuning
    declared = (
        (rough, tuning.ROUGHNESS, tuning.ROUGHNESS_SPREAD),
        (np.log(habit), tuning.HABIT, tuning.HABIT_SPREAD),
        (np.log(holding), tuning.HOLDING, tuning.HOLDING_SPREAD),
    )
    for values, mean, deviation in declared:
        assert values.mean() == pytest.approx(mean, abs=0.05)
        assert values.std() == pytest.approx(deviation, rel=0.06)
    assert np.bincount(forms, minlength=FORMS) == pytest.approx(np.full(FORMS, N / FORMS), rel=0.15)
