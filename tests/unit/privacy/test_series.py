"""The mechanism of a series: odometers, error feedback, charges, refusals, hostile customers."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.noise_sources import Silent
from tests.series_periods import (
    KEY,
    Present,
    Series,
    even_allowances,
    expected_steps,
    period_rows,
    remembering,
)
from tests.single_queries import given_features
from wattveil.arrays import Ints
from wattveil.engines import series_rows
from wattveil.engines.local import LocalRows, value_column
from wattveil.engines.series_rows import without_records
from wattveil.errors import (
    BudgetExceededError,
    InvalidDataError,
    InvalidParameterError,
    UnknownCustomersWarning,
)
from wattveil.lab.audit.memory_state import MemoryState
from wattveil.privacy import noise
from wattveil.privacy.guarantee import Budget, Guarantee, Neighbours
from wattveil.privacy.mechanisms import period_sums as mechanism
from wattveil.privacy.mechanisms.contributions import NO_DATA, STEP, UNIT
from wattveil.privacy.mechanisms.period_sums import (
    CustomerState,
    PeriodQuery,
    PeriodSums,
    PrivatePeriod,
)
from wattveil.privacy.pseudonyms import customer_names

PERIODS = 8


@pytest.fixture
def series(make_guarantee: Callable[..., Guarantee]) -> Series:
    """Return a series of eight periods, two cells and two features."""
    budget = Budget(make_guarantee(epsilon=2.0, delta=1e-6))
    allowances, feedback = even_allowances(PERIODS), remembering(PERIODS)
    return Series(budget=budget, allowances=allowances, feedback=feedback, n_cells=2)


def silently(series: Series, period: int, present: Present) -> Ints:
    """Return the exact sums of a period, in steps."""
    with noise.simulate(Silent([])):
        return series.add(period, present).value.steps.reshape(2, 2)


HOSTILE: dict[str, Callable[[int], tuple[float, float] | None]] = {
    "burst in every period": lambda _: (1e300, -1e300),
    "burst at the end": lambda t: (1e9, 1e9) if t == PERIODS - 1 else (0.0, 0.0),
    "alternating": lambda t: (50.0, 0.0) if t % 2 else (-50.0, 0.0),
    "absent, then large": lambda t: None if t < 5 else (1e6, 0.0),
    "present every third period": lambda t: (30.0, 1.0) if t % 3 == 0 else None,
    "growing": lambda t: (0.01 * 4.0**t, 0.0),
    "not finite": lambda t: (float("nan"), 1.0) if t % 2 else (float("inf"), 1.0),
    "tiny": lambda _: (1e-310, 0.0),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_customer_exceeds_its_allowance_in_any_period(series: Series, name: str) -> None:
    """The squares of all contributions are at most A_t after every period, in exact integers."""
    for period in range(PERIODS):
        own = HOSTILE[name](period)
        cell = period % 2 if name == "burst in every period" else 0
        series.add(period, {} if own is None else {"q": (cell, own)})
        squares = sum(int((part**2).sum()) for part in series.given("q").values())
        assert squares == series.used("q") <= series.allowances[period]


@pytest.mark.parametrize(
    "name", ["burst in every period", "burst at the end", "alternating", "absent, then large"]
)
def test_the_bound_is_tight(series: Series, name: str) -> None:
    """A customer that wants more than it may uses all of its allowance."""
    for period in range(PERIODS):
        own = HOSTILE[name](period)
        series.add(period, {} if own is None else {"q": (0, own)})
    assert 0.999 < Fraction(series.used("q"), UNIT**2) <= 1


def test_contributions_follow_the_formula(series: Series) -> None:
    """Against exact fractions: error feedback, clipping to the allowance, rounding to steps."""
    generator = np.random.default_rng(4)
    before: list[list[int]] = []
    used = 0
    for period in range(PERIODS):
        own = generator.normal(0.0, 1.5, 2) if period != 3 else None
        series.add(period, {} if own is None else {"p": (1, own.tolist())})
        if own is None and not before:
            continue
        values = [Fraction(0)] * 2 if own is None else [Fraction(value) for value in own]
        row = [Fraction(value) for value in series.feedback[period]]
        wanted = [
            (values[j] - sum((row[s] * before[s][j] for s in range(period)), Fraction(0)) / UNIT)
            / row[period]
            for j in range(2)
        ]
        expected, room = expected_steps(wanted, allowance=series.allowances[period], used=used)
        given = series.given("p")[1][period].tolist()
        assert all(abs(one - other) < 2 for one, other in zip(given, expected, strict=True))
        used += sum(value**2 for value in given)
        assert sum(value**2 for value in given) <= room
        before.append(given)
    assert used == series.used("p")


def test_without_clipping_the_sums_give_the_features_back(series: Series) -> None:
    """L y is the sum of the features of all customers, joins and leaves included."""
    present: list[Present] = [
        {"a": (0, [0.1, 0.2]), "b": (1, [-0.1, 0.05])},
        {"a": (0, [0.12, 0.2])},
        {"a": (0, [0.11, 0.1]), "b": (1, [0.2, 0.0]), "c": (0, [0.05, 0.05])},
        {"a": (1, [0.1, 0.1]), "c": (0, [0.0, 0.0])},  # a moved to another cell
    ]
    sums = [silently(series, period, own) for period, own in enumerate(present)]
    for period, own in enumerate(present):
        row = series.feedback[period]
        found = sum(row[s] * sums[s] for s in range(period + 1)) / UNIT
        due = np.zeros((2, 2))
        for cell, features in own.values():
            due[cell] += features
        assert np.allclose(found, due, atol=1e-5)


def test_other_customers_do_not_notice(series: Series) -> None:
    """What others contribute is the same to the last step, whatever one customer does."""
    other = series.again()
    generator = np.random.default_rng(5)
    for period in range(PERIODS):
        rows = {
            f"c{i}": (i % 2, generator.normal(0, 0.7, 2).tolist())
            for i in range(30)
            if generator.random() < 0.8
        }
        silently(series, period, rows)
        silently(other, period, {"q": (period % 2, [1e9, -3.0]), **rows})
    for i in range(30):
        mine, theirs = series.given(f"c{i}"), other.given(f"c{i}")
        assert mine.keys() == theirs.keys()
        assert all((mine[cell] == theirs[cell]).all() for cell in mine)


def test_blocks_do_not_affect_a_contribution(
    series: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same sums in blocks of three customers as in one block."""
    other = series.again()
    generator = np.random.default_rng(6)
    for period in range(4):
        rows = {f"c{i}": (i % 2, generator.normal(0, 0.7, 2).tolist()) for i in range(9 + period)}
        one = silently(series, period, rows)
        with monkeypatch.context() as patched:
            patched.setattr(series_rows, "BLOCK_CUSTOMERS", 3)
            assert (silently(other, period, rows) == one).all()
    assert len(series.blocks) == 1
    assert len(other.blocks) > 3


