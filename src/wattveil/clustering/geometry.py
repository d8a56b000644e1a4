"""What is publicly known about daily load curves: a basis of smooth curves and a list of shapes.

Nothing here is learnt from data. A good guess makes the release more accurate, a bad one less; the
guarantee does not depend on it.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from wattveil import checks
from wattveil.errors import InvalidParameterError

Floats = NDArray[np.float64]

HOURS = 24.0
"""A row is one day, cut into equal slots."""

_SMOOTHNESS = 0.7
"""Length scale of the periodic part, in radians of the day: about 2.7 hours."""
_MIDNIGHT = (0.3, 2.0)
"""Variance and length scale in hours of the part that may jump at midnight."""


def public_basis(n_slots: int) -> Floats:
    """Return orthonormal curves as rows, from smooth to rough.

    They are the eigenvectors of the prior covariance of a daily curve: level, plus a smooth
    periodic part, plus a smooth part that need not join at midnight::

        k(h, h') = 1 + exp(-2 sin^2(pi (h - h') / 24) / 0.7^2) + 0.3 exp(-(h - h')^2 / (2 2^2))
    """
    hours = np.arange(n_slots) * HOURS / n_slots
    apart = np.abs(hours[:, None] - hours[None])
    periodic = np.exp(-2.0 * np.sin(np.pi * apart / HOURS) ** 2 / _SMOOTHNESS**2)
    variance, scale = _MIDNIGHT
    _, vectors = np.linalg.eigh(1.0 + periodic + variance * np.exp(-0.5 * (apart / scale) ** 2))
    # eigh leaves the signs open. Curves have peaks of equal height and opposite sign, so the first
    # entry that is not small decides.
    vectors = vectors[:, ::-1].T
    sizes = np.abs(vectors)
    first = (sizes > 0.5 * sizes.max(axis=1, keepdims=True)).argmax(axis=1)
    return np.ascontiguousarray(
        vectors * np.sign(vectors[np.arange(n_slots), first])[:, None], dtype=np.float64
    )


def harmonics(n_coordinates: int) -> Floats:
    """Return the harmonic of each basis curve: level 0, then 1, 1, 2, 2 and so on."""
    return np.ceil(np.arange(n_coordinates) / 2.0)


def shape_library(n_slots: int, count: int) -> Floats:
    """Return so many public daily shapes as rows of length 1, the most common kinds first.

    After 28 described ones follow smooth positive curves that cover what else is possible evenly.
    """
    hours = np.arange(n_slots) * HOURS / n_slots
    described = _described_shapes(hours)[:count]
    further = count - len(described)
    shapes = described
    if further > 0:
        apart = np.abs(hours[:, None] - hours[None])
        covariance = np.exp(-2.0 * np.sin(np.pi * apart / HOURS) ** 2 / 0.8**2)
        factor = np.linalg.cholesky(covariance + 1e-6 * np.eye(n_slots))
        curves = ndtri(_evenly_spread(n_slots, further))
        shapes = np.vstack([described, np.log1p(np.exp(1.5 * (factor @ curves).T))])
    unit: Floats = shapes / np.linalg.norm(shapes, axis=1, keepdims=True)
    return unit


def checked_library(library: ArrayLike | None, n_slots: int) -> Floats:
    """Return own public shapes, of length 1; none if None."""
    if library is None:
        return np.empty((0, n_slots))
    shapes = checks.numbers("public_library", library)
    fits = shapes.ndim == 2 and shapes.shape[0] > 0 and shapes.shape[1] == n_slots
    if not fits or not np.isfinite(shapes).all() or not shapes.any(axis=1).all():
        rule = f"a matrix of {n_slots} columns, finite, without a row of zeros"
        raise InvalidParameterError("public_library", rule, shapes.shape)
    shapes = shapes / np.abs(shapes).max(axis=1, keepdims=True)  # no length under- or overflows
    unit: Floats = shapes / np.linalg.norm(shapes, axis=1, keepdims=True)
    return unit


def _evenly_spread(n_dimensions: int, count: int) -> Floats:
    """Return points of the unit cube as columns: multiples, modulo 1, of the roots of primes."""
    candidates = np.arange(2, 20 * (n_dimensions + 4))
    primes = [p for p in candidates if all(p % q for q in range(2, int(p**0.5) + 1))]
    steps = np.sqrt(np.array(primes[:n_dimensions], dtype=np.float64))
    return np.modf(steps[:, None] * np.arange(1, count + 1))[0]


def _described_shapes(hours: Floats) -> Floats:
    """Return 28 shapes put together from humps at public hours of the day."""

    def hump(hour: float, width: float) -> Floats:
        apart = np.abs(hours - hour)
        return np.exp(-0.5 * (np.minimum(apart, HOURS - apart) / width) ** 2)

    return np.array(
        [
            # flat; evening peak; business day; morning and evening
            np.ones_like(hours),
            0.4 + hump(19.5, 3.0),
            0.4 + hump(13.0, 3.5),
            0.4 + 0.7 * hump(7.0, 2.0) + hump(19.0, 2.5),
            # panels on the roof; night heating; one wide hump elsewhere; night and evening
            0.5 + hump(20.0, 2.5) - 1.2 * hump(13.0, 3.0),
            0.4 + hump(2.5, 3.0),
            0.4 + hump(7.5, 3.0),
            0.4 + hump(10.5, 3.0),
            0.4 + hump(16.5, 3.0),
            0.4 + hump(22.5, 3.0),
            0.4 + hump(4.5, 3.0),
            0.4 + hump(3.0, 3.0) + 0.5 * hump(20.0, 2.5),
            # strong panels; two humps; narrow humps on little else
            0.2 + hump(20.0, 1.8) - 2.5 * hump(13.0, 3.0),
            0.6 + hump(8.0, 2.0) + hump(13.0, 2.0),
            0.6 + hump(11.0, 2.0) + hump(18.0, 2.0),
            0.6 + hump(1.0, 2.0) + hump(13.0, 2.5),
            0.6 + hump(4.0, 2.0) + hump(17.0, 2.0),
            0.1 + hump(19.5, 1.6),
            0.1 + hump(13.0, 2.5),
            0.1 + hump(1.5, 2.0),
            0.1 + hump(7.5, 1.8),
            0.1 + hump(10.5, 2.0),
            0.1 + hump(16.5, 2.0),
            0.1 + hump(22.5, 2.0),
            # a dip at noon, in the night, in the evening; early and late
            1.0 - 0.7 * hump(13.0, 4.0),
            1.0 - 0.7 * hump(3.0, 4.0),
            1.0 - 0.7 * hump(20.0, 3.0),
            0.5 + hump(7.0, 2.0) + hump(22.0, 2.0),
        ]
    )
