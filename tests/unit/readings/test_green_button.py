"""Green Button feeds: what is read, and what is left out and counted."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from tests.reported_problems import ReportedProblems
from wattveil.errors import InvalidFileError
from wattveil.readings import read_readings
from wattveil.readings.formats.green_button import green_button_batches
from wattveil.readings.schema import READINGS_SCHEMA

ESPI = "http://naesb.org/espi"


def point(number: int = 1, *, kind: int = 0) -> str:
    """Write a UsagePoint entry."""
    return f"""<entry><id>urn:uuid:same-for-all</id>
      <link rel="self" href="Customer/1/UsagePoint/{number}"/>
      <link rel="related" href="Customer/1/UsagePoint/{number}/MeterReading"/>
      <content><UsagePoint xmlns="{ESPI}"><ServiceCategory><kind>{kind}</kind></ServiceCategory>
      </UsagePoint></content></entry>"""


def meter(number: int = 1, *, of: int = 1) -> str:
    """Write a MeterReading entry, linked to the ReadingType of the same number."""
    base = f"Customer/1/UsagePoint/{of}/MeterReading"
    return f"""<entry><link rel="self" href="{base}/{number}"/><link rel="up" href="{base}"/>
      <link rel="related" href="{base}/{number}/IntervalBlock"/>
      <link rel="related" href="ReadingType/{number}"/>
      <content><MeterReading xmlns="{ESPI}"/></content></entry>"""


def kind(number: int = 1, **codes: object) -> str:
    """Write a ReadingType entry; without codes it is Wh delivered."""
    named = {"flowDirection": 1, "powerOfTenMultiplier": 0, "uom": 72} | codes
    inside = "".join(f"<{name}>{code}</{name}>" for name, code in named.items())
    return f"""<entry><link rel="self" href="ReadingType/{number}"/>
      <content><ReadingType xmlns="{ESPI}">{inside}</ReadingType></content></entry>"""


def reading(value: object, *, start: object = 1_300_000_000, seconds: object = 900) -> str:
    """Write one IntervalReading."""
    return (
        f"<IntervalReading><timePeriod><duration>{seconds}</duration><start>{start}</start>"
        f"</timePeriod><value>{value}</value></IntervalReading>"
    )


def block(*readings: str, number: int = 1, of: int = 1) -> str:
    """Write an IntervalBlock entry."""
    base = f"Customer/1/UsagePoint/{of}/MeterReading/{number}/IntervalBlock"
    return f"""<entry><link rel="self" href="{base}/7"/><link rel="up" href="{base}"/>
      <content><IntervalBlock xmlns="{ESPI}"><interval><duration>86400</duration>
      <start>1300000000</start></interval>{"".join(readings)}</IntervalBlock></content></entry>"""


def feed(*entries: str) -> str:
    """Write a feed."""
    return f'<feed xmlns="http://www.w3.org/2005/Atom">{"".join(entries)}</feed>'


def read_text(
    tmp_path: Path, text: str, problems: ReportedProblems | None = None
) -> list[dict[str, object]]:
    """Read a feed given as text."""
    path = tmp_path / "account 12.5.xml"
    path.write_text(text, encoding="utf-8")
    batches = green_button_batches(path, problems=problems or ReportedProblems())
    rows: list[dict[str, object]] = pa.Table.from_batches(
        batches, schema=READINGS_SCHEMA
    ).to_pylist()
    return rows


# --- numbers computed by hand --------------------------------------------------------------------


def test_a_reading_by_hand(tmp_path: Path) -> None:
    """385 Wh in the hour from 2011-02-01 08:00 UTC (1296547200) is one row of 0.385 kWh."""
    rows = read_text(
        tmp_path,
        feed(point(), meter(), kind(), block(reading(385, start=1_296_547_200, seconds=3600))),
    )
    assert rows == [
        {
            "customer_id": "Customer/1/UsagePoint/1",
            "start_utc": datetime(2011, 2, 1, 8, tzinfo=UTC),
            "minutes": 60,
            "kwh": 0.385,
            "channel": "delivered",
            "quality": "valid",
        }
    ]


@pytest.mark.parametrize(
    ("codes", "value", "kwh", "channel"),
    [
        ({"powerOfTenMultiplier": -3}, 1_234_567, 1.234567, "delivered"),
        ({"powerOfTenMultiplier": 3}, 2, 2.0, "delivered"),
        ({"flowDirection": 19}, 250, -0.25, "received"),
        ({"flowDirection": 19}, 0, 0.0, "received"),
        ({"flowDirection": 4}, -250, -0.25, "net"),
        ({"flowDirection": 0}, 250, 0.25, "delivered"),
        ({"uom": 38}, 2000, 0.5, "delivered"),  # 2 kW for a quarter of an hour
        ({"uom": 38, "powerOfTenMultiplier": 3, "flowDirection": 19}, 2, -0.5, "received"),
        ({}, "385.5", 0.3855, "delivered"),
    ],
)
def test_units_multipliers_and_directions(
    tmp_path: Path, codes: dict[str, int], value: object, kwh: float, channel: str
) -> None:
    """KWh = value × 10^multiplier (× duration if in W); received energy is negative."""
    (row,) = read_text(tmp_path, feed(point(), meter(), kind(**codes), block(reading(value))))
    assert (row["kwh"], row["channel"], row["minutes"]) == (kwh, channel, 15)
    assert str(row["kwh"]) == str(kwh), "no minus zero"


@pytest.mark.parametrize(
    ("codes", "quality"),
    [
        ((), "valid"),
        ((0,), "valid"),
        ((7,), "edited"),
        ((8,), "estimated"),
        ((9,), "estimated"),
        ((10,), "questionable"),
        ((11,), "derived"),
        ((12,), "projected"),
        ((13,), "mixed"),
        ((14,), "raw"),
        ((17,), "valid"),
        ((18,), "valid"),
        ((19,), "valid"),
        ((99,), "other"),
        ((17, 8, 14), "estimated"),
    ],
)
def test_quality_flags(tmp_path: Path, codes: tuple[int, ...], quality: str) -> None:
    """Each ReadingQuality code has one name; of several, the worst counts."""
    flags = "".join(f"<ReadingQuality><quality>{c}</quality></ReadingQuality>" for c in codes)
    one = reading(1).replace("<timePeriod>", f"<cost>9</cost>{flags}<timePeriod>")
    (row,) = read_text(tmp_path, feed(point(), meter(), kind(), block(one)))
    assert row["quality"] == quality


def test_a_reading_without_value_is_missing(tmp_path: Path) -> None:
    """A reading whose value is absent or empty is a row without energy, not a zero."""
    absent = reading("").replace("<value></value>", "")
    rows = read_text(tmp_path, feed(point(), meter(), kind(), block(absent, reading(" "))))
    assert [(row["kwh"], row["quality"]) for row in rows] == [(None, "missing")] * 2


def test_duration_of_the_type_is_used_where_the_reading_has_none(tmp_path: Path) -> None:
    """A timePeriod without duration lasts as long as the type's intervalLength."""
    one = reading(1).replace("<duration>900</duration>", "")
    (row,) = read_text(tmp_path, feed(point(), meter(), kind(intervalLength=1800), block(one)))
    assert row["minutes"] == 30


