"""Files of known formats, staged: rows as the one long table that the checks of rows read.

DuckDB reads the file, renames, unpivots and converts its columns, and writes a Parquet file in the
scratch folder, so that memory stays bounded. Rows that are no readings of electricity are counted
with their reason. Time stamps stay as they are written, local time or instants: `reconcile` places
them.

=============  ====================================================================================
customer       as the file, its letterhead, the caller or the name of the file has it
stamp          a time stamp with or without time zone
minutes        length of the interval
value          kWh (of the interval, or the state of a register); NULL if unreadable
unreadable     what is written instead of a number
channel        delivered, received or net
quality        one of `QUALITIES`
register       which part of the customer's load the row is; parts add up
=============  ====================================================================================
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb

from wattveil.errors import InvalidFileError, InvalidParameterError, NoUsableReadingError
from wattveil.readings.formats.known_formats import (
    FIXED_ZONES,
    GAS_UNITS,
    VALUE_ROLES,
    KnownFormat,
    Recognised,
    day_slots,
    direction_of,
    plain_name,
    quality_of,
    stamp_columns,
    unit_of,
)
from wattveil.readings.formats.table import Decimals, add_midnights, find_mark
from wattveil.readings.formats.table_columns import (
    FoundLayout,
    LongTable,
    unit_in_name,
)
from wattveil.readings.options import DecimalMark, MeasuredIn, ReadOptions, Stamp
from wattveil.readings.schema import ALLOWED_MINUTES
from wattveil.readings.sources import Scan, ident, literal, literals
from wattveil.readings.timestamps import DAY_US, MINUTE_US, StampReader, text_stamp

STAGED_TABLE = LongTable(
    customer="customer",
    stamp=("stamp",),
    value="value",
    channel="channel",
    quality="quality",
    minutes="minutes",
    register="register",
    written="unreadable",
)
RAW = "file "  # before the names of the file's columns
_SAMPLE_ROWS = 2_000
_SHOWN_WORDS = 8
_DAY_MINUTES = 1440
_FIRST_DAYCODE = 14_244  # 2009-01-01, in days since 1970
_SNAP_SHARE = 0.2  # a register read within a fifth of an interval from its end is taken as there
_SAMPLED_MINUTES = 5  # of intervals that are made of power samples
_MAX_HELD_US = 2 * MINUTE_US  # a power sample says nothing about a longer gap
_FACTORS = {  # to kWh
    MeasuredIn.KWH: "1",
    MeasuredIn.WH: "0.001",
    MeasuredIn.MWH: "1000",
    MeasuredIn.MJ: "(1 / 3.6)",
    MeasuredIn.KW: "minutes / 60",
    MeasuredIn.W: "minutes / 60000",
}
GAS = "gas or water, not electricity"
INSIDE = "behind the meter, part of the net load"
NOT_A_READING = "row that is not an interval reading, by the format"


@dataclass(frozen=True, kw_only=True)
class StagedPart:
    """Files of one known format with one header, which DuckDB scans as one table."""

    found: Recognised
    scan: Scan
    files: Sequence[Path]


@dataclass(kw_only=True)
class Staged:
    """Staged rows, and the account of those that are left out."""

    paths: list[Path] = field(default_factory=list)
    layout: FoundLayout | None = None
    left_out: Counter[str] = field(default_factory=Counter)


def stage(
    connection: duckdb.DuckDBPyConnection,
    parts: Sequence[StagedPart],
    options: ReadOptions,
    folder: Path,
) -> Staged:
    """Write the rows of files in known formats to the scratch folder."""
    staged = Staged()
    for number, part in enumerate(parts):
        _check_stamp(part.found.format, options)
        stager = _Stager(connection, part, options, folder / f"staged-{number}")
        path, layout = stager.run()
        _check_alike(staged.layout, layout, part)
        staged.paths.append(path)
        staged.layout = staged.layout or layout
        staged.left_out += stager.left_out
    return staged


def _check_stamp(known: KnownFormat, options: ReadOptions) -> None:
    """Reject an option that contradicts a known format."""
    stated = options.stamp
    if stated is not None and not known.unknown and known.layout != "day":
        if known.stamp != stated.value:
            raise InvalidParameterError("stamp", f"{known.stamp}, by {known.name}", stated.value)


def refuse_known(found: Recognised, path: object) -> InvalidFileError:
    """Return the error about a format that cannot be read."""
    expected = f"interval readings of electricity: {found.format.refuse}"
    return InvalidFileError(path, "format", expected, found.format.name)


def _check_alike(first: FoundLayout | None, layout: FoundLayout, part: StagedPart) -> None:
    """Reject formats in one source whose rows cannot be one table."""
    if first is None:
        return
    same = (first.stamp, first.cumulative, first.zone) == (
        layout.stamp,
        layout.cumulative,
        layout.zone,
    )
    if not same:
        expected = "files whose stamps and values mean the same; read the others by themselves"
        raise InvalidFileError(part.files[0], "format", expected, part.found.format.name)


class _Stager:
    """Writes the SELECT of one part, and runs it."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        part: StagedPart,
        options: ReadOptions,
        target: Path,
    ) -> None:
        self._connection = connection
        self._options = options
        self._target = target
        self._found = part.found
        self._known: KnownFormat = part.found.format
        self._scan = part.scan
        self._path = part.files[0]
        self._group = 0  # which of several sets of value, unit and length
        self._words = {**self._known.words, **{plain_name(k): v for k, v in options.words.items()}}
        self._stamp_is = self._known.end_stamped
        self.left_out: Counter[str] = Counter()

    def run(self) -> tuple[Path, FoundLayout]:
        """Write the rows; return their file and layout."""
        self._choose_group()
        stamp_us, aware = self._stamp()
        rows = self._write("rows", self._rows_sql(stamp_us))
        self._count_left_out(rows)
        kept = f"(SELECT * FROM {rows} WHERE left_out IS NULL)"
        if self._known.columns.get("power"):
            kept = self._sampled(kept)
        elif self._known.cumulative:
            kept = self._snapped(kept)
        kept = self._with_minutes(kept)
        self._refuse_long_intervals(kept)
        kind = "make_timestamptz" if aware else "make_timestamp"
        unit = "value * factor" if not self._is_power() else "value * factor * minutes"
        path = self._target.with_suffix(".parquet")
        self._connection.execute(f"""
            COPY (SELECT customer, {kind}(stamp_us) AS stamp, minutes::SMALLINT AS minutes,
                         {unit} AS value, unreadable, channel, quality, register
                  FROM {kept} ORDER BY row)
            TO {literal(str(path))} (FORMAT parquet)
        """)
        return path, FoundLayout(
            STAGED_TABLE,
            MeasuredIn.KWH,
            self._stamp_is,
            self._assumptions(),
            cumulative=self._known.cumulative,
        )

    # ------------------------------------------------------------------------------- columns

    def _one(self, role: str) -> str | None:
        names = self._found.roles.get(role, ())
        if not names:
            return None
        repeated = len(names) > 1 and role in {"unit", "minutes"}
        return names[min(self._group, len(names) - 1)] if repeated else names[0]

    def _text(self, name: str) -> str:
        """Write a column as text, without the signs that spreadsheets put around it."""
        return f"trim({self._raw(name)}::VARCHAR, ' \u00a0')"

    def _raw(self, name: str) -> str:
        return ident(RAW + name)

    def _values(self) -> list[tuple[str, str]]:
        """Return the columns of values, each with its channel."""
        found = [
            (name, "net" if role == "power" else role)
            for role in VALUE_ROLES
            for name in self._found.roles.get(role, ())
        ]
        if self._is_repeated():
            delivered = self._found.roles["delivered"]
            return [(delivered[self._group], "delivered")]
        return found

    def _is_repeated(self) -> bool:
        names = self._found.roles.get("delivered", ())
        plain = {self._found.header.plain.get(name) for name in names}
        return len(names) > 1 and len(plain) == 1

    def _choose_group(self) -> None:
        """Of several sets of value, unit and length, take the one with the most values."""
        if not self._is_repeated():
            return
        counts = ", ".join(
            f"count(try_cast(replace({self._text(name)}, ',', '.') AS DOUBLE))"
            for name in self._found.roles["delivered"]
        )
        found = self._rows(f"SELECT {counts} FROM (FROM {self._scan.sql} LIMIT {_SAMPLE_ROWS})")[0]
        self._group = max(range(len(found)), key=lambda place: int(str(found[place])))

    def _distinct(self, text: str) -> list[str]:
        query = f"SELECT DISTINCT coalesce({text}, '') AS word FROM {self._scan.sql} ORDER BY word"
        return [str(row[0]) for row in self._rows(f"{query} LIMIT 1000")]

    def _rows(self, query: str) -> list[tuple[object, ...]]:
        return self._connection.execute(query).fetchall()

    def _write(self, name: str, query: str) -> str:
        path = literal(str(self._target.with_name(f"{self._target.name}-{name}.parquet")))
        self._connection.execute(f"COPY ({query}) TO {path} (FORMAT parquet)")
        return f"read_parquet({path})"

    def _refuse(self, where: str, expected: str, found: object) -> InvalidFileError:
        return InvalidFileError(self._path, where, f"{expected} ({self._known.name})", found)

    # -------------------------------------------------------------------------------- stamps

    def _sample(self, text: str) -> list[str]:
        query = f"SELECT {text} FROM {self._scan.sql} LIMIT {_SAMPLE_ROWS}"
        return [str(row[0]) for row in self._rows(query) if row[0]]

    def _read_stamps(self, text: str, where: str) -> StampReader:
        """Read stamps, where 24:00 is the end of the day that is named."""
        sample = self._sample(text)
        if not sample:
            raise NoUsableReadingError(self._path, "all rows", "a reading", "none")
        late = rf"{text} ~ '.*[ T]24[:.]00([:.]00)?'"
        clean = f"regexp_replace({text}, '([ T])24([:.]00)', '\\100\\2')"
        has_24 = any(re.search(r"[ T]24[:.]00", stamp) for stamp in sample)
        column = clean if has_24 else text
        reader = text_stamp(
            self._connection,
            column,
            [re.sub(r"([ T])24([:.]00)", r"\g<1>00\2", stamp) for stamp in sample],
            given=self._options.stamp_format,
            path=self._path,
            where=where,
            dates=self._known.dates,
        )
        if has_24:
            sql = f"({reader.sql}) + CASE WHEN {late} THEN {DAY_US} ELSE 0 END"
            return replace(reader, sql=sql)
        return reader

    def _joined(self, *names: str) -> str:
        return "(" + " || ' ' || ".join(self._text(name) for name in names) + ")"

    def _stamp(self) -> tuple[str, bool]:
        """Return the expression of the stamp in microseconds, and whether it is an instant."""
        aware = bool(self._known.zone)
        ahead = FIXED_ZONES.get(self._known.zone, 0) * 60 * MINUTE_US
        date, time, hour = (self._one(role) for role in ("date", "time", "hour"))
        if self._known.layout == "across":
            names = stamp_columns(self._found.header.names)
            return "0", all(re.search(r"(Z|[+-]\d\d:?\d\d)$", name) for name in names)
        stamp = self._one("stamp")
        if stamp is not None:
            reader = self._read_stamps(self._text(stamp), f"column {ident(stamp)}")
            late = 0 if reader.aware else ahead
            return f"({reader.sql}) - {late}", reader.aware or aware
        if code := self._one("daycode"):
            number = f"try_cast({self._raw(code)} AS BIGINT)"
            day = f"({number} // 100 + {_FIRST_DAYCODE - 1})"
            slot = f"({number} % 100 - 1)"
            return self._elapsed(day, f"{slot} * {30 * MINUTE_US}"), True
        if date and hour:
            return self._hour_stamp(date, hour)
        if date is None:
            raise self._refuse("header", "a column of dates", list(self._found.header.names[:9]))
        names = (date, time) if time else (date,)
        where = "column " + " and ".join(map(ident, names))
        reader = self._read_stamps(self._joined(*names), where)
        return f"({reader.sql}) - {ahead}", reader.aware or aware

    def _elapsed(self, day: str, late_us: str) -> str:
        """Write the instant at a distance from local midnight."""
        add_midnights(self._connection, self._options.timezone or "UTC")
        return f"(SELECT midnight_us FROM midnights WHERE day = {day}) + {late_us}"

    def _hour_stamp(self, date: str, hour: str) -> tuple[str, bool]:
        """Read hours that are numbers (the k-th of the day) or times (1:00 to 24:00, or 0:00)."""
        words = [word for word in self._distinct(self._text(hour)) if word]
        numbers = {int(found[1]) for word in words if (found := re.match(r"(\d{1,2})\b", word))}
        first = min(numbers, default=1)
        if first == 0:
            self._stamp_is = Stamp.START
        written = all(re.fullmatch(r"\d{1,2}[:.]\d{2}([:.]\d{2})?", word) for word in words)
        number = f"try_cast(regexp_extract({self._text(hour)}, '^\\d+') AS INTEGER)"
        reader = self._read_stamps(self._text(date), f"column {ident(date)}")
        if written and max(numbers, default=0) <= 24:  # noqa: PLR2004 - hours of a day
            return f"({reader.sql}) + {number} * {60 * MINUTE_US}", False
        day = f"({reader.sql}) // {DAY_US}"
        return self._elapsed(day, f"{number} * {60 * MINUTE_US}"), True

    # --------------------------------------------------------------------------------- words

    def _direction(self) -> str:
        """Write the channel of a row; NULL leaves it to the column of the value."""
        column = self._one("direction")
        if column is None:
            stated = self._found.from_letterhead("direction")
            meaning = direction_of(stated, self._words) if stated else None
            return literal(meaning) if meaning else "NULL"
        text = self._text(column)
        if part := self._known.direction_part:
            text = f"coalesce(nullif(regexp_extract(lower({text}), {literal(part)}, 1), ''), {text})"
        return self._meanings(text, column, direction_of, "delivered, received or net")

    def _quality(self) -> str:
        column = self._one("quality")
        if column is None:
            return "'valid'"
        meanings = "valid, estimated, edited, raw or missing"
        return self._meanings(self._text(column), column, quality_of, meanings)

    def _meanings(
        self,
        text: str,
        column: str,
        meaning_of: Callable[[str, Mapping[str, str]], str | None],
        meanings: str,
    ) -> str:
        """Write the meaning of the words of a column; reject words that are not known."""
        found = {word: meaning_of(word, self._words) for word in self._distinct(text)}
        if unknown := [word for word, meaning in found.items() if meaning is None]:
            expected = f"words of a known meaning, or words={{{unknown[0]!r}: …}} ({meanings})"
            raise self._refuse(f"column {ident(column)}", expected, unknown[:_SHOWN_WORDS])
        whens = " ".join(
            f"WHEN {literal(word)} THEN {literal(str(meaning))}" for word, meaning in found.items()
        )
        return f"CASE coalesce({text}, '') {whens} END"

    def _unit(self) -> tuple[str, str]:
        """Write factor and reason to leave out, from the column of units."""
        column = self._one("unit")
        if column is None:
            return literal_factor(self._stated_unit()), "NULL"
        factors, gas = [], []
        powers = set()
        for word in self._distinct(self._text(column)):
            unit = unit_of(word)
            if unit is not None:
                factors.append(f"WHEN {literal(word)} THEN {literal_factor(unit)}")
                powers.add(unit in {MeasuredIn.W, MeasuredIn.KW})
            elif plain_name(word) in GAS_UNITS:
                gas.append(word)
            elif plain_name(word):
                expected = "a unit such as kWh, Wh, MWh, kW or W"
                raise self._refuse(f"column {ident(column)}", expected, word)
        if not factors and gas:
            raise self._gas(f"unit {gas[0]}")
        if len(powers) > 1:
            raise self._refuse(f"column {ident(column)}", "units of energy or of power", "both")
        self._power = powers == {True}
        text = f"coalesce({self._text(column)}, '')"
        left_out = f"CASE WHEN {text} IN {_listed(gas)} THEN {literal(GAS)} END" if gas else "NULL"
        if gas:
            self._refuse_both(text, gas)
        return f"CASE {text} {' '.join(factors)} ELSE 1 END", left_out

    def _stated_unit(self) -> MeasuredIn:
        stated = self._found.from_letterhead("unit")
        unit = unit_of(stated) if stated else None
        if stated and unit is None:
            raise self._refuse("letterhead", "a unit such as kWh or W", stated)
        if unit is None:
            names = {unit_in_name(plain_name(name)) for name, _ in self._values()} - {None}
            unit = next(iter(names), None) if len(names) == 1 else None
        if unit is None or (self._known.unknown and self._options.unit):
            unit = MeasuredIn(self._known.unit)
        self._power = unit in {MeasuredIn.W, MeasuredIn.KW}
        self._unit_name = unit.value
        if self._options.unit not in {None, unit}:
            expected = f"unit={unit.value!r}, which the file states"
            raise self._refuse("unit", expected, str(self._options.unit))
        return unit

    _power = False
    _unit_name = ""

    def _is_power(self) -> bool:
        return self._power and not self._known.columns.get("power")

    def _refuse_both(self, unit: str, gas: Sequence[str]) -> None:
        """Reject a customer with rows in m³ and in kWh: the latter are gas too."""
        customer = self._one("customer")
        if customer is None:
            raise self._gas(f"unit {gas[0]}")
        electric = f"NOT bool_and({unit} IN {_listed(gas)})"
        both = self._rows(f"""
            SELECT 1 FROM {self._scan.sql} GROUP BY {self._raw(customer)}
            HAVING bool_or({unit} IN {_listed(gas)}) AND {electric} LIMIT 1
        """)
        if both:
            raise self._gas(f"units {gas[0]} and kWh of one meter")

    def _gas(self, found: str) -> InvalidFileError:
        return InvalidFileError(
            self._path,
            "unit",
            f"electricity: export the electricity meter instead ({self._known.name})",
            f"gas or water, {found}",
        )

    # ---------------------------------------------------------------------------------- rows

    def _customer(self) -> str:
        if column := self._one("customer"):
            return f"regexp_replace({self._text(column)}, '^[=''\"]+|\"+$', '', 'g')"
        stated = self._options.customer or self._found.from_letterhead("customer")
        if stated and re.search(r"[A-Za-z0-9]", stated) and not re.fullmatch("[Xx*]+", stated):
            return literal(stated)
        return file_customer("filename")

    def _decimals(self, columns: Sequence[str]) -> Decimals:
        if self._options.decimal is not None:
            return Decimals(self._options.decimal, groups=True)
        texts = Scan(
            "(SELECT "
            + ", ".join(f"{self._text(name)} AS {ident(name)}" for name in columns)
            + f" FROM {self._scan.sql})",
            dict.fromkeys(columns, "VARCHAR"),
        )
        try:
            mark = find_mark(self._connection, texts, tuple(columns), _SAMPLE_ROWS, self._path)
        except InvalidFileError:
            if not self._known.decimal:
                raise
            return Decimals(DecimalMark(self._known.decimal), groups=True)
        return Decimals(mark, groups=mark == self._known.decimal)

    def _unpivoted(self) -> tuple[list[str], str]:
        """Return the columns of values, and the list of structs with one value each."""
        header = self._found.header.names
        if self._known.layout == "day":
            slots = day_slots(header, self._options.stamp)
            if slots is None:
                raise self._refuse("header", "one column per interval of the day", list(header[:9]))
            self._day_minutes, self._stamp_is = slots[1], Stamp.START
            return [slot.name for slot in slots[0]], _structs(
                [(slot.name, "", "", slot.start * MINUTE_US, "") for slot in slots[0]], self._text
            )
        if self._known.layout == "across":
            names = list(stamp_columns(header))
            offsets = self._rows(
                f"SELECT epoch_us(unnest({literals(names)}::VARCHAR[])::TIMESTAMPTZ)"
            )
            return names, _structs(
                [
                    (name, "", "", int(str(offset[0])), "")
                    for name, offset in zip(names, offsets, strict=True)
                ],
                self._text,
            )
        values = self._values()
        several = Counter(channel for _, channel in values)
        if self._known.layout == "matrix":
            return [name for name, _ in values], _structs(
                [(name, channel, "", 0, name) for name, channel in values], self._text
            )
        return [name for name, _ in values], _structs(
            [
                (name, channel, name if several[channel] > 1 else "", 0, "")
                for name, channel in values
            ],
            self._text,
        )

    _day_minutes: int | None = None
    _end_us = "NULL::BIGINT"

    def _rows_sql(self, stamp_us: str) -> str:
        columns, structs = self._unpivoted()
        decimals = self._decimals(columns)
        factor, left_out = self._unit()
        direction = self._direction()
        registers = [self._text(name) for name in self._found.roles.get("register", ())]
        if column := self._one("direction"):
            registers.append(self._text(column))
        matrix = self._known.layout == "matrix"
        register = f"concat_ws(' ', {', '.join([*registers, 'v.register'])})"
        present = " OR ".join(f"{ident(name)} IS NOT NULL" for name in self._scan.types)
        keep = self._keep_sql()
        number = decimals.number("v.text")
        minutes = self._minutes_sql()
        return f"""
            SELECT row, {"v.customer" if matrix else "customer"} AS customer,
                   stamp_us + v.late_us AS stamp_us, {minutes} AS minutes,
                   {self._end_us} AS end_us,
                   {number} AS value,
                   CASE WHEN ({number}) IS NULL THEN v.text END AS unreadable,
                   factor, quality,
                   CASE WHEN direction IN ('delivered', 'received', 'net')
                            AND v.channel <> 'received' THEN direction
                        ELSE coalesce(nullif(v.channel, ''), 'delivered') END AS channel,
                   {register} AS register,
                   CASE WHEN NOT kept THEN {literal(NOT_A_READING)}
                        WHEN direction = 'gas' THEN {literal(GAS)}
                        WHEN direction = 'inside' THEN {literal(INSIDE)}
                        ELSE left_out END AS left_out
            FROM (
                SELECT *, row_number() OVER () AS row, {self._customer()} AS customer,
                       {stamp_us} AS stamp_us, {factor} AS factor, {left_out} AS left_out,
                       {direction} AS direction, {self._quality()} AS quality, {keep} AS kept,
                       unnest({structs}) AS v
                FROM {self._scan.sql} WHERE {present}
            )
        """

    def _keep_sql(self) -> str:
        tests = []
        for pattern, texts in self._known.keep.items():
            for name, plain in self._found.header.plain.items():
                if re.fullmatch(pattern, plain):
                    words = [
                        word
                        for word in self._distinct(self._text(name))
                        if re.fullmatch(texts, plain_name(word))
                    ]
                    tests.append(f"coalesce({self._text(name)}, '') IN {_listed(words)}")
        return " AND ".join(tests) or "true"

    def _count_left_out(self, rows: str) -> None:
        query = f"SELECT left_out, count(*) FROM {rows} GROUP BY left_out"
        found = {row[0]: int(str(row[1])) for row in self._rows(query)}
        kept = found.pop(None, 0)
        self.left_out.update({str(reason): count for reason, count in found.items()})
        if not kept and found:
            if GAS in found:
                raise self._gas("in all rows")
            raise NoUsableReadingError(self._path, "all rows", "a reading", list(found)[0])

    # ------------------------------------------------------------------------------- lengths

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
            return "NULL::INTEGER"
        reader = self._read_stamps(text, where)
        self._end_us = reader.sql
        distance = f"((({reader.sql}) - stamp_us) // {MINUTE_US} + {_DAY_MINUTES}) % {_DAY_MINUTES}"
        whole = f"(CASE WHEN {distance} % 5 = 4 THEN {distance} + 1 ELSE {distance} END)"
        days = f"(({reader.sql}) - stamp_us) // {MINUTE_US}"
        return (
            f"CASE WHEN {whole} IN {ALLOWED_MINUTES} THEN {whole}"
            f" WHEN {days} >= {_DAY_MINUTES - 60} THEN {days} END"
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
            late = f"end_us < stamp_us AND end_us % {DAY_US} <> 0" if self._known.trust_ends else "false"
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
        shortest, longest = _DAY_MINUTES - 60, _DAY_MINUTES + 60
        if usual >= shortest:
            kind = "daily totals" if usual <= longest else "totals of several days"
            expected = "intervals of at most 60 minutes; export the interval data instead"
            raise self._refuse("interval lengths", expected, kind)
        if usual not in ALLOWED_MINUTES:
            expected = f"intervals of {ALLOWED_MINUTES} minutes, or minutes=…"
            raise self._refuse("interval lengths", expected, f"{usual} minutes")

    # ------------------------------------------------------------------- registers and samples

    def _snapped(self, rows: str) -> str:
        """Put register reads on the grid of intervals; spread them if they are irregular."""
        rows = f"(SELECT * FROM {rows} WHERE value IS NOT NULL AND stamp_us IS NOT NULL)"
        self._refuse_falling(rows)
        distance = self._rows(f"""
            SELECT median(us) FROM (
                SELECT stamp_us - lag(stamp_us) OVER (
                    PARTITION BY customer, register ORDER BY stamp_us) AS us FROM {rows}
            ) WHERE us > 0
        """)[0][0]
        if distance is None:
            raise self._refuse("time stamps", "at least two register reads", "one")
        usual = float(str(distance)) / MINUTE_US
        if usual >= _DAY_MINUTES - 60:
            expected = "register reads at most 60 minutes apart"
            raise self._refuse("time stamps", expected, f"{usual / 60:.0f} hours: daily totals")
        minutes = min(ALLOWED_MINUTES, key=lambda allowed: abs(allowed - usual))
        step = minutes * MINUTE_US
        near = f"(stamp_us + {step // 2}) // {step} * {step}"
        far = self._rows(f"""
            SELECT count(*) FILTER (abs(stamp_us - {near}) > {int(step * _SNAP_SHARE)}), count(*)
            FROM {rows}
        """)[0]
        if int(str(far[0])) * 10 > int(str(far[1])):
            return self._resampled_register(rows)
        return f"""(
            SELECT * REPLACE ({near} AS stamp_us, {minutes} AS minutes) FROM {rows}
            WHERE abs(stamp_us - {near}) <= {int(step * _SNAP_SHARE)}
        )"""

    def _resampled_register(self, rows: str) -> str:
        """Interpolate an irregular register at whole hours."""
        step = 60 * MINUTE_US
        return self._write(
            "hourly",
            f"""
            SELECT any_value(row) AS row, customer, at_us AS stamp_us, 60 AS minutes,
                   any_value(value + (next - value) * (at_us - stamp_us) / (next_us - stamp_us))
                       AS value,
                   NULL::BIGINT AS end_us, NULL::VARCHAR AS unreadable,
                   any_value(factor) AS factor, 'derived' AS quality,
                   channel, register, NULL::VARCHAR AS left_out
            FROM (
                SELECT *, unnest(range(-(-stamp_us // {step}) * {step}, next_us, {step})) AS at_us
                FROM (
                    SELECT *, lead(stamp_us) OVER series AS next_us, lead(value) OVER series AS next
                    FROM {rows}
                    WINDOW series AS (PARTITION BY customer, register, channel ORDER BY stamp_us)
                ) WHERE next_us > stamp_us
            ) GROUP BY customer, register, channel, at_us ORDER BY customer, at_us
        """,
        )

    def _refuse_falling(self, rows: str) -> None:
        """Reject values that are no running total."""
        falls, pairs = self._rows(f"""
            SELECT count(*) FILTER (d < 0), count(d) FROM (
                SELECT value - lag(value) OVER (
                    PARTITION BY customer, register ORDER BY row) AS d FROM {rows})
        """)[0]
        if int(str(falls)) * 100 > int(str(pairs)):
            expected = "registers that never fall; name the columns to read them as energy"
            raise self._refuse("values", expected, f"{falls} falls in {pairs} steps")

    def _sampled(self, rows: str) -> str:
        """Hold each power sample until the next, and add its energy up in intervals."""
        step = _SAMPLED_MINUTES * MINUTE_US
        pieces = f"""
            SELECT *, unnest(range(stamp_us // {step} * {step}, until_us, {step})) AS bin_us
            FROM (
                SELECT *, least(next_us, stamp_us + {_MAX_HELD_US}) AS until_us
                FROM (
                    SELECT *, lead(stamp_us) OVER (PARTITION BY customer ORDER BY stamp_us)
                                  AS next_us
                    FROM {rows} WHERE value IS NOT NULL
                ) WHERE next_us > stamp_us
            )
        """
        held = f"(least(until_us, bin_us + {step}) - greatest(stamp_us, bin_us))"
        return self._write(
            "sampled",
            f"""
            SELECT min(row) AS row, customer, bin_us AS stamp_us, {_SAMPLED_MINUTES} AS minutes,
                   sum(value * {held} ORDER BY stamp_us) / 3.6e12 AS value,
                   NULL::BIGINT AS end_us, NULL::VARCHAR AS unreadable, 1 AS factor,
                   'derived' AS quality,
                   'net' AS channel, '' AS register, NULL::VARCHAR AS left_out
            FROM ({pieces}) GROUP BY customer, bin_us ORDER BY customer, bin_us
        """,
        )

    def _assumptions(self) -> tuple[str, ...]:
        found = [f"format: {self._known.name}, by its {self._found.evidence}"]
        if self._unit_name:
            found.append(f"unit: {self._unit_name}")
        if self._one("customer") is None and self._known.layout != "matrix":
            stated = self._options.customer or self._found.from_letterhead("customer")
            origin = "the letterhead" if stated else "the name of the file"
            if self._options.customer is None:
                found.append(f"customer: {origin}, as no column names it")
        for role, names in self._found.roles.items():
            found.append(f"{role}: column {', '.join(map(repr, names[:4]))}")
        if self._known.layout != "rows":
            found.append(f"layout: {self._known.layout}")
        found.append(f"stamp: {self._known.stamp} of its interval")
        return tuple(found)


def file_customer(column: str) -> str:
    """Write the name of a file without its folder and endings."""
    return f"regexp_replace(regexp_extract({column}, '[^/\\\\]+$'), '(\\.[A-Za-z0-9]{{1,5}}){{1,2}}$', '')"


def literal_factor(unit: MeasuredIn) -> str:
    """Write what turns a value into kWh; that of power is multiplied by minutes later."""
    return {
        MeasuredIn.KWH: "1.0::DOUBLE",
        MeasuredIn.WH: "0.001::DOUBLE",
        MeasuredIn.MWH: "1000.0::DOUBLE",
        MeasuredIn.MJ: "(1 / 3.6)::DOUBLE",
        MeasuredIn.KW: "(1 / 60.0)::DOUBLE",
        MeasuredIn.W: "(1 / 60000.0)::DOUBLE",
    }[unit]


def _minutes_of(text: str) -> int | None:
    """Return the minutes that a text such as PT15M, 15, 60min or PT1H names."""
    name = plain_name(text).replace("_", "")
    if found := re.fullmatch(r"(?:pt)?(\d+)(?:m|min|mins|minutes?)?", name):
        return int(found[1])
    if found := re.fullmatch(r"(?:pt)?(\d+)(?:h|hr|hour|hours)", name):
        return 60 * int(found[1])
    return {"hourly": 60, "hour": 60, "quarterhour": 15, "halfhour": 30, "p1d": 1440}.get(name)


def _structs(
    cells: Sequence[tuple[str, str, str, int, str]], text: Callable[[str], str]
) -> str:
    """Write a list of values: text, channel, register, delay and customer."""
    made = (
        f"{{'text': {text(name)}, 'channel': {literal(channel)}, 'register': {literal(register)},"
        f" 'late_us': {late}::BIGINT, 'customer': {literal(customer)}}}"
        for name, channel, register, late, customer in cells
    )
    return f"[{', '.join(made)}]"


def _listed(words: Sequence[str]) -> str:
    return "(" + ", ".join(literal(word) for word in words or ["\0"]) + ")"
