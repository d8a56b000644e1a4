"""Local time and UTC against `datetime`, instant by instant."""

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from wattveil.readings.timestamps import DAY_US, MINUTE_US, instants, midnights, offsets

_ZONES = ["Europe/London", "America/Chicago", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]
_UTC = dt.UTC
_FIRST_OF_2013 = 15_706 * DAY_US


def _local(utc_us: int, zone: str) -> dt.datetime:
    moment = dt.datetime.fromtimestamp(utc_us // 1_000_000, tz=_UTC)
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def _us(naive: dt.datetime) -> int:
    return round(naive.replace(tzinfo=_UTC).timestamp()) * 1_000_000


@pytest.mark.parametrize("zone", _ZONES)
def test_offsets_agree_with_datetime(zone: str) -> None:
    """The offset is right at every half-hour of a year."""
    utc_us = np.arange(_FIRST_OF_2013, _FIRST_OF_2013 + 365 * DAY_US, 30 * MINUTE_US)
    found = utc_us + offsets(zone, int(utc_us[0]), int(utc_us[-1])).at(utc_us)
    assert found.tolist() == [_us(_local(moment, zone)) for moment in utc_us.tolist()]


@pytest.mark.parametrize("zone", _ZONES)
def test_instants_invert_the_clock(zone: str) -> None:
    """Local times are found at the instants at which the clock shows them, in order."""
    utc_us = np.arange(_FIRST_OF_2013 - 2 * DAY_US, _FIRST_OF_2013 + 367 * DAY_US, 30 * MINUTE_US)
    shown: dict[int, list[int]] = {}
    for moment in utc_us.tolist():
        shown.setdefault(_us(_local(moment, zone)), []).append(moment)
    local_us = np.arange(_FIRST_OF_2013, _FIRST_OF_2013 + 365 * DAY_US, 30 * MINUTE_US)
    found = instants(zone, local_us)
    expected = [shown.get(moment, []) for moment in local_us.tolist()]
    assert found.times.tolist() == [len(moments) for moments in expected]
    once = found.times > 0
    assert found.first_us[once].tolist() == [moments[0] for moments in expected if moments]
    assert found.second_us[once].tolist() == [moments[-1] for moments in expected if moments]


def test_a_day_begins_after_the_jump_where_clocks_change_at_midnight() -> None:
    """Beirut's 31 March 2013 begins at 01:00 and has 23 hours."""
    day = (dt.date(2013, 3, 31) - dt.date(1970, 1, 1)).days
    begins = midnights("Asia/Beirut", np.array([day, day + 1]))
    assert _local(int(begins[0]), "Asia/Beirut") == dt.datetime(2013, 3, 31, 1, 0)  # noqa: DTZ001
    assert (begins[1] - begins[0]) // MINUTE_US == 23 * 60
