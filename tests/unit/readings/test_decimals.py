"""Decimal points, decimal commas and groups of thousands: distinguished, named, or rejected."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.readings import Readings, read_readings

Write = Callable[..., Path]


def _values(readings: Readings) -> list[float]:
    return [float(value) for value in readings.to_arrow()["kwh"].to_pylist()]


def _read(write: Write, values: list[str], **options: str) -> Readings:
    lines = [f"a;2013-01-01 {hour:02}:00;{value}" for hour, value in enumerate(values)]
    readings: Readings = read_readings(
        write("id;timestamp;kwh", *lines),
        minutes=60,
        decimal=options.get("decimal"),
    )
    return readings


@pytest.mark.parametrize(
    ("values", "expected", "mark"),
    [
        (["0"] * 6 + ["1,5"] * 4, [0.0] * 6 + [1.5] * 4, "comma"),  # most have no mark
        (["0,250", "1,500"], [0.25, 1.5], "comma"),  # 0,250 is no group of thousands
        (["1.234,5", "0,5"], [1234.5, 0.5], "comma"),
        (["1,234.5", "0.5"], [1234.5, 0.5], "point"),
        (["1.500", "2"], [1.5, 2.0], "point"),
        (["1", "2"], [1.0, 2.0], "point"),
        (["-1,5", "1,5e1"], [-1.5, 15.0], "comma"),
    ],
)
def test_the_mark_is_found_among_values_that_have_one(
    write: Write, values: list[str], expected: list[float], mark: str
) -> None:
    """Whole numbers are ignored; the inferred mark is recorded."""
    readings = _read(write, values)
    assert _values(readings) == expected
    assert f"values: decimal {mark}" in readings.assumptions


@pytest.mark.parametrize(
    "values", [["1,500", "2,250"], ["0.5", "0.7", "1,500"], ["0,5", "0,7", "1.500"]]
)
def test_what_may_be_thousands_is_refused_unless_named(write: Write, values: list[str]) -> None:
    """The option is named in the message, and then decides."""
    with pytest.raises(InvalidFileError, match="groups of thousands, or decimal="):
        _read(write, values)
    for decimal in ("point", "comma"):
        readings = _read(write, values, decimal=decimal)
        assert not any("decimal" in assumption for assumption in readings.assumptions)
    assert _values(_read(write, ["1,500", "0.5"], decimal="point")) == [1500.0, 0.5]
    assert _values(_read(write, ["1.500", "0,5"], decimal="comma")) == [1500.0, 0.5]


def test_the_rows_of_one_customer_choose_no_mark_for_others(write: Write) -> None:
    """However many there are, and wherever they stand: both marks are refused, or one is named."""
    own, others = ["0,11", "0,21", "0,31"], ["0.5"] * 9
    for values in (own + others, others + own):
        with pytest.raises(InvalidFileError, match="one decimal mark"):
            _read(write, values)
    assert _values(_read(write, own + others, decimal="point")) == [0.5] * 9


def test_a_value_of_the_other_mark_is_counted(write: Write) -> None:
    """It is no number here: neither read as if it were, nor passed over."""
    readings = _read(write, ["0.5", "0,5"], decimal="comma")
    assert _values(readings) == [0.5]
    assert readings.report.dropped == {"value is not a number": 1}


def test_an_unknown_mark_is_refused(write: Write) -> None:
    """The choices are in the message."""
    with pytest.raises(InvalidParameterError, match="decimal must be one of: "):
        _read(write, ["1"], decimal="dot")


def test_every_slot_of_a_wide_table_is_inspected(write: Write) -> None:
    """The first hour of the day may be without a fraction."""
    header = "id;date;" + ";".join(f"h{hour:02}" for hour in range(24))
    readings = read_readings(write(header, "a;2013-01-01;" + ";".join(["0"] + ["1,5"] * 23)))
    assert _values(readings) == [0.0] + [1.5] * 23


def test_texts_among_typed_columns_have_a_mark_too(tmp_path: Path) -> None:
    """A Parquet file may hold stamps as numbers and values as texts."""
    path = tmp_path / "readings.parquet"
    stamps = pa.array([1356998400 + 3600 * hour for hour in range(2)], pa.int64())
    pq.write_table(pa.table({"id": ["a", "a"], "ts": stamps, "kwh": ["0,5", "1,25"]}), path)
    assert _values(read_readings(path, minutes=60)) == [0.5, 1.25]


@pytest.mark.parametrize(
    ("stamp", "form", "guess"),
    [
        ("2013-01-01 {:02}:00:00", "%Y-%m-%d %H:%M:%S", "local time, without"),
        ("2013-01-01T{:02}:00:00Z", "%Y-%m-%dT%H:%M:%SZ", "instants, with"),
        ("2013-01-01T{:02}:00:00+00:00", "%Y-%m-%dT%H:%M:%S%z", "instants, with"),
    ],
)
def test_the_kind_of_stamps_is_inferred_unless_named(
    write: Write, stamp: str, form: str, guess: str
) -> None:
    """With format, mark and all other options given, no option is inferred."""
    path = write("id,start,kwh", *(f"a,{stamp.format(hour)},0.5" for hour in range(3)))
    found = read_readings(path, minutes=60)
    assert f"stamp: {guess} an offset from UTC" in found.assumptions
    named = read_readings(
        path,
        layout="long",
        columns={"customer": "id", "stamp": "start", "value": "kwh"},
        unit="kWh",
        minutes=60,
        stamp="start",
        stamp_format=form,
        decimal="point",
        timezone="UTC",
    )
    assert named.assumptions == ()
    assert named.to_arrow() == found.to_arrow()


def test_a_format_with_a_z_is_of_instants(write: Write) -> None:
    """Z is UTC, whatever the zone of stamps without offset."""
    path = write("id,start,kwh", "a,2013-07-01T00:00:00Z,1", "a,2013-07-01T01:00:00Z,1")
    readings = read_readings(
        path, minutes=60, stamp_format="%Y-%m-%dT%H:%M:%SZ", timezone="Europe/London"
    )
    assert [start.hour for start in readings.to_arrow()["start_utc"].to_pylist()] == [0, 1]