# --- links, order, names -------------------------------------------------------------------------


def test_entries_in_any_order(tmp_path: Path) -> None:
    """Types, meter readings and usage points may follow their blocks, and links their content."""
    entries = (
        point(1),
        point(2),
        meter(1, of=1),
        meter(2, of=2),
        kind(1),
        kind(2, flowDirection=19),
        block(reading(100), number=1, of=1),
        block(reading(200), number=2, of=2),
    )
    expected = {("Customer/1/UsagePoint/1", 0.1), ("Customer/1/UsagePoint/2", -0.2)}
    for order in (entries, entries[::-1]):
        rows = read_text(tmp_path, feed(*order))
        assert {(row["customer_id"], row["kwh"]) for row in rows} == expected
    late = block(reading(100)).replace('<link rel="up"', "<link").replace("</entry>", "")
    late += '<link rel="up" href="Customer/1/UsagePoint/1/MeterReading/1/IntervalBlock"/></entry>'
    (row,) = read_text(tmp_path, feed(*entries[:6], late))
    assert row["customer_id"] == "Customer/1/UsagePoint/1"


def test_namespaces_prefixed_and_redeclared(tmp_path: Path) -> None:
    """A namespace counts by its name, whatever the prefix and wherever it is declared."""
    text = feed(point(), meter(), kind(), block(reading(385)))
    prefixed = text.replace('<feed xmlns="', f'<feed xmlns:e="{ESPI}" xmlns="')
    prefixed = prefixed.replace(f' xmlns="{ESPI}"', "")
    for name in ("UsagePoint", "MeterReading", "IntervalBlock", "ServiceCategory", "kind"):
        for mark in (" ", ">", "/>"):
            prefixed = prefixed.replace(f"<{name}{mark}", f"<e:{name}{mark}")
            prefixed = prefixed.replace(f"</{name}{mark}", f"</e:{name}{mark}")
    for name in ("ReadingType", "uom", "flowDirection", "powerOfTenMultiplier"):
        prefixed = prefixed.replace(f"<{name}>", f"<e:{name}>")
        prefixed = prefixed.replace(f"</{name}>", f"</e:{name}>")
    for name in ("interval", "IntervalReading", "timePeriod", "start", "duration", "value"):
        prefixed = prefixed.replace(f"<{name}>", f'<x:{name} xmlns:x="{ESPI}">')
        prefixed = prefixed.replace(f"</{name}>", f"</x:{name}>")
    assert prefixed != text
    assert read_text(tmp_path, prefixed) == read_text(tmp_path, text)


