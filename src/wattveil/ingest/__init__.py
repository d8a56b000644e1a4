"""Meter data in, one long table of readings out.

>>> from wattveil.ingest import read_readings
>>> readings = read_readings("readings.csv", timezone="Europe/London")  # doctest: +SKIP
>>> readings.report.rows_in == readings.report.rows_out  # doctest: +SKIP
"""

from wattveil.ingest.read import read_readings
from wattveil.ingest.readings import Readings
from wattveil.ingest.report import IngestReport

__all__ = ["IngestReport", "Readings", "read_readings"]
