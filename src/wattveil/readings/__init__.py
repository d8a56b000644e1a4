"""PRIVATE. Meter data as one long table of readings.

>>> from wattveil.readings import read_readings
>>> readings = read_readings("readings.csv", timezone="Europe/London")  # doctest: +SKIP
>>> readings.report.rows_in == readings.report.rows_out  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from wattveil.lazy_names import lazy_names

if TYPE_CHECKING:
    from wattveil.readings.options import ReadOptions
    from wattveil.readings.readings import Readings, read_readings
    from wattveil.readings.row_checks import ReadingReport

__all__ = ["ReadOptions", "ReadingReport", "Readings", "read_readings"]

if not TYPE_CHECKING:  # files are read with DuckDB, which comes with an extra
    __getattr__ = lazy_names(
        __name__,
        {
            "ReadOptions": "options",
            "ReadingReport": "row_checks",
            "Readings": "readings",
            "read_readings": "readings",
        },
        of_release=["readings"],
    )


def __dir__() -> list[str]:
    return list(__all__)
