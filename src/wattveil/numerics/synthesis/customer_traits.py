"""Traits that a synthetic customer keeps all year, beside its typical days.

Spreads and base loads follow released distributions. How traits depend on each other, and how rough
days, persistence of shapes and forms of margins differ between customers, are public constants
(`synthesis_tuning`): large customers vary less, and customers whose lowest typical load is high
have high base loads. Ranks among the customers of the model are normal scores.
"""

import math

import numpy as np
from scipy.special import ndtr, ndtri

from wattveil.arrays import Floats, Ints
from wattveil.numerics.synthesis import synthesis_tuning
from wattveil.numerics.synthesis.day_deviations import DayToDay, base_edges
from wattveil.numerics.synthesis.figure_maps import customer_sizes
from wattveil.numerics.synthesis.year_paths import FORMS

_RANKS = np.linspace(0.005, 0.995, 100)
_FARTHEST = 2.5
"""Scores of customers are clipped here."""
_UNEVEN_WAVES = 2
_MOST_UNEVEN = 3.0
"""Largest factor of the spread of a slot."""


def rank_points(values: Floats) -> Floats:
    """Return the quantiles of a figure of the model's customers, for `rank_scores`."""
    return np.asarray(np.quantile(values, _RANKS))


def rank_scores(values: Floats, points: Floats) -> Floats:
    """Return the normal scores of the ranks of a figure among the model's customers."""
    return np.asarray(ndtri(np.interp(values, points, _RANKS)))


def draw_spreads(
    days: DayToDay, size_scores: Floats, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw d_1 and d_0 / d_1 of customers: large ones vary less."""
    shape, other = _scores(2, size_scores.size, generator)
    shape = _linked(size_scores, shape, synthesis_tuning.SIZE_LINK)
    ratio = _linked(shape, other, synthesis_tuning.SPREAD_LINK)
    (mean, deviation), (mean_ratio, deviation_ratio) = days.spreads
    return np.exp(mean + deviation * shape), np.exp(mean_ratio + deviation_ratio * ratio)


def draw_habits(n: int, generator: np.random.Generator) -> tuple[Floats, Floats, Floats, Ints]:
    """Draw how rough days are, how persistent their shapes, steps held, and forms of margins."""
    rough, habit, holding = _scores(3, n, generator)
    return (
        synthesis_tuning.ROUGHNESS + synthesis_tuning.ROUGHNESS_SPREAD * rough,
        np.exp(synthesis_tuning.HABIT + synthesis_tuning.HABIT_SPREAD * habit),
        np.exp(synthesis_tuning.HOLDING + synthesis_tuning.HOLDING_SPREAD * holding),
        generator.integers(0, FORMS, n),
    )


def draw_unevenness(n: int, n_slots: int, generator: np.random.Generator) -> Floats:
    """Draw factors of the spreads of slots, (customers, slots): slow waves of the day."""
    angles = 2.0 * math.pi * np.arange(n_slots) / n_slots
    waves = [f(k * angles) for k in range(1, _UNEVEN_WAVES + 1) for f in (np.cos, np.sin)]
    scores = generator.standard_normal((n, len(waves))) @ np.array(waves)
    spread = synthesis_tuning.UNEVENNESS
    factors = np.exp(spread * scores / math.sqrt(_UNEVEN_WAVES) - spread**2)
    return np.asarray(np.clip(factors, 1.0 / _MOST_UNEVEN, _MOST_UNEVEN))


def draw_bases(
    typical_kw: Floats,
    exports: Ints,
    quantiles: Floats,
    low_scores: Floats,
    generator: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Draw base loads; return typical days that are above them, with the same energy, and them.

    ``quantiles`` are those of `DayToDay`; ``low_scores`` the ranks of `low_loads`.
    """
    n = len(typical_kw)
    sizes = np.maximum(customer_sizes(typical_kw), 1e-9)
    fresh = generator.standard_normal(n)
    chances = ndtr(_linked(low_scores, fresh, synthesis_tuning.BASE_LINK))
    points = np.linspace(0.0, 1.0, quantiles.shape[1])
    usual, below = (np.interp(chances, points, own) for own in quantiles)
    exporting = exports == 1
    lowest_kw = np.minimum(below * sizes, typical_kw.min(axis=1))
    base_kw = np.where(exporting, lowest_kw, np.maximum(usual, 0.0) * sizes)
    raised_kw = np.maximum(typical_kw, synthesis_tuning.LOWEST_TYPICAL * base_kw[:, None])
    energy = typical_kw.sum(axis=1) / np.maximum(raised_kw.sum(axis=1), 1e-9)
    usual_kw = raised_kw * energy[:, None]
    return (
        np.where(exporting[:, None], typical_kw, usual_kw),
        np.where(exporting, base_kw, base_kw * energy),
    )


def low_loads(typical_kw: Floats, n_slots: int) -> Floats:
    """Return the lowest load of each customer's mean day, in root-mean-square loads."""
    mean_days = typical_kw.reshape(len(typical_kw), -1, n_slots).mean(axis=1)
    return np.asarray(mean_days.min(axis=1) / np.maximum(customer_sizes(typical_kw), 1e-9))


def lowest_loads(typical_kw: Floats) -> Floats:
    """Return the lowest typical load of each customer, in its root-mean-square loads."""
    return np.asarray(typical_kw.min(axis=1) / np.maximum(customer_sizes(typical_kw), 1e-9))


def floored(typical_kw: Floats, exports: Ints) -> Floats:
    """Return typical load that is not far below the size of a customer without export."""
    min_kw = synthesis_tuning.TYPICAL_FLOOR * customer_sizes(typical_kw)
    return np.maximum(typical_kw, np.where(exports, -np.inf, min_kw)[:, None])


def exporting_share(base_counts: Floats) -> Floats:
    """Return the share of customers whose base load is below 0, by noisy counts of base loads."""
    below = base_counts[: int((base_edges() < 0.0).sum()) + 1].sum()
    share = below / max(float(base_counts.sum()), 1.0)
    return np.asarray(np.clip([share], 0.0, 1.0), dtype=np.float64)


def _scores(rows: int, n: int, generator: np.random.Generator) -> Floats:
    return generator.standard_normal((rows, n)).clip(-_FARTHEST, _FARTHEST)


def _linked(one: Floats, other: Floats, link: float) -> Floats:
    """Return scores of this correlation with the first, from independent second ones."""
    return np.asarray(link * one + math.sqrt(1.0 - link**2) * other)
