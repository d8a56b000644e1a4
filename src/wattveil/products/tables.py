"""Tables of released numbers, their columns, and their layouts, against which files are checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from wattveil.arrays import Floats, Ints
from wattveil.numerics.kmeans.instance_query import clip_rms
from wattveil.privacy.mechanisms.contributions import STEP


@dataclass(frozen=True, kw_only=True)
class Column:
    """Meaning of a column, and the constraints on its values."""

    name: str
    text: str
    type: str = "double"
    """As Arrow has it: double, int64 or string."""
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    grid_step: float | None = None
    """Values are whole multiples of this: they are stored as drawn."""
    may_be_empty: bool = False
    """NaN is written as an empty cell: an unknown number."""

    def to_json(self) -> dict[str, object]:
        """Return the fields that are set."""
        fields = {"name": self.name, "text": self.text, "type": self.type, "unit": self.unit}
        limits = {"min": self.minimum, "max": self.maximum, "grid_step": self.grid_step}
        known = {**fields, **limits, "may_be_empty": self.may_be_empty or None}
        return {key: value for key, value in known.items() if value not in {None, ""}}


# Columns that several tables share.
GROUP = Column(
    name="group", text="value of the public attribute, or all for all customers", type="string"
)
CLUSTER = Column(name="cluster", text="number of the segment, from 0", type="int64", minimum=0.0)
SLOT = Column(name="slot", text="position in the profile, from 0", type="int64", minimum=0.0)
TIME = Column(name="time", text="start of the slot, local time", type="string")
LOAD_KW = Column(name="load_kw", text="mean load", unit="kW")
STD_KW = Column(name="std_kw", text="standard error, from the known noise", unit="kW", minimum=0.0)
SHAPE = Column(name="shape", text="mean load, each customer scaled to unit L2 norm")
SHAPE_STD = replace(STD_KW, name="shape_std", unit="")
CUSTOMERS = Column(name="customers", text="noisy number of customers")
CUSTOMERS_STD = Column(name="customers_std", text="its standard error", minimum=0.0)
COUNT = Column(name="count", text="noisy number of customers, as drawn", grid_step=STEP)
COUNT_STD = replace(CUSTOMERS_STD, name="count_std")
SHARE = Column(name="share", text="share of the group", minimum=0.0, maximum=1.0)
SHARE_STD = replace(SHARE, name="share_std", text="its standard error")


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """A released table."""

    name: str
    text: str
    columns: tuple[Column, ...]
    data: pa.Table

    def to_json(self) -> dict[str, object]:
        """Return the record of the table in the manifest."""
        columns = [column.to_json() for column in self.columns]
        rows = self.data.num_rows
        return {"name": self.name, "text": self.text, "rows": rows, "columns": columns}

    def column(self, name: str) -> NDArray[Any]:
        """Return a column as an array; an empty cell is 0."""
        values: NDArray[Any] = self.data[name].fill_null(0).to_numpy()
        return values


@dataclass(frozen=True, kw_only=True, eq=False)
class TableLayout:
    """A table without its values: all of it that follows from public choices.

    The release fills it in; `verify` builds it again and compares.
    """

    name: str
    text: str
    keys: Mapping[Column, ArrayLike] = field(default_factory=dict)
    """Columns that are known before the release: cluster, slot or group of a row."""
    values: tuple[Column, ...]
    max_rms: float | None = None
    """Of tables of mean load: no true mean exceeds the bound on customers."""

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
        """The columns that are known before the release."""
        return _data(self.keys)

    def within(self, means: Floats) -> Floats:
        """Clip means that exceed the bound because of noise; one row per mean."""
        return means if self.max_rms is None else clip_rms(means, self.max_rms)

    def filled(self, *values: ArrayLike) -> Table:
        """Return the table with these values in its value columns."""
        content = {**self.keys, **dict(zip(self.values, values, strict=True))}
        return Table(name=self.name, text=self.text, columns=self.columns, data=_data(content))


def curve_names(table: Table) -> tuple[str, str]:
    """Return the names of the columns of curves and their errors: in kW, or without a unit."""
    in_kw = LOAD_KW.name in table.data.column_names
    load, std = (LOAD_KW, STD_KW) if in_kw else (SHAPE, SHAPE_STD)
    return load.name, std.name


def crossed(outer: Sequence[str], inner: int) -> tuple[list[str], Ints]:
    """Return each outer value with each number below ``inner``, as two columns."""
    return [value for value in outer for _ in range(inner)], np.tile(np.arange(inner), len(outer))


def _data(columns: Mapping[Column, ArrayLike]) -> pa.Table:
    arrays = [
        pa.array(np.asarray(values).tolist(), column.type, from_pandas=True)  # NaN is empty
        for column, values in columns.items()
    ]
    return pa.table(arrays, names=[column.name for column in columns])