def test_host_query_and_slashes_of_links_do_not_matter(tmp_path: Path) -> None:
    """Absolute and relative spellings of one path are one link."""
    text = feed(point(), meter(), kind(), block(reading(1)))
    text = text.replace('"up" href="Customer', '"up" href="https://utility.example/Customer')
    text = text.replace('/IntervalBlock"/>', '/IntervalBlock/?published-max=3"/>')
    (row,) = read_text(tmp_path, text)
    assert row["customer_id"] == "Customer/1/UsagePoint/1"


def test_a_link_that_is_no_address_leads_nowhere(tmp_path: Path) -> None:
    """A link that cannot be parsed is taken as it stands."""
    text = feed(point(), meter(), kind(), block(reading(1)))
    text = text.replace('"related" href="ReadingType/1"', '"related" href="http://[1"')
    problems = ReportedProblems()
    assert len(read_text(tmp_path, text, problems)) == 1
    assert problems.notes == {"no link to a ReadingType, the only one is used": 1}


def test_without_links_the_only_entries_are_used_and_noted(tmp_path: Path) -> None:
    """One ReadingType and no UsagePoint: the file name names the customer; all of it noted."""
    problems = ReportedProblems()
    both = reading(5) + reading(6)
    bare = f'<entry><content><IntervalBlock xmlns="{ESPI}">{both}</IntervalBlock></content>'
    rows = read_text(tmp_path, feed(kind(flowDirection=0), f"{bare}</entry>"), problems)
    assert [row["customer_id"] for row in rows] == ["account 12.5"] * 2
    assert problems.notes == {
        "no link to a ReadingType, the only one is used": 1,
        "flow direction is not stated, read as delivered": 2,
        "usage point has no entry, customer is named by the link or the file": 1,
    }


