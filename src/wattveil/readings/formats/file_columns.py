"""Expressions over the columns of a file in a known format: stamps, words, units, customers.

Words of channels and qualities are looked up before anything is read: a text of unknown meaning is
rejected with all others of its kind, never dropped or taken for the usual one.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pyarrow as pa

from wattveil.errors import InvalidFileError, NoUsableReadingError
from wattveil.readings.formats.column_names import unit_in_name
from wattveil.readings.formats.decimals import Decimals, find_mark
from wattveil.readings.formats.known_formats import (
    FIXED_ZONES,
    GAS_UNITS,
    VALUE_ROLES,
    KnownFormat,
    Recognised,
    direction_of,
    quality_of,
    sensor_of,
    stamp_columns,
    unit_of,
)
from wattveil.readings.formats.meaning_checks import homes_of, other_energy, sums_beside_parts
from wattveil.readings.formats.quality_words import MEANINGS, SHOWN_WORDS
from wattveil.readings.formats.table import add_midnights
from wattveil.readings.formats.table_columns import plain_name
from wattveil.readings.options import DecimalMark, MeasuredIn, ReadOptions, Stamp
from wattveil.readings.sources import Scan
from wattveil.readings.sql_text import ident, literal
from wattveil.readings.timestamps import DAY_US, MINUTE_US, StampReader, check_format, text_stamp

RAW = "file "  # before the names of the file's columns
GAS = "gas or water, not electricity"
_SAMPLE_ROWS = 2_000
_LAST_HOUR = 24
_FIRST_DAYCODE = 14_245  # 2009-01-01, in days since 1970


@dataclass(frozen=True, kw_only=True)
class StagedPart:
    """Files of one known format with one header, which DuckDB scans as one table."""

    found: Recognised
    scan: Scan
    files: Sequence[Path]


class FileColumns:
    """Columns of a file by role, as expressions of DuckDB."""

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
        self._sensors = ""  # column of sensors, if there are several
        self._placed = False  # local times were made instants
        self.left_out: Counter[str] = Counter()
        self.notes: Counter[str] = Counter()

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

    def _refuse(
        self, where: str, expected: str, found: object, *, remedy: str = ""
    ) -> InvalidFileError:
        told = (self._path, where, f"{expected} ({self._known.name})", found)
        return InvalidFileError(*told, remedy=remedy)

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
        given = self._options.stamp_format
        reader = text_stamp(
            self._connection,
            column,
            [re.sub(r"([ T])24([:.]00)", r"\g<1>00\2", stamp) for stamp in sample],
            given=given,
            path=self._path,
            where=where,
            dates=self._known.dates,
        )
        check_format(self._connection, self._scan.sql, reader, given, sample[0], self._path, where)
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
            late = (0 if reader.aware else ahead) - self._known.delay * MINUTE_US
            return f"({reader.sql}) - ({late})", reader.aware or aware
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
        self._placed = True
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
        if written and max(numbers, default=0) <= _LAST_HOUR:
            return f"({reader.sql}) + {number} * {60 * MINUTE_US}", False
        day = f"({reader.sql}) // {DAY_US}"
        return self._elapsed(day, f"{number} * {60 * MINUTE_US}"), True

    # --------------------------------------------------------------------------------- words

    def _direction(self) -> str:
        """Write the channel of a row; NULL leaves it to the column of the value."""
        column = self._one("direction")
        if self._sensors:
            return self._meanings(
                self._text(self._sensors), self._sensors, sensor_of, "delivered, received or net"
            )
        if column is None:
            stated = self._found.from_letterhead("direction")
            meaning = direction_of(stated, self._words) if stated else None
            return literal(meaning) if meaning else "NULL"
        text = self._text(column)
        if part := self._known.direction_part:
            text = (
                f"coalesce(nullif(regexp_extract(lower({text}), {literal(part)}, 1), ''), {text})"
            )
        return self._meanings(text, column, direction_of, "delivered, received or net")

    def _quality(self) -> str:
        column = self._one("quality")
        if column is None:
            return "'valid'"
        return self._meanings(self._text(column), column, quality_of, MEANINGS)

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
            raise self._refuse(f"column {ident(column)}", expected, unknown[:SHOWN_WORDS])
        whens = " ".join(
            f"WHEN {literal(word)} THEN {literal(str(meaning))}" for word, meaning in found.items()
        )
        return f"CASE coalesce({text}, '') {whens} END"

    def _unit(self) -> tuple[str, str]:
        """Write factor and reason to leave out, from the column of units."""
        column = self._one("unit")
        if column is None and not (column := self._units_in_directions()):
            return literal_factor(self._stated_unit()), "NULL"
        factors, gas = [], []
        powers, units = set(), set()
        for word in self._distinct(self._text(column)):
            unit = unit_of(word) or unit_in_name(plain_name(word))
            if unit is not None:
                factors.append(f"WHEN {literal(word)} THEN {literal_factor(unit)}")
                powers.add(unit in {MeasuredIn.W, MeasuredIn.KW})
                units.add(unit.value)
            elif plain_name(word) in GAS_UNITS:
                gas.append(word)
            elif plain_name(word):
                expected = "a unit such as kWh, Wh, MWh, kW or W"
                raise self._refuse(f"column {ident(column)}", expected, word)
        if not factors and gas:
            raise self._gas(f"unit: {gas[0]}")
        if len(powers) > 1:
            raise self._refuse(f"column {ident(column)}", "units of energy or of power", "both")
        self._power = powers == {True}
        self._unit_name = " and ".join(sorted(units)) or MeasuredIn.KWH.value
        text = f"coalesce({self._text(column)}, '')"
        left_out = f"CASE WHEN {text} IN {listed(gas)} THEN {literal(GAS)} END" if gas else "NULL"
        if gas:
            self._refuse_both(text, gas)
        return f"CASE {text} {' '.join(factors)} ELSE 1 END", left_out

    def _units_in_directions(self) -> str | None:
        """Return the column of directions, if its words contain units: Active Import (kW)."""
        column = self._one("direction")
        if column is None or self._found.from_letterhead("unit"):
            return None
        words = [plain_name(word) for word in self._distinct(self._text(column))]
        return column if words and all(map(unit_in_name, words)) else None

    def _stated_unit(self) -> MeasuredIn:
        stated = self._found.from_letterhead("unit")
        unit = unit_of(stated) if stated else None
        if stated and unit is None:
            raise self._refuse("letterhead", "a unit such as kWh or W", stated)
        if unit is None:
            names = {unit_in_name(plain_name(name)) for name, _ in self._values()} - {None}
            unit = next(iter(names), None) if len(names) == 1 else None
        if unit is None and self._known.generic:
            if self._options.unit is None:
                raise self._refuse("header", "a unit in the name of the value, or unit=…", "none")
            unit = self._options.unit
        if unit is None or (self._known.unknown and self._options.unit):
            unit = MeasuredIn(self._known.unit)
        self._power = unit in {MeasuredIn.W, MeasuredIn.KW}
        self._unit_name = unit.value
        if self._options.unit not in {None, unit}:
            told = (self._path, "unit", unit.value, str(self._options.unit))
            problem = f": the file states {unit.value} ({self._known.name})"
            raise InvalidFileError(*told, problem=problem, remedy="Omit `unit`")
        return unit

    _power = False
    _unit_name = ""

    def _is_power(self) -> bool:
        return self._power and not self._known.columns.get("power")

    def _refuse_both(self, unit: str, gas: Sequence[str]) -> None:
        """Reject a customer with rows in m³ and in kWh: the latter are gas too."""
        customer = self._one("customer")
        if customer is None:
            raise self._gas(f"unit: {gas[0]}")
        electric = f"NOT bool_and({unit} IN {listed(gas)})"
        both = self._rows(f"""
            SELECT 1 FROM {self._scan.sql} GROUP BY {self._raw(customer)}
            HAVING bool_or({unit} IN {listed(gas)}) AND {electric} LIMIT 1
        """)
        if both:
            raise self._gas(f"units: {gas[0]} and kWh of one meter")

    def _gas(self, found: str) -> InvalidFileError:
        told = (self._path, "unit", f"electricity ({self._known.name})", f"gas or water, {found}")
        problem = f"contains gas or water ({found}), not electricity"
        remedy = "Export the electricity meter instead"
        return InvalidFileError(*told, problem=problem, remedy=remedy)

    # ---------------------------------------------------------------------------------- rows

    def _find_sensors(self) -> None:
        """Read several sensors of one home as its registers; a single one names the home."""
        column = self._one("customer")
        if not self._known.sensors or column is None:
            return
        if len(self._distinct(self._text(column))) > 1:
            self._sensors = column
            self._check_sensors(column)

    def _check_sensors(self, column: str) -> None:
        """Reject sensors of one file that may be of several homes, or of which one is a sum."""
        query = f"SELECT DISTINCT filename, {self._text(column)} AS s FROM {self._scan.sql}"
        files: dict[object, list[str]] = {}
        for file, sensor in self._rows(f"{query} WHERE s IS NOT NULL ORDER BY ALL"):
            files.setdefault(file, []).append(str(sensor))
        for sensors in files.values():
            homes = homes_of(sensors, self._words)
            if len(homes) > 1 and self._options.customer is None:
                expected = "sensors of one home, or customer=NAME if they are; else one file a home"
                shown = ", ".join(names[0] for names in homes.values())
                raise self._refuse(f"column {ident(column)}", expected, shown)
            for names in homes.values():
                if doubled := sums_beside_parts(names):
                    raise self._refuse(f"column {ident(column)}", *doubled)

    def _refuse_other_meanings(self) -> None:
        """Reject a file of common names that may be of other energy or of several homes."""
        stated = "value" in self._options.columns
        if not stated and (other := other_energy(self._found)) is not None:
            raise self._refuse(*other)
        named = (
            self._options.customer
            or self._one("customer")
            or self._found.from_letterhead("customer")
        )
        if not self._known.generic or named:
            return
        for column in self._found.roles.get("register", ()):
            meters = [meter for meter in self._distinct(self._text(column)) if meter]
            if len(meters) > 1:
                expected = (
                    "one meter; customer=NAME if all are of one home,"
                    f" columns={{'customer': {column!r}}} if each is a home"
                )
                raise self._refuse(f"column {ident(column)}", expected, meters[:SHOWN_WORDS])

    def _customer(self) -> str:
        if not self._sensors and (column := self._one("customer")):
            return f"regexp_replace({self._text(column)}, '^[=''\"]+|\"+$', '', 'g')"
        stated = self._options.customer or self._found.from_letterhead("customer")
        if stated is not None:
            return literal(stated)
        return "(SELECT home FROM homes WHERE file = filename)"

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


def add_homes(connection: duckdb.DuckDBPyConnection, homes: Mapping[Path, str]) -> None:
    """Make the table of the homes of files that name no customer."""
    table = pa.table({"file": [str(path) for path in homes], "home": list(homes.values())})
    connection.register("homes_made", table)
    connection.execute("CREATE OR REPLACE TABLE homes AS FROM homes_made")
    connection.unregister("homes_made")


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


def listed(words: Sequence[str]) -> str:
    """Write a list of texts for IN, which may be empty."""
    return "(" + ", ".join(literal(word) for word in words or ["\0"]) + ")"
