"""Stops for data that contradict themselves: registers, implausible loads, overlapping intervals.

A unit that is wrong a thousandfold, a register that is added up, or an interval length that does
not fit the distance of rows gives a table that looks like any other. So a sample of the rows is
tested before anything is computed, and rejected with the evidence.
"""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from wattveil.errors import InvalidFileError
from wattveil.readings.formats.table import TableRows
from wattveil.readings.options import OTHER_UNIT, Implausible, MeasuredIn, ReadOptions
from wattveil.readings.row_checks import kwh_sql
from wattveil.readings.sources import Scan
from wattveil.readings.timestamps import DAY_US, MINUTE_US

MAX_MEDIAN_KW = 100.0
"""Largest plausible median of the customers' mean loads, in kW."""

_SAMPLE_ROWS = 50_000
_FILE_ROWS = 2_000
_MAX_FILE_RATIO = 20
_SHOWN_FILES = 3
MAX_COMPARED_FILES = 200
_MIN_READS = 24  # fewer prove nothing
_MIN_RISES = 5
_MAX_FALLS = 0.05  # share of steps of a register: a reset every day of hours is 0.04
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
    """Reject values that contradict the options: registers, loads, lengths, overlaps."""
    if options.implausible is Implausible.ACCEPT:
        return
    if rows.cumulative:
        _refuse_falling(connection, rows, path)
        return
    if rows.infers_minutes:
        _refuse_other_lengths(connection, rows, path)
    elif options.minutes is not None:
        _refuse_stated_minutes(connection, rows, options.minutes, path)
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
        raise implausible_median(path, median_kw)


def implausible_median(path: object, median_kw: float) -> InvalidFileError:
    """Return the error about a median load of customers that no unit of homes explains."""
    bound = f"{MAX_MEDIAN_KW:g} kW"
    told = (path, "values", f"a median load of at most {bound}", f"{median_kw:,.0f} kW")
    problem = f": the median load is {median_kw:,.0f} kW, above {bound}"
    remedy = "Check `unit`, or pass implausible='accept'"
    return InvalidFileError(*told, problem=problem, remedy=remedy)


def _refuse_falling(connection: duckdb.DuckDBPyConnection, rows: TableRows, path: object) -> None:
    """Reject registers of many customers that often go backwards: they are energy of intervals."""
    part = ", register" if rows.has_registers else ""
    [(falling, customers, falls, steps)] = connection.execute(f"""
        WITH steps AS (
            SELECT meter, value - lag(value) OVER (
                       PARTITION BY meter, channel{part} ORDER BY stamp_us) AS rise
            FROM (SELECT * FROM ({rows.sql()})
                  WHERE isfinite(value) AND stamp_us IS NOT NULL LIMIT {_SAMPLE_ROWS})
        ), each AS (
            SELECT count(*) FILTER (rise < 0) AS falls, count(rise) AS steps
            FROM steps GROUP BY meter HAVING count(*) >= {_MIN_READS}
        )
        SELECT count(*) FILTER (falls > {_MAX_FALLS} * steps), count(*), sum(falls), sum(steps)
        FROM each
    """).fetchall()
    if not decide_for_all(falling, customers):
        return
    evidence = (
        f"{math.floor(100 * falls / steps)} % of the steps between registers go backwards, for"
        f" {falling} of {customers} customers"
    )
    told = (path, "values", "registers, which rise", evidence)
    remedy = "Omit `cumulative` if values are the energy of intervals, or pass implausible='accept'"
    raise InvalidFileError(*told, problem=f": {evidence}", remedy=remedy)


def other_unit_files(
    connection: duckdb.DuckDBPyConnection, rows: TableRows, scans: Mapping[Path, Scan]
) -> tuple[str, ...]:
    """Return a note on files whose median value is far from those of the others.

    The first rows of each file of a plain table decide; `OTHER_UNIT` is part of the note.
    """
    medians = {}
    for path, scan in scans.items():
        sample = replace(rows, scan=scan, minutes=rows.minutes or 60).sql()
        try:
            found = connection.execute(f"""
                SELECT quantile_cont(abs(value), 0.5), count(*)
                FROM (SELECT value FROM ({sample}) WHERE isfinite(value) AND value <> 0
                      LIMIT {_FILE_ROWS})
            """).fetchall()[0]
        except duckdb.BinderException:  # its columns have other types than in all files together
            continue
        if found[1] >= _MIN_READS:
            medians[path] = float(found[0])
    if not medians:
        return ()
    usual = statistics.median_low(medians.values())
    notes = [
        f"{path.name}{OTHER_UNIT}its median value is {median:.3g}, the usual one {usual:.3g}"
        for path, median in medians.items()
        if max(median, usual) > _MAX_FILE_RATIO * min(median, usual)
    ]
    return tuple(notes[:_SHOWN_FILES])


