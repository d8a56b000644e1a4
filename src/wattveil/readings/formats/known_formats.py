"""Known exports of meter data: the table `known_formats.toml`, and the format of a file.

A format is recognised by the names of its columns in one of the first lines, never by the name of
the file. The lines above are the letterhead, which may name the customer and the unit.
"""

import csv
import io
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any

from wattveil.readings.formats.column_names import unit_in_name
from wattveil.readings.formats.table_columns import is_long_table, plain_name, tells
from wattveil.readings.options import DecimalMark, MeasuredIn, Stamp

_DELIMITERS = ",;\t|"
_MAX_LETTERHEAD = 80  # lines
_MIN_COLUMNS = 2
_HEAD_SIGNS = 4_000
FIXED_ZONES = {"UTC": 0, "UTC+10": 10}  # hours
_ENERGY = {MeasuredIn.KWH, MeasuredIn.WH, MeasuredIn.MWH}
VALUE_ROLES = ("delivered", "received", "net", "power")
_ROLES = {
    "customer",
    "stamp",
    "date",
    "time",
    "end",
    "end_date",
    "end_time",
    "hour",
    "daycode",
    "minutes",
    "duration",
    "unit",
    "direction",
    "register",
    "quality",
    "gas",
    "cost",
    "state",
    *VALUE_ROLES,
}


