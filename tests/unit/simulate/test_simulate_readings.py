"""Simulated readings: schema, reproducibility, clock changes, gaps, mix, bad input."""

import itertools
import math
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from wattveil.errors import InvalidParameterError
from wattveil.simulate import (
    DEFAULT_MIX,
    READINGS_SCHEMA,
    simulate_attributes,
    simulate_kwh,
    simulate_load_kw,
    simulate_readings,
)
from wattveil.simulate.simulated_readings import draw_gaps

LONDON = "Europe/London"
USUAL: dict[str, Any] = {
    "customers": 70,
    "days": 2,
    "start": date(2025, 3, 3),
    "timezone": LONDON,
    "minutes": 60,
    "seed": 5,
}


def readings(**changes: object) -> pa.Table:
    """Simulate a small population, with some arguments changed."""
    return pa.Table.from_batches(simulate_readings(**(USUAL | changes)))


def test_schema() -> None:
    """Every batch has the long schema of readings, with nothing null."""
    table = readings()
    assert table.schema == READINGS_SCHEMA
    assert not sum(column.null_count for column in table.columns)
    assert set(table["channel"].to_pylist()) == {"delivered", "net"}


def test_seed_reproduces() -> None:
    """A seed gives the same readings again; another seed gives others."""
    assert readings().equals(readings())
    assert not readings().equals(readings(seed=6))


@pytest.mark.parametrize("batch_customers", [1, 7, 64, 65, 1000])
def test_batch_size_changes_nothing(batch_customers: int) -> None:
    """Readings do not depend on the size of a batch, and no batch is larger than requested."""
    batches = list(simulate_readings(**USUAL, batch_customers=batch_customers))
    assert pa.Table.from_batches(batches).equals(readings())
    sizes = [len(batch["customer_id"].unique()) for batch in batches]
    assert max(sizes) <= batch_customers
    assert sum(sizes) == 70


def test_more_customers_keep_the_first() -> None:
    """The first customers are the same however many follow them, with their attributes."""
    few, many = readings(customers=3), readings(customers=130)
    assert many.slice(0, few.num_rows).equals(few)
    attributes = simulate_attributes(customers=130, seed=5)
    assert attributes.slice(0, 3).equals(simulate_attributes(customers=3, seed=5))


def test_matrix_and_table_agree() -> None:
    """`simulate_kwh` returns the energies of the table, where nothing is missing or estimated."""
    table = readings(missing=0.0, estimated=0.0)
    assert np.array_equal(table["kwh"].to_numpy().reshape(70, 48), simulate_kwh(**USUAL))


@pytest.mark.parametrize(
    ("start", "hours"),
    [(date(2025, 3, 30), 23), (date(2025, 10, 26), 25), (date(2025, 7, 1), 24)],
)
@pytest.mark.parametrize("minutes", [15, 30, 60])
def test_clock_changes(start: date, hours: int, minutes: int) -> None:
    """A local day has 23, 24 or 25 hours of readings; UTC stamps are regular throughout."""
    table = readings(
        customers=1, days=3, start=start - timedelta(days=1), minutes=minutes, missing=0
    )
    stamps = table["start_utc"].to_pylist()
    assert {later - earlier for earlier, later in itertools.pairwise(stamps)} == {
        timedelta(minutes=minutes)
    }
    local_days = Counter(stamp.astimezone(ZoneInfo(LONDON)).date() for stamp in stamps)
    assert local_days[start] == hours * 60 // minutes
    assert stamps[0] == datetime.combine(
        start - timedelta(days=1), datetime.min.time(), ZoneInfo(LONDON)
    ).astimezone(UTC)
    assert len(local_days) == 3


def test_people_keep_local_time() -> None:
    """The morning peak keeps its local hour from winter time to summer time: it moves in UTC."""
    mix = {"couple": 0.5, "family": 0.5}
    profile = {}
    for month in (3, 4):
        kwh = simulate_kwh(**(USUAL | {"start": date(2025, month, 7), "days": 14}), mix=mix)
        profile[month] = kwh.reshape(70, 14, 24).mean(axis=(0, 1))
    morning = {month: profile[month][4:9].argmax() for month in profile}
    assert (
        morning[3] == morning[4]
    )  # columns are local hours: each stretch begins at a local midnight


@pytest.mark.parametrize("share", [0.001, 0.02, 0.5])
def test_gaps_cover_the_share(share: float) -> None:
    """Gaps cover the requested share of the hours, within five standard errors.

    A gap of geometric length with mean 5 has E[L^2] = 45, so the sd is sqrt(45/5 share / hours).
    """
    hours = 2000 * 24 * 28
    covered = draw_gaps((2000, 28 * 96), share, np.random.default_rng(1)).mean()
    assert covered == pytest.approx(share, abs=5.0 * math.sqrt(9.0 * share / hours))


def test_lost_reads_are_absent_in_whole_hours() -> None:
    """Lost reads are absent from the table, both halves of an hour together."""
    table = readings(customers=128, days=28, minutes=30, missing=0.2)
    assert 1.0 - table.num_rows / (128 * 28 * 48) == pytest.approx(0.2, abs=0.02)
    reads_an_hour = Counter(
        zip(
            table["customer_id"].to_pylist(),
            table["start_utc"].cast(pa.int64()).to_numpy() // 3_600_000_000,
            strict=True,
        )
    )
    assert set(reads_an_hour.values()) == {2}


