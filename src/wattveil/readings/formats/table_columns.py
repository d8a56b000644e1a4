"""Roles of columns: named by the caller, or inferred from the header and reported."""

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.readings.formats.column_names import (
    evenly_spaced,
    may_be_slot,
    names_direction,
    unit_in_name,
)
from wattveil.readings.options import (
    ASSUMED_KWH,
    UNREAD,
    UNREAD_DIRECTION,
    DaySlots,
    FileLayout,
    MeasuredIn,
    ReadOptions,
    Stamp,
    unit_note,
)
from wattveil.readings.schema import READINGS_SCHEMA

# Names of columns, the likeliest first, in small letters with all other signs as _.
_CUSTOMER = [
    *("customer_id", "customer", "account_identifier", "account_id", "account", "household_id"),
    *("household", "home_id", "premise_id", "premise", "meter_id", "meter", "meterid", "lclid"),
    *("customer_no", "customer_number", "premises", "premises_id", "mpan", "mprn", "icp", "esiid"),
    *("esi_id", "cups", "pod", "prm", "usage_point", "usage_point_id", "service_point"),
    "service_point_id",
    *("dataid", "nmi", "zahlpunkt", "zaehlpunkt", "id"),
]
_STAMP_START = [
    *("start_utc", "timestamp_utc", "timestamp", "start", "interval_start", "start_time"),
    *("datetime", "date_time", "tstp", "local_15min", "reading_time", "read_time", "read_at"),
    *("ts", "time", "dt", "utc", "zeitpunkt", "messzeitpunkt", "zeitstempel", "datum_und_zeit"),
    *("datum_und_uhrzeit", "tidpunkt", "fecha_hora", "horodate"),
]
_STAMP_END = ["end_utc", "interval_end", "end_time", "end", "read_end"]
_DATE = [
    *("date", "day", "interval_reading_date", "reading_date", "read_date"),
    *("datum", "data", "fecha", "dato", "giorno"),
]
_TIME = ["time", "start_time", "hour_minute", "zeit", "uhrzeit", "tijd", "heure", "hora", "ora"]
_RUNNING = "register"  # a register state or an increment: the name does not determine which
_VALUE = ["kwh", "value", "consumption", "usage", "energy", "kw", "wh", "reading", _RUNNING]
_UNIT = ["unit", "units", "uom", "unit_of_measure", "eenheid", "einheit", "unite", "unidad"]
_CHANNEL = ["channel", "flow_direction", "direction", "flow"]
_QUALITY = ["quality", "status", "read_quality", "quality_flag", "estimated"]
_MINUTES = ["minutes", "interval_minutes", "interval_length", "duration_minutes", "duration"]

# Words in names of columns that are channels, states or sensors of one home, never its neighbours.
_TELLING = {
    *("import", "imported", "export", "exported", "delivered", "received", "returned", "return"),
    *("consumption", "consumed", "production", "produced", "generation", "generated", "injection"),
    *("afname", "injectie", "verbruik", "teruglevering", "levering", "bezug", "einspeisung"),
    *("consumo", "prelievo", "immissione", "forbruk", "kulutus", "grid", "solar", "pv", "battery"),
    *("tariff", "tarief", "t1", "t2", "low", "high", "register", "total", "net", "status", "state"),
    *("quality", "flag", "estimated", "temperature", "temp", "humidity", "voltage", "volt", "amp"),
    *("current", "power", "energy", "frequency", "cost", "price", "rate", "usage", "phase", "wind"),
    *("gas", "water", "m3", "therms", "therm", "weather", "occupancy", "aggregate", "appliance"),
    *("notes", "note", "remark", "remarks", "comment", "description", "peak", "piek", "season"),
    *("interval", "start", "end", "date", "time", "unit", "units", "type", "duration"),
}
_GAS = {"m3", "therms", "therm", "ccf", "gas", "water"}
_MAX_SHOWN = 12
INFERRED_START = "time stamps: start of the interval"
"""Assumption about a column whose name does not say that stamps are ends."""