@dataclass(frozen=True, kw_only=True)
class KnownFormat:
    """One table of `known_formats.toml`; its beginning describes the fields."""

    name: str
    columns: Mapping[str, str] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)
    exact: bool = False
    ignored: str = ""
    layout: str = "rows"
    unit: str = "kWh"
    stamp: str = "start"
    dates: str = ""
    decimal: str = ""
    zone: str = ""
    minutes: int | str | None = None
    cumulative: bool = False
    direct: bool = False
    trust_ends: bool = False
    generic: bool = False
    sensors: bool = False
    delay: int = 0
    unknown: bool = False  # not of the table: columns were found by name
    letterhead: Mapping[str, str] = field(default_factory=dict)
    keep: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    direction_part: str = ""
    refuse: str = ""
    instead: str = ""
    head: str = ""
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Reject a table that cannot be applied."""
        roles = {*self.columns, *self.optional, *self.letterhead}
        checks = {
            "roles": roles <= _ROLES,
            "columns": bool(self.columns or self.refuse),
            "layout": self.layout in {"rows", "day", "across", "matrix"},
            "unit": self.unit in {"kWh", "Wh", "kW", "W", "MWh", "MJ"},
            "stamp": self.stamp in {"start", "end", "instant"},
            "dates": self.dates in {"", "dmy", "mdy"},
            "decimal": self.decimal in {"", *DecimalMark},
            "zone": self.zone in {"", *FIXED_ZONES},
        }
        if wrong := [name for name, holds in checks.items() if not holds]:
            raise ValueError(f"format {self.name!r}: {', '.join(wrong)}")

    @property
    def end_stamped(self) -> Stamp:
        """Which end of an interval a stamp names."""
        return Stamp.END if self.stamp == "end" else Stamp.START


@dataclass(frozen=True, kw_only=True)
class Header:
    """A line of column names. Names that are empty or occur twice are completed."""

    line: int  # lines before it
    delimiter: str
    names: tuple[str, ...]
    has_names: bool = True  # the file has this line; otherwise its columns have no names
    letterhead: Mapping[str, str] = field(default_factory=dict)
    above: tuple[tuple[str, ...], ...] = ()  # cells of the lines of the letterhead

    @cached_property
    def plain(self) -> dict[str, str]:
        """Comparable name by column; repeated names are equal again."""
        return {name: plain_name(re.sub(r"#\d+$", "", name)) for name in self.names}


@dataclass(frozen=True, kw_only=True)
class Recognised:
    """A file in a known format, with its columns by role."""

    format: KnownFormat
    header: Header
    roles: Mapping[str, tuple[str, ...]]

    def one(self, role: str) -> str | None:
        """Return the first column of a role."""
        return next(iter(self.roles.get(role, ())), None)

    def from_letterhead(self, role: str) -> str | None:
        """Return what the letterhead states for a role."""
        pattern = self.format.letterhead.get(role)
        if pattern is None:
            return None
        for alternative in [pattern] if "(" in pattern else pattern.split("|"):
            for name, value in self.header.letterhead.items():
                is_code = role != "customer" or re.search(r"\d{4,}", value)  # not "Service 1"
                if re.fullmatch(alternative, name) and value and is_code:
                    return value
        return None

    @property
    def evidence(self) -> str:
        """State why the file was recognised."""
        if not self.header.has_names:
            return "the first line"
        shown = [name for names in self.roles.values() for name in names[:2]][:6]
        kind = "column" if len(shown) == 1 else "columns"
        where = f" in line {self.header.line + 1}" if self.header.line else ""
        return f"the {kind} {', '.join(map(repr, shown))}{where}"


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "known_formats.toml").read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def known_formats() -> tuple[KnownFormat, ...]:
    """Return the formats of the table, in its order."""
    return tuple(KnownFormat(**entry) for entry in _table()["format"])


@lru_cache(maxsize=1)
def _required() -> re.Pattern[str]:
    """Return a pattern that some column of every recognised header fits."""
    every = (known.columns for known in known_formats() if not known.head)
    return re.compile("|".join(f"(?:{next(iter(columns.values()))})" for columns in every))


def recognise(head: str, *, one_home: bool = False) -> Recognised | None:
    """Return the format of a text file from its beginning, or None.

    ``one_home``: the caller states that the file is one customer's.
    """
    for known in known_formats():
        if known.head and (begin := re.search(known.head, head[:_HEAD_SIGNS])) is not None:
            names = tuple(known.names)
            delimiter = next((sign for sign in " ,;\t" if sign in begin[0]), ",")
            header = Header(line=0, delimiter=delimiter, names=names, has_names=False)
            roles = {role: (name,) for role, name in known.columns.items()}
            return Recognised(format=known, header=header, roles=roles)
    best: Recognised | None = None
    for header in headers(head):
        found = recognise_columns(header, one_home=one_home)
        if found is not None and (best is None or _score(found) > _score(best)):
            best = found
    return best


def recognise_columns(header: Header, *, one_home: bool = False) -> Recognised | None:
    """Return the format whose columns a header has, or None."""
    best: Recognised | None = None
    if not any(map(_required().fullmatch, header.plain.values())):
        return None  # most lines that are tried as a header are rows of data
    for known in known_formats():
        if not known.head and (roles := _roles(known, header)) is not None:
            found = Recognised(format=known, header=header, roles=roles)
            if not one_home and _may_name_customers(found):
                continue
            if best is None or _score(found) > _score(best):
                best = found
    return best


def _may_name_customers(found: Recognised) -> bool:
    """Return whether a file without a column of customers has one that could name them."""
    known, header = found.format, found.header
    named = "customer" in found.roles or found.from_letterhead("customer") is not None
    if named or known.refuse or known.layout in {"across", "matrix"}:
        return False
    taken = {name for names in found.roles.values() for name in names}
    if known.layout == "day":
        slots = day_slots(header.names)
        taken |= {slot.name for slot in slots[0]} if slots else set()
    return any(
        name not in taken and plain and not tells(plain) and not re.fullmatch(known.ignored, plain)
        for name, plain in header.plain.items()
    )


def _score(found: Recognised) -> tuple[int, int, int]:
    known = found.format
    return (not known.generic, len(found.roles) + bool(known.refuse), len(known.columns))


def _roles(known: KnownFormat, header: Header) -> dict[str, tuple[str, ...]] | None:
    plain = header.plain
    roles: dict[str, tuple[str, ...]] = {}
    taken: set[str] = set()
    for role, pattern in (*known.columns.items(), *known.optional.items()):
        fits = re.compile(pattern).fullmatch
        fitting = tuple(name for name, short in plain.items() if name not in taken and fits(short))
        if fitting:
            fitting = (
                fitting
                if role in {*VALUE_ROLES, "register"}
                else _preferred(pattern, fitting, plain)
            )
            roles[role] = fitting
            taken.update(fitting)
        elif role in known.columns:
            return None
    if known.generic and not _one_meaning(known, roles, plain):
        return None
    if known.layout == "day" and not day_slots(header.names):
        return None
    if known.layout == "across" and not any(map(_is_stamp, header.names)):
        return None
    if known.exact:
        others = set(header.names) - taken
        if any(plain[name] and not re.fullmatch(known.ignored, plain[name]) for name in others):
            return None
    return roles


def _one_meaning(
    known: KnownFormat, roles: Mapping[str, tuple[str, ...]], plain: Mapping[str, str]
) -> bool:
    """Return whether each value is one column, and no other column may hold energy.

    A long table of customers is read where it is, without a format.
    """
    if is_long_table(plain.values()):
        return False
    taken = {name for names in roles.values() for name in names}
    others = [plain[name] for name in plain if name not in taken]
    unread = any(
        unit_in_name(name) in _ENERGY and not re.fullmatch(known.ignored, name) for name in others
    )
    return not unread and all(len(roles.get(role, ())) <= 1 for role in VALUE_ROLES)


def _preferred(pattern: str, fitting: tuple[str, ...], plain: Mapping[str, str]) -> tuple[str, ...]:
    """Return the column that fits the earliest alternative of a pattern."""
    if len({plain[name] for name in fitting}) == 1:
        return fitting  # sets of columns of the same names
    if "(" in pattern:
        return fitting[:1]
    order = pattern.split("|")
    ranked = sorted(
        fitting,
        key=lambda name: next(
            (place for place, one in enumerate(order) if re.fullmatch(one, plain[name])), len(order)
        ),
    )
    return tuple(ranked[:1])


_STAMPED = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")


def _is_stamp(name: str) -> bool:
    return _STAMPED.fullmatch(name) is not None


def stamp_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that are named by a time stamp."""
    return tuple(name for name in names if _is_stamp(name))


