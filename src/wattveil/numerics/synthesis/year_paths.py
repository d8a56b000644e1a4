"""Paths of load over days: compiled loops that draw the slots of synthetic customers.

The root of a load is a cube root above the base load of the customer and linear below it
(`day_deviations.load_root`). In slot h of day t it is ``a + sigma_h u_h(z)``, with the score

    z = F g_t + L e_t

g_t are the coordinates that last over days, with decay phi from day to day; the first is the level
of the day, with a long lower tail (days on which nobody is at home). L is the lower triangle of the
covariance of what does not last, so e_h is the innovation of hour h. Innovations have heavy tails:
most hours continue the one before, some begin something new. The first innovation of a day is
linked with the last hour of the day before. u_h turns scores into the released margin of the slot,
bent differently for each customer; a is such that the mean over days is the typical load. The level
that all customers have in common multiplies the load above the base load. Last, appliances either
run on or switch: of a step that is small beside the size of the customer a part is held back, and
follows with the next large one.
"""

import math

import numpy as np
from scipy.special import ndtri

from wattveil.arrays import Floats, Ints
from wattveil.compiled import compiled
from wattveil.numerics.synthesis.day_deviations import DayToDay, load_of_root
from wattveil.numerics.synthesis.noisy_moments import quantile_maps
from wattveil.numerics.synthesis.synthesis_tuning import (
    BELOW_BASE,
    BEND,
    BEND_SPREAD,
    DAY_FARTHEST,
    HEAVINESS,
    LEAST_STEP,
    LEVEL_SKEWNESS,
    PEAK_START,
    SHOCK_SKEWNESS,
)

_FARTHEST, _POINTS = 7.0, 1401
"""Scores are tabulated between -7 and 7: with heavy tails they go as far as normal ones to 3.5."""
_MAX_START, _FAR_START, _STARTS, _HALVINGS = 15.0, 12.0, 1201, 24
"""Mean roots are tabulated up to 15 standard deviations and found by so many halvings; beyond 12
the distribution is not cut at 0, and its moments are known."""
_COARSE = 7
"""Of the points of a normal curve each seventh is used for means."""
FORMS = 5
"""Forms of margins between which customers differ."""
_MIN_SPREAD, _MAX_SPREAD = 0.02, 1.5
_MOST_SLOW, _LEAST_PIVOT, _MAX_RATIO = 0.95, 1e-4, 1.5


def score_tables(days: DayToDay, fresh: Floats) -> tuple[Floats, Floats]:
    """Return u_h by scores, (forms, slots, points), and means by a, (2, forms, slots, points).

    The means are E max(a + u, 0)^3 and E min(a + u, 0). ``fresh``, (2, days, slots), are normal
    numbers from which scores are made for their distribution.
    """
    n_slots = fresh.shape[2]
    z = np.linspace(-DAY_FARTHEST, DAY_FARTHEST, _POINTS)
    weight = np.exp(-0.5 * z**2)
    weight /= weight.sum()
    maps = quantile_maps(days.margins, n_slots, z)
    maps -= (maps @ weight)[:, None]
    maps /= np.sqrt(np.square(maps) @ weight)[:, None]
    starts = np.linspace(-_MAX_START, _MAX_START, _STARTS)[:, None]
    coarse = weight[::_COARSE] / weight[::_COARSE].sum()
    bends = BEND + BEND_SPREAD * ndtri((np.arange(FORMS) + 0.5) / FORMS)
    forms = np.empty((FORMS, n_slots, _POINTS))
    means = np.empty((2, FORMS, n_slots, _STARTS))
    chances = (np.arange(fresh.shape[1]) + 0.5) / fresh.shape[1]
    places = np.linspace(-_FARTHEST, _FARTHEST, _POINTS)
    normal = [
        np.interp(places, scores, ndtri(chances))
        for scores in np.sort(_usual_scores(days, *fresh).T)
    ]
    for form, bend in enumerate(bends):
        for slot, straight in enumerate(maps):
            values = _bent(straight, bend, weight)
            above = np.maximum(starts + values[::_COARSE], 0.0)
            means[0, form, slot] = above * above * above @ coarse  # a power takes ten times as long
            means[1, form, slot] = np.minimum(starts + values[::_COARSE], 0.0) @ coarse
            forms[form, slot] = np.interp(normal[slot], z, values)
    return forms, means


