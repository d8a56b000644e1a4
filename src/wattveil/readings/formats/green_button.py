"""Green Button (NAESB ESPI) XML to readings, in constant memory.

>>> for batch in green_button_batches(path, problems=problems):  # doctest: +SKIP
...     print(batch.num_rows)

The file is read twice: once for the entries that define measure and customer
(`green_button_catalogue`), once for the readings. The first pass also proves that the XML is well
formed to its last tag, so that a broken file is rejected before its first row.

=====================  ============================================================================
customer_id            link of the usage point, without host: ``RetailCustomer/1/UsagePoint/2``. Not
                       the entry's ``urn:uuid``, which senders repeat among customers and draw anew
                       for each export: one home under two names would break the unit of privacy. A
                       usage point without entry is named by the links to it, else by the file name
kwh                    value × 10^powerOfTenMultiplier in Wh (uom 72), or in W (uom 38) × duration
channel                flowDirection 1 delivered, 19 received, 4 net, 0 or none: delivered, noted
quality                ReadingQuality 0 (or none), 17, 18, 19 valid; 7 edited; 8, 9 estimated; 10
                       questionable; 11, 15 derived; 12 projected; 13 mixed; 14 raw; others: other.
                       The worst of several. A reading without a value is missing
start_utc, minutes     timePeriod; a duration that is not stated is the type's intervalLength
=====================  ============================================================================

Left out and counted, reading by reading: other units, commodities and services, register reads,
maxima and minima, other flow directions (20, total, is delivered *plus* received), readings without
start or duration, durations that are not whole minutes up to a day, negative delivered energy.
Received energy has either sign. Rejected: what is no feed, no number, or not in a code list.

Our own reader, because no library gives constant memory and the line of every problem.
"""

import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path

import pyarrow as pa

from wattveil.readings.batches import MAX_MINUTES, NOTE, BatchBuilder, ProblemSink
from wattveil.readings.formats.green_button_catalogue import (
    BELOW,
    ESPI,
    IN_RESOURCE,
    QUALITIES,
    RESOURCE,
    WORST_FIRST,
    Catalogue,
    ClockEvidence,
    Series,
    refuse_stray_readings,
)
from wattveil.readings.formats.xml_stream import XmlStream, local_name

_BLOCK = f"{ESPI} IntervalBlock"
_READING = f"{ESPI} IntervalReading"
_INTERVAL = f"{ESPI} interval"
_PERIOD = f"{ESPI} timePeriod"
_READING_QUALITY = f"{ESPI} ReadingQuality"
_VALUE = f"{ESPI} value"
_START = f"{ESPI} start"
_DURATION = f"{ESPI} duration"
_QUALITY = f"{ESPI} quality"

# The element around a field; the value stands in the reading itself.
_GROUP_OF = {_START: _PERIOD, _DURATION: _PERIOD, _QUALITY: _READING_QUALITY}
_IN_READING = {_VALUE, *_GROUP_OF, *_GROUP_OF.values()}
_BESIDE_READINGS = {f"{ESPI} interval", f"{ESPI} extension", f"{ESPI} batchItemInfo"}

_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?")
_YEAR_2100 = 4_102_444_800


def green_button_batches(
    path: Path,
    *,
    problems: ProblemSink,
    clocks: list[ClockEvidence] | None = None,
    units: set[str] | None = None,
    home: str = "",
) -> Iterator[pa.RecordBatch]:
    """Yield the readings of a Green Button file, plain or compressed.

    Parameters
    ----------
    path
        The file.
    problems
        Receives every reading that is not yielded, and every assumption.
    clocks
        Receives what the file says about its clock, complete after the last batch.
    units
        Receives the units of the blocks that are read.
    home
        Customer of a usage point that the file does not name; the name of the file if empty.

    Raises
    ------
    InvalidFileError
        The file is not well-formed Green Button XML. A number or code that cannot be read raises
        where it stands, after the batches before it: on an error, drop what the file gave so far.
    """
    catalogue = Catalogue(path, home)
    readings = _Readings(path, catalogue.series_by_block(problems), problems, catalogue.clock)
    if clocks is not None:
        clocks.append(catalogue.clock)
    readings.units = set() if units is None else units
    for _ in readings.run():
        if readings.rows.full:
            yield readings.rows.take()
    if len(readings.rows):
        yield readings.rows.take()