@dataclass(frozen=True)
class DaySlot:
    """A column of a wide table: start of its interval in minutes after midnight."""

    name: str
    start: int


_CLOCK = r"(\d{1,2})[:.h](\d{2})(?::\d{2})?"
_RANGE = re.compile(rf"\D{{0,12}}?{_CLOCK}\s*(?:-|–|to|tot|à|a|bis)\s*{_CLOCK}\D{{0,8}}")
_TIME = re.compile(rf"\D{{0,12}}?{_CLOCK}\s*(?:\(?k?wh\)?)?", re.IGNORECASE)
_DAY_MINUTES = 1440
_SLOT_MINUTES = {24: 60, 48: 30, 72: 20, 96: 15, 144: 10, 288: 5}


def day_slots(names: Sequence[str], stamp: Stamp | None = None) -> tuple[list[DaySlot], int] | None:
    """Return the columns of a day that are named by times, and their length in minutes.

    Ranges (``00:00 - 00:30``) state start and end. Single times are starts if they begin with 0:00,
    ends if they end with 0:00 or 24:00, where the last column belongs to the same day.
    """
    ranges = [(name, found) for name in names if (found := _RANGE.fullmatch(name.strip()))]
    if ranges:
        slots = [DaySlot(name, int(found[1]) * 60 + int(found[2])) for name, found in ranges]
    else:
        times = [(name, found) for name in names if (found := _TIME.fullmatch(name.strip()))]
        slots = [DaySlot(name, int(found[1]) * 60 + int(found[2])) for name, found in times]
    minutes = _SLOT_MINUTES.get(len(slots))
    if minutes is None:
        return None
    starts = [slot.start for slot in slots]
    expected = [minutes * place for place in range(len(slots))]
    if starts == expected and stamp is not Stamp.END:
        return slots, minutes
    ends = [*expected[1:], expected[-1] + minutes]
    ended = [(start - 1) % _DAY_MINUTES + 1 for start in starts]
    if not ranges and ended == ends:
        return [
            DaySlot(slot.name, start) for slot, start in zip(slots, expected, strict=True)
        ], minutes
    return None


def headers(head: str) -> Iterable[Header]:
    """Yield the lines that may be column names, each with the letterhead above it."""
    lines = io.StringIO(head, newline=None).read().split("\n")[:_MAX_LETTERHEAD]
    letterhead: dict[str, str] = {}
    previous: list[str] = []
    above: list[tuple[str, ...]] = []
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        delimiter = max(_DELIMITERS, key=line.count)
        if delimiter not in line:
            _read_letterhead(letterhead, [line], previous)
            above.append(tuple(line.split(":", 1)))
            continue
        cells = split_line(line, delimiter)
        if sum(bool(cell) for cell in cells) >= _MIN_COLUMNS or cells[0] == "":
            names = completed(cells)
            yield Header(
                line=number,
                delimiter=delimiter,
                names=names,
                letterhead=dict(letterhead),
                above=tuple(above),
            )
        _read_letterhead(letterhead, cells, previous)
        above.append(tuple(cells))
        previous = cells


