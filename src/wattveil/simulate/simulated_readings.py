"""Simulated readings as Arrow tables, made in blocks so that memory does not grow with customers.

>>> from datetime import date
>>> batch = next(
...     simulate_readings(
...         customers=2,
...         days=1,
...         start=date(2025, 3, 30),
...         timezone="Europe/London",
...         minutes=60,
...         seed=1,
...         missing=0.0,
...     )
... )
>>> batch.num_rows  # two customers; the clock went forward that day
46

A meter has a register that counts whole watt-hours, and a reading is the difference between two
register states: readings of 15, 30 and 60 minutes always add up to the same energy. Reads are lost
in gaps, and some are estimated.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wattveil import checks
from wattveil.errors import InvalidParameterError, one_of
from wattveil.simulate.parameters import DEFAULT_MIX, LONDON_MIX, TEMPERATE, Climate
from wattveil.simulate.population import (
    BLOCK,
    CLASSES,
    Customers,
    draw_customers,
    meter_stream,
    simulate_block,
    weather_stream,
)
from wattveil.simulate.weather import SLOTS_PER_HOUR, Clock, simulate_weather

_MINUTES_PER_SLOT = 15
_GAP_HOURS = 5.0  # mean length of a failure of the radio link
_MAX_GAPS = 12.0  # gaps that begin up to this many mean lengths before the first hour are drawn


@dataclass(frozen=True, kw_only=True)
class Metered:
    """Readings of some meters, one row per meter."""

    kwh: NDArray[np.float64]
    missing: NDArray[np.bool_]
    estimated: NDArray[np.bool_]


def meter(
    energy_wh: NDArray[np.float64],
    *,
    minutes: int,
    missing: float,
    estimated: float,
    rng: np.random.Generator,
) -> Metered:
    """Return the register reads at a fixed interval, some of them missing or estimated.

    Gaps cover whole hours, so that the same reads are lost at every resolution. Where reads are
    estimated the register was read before and after, and a straight line stands between.
    """
    count, slots = energy_wh.shape
    register = np.zeros((count, slots + 1))
    np.cumsum(energy_wh, axis=1, out=register[:, 1:])
    lost = draw_gaps((count, slots), missing, rng)
    interpolated = draw_gaps((count, slots), estimated, rng) & ~lost
    for row in np.flatnonzero(interpolated.any(axis=1)):
        seen = np.ones(slots + 1, dtype=bool)
        seen[1:-1] = ~(interpolated[row, 1:] & interpolated[row, :-1])
        edge = np.arange(slots + 1)
        register[row] = np.interp(edge, edge[seen], register[row, seen])
    step = minutes // _MINUTES_PER_SLOT
    reads = np.floor(register[:, ::step] + 1e-6)  # a sum of parts may stop just below its whole
    return Metered(
        kwh=np.diff(reads, axis=1) / 1000.0,
        missing=lost[:, ::step],
        estimated=interpolated[:, ::step],
    )


def draw_gaps(shape: tuple[int, int], share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw gaps of random start and length, in hours, that cover a given share.

    Where gaps of mean length L begin at the rate r and may overlap, a share 1 - exp(-r L) of all
    hours is covered.
    """
    count, slots = shape
    hours = -(-slots // SLOTS_PER_HOUR)
    lead = int(_MAX_GAPS * _GAP_HOURS)
    rate = -np.log1p(-share) / _GAP_HOURS
    meter_row = np.repeat(np.arange(count), rng.poisson(rate * (hours + lead), count))
    begin = rng.integers(-lead, hours, meter_row.size)
    end = np.clip(begin + rng.geometric(1.0 / _GAP_HOURS, meter_row.size), 0, hours)
    change = np.zeros((count, hours + 1), dtype=np.int32)
    np.add.at(change, (meter_row, np.maximum(begin, 0)), 1)
    np.add.at(change, (meter_row, end), -1)
    covered = np.cumsum(change, axis=1)[:, :hours] > 0
    return np.repeat(covered, SLOTS_PER_HOUR, axis=1)[:, :slots]


READINGS_SCHEMA = pa.schema(
    [
        pa.field("customer_id", pa.string(), nullable=False),
        pa.field("start_utc", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("minutes", pa.int16(), nullable=False),
        pa.field("kwh", pa.float64(), nullable=False),
        pa.field("channel", pa.string(), nullable=False),
        pa.field("quality", pa.string(), nullable=False),
    ]
)
_CHANNELS = pa.array(["delivered", "net"])
_QUALITIES = pa.array(["valid", "estimated"])
_RESOLUTIONS = (15, 30, 60)
_SHARE_TOLERANCE = 1e-6


def simulate_readings(
    *,
    customers: int,
    days: int,
    start: date,
    timezone: str,
    minutes: int,
    mix: Mapping[str, float] | None = None,
    seed: int,
    missing: float = 0.001,
    estimated: float = 0.001,
    climate: Climate = TEMPERATE,
    batch_customers: int = BLOCK,
) -> Iterator[pa.RecordBatch]:
    """Simulate interval readings of simulated customers, some customers per batch.

    The data are public: every number behind them stands in `wattveil.simulate.parameters`, and a
    seed gives the same customers every time.

    Parameters
    ----------
    customers, days
        Number of customers and days. Customer n does not depend on the number of customers.
    start
        First local day.
    timezone
        IANA time zone of the customers, such as ``"Europe/London"``. Stamps are UTC; behaviour
        follows local time, so days of 23 and 25 hours occur.
    minutes
        Length of a reading: 15, 30 or 60. All three add up to the same energy.
    mix
        Share of each class, summing to 1; `DEFAULT_MIX` names the classes.
    seed
        Of the simulated customers and their weather.
    missing
        Share of reads that are lost: they are absent.
    estimated
        Share of reads that the meter operator filled in: a straight line of the register, marked
        ``"estimated"``.
    climate
        Latitude, temperature and cloud.
    batch_customers
        Customers in a batch; it does not change them.

    Yields
    ------
    pyarrow.RecordBatch
        Rows of `READINGS_SCHEMA`, by customer and time. Customers with panels have the channel
        ``"net"``, whose energy is negative while they export; the others have ``"delivered"``.
    """
    plan = SimulationPlan(
        customers=customers,
        clock=checked_clock(days=days, start=start, timezone=timezone, minutes=minutes),
        minutes=minutes,
        mix=checked_mix(mix),
        seed=seed,
        missing=missing,
        estimated=estimated,
        climate=climate,
    )
    checks.integer("batch_customers", batch_customers, minimum=1)
    return _batches(plan, batch_customers)


def simulate_kwh(
    *,
    customers: int,
    days: int,
    start: date,
    timezone: str,
    minutes: int,
    mix: Mapping[str, float] | None = None,
    seed: int,
    climate: Climate = TEMPERATE,
) -> NDArray[np.float64]:
    """Return the same readings as a matrix, one row per customer, with nothing missing."""
    plan = SimulationPlan(
        customers=customers,
        clock=checked_clock(days=days, start=start, timezone=timezone, minutes=minutes),
        minutes=minutes,
        mix=checked_mix(mix),
        seed=seed,
        climate=climate,
    )
    return np.concatenate([metered.kwh for _, metered in plan.blocks()])[:customers]


def simulate_attributes(
    *, customers: int, mix: Mapping[str, float] | None = None, seed: int
) -> pa.Table:
    """Return the attributes of each customer: class, ZIP code, feeder, panels, car.

    ZIP codes and feeders are simulated: adjacent customers in the list share them.
    """
    checks.integer("customers", customers, minimum=1)
    checks.integer("seed", seed, minimum=0)
    shares = checked_mix(mix)
    blocks = (draw_customers(block, shares, seed) for block in range(-(-customers // BLOCK)))
    tables = [
        pa.table(
            {
                "customer_id": block.ids,
                "class": block.classes,
                "zip": block.zips,
                "feeder": block.feeders,
                "has_pv": block.has_pv,
                "has_ev": block.has_ev,
            }
        )
        for block in blocks
    ]
    return pa.concat_tables(tables).slice(0, customers).combine_chunks()


def simulate_load_kw(*, customers: int, seed: int = 1) -> NDArray[np.float64]:
    """Return the average weekday of simulated homes in kW, one row per home.

    Two weeks of March are simulated; the columns are the 24 hours of the day.
    """
    kwh = simulate_kwh(
        customers=customers,
        days=14,
        start=date(2025, 3, 3),  # a Monday
        timezone="Europe/London",
        minutes=60,
        mix=LONDON_MIX,
        seed=seed,
    )
    weeks = kwh.reshape(-1, 2, 7, 24)
    load_kw: NDArray[np.float64] = weeks[:, :, :5].mean(axis=(1, 2))
    return load_kw


@dataclass(frozen=True, kw_only=True)
class SimulationPlan:
    """Parameters that determine a simulation."""

    customers: int
    clock: Clock
    minutes: int
    mix: Mapping[str, float]
    seed: int
    missing: float = 0.0
    estimated: float = 0.0
    climate: Climate = TEMPERATE

    def __post_init__(self) -> None:
        """Reject invalid parameters."""
        checks.integer("customers", self.customers, minimum=1)
        checks.integer("seed", self.seed, minimum=0)
        checks.probability_or_zero("missing", self.missing)
        checks.probability_or_zero("estimated", self.estimated)

    def blocks(self) -> Iterator[tuple[Customers, Metered]]:
        """Simulate block after block."""
        weather = simulate_weather(self.clock, self.climate, weather_stream(self.seed))
        for block in range(-(-self.customers // BLOCK)):
            customers = draw_customers(block, self.mix, self.seed)
            energy_wh = simulate_block(block, customers, self.clock, weather, self.seed)
            yield (
                customers,
                meter(
                    energy_wh,
                    minutes=self.minutes,
                    missing=self.missing,
                    estimated=self.estimated,
                    rng=meter_stream(self.seed, block),
                ),
            )


def checked_mix(mix: Mapping[str, float] | None) -> Mapping[str, float]:
    """Accept shares of known classes that sum to 1."""
    if mix is None:
        return DEFAULT_MIX
    if not mix or not set(mix) <= set(CLASSES):
        raise InvalidParameterError("mix", f"shares of classes, {one_of(CLASSES)}", mix)
    for name, share in mix.items():
        checks.non_negative(f"mix[{name!r}]", share)
    if not abs(sum(mix.values()) - 1.0) <= _SHARE_TOLERANCE:
        raise InvalidParameterError("mix", "shares that sum to 1", mix)
    return mix


def checked_clock(*, days: int, start: date, timezone: str, minutes: int) -> Clock:
    """Accept a stretch of local days that holds a whole number of readings."""
    checks.integer("days", days, minimum=1)
    if minutes not in _RESOLUTIONS or isinstance(minutes, bool):
        raise InvalidParameterError("minutes", one_of(_RESOLUTIONS), minutes)
    if type(start) is not date:  # a datetime is a date too, and must not pass
        raise InvalidParameterError("start", "a date without a time", start)
    try:
        ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        raise InvalidParameterError(
            "timezone", "an IANA time zone such as Europe/London", timezone
        ) from error
    try:
        # One day to spare on either side, for the evening before and for the offset from UTC.
        _ = start - timedelta(days=2), start + timedelta(days=days + 2)
    except OverflowError as error:
        raise InvalidParameterError(
            "days", "few enough to end before the year 10000", days
        ) from error
    clock = Clock(start=start, days=days, timezone=timezone)
    if clock.utc_slots * 15 % minutes:
        rule = f"a zone whose clock changes by whole readings of {minutes} minutes"
        raise InvalidParameterError("timezone", rule, timezone)
    return clock


def _batches(plan: SimulationPlan, batch_customers: int) -> Iterator[pa.RecordBatch]:
    """Cut blocks into pieces at the ends of batches, and join the pieces of each batch."""
    pieces: list[pa.RecordBatch] = []
    first = 0
    for customers, metered in plan.blocks():
        end = min(first + BLOCK, plan.customers)
        here = first
        while here < end:
            stop = min(end, (here // batch_customers + 1) * batch_customers)
            pieces.append(
                _record_batch(plan, customers, metered, slice(here - first, stop - first))
            )
            if stop % batch_customers == 0 or stop == plan.customers:
                yield pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)
                pieces = []
            here = stop
        first = end


def _record_batch(
    plan: SimulationPlan, customers: Customers, metered: Metered, rows: slice
) -> pa.RecordBatch:
    """Return the readings of some customers of a block as rows."""
    kept = np.flatnonzero(~metered.missing[rows])
    reads = metered.kwh.shape[1]
    customer, moment = kept // reads, kept % reads
    begin = np.datetime64(plan.clock.start_utc.replace(tzinfo=None), "us")
    stamps = begin + np.arange(reads) * np.timedelta64(plan.minutes, "m")
    net = customers.has_pv[rows].astype(np.int8)
    columns = [
        pa.array(customers.ids[rows]).take(pa.array(customer)),
        pa.array(stamps.astype(np.int64)[moment]).cast(pa.timestamp("us", tz="UTC")),
        pa.array(np.full(kept.size, plan.minutes, dtype=np.int16)),
        pa.array(metered.kwh[rows].ravel()[kept]),
        _CHANNELS.take(pa.array(net[customer])),
        _QUALITIES.take(pa.array(metered.estimated[rows].ravel()[kept].astype(np.int8))),
    ]
    return pa.record_batch(columns, schema=READINGS_SCHEMA)
