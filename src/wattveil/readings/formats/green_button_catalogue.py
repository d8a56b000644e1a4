"""First pass over a Green Button file: all entries except the readings.

The entries of the feed name one another by hyperlinks, in any order, so that a reading can only be
understood once the whole file was seen::

    IntervalBlock --up--> MeterReading --related--> ReadingType
                          MeterReading --up-------> UsagePoint

The catalogue keeps these entries and, per block, one number. Its size grows with the customers in
the file, not with their readings.

Codes are those of the ESPI schema (NAESB REQ.21). `interpret` turns one ReadingType into a
`Measure`, which either gives kWh for a reading or states why its readings cannot be used.
"""

import datetime as dt
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from urllib.parse import urlsplit

from wattveil.readings.batches import NOTE, ProblemSink
from wattveil.readings.file_names import without_endings
from wattveil.readings.formats.xml_stream import XmlStream, local_name

ELECTRICITY = 0
STARTS_ARE_UTC = "local-time rules ignored; start times are UTC"
HIGHEST_UNIT = 255
WIDEST_MULTIPLIER = 12

_WATT_HOUR, _WATT = 72, 38
_NOT_STATED = 0
_ELECTRIC_COMMODITIES = (0, 1, 2)  # not stated, metered on the secondary or on the primary side
_REGISTERS = (1, 2, 3, 9)  # bulk, continuous cumulative, cumulative, summation
_EXTREMES = (8, 9)  # maximum, minimum
_CHANNELS = {0: "delivered", 1: "delivered", 4: "net", 19: "received"}

QUALITIES = {
    0: "valid",
    7: "edited",
    8: "estimated",  # from a reference day
    9: "estimated",  # by linear interpolation
    10: "questionable",
    11: "derived",
    12: "projected",
    13: "mixed",
    14: "raw",
    15: "derived",  # normalised for the weather
    16: "other",
    17: "valid",  # validated
    18: "valid",  # verified
    19: "valid",  # revenue quality
}

