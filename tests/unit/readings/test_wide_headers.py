"""Headers of wide tables: what is a slot, what is an attribute, and what is refused as neither."""

from collections.abc import Callable
from pathlib import Path

import pytest

from wattveil.errors import InvalidFileError
from wattveil.readings import read_readings

Write = Callable[..., Path]

_COMED_ENDS = [f"{minute // 60:02}{minute % 60:02}" for minute in range(30, 25 * 60 + 1, 30)]
_COMED = [f"INTERVAL_HR{end}_ENERGY_QTY" for end in _COMED_ENDS]
_HOURS = [f"h{hour:02}" for hour in range(24)]


def _table(write: Write, before: list[str], slots: list[str], after: list[str]) -> Path:
    """Write one customer and day; every slot has a value, and so have the other columns."""
    names = [*before, "customer", "date", *slots, *after]
    row = [*("7" for _ in before), "a", "2015-11-01", *("1" for _ in slots), *("7" for _ in after)]
    return write(",".join(names), ",".join(row))


@pytest.mark.parametrize(
    "broken",
    [
        ["INTERVAL_HR2430_ENERGTERVAL_HR2500_ENERGY_QTY"],
        ["INTERVAL_HR24_30_ENERGY_QTY", "INTERVAL_HR25_00_ENERGY_QTY"],
        ["INTERVAL_HR_ENERGY_QTY", "INTERVAL_HR2500_QTY"],
        ["INTERVAL_HR02430_ENERGY_QTY", "ERVAL_HR2500_ENERGY_QTY"],
        ["2430", "2500"],
        ["x", "y"],
    ],
)
def test_broken_names_of_the_extra_slots_are_refused(write: Write, broken: list[str]) -> None:
    """48 ComEd columns and something like two more are not a table of 48."""
    with pytest.raises(InvalidFileError, match="header: expected slots such as"):
        read_readings(_table(write, [], _COMED[:48], broken))


@pytest.mark.parametrize("other", ["h24", "h1", "h_24x", "H.05", "24"])
def test_a_name_that_nearly_fits_is_refused(write: Write, other: str) -> None:
    """A 25th column makes a long day or an error, wherever it stands; it is never passed over."""
    path = _table(write, [], _HOURS, [other])
    if other == "h24":
        assert read_readings(path).report.rows_in == 25
    else:
        with pytest.raises(InvalidFileError, match="header: expected"):
            read_readings(path)


def test_a_column_among_the_slots_is_refused(write: Write) -> None:
    """Whatever its name."""
    with pytest.raises(InvalidFileError, match="not 'zip'"):
        read_readings(_table(write, [], [*_HOURS[:12], "zip", *_HOURS[12:]], []))


def test_a_second_family_of_slots_is_refused(write: Write) -> None:
    """Received energy beside delivered: neither half of a table is passed over."""
    received = [f"received_{hour:02}" for hour in range(24)]
    with pytest.raises(InvalidFileError, match="not 'received_00'"):
        read_readings(_table(write, [], _HOURS, received))


def test_a_channel_in_a_wide_table_is_refused(write: Write) -> None:
    """Rows of delivered and of received energy are not two values of one interval."""
    with pytest.raises(InvalidFileError, match="wide tables of one flow"):
        read_readings(_table(write, ["flow_direction"], _HOURS, []))


def test_attributes_are_passed_over_and_named(write: Write) -> None:
    """ComEd's own attributes, and those that a utility may add."""
    before = ["ZIP_CODE", "DELIVERY_SERVICE_CLASS", "INTERVAL_LENGTH", "TOTAL_REGISTERED_ENERGY"]
    after = ["PLC_VALUE", "NSPL_VALUE", "address_1", "address_2", "feeder12", "household_type"]
    for slots in (_COMED, _HOURS):
        readings = read_readings(_table(write, before, slots, after))
        assert readings.report.rows_in == len(slots)
        unread = ", ".join(repr(name) for name in [*before, *after])
        assert f"not read: {unread}" in readings.assumptions


def test_unread_columns_of_a_long_table_are_named(write: Write) -> None:
    """So that a misspelt column is noticed."""
    path = write("id,timestamp,kwh,chanel", "a,2013-01-01 00:00,1,received")
    assert "not read: 'chanel'" in read_readings(path, minutes=60).assumptions
