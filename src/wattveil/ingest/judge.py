"""The judgement of single rows: a customer, an energy in kWh, and a reason if the row cannot stay.

What takes more than one row to judge (duplicates, registers, channels, the repeated hour) is in
`settle`.
"""

import datetime as dt
from dataclasses import dataclass

from wattveil.ingest import energy, schema
from wattveil.ingest.options import Estimated, MeasuredIn, ReadOptions
from wattveil.ingest.rows import Rows
from wattveil.ingest.schema import Drop
from wattveil.ingest.sql import one_of
from wattveil.ingest.zones import MINUTE_US

_BLANK = r"(?i)\s*(|null|na|n/a|nan|none|-|--)\s*"


@dataclass(frozen=True)
class Judgement:
    """Expressions over the rows of ``source``.

    Nearly all rows are fine, so ``is_fine`` is asked first and ``reason`` only of the others, where
    it costs nothing.
    """

    source: str  # with columns stamp_us, minutes, channel, quality
    customer: str
    kwh: str
    is_fine: str
    reason: str

    def sql(self, *, in_order: bool = False) -> str:
        """Write the SELECT of judged rows.

        Columns: customer_id, meter, stamp_us, kwh, minutes, channel, quality, reason (0: may stay),
        written, and source_row when ``in_order``.
        """
        return f"""
            SELECT {self.customer} AS customer_id, meter, stamp_us, {self.kwh} AS kwh, minutes,
                   channel, quality,
                   CASE WHEN {self.is_fine} THEN 0 ELSE {self.reason} END::TINYINT AS reason,
                   {"source_row," if in_order else ""}
                   written
            FROM {self.source}
        """


def judge(
    rows: Rows, unit: MeasuredIn, options: ReadOptions, *, in_order: bool = False
) -> Judgement:
    """Judge the rows of a source."""
    source, customer = f"({rows.sql(in_order=in_order)})", "customer"
    if options.meters is not None:
        customer = "meters.customer_id"
        source = f"{source} LEFT JOIN meters ON meters.meter_id = meter"
    kwh = energy.kwh(unit, "minutes")
    # What a register says is no load yet: `settle` looks at its differences.
    possible = "isfinite(value)"
    if unit is not MeasuredIn.REGISTER:
        possible = energy.possible(kwh, "minutes")
    if rows.has_channels and unit is not MeasuredIn.REGISTER:
        # Senders write received energy with either sign; here it is negative load.
        kwh = f"CASE WHEN channel = {schema.RECEIVED} THEN -abs({kwh}) ELSE {kwh} END"
    is_fine = _is_fine(rows, options, customer, possible)
    return Judgement(source, customer, kwh, is_fine, _reason(customer, possible))


def _is_fine(rows: Rows, options: ReadOptions, customer: str, possible: str) -> str:
    tests = [f"{customer} <> ''", _in_possible_year(), possible]
    if rows.has_days:
        tests.append("NOT beyond_day")
    if rows.minutes is None:
        tests.append(one_of("minutes", schema.ALLOWED_MINUTES))
    if rows.has_channels:
        tests.append("channel IS NOT NULL")
    if rows.has_qualities:
        drops_estimated = options.estimated is Estimated.DROP
        worst = schema.FIRST_ESTIMATED if drops_estimated else schema.MISSING
        tests.append(f"quality < {worst}")
    return " AND ".join(tests)


def _reason(customer: str, possible: str) -> str:
    """Write the CASE that finds the first reason against a row that is not fine."""
    return f"""
        CASE WHEN customer IS NULL OR customer = '' THEN {Drop.NO_CUSTOMER}
             WHEN {customer} IS NULL THEN {Drop.UNMAPPED_METER}
             WHEN stamp_us IS NULL THEN {Drop.BAD_STAMP}
             WHEN NOT {_in_possible_year()} THEN {Drop.IMPOSSIBLE_YEAR}
             WHEN beyond_day AND value IS NULL THEN {Drop.EMPTY_SLOT_BEYOND_DAY}
             WHEN beyond_day THEN {Drop.VALUE_BEYOND_DAY}
             WHEN quality = {schema.MISSING} THEN {Drop.MARKED_MISSING}
             WHEN value_written IS NULL OR regexp_full_match(value_written::VARCHAR, '{_BLANK}')
                 THEN {Drop.NO_VALUE}
             WHEN value IS NULL THEN {Drop.BAD_VALUE}
             WHEN NOT isfinite(value) THEN {Drop.NOT_FINITE}
             WHEN {one_of("minutes", schema.ALLOWED_MINUTES)} IS NOT TRUE THEN {Drop.BAD_MINUTES}
             WHEN NOT {possible} THEN {Drop.IMPOSSIBLE_LOAD}
             WHEN channel IS NULL THEN {Drop.UNKNOWN_CHANNEL}
             ELSE {Drop.ESTIMATED}
        END
    """


def _in_possible_year() -> str:
    first, end = (
        int(dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()) // 60 * MINUTE_US
        for year in (schema.EARLIEST_YEAR, schema.LATEST_YEAR + 1)
    )
    return f"(stamp_us BETWEEN {first} AND {end - 1})"
