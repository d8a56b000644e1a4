"""The product `years`: refused without days, released, verified, shown, and sampled from."""

import datetime as dt
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.sample_bundles import broken, only, without_plan_simulation
from wattveil import Profiles, YearSynthesizer, hours_from_readings, read_bundle, read_readings
from wattveil.bundle.bundle_files import read_table
from wattveil.bundle.customer_files import METADATA, write_customers
from wattveil.bundle.plan import granted_plan, plan_release, split_budget
from wattveil.bundle.produce import release_bundle, release_products
from wattveil.bundle.registered_profiles import describe, gather_profiles
from wattveil.bundle.year_samples import YearSample
from wattveil.cli import app
from wattveil.cli.data import write_readings
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.products.product import Choice, Contents
from wattveil.products.request import ReleaseRequest
from wattveil.products.tables import Table
from wattveil.products.years import (
    FIRST_SEED,
    YEAR_MODEL,
    YEARS_SAMPLED,
    Years,
    plan_years,
    read_year_model,
    without_very_large,
)
from wattveil.profiles import Split, TimeGrid
from wattveil.simulate import LONDON_MIX, simulate_kwh

FIRST, DAYS, CUSTOMERS = dt.date(2025, 3, 5), 28, 80  # a Wednesday
GRID = TimeGrid(first_day=FIRST, n_days=DAYS)
REQUEST = ReleaseRequest(
    epsilon=5.0,
    n_clusters=2,
    customers=100,
    clip_kw=5.0,
    weights={**only("load"), "years": 6.0},
    options={"years": {"split": Split.WEEKDAY_WEEKEND}},
)
CHECK = "the synthetic years come from the model"


@pytest.fixture(scope="module")
def profiles() -> Profiles:
    """Return profiles that keep four weeks, with a missing hour."""
    days_kw = np.array(
        simulate_kwh(
            customers=CUSTOMERS,
            days=DAYS,
            start=FIRST,
            timezone="UTC",
            minutes=60,
            mix=LONDON_MIX,
            seed=3,
        )
    )
    load_kw = days_kw.reshape(CUSTOMERS, DAYS, 24).mean(axis=1)
    days_kw[0, 5] = np.nan
    return Profiles(
        customer_ids=tuple(f"home {number}" for number in range(CUSTOMERS)),
        load_kw=load_kw,
        grid=GRID,
        timezone="UTC",
        days_kw=days_kw,
    )