_VALUE_SUFFIX = re.compile(r"(^|_)(kwh|kw|wh)(_hh|_h)?$")
_SLOT = re.compile(r"(?P<prefix>\D*?)_?(?P<number>\d{1,4})")
_COMED_SLOT = re.compile(r"interval_hr(\d{4})_energy_qty")
_DAY_SLOTS = {24: 60, 48: 30, 96: 15, 288: 5}
_LONG_DAY_SLOTS = {slots * 25 // 24: minutes for slots, minutes in _DAY_SLOTS.items()}

_MAX_NUMBERED_ATTRIBUTES = 9  # more columns that differ by a number are slots of the day

_LETTERS = str.maketrans({"æ": "ae", "ø": "o", "ß": "ss", "³": "3", "œ": "oe", "ð": "d", "ł": "l"})


def plain_name(text: str) -> str:
    """Return a name in lower case, without accents, with every other sign as ``_``."""
    letters = text.lower()
    if not letters.isascii():
        lowered = unicodedata.normalize("NFKD", letters.translate(_LETTERS))
        letters = "".join(sign for sign in lowered if not unicodedata.combining(sign))
    return re.sub(r"[^a-z0-9]+", "_", letters).strip("_")


@dataclass(frozen=True, kw_only=True)
class LongTable:
    """One row per reading. ``stamp`` is one column, or a date and a time."""

    customer: str
    stamp: tuple[str, ...]
    value: str
    meter: str | None = None
    channel: str | None = None
    quality: str | None = None
    minutes: str | None = None
    register: str | None = None  # rows of one interval that differ in it are added
    written: str | None = None  # texts of the values that are not numbers


@dataclass(frozen=True, kw_only=True)
class WideTable:
    """One row per customer and day; ``slots`` are its columns in order of time."""

    customer: str
    date: str
    slots: tuple[str, ...]
    minutes: int
    day_slots: DaySlots


@dataclass(frozen=True, kw_only=True)
class MatrixTable:
    """One row per time stamp; all columns but one are customers."""

    stamp: str
    customers: tuple[str, ...]


TableLayout = LongTable | WideTable | MatrixTable

_OWN_TABLE = LongTable(
    customer="customer_id",
    stamp=("start_utc",),
    value="kwh",
    channel="channel",
    quality="quality",
    minutes="minutes",
)


@dataclass(frozen=True)
class FoundLayout:
    """A layout, with unit and stamp as far as names show them."""

    table: TableLayout
    unit: MeasuredIn
    stamp: Stamp
    assumptions: tuple[str, ...]
    cumulative: bool = False  # a known format of registers
    zone: str = ""  # of the stamps, if it is known
    placed: bool = False  # local times, which the format needs to be made instants before
    file_unit: str = ""  # of a staged file, whose values are kWh by now
    unit_column: str | None = None


def tells(plain: str) -> bool:
    """Return whether a name is that of a channel, a state or a sensor of one home."""
    return unit_in_name(plain) is not None or not _TELLING.isdisjoint(plain.split("_"))


def is_long_table(plain: Collection[str]) -> bool:
    """Return whether names are those of customers and stamps, so that a table is read as it is."""
    stamps = {*_STAMP_START, *_STAMP_END, *_DATE}
    return not set(_CUSTOMER).isdisjoint(plain) and not stamps.isdisjoint(plain)


def own_layout(
    unit: MeasuredIn = MeasuredIn.KWH, said: tuple[str, ...] = (), file_unit: str = ""
) -> FoundLayout:
    """Return the layout of the table that Wattveil itself writes."""
    return FoundLayout(_OWN_TABLE, unit, Stamp.START, said, file_unit=file_unit)


def find_layout(names: list[str], options: ReadOptions, *, path: object) -> FoundLayout:
    """Find the layout of a table from its column names and the options."""
    if names == READINGS_SCHEMA.names and not options.columns:
        unit = options.unit or MeasuredIn.KWH
        said = () if unit is MeasuredIn.KWH else (unit_note(unit, "kWh", _OWN_TABLE.value),)
        return own_layout(unit, said)
    search = ColumnSearch(names, options, path)
    wide = search.wide_slots()
    layout = options.layout
    if layout is None:
        layout = FileLayout.WIDE if wide else search.long_or_matrix()
        search.assumptions.append(f"layout: {layout.value}")
    match layout:
        case FileLayout.WIDE:
            return search.as_wide(wide)
        case FileLayout.LONG:
            return search.as_long()
        case FileLayout.MATRIX:
            return search.as_matrix()


class ColumnSearch:
    """Search for columns by name that records what it inferred."""

    def __init__(self, names: list[str], options: ReadOptions, path: object) -> None:
        self.names = names
        self.options = options
        self.path = path
        self.plain = {name: plain_name(name) for name in names}
        self.assumptions: list[str] = []
        for role, name in options.columns.items():
            if name not in names:
                raise self.refuse(f"the column {name!r} (given as {role})")

    def customer(self) -> str | None:
        """Return the column of customers or meters."""
        return self.optional("customer", _CUSTOMER) or self.options.columns.get("meter")

    def date(self) -> str:
        """Return the column of dates, which a wide table must have."""
        return self.needed("date", _DATE + _STAMP_START)

    def stamp(self) -> dict[str, str]:
        """Return the columns of the stamp by role: one, or a date and a time; none if unclear."""
        taken = self.options.columns
        date, time = self.optional("date", _DATE), self.optional("time", _TIME)
        if "stamp" not in taken and date and time:
            return {"date": date, "time": time}
        stamp = self.optional("stamp", _STAMP_START + _STAMP_END + _DATE)
        return {} if stamp is None else {"stamp": stamp}

    def stamp_end(self, stamp: Mapping[str, str]) -> Stamp:
        """Return which end of the interval the stamp names, by the name of its column."""
        name = self.plain[list(stamp.values())[-1]]
        return Stamp.END if name in _STAMP_END else Stamp.START

    def describing(self) -> dict[str, str]:
        """Return the columns that describe a value: direction, quality, unit."""
        known = {
            "direction": ("channel", _CHANNEL),
            "quality": ("quality", _QUALITY),
            "unit": ("unit", _UNIT),
            "minutes": ("minutes", _MINUTES),
        }
        found = {role: self.optional(*names) for role, names in known.items()}
        return {role: name for role, name in found.items() if name is not None}

    def long_or_matrix(self) -> FileLayout:
        """Take a table with a stamp but without customer column for a matrix."""
        customer = self.customer()
        stamp = self.optional("stamp", _STAMP_START + _STAMP_END)
        value = self.optional("value", _VALUE)
        if customer is not None or value is not None or stamp is None or self.likely_values():
            return FileLayout.LONG
        others = [name for name in self.names if name != stamp]
        if len(others) == 1:
            raise self.refuse(
                "a unit in the name of the value, or columns={'value': …} and unit=…;"
                " or layout='matrix'"
            )
        telling = [name for name in others if self.tells(name)]
        if telling:
            raise self.refuse(
                f"one customer per column, but {', '.join(telling[:3])} are named by a"
                " unit, a direction or a sensor; columns={'value': …} for the energy of one home,"
                " or layout='matrix'"
            )
        return FileLayout.MATRIX

    def tells(self, name: str) -> bool:
        """Return whether a name is that of a channel, a state or a sensor."""
        return tells(self.plain[name])

    def as_long(self) -> FoundLayout:
        """Find the columns of one row per reading."""
        taken = self.options.columns
        self._refuse_missing()
        customer = taken.get("customer") or taken.get("meter") or self.needed("customer", _CUSTOMER)
        stamp, end = self._long_stamp()
        value, unit = self._value()
        table = LongTable(
            customer=customer,
            meter=taken.get("meter"),
            stamp=stamp,
            value=value,
            channel=self.optional("channel", _CHANNEL, report=True),
            quality=self.optional("quality", _QUALITY, report=True),
            minutes=None
            if self.options.minutes
            else self.optional("minutes", _MINUTES, report=True),
        )
        roles = [table.customer, table.meter, table.channel, table.quality, table.minutes]
        unit_column = self.optional("unit", _UNIT)
        self._report_unread([*roles, *stamp, value, unit_column])
        if unit_column is not None and self.options.unit is None:
            if ASSUMED_KWH in self.assumptions:
                self.assumptions.remove(ASSUMED_KWH)
            self.assumptions.append(f"unit: column {unit_column!r}")
        return FoundLayout(table, unit, end, tuple(self.assumptions), unit_column=unit_column)

    def _refuse_missing(self) -> None:
        """Reject a table without the columns of several roles, all of them at once."""
        found = {
            "customer": self.customer(),
            "stamp": self.optional("stamp", _STAMP_START + _STAMP_END + _DATE),
            "value": self.options.columns.get("value") or self.likely_values(),
        }
        taken = self.options.columns
        if missing := [role for role, name in found.items() if not name]:
            roles = ", ".join(f"{role!r}: …" for role in missing)
            if self.names[:2] == ["customer_id", "load_kw"]:  # of `wattveil profiles`
                raise self.refuse("readings; this file has profiles: pass it to `wattveil release`")
            one = ", or state customer=… if the file is one home" if "customer" in missing else ""
            what = " or ".join(filter(None, [", ".join(missing[:-1]), missing[-1]]))
            what = what.replace("stamp", "time stamp")
            given = ", ".join(f"{one!r} is given as {role}" for role, one in taken.items())
            shown = f"{', '.join(self._shown_names())}{'; ' * bool(given)}{given}"
            raise InvalidFileError(
                self.path,
                "header",
                f"columns recognised as {what}",
                self._shown_names(),
                problem=f"has no column recognised as {what} (columns: {shown})",
                remedy=f"Name {'it' if len(missing) == 1 else 'them'}: columns={{{roles}}}{one}",
            )

    def is_value(self, name: str) -> bool:
        """Return whether the caller named a column as the value, or its name is that of one."""
        return name == self.options.columns.get("value") or name in self.likely_values()

    def likely_values(self) -> list[str]:
        """Return the columns that may hold values, by a word or a unit in their names."""
        taken = self.options.columns.values()
        return [
            name
            for name, plain in self.plain.items()
            if name not in taken
            and (plain in _VALUE or _VALUE_SUFFIX.search(plain) or unit_in_name(plain))
        ]

    def as_wide(self, slots: tuple[str, ...]) -> FoundLayout:
        """Find the columns of one row per customer and day."""
        minutes = _DAY_SLOTS.get(len(slots)) or _LONG_DAY_SLOTS.get(len(slots))
        if minutes is None:
            raise self.refuse(f"one column per slot of the day, {list(_DAY_SLOTS)} in all")
        if self.options.minutes not in {None, minutes}:
            rule = f"{minutes}, as {len(slots)} slots make a day"
            raise InvalidParameterError("minutes", rule, self.options.minutes)
        extra = len(slots) in _LONG_DAY_SLOTS
        day_slots = self.options.day_slots
        if day_slots is None:
            day_slots = DaySlots.ELAPSED if extra else DaySlots.CLOCK
            self.assumptions.append(f"day_slots: {day_slots.value}")
        taken = self.options.columns
        table = WideTable(
            customer=taken.get("meter") or self.needed("customer", _CUSTOMER),
            date=self.needed("date", _DATE + _STAMP_START),
            slots=slots,
            minutes=minutes,
            day_slots=day_slots,
        )
        self._refuse_unread_values(table)
        self._refuse_other_end(slots, minutes)
        self._report_unread([table.customer, table.date, *slots])
        return FoundLayout(table, self._unit(None), Stamp.START, tuple(self.assumptions))

    def _refuse_other_end(self, slots: tuple[str, ...], minutes: int) -> None:
        """Reject an end or start that the numbers of the columns contradict."""
        first = re.search(r"\d+", self.plain[slots[0]])
        number = int(first[0]) if first else 1
        named = {0: Stamp.START, minutes: Stamp.END}.get(number)
        if number == 1 and minutes == 60:  # noqa: PLR2004 - h01 may be the first hour or its end
            named = None
        if self.options.stamp is not None and named not in {None, self.options.stamp}:
            rule = f"{named.value}, as the first column is {slots[0]!r}" if named else ""
            raise InvalidParameterError("stamp", rule, self.options.stamp.value)

    def as_matrix(self) -> FoundLayout:
        """Find the columns of one row per time stamp."""
        stamp = self.needed("stamp", _STAMP_START + _STAMP_END + _DATE)
        customers = tuple(name for name in self.names if name != stamp)
        end = self._end_stamp(stamp)
        table = MatrixTable(stamp=stamp, customers=customers)
        return FoundLayout(table, self._unit(None), end, tuple(self.assumptions))

    def wide_slots(self) -> tuple[str, ...]:
        """Find the longest family of columns numbered by slot of the day."""
        best = max(self._families(), key=len, default={})
        minutes = _DAY_SLOTS.get(len(best)) or _LONG_DAY_SLOTS.get(len(best))
        if minutes is None:
            return ()
        if not evenly_spaced(sorted(best), minutes):
            raise self.refuse(f"columns for slots that follow each other by {minutes} minutes")
        return tuple(best[number] for number in sorted(best))

    def _families(self) -> list[dict[int, str]]:
        """Gather the columns whose names differ by a number only."""
        families: dict[str, dict[int, str]] = {}
        for name, plain in self.plain.items():
            if match := _COMED_SLOT.fullmatch(plain):
                families.setdefault("comed", {})[int(match[1])] = name
            elif match := _SLOT.fullmatch(plain.replace("_00", "00").replace("_30", "30")):
                families.setdefault(match["prefix"], {})[int(match["number"])] = name
        return list(families.values())

    def _refuse_unread_values(self, table: WideTable) -> None:
        """Reject a table with columns that may hold values but are not slots of the day."""
        if channel := self.optional("channel", _CHANNEL):
            raise self.refuse(f"wide tables of one flow, as rows have no channel; not {channel!r}")
        numbered = [
            name
            for family in self._families()
            if len(family) > _MAX_NUMBERED_ATTRIBUTES
            for name in family.values()
        ]
        first, last = (self.names.index(table.slots[place]) for place in (0, -1))
        among = self.names[min(first, last) : max(first, last)]
        slot = self.plain[table.slots[0]]
        for name in self._unread([table.customer, table.date, *table.slots]):
            if name in numbered or name in among or may_be_slot(self.plain[name], slot):
                expected = f"slots such as {table.slots[0]!r}, and attributes; not {name!r}"
                raise self.refuse(expected)

    def _unread(self, read: list[str | None]) -> list[str]:
        return [name for name in self.names if name not in read]

    def _report_unread(self, read: list[str | None]) -> None:
        unread = self._unread(read)
        directed = [name for name in unread if names_direction(self.plain[name])]
        others = [name for name in unread if name not in directed]
        for text, names in ((f"{UNREAD}: ", others), (UNREAD_DIRECTION, directed)):
            if names:
                self.assumptions.append(text + ", ".join(map(repr, names)))

    def needed(self, role: str, known: list[str]) -> str:
        """Return the column of a role, which the table must have."""
        found = self.optional(role, known, report=True)
        if found is None:
            raise self.refuse(f"a column recognised as {role}; or name it: columns={{{role!r}: …}}")
        return found

    def refuse(self, expected: str) -> InvalidFileError:
        """Return the error about the header."""
        return InvalidFileError(self.path, "header", expected, self._shown_names())

    def _shown_names(self) -> list[str]:
        more = len(self.names) - _MAX_SHOWN
        return self.names[:_MAX_SHOWN] + ([f"and {more} more"] if more > 0 else [])

    def optional(self, role: str, known: list[str], *, report: bool = False) -> str | None:
        """Take the column the caller named, else the first whose name is known."""
        if given := self.options.columns.get(role):
            return given
        for candidate in known:
            for name, plain in self.plain.items():
                if plain == candidate and name not in self.options.columns.values():
                    if report:
                        self.assumptions.append(f"{role}: column {name!r}")
                    return name
        return None

    def _long_stamp(self) -> tuple[tuple[str, ...], Stamp]:
        taken = self.options.columns
        if "stamp" not in taken:
            date, time = self.optional("date", _DATE), self.optional("time", _TIME)
            if date and time:
                if "date" not in taken or "time" not in taken:
                    self.assumptions.append(f"stamp: columns {date!r} and {time!r}")
                return (date, time), self._end_stamp(time)
        stamp = self.needed("stamp", _STAMP_START + _STAMP_END + _DATE)
        return (stamp,), self._end_stamp(stamp)

    def _end_stamp(self, name: str) -> Stamp:
        if self.options.stamp is not None or self.options.cumulative:
            return self.options.stamp or Stamp.START
        end = Stamp.END if self.plain[name] in _STAMP_END else Stamp.START
        inferred = "time stamps: end of the interval" if end is Stamp.END else INFERRED_START
        self.assumptions.append(inferred)
        return end

    def _value(self) -> tuple[str, MeasuredIn]:
        given = self.options.columns.get("value")
        likely = self.likely_values()
        if given is None and len(likely) != 1:
            several = f"; several could be it: {', '.join(likely)}" if likely else ""
            raise self.refuse(f"one column of values, or columns={{'value': …}}{several}")
        value = given or likely[0]
        if given is None:
            self.assumptions.append(f"value: column {value!r}")
        if (
            self.plain[value] == _RUNNING
            and self.options.unit is None
            and not self.options.cumulative
        ):
            expected = f"cumulative=True if {value!r} is a running total, else its unit=…"
            raise self.refuse(expected)
        if not _GAS.isdisjoint(self.plain[value].split("_")):
            raise self.refuse(f"electricity in kWh, Wh, MWh, kW or W; {value!r} is gas or water")
        return value, self._unit(unit_in_name(self.plain[value]), value)

    def _unit(self, named: MeasuredIn | None, column: str = "") -> MeasuredIn:
        stated = self.options.unit
        if stated is None:
            self.assumptions.append(f"unit: {named.value}" if named else ASSUMED_KWH)
        elif named not in {None, stated}:
            self.assumptions.append(unit_note(stated, str(named), column))
        return stated or named or MeasuredIn.KWH
