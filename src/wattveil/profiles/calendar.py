"""The calendar of a profile: for every stamp that can occur, its cell and its bit.

One small table takes the place of all arithmetic with dates: DuckDB joins readings to it. A cell is
a column of the profile. A bit is a place in the cell's record of days, so that (cell, bit) is the
interval, and a customer with more rows than bits set has two rows for one interval. The record is
cut into words of 128 bits, which DuckDB gathers quickly: a slot is one word of one cell.

A reading has a cell if it starts at a multiple of its length on the local clock and no change of
the clocks cuts it: its own stamp and length decide, and nobody else's. Where lengths differ, bits
stand for a length that divides them all, and `counting` asks each reading for its own.

Cells below 0 are reasons against a row: a `Drop` with its sign changed, or one of the two here.
Cells from `SPECIAL` on stand for one repeated interval each (clocks back): a bit is of no use
there, since the day already has one for its first pass.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wattveil.ingest.schema import Drop
from wattveil.ingest.zones import DAY_US, MINUTE_US, Instants, instants, offsets
from wattveil.profiles.grid import Grid

STRADDLES = 50  # lies in two cells
OUTSIDE_WINDOW = 51  # the calendar is too short; a longer one is needed
SPECIAL = 1 << 28
WORD_BITS = 128
_LOWEST_CELL = -60


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What a calendar is made for.

    ``days`` are the local days (counted from 1970) that have a bit; they are in order.
    """

    grid: Grid
    zone: str
    minutes: int  # of the readings; if they differ, a length that divides theirs
    days: NDArray[np.int64]
    period_us: tuple[int, int] | None

    @property
    def aligned_us(self) -> int:
        """What divides all stamps that may stay: offsets from UTC are multiples of 15 minutes."""
        return math.gcd(self.minutes, 15) * MINUTE_US

    @cached_property
    def block_us(self) -> int:
        """Distance of the stamps in a calendar. The longer, the quicker the join.

        A whole interval, unless the zone's clocks are apart from UTC by a part of it. With a period
        every stamp has its own, so that those outside are told from those in two cells.
        """
        if self.period_us is not None:
            return self.aligned_us
        first_us, last_us = int(self.days[0]) * DAY_US, int(self.days[-1]) * DAY_US
        apart_us = offsets(self.zone, first_us, last_us).offsets_us.tolist()
        return math.gcd(self.minutes * MINUTE_US, *apart_us)

    @property
    def bits_a_day(self) -> int:
        """Readings of one cell on one day."""
        return self.grid.minutes // self.minutes

    @property
    def words(self) -> int:
        """Length of a cell's record."""
        return -(-self.days.size * self.bits_a_day // WORD_BITS)


@dataclass(frozen=True)
class Calendar:
    """Cells and bits of consecutive stamps, from ``first_us`` on.

    ``minutes_of_day`` are the local ones, and ``steady_minutes`` is how long the clocks then go on
    without a change. ``special_cells`` are the true cells of those from `SPECIAL` on, and
    ``special_rows`` is how many rows each of these may hold. ``special_bits`` are their bits where
    rows stand for the first pass too, else -1.
    """

    frame: Frame
    first_us: int
    cells: NDArray[np.int64]
    bits: NDArray[np.int64]
    minutes_of_day: NDArray[np.int64]
    steady_minutes: NDArray[np.int64]
    special_cells: NDArray[np.int64]
    special_bits: NDArray[np.int64]
    special_rows: int

    @property
    def end_us(self) -> int:
        """The first stamp after the last."""
        return self.first_us + self.cells.size * self.frame.block_us

    def to_arrow(self) -> pa.Table:
        """Return the table to join with, reasons included.

        Columns: key, the place of a stamp, or a reason; stamp_us, NULL for reasons; slot; bit, the
        place in its word; minute_of_day and steady_minutes. Reasons and repeated intervals are
        slots as they are, with bit -1.
        """
        reasons = np.arange(_LOWEST_CELL, 0)
        none = np.full(reasons.size, -1)
        plain = (self.cells >= 0) & (self.cells < SPECIAL)
        slots = np.where(plain, self.cells * self.frame.words + self.bits // WORD_BITS, self.cells)
        bits = np.where(plain, self.bits % WORD_BITS, -1)
        places = np.arange(self.cells.size)
        stamps_us = pa.array(self.first_us + places * self.frame.block_us)
        return pa.table(
            {
                "key": pa.array(np.concatenate([reasons, places]), pa.int32()),
                "stamp_us": pa.concat_arrays([pa.nulls(reasons.size, pa.int64()), stamps_us]),
                "slot": pa.array(np.concatenate([reasons, slots]), pa.int32()),
                "bit": pa.array(np.concatenate([none, bits]), pa.int32()),
                "minute_of_day": pa.array(np.concatenate([none, self.minutes_of_day]), pa.int32()),
                "steady_minutes": pa.array(np.concatenate([none, self.steady_minutes]), pa.int32()),
            }
        )


def calendar_of_instants(frame: Frame, *, late_us: int = 0) -> Calendar:
    """Make the calendar for stamps that are instants, ``late_us`` after their starts."""
    first_us = _aligned(int(frame.days[0]) * DAY_US - DAY_US, frame)
    end_us = _aligned(int(frame.days[-1]) * DAY_US + 2 * DAY_US, frame)
    stamps_us = np.arange(first_us, end_us, frame.block_us, dtype=np.int64) + late_us
    starts_us = stamps_us - late_us
    local_us = starts_us + offsets(frame.zone, first_us, end_us).at(starts_us)
    shown = instants(frame.zone, local_us)
    again = (shown.times > 1) & (shown.second_us == starts_us)
    first_us = int(stamps_us[0])
    return _calendar(frame, first_us, starts_us, local_us, shown, special=again, special_rows=1)


def calendar_of_clock(frame: Frame) -> Calendar:
    """Make the calendar for stamps that are starts on the clock of the frame's own zone."""
    first_us = _aligned(int(frame.days[0]) * DAY_US, frame)
    end_us = _aligned(int(frame.days[-1]) * DAY_US + DAY_US, frame)
    local_us = np.arange(first_us, end_us, frame.block_us, dtype=np.int64)
    shown = instants(frame.zone, local_us)
    starts_us, twice = shown.first_us, shown.times > 1
    made = _calendar(frame, first_us, starts_us, local_us, shown, special=twice, special_rows=2)
    made.cells[shown.times == 0] = -Drop.SPRING_GAP
    return made


def _calendar(
    frame: Frame,
    first_us: int,
    starts_us: NDArray[np.int64],
    local_us: NDArray[np.int64],
    shown: Instants,
    *,
    special: NDArray[np.bool_],
    special_rows: int,
) -> Calendar:
    cells = frame.grid.cell_of(local_us)
    true_cells = cells[special]
    cells[special] = SPECIAL + np.arange(true_cells.size)
    day = np.searchsorted(frame.days, local_us // DAY_US)
    has_day = frame.days[np.minimum(day, frame.days.size - 1)] == local_us // DAY_US
    minute = local_us % DAY_US // MINUTE_US
    bits = day * frame.bits_a_day + minute % frame.grid.minutes // frame.minutes
    steady = _steady_minutes(frame.zone, shown)
    cells[(minute % frame.minutes != 0) | (steady < frame.minutes)] = -STRADDLES
    cells[~has_day] = -OUTSIDE_WINDOW
    if frame.period_us is not None:
        begin, end = frame.period_us
        cells[(starts_us < begin) | (starts_us >= end)] = -Drop.OUTSIDE_PERIOD
    special_bits = bits[special] if special_rows > 1 else np.full(true_cells.size, -1)
    bits[(cells < 0) | (cells >= SPECIAL)] = 0
    return Calendar(
        frame, first_us, cells, bits, minute, steady, true_cells, special_bits, special_rows
    )


def _steady_minutes(zone: str, shown: Instants) -> NDArray[np.int64]:
    """Return for how long local times go on steadily: the shorter of both passes of a repeated."""
    known = offsets(zone, int(shown.first_us.min()), int(shown.second_us.max()))
    steady_us = np.minimum(known.steady_us(shown.first_us), known.steady_us(shown.second_us))
    return steady_us // MINUTE_US


def _aligned(local_us: int, frame: Frame) -> int:
    return local_us // frame.block_us * frame.block_us
