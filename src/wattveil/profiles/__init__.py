"""PRIVATE. Readings to profiles: one row of kW per customer.

>>> from wattveil.readings import read_readings
>>> from wattveil.profiles import TimeGrid, profiles_from_readings
>>> readings = read_readings("readings.parquet", timezone="Europe/London")  # doctest: +SKIP
>>> profiles = profiles_from_readings(readings, grid=TimeGrid(minutes=30))  # doctest: +SKIP
>>> profiles.load_kw.shape  # doctest: +SKIP
(1014, 48)
"""

from typing import TYPE_CHECKING

from wattveil.lazy_names import lazy_names

if TYPE_CHECKING:
    from wattveil.profiles.build import ProfileBuild, build_profiles, profiles_from_readings
    from wattveil.profiles.hours import Hours, covered_days, hours_from_readings
    from wattveil.profiles.profiles import ProfileRules, Profiles
    from wattveil.profiles.time_grid import Split, TimeGrid

__all__ = [
    "Hours",
    "ProfileBuild",
    "ProfileRules",
    "Profiles",
    "Split",
    "TimeGrid",
    "build_profiles",
    "covered_days",
    "hours_from_readings",
    "profiles_from_readings",
]

if not TYPE_CHECKING:  # readings are averaged with DuckDB, which comes with an extra
    __getattr__ = lazy_names(
        __name__,
        {
            "Hours": "hours",
            "ProfileBuild": "build",
            "ProfileRules": "profiles",
            "Profiles": "profiles",
            "Split": "time_grid",
            "TimeGrid": "time_grid",
            "build_profiles": "build",
            "covered_days": "hours",
            "hours_from_readings": "hours",
            "profiles_from_readings": "build",
        },
        of_release=["build", "hours"],
    )


def __dir__() -> list[str]:
    return list(__all__)
