"""Years of the customers of a group: their mix of clusters follows released shares."""

import datetime as dt
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.sample_bundles import only, without_plan_simulation
from wattveil import Profiles
from wattveil.bundle.bundle_files import read_table
from wattveil.bundle.customer_files import METADATA, write_customers
from wattveil.bundle.group_years import group_mix, group_note, profiles_of, year_mix
from wattveil.bundle.plan import plan_release
from wattveil.bundle.produce import release_bundle
from wattveil.bundle.year_samples import YearSample
from wattveil.cli import app
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.numerics.synthesis.day_deviations import YearCalendar
from wattveil.products.request import ReleaseRequest
from wattveil.products.years import read_year_model
from wattveil.profiles import Split, TimeGrid

FIRST, DAYS, CUSTOMERS = dt.date(2025, 3, 3), 14, 240
LEVELS = ("flat", "house")


@pytest.fixture(scope="module", params=[False, True])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle with small flats and large houses that differ in shape too."""
    generator = np.random.default_rng(1)
    hours = np.tile(np.arange(24), DAYS)
    day, evening = 0.5 + (abs(hours - 12) < 4), 0.5 + (abs(hours - 19) < 3)
    is_house = np.arange(CUSTOMERS) % 3 == 0
    curve = np.where(is_house[:, None], 1.2 * evening, 0.3 * day)
    own = np.exp(0.2 * generator.normal(size=(CUSTOMERS, 1)))
    days_kw = curve * own * np.exp(0.2 * generator.normal(size=(CUSTOMERS, DAYS * 24)))
    profiles = Profiles(
        customer_ids=tuple(f"home {number}" for number in range(CUSTOMERS)),
        load_kw=days_kw.reshape(CUSTOMERS, DAYS, 24).mean(axis=1),
        grid=TimeGrid(first_day=FIRST, n_days=DAYS),
        timezone="UTC",
        attributes={"kind": tuple(LEVELS[int(one)] for one in is_house)},
        days_kw=days_kw,
    )
    asked = ReleaseRequest(
        epsilon=200.0,
        delta=1e-6,
        n_clusters=2,
        customers=200,
        clip_kw=5.0,
        by="kind",
        levels=LEVELS,
        normalise=request.param,
        weights={**only("clusters", "shares"), "years": 6.0},
        options={"years": {"split": Split.WEEKDAY_WEEKEND}},
    )
    out = tmp_path_factory.mktemp("groups") / "bundle"
    with without_plan_simulation():
        release_bundle(profiles, plan_release(asked, profiles.grid), out)
    return out


def test_years_of_a_group_are_those_of_its_clusters(bundle: Path, tmp_path: Path) -> None:
    """Houses are four times as large as flats, in the evening; so are their years."""
    energy, evening = {}, {}
    for group in LEVELS:
        out = tmp_path / f"{group}.parquet"
        write_customers(bundle, out, customers=200, seed=1, years=YearSample(), group=group)
        load_kw = pq.read_table(out)["kwh"].to_numpy().reshape(200, DAYS, 24)
        energy[group] = load_kw.mean()
        evening[group] = load_kw[:, :, 17:22].mean() / load_kw.mean()
    assert energy["house"] / energy["flat"] == pytest.approx(4.0 * 0.71 / 0.79, rel=0.25)
    assert evening["house"] > 1.4 * evening["flat"]
    with pytest.raises(InvalidParameterError, match="group must be one of: flat, house"):
        write_customers(
            bundle, tmp_path / "n.csv", customers=1, seed=1, years=YearSample(), group="none"
        )


def test_the_mix_of_all_groups_is_that_of_the_model(bundle: Path) -> None:
    """Groups weighted by their customers have the mix of all; a mixed-up group has not."""
    model = read_year_model(bundle)
    mixes = {group: year_mix(bundle, group_mix(bundle, group), model) for group in LEVELS}
    both = np.array(mixes["flat"]) * 2.0 / 3.0 + np.array(mixes["house"]) / 3.0
    of_all = model.typical.customers / model.typical.customers.sum()
    assert both == pytest.approx(of_all, abs=0.06)
    assert np.abs(np.array(mixes["house"]) - of_all).max() > 0.4


def test_what_a_group_gives_to_a_sample_is_stated(bundle: Path, whole: Path) -> None:
    """Its released number of customers, if there is one, and what is of all customers."""
    assert "was not released" in group_note(bundle, "flat", years=True)
    row = read_table(whole, "groups").to_pylist()[0]
    note = group_note(whole, row["group"], years=False)
    assert f"{row['customers']:,.0f} customers in the release" in note
    assert "mix of segments only" in note


def test_weather_without_effect_is_flagged(bundle: Path, tmp_path: Path) -> None:
    """At 18 degrees nobody heats or cools: the response is 0, and a column is not used."""
    weather, out = tmp_path / "weather.csv", tmp_path / "years.csv"
    days = [FIRST + dt.timedelta(days=day) for day in range(DAYS)]
    rows = [f"{day},18,K" for day in days]
    weather.write_text("\n".join(["day,temperature_c,station", *rows]))
    command = ["synthesize", str(bundle), "--customers", "2", "--years", "--out", str(out)]
    told = CliRunner().invoke(app, [*command, "--temperatures", str(weather), "--group", "flat"])
    assert told.exit_code == 0, told.output
    said = " ".join(told.output.split())
    for words in ("contains 0", "columns not used: station", "Group flat: its number"):
        assert words in said
    asked = [*command, "--temperatures", str(weather), "--force", "--json"]
    record = json.loads(CliRunner().invoke(app, asked).stdout)
    assert "contains 0" in record["warning"]
    assert "0 are colder and 0 warmer than any day of the data" in said
    assert "Warning: of the" not in said
    assert record["extrapolation"]["days_colder_than_data"] == 0


def test_extrapolated_weather_is_stated(bundle: Path, tmp_path: Path) -> None:
    """On the command line, in JSON and in the origin of the file."""
    weather, out = tmp_path / "weather.csv", tmp_path / "cold.parquet"
    days = [f"{FIRST + dt.timedelta(days=n)},{8 + n % 5 - 15 * (n > 24)}" for n in range(28)]
    weather.write_text("\n".join(["day,temperature_c", *days]))
    command = ["synthesize", str(bundle), "--customers", "2", "--years", "--out", str(out)]
    command += ["--first-day", "2025-03-17", "--days", "14", "--temperatures", str(weather)]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0, told.output
    said = " ".join(told.output.split())
    assert "Warning: of the 14 days of the sample, 3 are colder and 0 warmer than any day" in said
    record = json.loads(CliRunner().invoke(app, [*command, "--force", "--json"]).stdout)
    stored = json.loads(pq.read_schema(out).metadata[METADATA.encode()])["extrapolation"]
    assert stored == record["extrapolation"]
    assert stored["days_colder_than_data"] == 3
    assert stored["data_range_c"] == [8.0, 12.0]


def test_a_release_without_shares_is_refused(bundle: Path, tmp_path: Path) -> None:
    """The error names the table that is missing."""
    for name in ("manifest.json", "year_model.json"):
        (tmp_path / name).write_bytes((bundle / name).read_bytes())
    with pytest.raises(InvalidFileError, match="cluster_shares"):
        write_customers(
            tmp_path, tmp_path / "n.csv", customers=1, seed=1, years=YearSample(), group="flat"
        )


@pytest.mark.parametrize("split", [Split.DAY, Split.WEEK, Split.SEASON])
def test_profiles_of_typical_days_by_hand(split: Split) -> None:
    """A profile is the mean over the days of its column of the typical day of each."""
    calendar = YearCalendar(
        first_day=FIRST, n_days=200, n_slots=4, split=Split.SEASON_WEEKDAY_WEEKEND
    )
    typical_kw = np.random.default_rng(2).random((3, calendar.n_parts * 4))
    grid = TimeGrid(minutes=60, split=split)
    by_hours = np.repeat(typical_kw.reshape(3, -1, 4), 6, axis=2)  # the same load of six hours
    hourly = YearCalendar(
        first_day=FIRST, n_days=200, n_slots=24, split=Split.SEASON_WEEKDAY_WEEKEND
    )
    found = profiles_of(by_hours.reshape(3, -1), hourly, grid).reshape(3, -1, 24)
    for column in range(found.shape[1]):
        own = [
            by_hours[:, calendar.parts[day]]
            for day in range(200)
            for date in [FIRST + dt.timedelta(days=day)]
            if {Split.DAY: 0, Split.WEEK: date.weekday(), Split.SEASON: date.month % 12 // 3}[split]
            == column
        ]
        if own:
            assert found[:, column] == pytest.approx(np.mean(own, axis=0))
    closed = profiles_of(by_hours.reshape(3, -1), hourly, TimeGrid(closing_midnight=True))
    assert np.array_equal(closed[:, -1], closed[:, 0])
