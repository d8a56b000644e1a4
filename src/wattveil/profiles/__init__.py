"""Readings to profiles: one row of kW a customer.

>>> from wattveil.ingest import read_readings
>>> from wattveil.profiles import Grid, profiles_from_readings
>>> readings = read_readings("readings.parquet", timezone="Europe/London")  # doctest: +SKIP
>>> profiles = profiles_from_readings(readings, grid=Grid(minutes=30))  # doctest: +SKIP
>>> profiles.load_kw.shape  # doctest: +SKIP
(1014, 48)
"""

from wattveil.profiles.build import ProfileBuild, build_profiles, profiles_from_readings
from wattveil.profiles.grid import Grid, Split
from wattveil.profiles.hours import Hours, covered_days, hours_from_readings
from wattveil.profiles.table import Profiles

__all__ = [
    "Grid",
    "Hours",
    "ProfileBuild",
    "Profiles",
    "Split",
    "build_profiles",
    "covered_days",
    "hours_from_readings",
    "profiles_from_readings",
]
