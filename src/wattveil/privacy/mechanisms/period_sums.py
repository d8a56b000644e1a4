"""Sums over customers, period after period, with one allowance per customer for all periods.

In period t a row function returns the cell and the features u of each customer. The contribution of
a customer is computed from u, from its own contributions g_s to earlier periods and from the
public matrix L of the series, and is clipped so that the squared lengths of all its contributions
so far add up to at most the public allowance A_t:

    w   = (u - sum_{s<t} L_ts g_s) / L_tt      (u = 0 where the customer is absent)
    g_t = w clipped to |g_t|^2 <= A_t - sum_{s<t} |g_s|^2, in whole steps, checked in integers
    y_t = sum over customers of g_t, plus discrete Gaussian noise of variance A_T / (2 rho)

What clipping leaves out of one period enters a later one (error feedback). The contributions and
their squared lengths are private state: an engine keeps it from one period to the next as
`CustomerState` and nothing of it is released. A customer that changes its cell leaves one and joins
another: it has a record for each cell it was in, and one allowance for all of them.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from wattveil import checks
from wattveil.arrays import Floats, Ints, Names
from wattveil.compiled import compiled
from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.privacy import accounting, noise
from wattveil.privacy.guarantee import Budget, Neighbours, Spend
from wattveil.privacy.mechanisms.contributions import NO_DATA, STEP, UNIT
from wattveil.privacy.mechanisms.gaussian import MIN_SCALE, Noisy, NoisyTotals
from wattveil.privacy.private_data import BoundRowFunction, PrivateValue, Released, exactly

MAX_PERIODS: Final = 240
"""Twenty years of months."""

MECHANISM: Final = "series_sums"

Steps = NDArray[np.int32]
"""Contributions in whole steps of 2^-25, at most 2^25 each."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PeriodQuery:
    """A noisy sum of feature vectors for each cell, in one period of a series.

    Parameters
    ----------
    tag : str
        Name of the sums, the same in every period.
    rho_units : int
        Cost of all periods together.
    allowances : whole numbers
        A_1 < ... < A_T = 2^50: squared steps that a customer may have contributed by each period.
    period : int
        t, counted from 0.
    feedback : (periods released before + 1,)
        Row t of L: one entry for each period that was released, and L_tt.
    n_cells, n_features : int
        Shape of the sums.
    """

    tag: str
    rho_units: int
    allowances: tuple[int, ...]
    period: int
    feedback: Floats
    n_cells: int
    n_features: int

    def __post_init__(self) -> None:
        """Check the sizes, that allowances increase and that they end at 2^50."""
        checks.integer("rho_units", self.rho_units, minimum=1)
        for name in ("n_cells", "n_features"):
            size = checks.integer(name, getattr(self, name), minimum=1, maximum=2**24)
            object.__setattr__(self, name, size)
        own = tuple(checks.integer("allowances", one, minimum=1) for one in self.allowances)
        rising = all(one < other for one, other in pairwise(own))
        if not (0 < len(own) <= MAX_PERIODS and own[-1] == UNIT**2 and rising):
            rule = f"1 to {MAX_PERIODS} increasing whole numbers that end at 2^50"
            raise InvalidParameterError("allowances", rule, own[-3:])
        checks.integer("period", self.period, minimum=0, maximum=len(own) - 1)
        feedback = np.array(self.feedback, dtype=np.float64)
        is_row = feedback.ndim == 1 and 1 <= feedback.size <= self.period + 1
        if not is_row or not np.isfinite(feedback).all() or feedback[-1] == 0.0:
            rule = "finite numbers, at most one per period, the last not 0"
            raise InvalidParameterError("feedback", rule, feedback.shape)
        feedback.setflags(write=False)
        object.__setattr__(self, "allowances", own)
        object.__setattr__(self, "feedback", feedback)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of what is released."""
        return (self.n_cells, self.n_features)

    def accrued_units(self) -> int:
        """Return rho A_t / A_T in units, rounded up: the cost of all periods up to this one."""
        return -(-self.rho_units * self.allowances[self.period] // UNIT**2)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CustomerState:
    """What some customers have contributed to the periods that were released: private.

    A customer has one entry in ``names`` and ``used`` and any number of records, one for each cell
    it was in. Customers are sorted by name, records by customer.
    """

    names: Names
    used: Ints
    """Squared steps that the customer has contributed in all periods."""
    owners: Ints
    """For each record, the place of its customer."""
    cells: Ints
    history: Steps
    """(records, periods released, features)."""

    @classmethod
    def empty(cls, *, periods: int, n_features: int) -> "CustomerState":
        """Return the state of no customer."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(
            names=np.zeros(0, dtype="S32"),
            used=nothing,
            owners=nothing,
            cells=nothing,
            history=np.zeros((0, periods, n_features), dtype=np.int32),
        )

    def check(self, query: PeriodQuery) -> None:
        """Refuse a state that no earlier period can have left; an error is for the data holder."""
        n_records, n_names = len(self.cells), len(self.names)
        shapes = [array.shape for array in (self.used, self.owners, self.cells, self.history)]
        periods = query.feedback.size - 1
        due = [(n_names,), (n_records,), (n_records,), (n_records, periods, query.n_features)]
        kinds = [array.dtype for array in (self.used, self.owners, self.cells, self.history)]
        if shapes != due or kinds != [np.int64, np.int64, np.int64, np.int32]:
            raise InvalidDataError("a state of the periods released so far", [])
        squares = np.zeros(n_names, dtype=np.int64)
        whole = n_records == 0 or (
            (np.diff(self.owners) >= 0).all()
            and self.owners[0] >= 0
            and self.owners[-1] < n_names
            and self.cells.min() >= 0
            and self.cells.max() < query.n_cells
        )
        if whole:
            _add_squares(np.ascontiguousarray(self.history), self.owners, squares)
        if not (whole and (squares <= self.used).all() and (self.used <= UNIT**2).all()):
            raise InvalidDataError("odometers that cover every contribution of a customer", [])