def _bent(margin: Floats, bend: float, weight: Floats) -> Floats:
    """Return a margin of mean 0 and variance 1 whose upper tail is shorter, the larger the bend."""
    values = -np.expm1(-bend * margin) / bend if bend else margin
    values = values - values @ weight
    return np.asarray(values / math.sqrt(np.square(values) @ weight))


def _usual_scores(days: DayToDay, lasting: Floats, shocks: Floats) -> Floats:
    """Return scores of a customer of usual spreads, (days, slots), which are not normal."""
    n_slots = shocks.shape[1]
    (shape, _), (ratio, spread) = days.spreads
    own = math.exp(shape) * np.array([1.0, math.exp(ratio + 0.5 * spread**2)])
    slow = np.sqrt(days.slow)
    factor, lower, sigma = np.zeros((3, n_slots, n_slots))
    _own_factor(days.factors, own, 0.0, factor, sigma[0])
    _own_innovations(factor, slow, lower)
    for t in range(len(shocks)):
        lasting[t, 0] = _skewed(lasting[t, 0])
        _shocks(shocks[t], ((0.0, 1.0), 0.0), shocks[t])
    return np.asarray((lasting * slow) @ factor.T + shocks @ lower.T)


@compiled
def draw_span(
    data: tuple[Floats, Floats, Floats, Floats, Ints],
    where: tuple[tuple[int, int], Ints, Floats],
    model: tuple[Floats, tuple[Floats, Floats, Floats], tuple[Floats, Floats]],
    max_kw: float,
    load_kw: Floats,
) -> None:
    """Fill the load of the customers of a span, day by day."""
    typical_kw, spreads, uneven, normal, exports = data
    span, parts, levels = where
    factors, (slow, decay, lost), (forms, means) = model
    n_slots = forms.shape[1]
    steps = (forms.shape[2] - 1) / (2.0 * _FARTHEST)
    own_slow, lasting, shocks = slow.copy(), np.empty((parts.size, n_slots)), np.empty(n_slots)
    factor, lower = np.empty((n_slots, n_slots)), np.empty((n_slots, n_slots))
    sigma, roots = np.empty(n_slots), np.empty(typical_kw.shape[1])
    sums = np.empty((2, typical_kw.shape[1]))
    for i in range(span[0], span[1]):
        base_kw, scale = spreads[i, 3], spreads[i, 4]
        own_slow[0] = spreads[i, 2]
        for j in range(1, n_slots):
            own_slow[j] = math.sqrt(min(slow[j] * slow[j] * spreads[i, 7], _MOST_SLOW))
        _own_factor(factors, spreads[i], spreads[i, 6], factor, sigma)
        sigma *= uneven[i]
        form = int(spreads[i, 9])
        maps = forms[form]
        link = _own_innovations(factor, own_slow, lower)
        _mean_roots(typical_kw[i], sigma, (base_kw, scale), means[:, form], roots)
        _fill_lasting(normal[i, :, 0], parts, (decay, lost), lasting)
        min_kw = -max_kw if exports[i] else 0.0
        last, fast, held = normal[i, 0, 1, 0], 0.0, typical_kw[i, parts[0] * n_slots]
        sums[:], lowest = 0.0, min(base_kw, 0.0)
        for t in range(parts.size):
            level = 1.0 + spreads[i, 5] * levels[t]
            _shocks(normal[i, t, 1], (link, last), shocks)
            for h in range(n_slots):
                z = factor[h, 0] * own_slow[0] * _skewed(lasting[t, 0])
                for j in range(1, n_slots):
                    z += factor[h, j] * own_slow[j] * lasting[t, j]
                fast = 0.0
                for j in range(h + 1):
                    fast += lower[h, j] * shocks[j]
                place = (min(max(z + fast, -_FARTHEST), _FARTHEST) + _FARTHEST) * steps
                column = parts[t] * n_slots + h
                away = sigma[h] * _between(maps[h], place)
                load = load_of_root(roots[column] + away, base_kw, level * scale)
                load = min(max(load, min_kw), max_kw)
                held = _held(held, load, spreads[i, 8])
                load_kw[i, t * n_slots + h] = held
                sums[0, column] += load - lowest
                sums[1, column] += held - lowest
            last = fast
        _keep_means(sums, lowest, parts, load_kw[i])
        if lost[0] > 0.0:
            own = base_kw, spreads[i, 5]
            _keep_energy(typical_kw[i], own, (parts, levels), load_kw[i])


