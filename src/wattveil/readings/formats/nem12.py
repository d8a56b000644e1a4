"""NEM12, the interval data file of the Australian market (AEMO), to readings.

>>> for batch in nem12_batches(path, problems=problems):  # doctest: +SKIP
...     print(batch.num_rows)

::

    100  head of the file
    200    data stream: NMI, suffix, unit, interval length
    300      one day of it: 288, 96 or 48 values, quality
    400        quality of a range of these values
    500      transaction with a retailer (not used)
    900  end

===============  ==================================================================================
customer_id      NMI, ten characters; an eleventh is its check digit
start_utc        the market runs on UTC+10 all year, in all its states: a day starts at 14:00 UTC.
                 Western Australia is not in it and files from there do not state it
kwh              values in Wh, kWh, MWh, or W, kW, MW × interval
channel          by the first letter of the suffix, seen from the market: E is its export, which is
                 **delivered** to the customer; B its import, **received** from there
quality          A valid; S, F (substituted) and E (estimated) estimated; N missing; V as in the
                 400 records. An empty value is missing
===============  ==================================================================================

One customer often has several registers of one direction (E1, and E2 for controlled load): their
sum is the customer's energy. The first register's readings become the rows, and the others' are
counted as merged into them. For that, the days of one NMI are held until another NMI begins, about
0.1 MB for a month of 5-minute data. If a day of a register comes twice, the later update counts.

Left out and counted, reading by reading: reactive and apparent energy, check meters and averages
(they repeat the meter of record), and days whose registers differ in interval length.

Our own reader, because none reads NEM12 in constant memory and accounts for every value.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wattveil.errors import InvalidFileError
from wattveil.readings.batches import NOTE, BatchBuilder, ProblemSink
from wattveil.readings.sources import lines

QUALITIES = ("valid", "estimated", "missing")  # from best to worst
MISSING = QUALITIES.index("missing")

_EPOCH = date(1970, 1, 1)
_MARKET_AHEAD_SECONDS = 10 * 3600


@dataclass(kw_only=True, slots=True)
class Day:
    """One day of one register; a missing value is NaN."""

    line: int
    date: date
    updated: str
    variable: bool
    kwh: NDArray[np.float64]
    qualities: NDArray[np.uint8]  # positions in QUALITIES
    covered: int = 0  # intervals up to here have their quality from a 400 record


@dataclass(kw_only=True, slots=True)
class Meter:
    """The days of one NMI, by channel and date, then by register."""

    nmi: str
    days: dict[tuple[str, date], dict[str, Day]] = field(default_factory=dict)

    def add_to(self, rows: BatchBuilder, problems: ProblemSink) -> Iterator[None]:
        """Add each day to the rows, its registers added up, and pause after it."""
        for (channel, _), registers in self.days.items():
            first, *others = registers.values()
            if any(len(other.kwh) != len(first.kwh) for other in others):
                reason = "registers of one day differ in interval length"
                for suffix, day in registers.items():
                    count_day(problems, reason, day, nmi=self.nmi, suffix=suffix)
                continue
            rows.add_run(
                customer_id=self.nmi,
                first_start_us=_start_us(first.date),
                minutes=1440 // len(first.kwh),
                kwh=_sums(registers.values(), negative=channel == "received"),
                channel=channel,
                qualities=_worst(registers.values()),
            )
            for suffix, day in list(registers.items())[1:]:
                reason = "merged: added to another register of the same direction"
                count_day(problems, reason, day, nmi=self.nmi, suffix=suffix)
            yield


@dataclass(kw_only=True, slots=True)
class Given:
    """Days of one NMI and channel that were already yielded."""

    first: date
    last: date
    suffixes: set[str] = field(default_factory=set)

    def cannot_be_added_to(self, day: date, suffix: str) -> bool:
        """Return whether the day may lack registers that were yielded before, or they it."""
        return self.first <= day <= self.last and self.suffixes != {suffix}


def _sums(days: Iterable[Day], *, negative: bool) -> list[float | None]:
    total = np.sum([day.kwh for day in days], axis=0)
    signed: list[float] = (0.0 - total if negative else total).tolist()
    if not np.isnan(total).any():
        return [*signed]
    return [None if np.isnan(kwh) else kwh for kwh in signed]


def _worst(days: Iterable[Day]) -> list[str]:
    worst: list[int] = np.max([day.qualities for day in days], axis=0).tolist()
    return [QUALITIES[quality] for quality in worst]


def _start_us(day: date) -> int:
    return ((day - _EPOCH).days * 86_400 - _MARKET_AHEAD_SECONDS) * 1_000_000


def count_day(problems: ProblemSink, reason: str, day: Day, *, nmi: str, suffix: str) -> None:
    """Count each reading of a day."""
    minutes = 1440 // len(day.kwh)
    where, date_text = f"line {day.line}", day.date.isoformat()
    for i, kwh in enumerate(_sums([day], negative=False)):
        row: dict[str, object] = {
            "customer_id": nmi,
            "suffix": suffix,
            "date": date_text,
            "minute": i * minutes,
            "kwh": kwh,
        }
        problems.count(reason, where, row)


_INTERVALS = {"5": 288, "15": 96, "30": 48}

_CHANNELS = {"E": "delivered", "B": "received"}
_REPEATING = frozenset("ACDF")  # average and check, in either direction
_ENERGY = {"WH": (1, 1000), "KWH": (1, 1), "MWH": (1000, 1)}  # × and ÷ to kWh
_POWER = {"W": (1, 1000), "KW": (1, 1), "MW": (1000, 1)}
_WRITTEN = {unit.upper(): unit for unit in ("Wh", "kWh", "MWh", "W", "kW", "MW")}
_OTHER_UNITS = frozenset(
    prefix + unit
    for unit in ("VARH", "VAR", "VAH", "VA", "V", "A", "PF")
    for prefix in ("", "K", "M")
)

_QUALITY_OF_FLAG = {"A": 0, "S": 1, "F": 1, "E": 1, "N": MISSING}  # in QUALITIES

_DATE = 1
_FIRST_VALUE = 2
_MIN_FIELDS = {"100": 2, "200": 9, "300": 3, "400": 4, "500": 1, "900": 1}
_AFTER_VALUES = 5  # quality, reason, its description, time of update, time of load
_UPDATED = 3

_NMI = re.compile(r"[0-9A-Z]{10,11}")
_SUFFIX = re.compile(r"[0-9A-Z]{2}")
_DAY = re.compile(r"(19[0-9]{2}|20[0-9]{2})([0-9]{2})([0-9]{2})")
_VALUE = r"(?:[0-9]{1,12}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})?"  # or none
_ONE_VALUE = re.compile(_VALUE)
_VALUES = re.compile(rf"{_VALUE}(?:\n{_VALUE})*")
_QUALITY_METHOD = re.compile(r"([ASFENV])[0-9]{0,2}")
_POSITION = re.compile(r"[0-9]{1,3}")


def nem12_batches(
    path: Path, *, problems: ProblemSink, units: set[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the readings of a NEM12 file, plain or compressed.

    Parameters
    ----------
    path
        The file; several files one after the other in it are read as one.
    problems
        Receives every reading that is not yielded.
    units
        Receives the units of the streams that are read.

    Raises
    ------
    InvalidFileError
        The file breaks the format. The error comes where the fault stands (a missing end only at
        the end), after the batches before it: on an error, drop what the file gave so far.
    """
    rows = BatchBuilder()
    reader = _Reader(path, problems)
    for meter in reader.meters():
        for _ in meter.add_to(rows, problems):
            if rows.full:
                yield rows.take()
    if len(rows):
        yield rows.take()
    if units is not None:
        units |= reader.units


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stream:
    """Fields of a 200 record, which hold for the days below it."""

    nmi: str
    suffix: str
    minutes: int
    intervals: int
    channel: str
    unusable: str
    times: int
    over: int