# A reading with several flags is as good as its worst.
WORST_FIRST = (
    "projected",
    "questionable",
    "other",
    "mixed",
    "estimated",
    "derived",
    "edited",
    "raw",
    "valid",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """How to read the values of one ReadingType.

    Attributes
    ----------
    unusable
        Why readings of the type cannot be used; empty if they can.
    remarks
        What was assumed.
    channel
        ``delivered``, ``received`` or ``net``.
    multiplier
        Power of ten of the values.
    per_second
        Whether values are power, to be multiplied by the length of the interval.
    interval_seconds
        Length of an interval for readings without their own; 0 if unknown.
    """

    unusable: str = ""
    remarks: tuple[str, ...] = ()
    channel: str = "delivered"
    multiplier: int = 0
    per_second: bool = False
    interval_seconds: int = 0

    @property
    def unit(self) -> str:
        """Unit of the file with its power of ten, such as ``Wh × 10^-3``."""
        unit = "W" if self.per_second else "Wh"
        return f"{unit} × 10^{self.multiplier}" if self.multiplier else unit

    def kwh(self, value: int | Fraction, seconds: int) -> float:
        """Convert a value to kWh, negative if received; exact but for one rounding."""
        scaled = value * seconds if self.per_second else value
        per_kwh = 3_600_000 if self.per_second else 1000
        if self.multiplier >= 0:
            scaled *= 10**self.multiplier
        else:
            per_kwh *= 10**-self.multiplier
        energy = float(scaled / per_kwh)
        return 0.0 - abs(energy) if self.channel == "received" else energy


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """Customer and measure of the readings of one block."""

    customer_id: str
    measure: Measure


def interpret(codes: Mapping[str, int]) -> Measure:
    """Read the codes of a ReadingType, by their element names."""
    direction = codes.get("flowDirection", _NOT_STATED)
    unit = codes.get("uom", _NOT_STATED)
    unusable = _why_unusable(codes, unit, direction)
    if unusable:
        return Measure(unusable=unusable)
    remarks = []
    if direction == _NOT_STATED:
        remarks.append("flow direction is not stated, read as delivered")
    if unit == _WATT:
        remarks.append("power is read as the mean of its interval")
    return Measure(
        remarks=tuple(remarks),
        channel=_CHANNELS[direction],
        multiplier=codes.get("powerOfTenMultiplier", 0),
        per_second=unit == _WATT,
        interval_seconds=codes.get("intervalLength", 0),
    )


def _why_unusable(codes: Mapping[str, int], unit: int, direction: int) -> str:
    if codes.get("commodity", _NOT_STATED) not in _ELECTRIC_COMMODITIES:
        return "commodity is not electricity"
    if unit not in {_WATT_HOUR, _WATT}:
        return "unit is neither Wh nor W"
    if codes.get("accumulationBehaviour", _NOT_STATED) in _REGISTERS:
        return "register read, not the energy of an interval"
    if codes.get("dataQualifier", _NOT_STATED) in _EXTREMES:
        return "maximum or minimum, not the energy of an interval"
    if direction not in _CHANNELS:
        return "flow direction is neither delivered, received nor net"
    return ""


ATOM = "http://www.w3.org/2005/Atom"
ESPI = "http://naesb.org/espi"

# Levels at which things stand in the feed.
ENTRY, IN_ENTRY, RESOURCE, IN_RESOURCE, BELOW = 2, 3, 4, 5, 6

_RESOURCES = {"UsagePoint", "MeterReading", "ReadingType", "IntervalBlock"}
_TIME_ZONES = {"LocalTimeParameters", "TimeConfiguration"}
_CODES = {
    f"{ESPI} {name}"
    for name in (
        "accumulationBehaviour",
        "commodity",
        "dataQualifier",
        "flowDirection",
        "intervalLength",
        "powerOfTenMultiplier",
        "uom",
    )
}
_MULTIPLIER = f"{ESPI} powerOfTenMultiplier"
_ZONE_OFFSET = f"{ESPI} tzOffset"
_TITLE_STAMP = re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?\b(?!Z|[+-]\d)")
_HOUR_SECONDS, _DAY_SECONDS = 3_600, 86_400
_UNIT = f"{ESPI} uom"


@dataclass(kw_only=True, slots=True)
class _Entry:
    """One Atom entry, as far as it matters here."""

    line: int
    kind: str = ""
    blocks: int = 0
    identifier: str = ""
    title: str = ""
    links: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    codes: dict[str, int] = field(default_factory=dict)

    def link(self, relation: str) -> str:
        """Give the first link of a relation, or nothing."""
        return next(iter(self.links.get(relation, ())), "")

    def same_as(self, other: "_Entry") -> bool:
        """Return whether another entry under the same link is a repetition."""
        return (self.codes, self.links) == (other.codes, other.links)


@dataclass(slots=True)
class ClockEvidence:
    """What a file says about its clock: some senders write local time as if it were UTC.

    Attributes
    ----------
    titles
        Times in the titles of blocks, as seconds if they were UTC.
    offsets
        Offsets of standard time from UTC that the file states, in seconds.
    blocks, days, at_midnight, as_titled
        Blocks, those that last a day, those of them that begin at 0:00 UTC, and blocks that begin
        at the time of a title, taken as UTC.
    """

    titles: set[int] = field(default_factory=set)
    offsets: set[int] = field(default_factory=set)
    blocks: int = 0
    days: int = 0
    at_midnight: int = 0
    as_titled: int = 0

    def take_block(self, start: int, seconds: int) -> None:
        """Take in the period of a block."""
        self.blocks += 1
        self.as_titled += start in self.titles
        if abs(seconds - _DAY_SECONDS) <= _HOUR_SECONDS:
            self.days += 1
            self.at_midnight += start % _DAY_SECONDS == 0

    @property
    def days_are_utc(self) -> bool:
        """Whether all daily blocks begin at 0:00 UTC."""
        return 0 < self.days == self.at_midnight

    @property
    def is_local(self) -> bool:
        """Whether starts are local time, by the titles of blocks or an offset of 0."""
        return 0 < self.blocks == self.as_titled or (self.days_are_utc and self.offsets == {0})


class Catalogue(XmlStream):
    """Reads everything but the readings, and rejects a file that is not a Green Button feed."""

    def __init__(self, path: Path, home: str = "") -> None:
        super().__init__(path)
        self._home = home or without_endings(path.name)
        self._entry: _Entry | None = None
        self.clock = ClockEvidence()
        self._in_content = False
        self._group = ""  # the element around the codes of a usage point
        self._entries: dict[str, list[_Entry]] = {kind: [] for kind in _RESOURCES | _TIME_ZONES}
        self._collections: dict[str, int] = {}  # what the links of blocks lead to, numbered
        self._collection_of_block = array("l")
        for _ in self.run():
            pass
        if not self._collection_of_block:
            self.refuse("a feed with an IntervalBlock", "none in the whole file")
        if not self._entries["ReadingType"]:
            self.refuse("a feed with a ReadingType", "none in the whole file")

    def series_by_block(self, problems: ProblemSink) -> Iterable[Series]:
        """Give the series of each block, in the order of the file."""
        links = _Links(self._entries, self._home)
        series = [links.series(href, problems) for href in self._collections]
        _remark_on_shared_channels(series, problems)
        for zone in (zone for kind in _TIME_ZONES for zone in self._entries[kind]):
            problems.count(NOTE + STARTS_ARE_UTC, _at(zone))
        return (series[number] for number in self._collection_of_block)

    def opened(self, name: str, attributes: dict[str, str]) -> None:
        """Take up what stands outside of blocks."""
        if self.depth == 1:
            if name != f"{ATOM} feed":
                self.refuse(f"an Atom feed ({ATOM})", name)
        elif self.depth == ENTRY:
            self._in_content = False
            self._entry = _Entry(line=self.line) if name == f"{ATOM} entry" else None
        elif self._entry is not None:
            self._opened_in_entry(self._entry, name, attributes)
        if not (self._in_content and self.depth == RESOURCE and name == f"{ESPI} IntervalBlock"):
            refuse_stray_readings(self, name)

    def closed(self, name: str, text: str | None) -> None:
        """Take in codes and finished entries."""
        if text is not None and self._entry is not None:
            self._take_text(self._entry, name, text)
        elif self.depth == ENTRY and self._entry is not None:
            self._take_entry(self._entry)
            self._entry = None

    def _opened_in_entry(self, entry: _Entry, name: str, attributes: dict[str, str]) -> None:
        if self.depth == IN_ENTRY:
            if name == f"{ATOM} link" and "href" in attributes:
                href = _plain(attributes["href"])
                entry.links[attributes.get("rel", "")].append(href)
            elif name in {f"{ATOM} id", f"{ATOM} title"}:
                self.keep_text()
            self._in_content = name == f"{ATOM} content"
        elif self.depth == RESOURCE:
            if self._in_content:
                self._open_resource(entry, name)
        elif self._is_code(entry, name) or name == _ZONE_OFFSET:
            self.keep_text()
        elif self.depth == IN_RESOURCE:
            self._group = name

    def _open_resource(self, entry: _Entry, name: str) -> None:
        namespace, _, kind = name.rpartition(" ")
        if kind not in _RESOURCES | _TIME_ZONES:
            return
        if namespace != ESPI:
            self.refuse(f"{kind} in the namespace {ESPI}", namespace)
        if entry.kind and not entry.kind == kind == "IntervalBlock":
            self.refuse("one resource in an entry", f"{entry.kind} and {kind}")
        entry.kind = kind
        if kind == "IntervalBlock":
            entry.blocks += 1
            self.skip_inside()

    def _is_code(self, entry: _Entry, name: str) -> bool:
        # Units and multipliers are checked wherever they stand, also in summaries that are not
        # used: a sender that garbles them there cannot be trusted with them elsewhere.
        if name in {_UNIT, _MULTIPLIER}:
            return True
        if entry.kind == "ReadingType":
            return self.depth == IN_RESOURCE and name in _CODES
        in_category = self.depth == BELOW and self._group == f"{ESPI} ServiceCategory"
        return entry.kind == "UsagePoint" and in_category and name == f"{ESPI} kind"

    def _take_text(self, entry: _Entry, name: str, text: str) -> None:
        if name == f"{ATOM} id":
            entry.identifier = text.strip()
            return
        if name == f"{ATOM} title":
            entry.title = text
            return
        if name == _ZONE_OFFSET:
            self.clock.offsets.add(self.integer(name, text))
            return
        if name == f"{ESPI} kind" and not text.strip():
            self.refuse("a kind of service: 0 is electricity, 1 is gas", "none", inside="kind")
        code = self.integer(name, text)
        if name == _UNIT and not 0 <= code <= HIGHEST_UNIT:
            self.refuse(f"a unit code from 0 to {HIGHEST_UNIT}", code, inside="uom")
        if name == _MULTIPLIER and abs(code) > WIDEST_MULTIPLIER:
            rule = f"a power of ten from -{WIDEST_MULTIPLIER} to {WIDEST_MULTIPLIER}"
            self.refuse(rule, code, inside="powerOfTenMultiplier")
        of_type = entry.kind == "ReadingType" and self.depth == IN_RESOURCE
        if of_type or name == f"{ESPI} kind":
            if local_name(name) in entry.codes:
                self.refuse("one element of the name", "a second one", inside=local_name(name))
            entry.codes[local_name(name)] = code

    def _take_entry(self, entry: _Entry) -> None:
        if entry.kind == "IntervalBlock":
            href = entry.link("up") or entry.link("self").rpartition("/")[0]
            number = self._collections.setdefault(href, len(self._collections))
            self._collection_of_block.extend([number] * entry.blocks)
            if found := _TITLE_STAMP.search(entry.title):
                self.clock.titles.add(_as_utc(found[0]))
        elif entry.kind:
            self._entries[entry.kind].append(entry)


class _Links:
    """Finds the entries that belong to a block."""

    def __init__(self, entries: dict[str, list[_Entry]], home: str) -> None:
        self._types = entries["ReadingType"]
        self._points = entries["UsagePoint"]
        self._home = home
        self._type_of = _by_href(self._types, collection="")
        self._point_of = _by_href(self._points, collection="MeterReading")
        self._reading_of = _by_href(entries["MeterReading"], collection="IntervalBlock")

    def series(self, href: str, problems: ProblemSink) -> Series:
        """Return customer and measure of the blocks behind a link."""
        reading = self._reading_of.get(href)
        measure = self._measure(reading, problems)
        point = self._point(reading, href)
        if point is None:
            remark = "usage point has no entry, customer is named by the link or the file"
            problems.count(NOTE + remark, f"blocks of {href!r}")
            return Series(customer_id=_usage_point_in(href) or self._home, measure=measure)
        if point.codes.get("kind", ELECTRICITY) != ELECTRICITY:
            measure = Measure(unusable="service is not electricity")
        customer_id = point.link("self") or point.identifier or self._home
        return Series(customer_id=customer_id, measure=measure)

    def _measure(self, reading: _Entry | None, problems: ProblemSink) -> Measure:
        related = reading.links["related"] if reading is not None else []
        kinds = [kind for href in related if (kind := self._type_of.get(href)) is not None]
        if not kinds and len(self._types) == 1:
            kinds = self._types
            problems.count(f"{NOTE}no link to a ReadingType, the only one is used", _at(kinds[0]))
        if not kinds or any(kind is not kinds[0] for kind in kinds):
            return Measure(unusable="block has no link to one ReadingType")
        return interpret(kinds[0].codes)

    def _point(self, reading: _Entry | None, href: str) -> _Entry | None:
        if reading is not None:
            for link in (*reading.links["up"], *reading.links["self"]):
                point = self._point_of.get(link)
                if point is not None:
                    return point
        # A link that names a usage point without an entry must not be assigned to another customer.
        alone = len(self._points) == 1 and not _usage_point_in(href)
        return self._points[0] if alone else None


def refuse_stray_readings(stream: XmlStream, name: str) -> None:
    """Reject readings at positions where they would be ignored."""
    if local_name(name) in {"IntervalBlock", "IntervalReading"}:
        stream.refuse(f"feed/entry/content/IntervalBlock/IntervalReading ({ESPI})", name)


def _by_href(entries: Iterable[_Entry], *, collection: str) -> dict[str, _Entry | None]:
    """Index entries by the links that lead to them: nothing where two of them differ."""
    found: dict[str, _Entry | None] = {}
    for entry in entries:
        own = entry.links["self"]
        hrefs = set(own)
        if collection:
            hrefs.update(f"{href}/{collection}" for href in own)
            hrefs.update(entry.links["related"])
        for href in hrefs:
            other = found.setdefault(href, entry)
            if other is not None and not other.same_as(entry):
                found[href] = None
    return found


def _remark_on_shared_channels(series: Iterable[Series], problems: ProblemSink) -> None:
    usable = (one for one in series if not one.measure.unusable)
    shared = Counter((one.customer_id, one.measure.channel) for one in usable)
    for (customer_id, channel), count in shared.items():
        if count > 1:
            remark = "several meter readings of one usage point share a channel"
            problems.count(NOTE + remark, f"{channel} of {customer_id!r}")


def _plain(href: str) -> str:
    """Give a link without host, query and outer slashes, in which senders differ within a file."""
    try:
        return urlsplit(href.strip()).path.strip("/")
    except ValueError:  # brackets that are no address
        return href.strip()


def _usage_point_in(href: str) -> str:
    """Give the part of a link that names a usage point, or nothing."""
    parts = href.split("/")
    if "UsagePoint" not in parts[:-1]:
        return ""
    return "/".join(parts[: parts.index("UsagePoint") + 2])


def _as_utc(stamp: str) -> int:
    try:
        return int(dt.datetime.fromisoformat(stamp).replace(tzinfo=dt.UTC).timestamp())
    except ValueError:  # a month or an hour that does not exist
        return -1


def _at(entry: _Entry) -> str:
    return f"line {entry.line}"
