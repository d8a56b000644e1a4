"""Wattveil: publish what smart meters know, with differential privacy.

>>> from wattveil import load_shapes
>>> from wattveil.simulate import simulate_load_kw
>>> shapes = load_shapes(simulate_load_kw(customers=500), epsilon=1.0, delta=1e-6)
>>> shapes.guarantee.tier.value
'global'
"""

from wattveil.errors import WattveilError
from wattveil.ingest import read_readings
from wattveil.instance.kmeans import LeaveOneOutKMeans
from wattveil.privacy.guarantee import Guarantee, Neighbours, Tier, Unit
from wattveil.profiles import Profiles, hours_from_readings, profiles_from_readings
from wattveil.release.duration import LoadDuration, load_duration_curve
from wattveil.release.kmeans import PrivateKMeans, private_kmeans_by_class
from wattveil.release.labels import release_labels
from wattveil.release.shapes import LoadShapes, load_shapes
from wattveil.release.shares import cluster_shares
from wattveil.release.synthetic import LoadSynthesizer
from wattveil.release.years import YearSynthesizer

__all__ = [
    "Guarantee",
    "LeaveOneOutKMeans",
    "LoadDuration",
    "LoadShapes",
    "LoadSynthesizer",
    "Neighbours",
    "PrivateKMeans",
    "Profiles",
    "Tier",
    "Unit",
    "WattveilError",
    "YearSynthesizer",
    "cluster_shares",
    "hours_from_readings",
    "load_duration_curve",
    "load_shapes",
    "private_kmeans_by_class",
    "profiles_from_readings",
    "read_readings",
    "release_labels",
]
