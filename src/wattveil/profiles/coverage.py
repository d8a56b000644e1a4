"""From cells to averages, and how well each customer is covered."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wattveil.ingest.zones import MINUTE_US
from wattveil.profiles.calendar import SPECIAL, WORD_BITS, calendar_of_instants
from wattveil.profiles.cells import Cells

_BATCH_ROWS = 50_000
_HOUR_US = 60 * MINUTE_US


@dataclass(frozen=True)
class Averages:
    """Customers with at least one reading, each with its average and its coverage.

    ``rows`` counts the intervals behind each average; ``longest_gap_hours`` is the longest time
    between the end of one reading and the start of the next, NaN unless asked for.
    """

    customer_ids: tuple[str, ...]
    load_kw: NDArray[np.float64]  # NaN where a cell has no reading
    rows: NDArray[np.int64]
    days: NDArray[np.int64]
    longest_gap_hours: NDArray[np.float64]
    estimated_share: NDArray[np.float64]


def average(cells: Cells, *, with_gaps: bool) -> Averages:
    """Average the cells of every customer, some thousand customers at a time."""
    timeline = _Timeline.of(cells) if with_gaps else None
    parts = [_average(cells, timeline, table) for table in _customers(cells)]
    if not parts:
        empty = np.zeros((0, cells.frame.grid.cells))
        none = np.zeros(0)
        return Averages((), empty, empty.astype(np.int64), none.astype(np.int64), none, none)
    return Averages(
        tuple(name for part in parts for name in part.customer_ids),
        np.concatenate([part.load_kw for part in parts]),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.days for part in parts]),
        np.concatenate([part.longest_gap_hours for part in parts]),
        np.concatenate([part.estimated_share for part in parts]),
    )


@dataclass(frozen=True)
class _Timeline:
    """The intervals that have a bit, in order of time.

    A repeated interval has none. It takes no time here, so that its absence is no gap.
    """

    starts_us: NDArray[np.int64]
    cells: NDArray[np.int64]
    bits: NDArray[np.int64]

    @classmethod
    def of(cls, cells: Cells) -> "_Timeline":
        calendar = calendar_of_instants(cells.frame)
        repeated_us = np.cumsum(calendar.cells >= SPECIAL) * cells.frame.minutes * MINUTE_US
        starts_us = calendar.first_us + np.arange(calendar.cells.size) * cells.frame.block_us
        starts_us -= repeated_us
        known = (calendar.cells >= 0) & (calendar.cells < SPECIAL)
        return cls(starts_us[known], calendar.cells[known], calendar.bits[known])

    def longest_gap_hours(
        self, present: NDArray[np.bool_], first_bit: int, minutes: int
    ) -> NDArray[np.float64]:
        """Return each customer's longest gap; ``present`` is customer × cell × bit."""
        customers, _, bits = present.shape
        bit = self.bits - first_bit
        shown = (bit >= 0) & (bit < bits)
        places = self.cells[shown] * bits + bit[shown]
        customer, place = np.nonzero(present.reshape(customers, -1).take(places, axis=1))
        starts_us = self.starts_us[shown][place]
        same = customer[1:] == customer[:-1]
        gaps_us = np.where(same, np.diff(starts_us) - minutes * MINUTE_US, 0)
        longest_us = np.zeros(customers, np.int64)
        wide = gaps_us > 0
        np.maximum.at(longest_us, customer[1:][wide], gaps_us[wide])
        return longest_us / _HOUR_US


def _customers(cells: Cells) -> Iterator[pa.Table]:
    """Yield the cells of whole customers, in order of customer."""
    reader = cells.readings.connection.sql("""
        SELECT customer_id, slot, rows, kwh, low_bits, high_bits, estimated
        FROM cells WHERE slot >= 0 ORDER BY customer_id
    """).to_arrow_reader(_BATCH_ROWS)
    rest: pa.Table | None = None
    for batch in reader:
        table = pa.Table.from_batches([batch])
        if rest is not None:
            table = pa.concat_tables([rest, table])
        last = pc.equal(table["customer_id"], table["customer_id"][-1])
        whole = int(pc.index(last, value=True).as_py())
        if whole:
            yield table.slice(0, whole)
        rest = table.slice(whole)
    if rest is not None and rest.num_rows:
        yield rest


def _average(cells: Cells, timeline: _Timeline | None, table: pa.Table) -> Averages:
    frame = cells.frame
    named = table["customer_id"].combine_chunks().dictionary_encode()
    names: list[str] = named.dictionary.to_pylist()
    customer = named.indices.to_numpy()
    slot = table["slot"].to_numpy().astype(np.int64)
    plain = slot < SPECIAL
    cell = slot // frame.words
    cell[~plain] = cells.special_cells[slot[~plain] - SPECIAL]

    shape = (len(names), frame.grid.cells)
    rows, kwh = np.zeros(shape, np.int64), np.zeros(shape)
    np.add.at(rows, (customer, cell), table["rows"].to_numpy())
    np.add.at(kwh, (customer, cell), table["kwh"].to_numpy())
    estimated = np.bincount(customer, weights=table["estimated"].to_numpy().astype(np.float64))

    # Words of these customers only: the calendar may be much longer than their records.
    word = slot % frame.words
    word[~plain] = cells.special_bits[slot[~plain] - SPECIAL].clip(0) // WORD_BITS
    first_word, last_word = int(word.min()), int(word.max())
    records = np.zeros((*shape, 2 * (last_word - first_word + 1)), dtype="<u8")
    for half, name in enumerate(("low_bits", "high_bits")):
        place = 2 * (word[plain] - first_word) + half
        records[customer[plain], cell[plain], place] = table[name].to_numpy()[plain]
    first_bit = first_word * WORD_BITS
    days = _days(np.bitwise_or.reduce(records, axis=1), first_bit, frame.bits_a_day)

    longest_gap_hours = np.full(len(names), np.nan)
    if timeline is not None:
        present = _bits(records)
        special = np.flatnonzero(~plain)
        special = special[cells.special_bits[slot[special] - SPECIAL] >= 0]
        bit = cells.special_bits[slot[special] - SPECIAL] - first_bit
        present[customer[special], cell[special], bit] = True
        longest_gap_hours = timeline.longest_gap_hours(present, first_bit, frame.minutes)

    with np.errstate(invalid="ignore", divide="ignore"):
        load_kw = kwh / (rows * (frame.minutes / 60))
    return Averages(
        tuple(names),
        load_kw,
        rows,
        days,
        longest_gap_hours,
        estimated / rows.sum(axis=1),
    )


def _days(records: NDArray[np.uint64], first_bit: int, bits_a_day: int) -> NDArray[np.int64]:
    """Count the days with a reading; ``records`` is customer × word."""
    bits = _bits(records)
    day = (first_bit + np.arange(bits.shape[1])) // bits_a_day
    begins = np.flatnonzero(np.concatenate([[True], day[1:] != day[:-1]]))
    on_days: NDArray[np.bool_] = np.logical_or.reduceat(bits, begins, axis=1)
    days: NDArray[np.int64] = on_days.sum(axis=1)
    return days


def _bits(records: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Lay the bits of words out along the last axis, the lowest first."""
    return np.unpackbits(records.view(np.uint8), axis=-1, bitorder="little").view(np.bool_)
