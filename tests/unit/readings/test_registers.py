"""Register reads: energy is the difference of two reads, one interval apart."""

from collections.abc import Callable
from pathlib import Path

import pytest

from wattveil.errors import InvalidFileError
from wattveil.readings import read_readings

Write = Callable[..., Path]


def _lines(*values: float, meter: str = "a", first_hour: int = 0) -> list[str]:
    return [
        f"{meter},2013-01-01 {first_hour + place:02}:00,{value}"
        for place, value in enumerate(values)
    ]


def test_differences(write: Write) -> None:
    """N reads make N - 1 intervals; each starts at the read before."""
    path = write("id,timestamp,register", *_lines(100, 101, 103.5))
    readings = read_readings(path, cumulative=True)
    rows = readings.to_arrow().to_pylist()
    assert [(row["start_utc"].hour, row["kwh"]) for row in rows] == [(0, 1.0), (1, 2.5)]
    assert readings.report.dropped == {"first register read (no earlier value to subtract)": 1}


def test_rollover_and_reset(write: Write) -> None:
    """A fall from the last tenth to the first is a rollover; any other fall is a reset."""
    path = write("id,timestamp,register", *_lines(9_998, 3, 5, 2, 4))
    readings = read_readings(path, cumulative=True, register_rollover=10_000)
    assert [row["kwh"] for row in readings.to_arrow().to_pylist()] == [5.0, 2.0, 2.0]
    assert readings.report.dropped["register went backwards"] == 1
    assert readings.report.notes == {"register rolled over": 1}
    report = read_readings(path, cumulative=True).report
    assert report.dropped["register went backwards"] == 2


def test_a_gap_is_not_spread(write: Write) -> None:
    """Energy over several intervals has no place on the grid: counted, not smeared."""
    path = write("id,timestamp,register", *_lines(1, 2), *_lines(9, 10, 11, first_hour=5))
    report = read_readings(path, cumulative=True).report
    assert report.rows_out == 3
    assert report.dropped["register read after a gap"] == 1


def test_a_swapped_meter_starts_anew(write: Write) -> None:
    """The new meter's register is not subtracted from the old one's."""
    meters = write("meter_id,customer_id", "m1,home", "m2,home", name="meters.csv")
    old, new = _lines(500, 501, meter="m1"), _lines(0, 2, meter="m2", first_hour=2)
    readings = read_readings(
        write("id,timestamp,register", *old, *new), cumulative=True, meters=meters
    )
    rows = readings.to_arrow().to_pylist()
    assert [(row["customer_id"], row["kwh"]) for row in rows] == [("home", 1.0), ("home", 2.0)]


def test_duplicate_reads_do_not_make_intervals(write: Write) -> None:
    """A register read twice is read once."""
    path = write("id,timestamp,register", *_lines(1, 2, 3), *_lines(1, 2, 3))
    report = read_readings(path, cumulative=True).report
    assert (report.rows_in, report.rows_out) == (6, 2)
    assert report.merged == {"equal duplicate": 3}


def test_a_column_called_register_needs_a_unit(write: Write) -> None:
    """It may be a running total or an increment; the name does not determine which."""
    path = write("id,timestamp,register", "a,2013-01-01 00:00,100", "a,2013-01-01 01:00,101")
    with pytest.raises(InvalidFileError, match="cumulative=True if 'register'"):
        read_readings(path)
    read = read_readings(path, cumulative=True).to_arrow()
    assert read["kwh"].to_pylist() == [1.0]
    assert read_readings(path, unit="Wh").to_arrow()["kwh"].to_pylist() == [0.1, 0.101]


def test_energy_that_is_read_as_registers_is_refused(write: Write) -> None:
    """By the steps that go backwards, with their share; a single customer does not decide."""
    load = [1.0 + (7 * hour) % 5 for hour in range(24)]
    rising = [100.0 + 3 * hour for hour in range(24)]
    path = write("id,timestamp,kwh", *_lines(*load), *_lines(*load, meter="b"))
    with pytest.raises(InvalidFileError, match=r"\d\d % of the steps between registers go back"):
        read_readings(path, cumulative=True)
    assert read_readings(path, cumulative=True, implausible="accept").report.rows_out
    many = [line for name in "bcd" for line in _lines(*rising, meter=name)]
    one = write("id,timestamp,kwh", *_lines(*load), *many, name="one.csv")
    assert read_readings(one, cumulative=True).report.dropped["register went backwards"] > 1
