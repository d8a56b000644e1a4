"""Reading under random mess: against plain Python, in both ways, in any order, in any time zone."""

import datetime as dt
import math
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattveil.errors import InvalidFileError
from wattveil.profiles import Split, TimeGrid
from wattveil.profiles.build import average
from wattveil.readings import Readings, read_readings
from wattveil.readings.slot_totals import (
    SlotTotals,
    totals_after_reconciling,
    totals_in_one_pass,
)

_UTC = dt.UTC
_FIRST = dt.datetime(2013, 3, 30, tzinfo=_UTC)  # the day before London skips an hour
_ZONES = ["Europe/London", "America/Chicago", "Australia/Lord_Howe"]
# A spring and an autumn change of each zone, in UTC.
_CHANGES = {
    "Europe/London": [(2013, 3, 31), (2013, 10, 27)],
    "America/Chicago": [(2013, 3, 10), (2013, 11, 3)],
    "Australia/Lord_Howe": [(2013, 10, 5), (2013, 4, 6)],
}

Row = tuple[str, str, str]

_customers = st.sampled_from(["a", "b", "c", "", " a "])
_stamps = st.one_of(
    st.integers(0, 60).map(lambda hour: f"{_FIRST + dt.timedelta(hours=hour):%Y-%m-%d %H:%M:%S}"),
    st.sampled_from(
        ["", "never", "2013-03-31 00:07:00", "1970-01-01 00:00:00", "2013-13-01 00:00:00"]
    ),
)
_values = st.one_of(
    st.integers(-3, 9).map(str), st.sampled_from(["0.25", "", "x", "NaN", "inf", "Null", "1e400"])
)
_rows = st.lists(st.tuples(_customers, _stamps, _values), min_size=1, max_size=120)
# Sound rows in the majority, so that stamps and values are recognised whatever is drawn.
_SOUND = [
    (name, f"2013-04-{day:02} {hour:02}:00:00", "1")
    for name in "abc"
    for day in (5, 6)
    for hour in range(24)
]
_usual = settings(max_examples=6, deadline=None)


def _read(rows: Sequence[Row], **options: Any) -> Readings:  # noqa: ANN401 - named in the tests
    folder = tempfile.mkdtemp()
    path = Path(folder) / "mess.csv"
    lines = [",".join(row) for row in rows]
    path.write_text("\n".join(["id,timestamp,kwh", *lines]) + "\n", encoding="utf-8")
    readings: Readings = read_readings(path, minutes=60, **options)
    return readings


def _reference(  # noqa: C901, PLR0912 -- one branch a reason
    rows: Sequence[Row],
) -> tuple[dict[tuple[str, str], float], Counter[str]]:
    """Read the rows in plain Python, conflicts dropped."""
    counts: Counter[str] = Counter()
    groups: dict[tuple[str, str], list[float]] = {}
    for name, stamp, text in rows:
        try:
            moment = dt.datetime.fromisoformat(stamp)
        except ValueError:
            moment = None
        try:
            value = float(text)
        except ValueError:
            value = None
        if not name.strip():
            counts["no customer id"] += 1
        elif moment is None:
            counts["unreadable time stamp"] += 1
        elif moment.year < 1990:
            counts["year outside 1990-2099"] += 1
        elif text in {"", "NaN", "Null"}:
            counts["no value"] += 1
        elif value is None:
            counts["value is not a number"] += 1
        elif not math.isfinite(value):
            counts["value is not finite"] += 1
        elif moment.minute:
            counts["time stamp is not on the interval grid"] += 1
        else:
            groups.setdefault((name.strip(), stamp), []).append(value)
    kept = {}
    for key, values in groups.items():
        if len(set(values)) > 1:
            counts["conflicting duplicates"] += len(values)
        else:
            counts["equal duplicate"] += len(values) - 1
            kept[key] = values[0]
    return kept, +counts


@_usual
@given(rows=_rows)
def test_rows_in_are_rows_out_and_rows_reported(rows: list[Row]) -> None:
    """Every row is in the table or counted under the reason that plain Python finds for it."""
    rows = [*rows, *_SOUND]
    readings = _read(rows)
    kept, counts = _reference(rows)
    report = readings.report
    assert report.rows_in == len(rows)
    assert report.rows_out == len(kept)
    assert Counter({**report.dropped, **report.merged}) == counts
    found = {
        (row["customer_id"], f"{row['start_utc']:%Y-%m-%d %H:%M:%S}"): row["kwh"]
        for row in readings.to_arrow().to_pylist()
    }
    assert found == kept