@compiled
def _held(before: float, load: float, width: float) -> float:
    """Return the load after a step s from the load before, of which a small one is partly held.

    s (q + (1 - q) s^2 / (s^2 + width^2)), q the share of the smallest steps that is taken.
    """
    step = load - before
    square = step * step
    taken = square / (square + width * width) if square > 0.0 else 1.0
    return before + (LEAST_STEP + (1.0 - LEAST_STEP) * taken) * step


@compiled
def _heavy(normal: float) -> float:
    """Return innovations of variance 1 with heavy tails, the upper one heavier.

    n + k n^3 + q (n^2 - 1) has variance 1 + 6 k + 15 k^2 + 2 q^2.
    """
    k, q = HEAVINESS, SHOCK_SKEWNESS
    square = normal * normal
    found = normal * (1.0 + k * square) + q * (square - 1.0)
    return found / math.sqrt(1.0 + 6.0 * k + 15.0 * k * k + 2.0 * q * q)


@compiled
def _skewed(normal: float) -> float:
    """Return scores of variance 1 with a long lower tail: n - k (n^2 - 1) has 1 + 2 k^2."""
    k = LEVEL_SKEWNESS
    return (normal - k * (normal * normal - 1.0)) / math.sqrt(1.0 + 2.0 * k * k)


@compiled
def _shocks(normal: Floats, before: tuple[tuple[float, float], float], shocks: Floats) -> None:
    """Fill the innovations of a day; the first is linked with the last score of the day before."""
    for j in range(normal.size):
        shocks[j] = _heavy(normal[j])
    weights, last = before
    shocks[0] = weights[0] * last + weights[1] * shocks[0]


@compiled
def _own_innovations(factor: Floats, slow: Floats, lower: Floats) -> tuple[float, float]:
    """Fill the lower triangle L with L L' the covariance of what does not last over days.

    Return the weights of the last score of a day, and of a new innovation, in the next day's first.
    """
    n_slots = slow.size
    for h in range(n_slots):
        for m in range(h + 1):
            total = 0.0
            for j in range(n_slots):
                total += factor[h, j] * factor[m, j] * (1.0 - slow[j] * slow[j])
            for j in range(m):
                total -= lower[h, j] * lower[m, j]
            if m == h:
                lower[h, h] = math.sqrt(total) if total > _LEAST_PIVOT else 0.0
            else:
                lower[h, m] = total / lower[m, m] if lower[m, m] > 0.0 else 0.0
    variance = 0.0
    for j in range(n_slots):
        variance += lower[n_slots - 1, j] * lower[n_slots - 1, j]
    first = lower[1, 0] / math.sqrt(max(lower[1, 0] ** 2 + lower[1, 1] ** 2, _LEAST_PIVOT))
    return first / math.sqrt(max(variance, _LEAST_PIVOT)), math.sqrt(1.0 - first * first)


