"""Simulated customers for the benchmarks of the global tier, in kW, one row per customer.

Two families. `six_kinds` has six described daily shapes with sizes, shifts and noise. In
`random_kinds` shapes, sizes and noise are themselves drawn, so that a method cannot be fitted to
them by hand. The same seed gives the same customers in every version.
"""

import numpy as np
from numpy.typing import NDArray

from wattveil.arrays import Floats

HOURS = np.arange(24)
SHARES = np.array([0.30, 0.22, 0.12, 0.14, 0.12, 0.10])
MEDIAN_KW = np.array([1.0, 1.3, 1.6, 1.5, 0.7, 2.2])
HOME_LOG_STDS = np.array([0.45, 0.45, 0.45, 0.40, 0.5, 0.5])
MIXED_LOG_STDS = np.array([0.50, 0.50, 0.50, 0.45, 0.6, 0.8])


def six_kinds(n_customers: int, seed: int, *, mixed: bool = False) -> Floats:
    """Return homes of six segments; ``mixed`` widens the distribution of sizes."""
    generator = np.random.default_rng(seed)
    log_stds = MIXED_LOG_STDS if mixed else HOME_LOG_STDS
    kinds = generator.choice(SHARES.size, n_customers, p=SHARES)
    log_sizes = np.log(MEDIAN_KW)[kinds] + log_stds[kinds] * generator.standard_normal(n_customers)
    shapes = _shifted(_six_shapes(), kinds, generator.normal(0.0, 0.7, n_customers))
    return _noisy(shapes, np.exp(log_sizes), correlation=0.75, log_std=0.35, generator=generator)


def random_kinds(n_customers: int, seed: int) -> Floats:
    """Return homes of four to ten segments with random smooth shapes, one segment with panels."""
    generator = np.random.default_rng(seed + 1000)
    n_kinds = int(generator.integers(4, 11))
    smoothness = generator.uniform(0.5, 1.1)
    angles = 2.0 * np.pi * (HOURS[:, None] - HOURS[None]) / 24.0
    covariance = np.exp(-2.0 * np.sin(angles / 2.0) ** 2 / smoothness**2)
    factor = np.linalg.cholesky(covariance + 1e-6 * np.eye(24))
    shapes = np.log1p(np.exp(1.6 * (factor @ generator.standard_normal((24, n_kinds))).T))
    shapes /= shapes.mean(axis=1, keepdims=True)
    with_panels = generator.integers(n_kinds)
    shapes[with_panels] -= generator.uniform(1.0, 3.0) * _hump(12.5, 2.5)
    kinds = generator.choice(n_kinds, n_customers, p=generator.dirichlet(np.full(n_kinds, 3.0)))
    log_medians = generator.normal(0.0, 0.4, n_kinds)
    log_stds = generator.uniform(0.35, 0.6, n_kinds)
    log_sizes = log_medians[kinds] + log_stds[kinds] * generator.standard_normal(n_customers)
    sizes = np.exp(log_sizes) * generator.uniform(0.5, 2.0)
    shapes = _shifted(shapes, kinds, generator.normal(0.0, 0.8, n_customers))
    correlation, log_std = generator.uniform(0.5, 0.9), generator.uniform(0.25, 0.6)
    return _noisy(shapes, sizes, correlation=correlation, log_std=log_std, generator=generator)


def one_kind(n_customers: int, seed: int, *, kind: int = 0) -> Floats:
    """Return a ball around one of the six shapes: customers without clusters."""
    generator = np.random.default_rng(seed)
    shape = _six_shapes()[kind]
    log_std = 0.15 * np.sqrt(np.mean(np.square(shape)))
    return shape + log_std * generator.standard_normal((n_customers, shape.size))


def normalised(rows: Floats) -> Floats:
    """Return the rows at unit norm."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Floats = rows / np.maximum(lengths, 1e-12)
    return unit


def resampled(rows: Floats, n_slots: int) -> Floats:
    """Return the rows with ``n_slots`` slots per day, interpolated periodically."""
    slots = np.arange(n_slots) * rows.shape[1] / n_slots
    before = np.floor(slots).astype(np.int64)
    part = slots - before
    after = (before + 1) % rows.shape[1]
    return np.ascontiguousarray((1.0 - part) * rows[:, before] + part * rows[:, after])


def _six_shapes() -> Floats:
    return np.stack(
        [
            0.35 + 0.55 * _hump(7.5, 1.6) + 1.00 * _hump(19.5, 2.4),  # morning and evening
            0.45 + 0.15 * _hump(8.0, 2.0) + 1.30 * _hump(20.5, 2.0),  # evening
            0.40 + 1.20 * _hump(2.0, 3.0) + 0.35 * _hump(19.0, 2.5),  # night heating or car
            0.50 + 0.40 * _hump(7.0, 1.6) + 1.10 * _hump(20.0, 2.2) - 1.60 * _hump(12.8, 2.7),  # PV
            0.80 + 0.10 * _hump(14.0, 5.0),  # flat
            0.30 + 1.20 * _hump(13.0, 3.8),  # business
        ]
    )


def _hump(hour: float, width: float) -> Floats:
    apart = np.minimum(np.abs(HOURS - hour), 24.0 - np.abs(HOURS - hour))
    return np.exp(-0.5 * (apart / width) ** 2)


def _shifted(shapes: Floats, kinds: NDArray[np.int64], hours: Floats) -> Floats:
    """Return the shape of each customer, later by some hours."""
    whole = np.floor(hours).astype(np.int64)
    part = (hours - whole)[:, None]
    slots = (HOURS[None] - whole[:, None]) % 24
    of_customer = kinds[:, None]
    shifted: Floats = (1.0 - part) * shapes[of_customer, slots]
    shifted += part * shapes[of_customer, (slots - 1) % 24]
    return shifted


def _noisy(
    shapes: Floats,
    sizes: Floats,
    *,
    correlation: float,
    log_std: float,
    generator: np.random.Generator,
) -> Floats:
    """Return the shapes at their sizes with log-normal noise, consumption and feed-in apart."""
    consumption = np.exp(
        log_std * _autoregressive(shapes.shape, correlation, generator) - log_std**2 / 2.0
    )
    feed_in = np.exp(0.2 * _autoregressive(shapes.shape, 0.9, generator))
    load = np.maximum(shapes, 0.0) * consumption + np.minimum(shapes, 0.0) * feed_in
    load *= sizes[:, None]
    return load


def _autoregressive(
    shape: tuple[int, ...], correlation: float, generator: np.random.Generator
) -> Floats:
    """Return rows of standard normals in which neighbouring hours are correlated."""
    fresh = generator.standard_normal(shape)
    for hour in range(1, shape[1]):
        fresh[:, hour] *= np.sqrt(1.0 - correlation**2)
        fresh[:, hour] += correlation * fresh[:, hour - 1]
    return fresh
