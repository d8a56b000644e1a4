"""Figures of customers over many days by which networks are sized: common days, peaks, ramps.

Load is (customers, slots of consecutive days) in kW; NaN is missing. A figure of all customers is
one number, a figure of a customer an array. PRIVATE if the customers are real.
"""

import numpy as np

from wattveil.arrays import Floats, Ints
from wattveil.numerics.measures.fidelity_measures import kolmogorov_smirnov

FLAT = 0.05
"""A step is flat if it is smaller than this share of the customer's mean load."""
_HIGH = 0.95
_LAGS_HOURS = (1, 24, 168)


def coincident_peak(load_kw: Floats) -> float:
    """Return the largest mean load over customers, ``max_t mean_i x_i,t``, in kW a customer."""
    return float(np.nanmax(np.nanmean(load_kw, axis=0)))


def daily_variation(load_kw: Floats, day_groups: Ints) -> float:
    """Return the coefficient of variation of the daily energy of all customers together.

    Energies are divided by the mean of the days of their group (seasons, weekdays and weekends).
    """
    energy = np.nanmean(_daily(load_kw, day_groups.size), axis=0)
    for group in np.unique(day_groups):
        own = day_groups == group
        energy[own] /= np.nanmean(energy[own])
    return float(np.nanstd(energy))


def daily_correlation(load_kw: Floats, day_groups: Ints) -> float:
    """Return the mean correlation of the daily energies of two customers, within groups of days."""
    daily = _daily(load_kw, day_groups.size)
    for group in np.unique(day_groups):
        own = day_groups == group
        daily[:, own] -= np.nanmean(daily[:, own], axis=1, keepdims=True)
    scores = np.nan_to_num(daily / np.maximum(np.nanstd(daily, axis=1, keepdims=True), 1e-12))
    # sum_(i != j) z_i z_j = (sum_i z_i)^2 - sum_i z_i^2
    together = np.square(scores.sum(axis=0)).sum() - np.square(scores).sum()
    pairs = len(scores) * (len(scores) - 1) * day_groups.size
    return float(together / max(pairs, 1))


def high_peak(load_kw: Floats) -> float:
    """Return the 95 % quantile over customers of their largest load, in kW."""
    return float(np.quantile(np.nanmax(load_kw, axis=1), _HIGH))


def median_ramp(load_kw: Floats) -> float:
    """Return the median step from one slot to the next, of all customers, in kW."""
    return float(np.nanmedian(np.abs(np.diff(load_kw, axis=1))))


def flat_share(load_kw: Floats) -> float:
    """Return the share of steps that are flat."""
    steps = np.abs(np.diff(load_kw, axis=1)) / np.abs(np.nanmean(load_kw, axis=1, keepdims=True))
    return float((steps[np.isfinite(steps)] < FLAT).mean())


def lag_correlation(load_kw: Floats, lag: int) -> Floats:
    """Return each customer's correlation of slots so far apart, where both are known."""
    both = np.isfinite(load_kw[:, :-lag]) & np.isfinite(load_kw[:, lag:])
    one = np.where(both, load_kw[:, :-lag], np.nan)
    other = np.where(both, load_kw[:, lag:], np.nan)
    one = one - np.nanmean(one, axis=1, keepdims=True)
    other = other - np.nanmean(other, axis=1, keepdims=True)
    scale = np.sqrt(np.nanmean(one**2, axis=1) * np.nanmean(other**2, axis=1))
    return np.asarray(np.nanmean(one * other, axis=1) / np.maximum(scale, 1e-12))


def year_ratios(real: Floats, other: Floats, *, day_groups: Ints) -> dict[str, float]:
    """Return each figure of all customers, other over real."""
    measures = {
        "coincident peak": coincident_peak,
        "daily energy, variation": lambda rows: daily_variation(rows, day_groups),
        "daily energy, correlation": lambda rows: daily_correlation(rows, day_groups),
        "95 % peak": high_peak,
        "median ramp": median_ramp,
        "flat hours": flat_share,
    }
    return {name: measure(other) / measure(real) for name, measure in measures.items()}


def year_distances(real: Floats, other: Floats, *, slots_per_hour: int = 1) -> dict[str, float]:
    """Return the Kolmogorov-Smirnov distance of each figure of a customer."""

    def apart(one: Floats, another: Floats) -> float:
        known = [np.sort(values[np.isfinite(values)]) for values in (one, another)]
        return kolmogorov_smirnov(*known)

    found = {"annual energy": apart(np.nanmean(real, axis=1), np.nanmean(other, axis=1))}
    for hours in _LAGS_HOURS:
        lag = hours * slots_per_hour
        found[f"autocorrelation {hours} h"] = apart(
            lag_correlation(real, lag), lag_correlation(other, lag)
        )
    return found


def _daily(load_kw: Floats, n_days: int) -> Floats:
    """Return the mean load of each customer and day, NaN where a slot is missing."""
    return np.asarray(load_kw.reshape(len(load_kw), n_days, -1).mean(axis=2))
