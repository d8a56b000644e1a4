"""`profiles_from_readings`: averages of each customer, and the rules of coverage."""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wattveil.declaration import one_model, takes_fields
from wattveil.errors import (
    AssumedTimeZoneWarning,
    InvalidParameterError,
    UnmatchedAttributesWarning,
)
from wattveil.profiles.attributes import attribute_table, look_up, unmatched_ids
from wattveil.profiles.hours import hours_from_readings
from wattveil.profiles.profile_account import (
    NO_USABLE_READING,
    ProfileAccount,
    no_customer_left,
)
from wattveil.profiles.profiles import ProfileRules, Profiles
from wattveil.readings.options import ASSUMED_UTC, UTC_PROFILES, Estimated
from wattveil.readings.readings import Readings
from wattveil.readings.row_checks import UNITS_PER_KWH
from wattveil.readings.slot_counts import MASK_BITS, SPECIAL, calendar_of_instants
from wattveil.readings.slot_totals import SlotTotals
from wattveil.readings.timestamps import MINUTE_US, offsets
from wattveil.web.formatting import format_count
from wattveil.web.results import PrivateResult, ResultTable

_MASKS_AT_ONCE = 1 << 20  # of 16 bytes
_HALF_BITS = MASK_BITS // 2
_CUSTOMERS_AT_ONCE = 500
_MAX_SPARSE_DAYS = 0.1  # share of a customer's days with a reading
_HOUR = 60  # minutes
_HOUR_US = _HOUR * MINUTE_US
EXTREME = 100
"""Times the median load, beyond which a customer is named to the data holder."""

_Floats = NDArray[np.float64]
_Distributed = TypeVar("_Distributed")
_Distributed_co = TypeVar("_Distributed_co", covariant=True)


@dataclass(frozen=True, repr=False)  # the default would print ids and loads
class Averages:
    """Customers with at least one reading, each with its average and its coverage.

    ``rows`` counts the intervals behind each average; ``max_gap_hours`` is the longest time between
    the end of one reading and the start of the next, NaN unless requested. ``sparse_days`` are days
    without any reading in some part of the cells, such as every second half of an hour.
    """

    customer_ids: tuple[str, ...]
    load_kw: _Floats  # NaN where a cell has no reading
    rows: NDArray[np.int64]
    days: NDArray[np.int64]
    sparse_days: NDArray[np.int64]
    max_gap_hours: _Floats
    estimated_share: _Floats


@dataclass(frozen=True, repr=False)  # the default would print ids and loads
class ProfileBuild(PrivateResult):
    """Profiles with their account; counts are exact, so internal only.

    ``averages`` has every customer with a reading, including those that were dropped; ``kept``
    marks those with a profile; ``dropped`` has the reason of each of the others, by id.
    ``warnings`` are about ids that the table of attributes lacks.
    """

    profiles: Profiles
    account: ProfileAccount
    averages: Averages
    kept: NDArray[np.bool_]
    dropped: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"customers": self._customers}

    def _customers(self) -> ResultTable:
        names = ("days", "max_gap_hours", "estimated_share")
        numbers = {name: getattr(self.averages, name) for name in names}
        own = {
            "customer_id": self.averages.customer_ids,
            "kept": self.kept,
            "mean_kw": self.averages.load_kw.mean(axis=1),
            "readings": self.averages.rows.sum(axis=1),
        }
        return ResultTable({**own, **numbers}, ("customer_id",))

    @property
    def median_kw(self) -> float | None:
        """Median of the customers' mean loads; None without profiles."""
        mean_kw = self.profiles.load_kw.mean(axis=1)
        return float(np.median(mean_kw)) if mean_kw.size else None

    @property
    def largest_kw(self) -> float | None:
        """Largest of the customers' mean loads; None without profiles."""
        mean_kw = self.profiles.load_kw.mean(axis=1)
        return float(mean_kw.max()) if mean_kw.size else None

    @property
    def extreme_ids(self) -> tuple[str, ...]:
        """Customers whose mean load is more than `EXTREME` times the median, in either direction.

        Their unit may be another one. They are named to the data holder, and stay.
        """
        mean_kw = np.abs(self.profiles.load_kw.mean(axis=1))
        bound = EXTREME * abs(self.median_kw or 0.0)
        far = np.flatnonzero(mean_kw > bound) if bound else ()
        return tuple(self.profiles.customer_ids[row] for row in far)

    @property
    def n_extreme(self) -> int:
        """Number of these customers."""
        return len(self.extreme_ids)


