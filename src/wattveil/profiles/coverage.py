"""From cells to averages, and how well each customer is covered."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wattveil.ingest.zones import MINUTE_US
from wattveil.profiles.calendar import SPECIAL, calendar_of_instants
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

    def longest_gap_hours(self, present: NDArray[np.bool_], minutes: int) -> NDArray[np.float64]:
        """Return each customer's longest gap; ``present`` is customer × cell × bit."""
        customers, _, bits = present.shape
        read = present.reshape(customers, -1).take(self.cells * bits + self.bits, axis=1)
        customer, place = np.nonzero(read)
        starts_us = self.starts_us[place]
        same = customer[1:] == customer[:-1]
        gaps_us = np.where(same, np.diff(starts_us) - minutes * MINUTE_US, 0)
        longest_us = np.zeros(customers, np.int64)
        wide = gaps_us > 0
        np.maximum.at(longest_us, customer[1:][wide], gaps_us[wide])
        return longest_us / _HOUR_US


def _customers(cells: Cells) -> Iterator[pa.Table]:
    """Yield the cells of whole customers, in order of customer."""
    reader = cells.readings.connection.sql("""
        SELECT customer_id, cell, rows, kwh, bits::BLOB AS bits, estimated
        FROM cells WHERE cell >= 0 ORDER BY customer_id, cell
    """).to_arrow_reader(_BATCH_ROWS)
    rest: pa.Table | None = None
    for batch in reader:
        table = pa.Table.from_batches([batch])
        if rest is not None:
            table = pa.concat_tables([rest, table])
        names = table["customer_id"].to_numpy(zero_copy_only=False)
        whole = int(np.flatnonzero(names == names[-1])[0])
        if whole:
            yield table.slice(0, whole)
        rest = table.slice(whole)
    if rest is not None and rest.num_rows:
        yield rest


def _average(cells: Cells, timeline: _Timeline | None, table: pa.Table) -> Averages:
    frame = cells.frame
    names = table["customer_id"].to_numpy(zero_copy_only=False)
    begins = np.flatnonzero(np.concatenate([[True], names[1:] != names[:-1]]))
    customer = np.repeat(np.arange(begins.size), np.diff(np.append(begins, names.size)))
    cell = table["cell"].to_numpy().astype(np.int64)
    plain = cell < SPECIAL
    true_cell = cell.copy()
    true_cell[~plain] = cells.special_cells[cell[~plain] - SPECIAL]

    shape = (begins.size, frame.grid.cells)
    rows, kwh = np.zeros(shape, np.int64), np.zeros(shape)
    np.add.at(rows, (customer, true_cell), table["rows"].to_numpy())
    np.add.at(kwh, (customer, true_cell), table["kwh"].to_numpy())
    estimated = np.bincount(customer, weights=table["estimated"].to_numpy().astype(np.float64))

    # bits of a cell: days × readings of the cell on a day
    records = np.frombuffer(b"".join(table["bits"].to_pylist()), np.uint8).reshape(names.size, -1)
    present = np.zeros((*shape, frame.bits // 8), np.uint8)
    present[customer[plain], cell[plain]] = records[plain]
    on_days = np.unpackbits(np.bitwise_or.reduce(present, axis=1), axis=1)
    on_days = on_days[:, : frame.days.size * frame.bits_a_day]
    days = on_days.reshape(begins.size, -1, frame.bits_a_day).any(axis=2).sum(axis=1)

    longest_gap_hours = np.full(begins.size, np.nan)
    if timeline is not None:
        is_present = np.unpackbits(present, axis=2).view(bool)
        special = np.flatnonzero(~plain)
        special = special[cells.special_bits[cell[special] - SPECIAL] >= 0]
        bit = cells.special_bits[cell[special] - SPECIAL]
        is_present[customer[special], true_cell[special], bit] = True
        longest_gap_hours = timeline.longest_gap_hours(is_present, frame.minutes)

    with np.errstate(invalid="ignore", divide="ignore"):
        load_kw = kwh / (rows * (frame.minutes / 60))
    return Averages(
        tuple(names[begins].tolist()),
        load_kw,
        rows,
        days,
        longest_gap_hours,
        estimated / rows.sum(axis=1),
    )
