"""Tables of released numbers, each column with what it is: enough to check a file against."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike


@dataclass(frozen=True, kw_only=True)
class Column:
    """What a column holds, and what every value of it must obey."""

    name: str
    text: str
    unit: str = ""
    least: float | None = None
    most: float | None = None
    grid_step: float | None = None
    """Values are whole multiples of this: they stand as they were drawn."""
    may_be_empty: bool = False
    """NaN is written as an empty cell: a number that is not known."""

    def to_json(self) -> dict[str, object]:
        """Return the fields that say something."""
        fields = {"name": self.name, "text": self.text, "unit": self.unit}
        limits = {"least": self.least, "most": self.most, "grid_step": self.grid_step}
        known = {**fields, **limits, "may_be_empty": self.may_be_empty or None}
        return {key: value for key, value in known.items() if value not in {None, ""}}


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """A released table."""

    name: str
    text: str
    columns: tuple[Column, ...]
    data: pa.Table

    @classmethod
    def of(cls, name: str, text: str, columns: Mapping[Column, ArrayLike]) -> "Table":
        """Make a table of columns of equal length."""
        data = {column.name: _array(values) for column, values in columns.items()}
        return cls(name=name, text=text, columns=tuple(columns), data=pa.table(data))

    def to_json(self) -> dict[str, object]:
        """Return what a statement says of the table."""
        columns = [
            {**column.to_json(), "type": str(self.data.schema.field(column.name).type)}
            for column in self.columns
        ]
        rows = self.data.num_rows
        return {"name": self.name, "text": self.text, "rows": rows, "columns": columns}


def _array(values: ArrayLike) -> pa.Array:
    """Return an Arrow array of int64, float64 or strings."""
    array = np.asarray(values)
    kind = {"i": pa.int64(), "f": pa.float64()}.get(array.dtype.kind, pa.string())
    return pa.array(array.tolist(), kind, from_pandas=True)  # NaN is an empty cell
