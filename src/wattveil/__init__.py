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
from wattveil.release.kmeans import PrivateKMeans, private_kmeans_by_class
from wattveil.release.labels import release_labels
from wattveil.release.shapes import LoadShape, mean_load_shape
from wattveil.release.shares import cluster_shares

__all__ = [
    "Guarantee",
    "LeaveOneOutKMeans",
    "LoadShape",
    "Neighbours",
    "PrivateKMeans",
    "Profiles",
    "Tier",
    "Unit",
    "WattveilError",
    "cluster_shares",
    "mean_load_shape",
    "private_kmeans_by_class",
    "profiles_from_readings",
    "read_readings",
    "release_labels",
]
