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
row            number of the row in the files, for the list of problems
=============  ====================================================================================
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb

from wattveil.errors import InvalidFileError, InvalidParameterError, NoUsableReadingError
from wattveil.readings.csv_files import READ_SEPARATELY
from wattveil.readings.formats.column_names import unit_in_name
from wattveil.readings.formats.file_columns import GAS, StagedPart, listed
from wattveil.readings.formats.interval_lengths import LengthColumns
from wattveil.readings.formats.known_formats import (
    KnownFormat,
    Recognised,
    day_slots,
    stamp_columns,
)
from wattveil.readings.formats.resampling import Resampling
from wattveil.readings.formats.stamp_ends import INFERRED_END, SAYS_START
from wattveil.readings.formats.table_columns import FoundLayout, LongTable, plain_name
from wattveil.readings.options import NAMED_BY_FILE, MeasuredIn, ReadOptions, Stamp, unit_note
from wattveil.readings.row_checks import CONTRADICTED
from wattveil.readings.row_positions import ROW_COLUMN, FileSpan, file_spans, rows_by_file
from wattveil.readings.sql_text import ident, literal, literals
from wattveil.readings.timestamps import DAY_US, MINUTE_US

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
INSIDE = "behind the meter, part of the net load"
_LONGEST = 32_767  # minutes that 16 bits hold; such a total is dropped whatever its length
NOT_USED = ", not used: lengths are the time between rows"
AVERAGED = "samples of power, averaged to the intervals that are counted here"
NOT_A_READING = "not an interval reading (rule of this format)"


@dataclass(kw_only=True)
class Staged:
    """Staged rows, and the account of those that are left out."""

    paths: list[Path] = field(default_factory=list)
    layout: FoundLayout | None = None
    left_out: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    spans: list[FileSpan] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """SELECTs of reason, row and text of the rows that are left out."""


def stage(
    connection: duckdb.DuckDBPyConnection,
    parts: Sequence[StagedPart],
    options: ReadOptions,
    folder: Path,
) -> Staged:
    """Write the rows of files in known formats to the scratch folder."""
    staged, rows = Staged(), 0
    for number, part in enumerate(parts):
        _check_stamp(part.found.format, options)
        stager = _Stager(connection, part, options, folder / f"staged-{number}")
        stager.rows_before = rows
        path, layout = stager.run()
        _check_alike(staged.layout, layout, part)
        staged.paths.append(path)
        staged.layout = _with_assumptions(staged.layout or layout, layout.assumptions)
        staged.left_out += stager.left_out
        staged.notes += stager.notes
        staged.problems += [stager.problems] if stager.left_out else []
        staged.spans += file_spans(connection, part.scan, part.files, first=rows + 1)
        if len(parts) > 1:
            rows += sum(rows_by_file(connection, part.scan).values())
    return staged


def _with_assumptions(layout: FoundLayout, others: Sequence[str]) -> FoundLayout:
    """Return a layout that states the format and columns of every part, each once."""
    return replace(layout, assumptions=tuple(dict.fromkeys([*layout.assumptions, *others])))


def _check_stamp(known: KnownFormat, options: ReadOptions) -> None:
    """Reject an option that contradicts a known format."""
    stated = options.stamp
    free = stated is None or known.unknown or known.generic or known.layout == "day"
    if stated is not None and not free and known.stamp != stated.value:
        raise InvalidParameterError("stamp", f"{known.stamp}, by {known.name}", stated.value)


def refuse_known(found: Recognised, path: object) -> InvalidFileError:
    """Return the error about a format that cannot be read."""
    name = found.format.name
    told = (path, "format", "interval readings of electricity", name)
    problem = f"{found.format.refuse} (format: {name})"
    return InvalidFileError(*told, problem=problem, remedy=found.format.instead)


def _check_alike(first: FoundLayout | None, layout: FoundLayout, part: StagedPart) -> None:
    """Reject formats in one source whose rows cannot be one table."""
    if first is None:
        return
    one, other = _convention(first), _convention(layout)
    if one != other:
        name = part.found.format.name
        told = (part.files[0], "format", f"files of one convention ({one})", name)
        problem = f"({name}) has {other}; the files before it have {one}"
        raise InvalidFileError(*told, problem=problem, remedy=READ_SEPARATELY)


