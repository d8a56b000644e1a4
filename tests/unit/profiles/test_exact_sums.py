"""A customer's numbers are its own to the last bit: not its neighbours', nor the order of rows."""

import datetime as dt
import itertools
import math
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wattveil.profiles import (
    TimeGrid,
    build_profiles,
    hours_from_readings,
)
from wattveil.readings import read_readings, slot_counts, slot_totals
from wattveil.readings.row_checks import UNITS_PER_KWH
from wattveil.readings.slot_counts import CalendarFrame, _low_bits, calendar_of_instants

_DAYS = 20
_FIRST = dt.datetime(2013, 10, 20, tzinfo=dt.UTC)  # a week before clocks go back

Row = tuple[str, dt.datetime, float]


def _rows(name: str) -> list[Row]:
    """Half hours of a customer, in numbers that no double holds exactly, some below zero."""
    draw = random.Random(name)  # noqa: S311 -- data for a test
    halves = [_FIRST + dt.timedelta(minutes=30 * half) for half in range(48 * _DAYS)]
    return [(name, start, round(draw.gauss(0.4, 0.5), 3) + draw.random() / 3) for start in halves]


def _parquet(path: Path, rows: list[Row], row_group: int = 1000) -> Path:
    names, starts, values = zip(*rows, strict=True)
    columns = {"id": names, "ts": pa.array(starts, pa.timestamp("us", "UTC")), "kwh": values}
    pq.write_table(pa.table(columns), path, row_group_size=row_group)
    return path


def _csv(path: Path, rows: list[Row]) -> Path:
    lines = [f"{name},{start:%Y-%m-%d %H:%M:%S},{value!r}" for name, start, value in rows]
    path.write_text("\n".join(["id,ts,kwh", *lines]), encoding="utf-8")
    return path


def _loads(path: Path, threads: int = 2) -> tuple[bytes, bytes]:
    """Return the average day and the hours of customer a, bit by bit."""
    readings = read_readings(path, minutes=30)
    readings.connection.execute(f"SET threads = {threads}")
    build = build_profiles(readings, timezone="Europe/London", grid=TimeGrid(minutes=60))
    row = build.profiles.customer_ids.index("a")
    hours = hours_from_readings(
        readings, first_day=_FIRST.date(), n_days=_DAYS, timezone="Europe/London"
    )
    readings.close()
    assert hours.customer_ids == build.profiles.customer_ids
    return build.profiles.load_kw[row].tobytes(), hours.load_kw[row].tobytes()


def test_neighbours_order_and_threads_change_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone or among others, in any order, in rows of any group, by either pass and any file."""
    alone = _rows("a")
    expected = _loads(_parquet(tmp_path / "alone.parquet", alone))
    crowd = [row for name in ("a", "b", "c", "0", "z") for row in _rows(name)]
    draw = random.Random(1)  # noqa: S311 -- orders for a test
    for row_group, threads in itertools.product((500, 3000), (1, 2)):
        draw.shuffle(crowd)
        path = _parquet(tmp_path / "crowd.parquet", crowd, row_group)
        assert _loads(path, threads) == expected
    assert _loads(_csv(tmp_path / "crowd.csv", crowd)) == expected
    monkeypatch.setattr(slot_totals, "count_plain_rows", lambda *_: False)
    assert _loads(tmp_path / "crowd.parquet") == expected
    assert _loads(_csv(tmp_path / "crowd.csv", crowd)) == expected


def test_reconciliation_changes_no_bit(tmp_path: Path) -> None:
    """A duplicate row makes its customer be reconciled, with an identical result."""
    alone = _rows("a")
    expected = _loads(_parquet(tmp_path / "alone.parquet", alone))
    crowd = [*_rows("b"), *reversed(alone), alone[100], *_rows("c")]
    assert _loads(_parquet(tmp_path / "crowd.parquet", crowd)) == expected


def test_a_neighbour_with_shorter_intervals_changes_no_bit(tmp_path: Path) -> None:
    """It makes all readings be cut into its own length, and alters nothing either."""
    header, path = "id,ts,kwh,minutes", tmp_path / "mixed.csv"
    own = [f"a,{start:%Y-%m-%d %H:%M:%S},{value!r},30" for _, start, value in _rows("a")]
    own += [f"a,{_FIRST - dt.timedelta(hours=hour):%Y-%m-%d %H:%M:%S},0.7,60" for hour in (1, 2)]
    fives = [_FIRST + dt.timedelta(minutes=5 * five) for five in range(288 * 14)]
    others = [f"b,{start:%Y-%m-%d %H:%M:%S},0.1,5" for start in fives]
    found = []
    for lines in (own, [*others, *own], [*reversed(own), *others]):
        path.write_text("\n".join([header, *lines]), encoding="utf-8")
        readings = read_readings(path)
        assert math.gcd(*readings.lengths) == (30 if lines is own else 5)
        found.append(build_profiles(readings).profiles.load_kw[0].tobytes())
    assert len(set(found)) == 1


@pytest.mark.parametrize("scale", [1, 4_000, 40_000])
def test_sums_of_doubles_would_not_do(tmp_path: Path, scale: int) -> None:
    """These very readings, added as they are, give other last bits in another order.

    Below 10,000 kWh a reading, rounded energies are added instead of units; above, units are.
    """
    rows = [(name, start, value * scale) for name, start, value in _rows("a")]
    values = [value for _, start, value in rows if start.hour == 12]
    draw = random.Random(2)  # noqa: S311 -- orders for a test
    orders = [draw.sample(values, len(values)) for _ in range(20)]
    assert len({sum(order) for order in orders}) > 1
    # Independent check: rounded as fractions, added, and divided once.
    path = _parquet(tmp_path / "a.parquet", rows)
    build = build_profiles(read_readings(path, implausible="accept"))
    units = sum(round(Fraction(value * UNITS_PER_KWH)) for value in values)
    expected = float(Fraction(units, UNITS_PER_KWH) / Fraction(len(values), 2))
    assert build.profiles.load_kw[0, 12] == expected


def test_decimals_come_out_as_they_went_in(tmp_path: Path) -> None:
    """0.1 kWh in every half hour is 0.2 kW, not nearly that."""
    rows = [(name, start, 0.1) for name, start, _ in _rows("a")]
    build = build_profiles(read_readings(_csv(tmp_path / "a.csv", rows)))
    assert (build.profiles.load_kw == 0.2).all()


@pytest.mark.parametrize("write", [_csv, _parquet])
def test_up_to_a_gigawatt(
    write: Callable[[Path, list[Row]], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest loads cancel exactly and leave the smallest; what is larger is dropped."""
    rows = [(name, start, 5e5 * (-1) ** start.day) for name, start, _ in _rows("a")]
    rows = [row for row in rows if row[1].day != 31]  # as many days of either sign but one
    rows[0] = ("a", _FIRST, 1e-7)
    larger = [("b", start, value * 1.000001) for _, start, value in rows]
    path = write(tmp_path / "large.parquet", [*rows, *larger])
    reports = []
    for way in (slot_counts.count_plain_rows, lambda *_: False):
        monkeypatch.setattr(slot_totals, "count_plain_rows", way)
        build = build_profiles(read_readings(path, minutes=30, implausible="accept"))
        reports.append(build.account.readings)
        units = [round(row[2] * UNITS_PER_KWH) for row in rows if row[1].hour == 0]
        assert build.profiles.load_kw[0, 0] == sum(units) / UNITS_PER_KWH / (len(units) / 2)
    assert reports == [read_readings(path, minutes=30, implausible="accept").report] * 2
    assert reports[0].dropped == {"load beyond 1,000,000 kW": len(larger) - 1}


