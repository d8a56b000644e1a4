"""Rules of the simulator that hold for any zone, date and resolution."""

import itertools
from datetime import UTC, date, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from wattveil.simulate import simulate_readings

ZONES = [
    "Africa/Casablanca",
    "America/Los_Angeles",
    "America/Sao_Paulo",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Australia/Adelaide",
    "Europe/Dublin",
    "Europe/London",
    "Pacific/Auckland",
    "UTC",
]


@settings(max_examples=25, deadline=None)
@given(
    zone=st.sampled_from(ZONES),
    start=st.dates(date(1975, 1, 1), date(2035, 1, 1)),
    days=st.integers(1, 4),
    seed=st.integers(0, 2**63),
)
def test_any_place_and_date(zone: str, start: date, days: int, seed: int) -> None:
    """Anywhere and at any time readings cover the local days, regularly, with the same energy."""
    energy = []
    for minutes in (15, 60):
        table = pa.Table.from_batches(
            simulate_readings(
                customers=2,
                days=days,
                start=start,
                timezone=zone,
                minutes=minutes,
                seed=seed,
                missing=0.0,
                estimated=0.0,
            )
        )
        stamps = table["start_utc"].to_pylist()
        stamps = stamps[: len(stamps) // 2]
        assert {b - a for a, b in itertools.pairwise(stamps)} == {timedelta(minutes=minutes)}
        local = [stamp.astimezone(ZoneInfo(zone)).date() for stamp in stamps]
        assert min(local) >= start
        assert max(local) < start + timedelta(days=days)
        assert all(
            stamp.tzinfo is not None and stamp.utcoffset() == UTC.utcoffset(None)
            for stamp in stamps
        )
        energy.append(table["kwh"].to_numpy().reshape(2, -1).sum(axis=1))
    assert np.allclose(energy[0], energy[1], rtol=0.0, atol=1e-9)