def _refuse_other_lengths(
    connection: duckdb.DuckDBPyConnection, rows: TableRows, path: object
) -> None:
    """Reject an inferred length if the readings of many customers usually have another gap.

    Energy of an hour that is read as that of half an hour is twice the load. A single customer is
    left to the profiles, so that nobody's rows decide whether the others are read.
    """
    found = _usual_gaps(connection, rows)
    others = [gap for gap in found if gap.minutes != rows.minutes]
    customers, differ = (sum(gap.customers for gap in some) for some in (found, others))
    if not decide_for_all(differ, customers):
        return
    minutes, name = others[0].minutes, others[0].example
    expected = (
        f"one interval length ({rows.minutes} minutes is the most common), {_EACH_LENGTH}, or"
        " minutes=… with implausible='accept' if all are of that length"
    )
    evidence = (
        f"readings of {differ} of {customers} customers at another spacing,"
        f" such as {minutes:g} minutes for {name!r}"
    )
    raise InvalidFileError(path, "interval lengths", expected, evidence)


def _refuse_stated_minutes(
    connection: duckdb.DuckDBPyConnection, rows: TableRows, stated: int, path: object
) -> None:
    """Reject the caller's length if the readings of many customers usually have a longer gap.

    A shorter gap is an overlap.
    """
    found = _usual_gaps(connection, rows)
    longer = [gap for gap in found if gap.minutes > stated]
    customers, differ = (sum(gap.customers for gap in some) for some in (found, longer))
    if decide_for_all(differ, customers):
        usual = longer[0]
        share = f"{math.floor(100 * usual.share)} % of the readings of a customer"
        evidence = f"{share} are {usual.minutes:g} minutes apart"
        raise contradicted_minutes(path, stated, evidence, _missing(usual.minutes / stated))


def decide_for_all(differ: int, customers: int) -> bool:
    """Whether so many customers differ that the source is refused.

    A single one among several never decides whether the others are read.
    """
    return differ > _MAX_OTHER_LENGTHS * customers and not differ <= 1 < customers - 1


def contradicted_minutes(path: object, stated: int, evidence: str, unless: str) -> InvalidFileError:
    """Return the error about a length of intervals that the data contradict."""
    told = (path, "interval lengths", f"intervals of {stated} minutes", evidence)
    problem = f": minutes={stated} contradicts the file: {evidence}"
    remedy = f"Omit `minutes`, or pass implausible='accept' if {unless}"
    return InvalidFileError(*told, problem=problem, remedy=remedy)


def _missing(times: float) -> str:
    """Return which readings must be missing for a gap of so many intervals."""
    if times == 2:  # noqa: PLR2004 - every second one
        return "half of the readings are missing"
    return (
        f"{times - 1:g} of {times:g} readings are missing" if times.is_integer() else "it is right"
    )


@dataclass(frozen=True)
class _Gap:
    """A usual gap between the readings of a customer, and who has it."""

    minutes: float
    customers: int
    example: str
    share: float  # of the gaps of these customers


def _usual_gaps(connection: duckdb.DuckDBPyConnection, rows: TableRows) -> list[_Gap]:
    """Return the usual gaps of customers with enough readings, the most frequent first."""
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
            SELECT meter, usual_us / {MINUTE_US} AS minutes,
                   count(*) FILTER (distance_us = usual_us) / count(*) AS share
            FROM steps JOIN usual USING (meter)
            WHERE distance_us > 0 GROUP BY meter, usual_us
            HAVING count(*) >= {_MIN_READS} - 1
                AND count(*) FILTER (distance_us % usual_us = 0) >= {_MULTIPLES} * count(*)
        )
        SELECT minutes, count(*), min(meter), avg(share) FROM known
        GROUP BY minutes ORDER BY count(*) DESC
    """).fetchall()
    return [_Gap(*row) for row in found]


def _is_long() -> str:
    return f"reads >= {_MIN_READS} AND span_us >= {DAY_US}"
