"""Green Button files from the field are read as their provenance describes."""

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.reported_problems import ReportedProblems
from tests.shared_data import SHARED_DATA, needs_shared_data
from wattveil.errors import InvalidFileError
from wattveil.readings.formats.green_button import green_button_batches
from wattveil.readings.schema import READINGS_SCHEMA

ESPI = "http://naesb.org/espi"
DATA = SHARED_DATA / "greenbutton"

pytestmark = needs_shared_data


def read(path: Path, problems: ReportedProblems) -> pa.Table:
    """Read a whole file."""
    return pa.Table.from_batches(
        green_button_batches(path, problems=problems), schema=READINGS_SCHEMA
    )


def test_a_year_of_hours() -> None:
    """The utility's export: 8,727 readings of an hour, direction not stated, no usage point."""
    problems = ReportedProblems()
    table = read(DATA / "jendobson_hourly_1yr_with_gaps.xml", problems)
    assert table.num_rows == 8727
    assert set(table["minutes"].to_pylist()) == {60}
    assert set(table["channel"].to_pylist()) == {"delivered"}
    assert set(table["customer_id"].to_pylist()) == {"jendobson_hourly_1yr_with_gaps"}
    assert not problems.lost
    assert len(problems.notes) == 3


def test_quality_flags_of_the_official_fixture() -> None:
    """1,340 quarters of an hour, one of them edited (7) and one estimated (8)."""
    problems = ReportedProblems()
    table = read(DATA / "gba_15min_quality_flags.xml", problems)
    assert table.num_rows == 1340
    assert set(table["minutes"].to_pylist()) == {15}
    assert Counter(table["quality"].to_pylist()) == {"valid": 1338, "edited": 1, "estimated": 1}
    assert not problems.lost


def test_three_usage_points_with_reverse_flow() -> None:
    """Three customers, four series of 96 quarters; two series are received, thus not positive."""
    table = read(DATA / "openespi_three_usagepoints_reverse_flow.xml", ReportedProblems())
    rows = table.to_pylist()
    series = Counter((row["customer_id"], row["channel"]) for row in rows)
    assert sorted(series.values()) == [96] * 4
    assert len({customer for customer, _ in series}) == 3
    received = [row["kwh"] for row in rows if row["channel"] == "received"]
    delivered = [row["kwh"] for row in rows if row["channel"] == "delivered"]
    assert max(received) <= 0 <= min(delivered)
    assert sum(received) < 0 < sum(delivered)


def test_the_malformed_file_is_refused() -> None:
    """Units and multipliers outside of the code lists refuse the file, at the line they are on."""
    path = DATA / "openespi_odd_units_malformed.xml"
    with pytest.raises(InvalidFileError) as caught:
        read(path, ReportedProblems())
    assert caught.value.where == "line 746, powerOfTenMultiplier"
    assert caught.value.found == 4096


@pytest.mark.parametrize(
    "name",
    [
        "jendobson_hourly_1yr_with_gaps.xml",
        "gba_15min_quality_flags.xml",
        "openespi_three_usagepoints_reverse_flow.xml",
    ],
)
def test_an_independent_reader_gives_the_same_rows(name: str) -> None:
    """A plain reading of the whole tree, type after type in file order, gives the same rows."""
    rows = read(DATA / name, ReportedProblems()).to_pylist()
    got = [(row["start_utc"].timestamp(), row["minutes"] * 60, row["kwh"]) for row in rows]
    assert got == pytest.approx(list(_by_the_tree(DATA / name)), abs=1e-12)


def _by_the_tree(path: Path) -> Iterator[tuple[float, int, float]]:
    sign = 1
    # The files come from the repository's own data, and the parser loads nothing from outside.
    for element in ET.parse(path).getroot().iter():  # noqa: S314
        if element.tag == f"{{{ESPI}}}ReadingType":
            sign = -1 if element.findtext(f"{{{ESPI}}}flowDirection") == "19" else 1
        elif element.tag == f"{{{ESPI}}}IntervalReading":
            start, duration, value = (
                int(element.findtext(f".//{{{ESPI}}}{name}") or "")
                for name in ("start", "duration", "value")
            )
            yield float(start), duration, sign * value / 1000
