"""Distribution families fitted to the load of each slot and cluster, by BIC. PRIVATE.

Each family is fitted by maximum likelihood to the customers of a cluster in one slot, and compared
by its Bayesian information criterion (smaller is better)::

    BIC = p log n - 2 log L,    p parameters, n customers

A family that does not permit a value (a negative load for the log-normal) has an infinite BIC.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import digamma, gammaln, log_ndtr

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError

_MIN_CUSTOMERS = 20
"""Minimum number of customers of a cluster."""
_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_ASINH_SCALE = 0.7
"""Scale of "asinh-normal" relative to the RMS load of the cluster mean: the synthesis derives it
from a released centroid, so it is no parameter."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BicTable:
    """BIC by cluster, slot and family. PRIVATE: computed from exact rows, internal use only."""

    families: tuple[str, ...]
    bic: Floats
    """(clusters, slots, families); NaN for clusters that are too small or constant."""

    @property
    def best(self) -> dict[str, int]:
        """Number of slots in which each family is the best, over all clusters."""
        known = self.bic[np.isfinite(self.bic).any(axis=2)]
        wins = np.bincount(np.nanargmin(known, axis=1), minlength=len(self.families))
        return dict(zip(self.families, wins.tolist(), strict=True))

    @property
    def excess(self) -> dict[str, float]:
        """Median over slots and clusters of the BIC difference from the best family."""
        known = self.bic[np.isfinite(self.bic).any(axis=2)]
        beyond = known - known.min(axis=1, keepdims=True)
        return dict(zip(self.families, np.median(beyond, axis=0).tolist(), strict=True))

    def __str__(self) -> str:
        """Return the table as text, marked as private."""
        lines = ["PRIVATE: computed from exact rows, not for release"]
        for name, wins in self.best.items():
            lines.append(f"{name:14} best in {wins:4} slots, BIC + {self.excess[name]:.1f}")
        return "\n".join(lines)


def bic_table(
    load_kw: Floats, labels: NDArray[np.int64], *, n_clusters: int, alpha_kw: float = 0.0
) -> BicTable:
    """Return the BIC of every family in every slot and cluster. PRIVATE.

    Parameters
    ----------
    load_kw : (P, d)
        Load of the customers.
    labels : (P,)
        Cluster of each customer; other numbers than 0 to K - 1 are excluded.
    alpha_kw
        Added before a family of positive numbers is fitted: the paper's log(x + alpha).
    """
    rows = checks.numbers("load_kw", load_kw)
    n_slots = checks.columns("load_kw", rows)
    checks.non_negative("alpha_kw", alpha_kw)
    checks.integer("n_clusters", n_clusters, minimum=1)
    if np.shape(labels) != (len(rows),):
        raise InvalidParameterError("labels", "one for each row", f"{np.ndim(labels)} axes")
    bic = np.full((n_clusters, n_slots, len(FAMILIES)), np.nan)
    whole = np.isfinite(rows).all(axis=1)
    for k in range(n_clusters):
        own = rows[whole & (np.asarray(labels) == k)]
        if len(own) < _MIN_CUSTOMERS:
            continue
        scale = _ASINH_SCALE * math.sqrt(float(np.square(own.mean(axis=0)).mean()))
        for slot, x in enumerate(own.T):
            if np.ptp(x) > 0.0:
                bic[k, slot] = _bic_of_slot(x, alpha_kw=alpha_kw, scale=scale)
    return BicTable(families=tuple(FAMILIES), bic=bic)


def _bic_of_slot(x: Floats, *, alpha_kw: float, scale: float) -> list[float]:
    """Return the BIC of every family."""
    found = []
    for family, (parameters, log_likelihood) in FAMILIES.items():
        if family == "asinh-normal":  # the density of asinh(x / s) is that of x times sqrt(...)
            stretch = float(0.5 * np.log(np.square(x) + scale**2).sum())
            best = log_likelihood(np.arcsinh(x / scale)) - stretch
        elif family in _POSITIVE:
            best = log_likelihood(x + alpha_kw) if (x + alpha_kw > 0.0).all() else -math.inf
        else:
            best = log_likelihood(x)
        found.append(parameters * math.log(x.size) - 2.0 * best)
    return found


def log_likelihood_normal(x: Floats) -> float:
    """Return the largest log-likelihood: at the sample's own mean and variance."""
    return float(-x.size * (math.log(x.std()) + _HALF_LOG_TWO_PI + 0.5))


def log_likelihood_log_normal(x: Floats) -> float:
    """Return the maximum log-likelihood of a log-normal distribution."""
    logs = np.log(x)
    return log_likelihood_normal(logs) - float(logs.sum())


def log_likelihood_gamma(x: Floats) -> float:
    """Return the largest: log a - psi(a) = log mean x - mean log x gives the shape a."""
    mean_log = float(np.log(x).mean())
    gap = math.log(x.mean()) - mean_log
    shape = float(brentq(lambda a: math.log(a) - digamma(a) - gap, 1e-8, 1.0 / gap + 1.0))
    scale = float(x.mean()) / shape
    each = (shape - 1.0) * mean_log - shape - shape * math.log(scale) - float(gammaln(shape))
    return float(x.size * each)


