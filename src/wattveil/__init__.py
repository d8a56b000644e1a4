"""Wattveil: smart-meter statistics under differential privacy.

>>> from wattveil import load_shapes
>>> from wattveil.simulate import simulate_load_kw
>>> shapes = load_shapes(simulate_load_kw(customers=500), epsilon=1.0, delta=1e-6)
>>> shapes.guarantee.tier.value
'global'

A module is loaded when a name of it is first used.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

from wattveil.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from wattveil.bundle.published_series import LoadSeries
    from wattveil.bundle.release_tables import Bundle, read_bundle
    from wattveil.errors import WattveilError
    from wattveil.privacy.guarantee import Guarantee, Neighbours, Tier, Unit
    from wattveil.profiles import Profiles, hours_from_readings, profiles_from_readings
    from wattveil.readings import read_readings
    from wattveil.release.cluster_shares import cluster_shares
    from wattveil.release.group_load import (
        LoadDuration,
        LoadShapes,
        load_duration_curve,
        load_shapes,
    )
    from wattveil.release.instance import LeaveOneOutKMeans
    from wattveil.release.kmeans import PrivateKMeans, private_kmeans_by_class
    from wattveil.release.randomised_labels import release_labels
    from wattveil.release.synthetic import LoadSynthesizer, YearSynthesizer
    from wattveil.server.client import connect

__all__ = [
    "Bundle",
    "Guarantee",
    "LeaveOneOutKMeans",
    "LoadDuration",
    "LoadSeries",
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
    "connect",
    "hours_from_readings",
    "load_duration_curve",
    "load_shapes",
    "private_kmeans_by_class",
    "profiles_from_readings",
    "read_bundle",
    "read_readings",
    "release_labels",
]

_SUBMODULES = ("bundle", "errors", "grid", "profiles", "readings", "simulate")
"""Packages whose names are public, too; each has a list of its own."""

_MODULES = {
    "Bundle": "bundle.release_tables",
    "Guarantee": "privacy.guarantee",
    "LeaveOneOutKMeans": "release.instance",
    "LoadDuration": "release.group_load",
    "LoadSeries": "bundle.published_series",
    "LoadShapes": "release.group_load",
    "LoadSynthesizer": "release.synthetic",
    "Neighbours": "privacy.guarantee",
    "PrivateKMeans": "release.kmeans",
    "Profiles": "profiles",
    "Tier": "privacy.guarantee",
    "Unit": "privacy.guarantee",
    "WattveilError": "errors",
    "YearSynthesizer": "release.synthetic",
    "cluster_shares": "release.cluster_shares",
    "connect": "server.client",
    "hours_from_readings": "profiles",
    "load_duration_curve": "release.group_load",
    "load_shapes": "release.group_load",
    "private_kmeans_by_class": "release.kmeans",
    "profiles_from_readings": "profiles",
    "read_bundle": "bundle.release_tables",
    "read_readings": "readings",
    "release_labels": "release.randomised_labels",
}

if not TYPE_CHECKING:  # a type checker knows the names above, and would believe in any other
    _of_release = {module for module in _MODULES.values() if module.startswith("release.")}
    _load = _lazy_names(__name__, _MODULES, of_release=_of_release)

    def __getattr__(name: str) -> object:
        """Load a public name; it then stays in the namespace."""
        if name == "__version__":
            return version(__name__)
        return import_module(f"{__name__}.{name}") if name in _SUBMODULES else _load(name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_SUBMODULES])