def test_a_register_that_leaps_is_no_load(tmp_path: Path) -> None:
    """The limit holds for what a register went on by, not for where it stands."""
    state = [4e9 + hour for hour in range(24 * 16)]
    state[100:] = [value + 2e6 for value in state[100:]]
    rows = [("a", _FIRST + dt.timedelta(hours=hour), kwh) for hour, kwh in enumerate(state)]
    readings = read_readings(_csv(tmp_path / "r.csv", rows), cumulative=True, minutes=60)
    build = build_profiles(readings)
    assert (build.profiles.load_kw == 1.0).all()
    assert readings.report.dropped == {
        "first register read (no earlier value to subtract)": 1,
        "load beyond 1,000,000 kW": 1,
    }


def test_the_mean_of_conflicts_is_the_same_in_any_order(tmp_path: Path) -> None:
    """0.1, 0.2 and 0.7 add up to 1.0 or to a little less."""
    found = set()
    for values in itertools.permutations((0.1, 0.2, 0.7)):
        rows = [("a", _FIRST, value) for value in values]
        readings = read_readings(_csv(tmp_path / "a.csv", rows), minutes=30, conflicts="mean")
        found.add(readings.to_arrow()["kwh"][0].as_py())
    assert len({sum(values) for values in itertools.permutations((0.1, 0.2, 0.7))}) > 1
    assert len(found) == 1


def _frame(minutes: int, zone: str) -> CalendarFrame:
    days = np.arange(15_990, 16_400)
    return CalendarFrame(
        grid=TimeGrid(minutes=60), zone=zone, minutes=minutes, days=days, period_us=None
    )


@pytest.mark.parametrize("zone", ["UTC", "Europe/London", "Asia/Kolkata", "Asia/Kathmandu"])
@pytest.mark.parametrize("minutes", [5, 10, 15, 20, 30, 60])
def test_low_bits_distinguish_stamps(minutes: int, zone: str) -> None:
    """No two stamps of a calendar have the same."""
    calendar = calendar_of_instants(_frame(minutes, zone), late_us=minutes * 60_000_000)
    places = np.arange(calendar.cells.size, dtype=np.int64)
    stamps_us = calendar.first_us + places * calendar.frame.block_us
    low = eval(_low_bits(calendar), {"stamp_us": stamps_us})  # noqa: S307 -- SQL writes it alike
    assert np.unique(low).size == stamps_us.size


def test_a_stamp_with_the_low_bits_of_another_is_not_taken_for_it(tmp_path: Path) -> None:
    """It is off the grid, and counted so; so are missing values."""
    rows = [row for row in _rows("a") if row[1].minute == 0]
    size = calendar_of_instants(_frame(60, "UTC")).cells.size
    for bits in range(size.bit_length() - 3, size.bit_length() + 1):
        alias = rows[0][1] + dt.timedelta(microseconds=1 << (10 + bits))
        path = _parquet(tmp_path / "a.parquet", [*rows, ("b", alias, 1.0)])
        report = build_profiles(read_readings(path, minutes=60)).account.readings
        assert report.dropped == {"time stamp is not on the interval grid": 1}
    rows[5] = (*rows[5][:2], None)  # type: ignore[assignment]  # a gap in the column
    path = _parquet(tmp_path / "a.parquet", rows)
    build = build_profiles(read_readings(path, minutes=60))
    assert build.account.readings.dropped == {"no value": 1}
    assert build.averages.rows[0].tolist() == [_DAYS - (hour == 5) for hour in range(24)]
