"""From cells to averages, and how well each customer is covered."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wattveil.ingest.energy import UNITS_A_KWH
from wattveil.ingest.zones import MINUTE_US, offsets
from wattveil.profiles.calendar import SPECIAL, WORD_BITS, calendar_of_instants
from wattveil.profiles.cells import Cells

_WORDS_AT_ONCE = 1 << 20  # of 16 bytes
_HALF_BITS = WORD_BITS // 2
_CUSTOMERS_AT_ONCE = 500
_HOUR_US = 60 * MINUTE_US

_Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False)  # the default would print ids and loads
class Averages:
    """Customers with at least one reading, each with its average and its coverage.

    ``rows`` counts the intervals behind each average; ``longest_gap_hours`` is the longest time
    between the end of one reading and the start of the next, NaN unless asked for.
    """

    customer_ids: tuple[str, ...]
    load_kw: _Floats  # NaN where a cell has no reading
    rows: NDArray[np.int64]
    days: NDArray[np.int64]
    longest_gap_hours: _Floats
    estimated_share: _Floats


def average(cells: Cells, *, with_gaps: bool) -> Averages:
    """Average the cells of every customer, some thousand customers at a time; in order of name."""
    timeline = _Timeline.of(cells) if with_gaps else None
    parts = [_average(cells, timeline, table) for table in _parts(cells)]
    if not parts:
        empty = np.zeros((0, cells.frame.grid.cells))
        none = np.zeros(0)
        return Averages((), empty, empty.astype(np.int64), none.astype(np.int64), none, none)
    names = np.array([name for part in parts for name in part.customer_ids], dtype=object)
    order = np.argsort(names)
    return Averages(
        tuple(names[order].tolist()),
        np.concatenate([part.load_kw for part in parts])[order],
        np.concatenate([part.rows for part in parts])[order],
        np.concatenate([part.days for part in parts])[order],
        np.concatenate([part.longest_gap_hours for part in parts])[order],
        np.concatenate([part.estimated_share for part in parts])[order],
    )


@dataclass(frozen=True)
class _Timeline:
    """The intervals that have a bit, in order of time.

    A repeated interval has none. It takes no time here, so that its absence is no gap: time is that
    of the clocks, without what they skip.
    """

    starts_us: NDArray[np.int64]
    cells: NDArray[np.int64]
    bits: NDArray[np.int64]

    @classmethod
    def of(cls, cells: Cells) -> "_Timeline":
        calendar = calendar_of_instants(cells.frame)
        starts_us = calendar.first_us + np.arange(calendar.cells.size) * cells.frame.block_us
        offset_us = offsets(cells.frame.zone, calendar.first_us, calendar.end_us).at(starts_us)
        skipped_us = np.cumsum(np.diff(offset_us, prepend=offset_us[0]).clip(0))
        clock_us = starts_us + offset_us - skipped_us
        known = (calendar.cells >= 0) & (calendar.cells < SPECIAL)
        return cls(clock_us[known], calendar.cells[known], calendar.bits[known])

    def longest_gap_hours(
        self, present: NDArray[np.bool_], first_bit: int, minutes: int
    ) -> _Floats:
        """Return each customer's longest gap; ``present`` is customer × cell × bit."""
        customers, _, bits = present.shape
        bit = self.bits - first_bit
        shown = (bit >= 0) & (bit < bits)
        places = self.cells[shown] * bits + bit[shown]
        longest_us = np.zeros(customers, np.int64)
        for first in range(0, customers, _CUSTOMERS_AT_ONCE):
            some = present[first : first + _CUSTOMERS_AT_ONCE]
            customer, place = np.nonzero(some.reshape(len(some), -1).take(places, axis=1))
            starts_us = self.starts_us[shown][place]
            same = customer[1:] == customer[:-1]
            gaps_us = np.where(same, np.diff(starts_us) - minutes * MINUTE_US, 0)
            wide = gaps_us > 0
            np.maximum.at(longest_us, first + customer[1:][wide], gaps_us[wide])
        return longest_us / _HOUR_US


