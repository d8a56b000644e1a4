"""Private values, private rows with the functions that may read them, and released values.

`Secret` holds one private value, `Rows` private rows, one per customer. Both are a `PrivateValue`:
they cannot be printed, compared, pickled or copied by accident, and neither has a method that
returns its content. `privacy.opening.reveal` returns the value of a `Secret`; an import contract
lists the modules that may use it. `Released` holds the output of a mechanism with its charges; only
the kernel creates one. Python has no access control, and code can circumvent these types on
purpose. They turn a mistake into a type error or a broken contract instead of a leak.

`Rows` is the interface of an engine: customers in the memory of this process, or in executors. The
operations on rows are

* `map` and `select`: apply a row function. Engines may postpone the work until a mechanism, which
  has been charged, requests a sum;
* `add_up`: compute the bounded integer sums of `privacy.mechanisms.contributions`.

A row function computes an output for each customer from that customer's row and from public or
released numbers. Only functions marked with `row_function` are accepted, and only
`wattveil.release.rows` may mark them, which a test checks; docs/proofs/row-functions.md proves
each. That a function returns exactly one entry per customer is checked whenever it runs, so no
customer can be counted twice.
"""

import datetime as dt
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar, TypeVarTuple, final

import numpy as np

from wattveil.arrays import Bools, Ints
from wattveil.errors import SimulatedNoiseError
from wattveil.privacy.guarantee import Spend

if TYPE_CHECKING:
    from wattveil.privacy.mechanisms.contributions import BlockSums, BoundedTotals

T = TypeVar("T")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Columns = TypeVarTuple("Columns")
Found = TypeVarTuple("Found")
Other = TypeVar("Other")

_NUMPY = {*np.sctypeDict.values()} - {np.void}  # a void may contain objects
_PLAIN = {str, bytes, bool, int, float, type(None), dt.date, dt.datetime, *_NUMPY}

IN_AUDIT: ContextVar[bool] = ContextVar("in audit", default=False)
"""Whether `privacy.transcript` records: then what is released is compared, never published."""


class PrivateValue:
    """A value that depends on private rows."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the type alone: neither the value nor its size."""
        return f"{type(self).__name__}(…)"

    def __eq__(self, other: object) -> NoReturn:
        """Refuse: the result would be one exact bit about the data."""
        raise TypeError("a private value cannot be compared")

    def __bool__(self) -> NoReturn:
        """Refuse: a truth value would be one exact bit about the data."""
        raise TypeError("a private value has no truth value")

    __hash__ = None  # type: ignore[assignment]  # a hash of private data is private data

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse pickling and copying: a private value must not reach a disk, cache or queue."""
        raise TypeError("a private value cannot be pickled or copied")


@final
class Secret(PrivateValue, Generic[T]):
    """One private value; only `wattveil.privacy.opening.reveal` returns it."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value


@final
class BoundRowFunction(Generic[Result]):
    """A row function together with its public or released parameters."""

    def __init__(self, function: "RowFunction[..., Result]", public: Mapping[str, Any]) -> None:
        self._function = exactly(function, RowFunction)
        self._public = {name: frozen(value) for name, value in public.items()}

    def __call__(self, *columns: Any) -> Result:  # noqa: ANN401 - arrays of any type
        """Apply the function to a block of customers; refuse all but one entry per customer."""
        returned: Any = self._function(*columns, **self._public)
        found: Any = tuple(returned)
        n_rows = columns[0].shape[:1]
        if any(type(one) is not np.ndarray or one.shape[:1] != n_rows for one in found):
            raise ValueError("a row function returns plain arrays with one entry per customer")
        return found  # type: ignore[no-any-return]  # a tuple of arrays

    def __reduce__(self) -> tuple[Any, ...]:
        """Bind again when unpickled: NumPy does not keep the flag of a frozen array."""
        return BoundRowFunction, (self._function, self._public)


@final
class RowFunction(Generic[Arguments, Result]):
    """A function that computes each output from one row; see `row_function`."""

    def __init__(self, function: Callable[Arguments, Result]) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *columns: Arguments.args, **public: Arguments.kwargs) -> Result:
        """Compute exact outputs, for the data holder and for tests."""
        with np.errstate(all="ignore"):  # a warning could depend on a row
            return self._function(*columns, **public)

    def bind(self, **public: Any) -> BoundRowFunction[Result]:  # noqa: ANN401 - its parameters
        """Return the function with its public or released parameters, as `Rows` accepts it."""
        return BoundRowFunction(self, public)

    def __reduce__(self) -> str:
        """Pickle by name, for executors."""
        return str(self.__qualname__)  # type: ignore[attr-defined]  # set by update_wrapper


def row_function(function: Callable[Arguments, Result]) -> RowFunction[Arguments, Result]:
    """Mark a function of a block of rows, which returns a tuple of arrays.

    Formal guarantee
    ----------------
    The function ensures that entry i of each array is computed from row i of the columns and from
    the keyword arguments alone, to the last bit. Proof: docs/proofs/row-functions.md.
    """
    return RowFunction(function)