def test_a_customer_that_returns_has_its_old_odometer(series: Series) -> None:
    """Neither absence nor erasure gives an allowance back."""
    series.add(0, {"q": (0, [1e9, 0.0])})
    series.add(1, {})
    spent = series.used("q")
    (name,) = customer_names(["q"], key=KEY)
    series.blocks = [without_records(own, np.array([name])) for own in series.blocks]
    assert not series.given("q")
    assert series.used("q") == spent
    series.add(2, {"q": (1, [1e9, 0.0])})
    assert spent < series.used("q") <= series.allowances[2]


def test_charges_add_up_to_the_share_that_has_accrued(series: Series) -> None:
    """After t periods rho A_t / A_T, rounded up; a skipped period accrues to the next one."""
    whole = series.budget.rho_units
    for period in (0, 1, 4, 7):
        series.add(period, {})
        spent = sum(spend.rho_units for spend in series.budget.spends)
        share = Fraction(whole * series.allowances[period], UNIT**2)
        assert share <= spent < share + 1
    assert series.budget.remaining_rho_units == 0
    scales = {spend.drawn["scale"] for spend in series.budget.spends}
    assert len(scales) == 1
    assert Fraction(UNIT**2, 2) * 10**18 <= Fraction(scales.pop()) ** 2 * whole


def test_a_period_is_released_once_and_in_order(series: Series) -> None:
    """A second release of a period, or an earlier one, is refused before a row is read."""
    series.add(2, {"q": (0, [1.0, 0.0])})
    for period in (2, 1):
        series.released = [0] if period == 1 else [2]
        with pytest.raises(InvalidParameterError, match="period must be after the periods"):
            series.add(period, {"q": (0, [1.0, 0.0])})


def test_a_budget_without_the_earlier_charges_is_refused(series: Series) -> None:
    """The charges of earlier periods belong to the budget of the next."""
    series.add(0, {})
    series.budget = Budget(series.budget.guarantee)
    with pytest.raises(InvalidParameterError, match="period must be after the periods"):
        series.add(1, {})


