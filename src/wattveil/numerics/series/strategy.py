"""Strategy of a series: how the sums of T periods share one budget.

A customer's value over the periods of a public horizon is x = (x_1, ..., x_T), and g = B x with a
lower-triangular B is what enters the noisy sums: y = B X + noise, X being the sum of x over the
customers. The mean follows from L = B^-1 as X = L y. With Sigma a public guess of E[x x'], the
noise of X is L L' and the squared length of what a customer adds is tr(B Sigma B'). For the weights
W of the errors, the product

    tr(W (B'B)^-1) tr(B Sigma B')

is the variance per budget. Both factors depend on M = B'B alone, and the minimum is at

    M = Sigma^-1/2 (Sigma^1/2 W Sigma^1/2)^1/2 Sigma^-1/2

(by Cauchy-Schwarz; a matrix mechanism with a quadratic budget). Every positive-definite M has a
lower-triangular factor, so the periods can be released one after the other at no loss.

Nothing here is learnt from data: a wrong guess of Sigma costs accuracy and never privacy.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from wattveil import checks
from wattveil.arrays import Bools, Floats
from wattveil.errors import InvalidParameterError

MAX_HORIZON = 240
"""Twenty years of months."""
STEP = 2.0**-30
"""Grid of the entries of a strategy: its text has whole numbers and loses nothing."""
_HEAD = "wattveil series strategy 1"

_STAY, _SLOW, _SEASON, _FAST, _WHITE = 0.45, 0.18, 0.07, 0.13, 0.17
"""Parts of the variance of a customer's offset from the centre: for ever, over years, yearly
pattern, over months, and of one period alone (absence included). Read off summary figures of twelve
months of open data and of simulated homes, averaged over the coordinates of a daily curve."""
_SLOW_DECAY, _FAST_DECAY = 0.85, 0.2
"""What is left of the two after a year."""
_MEMBER_DECAY, _MEMBER_WHITE = 0.92, 0.02
"""Of a property (being a customer, having a car): what is left after a year, and flicker."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Strategy:
    """Public strategy of a series: error feedback L and allowances of each customer.

    Entries are multiples of 2^-30, so that text, hash and array agree to the last bit.
    """

    horizon: int
    feedback: Floats
    """(T, T): L = B^-1, lower triangular, with a positive diagonal."""
    increments: Floats
    """(T,): b_t >= 0, by which the allowance of each customer grows in period t. They sum to 1."""

    def __post_init__(self) -> None:
        """Check shapes, grid, triangle and allowances."""
        horizon = checks.integer("horizon", self.horizon, minimum=1, maximum=MAX_HORIZON)
        feedback, increments = self.feedback, self.increments
        if feedback.shape != (horizon, horizon) or increments.shape != (horizon,):
            rule = f"a matrix of {horizon} rows and columns, and {horizon} increments"
            raise InvalidParameterError("strategy", rule, (feedback.shape, increments.shape))
        numbers = np.concatenate([feedback.ravel(), increments])
        units = numbers / STEP
        if not np.isfinite(units).all() or (units != np.round(units)).any():
            raise InvalidParameterError("strategy", "multiples of 2^-30", "other numbers")
        if np.triu(feedback, 1).any() or (feedback.diagonal() <= 0.0).any():
            rule = "lower triangular with a diagonal above 0"
            raise InvalidParameterError("feedback", rule, feedback.diagonal().min())
        if (increments < 0.0).any() or increments[0] <= 0.0:
            rule = "at least 0, and above 0 in the first period"
            raise InvalidParameterError("increments", rule, increments.min())
        feedback.setflags(write=False)
        increments.setflags(write=False)

    @cached_property
    def allowances(self) -> Floats:
        """(T,): A_t = b_1 + ... + b_t, exact in floating point."""
        return np.cumsum(self.increments)

    @cached_property
    def innovations(self) -> Floats:
        """(T, T): B = L^-1, lower triangular."""
        inverse: Floats = solve_triangular(self.feedback, np.eye(self.horizon), lower=True)
        return inverse

    @cached_property
    def text(self) -> str:
        """Canonical text, in whole multiples of 2^-30: increments, then the rows of L."""
        rows = [self.increments, *(row[: t + 1] for t, row in enumerate(self.feedback))]
        lines = (" ".join(str(int(value / STEP)) for value in row) for row in rows)
        return "\n".join([_HEAD, f"horizon {self.horizon}", *lines]) + "\n"

    @property
    def sha256(self) -> str:
        """Hash of the canonical text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @classmethod
    def from_text(cls, text: str) -> "Strategy":
        """Read a strategy from exactly its canonical text."""
        try:
            head, line, *rows = text.removesuffix("\n").split("\n")
            horizon = int(line.removeprefix("horizon "))
            values = [np.array([int(word) for word in row.split(" ")]) * STEP for row in rows]
            lengths = [horizon, *range(1, horizon + 1)]
            readable = head == _HEAD and [row.size for row in values] == lengths
        except (ValueError, OverflowError):
            readable = False
            values, horizon = [], 0
        if readable:
            feedback = np.zeros((horizon, horizon))
            for t, row in enumerate(values[1:]):
                feedback[t, : t + 1] = row
            found = cls(horizon=horizon, feedback=feedback, increments=values[0])
            if found.text == text:
                return found
        raise InvalidParameterError("strategy", "the canonical text of a strategy", text[:60])


def design_strategy(
    *,
    horizon: int,
    periods_per_year: int,
    slope_weight: float = 5.0,
) -> Strategy:
    """Return the strategy for sums of load around a public centre, in units of the radius.

    A customer whose offset has a root-mean-square norm of one radius uses its allowance by
    expectation, period by period: b_t = (B Sigma B')_tt.

    Parameters
    ----------
    horizon
        Number of periods T.
    periods_per_year
        12 for months, 4 for quarters, 1 for years.
    slope_weight
        lambda of W = I + lambda u u' / |u|^2: the accuracy of the slope u relative to that of the
        levels. It has no effect on a horizon below two years, which has no trend.
    """
    covariance = offset_covariance(horizon=horizon, periods_per_year=periods_per_year)
    weights = _error_weights(horizon, periods_per_year, slope_weight)
    innovations = _min_product(covariance, weights)
    used = np.einsum("ts,su,tu->t", innovations, covariance, innovations)
    return _on_grid(innovations, used)


def design_membership_strategy(
    *, horizon: int, periods_per_year: int, slope_weight: float = 5.0
) -> Strategy:
    """Return the strategy for a property z in {0, 1} that a customer has for one interval.

    The allowance of period t is the maximum over all intervals of the squared length that the
    interval has added by then, so a customer with one interval is never clipped.
    """
    years = _lags(horizon) / periods_per_year
    covariance = _MEMBER_DECAY**years + _MEMBER_WHITE * np.eye(horizon)
    weights = _error_weights(horizon, periods_per_year, slope_weight)
    innovations = _min_product(covariance, weights)
    begun = np.cumsum(innovations[:, ::-1], axis=1)[:, ::-1]  # B 1 over the periods from a on
    begun = np.pad(begun, ((0, 0), (0, 1)))
    worst = np.zeros(horizon)
    for first in range(horizon):
        added = np.square(begun[:, first, None] - begun[:, first + 1 :])  # intervals [a, b)
        worst = np.maximum(worst, np.cumsum(added, axis=0).max(axis=1))
    return _on_grid(innovations, np.diff(worst, prepend=0.0))


def offset_covariance(*, horizon: int, periods_per_year: int) -> Floats:
    """Return Sigma (T, T), the public guess of a customer's covariance over periods, variance 1.

    Level, slow change, season, quick change and noise::

        Sigma_ts = .45 + .18 .85^y + .07 cos(2 pi y) + .13 .2^y + .17 [t = s],  y = |t - s| in years
    """
    checks.integer("horizon", horizon, minimum=1, maximum=MAX_HORIZON)
    checks.integer("periods_per_year", periods_per_year, minimum=1, maximum=366)
    years = _lags(horizon) / periods_per_year
    covariance: Floats = (
        _STAY
        + _SLOW * _SLOW_DECAY**years
        + _SEASON * np.cos(2.0 * np.pi * years)
        + _FAST * _FAST_DECAY**years
        + _WHITE * np.eye(horizon)
    )
    return covariance


def slope_weights(*, horizon: int, periods_per_year: int, released: Bools | None = None) -> Floats:
    """Return u with u'm the change per year of m, by least squares over the released periods.

    From two years on, each season has a level of its own; below, only the line is fitted.
    """
    period = np.arange(horizon)
    if released is not None:
        period = period[released]
    columns = [np.ones(period.size), period / periods_per_year]
    if has_trend(horizon=horizon, periods_per_year=periods_per_year):
        season = period % periods_per_year
        columns += [(season == one).astype(np.float64) for one in range(1, periods_per_year)]
    weights: Floats = np.linalg.pinv(np.array(columns).T)[1]
    return weights


def has_trend(*, horizon: int, periods_per_year: int) -> bool:
    """Return whether a trend is estimated: below two years it may be season."""
    return horizon >= 2 * periods_per_year


def _lags(horizon: int) -> Floats:
    period = np.arange(horizon, dtype=np.float64)
    return np.abs(period[:, None] - period[None])


def _error_weights(horizon: int, periods_per_year: int, slope_weight: float) -> Floats:
    """Return W = I + lambda u u' / |u|^2."""
    weight = checks.non_negative("slope_weight", slope_weight)
    weights = np.eye(horizon)
    if weight > 0.0 and has_trend(horizon=horizon, periods_per_year=periods_per_year):
        slope = slope_weights(horizon=horizon, periods_per_year=periods_per_year)
        weights += weight * np.outer(slope, slope) / (slope @ slope)
    return weights


def _min_product(covariance: Floats, weights: Floats) -> Floats:
    """Return the lower-triangular B of least tr(W (B'B)^-1) tr(B Sigma B')."""
    root = _square_root(covariance)
    inverse = np.linalg.inv(root)
    product = inverse @ _square_root(root @ weights @ root) @ inverse  # M = B'B
    product = 0.5 * (product + product.T)
    # Cholesky factors as C C'; of the reversed matrix it gives M = B'B with B lower triangular.
    return np.asarray(np.linalg.cholesky(product[::-1, ::-1])[::-1, ::-1].T, dtype=np.float64)


def _square_root(matrix: Floats) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    root: Floats = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root


def _on_grid(innovations: Floats, used: Floats) -> Strategy:
    """Return the strategy with allowances of sum 1, rounded to the grid."""
    horizon = len(used)
    total = used.sum()
    feedback = solve_triangular(innovations, np.eye(horizon), lower=True) * np.sqrt(total)
    feedback = np.tril(np.round(feedback / STEP) * STEP)
    increments = np.round(np.maximum(used, 0.0) / total / STEP) * STEP
    increments[0] += 1.0 - increments.sum()  # rounding only: the allowances end at 1 exactly
    return Strategy(horizon=horizon, feedback=feedback, increments=increments)