def _parts(cells: Cells) -> Iterator[pa.Table]:
    """Yield the cells of whole customers, in no order, as many as a record of words has room for.

    A scan for each part is much quicker than one sort of all, as long as the parts are few.
    """
    words = cells.customers * cells.frame.grid.cells * cells.frame.words
    parts = max(1, math.ceil(words / _WORDS_AT_ONCE))
    for part in range(parts):
        table = cells.readings.connection.sql(f"""
            SELECT customer_id, slot, rows, units, low_bits, high_bits, estimated
            FROM cells WHERE slot >= 0 AND hash(customer_id) % {parts} = {part}
        """).to_arrow_table()
        if table.num_rows:
            yield table


def _average(cells: Cells, timeline: _Timeline | None, table: pa.Table) -> Averages:
    frame = cells.frame
    named = table["customer_id"].dictionary_encode().combine_chunks()
    names: list[str] = named.dictionary.to_pylist()
    customer = named.indices.to_numpy().astype(np.int64)
    slot = table["slot"].to_numpy().astype(np.int64)
    plain = slot < SPECIAL
    cell = slot // frame.words
    cell[~plain] = cells.special_cells[slot[~plain] - SPECIAL]

    shape = (len(names), frame.grid.cells)
    place = customer * frame.grid.cells + cell
    rows = _sums(place, table["rows"], shape)
    units = _sums(place, table["units"], shape)
    estimated = _sums(place, table["estimated"], shape).sum(axis=1)

    # Words of these customers only: the calendar may be much longer than their records.
    word = slot % frame.words
    word[~plain] = cells.special_bits[slot[~plain] - SPECIAL].clip(0) // WORD_BITS
    first_word = int(word.min())
    words = int(word.max()) - first_word + 1
    flat = np.zeros((math.prod(shape) * words, 2), dtype="<u8")
    used = (place * words + word - first_word)[plain]
    flat[used, 0] = table["low_bits"].to_numpy()[plain]
    flat[used, 1] = table["high_bits"].to_numpy()[plain]
    special = np.flatnonzero(~plain)
    bit = cells.special_bits[slot[special] - SPECIAL]
    special, bit = special[bit >= 0], bit[bit >= 0]
    half = (place * words + word - first_word)[special], bit % WORD_BITS // _HALF_BITS
    np.bitwise_or.at(flat, half, np.uint64(1) << (bit % _HALF_BITS).astype(np.uint64))
    records = flat.reshape(*shape, 2 * words)
    first_bit = first_word * WORD_BITS
    days = _days(np.bitwise_or.reduce(records, axis=1), first_bit, frame.bits_a_day)

    longest_gap_hours = np.full(len(names), np.nan)
    if timeline is not None:
        longest_gap_hours = timeline.longest_gap_hours(_bits(records), first_bit, frame.minutes)

    with np.errstate(invalid="ignore", divide="ignore"):
        load_kw = units * 60.0 / (rows * (frame.minutes * UNITS_A_KWH))
    return Averages(
        tuple(names),
        load_kw,
        rows,
        days,
        longest_gap_hours,
        estimated / rows.sum(axis=1),
    )


def _sums(
    place: NDArray[np.int64], values: pa.ChunkedArray, shape: tuple[int, int]
) -> NDArray[np.int64]:
    """Add whole numbers up, which is exact in any order."""
    sums = np.zeros(math.prod(shape), np.int64)
    np.add.at(sums, place, values.to_numpy().astype(np.int64))
    return sums.reshape(shape)


def _days(records: NDArray[np.uint64], first_bit: int, bits_a_day: int) -> NDArray[np.int64]:
    """Count the days with a reading; ``records`` is customer × word."""
    bits = _bits(records)
    before = first_bit % bits_a_day  # the record may begin within a day
    after = -(before + bits.shape[1]) % bits_a_day
    whole = np.pad(bits, ((0, 0), (before, after)))
    on_days = whole[:, ::bits_a_day].copy()
    for bit in range(1, bits_a_day):
        on_days |= whole[:, bit::bits_a_day]
    days: NDArray[np.int64] = on_days.sum(axis=1)
    return days


def _bits(records: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Lay the bits of words out along the last axis, the lowest first."""
    return np.unpackbits(records.view(np.uint8), axis=-1, bitorder="little").view(np.bool_)