def frozen(value: object) -> object:
    """Return a copy of a parameter that cannot be changed; refuse all but plain values.

    Methods of another object would be passed private rows. An array or list that a row function
    writes to would take values of one block to the next, or out to the caller.
    """
    if type(value) is tuple or type(value) is list:
        return tuple(map(frozen, value))
    if type(value) is np.ndarray and not value.dtype.hasobject:
        value = np.array(value)
        value.setflags(write=False)
    elif type(value) not in _PLAIN:
        raise TypeError("parameters of a row function are arrays, numbers, texts and dates")
    return value


def exactly(value: T, kind: type[object]) -> T:
    """Accept an object of this very class: methods of another could do anything with rows."""
    if type(value) is not kind:
        raise TypeError(f"the kernel accepts a {kind.__name__} only")
    return value


def kept_columns(found: Sequence[Any]) -> tuple[Any, ...]:
    """Return all columns but the last, for the customers that the last one selects.

    The last column must be a Boolean vector: an index could select a customer twice.
    """
    *columns, mask = found
    if mask.dtype != np.bool_ or mask.ndim != 1:
        raise TypeError("the last column of a selection is a vector of truth values")
    return tuple(columns if mask.all() else [column[mask] for column in columns])


class Rows(PrivateValue, ABC, Generic[*Columns]):
    """Private rows held by an engine: columns with one entry per customer.

    The engine decides how customers are divided into blocks, and a block may be empty.
    """

    computes_once: bool
    """Whether a function runs exactly once for each customer; False where tasks are repeated."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of values per customer in the first column: public."""

    @abstractmethod
    def beside(self, other: "Rows[Other]", *, field: str) -> "Rows[*Columns, Other]":
        """Return the same customers with one more column, of rows from the same table.

        ``field`` names the other rows in an error, if they are not of the same table.
        """

    @abstractmethod
    def map(self, work: BoundRowFunction[tuple[Other]]) -> "Rows[Other]":
        """Apply a row function to the one column; other columns can still be joined to it."""

    @abstractmethod
    def select(self, work: BoundRowFunction[tuple[*Found, Bools]]) -> "Rows[*Found]":
        """Return what a row function computes, for the customers that its last column selects."""

    @abstractmethod
    def add_up(self, work: "BlockSums") -> "BoundedTotals":
        """Return the total of ``work`` over blocks that contain each customer once."""

    @abstractmethod
    def _has_repeats(self) -> bool:
        """Whether a value of the one column occurs twice or is missing: of public ids only."""

    @abstractmethod
    def _draw(self, work: Callable[..., tuple[*Found]]) -> "Rows[*Found]":
        """Return what a mechanism, once charged, draws for each customer: of `respond` only."""

    @abstractmethod
    def _columns_in_order(self) -> tuple[*Columns]:
        """Return the columns, sorted by the first: for `ReleasedRows` and periods of a series."""

    @abstractmethod
    def _counted(self, n_values: int) -> Ints:
        """Count each of 0 … n - 1 in the last column: for `ReleasedRows` only."""

    @abstractmethod
    def _write(self, path: str | Path, names: Sequence[str]) -> None:
        """Write the columns, sorted by the first: for `ReleasedRows` only."""


def checked_rows(rows: T) -> T:
    """Accept the rows of an engine; refuse any other object."""
    if not isinstance(rows, Rows):
        raise TypeError("a mechanism reads the rows of an engine only")
    return rows


@final
@dataclass(frozen=True, kw_only=True)
class Released(Generic[T]):
    """The output of a mechanism and what was charged for it.

    ``simulated`` is true when any of its noise came from another source than the system's. Such a
    value can be inspected, never published: outside the replay audit `publish` refuses it.
    """

    value: T
    spends: tuple[Spend, ...]
    simulated: bool

    def publish(self) -> T:
        """Return the value for a file, a table or a response; refuse simulated noise."""
        if self.simulated and not IN_AUDIT.get():
            raise SimulatedNoiseError("drawn from simulated noise: it cannot be published")
        return self.value


@final
class ReleasedRows(Generic[*Columns]):
    """Released rows that their engine keeps; all of them may be published.

    Customers are sorted by the first column, so their order reveals nothing else.
    """

    def __init__(self, released: Released[Rows[*Columns]]) -> None:
        self._rows = released.publish()

    def here(self) -> tuple[*Columns]:
        """Return the columns as arrays of this process."""
        return self._rows._columns_in_order()  # noqa: SLF001 - what is released may be opened

    def counted(self, n_values: int) -> Ints:
        """Count each of 0 … n - 1 in the last column."""
        return self._rows._counted(n_values)  # noqa: SLF001 - what is released may be counted

    def write_parquet(self, path: str | Path, names: Sequence[str]) -> None:
        """Write the columns under these names: a new file, or an engine's new folder."""
        self._rows._write(path, names)  # noqa: SLF001 - what is released may be written
