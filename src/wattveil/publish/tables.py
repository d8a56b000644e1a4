"""Tables of released numbers, each column with what it is: enough to check a file against."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from wattveil.clustering.geometry import Floats
from wattveil.clustering.transforms import clip_rms


@dataclass(frozen=True, kw_only=True)
class Column:
    """What a column holds, and what every value of it must obey."""

    name: str
    text: str
    type: str = "double"
    """As Arrow has it: double, int64 or string."""
    unit: str = ""
    least: float | None = None
    most: float | None = None
    grid_step: float | None = None
    """Values are whole multiples of this: they stand as they were drawn."""
    may_be_empty: bool = False
    """NaN is written as an empty cell: a number that is not known."""

    def to_json(self) -> dict[str, object]:
        """Return the fields that say something."""
        fields = {"name": self.name, "text": self.text, "type": self.type, "unit": self.unit}
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

    def to_json(self) -> dict[str, object]:
        """Return what a statement says of the table."""
        columns = [column.to_json() for column in self.columns]
        rows = self.data.num_rows
        return {"name": self.name, "text": self.text, "rows": rows, "columns": columns}


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """A table before it has numbers: all of it that follows from public choices.

    The release fills it in; `verify` makes it anew and compares.
    """

    name: str
    text: str
    keys: Mapping[Column, ArrayLike] = field(default_factory=dict)
    """Columns known beforehand: which cluster, slot or group a row is about."""
    values: tuple[Column, ...]
    most_rms: float | None = None
    """Of tables of mean load: no true mean is beyond the bound of the customers."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns, in order."""
        return (*self.keys, *self.values)

    @property
    def schema(self) -> pa.Schema:
        """Names and types of all columns."""
        return pa.schema([(column.name, column.type) for column in self.columns])

    @property
    def known(self) -> pa.Table:
        """The columns that are known beforehand."""
        return _data(self.keys)

    def within(self, means: Floats) -> Floats:
        """Scale means that noise carried beyond the bound back to it; a row each."""
        return means if self.most_rms is None else clip_rms(means, self.most_rms)

    def filled(self, *values: ArrayLike) -> Table:
        """Return the table with these values in the columns that were open."""
        content = {**self.keys, **dict(zip(self.values, values, strict=True))}
        return Table(name=self.name, text=self.text, columns=self.columns, data=_data(content))


def _data(columns: Mapping[Column, ArrayLike]) -> pa.Table:
    arrays = [
        pa.array(np.asarray(values).tolist(), column.type, from_pandas=True)  # NaN is empty
        for column, values in columns.items()
    ]
    return pa.table(arrays, names=[column.name for column in columns])
