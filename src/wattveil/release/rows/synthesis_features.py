"""Offsets of customers from released centroids, and the features that synthesis sums."""

import math

import numpy as np

from wattveil.arrays import Bools, Floats, Ints
from wattveil.compiled import compiled
from wattveil.numerics.synthesis.synthesis_tuning import MEAN_PART
from wattveil.privacy.private_data import row_function
from wattveil.release.rows.load_features import check_shapes, check_width, products, row_lengths

Rule = tuple[bool, float, Floats]
"""The public transform: whether it is the logarithm, its alpha in kW, and the scale per cluster."""

_LOG_FLOOR = 1e-3
"""Minimum x + alpha, in units of alpha: a load below -alpha has no logarithm."""
_ROOT_TWO = math.sqrt(2.0)


@row_function
def export_cells(load_kw: Floats, labels: Ints) -> tuple[Ints]:
    """Return the cell 2 k + (whether some load is negative) of each customer."""
    return (2 * labels + (load_kw < 0.0).any(axis=1),)


@row_function
def scores(
    load_kw: Floats,
    labels: Ints,
    *,
    rule: Rule,
    centres: Floats,
    weights: Floats,
) -> tuple[Floats, Ints, Bools]:
    """Return the coordinates D z of each customer's offset from its centroid, and its cluster."""
    offsets = centroid_offsets(load_kw, labels, rule, centres)
    return products(offsets, weights), labels, np.ones(len(labels), dtype=np.bool_)


@row_function
def moment_features(scores: Floats, labels: Ints, *, radius: float) -> tuple[Ints, Floats]:
    """Return cluster and (sqrt(p) a, sqrt(1 - p) a a'), with a = scores / radius clipped to 1.

    The matrix is stored as its upper triangle, off-diagonal entries times sqrt 2, which preserves
    its norm |a|^2; so the length is sqrt(p |a|^2 + (1 - p) |a|^4) <= 1. p is `MEAN_PART`.
    """
    a = scores * (1.0 / np.maximum(row_lengths(scores), radius))[:, None]
    first, second = np.triu_indices(scores.shape[1])
    weights = math.sqrt(1.0 - MEAN_PART) * np.where(first == second, 1.0, _ROOT_TWO)
    seconds = weights * a[:, first] * a[:, second]
    return labels, np.hstack([math.sqrt(MEAN_PART) * a, seconds])


@row_function
def margin_features(
    load_kw: Floats,
    labels: Ints,
    *,
    rule: Rule,
    means: Floats,
    deviations: Floats,
    waves: tuple[Floats, Floats],
) -> tuple[Ints, Floats]:
    """Return cell 0 and the weighted cosine coefficients of Phi((y - m_k) / sigma_k).

    ``means`` and ``deviations`` are (K, d), ``waves`` the curves over the slots and the weights.
    """
    check_shapes((deviations, means.shape))
    own = np.clip(labels, 0, len(means) - 1)
    normal = centroid_offsets(load_kw, own, rule, means) / deviations[own]
    return np.zeros_like(labels), cosine_features(normal, waves)


def centroid_offsets(load_kw: Floats, labels: Ints, rule: Rule, centres: Floats) -> Floats:
    """Return y - centre of each row, with the centre of its own cluster."""
    check_width(load_kw, centres.shape[1])
    check_shapes((rule[2], centres.shape[:1]))
    own, found = np.clip(labels, 0, len(centres) - 1), np.empty(load_kw.shape)
    _fill_offsets(np.ascontiguousarray(load_kw), own, rule, centres, found)
    return found


def cosine_features(standardised: Floats, waves: tuple[Floats, Floats]) -> Floats:
    """Return the weighted cosine coefficients of each row, clipped to length 1."""
    curves, weights = waves
    check_width(standardised, curves.shape[1])
    check_shapes((curves, (weights.shape[1], standardised.shape[1])))
    found = np.empty((len(standardised), weights.size))
    _fill_coefficients(np.ascontiguousarray(standardised), curves, weights, found)
    return found


@compiled
def _fill_offsets(rows: Floats, labels: Ints, rule: Rule, centres: Floats, found: Floats) -> None:
    """Fill y - centre of each row."""
    is_log, alpha, scales = rule
    for i in range(rows.shape[0]):
        k = labels[i]
        for h in range(rows.shape[1]):
            if is_log:
                y = np.log(max(rows[i, h] + alpha, _LOG_FLOOR * alpha)) / scales[k]
            else:
                y = rows[i, h] / scales[k]
                y = np.arcsinh(y) if y > 0.0 else y
            found[i, h] = y - centres[k, h]


@compiled
def add_cosines(standardised: float, curves: Floats, own: Floats) -> None:
    """Add b_w cos(pi j v) of a slot to every (j, w), with v = Phi(u) and b_w its curves."""
    step = math.cos(math.pi * 0.5 * math.erfc(-standardised / _ROOT_TWO))
    before, value = 1.0, step  # cos(j t) = 2 cos(t) cos((j - 1) t) - cos((j - 2) t)
    for j in range(own.shape[0]):
        for w in range(own.shape[1]):
            own[j, w] += value * curves[w]
        before, value = value, 2.0 * step * value - before


@compiled
def _fill_coefficients(
    standardised: Floats, curves: Floats, weights: Floats, found: Floats
) -> None:
    """Fill w_jw / sqrt(d) sum_h b_w(h) sqrt(2) cos(pi j v_h), then clip to length 1."""
    n_cosines, n_waves = weights.shape
    d = standardised.shape[1]
    own = np.empty((n_cosines, n_waves))
    for i in range(standardised.shape[0]):
        own[:] = 0.0
        for h in range(d):
            add_cosines(standardised[i, h], curves[:, h], own)
        squares = 0.0
        for j in range(n_cosines):
            for w in range(n_waves):
                own[j, w] *= weights[j, w] * _ROOT_TWO / math.sqrt(d)
                squares += own[j, w] * own[j, w]
        scale = 1.0 / max(math.sqrt(squares), 1.0)
        for j in range(n_cosines):
            for w in range(n_waves):
                found[i, j * n_waves + w] = own[j, w] * scale