def test_a_usage_point_without_entry_is_named_by_the_links_to_it(tmp_path: Path) -> None:
    """Blocks of a usage point without an entry do not fall to the one that has an entry."""
    text = feed(point(1), meter(1, of=1), kind(1), block(reading(1)), meter(2, of=2), kind(2))
    text = text.replace("</feed>", block(reading(2), number=2, of=2) + "</feed>")
    rows = read_text(tmp_path, text)
    assert [row["customer_id"] for row in rows] == [f"Customer/1/UsagePoint/{i}" for i in (1, 2)]


def test_series_of_one_channel_are_noted(tmp_path: Path) -> None:
    """Two series of one customer and direction may be one energy twice: the sink counts it."""
    problems = ReportedProblems()
    entries = [point(), *(meter(i) for i in (1, 2)), *(kind(i) for i in (1, 2))]
    blocks = [block(reading(1), number=i) for i in (1, 2)]
    assert len(read_text(tmp_path, feed(*entries, *blocks), problems)) == 2
    assert problems.notes["several meter readings of one usage point share a channel"] == 1


# --- left out and counted ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codes", "reason"),
    [
        ({"uom": 61}, "unit is neither Wh nor W"),
        ({"uom": 169}, "unit is neither Wh nor W"),
        ({"commodity": 7}, "commodity is not electricity"),
        ({"accumulationBehaviour": 3}, "register read, not the energy of an interval"),
        ({"dataQualifier": 8}, "maximum or minimum, not the energy of an interval"),
        ({"flowDirection": 20}, "flow direction is neither delivered, received nor net"),
    ],
)
def test_types_that_are_no_load_are_counted(
    tmp_path: Path, codes: dict[str, int], reason: str
) -> None:
    """Readings of other units, commodities or directions are each counted with their row."""
    problems = ReportedProblems()
    text = feed(point(), meter(), kind(**codes), "\n\n", block(reading(1), reading(2)))
    assert read_text(tmp_path, text, problems) == []
    assert problems.lost == {reason: 2}
    where, row = problems.rows[1]
    assert where == f"line {text[: text.rindex('<IntervalReading')].count(chr(10)) + 1}"
    assert row == {
        "customer_id": "Customer/1/UsagePoint/1",
        "start": "1300000000",
        "duration": "900",
        "value": "2",
    }


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (reading(1, seconds=0), "duration is not in whole minutes up to a day"),
        (reading(1, seconds=90), "duration is not in whole minutes up to a day"),
        (reading(1, seconds=-900), "duration is not in whole minutes up to a day"),
        (reading(1, seconds=2_592_000), "duration is not in whole minutes up to a day"),
        (reading(-1), "negative value in a one-way channel"),
        (reading(1).replace("<start>1300000000</start>", ""), "reading has no start"),
    ],
)
def test_readings_that_are_no_interval_are_counted(tmp_path: Path, one: str, reason: str) -> None:
    """One odd reading is counted and its neighbours are kept."""
    problems = ReportedProblems()
    rows = read_text(tmp_path, feed(point(), meter(), kind(), block(reading(1), one)), problems)
    assert len(rows) == 1
    assert problems.lost == {reason: 1}


@pytest.mark.parametrize("service", [1, 2])
def test_gas_and_water_are_counted(tmp_path: Path, service: int) -> None:
    """A usage point of another service loses its readings to a reason, electricity stays."""
    problems = ReportedProblems()
    entries = [point(1), point(2, kind=service), meter(1, of=1), meter(2, of=2), kind(1), kind(2)]
    blocks = [block(reading(1)), block(reading(2), reading(3), number=2, of=2)]
    assert len(read_text(tmp_path, feed(*entries, *blocks), problems)) == 1
    assert problems.lost == {"service is not electricity": 2}


def test_a_block_without_a_type_is_counted(tmp_path: Path) -> None:
    """With several types and no link to one of them, no unit is assumed."""
    problems = ReportedProblems()
    entries = [point(), meter(1), kind(1), kind(2), block(reading(1)), block(reading(2), number=9)]
    assert len(read_text(tmp_path, feed(*entries), problems)) == 1
    assert problems.lost == {"block has no link to one ReadingType": 1}