def log_likelihood_weibull(x: Floats) -> float:
    """Return the largest: sum x^c log x / sum x^c - 1 / c = mean log x gives the shape c."""
    logs = np.log(x) - math.log(x.max())  # powers of numbers up to 1 do not overflow
    mean_log = float(logs.mean())

    def slope(shape: float) -> float:
        powers = np.exp(shape * logs)
        return float((powers * logs).sum() / powers.sum() - 1.0 / shape - mean_log)

    above = 1.0
    while slope(above) < 0.0:
        above *= 2.0
    shape = float(brentq(slope, 1e-8, above))
    scale_power = float(np.exp(shape * logs).mean())  # scale^c, in units of the largest value
    each = math.log(shape) - math.log(scale_power) + (shape - 1.0) * mean_log - 1.0
    return float(x.size * (each - math.log(x.max())))


def log_likelihood_student_t(x: Floats) -> float:
    """Return the largest over location, scale and degrees of freedom."""

    def loss(point: Floats, z: Floats) -> tuple[float, Floats]:
        location, log_scale, log_freedom = point
        scale, nu = math.exp(log_scale), math.exp(log_freedom)
        t = (z - location) / scale
        square = np.square(t) / nu
        half = 0.5 * (nu + 1.0)
        constant = gammaln(half) - gammaln(0.5 * nu) - 0.5 * math.log(nu * math.pi) - log_scale
        logs = np.log1p(square)
        weight = 2.0 * half / nu * t / (1.0 + square)
        by_nu = 0.5 * (digamma(half) - digamma(0.5 * nu) - 1.0 / nu - logs.mean())
        by_nu += half * (square / (1.0 + square)).mean() / nu
        slopes = [-weight.mean() / scale, 1.0 - (weight * t).mean(), -nu * by_nu]
        return float(half * logs.mean() - constant), np.array(slopes)

    bounds = [(-10.0, 10.0), (-12.0, 5.0), (math.log(0.3), math.log(1e4))]
    return _best_of_standardised(x, loss, [np.array([0.0, -0.2, 1.6])], bounds)


def log_likelihood_skew_normal(x: Floats) -> float:
    """Return the largest over location, scale and slant: 2 phi(t) Phi(slant t) / scale."""

    def loss(point: Floats, z: Floats) -> tuple[float, Floats]:
        location, log_scale, slant = point
        scale = math.exp(log_scale)
        t = (z - location) / scale
        below = log_ndtr(slant * t)
        mills = np.exp(-0.5 * np.square(slant * t) - _HALF_LOG_TWO_PI - below)
        pull = t - slant * mills  # minus the slope of the logarithm by t
        slopes = [-pull.mean() / scale, 1.0 - (pull * t).mean(), -(mills * t).mean()]
        value = 0.5 * np.square(t).mean() + _HALF_LOG_TWO_PI + log_scale - math.log(2.0)
        return float(value - below.mean()), np.array(slopes)

    bounds = [(-10.0, 10.0), (-12.0, 5.0), (-1e3, 1e3)]
    initial = [np.array([-side, 0.3, 3.0 * side]) for side in (1.0, -1.0)]
    # The limit of an infinite slant is a half-normal distribution from the outermost value.
    half = (math.sqrt(float(np.square(x - end).mean())) for end in (x.min(), x.max()))
    limits = (x.size * (math.log(2.0) - math.log(scale) - _HALF_LOG_TWO_PI - 0.5) for scale in half)
    return max(_best_of_standardised(x, loss, initial, bounds), *limits)


def _best_of_standardised(
    x: Floats,
    loss: Callable[[Floats, Floats], tuple[float, Floats]],
    initial: list[Floats],
    bounds: list[tuple[float, float]],
) -> float:
    """Return the largest log-likelihood over several initial points, on standardised data."""
    std = float(x.std())
    z = (x - float(np.median(x))) / std
    best = min(
        float(minimize(loss, start, (z,), jac=True, method="L-BFGS-B", bounds=bounds).fun)
        for start in initial
    )
    return -x.size * (best + math.log(std))


FAMILIES: Mapping[str, tuple[int, Callable[[Floats], float]]] = MappingProxyType(
    {
        "normal": (2, log_likelihood_normal),
        "log-normal": (2, log_likelihood_log_normal),
        "gamma": (2, log_likelihood_gamma),
        "Weibull": (2, log_likelihood_weibull),
        "skew-normal": (3, log_likelihood_skew_normal),
        "Student t": (3, log_likelihood_student_t),
        "asinh-normal": (2, log_likelihood_normal),
    }
)
"""Number of parameters and largest log-likelihood of each family."""
_POSITIVE = {"log-normal", "gamma", "Weibull"}
