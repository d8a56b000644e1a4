"""Wattveil: publish what smart meters know, with differential privacy.

>>> from wattveil import mean_load_shape
>>> from wattveil.simulate import simulate_load_kw
>>> shape = mean_load_shape(simulate_load_kw(customers=500), clip_kw=2.0, epsilon=1.0, delta=1e-6)
>>> shape.guarantee.tier.value
'global'
"""

from wattveil.errors import WattveilError
from wattveil.ingest import read_readings
from wattveil.privacy.guarantee import Guarantee, Neighbours, Tier, Unit
from wattveil.profiles import Profiles, profiles_from_readings
from wattveil.release.instance import LeaveOneOutKMeans
from wattveil.release.shapes import LoadShape, mean_load_shape

__all__ = [
    "Guarantee",
    "LeaveOneOutKMeans",
    "LoadShape",
    "Neighbours",
    "Profiles",
    "Tier",
    "Unit",
    "WattveilError",
    "mean_load_shape",
    "profiles_from_readings",
    "read_readings",
]