@pytest.mark.parametrize("share", [Fraction(3, 5), Fraction(11, 10)])
def test_all_periods_have_one_rho(series: Series, share: Fraction) -> None:
    """Less noise in one period than in another would cost more than is charged."""
    series.rho_units = series.budget.rho_units // 2
    series.add(0, {})
    series.rho_units = int(share * series.rho_units)
    with pytest.raises(InvalidParameterError, match="rho_units must be that of the earlier"):
        series.add(1, {})
    assert len(series.budget.spends) == 1


def test_the_charge_comes_before_the_rows(series: Series) -> None:
    """An error in the rows costs the charge; a refused charge reads no row."""
    with pytest.raises(InvalidDataError):
        series.add(0, {"q": (9, [1.0, 0.0])})
    assert len(series.budget.spends) == 1

    class Unread:
        """Rows that must not be read."""

    unread: Any = Unread()
    work = given_features.bind()
    other = replace(series, rho_units=2 * series.budget.rho_units, tag="too much")
    with pytest.raises(BudgetExceededError):
        mechanism.release_period(unread, work, other.query(PERIODS - 1), other.budget)
    last = replace(series, budget=Budget(series.budget.guarantee))
    with pytest.raises(TypeError, match="rows of an engine"):
        mechanism.release_period(unread, work, last.query(0), last.budget)


def test_replace_one_is_refused(make_guarantee: Callable[..., Guarantee]) -> None:
    """The theorem is for zero-out."""
    guarantee = make_guarantee(epsilon=1.0, delta=1e-6, neighbours=Neighbours.REPLACE_ONE)
    own = Series(budget=Budget(guarantee), allowances=(UNIT**2,), feedback=np.eye(1))
    with pytest.raises(InvalidParameterError, match="neighbours must be zero-out"):
        own.add(0, {})


def test_little_noise_is_refused(make_guarantee: Callable[..., Guarantee]) -> None:
    """Below 1,024 steps the discretisation lemma is not written."""
    budget = Budget(make_guarantee(epsilon=1e6, delta=1e-6))
    own = Series(budget=budget, allowances=(UNIT**2,), feedback=np.eye(1), rho_units=10**27)
    with pytest.raises(InvalidParameterError, match="rho_units must be small enough"):
        own.add(0, {})


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"allowances": ()}, "allowances"),
        ({"allowances": (1, 1, UNIT**2)}, "allowances"),
        ({"allowances": (1, UNIT**2 - 1)}, "allowances"),
        ({"allowances": (0, UNIT**2)}, "allowances"),
        ({"allowances": (*range(1, 241), UNIT**2)}, "allowances"),
        ({"period": 3}, "period"),
        ({"feedback": np.zeros(1)}, "feedback"),
        ({"feedback": np.array([np.nan, 1.0])}, "feedback"),
        ({"feedback": np.ones(3)}, "feedback"),
        ({"feedback": np.ones((1, 1))}, "feedback"),
        ({"feedback": np.ones(0)}, "feedback"),
        ({"n_cells": 0}, "n_cells"),
        ({"rho_units": 0}, "rho_units"),
    ],
)
def test_bad_queries_are_refused(change: dict[str, Any], field: str) -> None:
    """Field and rule are named."""
    good: dict[str, Any] = {
        "tag": "t",
        "rho_units": 10**15,
        "allowances": (1, UNIT**2),
        "period": 1,
        "feedback": np.ones(2),
        "n_cells": 1,
        "n_features": 1,
    }
    PeriodQuery(**good)
    with pytest.raises(InvalidParameterError, match=f"^{field} must be"):
        PeriodQuery(**{**good, **change})


def damaged_states(state: CustomerState) -> dict[str, CustomerState]:
    """Return states that no period leaves."""
    return {
        "an odometer set back": replace(state, used=state.used - 1),
        "an odometer beyond all": replace(state, used=state.used + UNIT**2),
        "a period missing": replace(state, history=state.history[:, :-1]),
        "wider integers": replace(state, history=state.history.astype(np.int64)),
        "a cell that does not exist": replace(state, cells=state.cells + 2),
        "a negative cell": replace(state, cells=state.cells - 2),
        "records out of order": replace(state, owners=state.owners[::-1]),
        "records of nobody": replace(state, owners=state.owners + 1),
        "customers out of order": replace(state, names=state.names[::-1]),
    }


@pytest.mark.parametrize("name", damaged_states(CustomerState.empty(periods=1, n_features=1)))
def test_a_damaged_state_is_refused(series: Series, name: str) -> None:
    """Whatever wrote it: the mechanism checks odometers against contributions."""
    series.add(0, {"q": (0, [1.0, 0.0]), "r": (1, [0.5, 0.1])})
    (state,) = series.blocks
    series.blocks = [damaged_states(state)[name]]
    with pytest.raises(InvalidDataError):
        series.add(1, {"q": (0, [1.0, 0.0])})


