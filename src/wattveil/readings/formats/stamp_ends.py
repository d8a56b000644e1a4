"""Which end of its interval the time stamp of a table names, where the header does not say.

A table of whole local days in starts goes from 0:00 to 23:30, one in ends from 0:30 to 0:00. If
nearly all customers have the second pattern, stamps are ends. If they begin so and end otherwise,
both are possible: stamps are read as starts, with a warning.
"""

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb

from wattveil.readings.formats.table_columns import INFERRED_START, plain_name
from wattveil.readings.options import UNSURE_START
from wattveil.readings.timestamps import DAY_US, MINUTE_US

if TYPE_CHECKING:  # imports this module
    from wattveil.readings.formats.table import TableRows

SAYS_START = re.compile("start|begin|from|fran|fra|von|van|debut|inizio|inicio")
"""Found in the plain name of a column whose stamps are starts."""
INFERRED_END = "time stamps: end of the interval, as the first is one interval after midnight"
_SAMPLE_ROWS = 50_000
_NEARLY_ALL = 0.9  # share of customers


def with_stamp_ends(
    connection: duckdb.DuckDBPyConnection, rows: "TableRows", names: tuple[str, ...]
) -> "TableRows":
    """Return rows whose stamps are ends if an inferred start contradicts the first and last stamps.

    ``names`` are the columns of the stamp. Staged rows were decided on before.
    """
    said = any(SAYS_START.search(plain_name(name)) for name in names) or rows.has_registers
    if said or rows.stamp.aware or INFERRED_START not in rows.assumptions:
        return rows
    # Tables of starts are recognised by a few rows; only others need a look at all of them.
    first, last, customers = _ends(connection, rows, f"LIMIT {_SAMPLE_ROWS}")
    if max(first, last) < _NEARLY_ALL * max(customers, 1):
        return rows
    first, last, customers = _ends(connection, rows, "")
    if not customers or first < _NEARLY_ALL * customers:
        return rows
    is_end = last >= _NEARLY_ALL * customers
    told = {INFERRED_START: INFERRED_END if is_end else UNSURE_START}
    assumptions = tuple(told.get(text, text) for text in rows.assumptions)
    return replace(rows, end_stamped=is_end, assumptions=assumptions)


def _ends(
    connection: duckdb.DuckDBPyConnection, rows: "TableRows", limit: str
) -> tuple[int, int, int]:
    """Count customers that begin one interval after midnight, that end at midnight, and all.

    In all rows, only customers with readings over a day or more are counted.
    """
    minimum_us = 0 if limit else DAY_US
    found = connection.execute(f"""
        SELECT count(*) FILTER (first_us % {DAY_US} = length_us),
               count(*) FILTER (last_us % {DAY_US} = 0), count(*)
        FROM (
            SELECT min(stamp_us) AS first_us, max(stamp_us) AS last_us,
                   min(minutes)::BIGINT * {MINUTE_US} AS length_us
            FROM (SELECT meter, stamp_us, minutes FROM ({rows.sql()})
                  WHERE stamp_us IS NOT NULL {limit})
            GROUP BY meter
        ) WHERE last_us - first_us + length_us >= {minimum_us}
    """).fetchall()[0]
    return int(found[0]), int(found[1]), int(found[2])
