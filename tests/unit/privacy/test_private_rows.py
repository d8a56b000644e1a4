"""Row functions and private rows: what engines accept, and what leaves released rows."""

import copy
import datetime as dt
import math
import operator
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from tests import single_queries
from tests.single_queries import customer_ids, given_cells, public_names
from wattveil.engines.local import LocalRows
from wattveil.errors import SimulatedNoiseError
from wattveil.privacy.guarantee import Budget, Neighbours
from wattveil.privacy.mechanisms.contributions import BlockSums, Query
from wattveil.privacy.mechanisms.gaussian import release_sums
from wattveil.privacy.mechanisms.response import respond, response_channel
from wattveil.privacy.private_data import (
    BoundRowFunction,
    Released,
    ReleasedRows,
    RowFunction,
    Rows,
    exactly,
    frozen,
    kept_columns,
    row_function,
)

Array = NDArray[Any]
ENTRIES = r"^a row function returns plain arrays with one entry per customer$"
QUERY = Query(tag="t", rho_units=10**15, n_cells=3)


@row_function
def shifted(values: Array, *, by: float) -> tuple[Array]:
    """Return the values, shifted."""
    return (values + by,)


@row_function
def ignoring(values: Array, *, what: object) -> tuple[Array]:  # noqa: ARG001 - that is the point
    """Return the values, whatever the parameter."""
    return (values,)


@row_function
def above(values: Array, *, limit: float) -> tuple[Array, NDArray[np.bool_]]:
    """Keep the customers above a limit."""
    return values, values > limit


@row_function
def resized(values: Array, *, sizes: tuple[int, ...]) -> tuple[Array, ...]:
    """Return arrays of these lengths, whatever the number of customers, of which there are some.

    The last of several is a mask that keeps everyone.
    """
    *lengths, last = sizes if len(values) else [0] * len(sizes)
    columns = [np.zeros(length, dtype=np.int64) for length in lengths]
    return *columns, np.ones(last, dtype=np.bool_) if lengths else np.zeros(last, dtype=np.int64)


@row_function
def selected(values: Array, *, by: Array) -> tuple[Array, Array]:
    """Select with any array as the mask."""
    return values, by[: len(values)]


@row_function
def selected_late(values: Array, *, by: Array) -> tuple[Array, Array]:
    """Select with any array as the mask, once there are customers."""
    return values, by if len(values) else np.ones(0, dtype=np.bool_)


def integers(rows: Rows[*tuple[Any, ...]]) -> list[int]:
    """Return the exact counts of the cells that rows hold."""
    sums = BlockSums([QUERY], given_cells.bind())
    return [int(k) for k in sums.split(rows.add_up(sums))[0]]


# --- row functions --------------------------------------------------------------------------------


def test_a_row_function_is_called_like_the_function() -> None:
    """Directly, for the data holder, and bound to its public parameters, for rows."""
    values = np.array([1.0, 2.0])
    assert isinstance(shifted, RowFunction)
    assert shifted.__doc__ == "Return the values, shifted."
    assert shifted.__name__ == "shifted"  # type: ignore[attr-defined]  # set by update_wrapper
    assert shifted(values, by=1.0)[0].tolist() == [2.0, 3.0]
    bound = shifted.bind(by=2.0)
    assert isinstance(bound, BoundRowFunction)
    assert bound(values)[0].tolist() == [3.0, 4.0]


def test_a_function_is_marked() -> None:
    """The mark keeps the function, its name and its documentation."""

    def doubled(values: Array) -> tuple[Array]:
        """Return the values twice as large."""
        return (2 * values,)

    marked = row_function(doubled)
    assert marked(np.array([1, 2]))[0].tolist() == [2, 4]
    assert marked.bind()(np.array([1, 2]))[0].tolist() == [2, 4]
    assert marked.__doc__ == "Return the values twice as large."
    assert marked.__reduce__() == doubled.__qualname__


def test_a_row_function_travels_by_name() -> None:
    """The pickle of a row function is its name; bound, its name and its parameters."""
    assert given_cells.__reduce__() == "given_cells"
    assert pickle.loads(pickle.dumps(given_cells)) is given_cells  # noqa: S301 - of the line itself
    bound = pickle.loads(pickle.dumps(single_queries.given_features.bind()))  # noqa: S301 - same
    cells, features = bound(np.ones((2, 1)), np.array([0, 1]))
    assert (cells.tolist(), features.tolist()) == ([0, 1], [[1.0], [1.0]])