class DistributedReadings(Protocol[_Distributed_co]):
    """Readings that an engine reads."""

    def profiles(
        self, rules: ProfileRules, *, attributes: str | Path | None = None
    ) -> _Distributed_co:
        """Return their profiles, which the engine stores."""


@overload
def profiles_from_readings(
    readings: Readings,
    rules: ProfileRules | None = None,
    *,
    attributes: str | Path | None = None,
    **fields: Any,  # noqa: ANN401 - those of `ProfileRules`
) -> Profiles: ...


@overload
def profiles_from_readings(
    readings: DistributedReadings[_Distributed],
    rules: ProfileRules | None = None,
    *,
    attributes: str | Path | None = None,
    **fields: Any,  # noqa: ANN401 - those of `ProfileRules`
) -> _Distributed: ...


@takes_fields(ProfileRules)
def profiles_from_readings(
    readings: Readings | DistributedReadings[_Distributed],
    rules: ProfileRules | None = None,
    *,
    attributes: str | Path | None = None,
    **fields: Any,
) -> Profiles | _Distributed:
    """Average the readings of each customer into one profile.

    A profile is the mean load in kW of each cell of the grid, in local time. A customer has one
    profile, whatever the number of readings. An hour that clocks skip or show twice is one reading
    less or more in its cell.

    Parameters
    ----------
    readings
        Result of `read_readings`. If an engine reads them, it stores the profiles too: they have
        `write_parquet`, and can be released.
    rules
        All rules at once; else they are keyword arguments.
    attributes
        CSV or Parquet file with a column customer_id (or meter_id) and one for each attribute.
    **fields
        Fields of `ProfileRules`.

    Raises
    ------
    NoUsableReadingError
        If no customer is left; the text counts them by reason.

    Notes
    -----
    The rules decide which customers stay. They are public parameters and recorded in ``rules`` of
    the result; do not tune them by inspecting it.
    """
    rules = one_model(ProfileRules, rules, fields)
    if isinstance(readings, Readings):
        build = build_profiles(readings, rules, attributes=attributes)
        build.account.check_median(build.median_kw)
        if not len(build.profiles):
            raise no_customer_left(build.account, readings.files[0])
        return build.profiles
    if not hasattr(readings, "profiles"):
        rule = "the result of read_readings(source, …)"
        raise InvalidParameterError("readings", rule, type(readings).__name__)
    return readings.profiles(rules, attributes=attributes)


@takes_fields(ProfileRules)
def build_profiles(
    readings: Readings,
    rules: ProfileRules | None = None,
    *,
    attributes: str | Path | None = None,
    **fields: Any,  # noqa: ANN401 - those of `ProfileRules`
) -> ProfileBuild:
    """Return the profiles of `profiles_from_readings` with the figures of the quality page.

    Parameters
    ----------
    readings, rules, attributes
        As for `profiles_from_readings`.
    **fields
        Fields of `ProfileRules`.
    """
    rules = one_model(ProfileRules, rules, fields)
    if rules.assumes_utc(readings.options) and ASSUMED_UTC not in readings.assumptions:
        text = f"No timezone {UTC_PROFILES}, such as timezone='Europe/Berlin'"
        warnings.warn(text, AssumedTimeZoneWarning, stacklevel=2)
    rules = rules.for_readings(readings.options)
    rules.check_lengths(readings.lengths)
    grid = rules.grid
    totals = readings.slot_totals(grid, rules.zone)
    averages = average(totals, with_gaps=rules.max_gap_hours is not None)
    inferred = readings.lengths[0] if readings.source.rows.infers_minutes else None
    kept, dropped, reasons = _choose(totals, averages, rules, inferred)
    names = tuple(np.array(averages.customer_ids, dtype=object)[kept].tolist())
    load_kw = averages.load_kw[kept]
    if grid.closing_midnight:
        load_kw = np.column_stack([load_kw, load_kw[:, 0]])
    flagged = readings.options.estimated is Estimated.FLAG
    columns, unmatched = {}, ""
    if attributes is not None:
        table = attribute_table(Path(attributes))
        columns = look_up(table, names)
        unmatched = unmatched_ids(table, names, Path(attributes))
    if unmatched:
        warnings.warn(unmatched, UnmatchedAttributesWarning, stacklevel=2)
    account = ProfileAccount(
        readings=totals.report,
        straddling=totals.straddling,
        unfit=totals.unfit,
        profiles=len(names),
        customers_dropped=dropped,
        without_attributes=sum(not any(found) for found in zip(*columns.values(), strict=True)),
    )
    profiles = Profiles(
        customer_ids=names,
        load_kw=load_kw,
        grid=grid,
        timezone=rules.zone,
        attributes=columns,
        estimated_share=averages.estimated_share[kept] if flagged else None,
        rules=rules.to_json(totals.report),
        account=account.to_json(),
        days_kw=_kept_days(readings, rules, names),
    )
    return ProfileBuild(profiles, account, averages, kept, reasons, (unmatched,) * bool(unmatched))


