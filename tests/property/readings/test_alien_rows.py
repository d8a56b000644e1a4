"""Rows of one customer do not change the profiles of any other customer."""

import datetime as dt
import tempfile
from collections.abc import Sequence
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattveil.errors import InvalidParameterError
from wattveil.profiles import TimeGrid, build_profiles, hours_from_readings
from wattveil.profiles.build import ProfileBuild
from wattveil.readings import read_readings

_HEADER = ("customer_id", "start", "minutes", "kwh", "channel", "quality")
_COLUMNS = {
    "customer": "customer_id",
    "stamp": "start",
    "minutes": "minutes",
    "value": "kwh",
    "channel": "channel",
    "quality": "quality",
}
# A change of the clocks, in UTC: by an hour, by half an hour, none, and at a minute past midnight.
_CHANGES = [
    ("Europe/London", (2024, 3, 31, 1)),
    ("Europe/London", (2024, 10, 27, 1)),
    ("America/Chicago", (2024, 11, 3, 7)),
    ("Australia/Lord_Howe", (2024, 4, 6, 15)),
    ("Australia/Lord_Howe", (2024, 10, 5, 15)),
    ("Asia/Kolkata", (2024, 1, 2, 0)),
    ("America/St_Johns", (2010, 11, 7, 2)),
    ("America/St_Johns", (2010, 3, 14, 3)),
]
_LENGTHS = (5, 10, 15, 20, 30, 60)

Row = tuple[str, ...]

_aliens = st.lists(
    st.tuples(
        st.just("alien"),
        st.sampled_from(["{now}", "{now}", "not a time", "1970-01-01 00:00:00", "", "{odd}"]),
        st.sampled_from([*map(str, _LENGTHS), "7", "", "x"]),
        st.sampled_from(["1", "oops", "", "1e12", "-3"]),
        st.sampled_from(["delivered", "received", "net", "sideways"]),
        st.sampled_from(["actual", "estimated", "missing"]),
    ),
    min_size=1,
    max_size=4,
)


def _stamp(moment: dt.datetime, zone: str | None) -> str:
    local = moment if zone is None else moment.astimezone(ZoneInfo(zone))
    return f"{local:%Y-%m-%d %H:%M:%S}" + ("Z" if zone is None else "")