@pytest.mark.parametrize("sizes", [(3,), (5,), (0,), (4, 5), (3, 4), (4, 4, 400)])
def test_one_entry_per_customer_in_every_array(sizes: tuple[int, ...]) -> None:
    """More or fewer entries than the four customers, in any of the arrays, are refused."""
    with pytest.raises(ValueError, match=ENTRIES):
        resized.bind(sizes=sizes)(np.zeros(4))
    assert [len(a) for a in resized.bind(sizes=(4, 4))(np.zeros(4))] == [4, 4]


@pytest.mark.parametrize("size", [0, 3, 5, 8])
def test_rows_refuse_another_number_of_entries(ample: Callable[..., Budget], size: int) -> None:
    """Mapped, selected or summed: no customer is counted twice, or left out without a mask."""
    rows = LocalRows(np.zeros(4, dtype=np.int64))
    work: BoundRowFunction[Any] = resized.bind(sizes=(size,))
    mapped: Rows[Any] = rows.map(work)
    with pytest.raises(ValueError, match=ENTRIES):
        integers(mapped)
    for sizes in ((size, 4), (4, size)):
        chooser: BoundRowFunction[Any] = resized.bind(sizes=sizes)
        chosen: Rows[Any] = rows.select(chooser)
        with pytest.raises(ValueError, match=ENTRIES):
            integers(chosen)
    with pytest.raises(ValueError, match=ENTRIES):
        release_sums(rows, work, [QUERY], ample())


ONLY_BOUND = r"^the kernel accepts a BoundRowFunction only$"
ONLY_PLAIN = r"^parameters of a row function are arrays, numbers, texts and dates$"
ONLY_MASKS = r"^the last column of a selection is a vector of truth values$"
NOT_BOUND: list[Any] = [
    lambda values: (values,),
    given_cells,
    partial(given_cells.bind()),
    given_cells.bind().__call__,
    None,
]


@pytest.mark.parametrize("number", range(len(NOT_BOUND)))
def test_rows_accept_bound_row_functions_only(ample: Callable[..., Budget], number: int) -> None:
    """A plain function is refused by `map`, `select` and `release_sums`, before it is called."""
    rows, work = LocalRows(np.zeros(4, dtype=np.int64)), NOT_BOUND[number]
    for apply in (rows.map, rows.select):
        with pytest.raises(TypeError, match=ONLY_BOUND):
            apply(work)
    budget = ample()
    with pytest.raises(TypeError, match=ONLY_BOUND):
        release_sums(rows, work, [QUERY], budget)
    with pytest.raises(TypeError, match=ONLY_BOUND):
        exactly(work, BoundRowFunction)
    assert budget.spends == ()


@pytest.mark.parametrize("number", range(len(NOT_BOUND)))
def test_labels_come_from_bound_row_functions_only(
    ample: Callable[..., Budget], number: int
) -> None:
    """A plain function is refused by `respond`, too, before the charge."""
    budget = ample()
    channel = response_channel(n_labels=3, epsilon=1.0, neighbours=Neighbours.ZERO_OUT)
    rows: Any = LocalRows(np.zeros(4, dtype=np.int64))
    ids, work = LocalRows(customer_ids(4)), NOT_BOUND[number]
    with pytest.raises(TypeError, match=ONLY_BOUND):
        respond(rows, ids, work, channel=channel, budget=budget, tag="t", real_ids=True)
    assert budget.spends == ()


def test_a_bound_row_function_is_accepted_as_it_is() -> None:
    """`exactly` returns the very function."""
    work = given_cells.bind()
    assert exactly(work, BoundRowFunction) is work


@pytest.mark.parametrize("function", [lambda values: (values,), len, None, given_cells.bind()])
def test_only_a_marked_function_is_bound(function: Any) -> None:  # noqa: ANN401 - wrong on purpose
    """A plain function cannot be passed off as a bound row function."""
    with pytest.raises(TypeError, match=r"^the kernel accepts a RowFunction only$"):
        BoundRowFunction(function, {})
    made: BoundRowFunction[Any] = BoundRowFunction(shifted, {"by": 1.0})
    assert made(np.zeros(2))[0].tolist() == [1.0, 1.0]