@pytest.fixture(scope="module")
def bundle(profiles: Profiles, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle with years."""
    out = tmp_path_factory.mktemp("years") / "bundle"
    with without_plan_simulation():
        release_bundle(profiles, plan_release(REQUEST, GRID), out)
    return out


def test_a_bundle_with_years_verifies(bundle: Path) -> None:
    """Every check passes, that of the model among them; the price is that of the plan."""
    assert not broken(bundle)
    report = read_bundle(bundle).verify()
    assert CHECK in {one.check for one in report.findings}
    record = read_bundle(bundle).manifest["products"][-1]
    assert record["name"] == "years"
    spent = sum(int(one["rho_units"]) for one in record["runs"][0]["mechanisms"])
    assert 0 < spent <= int(record["grant"]["rho_units"])
    assert record["documents"] == [YEAR_MODEL]


def test_tables_are_those_of_a_sample(bundle: Path) -> None:
    """Drawn at once, instead of in batches; levels are those of the model."""
    model = read_bundle(bundle).year_model
    load_kw, _ = model.sample(YEARS_SAMPLED, random_state=FIRST_SEED)
    mean_kw = load_kw.mean(axis=0)
    days, load = read_table(bundle, "year_days"), read_table(bundle, "year_load")
    assert np.allclose(load["load_kw"], mean_kw)
    assert np.array_equal(days["level"], model.levels)
    by_day = mean_kw.reshape(DAYS, 24)
    assert np.allclose(days["energy_kwh"], by_day.sum(axis=1))
    assert np.allclose(days["peak_kw"], by_day.max(axis=1))
    assert days["day"].to_pylist()[0] == "2025-03-05"
    weeks = read_table(bundle, "year_weeks").to_pydict()
    customer, day, hour = weeks["customer"][200], weeks["day"][200], int(weeks["time"][200][:2])
    place = (dt.date.fromisoformat(day) - FIRST).days * 24 + hour
    assert weeks["load_kw"][200] == pytest.approx(load_kw[customer, place])
    starts = sorted({dt.date.fromisoformat(one) for one in weeks["day"]})
    assert len(starts) == 14
    assert starts[0] == dt.date(2025, 3, 10)
    assert [one.weekday() for one in starts[::7]] == [0, 0]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("levels",), [0.0] * DAYS),
        (("levels",), [0.0]),
        (("days", "slow"), [2.0] * 24),
        (("days", "margins"), [[0.0]]),
        (("calendar", "first_day"), "2025-03-12"),
        (("sizes",), [[-1.0, 1.0], [1.0, 1.0]]),
        (("typical", "n_days"), 1),
        (("more",), 1),
        ((), []),
    ],
)
def test_another_model_is_found(
    bundle: Path, tmp_path: Path, place: tuple[str, ...], value: object
) -> None:
    """A changed, an invalid and a larger model; shapes that compiled code would read beyond."""
    copy = tmp_path / "bundle"
    shutil.copytree(bundle, copy)
    model = json.loads((copy / YEAR_MODEL).read_text())
    inner = model
    for name in place[:-1]:
        inner = inner[name]
    if place:
        inner[place[-1]] = value
    (copy / YEAR_MODEL).write_text(json.dumps(model if place else value))
    choice = Choice(request=REQUEST, grid=GRID)
    tables = {
        one.name: Table(
            name=one.name, text=one.text, columns=one.columns, data=read_table(bundle, one.name)
        )
        for one in Years().layouts(choice)
    }
    contents = Contents(record={}, tables=tables, choice=choice, folder=copy)
    (finding,) = Years().recompute(contents)
    assert finding.check == CHECK
    assert not finding.holds


def test_the_model_of_other_days_is_found(bundle: Path, tmp_path: Path) -> None:
    """Also in a whole verification, beside the hash of the file."""
    copy = tmp_path / "bundle"
    shutil.copytree(bundle, copy)
    (copy / YEAR_MODEL).unlink()
    found = broken(copy)
    assert "InvalidFileError" in found[CHECK]
    assert "every file is the one that was published" in found


def test_profiles_without_days_are_refused_before_anything_is_spent(profiles: Profiles) -> None:
    """By the plan, and by a release whose split was made before: nothing is queried."""
    plain = replace(profiles, grid=GRID.without_days, days_kw=None)
    with pytest.raises(InvalidParameterError, match="every day kept"):
        plan_release(REQUEST, plain.grid)
    plan = granted_plan(REQUEST, split_budget(REQUEST))
    started: list[str] = []
    with pytest.raises(InvalidParameterError, match="every day kept"):
        release_products(plain, plan, started=started.append)
    assert not started


def test_every_part_of_the_year_must_occur() -> None:
    """Four weeks of spring have no winter."""
    with pytest.raises(InvalidParameterError, match="years_split must be one whose parts all"):
        plan_release(REQUEST.replace(options={}), GRID)


def test_days_are_checked(profiles: Profiles) -> None:
    """One row of days per customer, in slots that the model supports."""
    for changed in (
        {"days_kw": None},
        {"days_kw": np.zeros((CUSTOMERS, 24))},
        {"grid": GRID.without_days},
    ):
        with pytest.raises(InvalidParameterError, match="days_kw"):
            replace(profiles, **changed)
    for wrong, field in (
        ({"n_days": 28}, "first_day"),
        ({"first_day": FIRST}, "first_day"),
        ({"first_day": FIRST, "n_days": 13}, "n_days"),
        ({"first_day": FIRST, "n_days": 28, "minutes": 5}, "minutes"),
    ):
        with pytest.raises(InvalidParameterError, match=field):
            TimeGrid.parse(wrong)
    assert "n_days" not in TimeGrid().to_json()
    assert TimeGrid.from_json(GRID.to_json()) == GRID


def test_days_survive_files_and_change_the_fingerprint(profiles: Profiles, tmp_path: Path) -> None:
    """Parts of one set of profiles are gathered with their days."""
    assert profiles.days_kw is not None
    for number, rows in enumerate((range(30), range(30, CUSTOMERS))):
        profiles.selected([*rows]).write_parquet(tmp_path / f"{number}.parquet")
    again = gather_profiles([tmp_path / "0.parquet", tmp_path / "1.parquet"])
    assert again.days_kw is not None
    assert np.array_equal(again.days_kw, profiles.days_kw, equal_nan=True)
    again.write_parquet(tmp_path / "whole.parquet")
    changed = np.array(profiles.days_kw)
    changed[3, 3] += 0.001
    replace(profiles, days_kw=changed).write_parquet(tmp_path / "changed.parquet")
    prints = [
        describe(tmp_path / f"{name}.parquet", key=b"k", request=REQUEST).fingerprint
        for name in ("whole", "changed", "whole")
    ]
    assert prints[0] == prints[2] != prints[1]


def test_the_report_shows_weeks_and_levels(bundle: Path, profiles: Profiles) -> None:
    """Two weeks, the year and the levels, with numbers in words; one week of a fortnight."""
    page = (bundle / "report.html").read_text(encoding="utf-8")
    assert "2025-03-05 to 2025-04-01" in page  # days of the data
    assert "did not state their dates" not in page
    for text in ("Synthetic years", "Week from 2025-03-10", "Common level of days"):
        assert text in page
    load = max(read_table(bundle, "year_load").to_pylist(), key=lambda row: row["load_kw"])
    assert "coincident peak is" in page
    assert f"on {load['day']} at {load['time']}." in page
    grid = TimeGrid(first_day=FIRST, n_days=14)
    assert profiles.days_kw is not None
    fortnight = replace(profiles, grid=grid, days_kw=np.array(profiles.days_kw[:, : 14 * 24]))
    plan = granted_plan(REQUEST, split_budget(REQUEST))
    years = release_products(fortnight, plan)[-1]
    tables = {table.name: table for table in years.tables}
    figures = [*Years().figures(tables, Choice(request=REQUEST, grid=grid))]
    assert [one.title for one in figures[:2]] == [
        "Week from 2025-03-10",
        "Every day of all synthetic customers",
    ]
    assert figures[1].figure.layout.xaxis.ticktext[:2] == ("5 Mar", "6 Mar")  # no months
    assert not [*Years().figures({}, Choice(request=REQUEST, grid=grid))]
    assert not Years().headline({}, Choice(request=REQUEST, grid=grid)).sentence


def test_what_was_achieved_is_not_known(bundle: Path) -> None:
    """Beside each planned difference with its range, the report says why there is none."""
    page = (bundle / "report.html").read_text(encoding="utf-8")
    for name, planned in (
        ("coincident peak", "-10 % (-20 to +10)"),
        ("energy over the released days", "0 % (-10"),
    ):
        row = page.partition(f"synthetic minus real {name}")[2].partition("</tr>")[0]
        assert planned in row
        assert "not known without the data" in row


def test_the_plan_is_simulated() -> None:
    """With next to no noise energy and peak are nearly right; with much noise they are not."""

    def error(epsilon: float) -> float:
        model = YearSynthesizer(
            first_day=FIRST, n_clusters=2, epsilon=epsilon, split=Split.WEEKDAY_WEEKEND
        )
        plan = plan_years(model, n_customers=60, n_days=DAYS, typical_kw=0.5)
        ends = (*plan.energy_bias[1:], *plan.peak_bias[1:])
        return max(map(abs, ends))

    # Largest difference of four releases: 0.15 to 0.16 in four plans with next to no noise, above
    # 0.5 in six plans with much.
    assert error(1e4) < 0.3 < error(0.01)


def test_very_large_customers_are_left_out_unless_all_are() -> None:
    """A plan at next to no budget has customers to state an error of."""
    rows = np.array([[1.0, 1.0], [-2.0, 2.0], [9.0, 9.0]])
    assert without_very_large(rows, 2.0).tolist() == rows[:2].tolist()
    assert without_very_large(rows, 0.5).tolist() == rows.tolist()


def test_years_in_every_format(bundle: Path, tmp_path: Path) -> None:
    """Readings, OpenDSS and plain series hold the same loads, from the first day on."""
    days = YearSample(dt.date(2026, 1, 5), 7)
    model = read_year_model(bundle)
    load_kw, clusters = model.sample(3, random_state=7, first_day=days.first_day, n_days=7)
    for name in ("y.parquet", "y.csv", "y.dss", "y.xml"):
        write_customers(bundle, tmp_path / name, customers=3, seed=7, years=days)
    table = pq.read_table(tmp_path / "y.parquet")
    stated = json.loads(table.schema.metadata[METADATA.encode()])
    assert stated["seed"] == 7
    expected = {"years": True, "first_day": "2026-01-05", "days": 7, "timezone": "UTC"}
    assert expected.items() <= stated.items()
    assert np.array_equal(table["kwh"].to_numpy().reshape(3, -1), load_kw)
    assert table["start_utc"][0].as_py() == dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
    assert table["cluster"].to_pylist()[::168] == [str(one) for one in clusters]
    assert np.allclose(pc.read_csv(tmp_path / "y.csv")["kwh"], table["kwh"])
    assert " npts=168 " in (tmp_path / "y.dss").read_text().splitlines()[1]
    for name in ("y.parquet", "y.xml"):
        readings = read_readings([str(tmp_path / name)], timezone="UTC")
        again = hours_from_readings(readings, first_day=dt.date(2026, 1, 5), n_days=7)
        assert np.abs(again.load_kw - load_kw).max() < 0.51e-3  # whole Wh in Green Button
    write_customers(bundle, tmp_path / "s", customers=3, seed=7, kind="series", years=YearSample())
    assert pc.read_csv(tmp_path / "s" / "series.csv").num_rows == DAYS * 24
    with pytest.raises(InvalidParameterError, match="days must be"):
        write_customers(
            bundle, tmp_path / "z.csv", customers=3, seed=7, years=YearSample(None, 4000)
        )


def test_the_commands(tmp_path: Path) -> None:
    """From readings to years: `profiles`, `release`, `synthesize`; options that do not fit."""
    readings, kept = tmp_path / "readings.parquet", tmp_path / "profiles.parquet"
    write_readings(
        readings,
        customers=20,
        days=15,
        start=FIRST,
        timezone="Europe/London",
        minutes=30,
        seed=1,
        missing=0.001,
        quiet=True,
    )
    days = ["--first-day", "2025-03-05", "--days", "15"]
    zone = ["--timezone", "Europe/London", "--min-days", "10"]
    told = CliRunner().invoke(app, ["profiles", str(readings), *zone, *days, "--out", str(kept)])
    assert told.exit_code == 0, told.output
    found = Profiles.read_parquet(kept)
    hours = hours_from_readings(
        read_readings([str(readings)], timezone="Europe/London"), first_day=FIRST, n_days=15
    )
    rows = [hours.customer_ids.index(name) for name in found.customer_ids]
    assert found.days_kw is not None
    assert np.array_equal(found.days_kw, hours.load_kw[rows], equal_nan=True)
    out = tmp_path / "bundle"
    weights = {**only("load"), "years": 6.0}
    shares = [word for one in weights.items() for word in ("--share", "{}={}".format(*one))]
    command = ["release", str(kept), "--epsilon", "5", "--clusters", "2", *shares]
    command += ["--years-split", "weekday-weekend", "--yes", "--out", str(out)]
    with without_plan_simulation():
        released = CliRunner().invoke(app, command)
    assert released.exit_code == 0, released.output
    sample = ["synthesize", str(out), "--customers", "4", "--out", str(tmp_path / "y.csv")]
    refused = CliRunner().invoke(app, [*sample, "--days", "5"])
    assert refused.exit_code != 0
    assert "--years" in refused.output
    refused = CliRunner().invoke(app, sample)
    text = "This bundle has synthetic years but no model of average days. Add --years."
    assert text in " ".join(refused.output.split())
    drawn = CliRunner().invoke(app, [*sample, "--years", "--days", "5"])
    assert drawn.exit_code == 0, drawn.output
    assert pc.read_csv(tmp_path / "y.csv").num_rows == 4 * 5 * 24
    weather = tmp_path / "weather.csv"
    days_of = [FIRST + dt.timedelta(days=day) for day in range(15)]
    lines = "".join(f"{day},{8 + day.day % 5}\n" for day in days_of)
    weather.write_text(f"day,temperature_c\n{lines}")
    sample += ["--force", "--temperatures", str(weather)]
    refused = CliRunner().invoke(app, sample)
    assert refused.exit_code != 0
    assert "years must be given with" in " ".join(refused.output.split())
    told = CliRunner().invoke(app, [*sample, "--years"])
    assert told.exit_code == 0, told.output
    assert "Response to temperature, 95 %:" in told.output
    told = CliRunner().invoke(app, [*sample, "--years", "--json"])
    assert json.loads(told.stdout)["temperature_response"]["heating_base_c"] == 15.5


def test_a_sample_with_other_weather(bundle: Path, tmp_path: Path) -> None:
    """Files hold what the model draws with the temperatures, and state the response."""
    days = [FIRST + dt.timedelta(days=day) for day in range(DAYS + 7)]
    series = {day: 4.0 + day.toordinal() % 6 for day in days}
    week = YearSample(FIRST + dt.timedelta(days=DAYS), 7, series, "weather.csv")
    write_customers(bundle, tmp_path / "y.parquet", customers=3, seed=7, years=week)
    model = read_year_model(bundle)
    load_kw = model.sample(
        3, random_state=7, first_day=week.first_day, n_days=7, temperatures_c=series
    )[0]
    table = pq.read_table(tmp_path / "y.parquet")
    assert np.array_equal(table["kwh"].to_numpy().reshape(3, -1), load_kw)
    stated = json.loads(table.schema.metadata[METADATA.encode()])
    assert stated["temperature_response"] == model.temperature_response(series).statement
    assert stated["temperature_file"] == "weather.csv"
    other = model.sample(3, random_state=7, first_day=week.first_day, n_days=7)[0]
    assert not np.array_equal(other, load_kw)


def test_a_bundle_without_years_has_no_model(tmp_path: Path) -> None:
    """The error names what to release."""
    with pytest.raises(InvalidFileError, match="--share years"):
        read_year_model(tmp_path)