class PeriodRows(PrivateValue, ABC):
    """Private rows of one period beside the state of all customers of the series."""

    __slots__ = ()

    @abstractmethod
    def advance(self, name: str, work: "PeriodSums") -> None:
        """Call ``work`` on blocks that contain each customer once, and keep the states it returns.

        ``name`` is that of the state: each kind of sums has its own. A block is a `CustomerState`,
        the names of the customers with a row in this period, and the columns of these rows. Names
        increase from one block to the next.
        """


@final
class PeriodSums:
    """The contributions of one period: called by an engine on blocks of customers, in order.

    Formal guarantee
    ----------------
    Whatever the row function returns, each customer changes the integers of the period by one
    vector g with |g|^2 <= A_t - U, where U is the squared steps it has contributed before; g and
    the new state of a customer are functions of its own rows, its own state and public or released
    numbers. Proof: docs/proofs/series.md.
    """

    def __init__(self, query: PeriodQuery, work: BoundRowFunction[Any]) -> None:
        self._query = exactly(query, PeriodQuery)
        self._work = exactly(work, BoundRowFunction)
        self._totals = np.zeros(query.shape, dtype=np.int64)
        self._last = b""

    def empty(self) -> CustomerState:
        """Return the state of no customer, before this period."""
        query = self._query
        return CustomerState.empty(periods=query.feedback.size - 1, n_features=query.n_features)

    def __call__(self, state: CustomerState, names: Names, *columns: Any) -> CustomerState:  # noqa: ANN401 - arrays of any type
        """Add the contributions of a block to the totals; return the block's new state."""
        query = self._query
        exactly(state, CustomerState).check(query)
        for own in (state.names, names):
            if (own[:1] <= self._last).any() or (own[1:] <= own[:-1]).any():
                raise InvalidDataError("each customer once, sorted by name", [])
        cells, features = self._work(*columns)
        if cells.dtype != np.int64 or cells.shape != names.shape:
            raise TypeError("cells are a vector of int64, one per customer")
        if features.dtype != np.float64 or features.shape != (names.size, query.n_features):
            raise TypeError("features are a matrix of float64, as wide as the query")
        if ((cells < NO_DATA) | (cells >= query.n_cells)).any():
            raise InvalidDataError(f"cells between 0 and {query.n_cells - 1}, or -1", [])
        joined, rows = _join(state, names, cells)
        given = np.zeros((len(rows), query.n_features), dtype=np.int32)
        used = joined.used.copy()
        wanted = np.empty(given.shape)
        whole = np.ascontiguousarray(features)
        _fill_wanted(rows, whole, joined.history, query.feedback, wanted)
        allowance = query.allowances[query.period]
        _contribute(joined.owners, wanted.ravel(), allowance, used, given.ravel())
        _add_given(given, joined.cells, self._totals)
        if joined.names.size:
            self._last = bytes(joined.names[-1])
        history = np.concatenate([joined.history, given[:, None]], axis=1)
        return replace(joined, used=used, history=history)

    def total(self) -> Ints:
        """Return the integers, once: for the mechanism that adds the noise."""
        totals = self._totals
        del self._totals  # a second use would release them twice
        return totals