def test_a_bound_row_function_of_another_kind_is_refused() -> None:
    """A subclass could compute anything when it is called."""

    class Other(BoundRowFunction[Any]):  # type: ignore[misc]  # final, and wrong on purpose
        def __call__(self, *columns: Any) -> Any:  # noqa: ANN401 - arrays of any type
            return (np.repeat(columns[0], 2),)

    with pytest.raises(TypeError, match=ONLY_BOUND):
        exactly(Other(given_cells, {}), BoundRowFunction)


class Curious:
    """A parameter with a method, which a row function might call with private rows."""


class CuriousList(list[float]):
    """A list with methods of its own."""


class CuriousTuple(tuple[float, ...]):
    """A tuple with methods of its own."""

    __slots__ = ()


class CuriousNumber(np.float64):
    """A number with methods of its own."""


class CuriousText(str):
    """A text with methods of its own."""

    __slots__ = ()


PLAIN: list[Any] = [
    1,
    1.5,
    True,
    None,
    "text",
    b"bytes",
    np.float32(2.0),
    np.ones(3),
    dt.date(2026, 1, 1),
    dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    (1, "a"),
    [np.ones(2), (None,)],
    np.zeros(2, dtype=[("a", "f8"), ("b", "i8")]),
    np.datetime64("2026-01-01"),
    (),
]
NOT_PLAIN: list[Any] = [
    Curious(),
    len,
    given_cells,
    LocalRows(np.ones(2)),
    np.ma.masked_array(np.ones(2)),
    {1, 2},
    (1, Curious()),
    [[Curious()]],
    {"a": 1},
    np.array([Curious()]),
    np.zeros(1, dtype=[("a", "f8"), ("b", "O")]),
    np.zeros(1, dtype=[("a", "f8"), ("b", "O")])[0],
    CuriousList([1.0]),
    CuriousTuple([1.0]),
    CuriousNumber(1.0),
    CuriousText("a"),
]


@pytest.mark.parametrize("number", range(len(PLAIN)))
def test_plain_values_are_bound(number: int) -> None:
    """Arrays, numbers, texts, dates, and tuples and lists of them."""
    values = np.zeros(2)
    assert ignoring.bind(what=PLAIN[number])(values)[0] is values


@pytest.mark.parametrize("number", range(len(NOT_PLAIN)))
def test_other_values_are_not_bound(number: int) -> None:
    """Wherever they are inside: their methods would be passed private rows."""
    with pytest.raises(TypeError, match=ONLY_PLAIN):
        frozen(NOT_PLAIN[number])
    with pytest.raises(TypeError, match=ONLY_PLAIN):
        ignoring.bind(what=NOT_PLAIN[number])
    with pytest.raises(TypeError, match=ONLY_PLAIN):
        BoundRowFunction(ignoring, {"first": 1, "what": NOT_PLAIN[number]})


@row_function
def doubling(values: Array, *, radii: Array) -> tuple[Array]:
    """Double a parameter for each block: the values would depend on the number of blocks."""
    radii *= 2.0
    return (values / radii,)


@row_function
def leaking(values: Array, *, out: list[Array]) -> tuple[Array]:
    """Write the exact sum of the rows to a parameter, whatever container it is in."""
    out[0][:] = values.sum(axis=0)
    return (values,)


@row_function
def keeping(values: Array, *, out: list[Array]) -> tuple[Array]:
    """Keep the rows in a parameter."""
    out.append(values)
    return (values,)


def travelled(bound: BoundRowFunction[Any]) -> BoundRowFunction[Any]:
    """Return a bound row function as an executor receives it."""
    return pickle.loads(pickle.dumps(bound))  # type: ignore[no-any-return]  # noqa: S301 - of the line itself


@pytest.mark.parametrize("as_sent", [travelled, lambda bound: bound])
def test_parameters_are_read_only(as_sent: Callable[[Any], Any]) -> None:
    """Here and in executors: no state between blocks, and nothing reaches the caller."""
    own = np.ones(3)
    for work in (
        doubling.bind(radii=own),
        leaking.bind(out=[own]),
        leaking.bind(out=(own,)),
    ):
        with pytest.raises(ValueError, match="read-only"):
            as_sent(work)(np.full((2, 3), 7.0))
    with pytest.raises(AttributeError, match="append"):
        as_sent(keeping.bind(out=[]))(np.ones((2, 3)))
    assert own.tolist() == [1.0] * 3
    assert own.flags.writeable


