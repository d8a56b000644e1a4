"""Engine for customers in the memory of this process, and the inputs of a release as its rows.

`LocalRows` implements `Rows` on arrays. `as_rows` and the functions after it accept what a caller
passes to a release: arrays become `LocalRows`, the rows of another engine are used unchanged.
`DistributedProfiles` is the interface of profiles that another engine stores.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from wattveil import checks
from wattveil.arrays import Bools, Floats, Ints, Texts
from wattveil.compiled import in_threads, over_spans
from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.privacy.mechanisms.contributions import BlockSums, BoundedTotals
from wattveil.privacy.private_data import BoundRowFunction, Rows, exactly, kept_columns
from wattveil.profiles import TimeGrid
from wattveil.profiles.profiles import StatedPeriod
from wattveil.sklearn_base import validate_data

Columns = TypeVarTuple("Columns")
Found = TypeVarTuple("Found")
Other = TypeVar("Other")
_Result = TypeVar("_Result")
Column = TypeVar("Column")
_Block = tuple[Any, ...]
_Blocks = list[_Block]

Load = ArrayLike | Rows[Floats]
"""One row per customer: a matrix, profiles of an average day, or the rows of an engine."""
Values = Sequence[Hashable] | NDArray[Any] | Rows[Texts]
"""Values of an attribute: one per customer, or a column of an engine."""


@final
class LocalRows(Rows[*Columns]):
    """Customers in arrays of the same length, one per column.

    `map` and `select` only record the function: it runs when a mechanism, which has been charged,
    requests sums. Its results are kept in the blocks in which they were computed.
    """

    computes_once = True

    def __init__(self, *columns: *Columns) -> None:
        arrays: _Block = tuple(columns)
        self._empty: _Block = tuple(array[:0] for array in arrays)
        self._n_rows: int | None = len(arrays[0])
        self._blocks: Callable[[], _Blocks] | _Blocks = [arrays]

    @classmethod
    def _later(cls, blocks: Callable[[], _Blocks], empty: _Block, n_rows: int | None) -> Any:  # noqa: ANN401 - of other columns
        """Return rows that are computed when they are needed."""
        rows: LocalRows[*tuple[Any, ...]] = LocalRows(*empty)
        rows._blocks, rows._n_rows = blocks, n_rows
        return rows

    @property
    def width(self) -> int:
        """Number of values per customer in the first column."""
        return int(self._empty[0].shape[1])

    def beside(self, other: Rows[Other], *, field: str) -> "LocalRows[*Columns, Other]":
        """Return the same customers with one more column."""
        if not isinstance(other, LocalRows):
            raise InvalidParameterError(field, "in memory, as the load is", type(other).__name__)
        if self._n_rows is None or self._n_rows != other._n_rows:  # noqa: SLF001 - of our kind
            rule = "one value for each customer"  # the number is not quoted
            raise InvalidParameterError(field, rule, "another number of them")
        empty = (*self._empty, *other._empty)  # noqa: SLF001 - of our kind

        def both() -> _Blocks:
            return [(*self._joined(), *other._joined())]  # noqa: SLF001 - of our kind

        return self._later(both, empty, self._n_rows)  # type: ignore[no-any-return]

    def _has_repeats(self) -> bool:
        """Whether a value of the first column occurs twice or is missing."""
        values = set(self._joined()[0])
        return len(values) != self._n_rows or None in values

    def map(self, work: BoundRowFunction[tuple[Other]]) -> "LocalRows[Other]":
        """Apply a row function to the one column, once it is needed."""
        found: Any = exactly(work, BoundRowFunction)(*self._empty)

        def computed() -> _Blocks:
            return self._over_blocks(lambda *block: _contiguous(work(*block)))

        return self._later(computed, tuple(found), self._n_rows)  # type: ignore[no-any-return]

    def select(self, work: BoundRowFunction[tuple[*Found, Bools]]) -> "LocalRows[*Found]":
        """Apply a row function and keep the customers it selects, once they are needed."""

        def kept(*block: Any) -> _Block:  # noqa: ANN401 - arrays of any type
            return kept_columns(_contiguous(work(*block)))

        exactly(work, BoundRowFunction)
        empty = kept(*self._empty)
        return self._later(partial(self._over_blocks, kept), empty, None)  # type: ignore[no-any-return]

    def add_up(self, work: BlockSums) -> BoundedTotals:
        """Return the total over all blocks."""
        return exactly(work, BlockSums).total(self._over_blocks(work))

    def _draw(self, work: Callable[..., tuple[*Found]]) -> "LocalRows[*Found]":
        """Draw at once, for all customers together."""
        return LocalRows(*work(*self._joined()))

    def _columns_in_order(self) -> tuple[*Columns]:
        columns = self._joined()
        order = np.argsort(columns[0], kind="stable")
        return tuple(column[order] for column in columns)

    def _counted(self, n_values: int) -> Ints:
        return np.bincount(self._joined()[-1], minlength=n_values)

    def _write(self, path: str | Path, names: Sequence[str]) -> None:
        columns: Any = self._columns_in_order()
        pq.write_table(pa.table([*map(pa.array, columns)], names=list(names)), path)

    def _computed(self) -> _Blocks:
        """Return the blocks; compute them the first time."""
        if not isinstance(self._blocks, list):
            self._blocks = self._blocks()
        return self._blocks

    def _joined(self) -> _Block:
        """Return each column as one array."""
        blocks = self._computed()
        if len(blocks) > 1:
            self._blocks = blocks = [tuple(map(np.concatenate, zip(*blocks, strict=True)))]
        return blocks[0]

    def _over_blocks(self, work: Callable[..., _Result]) -> list[_Result]:
        """Call a function for blocks that contain each customer once, in threads."""
        blocks = self._computed()
        if len(blocks) > 1:
            return in_threads(lambda block: work(*block), blocks)
        (columns,) = blocks

        def of_span(_: int, first: int, last: int) -> _Result:
            return work(*(column[first:last] for column in columns))

        return over_spans(len(columns[0]), of_span)


def _contiguous(found: Any) -> _Block:  # noqa: ANN401 - arrays of any type
    return tuple(map(np.ascontiguousarray, found))


def as_rows(data: object | Rows[Column], read: Callable[[Any], Column]) -> Rows[Column]:
    """Return private rows: an engine's rows unchanged, other data read into memory."""
    return data if isinstance(data, Rows) else LocalRows(read(data))