def split_line(line: str, delimiter: str) -> list[str]:
    """Split a line of a CSV file."""
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]


def completed(cells: Sequence[str]) -> tuple[str, ...]:
    """Return names that differ: a name that occurs again gets a number, an empty one its place."""
    names: list[str] = []
    seen: set[str] = set()
    for place, cell in enumerate(cells, start=1):
        lowered = cell.lower()
        names.append(f"{cell}#{place}" if lowered in seen else cell)
        seen.add(lowered)
    return tuple(names)


def _read_letterhead(letterhead: dict[str, str], cells: list[str], previous: list[str]) -> None:
    """Take ``name, value`` and ``name: value``, and values under a line of names."""
    if len(cells) >= _MIN_COLUMNS and any(cells[1:]):
        value = next(cell for cell in cells[1:] if cell)
        letterhead.setdefault(plain_name(cells[0]), _without_quotes(value))
    else:
        name, colon, value = cells[0].partition(":")
        if colon:
            letterhead.setdefault(plain_name(name), _without_quotes(value))
    if len(cells) == len(previous) > _MIN_COLUMNS:
        for name, value in zip(previous, cells, strict=True):
            letterhead[plain_name(name)] = _without_quotes(value)


def _without_quotes(text: str) -> str:
    return text.strip().strip("=\"'").strip()


_UNITS = {
    "kwh": MeasuredIn.KWH,
    "kw_h": MeasuredIn.KWH,
    "kilowatt_hours": MeasuredIn.KWH,
    "kilowatthour": MeasuredIn.KWH,
    "wh": MeasuredIn.WH,
    "watt_hours": MeasuredIn.WH,
    "mwh": MeasuredIn.MWH,
    "mj": MeasuredIn.MJ,
    "kw": MeasuredIn.KW,
    "w": MeasuredIn.W,
    "watt": MeasuredIn.W,
    "watts": MeasuredIn.W,
}
GAS_UNITS = {
    "m3",
    "m_3",
    "therm",
    "therms",
    "ccf",
    "mcf",
    "cubic_metre",
    "cubic_meter",
    "dm3",
    "l",
    "gal",
}


def unit_of(text: str) -> MeasuredIn | None:
    """Return the unit that a text names."""
    return _UNITS.get(plain_name(text))


@lru_cache(maxsize=1)
def _directions() -> dict[str, str]:
    table = _table()["words"]["directions"]
    return {text: meaning for meaning, texts in table.items() for text in texts}


@lru_cache(maxsize=1)
def _qualities() -> dict[str, str]:
    table = _table()["words"]["qualities"]
    return {text: meaning for meaning, texts in table.items() for text in texts}


def words_of(kind: str) -> Mapping[str, Any]:
    """Return the words or patterns of a kind, by meaning."""
    found: dict[str, Any] = _table()["words"][kind]
    return found


def direction_of(text: str, words: Mapping[str, str] | None = None) -> str | None:
    """Return the meaning of a text for a channel, or gas; None if it is unknown."""
    name = plain_name(text)
    if words and name in words:
        return words[name]
    phrase = name.replace("_", " ")
    found = _directions().get(phrase)
    if found is not None:
        return found
    ignored = _table()["words"]["tariffs"]["ignored"]
    left = " ".join(word for word in phrase.split() if word not in ignored)
    return _directions().get(left) if left else None


def sensor_of(text: str, words: Mapping[str, str] | None = None) -> str | None:
    """Return the meaning of the energy of a sensor by the words of its name; None if unknown."""
    name = plain_name(text)
    if words and name in words:
        return words[name]
    for meaning, known in _table()["words"]["sensors"].items():
        if not set(name.split("_")).isdisjoint(known):
            return str(meaning)
    return None


def quality_of(text: str, words: Mapping[str, str] | None = None) -> str | None:
    """Return the meaning of a text for a quality; None if unknown."""
    name = plain_name(text)
    if words and name in words:
        return words[name]
    found = _qualities().get(name.replace("_", " "))
    if found is None and re.fullmatch(r"[aesfn]\d{2}", name):  # NEM12: a flag with its method
        return _qualities()[name[0]]
    return found