def _convention(layout: FoundLayout) -> str:
    """Return the meaning of time stamps and values, which must be that of all files."""
    if layout.cumulative:
        return "register reads"
    return f"energy of intervals, stamped with their {layout.stamp.value}"


class _Stager(LengthColumns):
    """Writes the SELECT of one part, and runs it."""

    def run(self) -> tuple[Path, FoundLayout]:
        """Write the rows; return their file and layout."""
        self._refuse_open_quotes()
        self._refuse_other_meanings()
        self._choose_group()
        self._find_sensors()
        stamp_us, aware = self._stamp()
        self._instants = aware
        rows = self._write("rows", self._rows_sql(stamp_us))
        self._count_left_out(rows)
        self.problems = f"""
            SELECT left_out AS reason, row + {self.rows_before} AS {ident(ROW_COLUMN)},
                   concat_ws(', ', customer, make_timestamp(stamp_us)::VARCHAR,
                             coalesce(unreadable, value::VARCHAR), channel) AS written
            FROM {rows} WHERE left_out IS NOT NULL
        """
        self._find_end(rows)
        kept = f"(SELECT * FROM {rows} WHERE left_out IS NULL)"
        if self._known.columns.get("power"):
            self.notes[AVERAGED] = self._count(kept)
            kept = Resampling(self._rows, self._write, self._refuse).power_samples(kept)
        elif self._known.cumulative:
            kept = Resampling(self._rows, self._write, self._refuse).registers(kept)
        kept = self._with_minutes(kept)
        self._refuse_long_intervals(kept)
        self._refuse_other_minutes(kept)
        if self._compared_length() is not None:
            self.notes[CONTRADICTED] = self._count(f"{kept} WHERE stated_minutes <> minutes")
        kind = "make_timestamptz" if aware else "make_timestamp"
        unit = "value * factor" if not self._is_power() else "value * factor * minutes"
        path = self._target.with_suffix(".parquet")
        self._connection.execute(f"""
            COPY (SELECT customer, {kind}(stamp_us) AS stamp,
                         least(minutes, {_LONGEST})::SMALLINT AS minutes,
                         {unit} AS value, unreadable, channel, quality, register,
                         row + {self.rows_before} AS {ident(ROW_COLUMN)}
                  FROM {kept} ORDER BY row)
            TO {literal(str(path))} (FORMAT parquet)
        """)
        return path, FoundLayout(
            STAGED_TABLE,
            MeasuredIn.KWH,
            self._stamp_is,
            self._assumptions(),
            cumulative=self._known.cumulative,
            placed=self._placed,
            file_unit=self._unit_name,
        )

    def _find_end(self, rows: str) -> None:
        """Take stamps for ends where rows go from 0:15 to 0:00, and no name says what they are."""
        known, stated = self._known, self._options.stamp
        if not (known.generic or known.unknown) or known.layout != "rows" or known.cumulative:
            return
        named = [self._one(role) or "" for role in ("stamp", "date", "time")]
        said = any(SAYS_START.search(plain_name(name)) for name in named) or self._one("end")
        if stated is not None or said or self._stamp_is is Stamp.END:
            self._stamp_is = stated or self._stamp_is
            return
        first, last, step = self._rows(f"""
            SELECT min(stamp_us), max(stamp_us), mode(us) FROM (
                SELECT stamp_us, stamp_us - lag(stamp_us) OVER (
                    PARTITION BY customer, register, channel ORDER BY stamp_us) AS us
                FROM {rows} WHERE left_out IS NULL)
        """)[0]
        if first is None or not step or self._instants:
            return
        begin, end = int(str(first)) % DAY_US, int(str(last)) % DAY_US
        if (begin, end) == (int(str(step)), 0) and step != DAY_US:
            self._stamp_is = Stamp.END
            self._inferred_end = True

    _instants = _inferred_end = False
    rows_before = 0
    """Rows of the files that were staged before."""
    problems = ""
    """SELECT of reason, row and text of the rows that are left out."""

    def _count(self, rows: str) -> int:
        return int(str(self._rows(f"SELECT count(*) FROM {rows}")[0][0]))

    def _refuse_open_quotes(self) -> None:
        """Reject a field over several lines: a quote that is not closed swallows readings."""
        fields = [f"{ident(name)}::VARCHAR" for name in self._scan.types]
        tests = " OR ".join(f"contains({field}, chr(10))" for field in fields)
        shown = f"concat_ws(', ', {', '.join(fields)})"
        found = self._rows(f"SELECT {shown} FROM {self._scan.sql} WHERE {tests} LIMIT 1")
        if found:
            raise self._refuse(
                "content", "a closing quote in its line", " ".join(str(found[0][0]).split())[:80]
            )

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

    def _rows_sql(self, stamp_us: str) -> str:
        columns, structs = self._unpivoted()
        decimals = self._decimals(columns)
        factor, left_out = self._unit()
        direction = self._direction()
        registers = [self._text(name) for name in self._found.roles.get("register", ())]
        if column := self._sensors or self._one("direction"):
            registers.append(self._text(column))
        matrix = self._known.layout == "matrix"
        register = f"concat_ws(' ', {', '.join([*registers, 'v.register'])})"
        present = " OR ".join(f"{ident(name)} IS NOT NULL" for name in self._scan.types)
        keep = self._keep_sql()
        number = decimals.number("v.text")
        minutes = self._minutes_sql()
        compared = self._compared_sql
        stated = f"{compared} AS stated_minutes," if compared else ""
        return f"""
            SELECT row, {stated} {"v.customer" if matrix else "customer"} AS customer,
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
                SELECT *, {self._customer()} AS customer,
                       {stamp_us} AS stamp_us, {factor} AS factor, {left_out} AS left_out,
                       {direction} AS direction, {self._quality()} AS quality, {keep} AS kept,
                       unnest({structs}) AS v
                FROM (SELECT *, row_number() OVER () AS row FROM {self._scan.sql})
                WHERE {present}
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
                    tests.append(f"coalesce({self._text(name)}, '') IN {listed(words)}")
        return " AND ".join(tests) or "true"

    def _count_left_out(self, rows: str) -> None:
        query = f"SELECT left_out, count(*) FROM {rows} GROUP BY left_out"
        found = {row[0]: int(str(row[1])) for row in self._rows(query)}
        kept = found.pop(None, 0)
        self.left_out.update({str(reason): count for reason, count in found.items()})
        if not kept and found:
            if GAS in found:
                raise self._gas("all rows")
            raise NoUsableReadingError(self._path, "all rows", "a reading", next(iter(found)))

    def _assumptions(self) -> tuple[str, ...]:
        found = [f"format: {self._known.name}, by {self._found.evidence}"]
        if self._unit_name:
            found.append(f"unit: {self._unit_name}")
        if (stated_unit := self._options.unit) is not None and self._known.unknown:
            named = {name: unit_in_name(plain_name(name)) for name, _ in self._values()}
            found += [
                unit_note(stated_unit, unit.value, name)
                for name, unit in named.items()
                if unit is not None and unit is not stated_unit
            ]
        if (self._sensors or self._one("customer") is None) and self._known.layout != "matrix":
            stated = self._options.customer or self._found.from_letterhead("customer")
            if self._options.customer is None:
                letterhead = "customer: the letterhead, as no column names it"
                found.append(letterhead if stated else NAMED_BY_FILE)
        for role, names in self._found.roles.items():
            used = "" if names[0] != self._compared_length() else NOT_USED
            found.append(f"{role}: column {', '.join(map(repr, names[:4]))}{used}")
        if self._known.layout != "rows":
            found.append(f"layout: {self._known.layout}")
        if self._inferred_end:
            found.append(INFERRED_END)
        elif self._known.unknown or self._known.generic:
            found.append(f"time stamps: {self._stamp_is.value} of the interval")
        elif self._known.stamp == "instant":
            read = "register reads" if self._known.cumulative else "samples"
            found.append(f"time stamps: instants of {read}")
        else:
            found.append(f"time stamps: {self._known.stamp} of the interval")
        return tuple(found)


def _structs(cells: Sequence[tuple[str, str, str, int, str]], text: Callable[[str], str]) -> str:
    """Write a list of values: text, channel, register, delay and customer."""
    made = (
        f"{{'text': {text(name)}, 'channel': {literal(channel)}, 'register': {literal(register)},"
        f" 'late_us': {late}::BIGINT, 'customer': {literal(customer)}}}"
        for name, channel, register, late, customer in cells
    )
    return f"[{', '.join(made)}]"
