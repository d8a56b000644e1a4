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
_MAX_OTHER_LENGTHS = 0.1  # share of customers
_EACH_LENGTH = "a column 'minutes' with the length of each row, one file for each length"
_MULTIPLES = 0.9  # of the usual gap, as a share of all: not so if rows are in no order


def check_plausible(
    connection: duckdb.DuckDBPyConnection,
    rows: TableRows,
    unit: MeasuredIn,
    options: ReadOptions,
    path: object,
) -> None:
    """Reject rows that are registers, of an implausible load or several lengths, or overlap."""
    if rows.cumulative or options.implausible is Implausible.ACCEPT:
        return
    if rows.infers_minutes:
        _refuse_other_lengths(connection, rows, path)
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
               (SELECT mode(minutes) FROM steps), (SELECT count(*) FROM steps),
               (SELECT mode(meter) FROM steps
                WHERE distance_us > 0 AND distance_us < minutes::BIGINT * {MINUTE_US}),
               (SELECT count(DISTINCT meter) FROM steps
                WHERE distance_us > 0 AND distance_us < minutes::BIGINT * {MINUTE_US}),
               (SELECT count(DISTINCT meter) FROM steps)
    """).fetchall()[0]
    median_kw, long, rising, shown, pairs, overlapping, distance, minutes, reads = found[:9]
    name, of_shorter, customers = found[9:]
    if reads < _MIN_READS:
        return
    if rising and 2 * rising >= long:
        days, lowest, highest = shown if isinstance(shown, tuple) else tuple(shown.values())
        evidence = f"values that never fall in {days:.1f} days, from {lowest:g} to {highest:g} kWh"
        expected = "energy of intervals, or cumulative=True if values are registers"
        raise InvalidFileError(path, "values", expected, evidence)
    if overlapping > _MAX_OVERLAPPING * max(pairs, 1):
        evidence = (
            f"intervals of {minutes} minutes that begin {distance} minutes apart, such as those of"
            f" {name!r}"
        )
        # One length for all rows is the remedy only if all customers have it.
        remedy = _EACH_LENGTH if of_shorter < customers else "minutes=…"
        expected = f"intervals that do not overlap, {remedy}, or implausible='accept'"
        raise InvalidFileError(path, "interval lengths", expected, evidence)
    if median_kw is not None and median_kw > MAX_MEDIAN_KW:
        bound = f"a median load of at most {MAX_MEDIAN_KW:g} kW"
        expected = f"{bound}, another unit=…, or implausible='accept'"
        raise InvalidFileError(
            path, "values", expected, f"{median_kw:,.0f} kW with unit {unit.value}"
        )


def _refuse_other_lengths(
    connection: duckdb.DuckDBPyConnection, rows: TableRows, path: object
) -> None:
    """Reject an inferred length if the readings of many customers usually have another gap.

    Energy of an hour that is read as that of half an hour is twice the load. A single customer is
    left to the profiles, so that nobody's rows decide whether the others are read.
    """
    found = connection.execute(f"""
        WITH steps AS (
            SELECT meter, stamp_us - lag(stamp_us) OVER (
                       PARTITION BY meter, channel ORDER BY stamp_us) AS distance_us
            FROM (SELECT * FROM ({rows.sql()})
                  WHERE isfinite(value) AND stamp_us IS NOT NULL LIMIT {_SAMPLE_ROWS})
        ), usual AS (
            SELECT meter, mode(distance_us) AS usual_us FROM steps
            WHERE distance_us > 0 GROUP BY meter
        ), known AS (
            SELECT meter, usual_us / {MINUTE_US} AS minutes FROM steps JOIN usual USING (meter)
            WHERE distance_us > 0 GROUP BY meter, usual_us
            HAVING count(*) >= {_MIN_READS} - 1
                AND count(*) FILTER (distance_us % usual_us = 0) >= {_MULTIPLES} * count(*)
        )
        SELECT minutes, count(*), min(meter) FROM known GROUP BY minutes ORDER BY count(*) DESC
    """).fetchall()
    others = [row for row in found if row[0] != rows.minutes]
    customers, differ = sum(row[1] for row in found), sum(row[1] for row in others)
    if not others or (differ <= 1 < customers - 1) or differ <= _MAX_OTHER_LENGTHS * customers:
        return
    minutes, _, name = others[0]
    expected = (
        f"one interval length ({rows.minutes} minutes is the most common), {_EACH_LENGTH}, or"
        " minutes=… if all are of that length"
    )
    evidence = (
        f"readings of {differ} of {customers} customers at another spacing,"
        f" such as {minutes:g} minutes for {name!r}"
    )
    raise InvalidFileError(path, "interval lengths", expected, evidence)


def _is_long() -> str:
    return f"reads >= {_MIN_READS} AND span_us >= {DAY_US}"