def _kept_days(
    readings: Readings, rules: ProfileRules, names: tuple[str, ...]
) -> NDArray[np.float64] | None:
    """Return every slot of the days that the grid keeps, of these customers; None without days."""
    grid = rules.grid
    if grid.first_day is None:
        return None
    hours = hours_from_readings(
        readings,
        first_day=grid.first_day,
        n_days=grid.n_days,
        minutes=grid.minutes,
        timezone=rules.zone,
    )
    row_of = {name: row for row, name in enumerate(hours.customer_ids)}
    return hours.load_kw[[row_of[name] for name in names]]


def _choose(
    totals: SlotTotals, averages: Averages, rules: ProfileRules, inferred_minutes: int | None
) -> tuple[NDArray[np.bool_], dict[str, int], dict[str, str]]:
    """Apply the rules of coverage; a customer is counted under the first that it fails.

    Return who is kept, how many are dropped by reason, and the reason of each of them.
    """
    kept = np.ones(len(averages.customer_ids), dtype=bool)
    dropped = {NO_USABLE_READING: totals.customers - kept.size}
    failures = []
    if inferred_minutes is not None:
        # Energy of a longer or shorter interval would be a multiple or a part of the load.
        # The first and the last day may be a part of one.
        sparse = averages.sparse_days > np.minimum(
            averages.days / 2, 2 + _MAX_SPARSE_DAYS * averages.days
        )
        between = np.array([name in totals.between for name in averages.customer_ids], dtype=bool)
        failures.append((f"readings not spaced {inferred_minutes} minutes apart", sparse | between))
    failures += [
        (
            f"readings on fewer than {format_count(rules.min_days, 'day')}",
            averages.days < rules.min_days,
        ),
        (no_reading_for(rules.grid.minutes), np.isnan(averages.load_kw).any(axis=1)),
    ]
    if (longest := rules.max_gap_hours) is not None:
        broken = averages.max_gap_hours > longest
        failures.append((f"a gap of more than {longest:g} hours", broken))
    reasons: dict[str, str] = {}
    for reason, fails in failures:
        now = np.flatnonzero(kept & fails)
        dropped[reason] = now.size
        reasons.update((averages.customer_ids[row], reason) for row in now)
        kept &= ~fails
    counts = {reason: customers for reason, customers in dropped.items() if customers}
    return kept, counts, reasons


def no_reading_for(minutes: int) -> str:
    """Return the reason against a customer without reading in some column of the profile."""
    slot = "hour" if minutes == _HOUR else f"slot of {minutes} minutes"
    return f"no reading for at least one {slot} of the profile"