def test_missing_reads_are_the_same_at_every_resolution() -> None:
    """The hours that are lost do not depend on the length of a reading."""
    hours = [
        set(
            zip(
                (table := readings(minutes=minutes, missing=0.1))["customer_id"].to_pylist(),
                table["start_utc"].cast(pa.int64()).to_numpy() // 3_600_000_000,
                strict=True,
            )
        )
        for minutes in (15, 30, 60)
    ]
    assert hours[0] == hours[1] == hours[2]


def test_estimates_are_flat_and_keep_the_energy() -> None:
    """An estimated stretch is level to 1 Wh, and a home's total energy stays what it was."""
    table = readings(customers=64, days=7, minutes=60, missing=0.0, estimated=0.2)
    truth = simulate_kwh(**(USUAL | {"customers": 64, "days": 7}))
    kwh = table["kwh"].to_numpy().reshape(64, -1)
    guessed = (table["quality"].to_numpy() == "estimated").reshape(64, -1)
    assert guessed.mean() == pytest.approx(0.2, abs=0.03)
    assert np.allclose(kwh.sum(axis=1), truth.sum(axis=1), atol=1e-9)
    both = guessed[:, 1:] & guessed[:, :-1]
    assert np.abs(np.diff(kwh, axis=1)[both]).max() < 0.0015


def test_mix_is_honoured() -> None:
    """Every class has its share of the customers, within one customer in a thousand."""
    classes = simulate_attributes(customers=5000, seed=3)["class"].to_pylist()
    shares = {name: count / 5000 for name, count in Counter(classes).items()}
    assert shares == pytest.approx(dict(DEFAULT_MIX), abs=1e-3)


def test_mix_of_one() -> None:
    """A mix may name a single class."""
    attributes = simulate_attributes(customers=10, mix={"pv": 1.0}, seed=1)
    assert attributes["class"].to_pylist() == ["pv"] * 10
    assert attributes["has_pv"].to_pylist() == [True] * 10


def test_attributes() -> None:
    """Panels and cars follow the class, each customer appears once, a feeder lies in one ZIP."""
    table = simulate_attributes(customers=2000, seed=1)
    assert table.column_names == ["customer_id", "class", "zip", "feeder", "has_pv", "has_ev"]
    assert len(table["customer_id"].unique()) == 2000
    rows = table.to_pylist()
    assert all(row["has_pv"] == (row["class"] == "pv") for row in rows)
    assert all(row["has_ev"] for row in rows if row["class"] == "ev")
    zips = {(row["feeder"], row["zip"]) for row in rows}
    assert len(zips) == len({feeder for feeder, _ in zips}) == 40


def test_net_channel_is_for_panels() -> None:
    """Customers with panels, and no others, are metered net."""
    table = readings(customers=200)
    net = {
        row["customer_id"]
        for row in table.group_by(["customer_id", "channel"]).aggregate([]).to_pylist()
        if row["channel"] == "net"
    }
    attributes = simulate_attributes(customers=200, seed=5).to_pylist()
    assert net == {row["customer_id"] for row in attributes if row["has_pv"]}


def test_average_weekday() -> None:
    """`simulate_load_kw` gives 24 hours per customer in kW, finite, the same for the same seed."""
    load_kw = simulate_load_kw(customers=100)
    assert load_kw.shape == (100, 24)
    assert np.isfinite(load_kw).all()
    assert np.array_equal(load_kw, simulate_load_kw(customers=100, seed=1))
    assert 0.1 < np.median(load_kw) < 1.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("customers", 0),
        ("customers", 2.5),
        ("days", 0),
        ("days", True),
        ("days", 10**9),
        ("start", datetime(2025, 1, 1, tzinfo=UTC)),
        ("start", "2025-01-01"),
        ("timezone", "Europe/Atlantis"),
        ("timezone", "../etc/passwd"),
        ("timezone", 3),
        ("minutes", 20),
        ("minutes", "60"),
        ("mix", {}),
        ("mix", {"castle": 1.0}),
        ("mix", {"single": 0.5}),
        ("mix", {"single": math.nan, "pv": 1.0}),
        ("mix", {"single": 1.5, "pv": -0.5}),
        ("seed", -1),
        ("missing", 1.0),
        ("missing", math.nan),
        ("estimated", -0.1),
        ("batch_customers", 0),
    ],
)
def test_bad_input(field: str, value: object) -> None:
    """Bad input is refused at once, before the first batch, with field, rule and value."""
    with pytest.raises(InvalidParameterError) as caught:
        simulate_readings(**(USUAL | {field: value}))
    assert caught.value.field.startswith(field)
    assert caught.value.rule


def test_half_hour_clock_change_needs_half_hours() -> None:
    """A zone whose clock changes by half an hour is rejected for hourly readings."""
    change = USUAL | {"start": date(2025, 4, 6), "days": 1, "timezone": "Australia/Lord_Howe"}
    with pytest.raises(InvalidParameterError) as caught:
        simulate_readings(**change)
    assert caught.value.field == "timezone"
    table = pa.Table.from_batches(simulate_readings(**(change | {"minutes": 30, "missing": 0.0})))
    assert table.num_rows == 70 * 49
