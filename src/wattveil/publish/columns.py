"""Columns that several tables have, and the shapes tables are made of."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wattveil.privacy.private_rows import IntArray
from wattveil.publish.tables import Column, Table

GROUP = Column(
    name="group", text="value of the public attribute; all: every customer", type="string"
)
CLUSTER = Column(name="cluster", text="number of the cluster", type="int64", least=0.0)
SLOT = Column(name="slot", text="column of the profile, in order", type="int64", least=0.0)
TIME = Column(name="time", text="start of the slot, local time", type="string")
LOAD_KW = Column(name="load_kw", text="mean load", unit="kW")
STD_KW = Column(name="std_kw", text="standard error, from the known noise", unit="kW", least=0.0)
SHAPE = Column(name="shape", text="mean load over the length of a customer's row")
SHAPE_STD = replace(STD_KW, name="shape_std", unit="")
CUSTOMERS = Column(name="customers", text="noisy number of customers")
CUSTOMERS_STD = Column(name="customers_std", text="its standard error", least=0.0)


def curve_names(table: Table) -> tuple[str, str]:
    """Return the columns in which a table has its curves and their errors: in kW, or of no unit."""
    in_kw = LOAD_KW.name in table.data.column_names
    load, std = (LOAD_KW, STD_KW) if in_kw else (SHAPE, SHAPE_STD)
    return load.name, std.name


def crossed(outer: Sequence[str], inner: int) -> tuple[list[str], IntArray]:
    """Return each outer value with each number below ``inner``, as two columns."""
    return [value for value in outer for _ in range(inner)], np.tile(np.arange(inner), len(outer))