@compiled
def _keep_means(sums: Floats, lowest: float, parts: Ints, load_kw: Floats) -> None:
    """Scale load: each slot of a typical day has the mean that it had before steps were held."""
    n_slots = load_kw.size // parts.size
    for place in range(load_kw.size):
        column = parts[place // n_slots] * n_slots + place % n_slots
        before, after = sums[0, column], sums[1, column]
        if after > 0.0:
            ratio = min(max(before / after, 1.0 / _MAX_RATIO), _MAX_RATIO)
            load_kw[place] = lowest + ratio * (load_kw[place] - lowest)


@compiled
def _keep_energy(
    typical_kw: Floats, own: tuple[float, float], days: tuple[Ints, Floats], load_kw: Floats
) -> None:
    """Scale load above the base load: the mean day of each part has the energy of the typical day.

    Typical days are means over the days that occurred, so their energy is not left to chance.
    """
    base_kw, loading = own
    parts, levels = days
    n_slots = load_kw.size // parts.size
    n_parts = typical_kw.size // n_slots
    usual, wanted, found = np.zeros(n_parts), np.zeros(n_parts), np.zeros(n_parts)
    for column in range(typical_kw.size):
        usual[column // n_slots] += max(typical_kw[column] - base_kw, 0.0)
    for t in range(parts.size):
        wanted[parts[t]] += (1.0 + loading * levels[t]) * usual[parts[t]]
        for place in range(t * n_slots, (t + 1) * n_slots):
            found[parts[t]] += load_kw[place] - base_kw
    for t in range(parts.size):
        if found[parts[t]] > 0.0:
            ratio = wanted[parts[t]] / found[parts[t]]
            ratio = min(max(ratio, 1.0 / _MAX_RATIO), _MAX_RATIO)
            for place in range(t * n_slots, (t + 1) * n_slots):
                above = load_kw[place] - base_kw
                if above > 0.0:
                    load_kw[place] = base_kw + ratio * above


@compiled
def _between(table: Floats, place: float) -> float:
    """Read a table between two of its points."""
    cell = min(int(place), table.size - 2)
    share = place - cell
    return float((1.0 - share) * table[cell] + share * table[cell + 1])


@compiled
def _own_factor(
    factors: Floats, spreads: Floats, roughness: float, factor: Floats, sigma: Floats
) -> None:
    """Fill a customer's sigma, and the factor from coordinates to its scores z.

    Coordinates are ordered by smoothness; of a rough customer, the rougher ones gain weight.
    """
    n_slots = sigma.size
    for h in range(n_slots):
        variance, tilted = 0.0, 0.0
        for j in range(n_slots):
            entry = spreads[0] * factors[0, h, j] + spreads[1] * factors[1, h, j]
            variance += entry * entry
            factor[h, j] = entry * math.exp(roughness * (j / (n_slots - 1.0) - 0.5))
            tilted += factor[h, j] * factor[h, j]
        for j in range(n_slots):
            factor[h, j] /= math.sqrt(tilted)
        sigma[h] = max(min(math.sqrt(variance), _MAX_SPREAD), _MIN_SPREAD)


@compiled
def _mean_roots(
    typical_kw: Floats, sigma: Floats, own: tuple[float, float], means: Floats, roots: Floats
) -> None:
    """Fill the mean root a of each slot, by which the mean load is the typical load m.

    (m - base) = scale E max(a + sigma u, 0)^3 + BELOW_BASE base E min(a + sigma u, 0), which
    increases in a.
    """
    base_kw, scale = own
    steps = (means.shape[2] - 1) / (2.0 * _MAX_START)
    below = BELOW_BASE * max(base_kw, 0.0)
    for column in range(typical_kw.size):
        h = column % sigma.size
        root = np.cbrt(max(typical_kw[column] - base_kw, 0.0) / scale)
        if root > _FAR_START * sigma[h]:  # E (a + sigma u)^3 = a^3 + 3 a sigma^2 + ..., u never cut
            roots[column] = root - sigma[h] * sigma[h] / root
            continue
        cubed = scale * sigma[h] * sigma[h] * sigma[h]
        low, high = -_MAX_START, _MAX_START
        for _ in range(_HALVINGS):
            start = 0.5 * (low + high)
            place = (start + _MAX_START) * steps
            mean = cubed * _between(means[0, h], place)
            mean += below * sigma[h] * _between(means[1, h], place)
            if mean > typical_kw[column] - base_kw:
                high = start
            else:
                low = start
        roots[column] = max(0.5 * (low + high) * sigma[h], -1.0)


@compiled
def fit_peaks(load_kw: Floats, peaks: Floats, targets: Floats, span: tuple[int, int]) -> None:
    """Stretch or compress load close to the peak, so that the peak is the target."""
    for i in range(span[0], span[1]):
        start = PEAK_START * min(peaks[i], targets[i])
        if start > 0.0:
            ratio = (targets[i] - start) / (peaks[i] - start)
            for t in range(load_kw.shape[1]):
                if load_kw[i, t] > start:
                    load_kw[i, t] = start + ratio * (load_kw[i, t] - start)


@compiled
def _fill_lasting(
    normal: Floats, parts: Ints, process: tuple[Floats, Floats], lasting: Floats
) -> None:
    """Fill what lasts of each coordinate, (days, coordinates), with variance 1.

    Its mean over the days of a part of the year belongs to the typical day, and is subtracted where
    ``lost``, the variance of that mean, is positive.
    """
    decay, lost = process
    n_parts = parts.max() + 1
    sums, counts = np.zeros(n_parts), np.zeros(n_parts)
    for t in range(parts.size):
        counts[parts[t]] += 1.0
    for j in range(decay.size):
        renewed = math.sqrt(1.0 - decay[j] * decay[j])
        sums[:] = 0.0
        for t in range(parts.size):
            lasting[t, j] = normal[t, j]
            if t > 0:
                lasting[t, j] = decay[j] * lasting[t - 1, j] + renewed * normal[t, j]
            sums[parts[t]] += lasting[t, j]
        if lost[j] > 0.0:
            for t in range(parts.size):
                mean = sums[parts[t]] / counts[parts[t]]
                lasting[t, j] = (lasting[t, j] - mean) / math.sqrt(1.0 - lost[j])