def _own(
    draw: st.DrawFn, change: dt.datetime, lengths: Sequence[int], zone: str | None
) -> list[Row]:
    """Two days of a few customers around a change, with holes, duplicates and odd values."""
    rows: list[Row] = []
    for place, minutes in enumerate(lengths):
        first = change - dt.timedelta(hours=24) + dt.timedelta(minutes=draw(_late))
        stamps = [first + dt.timedelta(minutes=minutes) * step for step in range(2880 // minutes)]
        holes = draw(st.sets(st.integers(0, 2880 // minutes), max_size=4))
        twice = draw(st.sets(st.integers(0, 2880 // minutes), max_size=2))
        quality = draw(st.sampled_from(["actual", "estimated"]))
        channel = draw(st.sampled_from(["delivered", "net"]))
        for step, stamp in enumerate(stamps):
            row = (f"c{place}", _stamp(stamp, zone), str(minutes), f"{step * 37 % 193 * 0.013:.3f}")
            kind = quality if step % 3 else "actual"
            rows += [(*row, channel, kind)] * ((step not in holes) + (step in twice))
    return rows


_late = st.sampled_from([0, 0, 15, 30])


@st.composite
def _cases(draw: st.DrawFn) -> tuple[list[Row], list[Row], str, bool]:
    zone, when = draw(st.sampled_from(_CHANGES))
    aware = draw(st.booleans())
    change = dt.datetime(*when, tzinfo=dt.UTC)
    lengths = draw(st.lists(st.sampled_from([15, 20, 30, 60]), min_size=1, max_size=2))
    lengths = draw(st.sampled_from([lengths, [lengths[0]] * 2]))
    stamps_in = None if aware else zone
    now, odd = change, change + dt.timedelta(minutes=7)
    named = {"now": _stamp(now, stamps_in), "odd": _stamp(odd, stamps_in)}
    aliens = [(name, stamp.format(**named), *rest) for name, stamp, *rest in draw(_aliens)]
    return _own(draw, change, lengths, stamps_in), aliens, zone, aware


def _build(
    rows: Sequence[Row], zone: str, *, aware: bool, conflicts: str, end: bool, minutes: int
) -> ProfileBuild | None:
    """Build profiles; None where no reading can fill a cell."""
    path = Path(tempfile.mkdtemp()) / "rows.csv"
    path.write_text("\n".join(",".join(row) for row in [_HEADER, *rows]) + "\n", encoding="utf-8")
    readings = read_readings(
        path,
        unit="kWh",
        layout="long",
        columns=_COLUMNS,
        stamp="end" if end else "start",
        timezone=None if aware else zone,
        conflicts=conflicts,
        estimated="flag",
    )
    grid = TimeGrid(minutes=minutes)
    try:
        return build_profiles(readings, timezone=zone, grid=grid, min_days=2, max_gap_hours=0.75)
    except InvalidParameterError:
        return None


@settings(max_examples=5, deadline=None)
@given(
    case=_cases(),
    conflicts=st.sampled_from(["drop", "mean"]),
    end=st.booleans(),
    minutes=st.sampled_from([30, 60]),
)
def test_rows_of_one_customer_change_nothing_of_others(
    case: tuple[list[Row], list[Row], str, bool], conflicts: str, *, end: bool, minutes: int
) -> None:
    """Averages, coverage and who stays: with and without rows of any length, readable or not."""
    rows, aliens, zone, aware = case
    options = {"aware": aware, "conflicts": conflicts, "end": end, "minutes": minutes}
    alone = _build(rows, zone, **options)  # type: ignore[arg-type]
    for extra in ([*rows, *aliens], [*aliens, *rows]):
        crowd = _build(extra, zone, **options)  # type: ignore[arg-type]
        if alone is None:
            assert crowd is None or not set(crowd.profiles.customer_ids) - {"alien"}
            continue
        assert crowd is not None
        _compare(alone, crowd)


def _compare(alone: ProfileBuild, crowd: ProfileBuild) -> None:
    names = alone.averages.customer_ids
    others = [
        place for place, name in enumerate(crowd.averages.customer_ids) if name.startswith("c")
    ]
    assert tuple(crowd.averages.customer_ids[place] for place in others) == names
    for field in ("load_kw", "days", "max_gap_hours", "estimated_share"):
        found = getattr(crowd.averages, field)[others]
        assert found.tobytes() == getattr(alone.averages, field).tobytes(), field
    assert np.array_equal(crowd.kept[others], alone.kept)


@pytest.mark.parametrize("alien", ["v,not a time,30,oops", "v,2024-01-01T00:00:00Z,5,1"])
def test_one_row_affects_no_other_customer(alien: str, tmp_path: Path) -> None:
    """Hours of UTC lie in two cells of India's hours, also where a neighbour has half hours."""
    first = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    rows = [
        f"c,{first + dt.timedelta(hours=hour):%Y-%m-%dT%H:%M:%SZ},60,1" for hour in range(24 * 15)
    ]
    path = tmp_path / "rows.csv"
    for lines in (rows, [*rows, alien]):
        path.write_text("\n".join(["id,start,minutes,kwh", *lines]) + "\n", encoding="utf-8")
        build = build_profiles(read_readings(path), timezone="Asia/Kolkata")
        assert build.profiles.customer_ids == ()
        assert build.account.straddling == len(rows)


def test_a_longer_reading_does_not_refuse_the_hours_of_others(tmp_path: Path) -> None:
    """Half hours are laid out, whatever the length of a neighbour's reading."""
    path = tmp_path / "rows.csv"
    rows = [f"c,2024-01-01 {hour:02}:{half},30,1" for hour in range(24) for half in ("00", "30")]
    found = []
    for lines in (rows, [*rows, "v,2024-01-01 00:00,60,1"]):
        path.write_text("\n".join(["id,start,minutes,kwh", *lines]) + "\n", encoding="utf-8")
        readings = read_readings(path)
        hours = hours_from_readings(
            readings, first_day=dt.date(2024, 1, 1), n_days=1, minutes=30, timezone="UTC"
        )
        found.append(hours.load_kw[0].tolist())
    assert found == [[2.0] * 48] * 2