def _both_ways(readings: Readings, grid: TimeGrid, zone: str) -> tuple[SlotTotals, SlotTotals]:
    fast = totals_in_one_pass(readings, grid, zone)
    fast_average = average(fast, with_gaps=True)
    slow = totals_after_reconciling(readings, grid, zone)
    slow_average = average(slow, with_gaps=True)
    assert fast_average.customer_ids == slow_average.customer_ids
    assert np.array_equal(fast_average.rows, slow_average.rows)
    assert np.allclose(fast_average.load_kw, slow_average.load_kw, atol=1e-12, equal_nan=True)
    assert np.array_equal(fast_average.days, slow_average.days)
    assert np.array_equal(fast_average.max_gap_hours, slow_average.max_gap_hours)
    assert fast.straddling == slow.straddling
    assert fast.customers == slow.customers
    return fast, slow


@_usual
@given(
    rows=_rows,
    split=st.sampled_from(Split),
    stamps=st.sampled_from([None, "Europe/London"]),
    conflicts=st.sampled_from(["drop", "first", "last", "mean"]),
)
def test_one_pass_and_reconciliation_agree(
    rows: list[Row], split: Split, stamps: str | None, conflicts: str
) -> None:
    """One pass gives the averages, coverage and report of reconciling every row."""
    readings = _read([*rows, *_SOUND], timezone=stamps, conflicts=conflicts)
    fast, slow = _both_ways(readings, TimeGrid(split=split), "Europe/London")
    assert fast.report == slow.report


@_usual
@given(rows=_rows, data=st.data(), conflicts=st.sampled_from(["drop", "mean"]))
def test_the_order_of_rows_does_not_matter(
    rows: list[Row], data: st.DataObject, conflicts: str
) -> None:
    """A permutation of the rows changes neither the report nor the averages."""
    rows = [*rows, *_SOUND]
    shuffled = data.draw(st.permutations(rows))
    first, second = (
        totals_in_one_pass(_read(part, conflicts=conflicts), TimeGrid(), "Europe/London")
        for part in (rows, shuffled)
    )
    assert first.report.dropped == second.report.dropped
    assert first.report.merged == second.report.merged
    one, other = (average(totals, with_gaps=True) for totals in (first, second))
    assert one.customer_ids == other.customer_ids
    assert np.allclose(one.load_kw, other.load_kw, atol=1e-12, equal_nan=True)
    assert np.array_equal(one.max_gap_hours, other.max_gap_hours)


@pytest.mark.parametrize("zone", _ZONES)
@pytest.mark.parametrize("end", [False, True])
@settings(max_examples=4, deadline=None)
@given(
    minutes=st.sampled_from([15, 30]),
    change=st.integers(0, 1),
    missing=st.sets(st.integers(0, 60), max_size=6),
    kept=st.booleans(),
)
def test_local_stamps_come_back_to_the_instants_they_were(
    *, zone: str, minutes: int, end: bool, change: int, missing: set[int], kept: bool
) -> None:
    """Days of 23, 23.5, 24.5 and 25 hours, written by the clock in order, are read back exactly.

    Readings may be missing, but not one of two passes of a repeated time, which are then ambiguous.
    """
    step = dt.timedelta(minutes=minutes)
    first = dt.datetime(*_CHANGES[zone][change], tzinfo=_UTC) - dt.timedelta(hours=20)
    starts = [first + step * place for place in range(44 * 60 // minutes)]
    clock = [(start + step * end).astimezone(ZoneInfo(zone)) for start in starts]
    naive = [moment.replace(tzinfo=None, fold=0) for moment in clock]
    repeated = {moment for moment, times in Counter(naive).items() if times > 1}
    use = [
        place
        for place in range(len(starts))
        if kept or place not in missing or naive[place] in repeated
    ]
    # A different value each, in no order: values that only rise are refused as a register.
    values = [place * 37 % 193 / 8 for place in range(len(starts))]
    lines = [f"a,{naive[place]:%Y-%m-%d %H:%M:%S},{values[place]}" for place in use]
    path = Path(tempfile.mkdtemp()) / "local.csv"
    path.write_text("\n".join(["id,timestamp,kwh", *lines]), encoding="utf-8")
    readings = read_readings(path, timezone=zone, minutes=minutes, stamp="end" if end else "start")
    rows = readings.to_arrow().to_pylist()
    assert readings.report.rows_out == len(use)
    read = {row["start_utc"]: row["kwh"] for row in rows}
    assert read == {starts[place]: values[place] for place in use}
    if not end:
        _both_ways(readings, TimeGrid(minutes=30), zone)


@_usual
@given(text=st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    """A file of arbitrary text is refused clearly, or its rows are all accounted for."""
    path = Path(tempfile.mkdtemp()) / "any.csv"
    path.write_text("id,timestamp,kwh\n" + text, encoding="utf-8", errors="replace")
    try:
        report = read_readings(path, minutes=60).report
    except InvalidFileError:
        return
    assert report.rows_in == report.rows_out + sum(report.dropped.values()) + sum(
        report.merged.values()
    )
