"""Readers return generated readings unchanged."""

import tempfile
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reported_problems import ReportedProblems
from wattveil.readings.formats.green_button import green_button_batches
from wattveil.readings.formats.nem12 import nem12_batches

ESPI = "http://naesb.org/espi"
DIRECTIONS = {1: ("delivered", 1), 19: ("received", -1), 4: ("net", 1)}


@st.composite
def green_button_series(draw: st.DrawFn) -> tuple[int, int, int, list[int]]:
    """Give unit, multiplier, direction and values of one series."""
    direction = draw(st.sampled_from(sorted(DIRECTIONS)))
    lowest = -(10**9) if direction == 4 else 0
    values = draw(st.lists(st.integers(lowest, 10**9), min_size=1, max_size=5))
    return draw(st.sampled_from([72, 38])), draw(st.integers(-6, 6)), direction, values


@settings(max_examples=10, deadline=None)
@given(st.lists(green_button_series(), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_green_button_in_any_order(
    series: Sequence[tuple[int, int, int, list[int]]], shuffler: Random
) -> None:
    """Series with their own units and directions come back exactly, in any order of entries."""
    entries, expected = [], []
    for number, (unit, power, direction, values) in enumerate(series):
        entries += _green_button_entries(number, unit, power, direction, values)
        channel, sign = DIRECTIONS[direction]
        hours = Decimal(1) if unit == 72 else Decimal("0.25")
        for i, value in enumerate(values):
            kwh = float(sign * value * Decimal(10) ** (power - 3) * hours)
            start = datetime.fromtimestamp(900 * i, tz=UTC)
            expected.append((f"UsagePoint/{number}", start, 15, kwh + 0.0, channel, "valid"))
    shuffler.shuffle(entries)
    text = f'<feed xmlns="http://www.w3.org/2005/Atom">{"".join(entries)}</feed>'
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "feed.xml")
        path.write_text(text, encoding="utf-8")
        problems = ReportedProblems()
        batches = list(green_button_batches(path, problems=problems))
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert sorted(rows) == sorted(expected)
    assert not problems.lost


def _green_button_entries(
    number: int, unit: int, power: int, direction: int, values: Sequence[int]
) -> list[str]:
    point, kind = f"UsagePoint/{number}", f"ReadingType/{number}"
    reading = f"{point}/MeterReading/1"
    readings = "".join(
        f"<IntervalReading><value>{value}</value><timePeriod><start>{900 * i}</start>"
        f"<duration>900</duration></timePeriod></IntervalReading>"
        for i, value in enumerate(values)
    )
    codes = f"<uom>{unit}</uom><flowDirection>{direction}</flowDirection>"
    codes += f"<powerOfTenMultiplier>{power}</powerOfTenMultiplier>"
    return [
        f'<entry><link rel="{rel}" href="{href}"/>{more}<content>'
        f'<{name} xmlns="{ESPI}">{inside}</{name}></content></entry>'
        for name, rel, href, more, inside in (
            ("UsagePoint", "self", point, "", ""),
            (
                "MeterReading",
                "self",
                reading,
                f'<link rel="up" href="{point}/MeterReading"/><link rel="related" href="{kind}"/>',
                "",
            ),
            ("ReadingType", "self", kind, "", codes),
            ("IntervalBlock", "up", f"{reading}/IntervalBlock", "", readings),
        )
    ]


@st.composite
def nem12_register(draw: st.DrawFn) -> tuple[str, str, dict[date, list[int]]]:
    """Give NMI, suffix and the watt-hours of some days."""
    nmi = draw(st.sampled_from(["6305856194", "6305856195"]))
    suffix = draw(st.sampled_from(["E1", "E2", "B1", "K1"]))
    days = st.dates(date(2020, 1, 1), date(2020, 1, 3))
    values = st.lists(st.integers(0, 10**6), min_size=48, max_size=48)
    return nmi, suffix, draw(st.dictionaries(days, values, min_size=1, max_size=2))


@settings(max_examples=10, deadline=None)
@given(
    st.lists(nem12_register(), min_size=1, max_size=6, unique_by=lambda register: register[:2]).map(
        sorted
    )
)
def test_nem12_registers_add_up(
    registers: Sequence[tuple[str, str, dict[date, list[int]]]],
) -> None:
    """Energy per customer, direction and interval is the sum of its registers; none is lost."""
    records = ["100,NEM12,202001010000,A,B"]
    expected: dict[tuple[str, str, datetime], int] = {}
    readings = 0
    for nmi, suffix, days in registers:
        records.append(f"200,{nmi},E1,1,{suffix},N1,1,Wh,30,")
        for day, values in days.items():
            records.append(f"300,{day:%Y%m%d},{','.join(map(str, values))},A,,,,")
            readings += 48
            start = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(hours=10)
            for i, value in enumerate(values):
                key = (nmi, suffix[0], start + i * timedelta(minutes=30))
                expected[key] = expected.get(key, 0) + value
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "nem12.csv")
        path.write_text("\n".join([*records, "900"]), encoding="utf-8")
        problems = ReportedProblems()
        batches = list(nem12_batches(path, problems=problems))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert len(rows) + problems.lost.total() == readings
    letters = {"delivered": "E", "received": "B"}
    got = {
        (row["customer_id"], letters[row["channel"]], row["start_utc"]): round(
            abs(row["kwh"]) * 1000, 6
        )
        for row in rows
    }
    assert len(got) == len(rows)
    assert got == {key: value for key, value in expected.items() if key[1] in "EB"}
