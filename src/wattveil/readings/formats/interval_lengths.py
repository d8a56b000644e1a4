"""Lengths of the intervals of a staged file: stated by caller or file, or the distance of rows."""

import re
from functools import cached_property

from wattveil.errors import InvalidFileError
from wattveil.readings.formats.file_columns import FileColumns
from wattveil.readings.formats.resampling import DAY_MINUTES
from wattveil.readings.formats.table_columns import plain_name
from wattveil.readings.options import Implausible
from wattveil.readings.plausibility import contradicted_minutes, decide_for_all
from wattveil.readings.schema import ALLOWED_MINUTES, MINUTES_TEXT
from wattveil.readings.sql_text import ident, literal
from wattveil.readings.timestamps import DAY_US, MINUTE_US

_UNSTATED = "NULL::INTEGER"


class LengthColumns(FileColumns):
    """Columns of a file, with the length of the interval of each row."""

    _day_minutes: int | None = None
    _end_us = "NULL::BIGINT"

    def _compared_length(self) -> str | None:
        """Return the column of lengths that is not used, because senders state them wrongly."""
        by_stamps = self._known.minutes == "spacing" and self._options.minutes is None
        return self._one("duration") if by_stamps else None

    @cached_property
    def _compared_sql(self) -> str | None:
        """Write the length that the file states, where it is not used; None if it states none."""
        if (column := self._compared_length()) is not None:
            return self._lengths_sql(column)
        if self._options.minutes is None or self._known.minutes == "spacing":
            return None
        if column := self._one("minutes"):
            return self._lengths_sql(column)
        try:
            between = self._between_sql()
        except InvalidFileError:  # ends that cannot be read are no evidence
            return None
        return between if between != _UNSTATED else None

    def _refuse_other_minutes(self, rows: str) -> None:
        """Reject the caller's length if the file states another for many customers."""
        stated = self._options.minutes
        if stated is None or self._options.implausible is Implausible.ACCEPT:
            return
        if self._known.cumulative or self._compared_sql is None:
            return
        found = self._rows(f"""
            SELECT usual, count(*) FROM (
                SELECT customer, mode(stated_minutes) AS usual FROM {rows}
                WHERE stated_minutes IS NOT NULL GROUP BY customer)
            GROUP BY usual ORDER BY count(*) DESC
        """)
        counts = {int(str(usual)): int(str(customers)) for usual, customers in found}
        others = {usual: customers for usual, customers in counts.items() if usual != stated}
        if not decide_for_all(sum(others.values()), sum(counts.values())):
            return
        usual = next(iter(others))
        evidence = f"it states intervals of {usual} minutes"
        raise contradicted_minutes(self._path, stated, evidence, "what it states is wrong")

    def _minutes_sql(self) -> str:
        """Write the length of a row's interval; NULL if the distance of rows decides."""
        if self._options.minutes is not None:
            return str(self._options.minutes)
        if self._day_minutes is not None:
            return str(self._day_minutes)
        if isinstance(self._known.minutes, int):
            return str(self._known.minutes)
        if self._known.minutes == "spacing" or self._known.cumulative:
            return "NULL::INTEGER"
        if column := self._one("minutes"):
            return self._stated_minutes(column)
        return self._between_sql()

    def _stated_minutes(self, column: str) -> str:
        words = {word: _minutes_of(word) for word in self._distinct(self._text(column))}
        unknown = [w for w, minutes in words.items() if minutes is None and plain_name(w)]
        if unknown:
            expected = "lengths such as PT15M, 15 or 60min"
            raise self._refuse(f"column {ident(column)}", expected, unknown[0])
        return self._lengths_sql(column)

    def _lengths_sql(self, column: str) -> str:
        """Write the length that a column states; NULL if it is no length."""
        words = {word: _minutes_of(word) for word in self._distinct(self._text(column))}
        whens = " ".join(
            f"WHEN {literal(word)} THEN {minutes}" for word, minutes in words.items() if minutes
        )
        return f"CASE {self._text(column)} {whens} END" if whens else "NULL::INTEGER"

    def _between_sql(self) -> str:
        """Write the distance of start and end; ends may be the last minute of the interval."""
        end, end_date, end_time = (self._one(r) for r in ("end", "end_date", "end_time"))
        if end:
            text, where = self._text(end), f"column {ident(end)}"
        elif end_time and (day := end_date or self._one("date")):
            text, where = self._joined(day, end_time), f"column {ident(end_time)}"
        else:
            return _UNSTATED
        reader = self._read_stamps(text, where)
        self._end_us = reader.sql
        distance = f"((({reader.sql}) - stamp_us) // {MINUTE_US} + {DAY_MINUTES}) % {DAY_MINUTES}"
        whole = f"(CASE WHEN {distance} % 5 = 4 THEN {distance} + 1 ELSE {distance} END)"
        days = f"(({reader.sql}) - stamp_us) // {MINUTE_US}"
        return (
            f"CASE WHEN {whole} IN {ALLOWED_MINUTES} THEN {whole}"
            f" WHEN {days} >= {DAY_MINUTES - 60} THEN {days} END"
        )

    def _with_minutes(self, rows: str) -> str:
        """Give rows without a length the most common distance of rows on their day."""
        missing = self._rows(f"SELECT count(*) FROM {rows} WHERE minutes IS NULL")[0][0]
        if not missing:
            return rows
        per_day = f"customer, register, channel, stamp_us // {DAY_US}"
        whole = self._rows(f"""
            SELECT mode(us // {MINUTE_US}) FROM (
                SELECT stamp_us - lag(stamp_us) OVER (
                    PARTITION BY customer, register, channel ORDER BY stamp_us) AS us FROM {rows}
            ) WHERE us > 0
        """)[0][0]
        stated = self._rows(f"SELECT mode(minutes) FROM {rows} WHERE minutes IS NOT NULL")[0][0]
        usual = stated or whole
        if usual is None:
            raise self._refuse("time stamps", "several readings, or minutes=…", "one of a kind")
        if stated or self._known.cumulative:
            late = (
                f"end_us < stamp_us AND end_us % {DAY_US} <> 0"
                if self._known.trust_ends
                else "false"
            )
            return f"""(
                SELECT * REPLACE (
                    CASE WHEN {late} THEN end_us - {usual} * {MINUTE_US} ELSE stamp_us END
                        AS stamp_us,
                    coalesce(minutes, {usual}) AS minutes
                ) FROM {rows}
            )"""
        named = self._write(
            "spaced",
            f"""
            SELECT * EXCLUDE (us), CASE WHEN us > 0 THEN us // {MINUTE_US} END AS distance
            FROM (SELECT *, stamp_us - lag(stamp_us) OVER (
                      PARTITION BY {per_day} ORDER BY stamp_us) AS us FROM {rows})
        """,
        )
        return f"""(
            SELECT * REPLACE (coalesce(mode(distance) OVER (PARTITION BY {per_day}), {usual})
                              AS minutes) FROM {named}
        )"""

    def _refuse_long_intervals(self, rows: str) -> None:
        """Reject daily and monthly totals by name."""
        found = self._rows(f"SELECT mode(minutes), count(*) FROM {rows}")[0]
        usual = int(str(found[0] or 0))
        shortest, longest = DAY_MINUTES - 60, DAY_MINUTES + 60
        if usual >= shortest:
            kind = "daily totals" if usual <= longest else "totals of several days"
            expected = "intervals of at most 60 minutes"
            remedy = "They have no load shape. Export the interval data instead"
            raise self._refuse("interval lengths", expected, kind, remedy=remedy)
        if usual not in ALLOWED_MINUTES:
            expected = f"intervals of {MINUTES_TEXT}, or minutes=…"
            raise self._refuse("interval lengths", expected, f"{usual} minutes")


def _minutes_of(text: str) -> int | None:
    """Return the minutes that a text such as PT15M, 15, 60min or PT1H names."""
    name = plain_name(text).replace("_", "")
    if found := re.fullmatch(r"(?:pt)?(\d+)(?:m|min|mins|minutes?)?", name):
        return int(found[1])
    if found := re.fullmatch(r"(?:pt)?(\d+)(?:h|hr|hour|hours)", name):
        return 60 * int(found[1])
    return {"hourly": 60, "hour": 60, "quarterhour": 15, "halfhour": 30, "p1d": 1440}.get(name)