def test_two_types_under_one_link_are_counted(tmp_path: Path) -> None:
    """Types that share a link are used if they agree and not if they differ."""
    text = feed(point(), meter(), kind(), kind(), block(reading(1)))
    assert len(read_text(tmp_path, text)) == 1
    problems = ReportedProblems()
    text = feed(point(), meter(), kind(), kind(powerOfTenMultiplier=3), block(reading(1)))
    assert read_text(tmp_path, text, problems) == []
    assert problems.lost == {"block has no link to one ReadingType": 1}


def test_local_time_and_unknown_elements_are_noted(tmp_path: Path) -> None:
    """Time zone rules and unknown elements are skipped, but not silently."""
    problems = ReportedProblems()
    zone = f'<entry><content><LocalTimeParameters xmlns="{ESPI}"/></content></entry>'
    odd = block("<weather>fine</weather>", reading(1))
    assert len(read_text(tmp_path, feed(zone, point(), meter(), kind(), odd), problems)) == 1
    assert problems.notes == {
        "local-time rules ignored; start times are UTC": 1,
        "element that is not known in a block": 1,
    }


# --- several files -------------------------------------------------------------------------------


def _home(path: Path, first_hour: int, value: Callable[[int], int]) -> None:
    hours = range(first_hour, first_hour + 48)
    start = 1_300_003_200  # a whole hour
    rows = [reading(value(hour), start=start + 3600 * hour, seconds=3600) for hour in hours]
    path.write_text(feed(point(), meter(), kind(), block(*rows)), encoding="utf-8")


@pytest.mark.parametrize(("first_hour", "revised"), [(24, 0), (24, 3), (48, 48)])
def test_files_of_one_usage_point_are_one_customer(
    tmp_path: Path, first_hour: int, revised: int
) -> None:
    """Downloads that overlap agree but for revised values; it is noted that they were joined."""
    _home(tmp_path / "march.xml", 0, lambda hour: 500 + 7 * hour % 24)
    changed = range(first_hour, first_hour + revised)
    _home(
        tmp_path / "april.xml", first_hour, lambda hour: 500 + 7 * hour % 24 + 9 * (hour in changed)
    )
    readings = read_readings(tmp_path)
    assert set(readings.to_arrow()["customer_id"].to_pylist()) == {"Customer/1/UsagePoint/1"}
    notes = [note for note in readings.report.notes if "several files" in note]
    assert len(notes) == 1


def test_homes_that_share_a_usage_point_are_refused(tmp_path: Path) -> None:
    """Some senders name every home ``UsagePoint/1``: other energy in the same hours shows it."""
    _home(tmp_path / "anna.xml", 0, lambda hour: 500 + 7 * hour % 24)
    _home(tmp_path / "bert.xml", 0, lambda hour: 900 + 5 * hour % 24)
    with pytest.raises(InvalidFileError, match="UsagePoint") as error:
        read_readings(tmp_path)
    for evidence in ("anna.xml", "bert.xml", "48 of 48", "Customer/1/UsagePoint/1"):
        assert evidence in str(error.value)
    accepted = read_readings(tmp_path, implausible="accept")
    assert accepted.report.dropped == {"conflicting duplicates": 96}


def test_files_of_other_lengths_are_no_other_home(tmp_path: Path) -> None:
    """Hours and quarters of an hour of one home begin together; the error names their lengths."""
    start = 1_300_003_200
    for name, seconds, count in (("hours.xml", 3600, 48), ("quarters.xml", 900, 192)):
        rows = [reading(seconds, start=start + seconds * n, seconds=seconds) for n in range(count)]
        text = feed(point(), meter(), kind(), block(*rows))
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InvalidFileError, match="interval lengths"):
        read_readings(tmp_path)