def average(totals: SlotTotals, *, with_gaps: bool) -> Averages:
    """Average the totals of every customer in batches of customers; ordered by name."""
    timeline = _Timeline.of(totals) if with_gaps else None
    parts = [_average(totals, timeline, table) for table in _parts(totals)]
    if not parts:
        empty = np.zeros((0, totals.frame.grid.cells))
        none = np.zeros(0)
        whole = none.astype(np.int64)
        return Averages((), empty, empty.astype(np.int64), whole, whole, none, none)
    names = np.array([name for part in parts for name in part.customer_ids], dtype=object)
    order = np.argsort(names)
    return Averages(
        tuple(names[order].tolist()),
        np.concatenate([part.load_kw for part in parts])[order],
        np.concatenate([part.rows for part in parts])[order],
        np.concatenate([part.days for part in parts])[order],
        np.concatenate([part.sparse_days for part in parts])[order],
        np.concatenate([part.max_gap_hours for part in parts])[order],
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
    def of(cls, totals: SlotTotals) -> "_Timeline":
        calendar = calendar_of_instants(totals.frame)
        starts_us = calendar.first_us + np.arange(calendar.cells.size) * totals.frame.block_us
        offset_us = offsets(totals.frame.zone, calendar.first_us, calendar.end_us).at(starts_us)
        skipped_us = np.cumsum(np.diff(offset_us, prepend=offset_us[0]).clip(0))
        clock_us = starts_us + offset_us - skipped_us
        known = (calendar.cells >= 0) & (calendar.cells < SPECIAL)
        return cls(clock_us[known], calendar.cells[known], calendar.bits[known])

    def max_gap_hours(self, present: NDArray[np.bool_], first_bit: int, minutes: int) -> _Floats:
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


def _parts(totals: SlotTotals) -> Iterator[pa.Table]:
    """Yield the totals of whole customers, as many as the memory for their records allows."""
    masks = totals.customers * totals.frame.grid.cells * totals.frame.masks
    return totals.tables(max(1, math.ceil(masks / _MASKS_AT_ONCE)))


def _average(totals: SlotTotals, timeline: _Timeline | None, table: pa.Table) -> Averages:
    frame = totals.frame
    named = table["customer_id"].dictionary_encode().combine_chunks()
    names: list[str] = named.dictionary.to_pylist()
    customer = named.indices.to_numpy().astype(np.int64)
    slot = table["slot"].to_numpy()  # 32 bits, which NumPy divides much faster than 64
    plain = slot < SPECIAL
    cell, mask = np.divmod(slot, np.int32(frame.masks))
    cell[~plain] = totals.special_cells[slot[~plain] - SPECIAL]

    shape = (len(names), frame.grid.cells)
    place = customer * frame.grid.cells + cell
    rows = _sums(place, table["rows"], shape)
    units = _sums(place, table["units"], shape)
    estimated = _sums(place, table["estimated"], shape).sum(axis=1)

    # Masks of these customers only: the calendar may be much longer than their records.
    mask[~plain] = totals.special_bits[slot[~plain] - SPECIAL].clip(0) // MASK_BITS
    first_mask = int(mask.min())
    masks = int(mask.max()) - first_mask + 1
    flat = np.zeros((math.prod(shape) * masks, 2), dtype="<u8")
    used = (place * masks + mask - first_mask)[plain]
    flat[used, 0] = table["low_bits"].to_numpy()[plain]
    flat[used, 1] = table["high_bits"].to_numpy()[plain]
    special = np.flatnonzero(~plain)
    bit = totals.special_bits[slot[special] - SPECIAL]
    special, bit = special[bit >= 0], bit[bit >= 0]
    half = (place * masks + mask - first_mask)[special], bit % MASK_BITS // _HALF_BITS
    np.bitwise_or.at(flat, half, np.uint64(1) << (bit % _HALF_BITS).astype(np.uint64))
    records = flat.reshape(*shape, 2 * masks)
    first_bit = first_mask * MASK_BITS
    days, sparse_days = _days(np.bitwise_or.reduce(records, axis=1), first_bit, frame.bits_per_day)

    max_gap_hours = np.full(len(names), np.nan)
    if timeline is not None:
        max_gap_hours = timeline.max_gap_hours(_bits(records), first_bit, frame.minutes)

    with np.errstate(invalid="ignore", divide="ignore"):
        load_kw = units * 60.0 / (rows * (frame.minutes * UNITS_PER_KWH))
    return Averages(
        tuple(names),
        load_kw,
        rows,
        days,
        sparse_days,
        max_gap_hours,
        estimated / rows.sum(axis=1),
    )


def _sums(
    place: NDArray[np.int64], values: pa.ChunkedArray, shape: tuple[int, int]
) -> NDArray[np.int64]:
    """Add whole numbers up, which is exact in any order."""
    sums = np.zeros(math.prod(shape), np.int64)
    np.add.at(sums, place, values.to_numpy().astype(np.int64))
    return sums.reshape(shape)


def _days(
    records: NDArray[np.uint64], first_bit: int, bits_per_day: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the days with a reading, and those that lack a bit; ``records`` is customer × mask."""
    bits = _bits(records)
    before = first_bit % bits_per_day  # the record may begin within a day
    after = -(before + bits.shape[1]) % bits_per_day
    whole = np.pad(bits, ((0, 0), (before, after)))
    on_days = whole[:, ::bits_per_day].copy()
    complete = on_days.copy()
    for bit in range(1, bits_per_day):
        on_days |= whole[:, bit::bits_per_day]
        complete &= whole[:, bit::bits_per_day]
    return on_days.sum(axis=1), (on_days & ~complete).sum(axis=1)


def _bits(records: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Lay the bits of masks out along the last axis, the lowest first."""
    return np.unpackbits(records.view(np.uint8), axis=-1, bitorder="little").view(np.bool_)