def test_parameters_are_copies() -> None:
    """What the caller changes after the binding does not change the function."""
    own, inside = np.ones(2), [1.0]
    bound = ignoring.bind(what=own), ignoring.bind(what=[own, inside])
    own[:] = 9.0
    inside.append(2.0)
    kept: list[Any] = [work._public["what"] for work in bound]
    assert kept[0].tolist() == [1.0, 1.0]
    assert kept[1][0].tolist() == [1.0, 1.0]
    assert kept[1][1] == (1.0,)


def test_the_layout_of_a_parameter_is_kept() -> None:
    """A copy in another order of memory would be another type for a compiled loop."""
    for own in (np.ones((2, 3)), np.ones((2, 3), order="F")):
        bound: Any = frozen(own)
        assert bound.flags.f_contiguous == own.flags.f_contiguous
        assert bound.dtype == own.dtype


NOT_ARRAYS: list[Any] = [
    [0.0, 0.0],
    (0.0, 0.0),
    "ab",
    np.ma.masked_array(np.zeros(2)),
    np.array(0.0),
    np.zeros(3),
    np.zeros((1, 2)),
]


@row_function
def not_an_array(values: Array, *, number: int, place: int) -> tuple[Any, ...]:
    """Return something else than an array in one of two places."""
    found: list[Any] = [np.zeros(len(values)), np.zeros((len(values), 5))]
    found.insert(place, NOT_ARRAYS[number])
    return tuple(found)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("number", range(len(NOT_ARRAYS)))
def test_only_plain_arrays_come_out_of_a_row_function(number: int, place: int) -> None:
    """Lists, texts and masked arrays are refused, also where they have one entry per customer."""
    with pytest.raises(ValueError, match=ENTRIES):
        not_an_array.bind(number=number, place=place)(np.ones((2, 3)))


@row_function
def divided(values: Array) -> tuple[Array]:
    """Divide by the values, some of which are zero."""
    return (1.0 / values,)


def test_no_warning_depends_on_a_row() -> None:
    """A division by zero raises no warning and no error, whatever the settings outside."""
    with np.errstate(all="raise"):
        assert divided.bind()(np.array([0.0, 2.0]))[0].tolist() == [math.inf, 0.5]


# --- map and select -------------------------------------------------------------------------------


def test_rows_are_mapped_and_selected() -> None:
    """`map` changes the one column; `select` keeps whom the last array of the result keeps."""
    rows = LocalRows(np.array([0, 1, 2, 2]))
    assert integers(rows) == [2**25, 2**25, 2 * 2**25]
    assert integers(rows.map(shifted.bind(by=-1))) == [2**25, 2 * 2**25, 0]
    assert integers(rows.select(above.bind(limit=0))) == [0, 2**25, 2 * 2**25]
    assert integers(rows.select(above.bind(limit=9))) == [0, 0, 0]
    assert integers(rows.map(shifted.bind(by=-1)).select(above.bind(limit=0))) == [0, 2 * 2**25, 0]


@pytest.mark.parametrize(
    "by",
    [
        np.zeros(4, dtype=np.int64),
        np.array([0, 3, 3, 3]),
        np.ones(4),
        np.zeros((4, 1), dtype=np.bool_),
        np.ones((4, 1), dtype=np.bool_),
    ],
    ids=["zeros", "positions", "floats", "matrix", "matrix of truth"],
)
def test_a_mask_is_a_vector_of_truth_values(by: Array) -> None:
    """Positions would repeat a customer; they are refused, whether they keep everyone or not."""
    cells = np.array([0, 1, 2, 2])
    with pytest.raises(TypeError, match=ONLY_MASKS):
        kept_columns((cells, by))
    with pytest.raises(TypeError, match=ONLY_MASKS):
        LocalRows(cells).select(selected.bind(by=by))
    # A function that returns a mask for no customers, as engines try first, and positions for some.
    late = LocalRows(cells).select(selected_late.bind(by=by))
    with pytest.raises(TypeError, match=ONLY_MASKS):
        integers(late)


