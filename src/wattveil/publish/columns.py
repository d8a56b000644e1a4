"""Columns that several tables have, and the shapes tables are made of."""

from collections.abc import Sequence

import numpy as np

from wattveil.clustering.geometry import Floats
from wattveil.clustering.transforms import clip_rms
from wattveil.privacy.sensitivity import IntArray
from wattveil.publish.tables import Column

GROUP = Column(name="group", text="value of the public attribute; all: every customer")
CLUSTER = Column(name="cluster", text="number of the cluster", least=0.0)
SLOT = Column(name="slot", text="column of the profile, in order", least=0.0)
TIME = Column(name="time", text="start of the slot, local time")
LOAD_KW = Column(name="load_kw", text="mean load", unit="kW")
STD_KW = Column(name="std_kw", text="standard error, from the known noise", unit="kW", least=0.0)
CUSTOMERS = Column(name="customers", text="noisy number of customers")
CUSTOMERS_STD = Column(name="customers_std", text="its standard error", least=0.0)

CLIPPED = "means that noise carried beyond the public bound on customers are scaled back to it"


def within(means: Floats, clip_kw: float | None) -> Floats:
    """Scale means back to the bound of the customers: no true mean is beyond it."""
    return means if clip_kw is None else clip_rms(means, clip_kw)


def crossed(outer: Sequence[str], inner: int) -> tuple[list[str], IntArray]:
    """Return each outer value with each number below ``inner``, as two columns."""
    return [value for value in outer for _ in range(inner)], np.tile(np.arange(inner), len(outer))