class _Reader:
    """Reads record by record and gives each NMI when it is complete."""

    def __init__(self, path: Path, problems: ProblemSink) -> None:
        self._path = path
        self._problems = problems
        self._line = 0
        self._within = False  # after 100, before 900
        self._begun = False  # with a 100 record, which some retailers leave out with the 900
        self._stream: _Stream | None = None
        self._day: Day | None = None  # still open to 400 records
        self._meter: Meter | None = None
        self._given: dict[tuple[str, str], Given] = {}
        self.units: set[str] = set()

    def meters(self) -> Iterator[Meter]:
        """Give the NMIs of the file."""
        for number, raw in lines(self._path):
            self._line = number
            fields = self._fields(raw)
            if any(fields):
                finished = self._take(fields)
                if finished is not None:
                    yield finished
        if (self._within and self._begun) or not self._line:
            self._line += 1
            self._refuse("a 900 record at the end of the file", "the end")
        if self._within:
            self._close_day()
            if (last := self._finish_meter()) is not None:
                yield last

    def _fields(self, raw: bytes) -> list[str]:
        try:
            text = raw.decode("utf-8-sig" if self._line == 1 else "utf-8")
            fields = next(csv.reader([text], strict=True), []) if '"' in text else text.split(",")
        except (UnicodeDecodeError, csv.Error) as error:
            self._refuse("comma-separated text in UTF-8", str(error))
        return [field.strip() for field in fields] if " " in text else fields

    def _take(self, fields: list[str]) -> Meter | None:
        """Take one record; give the NMI that it ends, if it does."""
        kind = fields[0]
        self._check_begun(kind)
        if kind not in _MIN_FIELDS:
            self._refuse("a record 100, 200, 300, 400, 500 or 900", kind)
        if len(fields) < _MIN_FIELDS[kind]:
            self._refuse(f"at least {_MIN_FIELDS[kind]} fields", len(fields))
        if kind != "400":
            self._close_day()
        match kind:
            case "100":
                self._begin(fields)
            case "200":
                return self._begin_stream(self._read_stream(fields))
            case "300":
                self._read_day(fields)
            case "400":
                self._read_range(fields)
            case "900":
                self._within, self._stream = False, None
                return self._finish_meter()
            case _:
                pass  # 500 has no readings
        return None

    def _check_begun(self, kind: str) -> None:
        """Accept a file that begins with a 200 record: its 100 record was left out."""
        if not self._within and kind == "200" and not self._begun:
            self._within = True
            note = f"{NOTE}no 100 record, read as NEM12 from the first 200 record on"
            self._problems.count(note, f"line {self._line}")
        if not self._within and kind != "100":
            self._refuse("a 100 record", kind)

    def _begin(self, fields: list[str]) -> None:
        if self._within:
            self._refuse("a 900 record before the next 100", "100")
        if fields[1].upper() != "NEM12":
            self._refuse("NEM12", fields[1])
        self._within = self._begun = True

    def _begin_stream(self, stream: _Stream) -> Meter | None:
        self._stream = stream
        if self._meter is not None and self._meter.nmi == stream.nmi:
            return None
        finished = self._finish_meter()
        self._meter = Meter(nmi=stream.nmi)
        return finished

    def _read_stream(self, fields: list[str]) -> _Stream:
        nmi, suffix, unit, length = (fields[i].upper() for i in (1, 4, 7, 8))
        for rule, pattern, text in (
            ("an NMI of 10 or 11 characters", _NMI, nmi),
            ("a suffix of 2 characters", _SUFFIX, suffix),
        ):
            if pattern.fullmatch(text) is None:
                self._refuse(rule, text)
        length = length.removeprefix("0")
        if length not in _INTERVALS:
            self._refuse("an interval length of 5, 15 or 30", length)
        minutes = int(length)
        if unit in _ENERGY:
            times, over = _ENERGY[unit]
        elif unit in _POWER:
            times, over = _POWER[unit][0] * minutes, _POWER[unit][1] * 60
        elif unit in _OTHER_UNITS:
            times, over = 0, 1
        else:
            self._refuse("a unit of the NEM12 list", unit)
        unusable = ""
        if suffix[0] in _REPEATING:
            unusable = "check meter or average, repeats the meter of record"
        elif suffix[0] not in _CHANNELS or unit in _OTHER_UNITS:
            unusable = "stream is not active energy"
        if not unusable:
            self.units.add(_WRITTEN[unit])
        return _Stream(
            nmi=nmi[:10],
            suffix=suffix,
            minutes=minutes,
            intervals=_INTERVALS[length],
            channel=_CHANNELS.get(suffix[0], ""),
            unusable=unusable,
            times=times,
            over=over,
        )

    def _read_day(self, fields: list[str]) -> None:
        if self._stream is None:
            self._refuse("a 200 record before the 300", None)
        end = _FIRST_VALUE + self._stream.intervals
        after = fields[end:]
        if not after or any(after[_AFTER_VALUES:]):
            rule = f"{self._stream.intervals} values and up to {_AFTER_VALUES} more fields"
            self._refuse(rule, f"{len(fields) - _FIRST_VALUE} fields")
        flag = self._quality_flag(after[0])
        after += [""] * _AFTER_VALUES
        quality = _QUALITY_OF_FLAG.get(flag, 0)
        self._day = Day(
            line=self._line,
            date=self._date(fields[_DATE]),
            updated=after[_UPDATED],
            variable=flag == "V",
            kwh=self._values(fields[_FIRST_VALUE:end], self._stream),
            qualities=np.full(self._stream.intervals, quality, dtype=np.uint8),
        )

    def _date(self, text: str) -> date:
        match = _DAY.fullmatch(text)
        if match is None:
            self._refuse("a day YYYYMMDD", text)
        try:
            return date(int(match[1]), int(match[2]), int(match[3]))
        except ValueError as error:
            self._refuse("a day YYYYMMDD", f"{text} ({error})")

    def _values(self, texts: Sequence[str], stream: _Stream) -> NDArray[np.float64]:
        if stream.unusable:  # may be negative or in notations of its own
            return np.full(len(texts), np.nan)
        # One match for all, which is several times faster; joined by what no field can contain.
        if _VALUES.fullmatch("\n".join(texts)) is None:
            wrong = (i for i, text in enumerate(texts) if _ONE_VALUE.fullmatch(text) is None)
            i = next(wrong)
            self._refuse("a number of at least 0", texts[i], inside=f"value {i + 1}")
        values = np.array([float(text) if text else np.nan for text in texts])
        return values * stream.times / stream.over

    def _quality_flag(self, text: str) -> str:
        match = _QUALITY_METHOD.fullmatch(text.upper())
        if match is None:
            self._refuse("a quality A, S, F, E, N or V with a method of 2 digits", text)
        return match[1]

    def _read_range(self, fields: list[str]) -> None:
        day = self._day
        if day is None:
            self._refuse("a 300 record before the 400", None)
        if not (_POSITION.fullmatch(fields[1]) and _POSITION.fullmatch(fields[2])):
            self._refuse("a range of intervals", fields[1:3])
        first, last = int(fields[1]), int(fields[2])
        if not day.covered < first <= last <= len(day.kwh):
            rule = f"a range from above {day.covered} to at most {len(day.kwh)}"
            self._refuse(rule, f"{first} to {last}")
        if day.variable and first != day.covered + 1:
            self._refuse(f"a range from {day.covered + 1}", f"{first} to {last}")
        flag = self._quality_flag(fields[3])
        if flag not in _QUALITY_OF_FLAG:
            self._refuse("a quality A, S, F, E or N", flag)
        day.qualities[first - 1 : last] = _QUALITY_OF_FLAG[flag]
        day.covered = last

    def _close_day(self) -> None:
        day, stream, meter = self._day, self._stream, self._meter
        self._day = None
        if day is None or stream is None or meter is None:
            return
        if day.variable and day.covered < len(day.kwh):
            rule = f"400 records up to interval {len(day.kwh)}"
            self._refuse(rule, f"up to {day.covered}", line=day.line)
        if stream.unusable:
            count_day(self._problems, stream.unusable, day, nmi=stream.nmi, suffix=stream.suffix)
            return
        day.qualities[np.isnan(day.kwh)] = MISSING
        day.kwh[day.qualities == MISSING] = np.nan
        self._keep(day, stream, meter)

    def _keep(self, day: Day, stream: _Stream, meter: Meter) -> None:
        given = self._given.get((stream.nmi, stream.channel))
        if given is not None and given.cannot_be_added_to(day.date, stream.suffix):
            found = f"{stream.nmi} once more"
            self._refuse("all registers of one NMI together", found, line=day.line)
        registers = meter.days.setdefault((stream.channel, day.date), {})
        other = registers.get(stream.suffix)
        if other is not None:
            older, day = (other, day) if other.updated <= day.updated else (day, other)
            reason = "day of a register came twice, the later update is used"
            count_day(self._problems, reason, older, nmi=stream.nmi, suffix=stream.suffix)
        registers[stream.suffix] = day

    def _finish_meter(self) -> Meter | None:
        meter, self._meter = self._meter, None
        if meter is not None:
            for (channel, day), registers in meter.days.items():
                given = self._given.setdefault((meter.nmi, channel), Given(first=day, last=day))
                given.first, given.last = min(given.first, day), max(given.last, day)
                given.suffixes.update(registers)
        return meter

    def _refuse(
        self, expected: str, found: object, *, line: int | None = None, inside: str = ""
    ) -> NoReturn:
        where = f"line {line or self._line}" + (f", {inside}" if inside else "")
        raise InvalidFileError(self._path, where, expected, found)