class _Readings(XmlStream):
    """Second pass: the readings, each with the series of its block."""

    def __init__(
        self, path: Path, series: Iterable[Series], problems: ProblemSink, clock: ClockEvidence
    ) -> None:
        super().__init__(path)
        self._clock = clock
        self._in_interval = False  # the period of a block
        self.rows = BatchBuilder()
        self.units: set[str] = set()
        self._series_by_block = iter(series)
        self._problems = problems
        self._series: Series | None = None  # set inside a block
        self._in_reading = False
        self._reading_line = 0
        self._group = ""  # timePeriod or ReadingQuality, while inside
        self._start: int | None = None
        self._seconds: int | None = None
        self._value: int | Fraction | None = None
        self._quality_codes: list[int] = []
        self._fields: dict[str, str] = {}
        self._period: dict[str, int] = {}

    def opened(self, name: str, attributes: dict[str, str]) -> None:
        """Track the position within a reading."""
        del attributes
        if self._series is None:
            if name == _BLOCK and self.depth == RESOURCE:
                self._series = next(self._series_by_block, None)
                if self._series is None:
                    self.refuse("the file of the first pass", "a changed one")
                if not self._series.measure.unusable:
                    self.units.add(self._series.measure.unit)
        elif self.depth == IN_RESOURCE:
            self._open_in_block(name)
        elif self._in_reading and name in _IN_READING:
            self._open_in_reading(name)
        elif self._in_interval and name in {_START, _DURATION}:
            self.keep_text()
        else:
            refuse_stray_readings(self, name)

    def closed(self, name: str, text: str | None) -> None:
        """Take in fields and finished readings."""
        if self._series is None:
            return
        if text is not None and self._in_interval:
            self._period[name] = self.integer(name, text)
        elif text is not None:
            self._take_field(name, text.strip())
        elif self.depth == BELOW:
            self._group = ""
        elif self.depth == IN_RESOURCE:
            if self._in_reading:
                self._in_reading = False
                self._take_reading(self._series)
            elif self._in_interval:
                self._in_interval = False
                self._clock.take_block(self._period.get(_START, 0), self._period.get(_DURATION, 0))
        elif self.depth == RESOURCE:
            self._series = None

    def _open_in_block(self, name: str) -> None:
        if name == _INTERVAL:
            self._in_interval = True
            self._period.clear()
        elif name == _READING:
            self._in_reading = True
            self._reading_line = self.line
            self._start = self._seconds = self._value = None
            self._fields.clear()
            self._quality_codes.clear()
        elif name not in _BESIDE_READINGS:
            refuse_stray_readings(self, name)
            where = f"line {self.line}, {local_name(name)}"
            self._problems.count(f"{NOTE}element that is not known in a block", where)

    def _open_in_reading(self, name: str) -> None:
        if self.depth == BELOW:
            if name == _VALUE:
                self._open_field(name)
            else:
                self._group = name
        elif self.depth == BELOW + 1 and self._group == _GROUP_OF.get(name):
            self._open_field(name)

    def _open_field(self, name: str) -> None:
        if name in self._fields:
            self.refuse("one element of the name", "a second one", inside=local_name(name))
        self.keep_text()

    def _take_field(self, name: str, text: str) -> None:
        if name == _QUALITY:
            self._quality_codes.append(self.integer(name, text))
            return
        self._fields[name] = text
        if name == _START:
            self._start = self.integer(name, text)
            if not 0 <= self._start < _YEAR_2100:
                self.refuse("seconds since 1970, before the year 2100", text, inside="start")
        elif name == _DURATION:
            self._seconds = self.integer(name, text)
        elif text:
            number = _NUMBER.fullmatch(text)
            if number is None:
                self.refuse("a number of at most 15 digits", text, inside="value")
            self._value = Fraction(text) if number[1] else int(text)

    def _take_reading(self, series: Series) -> None:
        measure, start, value = series.measure, self._start, self._value
        seconds = measure.interval_seconds if self._seconds is None else self._seconds
        minutes, odd_seconds = divmod(seconds, 60)
        if measure.unusable:
            self._leave_out(measure.unusable, series)
        elif start is None:
            self._leave_out("reading has no start", series)
        elif odd_seconds or not 1 <= minutes <= MAX_MINUTES:
            self._leave_out("duration is not in whole minutes up to a day", series)
        elif value is not None and value < 0 and measure.channel == "delivered":
            self._leave_out("negative value in a one-way channel", series)
        else:
            self.rows.add(
                series.customer_id,
                start * 1_000_000,
                minutes,
                None if value is None else measure.kwh(value, seconds),
                measure.channel,
                "missing" if value is None else self._quality(),
            )
            for remark in measure.remarks:
                self._problems.count(NOTE + remark, f"line {self._reading_line}")

    def _quality(self) -> str:
        if not self._quality_codes:
            return "valid"
        flags = [QUALITIES.get(code, "other") for code in self._quality_codes]
        return min(flags, key=WORST_FIRST.index)

    def _leave_out(self, reason: str, series: Series) -> None:
        row: dict[str, object] = {"customer_id": series.customer_id}
        row.update((local_name(name), text) for name, text in self._fields.items())
        self._problems.count(reason, f"line {self._reading_line}", row)
