"""PRIVATE. Meter data as one long table of readings.

>>> from wattveil.readings import read_readings
>>> readings = read_readings("readings.csv", timezone="Europe/London")  # doctest: +SKIP
>>> readings.report.rows_in == readings.report.rows_out  # doctest: +SKIP
"""

from wattveil.readings.options import ReadOptions
from wattveil.readings.readings import Readings, read_readings
from wattveil.readings.row_checks import ReadingReport

__all__ = ["ReadOptions", "ReadingReport", "Readings", "read_readings"]


def __dir__() -> list[str]:
    return list(__all__)
