"""Stops for data that contradict themselves: registers, implausible loads, overlapping intervals.

A unit that is wrong a thousandfold, a register that is added up, or an interval length that does
not fit the distance of rows gives a table that looks like any other. So a sample of the rows is
tested before anything is computed, and rejected with the evidence.
"""

import duckdb

from wattveil.errors import InvalidFileError
from wattveil.readings.formats.table import TableRows
from wattveil.readings.options import Implausible, MeasuredIn, ReadOptions
from wattveil.readings.row_checks import kwh_sql
from wattveil.readings.timestamps import DAY_US, MINUTE_US

MAX_MEDIAN_KW = 100.0
"""Largest plausible median of the customers' mean loads, in kW."""

_SAMPLE_ROWS = 50_000
_MIN_READS = 24  # fewer prove nothing
_MIN_RISES = 5
_RISES = f"falls = 0 AND rises >= {_MIN_RISES}"
_MAX_OVERLAPPING = 0.1  # share of rows


def check_plausible(
    connection: duckdb.DuckDBPyConnection,
    rows: TableRows,
    unit: MeasuredIn,
    options: ReadOptions,
    path: object,
) -> None:
    """Reject rows that are registers, of an implausible load, or that overlap."""
    if rows.cumulative or options.implausible is Implausible.ACCEPT:
        return
    part = ", register" if rows.has_registers else ""
    sample = f"""(
        SELECT meter, channel{part}, stamp_us, minutes, {kwh_sql(unit, "minutes")} AS kwh
        FROM ({rows.sql()}) WHERE isfinite(value) AND stamp_us IS NOT NULL LIMIT {_SAMPLE_ROWS}
    )"""
    series = f"(PARTITION BY meter, channel{part} ORDER BY stamp_us)"
    found = connection.execute(f"""
        WITH steps AS (
            SELECT *, kwh - lag(kwh) OVER {series} AS rise,
                   stamp_us - lag(stamp_us) OVER {series} AS distance_us
            FROM {sample}
        ), each AS (
            SELECT meter, count(*) AS reads, max(stamp_us) - min(stamp_us) AS span_us,
                   count(*) FILTER (rise < 0) AS falls, count(*) FILTER (rise > 0) AS rises,
                   min(kwh) AS lowest, max(kwh) AS highest
            FROM steps GROUP BY meter, channel{part}
        )
        SELECT (SELECT quantile_disc(abs(kw), 0.5) FROM (
                    SELECT avg(kwh * 60 / minutes) AS kw FROM steps GROUP BY meter)),
               (SELECT count(*) FROM each WHERE {_is_long()}),
               (SELECT count(*) FROM each WHERE {_is_long()} AND {_RISES}),
               (SELECT max((span_us / {DAY_US}, lowest, highest)) FROM each
                WHERE {_is_long()} AND {_RISES}),
               (SELECT count(*) FROM steps WHERE distance_us > 0),
               (SELECT count(*) FROM steps
                WHERE distance_us > 0 AND distance_us < minutes::BIGINT * {MINUTE_US}),
               (SELECT mode(distance_us // {MINUTE_US}) FROM steps
                WHERE distance_us > 0 AND distance_us < minutes::BIGINT * {MINUTE_US}),
               (SELECT mode(minutes) FROM steps), (SELECT count(*) FROM steps)
    """).fetchall()[0]
    median_kw, long, rising, shown, pairs, overlapping, distance, minutes, reads = found
    if reads < _MIN_READS:
        return
    if rising and 2 * rising >= long:
        days, lowest, highest = shown if isinstance(shown, tuple) else tuple(shown.values())
        evidence = f"values that never fall in {days:.1f} days, from {lowest:g} to {highest:g} kWh"
        expected = "energy of intervals, or cumulative=True if values are registers"
        raise InvalidFileError(path, "values", expected, evidence)
    if overlapping > _MAX_OVERLAPPING * max(pairs, 1):
        evidence = f"intervals of {minutes} minutes that begin {distance} minutes apart"
        expected = "intervals that do not overlap, minutes=…, or implausible='accept'"
        raise InvalidFileError(path, "interval lengths", expected, evidence)
    if median_kw is not None and median_kw > MAX_MEDIAN_KW:
        bound = f"a median load of at most {MAX_MEDIAN_KW:g} kW"
        expected = f"{bound}, another unit=…, or implausible='accept'"
        raise InvalidFileError(
            path, "values", expected, f"{median_kw:,.0f} kW with unit {unit.value}"
        )


def _is_long() -> str:
    return f"reads >= {_MIN_READS} AND span_us >= {DAY_US}"