def release_period(
    rows: PeriodRows, work: BoundRowFunction[Any], query: PeriodQuery, budget: Budget
) -> Released[NoisyTotals]:
    """Release the sums of one period of a series.

    ``work`` returns the cell of each customer (`NO_DATA` for one who is absent) and its features.
    The engine keeps the new state.

    Formal guarantee
    ----------------
    The caller ensures that ``budget`` has the charges of all earlier periods, that the engine hands
    over the state that the last released period left, that no other draw from it is seen, and that
    the parameters of ``work`` and the query are public or were released. Then the sums of all
    periods up to this one satisfy the exact Gaussian curve of rho A_t / A_T, up to the charged eta,
    for zero-out of one customer in all periods, whatever the rows contain.
    Proof: docs/proofs/series.md.
    """
    sums = PeriodSums(query, work)
    scale, spend = _charge_period(query, budget)
    if not isinstance(rows, PeriodRows):
        raise TypeError("a series reads the rows of an engine only")
    rows.advance(query.tag, sums)  # only now is a row read
    steps = noise.add_discrete_gaussian(sums.total().ravel(), scale=scale)
    noisy = NoisyTotals(steps=steps, noise_scale=scale, shape=query.shape)
    return Released(value=noisy, spends=(spend,), simulated=noise.is_simulated())


@final
class PrivatePeriod(PrivateValue):
    """Private rows of one period of a series, and the budget to which its sums are charged.

    Formal guarantee
    ----------------
    The caller ensures what `release_period` requires, and that what is passed to `release` is
    public or was released before. Then everything that is returned, in this period and those
    before, satisfies the guarantee of the budget. Proof: docs/proofs/series.md.
    """

    __slots__ = ("_budget", "_rows")

    def __init__(self, rows: PeriodRows, budget: Budget) -> None:
        self._rows = rows
        self._budget = exactly(budget, Budget)

    def release(self, work: BoundRowFunction[Any], query: PeriodQuery) -> Noisy:
        """Charge, then release the noisy sums of the period: see `release_period`."""
        released = release_period(self._rows, work, query, self._budget).publish()
        return released.value, released.std


def _charge_period(query: PeriodQuery, budget: Budget) -> tuple[float, Spend]:
    """Charge what accrues with this period beyond the charges of earlier ones."""
    if exactly(budget, Budget).guarantee.neighbours is not Neighbours.ZERO_OUT:
        raise InvalidParameterError("neighbours", "zero-out for a series", "replace-one")
    sigma = accounting.noise_scale(squared_sensitivity=UNIT**2, rho_units=query.rho_units)
    noise.check_scale(sigma)
    if sigma < MIN_SCALE:
        rule = f"small enough for noise of {MIN_SCALE:g} grid steps"
        raise InvalidParameterError("rho_units", rule, query.rho_units)
    own = [one for one in budget.spends if (one.mechanism, one.tag) == (MECHANISM, query.tag)]
    units = query.accrued_units() - sum(one.rho_units for one in own)
    if units < 1 or len(own) != query.feedback.size - 1:
        rule = "after the periods that were released before, each once"
        raise InvalidParameterError("period", rule, query.period)
    if any(one.drawn["scale"] != sigma for one in own):  # one rho for all periods of a tag
        raise InvalidParameterError("rho_units", "that of the earlier periods", query.rho_units)
    numbers = query.n_cells * query.n_features
    eta = accounting.discretisation_eta(numbers=numbers, sigma=sigma, s=UNIT / sigma)
    drawn = {"numbers": numbers, "squared": UNIT**2, "scale": sigma, "step": STEP}
    spend = Spend(tag=query.tag, mechanism=MECHANISM, rho_units=units, eta=eta, drawn=drawn)
    return sigma, budget.charge(spend)