@pytest.mark.parametrize("kept", [[True] * 4, [False] * 4, [False, True, True, False]], ids=str)
def test_columns_of_those_whom_the_mask_keeps(kept: list[bool]) -> None:
    """The mask itself is dropped; the other columns stay in their order."""
    cells, names = np.arange(4), customer_ids(4)
    found = kept_columns([cells, names, np.array(kept)])
    assert isinstance(found, tuple)
    assert [column.tolist() for column in found] == [
        [value for value, keep in zip(column.tolist(), kept, strict=True) if keep]
        for column in (cells, names)
    ]
    assert kept_columns([np.array(kept)]) == ()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], False),
        (["a"], False),
        (["a", "b", "c"], False),
        (["a", "b", "a"], True),
        (["a", None], True),
        ([None], True),
        ([None, None], True),
    ],
    ids=str,
)
def test_repeated_and_missing_values_are_found(values: list[str | None], *, expected: bool) -> None:
    """A list of ids with a repeat, or without an id for everyone, is not one id per customer."""
    ids = np.array(values, dtype=np.object_)
    assert LocalRows(ids)._has_repeats() is expected
    others = LocalRows(np.array(["x"] * len(values), dtype=np.object_))
    assert LocalRows(ids).beside(others, field="others")._has_repeats() is expected


# --- private rows ---------------------------------------------------------------------------------


def private_rows() -> list[Rows[*tuple[Any, ...]]]:
    """Return rows as they are given, mapped, selected and beside others."""
    rows = LocalRows(np.array([4711.0, 4712.0]))
    return [
        rows,
        rows.map(shifted.bind(by=1.0)),
        rows.select(above.bind(limit=0.0)),
        rows.beside(LocalRows(np.array([1, 2])), field="others"),
    ]


@pytest.mark.parametrize("number", range(4))
def test_rows_show_nothing(number: int) -> None:
    """The text has neither a value nor the number of customers."""
    rows = private_rows()[number]
    for show in (repr, str, ascii, format):
        assert show(rows).replace("\\u2026", "…") == "LocalRows(…)"
    assert repr({"inside": rows}) == "{'inside': LocalRows(…)}"


@pytest.mark.parametrize("number", range(4))
def test_rows_cannot_be_compared_hashed_or_tested(number: int) -> None:
    """Each would be an exact bit about the data."""
    rows = private_rows()[number]
    for compare in (operator.eq, operator.ne):
        for other in (rows, private_rows()[number], 1.0, None):
            with pytest.raises(TypeError, match=r"^a private value cannot be compared$"):
                compare(rows, other)
            with pytest.raises(TypeError, match=r"^a private value cannot be compared$"):
                compare(other, rows)
    with pytest.raises(TypeError, match=r"^a private value has no truth value$"):
        bool(rows)
    with pytest.raises(TypeError, match="unhashable"):
        hash(rows)
    with pytest.raises(TypeError, match="no len"):
        len(rows)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(TypeError, match="not iterable"):
        iter(rows)  # type: ignore[call-overload]  # wrong on purpose


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize(
    "leave", [copy.copy, copy.deepcopy, *(partial(pickle.dumps, protocol=p) for p in range(6))]
)
def test_rows_cannot_be_pickled_or_copied(number: int, leave: Callable[[object], object]) -> None:
    """Private rows do not reach a disk, a cache or a queue."""
    with pytest.raises(TypeError, match=r"^a private value cannot be pickled or copied$"):
        leave(private_rows()[number])


def test_no_public_method_of_rows_returns_a_row() -> None:
    """What is public is named here: rows, bounded totals, and two public facts."""
    assert public_names(Rows) == {"add_up", "beside", "map", "select", "width"}
    assert Rows.__annotations__ == {"computes_once": bool}
    assert LocalRows.computes_once is True
    assert LocalRows(np.ones((3, 5))).width == 5


# --- released rows --------------------------------------------------------------------------------


def released(*, simulated: bool = False) -> Released[Rows[Array, Array]]:
    """Return three released rows, not in order."""
    rows = LocalRows(np.array(["c", "a", "b"], dtype=np.object_), np.array([2, 0, 2]))
    return Released(value=rows, spends=(), simulated=simulated)


def test_released_rows_are_in_the_order_of_the_first_column(tmp_path: Path) -> None:
    """In memory and in a file; counts are of the last column."""
    rows = ReleasedRows(released())
    ids, labels = rows.here()
    assert (ids.tolist(), labels.tolist()) == (["a", "b", "c"], [0, 2, 2])
    assert rows.counted(4).tolist() == [1, 0, 2, 0]
    rows.write_parquet(tmp_path / "rows.parquet", ["id", "label"])
    assert pq.read_table(tmp_path / "rows.parquet").to_pydict() == {
        "id": ["a", "b", "c"],
        "label": [0, 2, 2],
    }


def test_rows_with_simulated_noise_are_not_released() -> None:
    """What was drawn from a test's own source is never opened."""
    with pytest.raises(SimulatedNoiseError, match="simulated noise"):
        ReleasedRows(released(simulated=True))
