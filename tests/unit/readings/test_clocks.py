"""Days when clocks change, in long and wide tables."""

from collections.abc import Callable
from pathlib import Path

from wattveil.readings import Readings, read_readings

Write = Callable[..., Path]


def _starts(readings: Readings) -> list[str]:
    return [
        f"{row['start_utc']:%d %H:%M}={row['kwh']:g}" for row in readings.to_arrow().to_pylist()
    ]


def test_the_repeated_hour_goes_by_order_of_appearance(write: Write) -> None:
    """On 27 October 2013 London shows 01:00-02:00 twice, first in summer time."""
    hours = ("00:00", "00:30", "01:00", "01:30", "01:00", "01:30", "02:00")
    lines = [f"a,2013-10-27 {hour},{value}" for value, hour in enumerate(hours)]
    readings = read_readings(write("id,timestamp,kwh", *lines), timezone="Europe/London")
    assert _starts(readings) == [
        "26 23:00=0",
        "26 23:30=1",
        "27 00:00=2",
        "27 00:30=3",
        "27 01:00=4",
        "27 01:30=5",
        "27 02:00=6",
    ]
    assert sum(readings.report.notes.values()) == 4


def test_a_repeated_hour_read_once_is_its_first_pass(write: Write) -> None:
    """With one reading for two passes, the first is taken and the assumption is counted."""
    lines = [f"a,2013-10-27 {hour},1" for hour in ("00:00", "01:00", "02:00")]
    readings = read_readings(write("id,timestamp,kwh", *lines), timezone="Europe/London")
    assert _starts(readings) == ["26 23:00=1", "27 00:00=1", "27 02:00=1"]
    assert list(readings.report.notes.values()) == [1]


def test_equal_values_in_the_two_passes_are_no_duplicates(write: Write) -> None:
    """Both passes may read the same; a third row is a duplicate."""
    lines = ["a,2013-10-27 00:00,1", "a,2013-10-27 02:00,1", *["a,2013-10-27 01:00,1"] * 3]
    readings = read_readings(
        write("id,timestamp,kwh", *lines), timezone="Europe/London", minutes=60
    )
    assert len(_starts(readings)) == 4
    assert readings.report.merged == {"equal duplicate": 1}


def test_an_hour_that_never_was_is_counted(write: Write) -> None:
    """London skips 01:00 on 31 March 2013."""
    lines = [f"a,2013-03-31 {hour},1" for hour in ("00:00", "01:00", "02:00")]
    report = read_readings(write("id,timestamp,kwh", *lines), timezone="Europe/London").report
    assert report.dropped == {"local time that does not exist (clocks forward)": 1}


def test_end_stamps_across_the_change(write: Write) -> None:
    """The interval that ends at 02:00 summer time began at 00:00 winter time, not in the gap."""
    lines = [f"a,2013-03-31 {hour},1" for hour in ("00:00", "02:00", "03:00")]
    path = write("id,interval_end,kwh", *lines)
    readings = read_readings(path, timezone="Europe/London", minutes=60)
    assert _starts(readings) == ["30 23:00=1", "31 00:00=1", "31 01:00=1"]


def _wide(*days: tuple[str, list[str]], slots: int) -> list[str]:
    header = ",".join(["meter_id", "date", *(f"h{slot:02}" for slot in range(slots))])
    return [header, *(",".join(["a", day, *values]) for day, values in days)]


def test_wide_clock_slots(write: Write) -> None:
    """By the clock, the skipped hour is empty and the repeated hour is read once."""
    spring = ["1", "", *["1"] * 22]
    autumn = ["1"] * 24
    path = write(*_wide(("2013-03-31", spring), ("2013-10-27", autumn), slots=24))
    report = read_readings(path, timezone="Europe/London").report
    assert (report.rows_in, report.rows_out) == (48, 47)
    assert report.dropped == {"no value": 1}
    assert list(report.notes.values()) == [1]


def test_wide_elapsed_slots(write: Write) -> None:
    """With 25 slots they count hours since midnight: 23 on the short day, 25 on the long one."""
    spring = [*map(str, range(23)), "", ""]
    autumn = [*map(str, range(25))]
    path = write(*_wide(("2013-03-31", spring), ("2013-10-27", autumn), slots=25))
    readings = read_readings(path, timezone="Europe/London")
    starts = _starts(readings)
    assert readings.report.dropped == {"empty slot beyond the end of its day": 2}
    assert starts[:2] == ["31 00:00=0", "31 01:00=1"]
    assert starts[22:25] == ["31 22:00=22", "26 23:00=0", "27 00:00=1"]
    assert starts[-1] == "27 23:00=24"


def test_a_value_beyond_the_end_of_its_day_is_counted(write: Write) -> None:
    """A 25th value on a day of 24 hours is not silently moved to the next day."""
    path = write(*_wide(("2013-06-01", ["1"] * 25), slots=25))
    report = read_readings(path, timezone="Europe/London").report
    assert report.dropped == {"value beyond the end of its day": 1}


def test_comed_columns(write: Write) -> None:
    """ComEd: 50 half-hours named by their end, 2430 and 2500 filled when clocks go back."""
    labels = [f"{hour:02}{minute:02}" for hour in range(25) for minute in (30, 60)]
    labels = [f"{int(x[:2]) + 1:02}00" if x.endswith("60") else x for x in labels]
    slots = [f"INTERVAL_HR{label}_ENERGY_QTY" for label in labels]
    head = (
        "ZIP_CODE,DELIVERY_SERVICE_CLASS,ACCOUNT_IDENTIFIER,INTERVAL_READING_DATE,INTERVAL_LENGTH"
    )
    usual = ["1"] * 48 + ["", ""]
    path = write(
        f"{head},{','.join(slots)}",
        "60601,C23,x,10/31/2015,1800," + ",".join(usual),
        "60601,C23,x,11/01/2015,1800," + ",".join(["2"] * 50),
    )
    readings = read_readings(path, timezone="America/Chicago")
    starts = _starts(readings)
    assert len(starts) == 98
    assert starts[0] == "31 05:00=1"
    assert starts[48] == "01 05:00=2"
    assert starts[-1] == "02 05:30=2"
    assert readings.report.dropped == {"empty slot beyond the end of its day": 2}
