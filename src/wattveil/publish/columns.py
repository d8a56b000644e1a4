"""Columns that several tables have, and the shapes tables are made of."""

from collections.abc import Sequence

import numpy as np

from wattveil.privacy.sensitivity import IntArray
from wattveil.publish.tables import Column

GROUP = Column(
    name="group", text="value of the public attribute; all: every customer", type="string"
)
CLUSTER = Column(name="cluster", text="number of the cluster", type="int64", least=0.0)
SLOT = Column(name="slot", text="column of the profile, in order", type="int64", least=0.0)
TIME = Column(name="time", text="start of the slot, local time", type="string")
LOAD_KW = Column(name="load_kw", text="mean load", unit="kW")
STD_KW = Column(name="std_kw", text="standard error, from the known noise", unit="kW", least=0.0)
CUSTOMERS = Column(name="customers", text="noisy number of customers")
CUSTOMERS_STD = Column(name="customers_std", text="its standard error", least=0.0)


def crossed(outer: Sequence[str], inner: int) -> tuple[list[str], IntArray]:
    """Return each outer value with each number below ``inner``, as two columns."""
    return [value for value in outer for _ in range(inner)], np.tile(np.arange(inner), len(outer))