def test_a_customer_is_processed_once(series: Series) -> None:
    """Two rows of one id, and a block that is handed over twice, are refused."""
    rows = LocalRows(np.ones((2, 2)), np.zeros(2, dtype=np.int64))
    with pytest.raises(InvalidDataError, match="one row per customer id"):
        series.add_rows(0, rows, LocalRows(value_column(["q", "q"])))
    query = replace(series, budget=Budget(series.budget.guarantee)).query(0)
    sums = PeriodSums(query, given_features.bind())
    empty = CustomerState.empty(periods=0, n_features=2)
    row = np.array([b"a" * 32]), np.ones((1, 2)), np.zeros(1, dtype=np.int64)
    sums(empty, *row)
    with pytest.raises(InvalidDataError, match="each customer once"):
        sums(empty, *row)
    assert sums.total().tolist() != [[0, 0], [0, 0]]
    with pytest.raises(AttributeError):
        sums.total()


@pytest.mark.parametrize("customer", [1001, 1001.0, b"text", None])
def test_ids_are_text(customer: object) -> None:
    """The same customer as a number may be written in two ways."""
    with pytest.raises(InvalidDataError, match="customer_ids that are text, not"):
        customer_names([customer], key=KEY)


def test_white_space_around_an_id_is_no_other_customer(series: Series) -> None:
    """One odometer for both."""
    series.add(0, {"1001": (0, [1e9, 0.0])})
    series.add(1, {" 1001\n": (0, [1e9, 0.0])})
    assert sum(own.names.size for own in series.blocks) == 1


def test_a_period_of_unknown_customers_is_reported(series: Series) -> None:
    """To the data holder, as a warning without ids; not if half of them are known."""
    series.add(0, {"a": (0, [1.0, 0.0]), "b": (0, [1.0, 0.0])})
    series.add(1, {"a": (0, [1.0, 0.0]), "c": (0, [1.0, 0.0])})
    with pytest.warns(UnknownCustomersWarning, match="written alike"):
        series.add(2, {"a.0": (0, [1.0, 0.0]), "b.0": (0, [1.0, 0.0]), "c": (0, [1.0, 0.0])})


@pytest.mark.parametrize(
    ("features", "cells"),
    [
        (np.ones((1, 2)), np.zeros(1)),
        (np.ones((1, 2)), np.zeros((1, 1), dtype=np.int64)),
        (np.ones((1, 3)), np.zeros(1, dtype=np.int64)),
        (np.ones((1, 2), dtype=np.float32), np.zeros(1, dtype=np.int64)),
    ],
)
def test_other_arrays_than_the_query_needs_are_refused(
    series: Series, features: NDArray[Any], cells: NDArray[Any]
) -> None:
    """A matrix of another width would be read beyond a row."""
    sums = PeriodSums(series.query(0), given_features.bind())
    empty = CustomerState.empty(periods=0, n_features=2)
    with pytest.raises(TypeError):
        sums(empty, np.array([b"a" * 32]), features, cells)


def test_no_data_is_absence(series: Series) -> None:
    """A row without a cell is the same as no row, also after others."""
    other = series.again()
    for period, here in enumerate((True, False, True)):
        row: Present = {"q": (0, [0.4, 0.1])} if here else {}
        first = silently(series, period, row)
        nothing: Present = {"q": (NO_DATA, [7.0, 7.0]), "r": (NO_DATA, [1.0, 1.0])}
        assert (silently(other, period, row or nothing) == first).all()
    assert other.used("r") == 0