def _join(state: CustomerState, names: Names, cells: Ints) -> tuple[CustomerState, Ints]:
    """Return the state with a record for each customer's cell, and each record's row or -1."""
    everyone = np.union1d(state.names, names)
    before, now = np.searchsorted(everyone, state.names), np.searchsorted(everyone, names)
    used = np.zeros(everyone.size, dtype=np.int64)
    used[before] = state.used
    cell_now = np.full(everyone.size, NO_DATA)
    cell_now[now] = cells
    row_now = np.zeros(everyone.size, dtype=np.int64)
    row_now[now] = np.arange(names.size)
    owners = before[state.owners]
    stays = state.cells == cell_now[owners]
    joins = cell_now != NO_DATA
    joins[owners[stays]] = False
    new = np.flatnonzero(joins)
    rows = np.concatenate([np.where(stays, row_now[owners], NO_DATA), row_now[new]])
    owners = np.concatenate([owners, new])
    order = np.argsort(owners, kind="stable")
    zeros = np.zeros((new.size, *state.history.shape[1:]), dtype=np.int32)
    joined = CustomerState(
        names=everyone,
        used=used,
        owners=owners[order],
        cells=np.concatenate([state.cells, cell_now[new]])[order],
        history=np.concatenate([state.history, zeros])[order],
    )
    return joined, rows[order]


@compiled
def _add_squares(history: Steps, owners: Ints, squares: Ints) -> None:
    """Add the squared steps of each record to those of its customer."""
    for r in range(history.shape[0]):
        for s in range(history.shape[1]):
            for j in range(history.shape[2]):
                value = np.int64(history[r, s, j])
                squares[owners[r]] += value * value


@compiled
def _add_given(given: Steps, cells: Ints, totals: Ints) -> None:
    """Add the contribution of each record to the totals of its cell."""
    for r in range(given.shape[0]):
        for j in range(given.shape[1]):
            totals[cells[r], j] += given[r, j]


@compiled
def _fill_wanted(
    rows: Ints, features: Floats, history: Steps, feedback: Floats, wanted: Floats
) -> None:
    """Fill w = (u - sum_s L_ts g_s) / L_tt of each record, in steps; u = 0 if it has no row.

    Features that are not all finite are as good as no row.
    """
    n_records, n_before, d = history.shape
    for r in range(n_records):
        here = rows[r] >= 0
        for j in range(d):
            here = here and math.isfinite(features[rows[r], j])
        for j in range(d):
            known = 0.0
            for s in range(n_before):
                known += feedback[s] * history[r, s, j]
            own = features[rows[r], j] / STEP if here else 0.0
            wanted[r, j] = (own - known) / feedback[n_before]


@compiled
def _contribute(owners: Ints, wanted: Floats, allowance: int, used: Ints, given: Steps) -> None:
    """Fill the contributions of each customer and add their squared steps to its odometer.

    ``wanted`` and ``given`` hold the numbers of one record after the other.
    """
    d = wanted.size // max(owners.size, 1)
    last = 0
    while last < owners.size:
        first = last
        while last < owners.size and owners[last] == owners[first]:
            last += 1
        room = max(allowance - used[owners[first]], 0)
        own = slice(first * d, last * d)
        used[owners[first]] += _clip(wanted[own], room, given[own])


@compiled
def _clip(wanted: Floats, room: int, given: Steps) -> int:
    """Fill whole steps of squared length at most ``room``, and return that squared length.

    The wanted numbers are scaled to min(|w|, sqrt(room)), rounded towards zero, and their squared
    length is checked in integers. Zeros, NaN and infinity leave zeros.
    """
    peak = 0.0
    for j in range(wanted.size):
        peak = max(peak, abs(wanted[j]))
    squared_length = 0.0
    for j in range(wanted.size):
        wanted[j] /= peak  # no overflow at 1e300
        squared_length += wanted[j] * wanted[j]
    if not squared_length >= 1.0:  # zeros or not finite; otherwise the largest entry is 1
        return 0
    length = math.sqrt(squared_length)
    scale = min(peak * length, math.sqrt(room)) / length
    squares = 0
    for j in range(wanted.size):
        given[j] = int(wanted[j] * scale)
        squares += int(given[j]) * int(given[j])
    while squares > room:  # outside by float rounding: shrink towards zero
        squares = 0
        for j in range(wanted.size):
            given[j] = int(given[j] * (1.0 - 2.0**-25))
            squares += int(given[j]) * int(given[j])
    return squares