def load_rows(load_kw: Load) -> Rows[Floats]:
    """Accept a matrix of real numbers, profiles, or the rows of an engine."""
    return as_rows(load_kw, partial(checks.matrix, "load_kw"))


def listed_rows(
    load_kw: Floats, ids: Sequence[str], *, customer_list: Sequence[str]
) -> Rows[Floats]:
    """Return a row for each customer on a public list, NaN for one without a row of its own."""

    def listed() -> _Blocks:
        place = {name: row for row, name in enumerate(ids)}
        with_nothing = np.vstack([load_kw, np.full((1, load_kw.shape[1]), np.nan)])
        return [(with_nothing[[place.get(name, -1) for name in customer_list]],)]

    return LocalRows._later(listed, (load_kw[:0],), len(customer_list))  # type: ignore[no-any-return]  # noqa: SLF001 - of our kind


def value_rows(values: Values) -> Rows[Texts]:
    """Accept one value per customer of any hashable type, or a column of an engine."""
    return as_rows(values, value_column)


def value_column(values: Iterable[Hashable]) -> Texts:
    """Return values as a column of objects; a tuple is one value."""
    return np.fromiter(values, dtype=np.object_)


def text_column(values: Iterable[object]) -> Texts:
    """Return values as a column of strings."""
    return np.fromiter(map(str, values), dtype=np.object_)


def estimator_rows(estimator: object, X: ArrayLike, **options: Any) -> Floats:  # noqa: ANN401, N803 - scikit-learn's
    """Return the matrix given to an estimator; refuse anything else without quoting it.

    scikit-learn quotes rows and NumPy quotes cells, also as the context of an error of ours, which
    is raised afterwards. For a matrix of real numbers their messages hold only its shape and names.
    """
    checks.unmasked("X", X)
    if getattr(X, "shape", (1,))[1:] == (0,):  # scikit-learn's text, without the number of rows
        rule = "a matrix: 0 feature(s) (shape=(, 0)) while a minimum of 1 is required."
        raise InvalidParameterError("X", rule, "no column")
    try:
        rows: Floats = validate_data(estimator, X, dtype=np.float64, **options)
    except (ValueError, OverflowError) as error:
        refusal = error
    else:
        return rows
    if "Complex data" in str(refusal):
        rule = "X is an array of real numbers. Complex data not supported"  # scikit-learn's text
        raise InvalidDataError(rule, [])
    axes = checks.numbers("X", X).ndim
    if axes != 2:  # noqa: PLR2004 - a matrix has two
        rule = "a matrix with one row per customer. Reshape your data"  # scikit-learn's text
        raise InvalidParameterError("X", rule, f"an array of dimension {axes}")
    raise refusal


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DistributedProfiles(StatedPeriod, ABC):
    """Load profiles of customers, private: `Profiles` with columns that an engine stores.

    ``load_kw`` and ``attributes`` can be given to every release, ``customer_ids`` to
    `release_labels`. Only columns of the same profiles can be combined.
    """

    customer_ids: Rows[Texts]
    load_kw: Rows[Floats]
    grid: TimeGrid
    timezone: str
    attributes: Mapping[str, Rows[Texts]]
    rules: Mapping[str, object] = field(default_factory=dict)
    days_kw: Rows[Floats] | None = None

    def __repr__(self) -> str:
        """Return the public facts only."""
        name = type(self).__name__
        return f"{name}(grid={self.grid!r}, timezone={self.timezone!r}, private rows not shown)"

    @abstractmethod
    def listed(self, customer_list: Sequence[str]) -> "DistributedProfiles":
        """Return one profile for each customer on a public list: NaN for one without a profile."""

    @abstractmethod
    def write_parquet(self, path: str | Path) -> None:
        """Write the profiles to a new folder, which `Profiles.read_parquet` reads."""