def test_rows_may_come_in_parts(series: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    """As from another engine: the same contributions, whatever divided rows and state before.

    The second and the third period divide a state that a whole period left, and one of parts.
    """
    other = series.again()
    generator = np.random.default_rng(7)
    for period in range(5):
        here = [i for i in range(40 + 9 * period) if generator.random() < 0.8]
        rows = {f"c{i}": (i % 2, generator.normal(0, 0.7, 2).tolist()) for i in here}
        whole = silently(series, period, rows)
        with monkeypatch.context() as patched:
            if period:
                ends = series_rows.ELSEWHERE[:: 1 if period == 1 else 4]
                patched.setattr(series_rows, "IN_MEMORY", ends)
            assert (silently(other, period, rows) == whole).all()
    assert len(other.blocks) > len(series.blocks)
    everyone = [f"c{i}" for i in range(76)]
    assert [series.used(one) for one in everyone] == [other.used(one) for one in everyone]


def test_a_large_period_after_a_small_one_comes_in_parts(
    series: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No part waits for the next customer of the state, who may be far away."""
    series.add(0, {"q": (0, [1.0, 0.0])})
    sizes = []
    monkeypatch.setattr(series_rows, "IN_MEMORY", series_rows.ELSEWHERE)
    add = PeriodSums.__call__

    def counting(sums: PeriodSums, state: CustomerState, names: Any, *columns: Any) -> Any:  # noqa: ANN401 - a block
        sizes.append(names.size)
        return add(sums, state, names, *columns)

    monkeypatch.setattr(PeriodSums, "__call__", counting)
    with pytest.warns(UnknownCustomersWarning):
        series.add(1, {f"c{i}": (0, [0.1, 0.1]) for i in range(640)})
    assert sum(sizes) == 640
    assert max(sizes) < 80


FAULTS = {
    "the odometer is forgotten": (
        "_contribute",
        "used[owners[first]] += _clip(",
        "_clip(",
    ),
    "the allowance of all periods is granted in each": (
        "_contribute",
        "room = max(allowance - used[owners[first]], 0)",
        "room = allowance",
    ),
    "cells of a customer are clipped one by one": (
        "_contribute",
        "while last < owners.size and owners[last] == owners[first]:",
        "while last < first + 1 and not (used.__setitem__(owners[last], 0)):",
    ),
    "lengths are rounded up": (
        "_clip",
        "    while squares > room:",
        "    given += np.sign(given)\n    while squares > 2 * room:",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_detected(
    series: Series, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fault lets a hostile customer contribute more than its allowance."""
    name, old, new = FAULTS[fault]
    function = getattr(mechanism, name)
    source = inspect.getsource(getattr(function, "py_func", function))
    assert old in source
    scope: dict[str, Any] = dict(vars(mechanism))
    changed = source.replace(old, new).replace("@compiled\n", "")
    exec(compile(changed, "<planted>", "exec"), scope)  # noqa: S102 - our own source, changed
    if name == "_clip":
        whole = inspect.getsource(getattr(mechanism._contribute, "py_func", mechanism._contribute))
        exec(compile(whole.replace("@compiled\n", ""), "<whole>", "exec"), scope)  # noqa: S102
    monkeypatch.setattr(mechanism, "_contribute", scope["_contribute"])
    monkeypatch.setattr(CustomerState, "check", lambda *_: None)
    exceeded = False
    for period in range(PERIODS):
        series.add(period, {"q": (period % 2, [1e9, -1e9 / 3])})
        squares = sum(int((part**2).sum()) for part in series.given("q").values())
        exceeded |= squares > series.allowances[period]
    assert exceeded


def test_a_state_that_is_rolled_back_exceeds_the_allowance(series: Series) -> None:
    """What the state file must prevent: the mechanism alone cannot see that a state is old."""
    contributed = 0
    old = list(series.blocks)
    for period in range(2):
        series.blocks = [
            replace(own, history=np.zeros((len(own.cells), period, 2), dtype=np.int32))
            for own in old
        ]
        before = series.used("q")
        series.add(period, {"q": (0, [1e9, 0.0])})
        contributed += series.used("q") - before
    assert contributed > series.allowances[1]


def test_period_rows_show_nothing() -> None:
    """Neither rows nor names appear in a text."""
    features = LocalRows(np.ones((1, 2)), np.zeros(1, dtype=np.int64))
    state = MemoryState(names_key=KEY)
    rows = period_rows(features, LocalRows(value_column(["secret id"])), state)
    empty = CustomerState.empty(periods=0, n_features=2)
    assert "secret" not in f"{rows!r} {state!r} {empty!r}"


def test_a_private_period_charges_its_budget(series: Series) -> None:
    """What code around the kernel can do: release noisy sums, and nothing else."""
    rows = period_rows(
        LocalRows(np.ones((1, 2)), np.zeros(1, dtype=np.int64)),
        LocalRows(value_column(["q"])),
        MemoryState(names_key=KEY),
    )
    table = PrivatePeriod(rows, series.budget)
    values, std = table.release(given_features.bind(), series.query(0))
    assert values.shape == (2, 2)
    assert std == series.budget.spends[0].drawn["scale"] * STEP
    with pytest.raises(TypeError, match="Budget only"):
        PrivatePeriod(rows, object())  # type: ignore[arg-type]


def test_an_empty_block_adds_nothing(series: Series) -> None:
    """An engine may hand over a block without customers."""
    sums = PeriodSums(series.query(0), given_features.bind())
    nothing = np.zeros(0, dtype="S32"), np.zeros((0, 2)), np.zeros(0, dtype=np.int64)
    assert sums(sums.empty(), *nothing).names.size == 0
    assert not sums.total().any()
