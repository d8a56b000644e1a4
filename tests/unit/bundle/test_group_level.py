"""Customers of a group follow its released mean load, as far as its error permits."""

import datetime as dt
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.sample_bundles import only, without_plan_simulation
from wattveil import Profiles
from wattveil.bundle.bundle_files import read_table
from wattveil.bundle.customer_files import write_customers
from wattveil.bundle.group_level import DrawnMean, GroupLevel, level_factors
from wattveil.bundle.plan import plan_release
from wattveil.bundle.produce import release_bundle
from wattveil.bundle.year_samples import YearSample
from wattveil.cli import app
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import Split, TimeGrid

FIRST, DAYS, CUSTOMERS = dt.date(2025, 3, 3), 14, 240
SLOTS = np.full(24, 1.0 / 24.0)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle by size of homes of one shape, with one cluster: clusters tell nothing."""
    generator = np.random.default_rng(1)
    curve = np.tile(0.5 + (abs(np.arange(24) - 18) < 3), DAYS)
    large = np.arange(CUSTOMERS) % 2 == 0
    own = np.where(large, 0.9, 0.3) * np.exp(0.1 * generator.normal(size=CUSTOMERS))
    spread = np.exp(0.2 * generator.normal(size=(CUSTOMERS, DAYS * 24)))
    days_kw = own[:, None] * curve * spread
    profiles = Profiles(
        customer_ids=tuple(f"home {number}" for number in range(CUSTOMERS)),
        load_kw=days_kw.reshape(CUSTOMERS, DAYS, 24).mean(axis=1),
        grid=TimeGrid(first_day=FIRST, n_days=DAYS),
        timezone="UTC",
        attributes={"size": tuple("large" if one else "small" for one in large)},
        days_kw=days_kw,
    )
    asked = ReleaseRequest(
        epsilon=200.0,
        delta=1e-6,
        n_clusters=1,
        customers=200,
        clip_kw=5.0,
        by="size",
        levels=("small", "large"),
        weights={**only("load", "clusters", "shares"), "years": 6.0},
        options={"years": {"split": Split.WEEKDAY_WEEKEND}},
    )
    out = tmp_path_factory.mktemp("level") / "bundle"
    with without_plan_simulation():
        release_bundle(profiles, plan_release(asked, profiles.grid), out)
    return out


def test_years_of_a_group_have_its_mean_day(bundle: Path, tmp_path: Path) -> None:
    """One cluster gives both groups the same homes: without factors both means were equal."""
    shapes = read_table(bundle, "load_shapes").to_pandas()
    for group in ("small", "large"):
        out = tmp_path / f"{group}.parquet"
        drawn = write_customers(bundle, out, customers=600, seed=1, years=YearSample(), group=group)
        assert drawn is not None
        assert not drawn.warnings
        load_kw = pq.read_table(out)["kwh"].to_numpy().reshape(600, DAYS, 24)
        released = shapes[shapes.group == group].sort_values("slot").load_kw.to_numpy()
        assert drawn.mean_kw == pytest.approx(load_kw.mean())
        assert load_kw.mean() == pytest.approx(released.mean(), rel=0.07)
        assert load_kw.mean(axis=(0, 1)) == pytest.approx(released, rel=0.15)


def test_drawn_and_released_means_are_printed(bundle: Path, tmp_path: Path) -> None:
    """On the command line and in JSON; days of another year have the same factors."""
    out = tmp_path / "y.parquet"
    command = ["synthesize", str(bundle), "--customers", "50", "--years", "--group", "small"]
    told = CliRunner().invoke(app, [*command, "--out", str(out)])
    assert told.exit_code == 0, told.output
    said = " ".join(told.output.split())
    assert "Mean load: drawn 0." in said
    assert "segments and their mean load only" in said
    asked = [*command, "--out", str(out), "--force", "--json", "--first-day", "2026-03-02"]
    record = json.loads(CliRunner().invoke(app, asked).stdout)["group_mean"]
    assert record["drawn_kw"] == pytest.approx(record["released_kw"], rel=0.2)
    assert record["warning"] is None


def test_a_bundle_without_groups_says_so(bundle: Path, tmp_path: Path) -> None:
    """The message names the option of the release that makes groups."""
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["request"]["by"] = None
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "year_model.json").write_bytes((bundle / "year_model.json").read_bytes())
    command = ["synthesize", str(tmp_path), "--customers", "5", "--years", "--group", "north"]
    told = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "n.parquet")])
    assert told.exit_code == 2
    assert "this bundle has no groups; release with --by" in " ".join(told.output.split())


def test_noise_shrinks_factors_towards_1() -> None:
    """No error: the released curve. A difference within the error: nothing. Between: a part."""
    drawn, released = np.linspace(0.2, 0.6, 24), np.linspace(0.8, 0.3, 24)
    exact = level_factors(drawn, released, np.zeros(24), SLOTS)
    assert exact * drawn == pytest.approx(released)
    for std in (1.0, 10.0):
        assert level_factors(drawn, released, np.full(24, std), SLOTS) == pytest.approx(1.0)
    twice = level_factors(drawn, 2.0 * drawn, np.full(24, 0.2), SLOTS)
    # D = 0.4, G = 0.8: 1 - (0.2 / 0.4)^2 = 3/4 of the way; the shape is the same already.
    assert twice == pytest.approx(1.75)


def test_export_and_extremes_are_limited() -> None:
    """A slot near 0 has the factor of the level; a net exporter none; no factor is above 4."""
    drawn, released = np.full(24, 0.5), np.full(24, 1.0)
    drawn[12], released[12] = -0.1, -0.4
    found = level_factors(drawn, released, np.zeros(24), SLOTS)
    level = released.mean() / drawn.mean()
    assert found[12] == pytest.approx(level)
    assert found[0] * drawn[0] == pytest.approx(1.0)
    assert (level_factors(-drawn, released, np.zeros(24), SLOTS) == 1.0).all()
    assert level_factors(drawn, 100.0 * released, np.zeros(24), SLOTS).max() == 4.0


def level_of(released: np.ndarray, std: float, factor: float = 1.0) -> GroupLevel:
    """Return the level of a group with this curve, whose factors are all equal."""
    return GroupLevel(
        grid=TimeGrid(),
        factors=np.full(24, factor),
        released=released,
        std=np.full(24, std),
        weights=SLOTS,
        max_kw=3.0,
    )


def test_a_mean_beyond_the_error_is_warned_of() -> None:
    """By the error of the release and that of the customers drawn; not of other days."""
    level = level_of(np.ones(24), 0.1, factor=2.0)
    means = DrawnMean(level=level, comparable=True)
    scaled = level.apply(np.tile([[0.4], [0.45], [5.0]], 48), FIRST)
    assert scaled[:, 0] == pytest.approx([0.8, 0.9, 3.0])  # within the bound of the model
    means.add(scaled, FIRST)
    assert means.mean_kw == pytest.approx(4.7 / 3.0)
    assert not means.warnings
    high = DrawnMean(level=level, comparable=True)
    high.add(np.full((50, 24), 1.3), FIRST)
    assert ["+0.300 kW" in one for one in high.warnings] == [True]
    high.comparable = False
    assert not high.warnings
    assert "other weather" in high.statement


def test_an_imprecise_group_is_warned_of() -> None:
    """Above 20 % of its mean load, whatever the sample; the origin of a file has the same text."""
    curve = np.linspace(0.2, 0.8, 24)
    assert not level_of(curve, 0.099).warning
    means = DrawnMean(level=level_of(curve, 0.101), comparable=False)
    means.add(np.tile(curve, (50, 1)), None)
    assert means.warnings == (means.level.warning,)
    assert means.level.warning.startswith(
        "this sample mostly follows all customers; do not size equipment for the group with it."
    )
    assert level_of(-curve, 0.01).warning  # no mean load to compare with


def test_the_slot_of_the_largest_difference_is_stated() -> None:
    """A planted evening peak that the sample lacks: the mean hides it, the slot does not."""
    released = np.full(24, 0.5)
    released[18] = 0.9
    means = DrawnMean(level=level_of(released, 0.05), comparable=True)
    means.add(np.full((50, 24), 0.5), None)
    slot, distance = means.slot
    assert slot == 18
    assert distance == pytest.approx(-8.0)
    assert "Largest difference at 18:00: drawn 0.500 kW, released 0.900 kW" in means.statement
    assert ["at 18:00" in one for one in means.warnings] == [True]
    record: dict[str, Any] = means.to_json()
    assert record["largest_difference"]["standard_errors"] == pytest.approx(-8.0)
    followed = DrawnMean(level=means.level, comparable=True)
    followed.add(np.tile(released - 0.14, (50, 1)), None)
    assert abs(followed.slot[1]) == pytest.approx(2.8)
    assert not [one for one in followed.warnings if "curve" in one]


def test_only_days_of_the_sample_are_compared() -> None:
    """A sample of weekdays has no weekend, and seasons are compared with their own columns."""
    grid = TimeGrid(split=Split.WEEKDAY_WEEKEND)
    released = np.repeat([0.5, 5.0], 24)
    level = GroupLevel(
        grid=grid,
        factors=np.ones(48),
        released=released,
        std=np.full(48, 0.01),
        weights=np.repeat([5.0, 2.0], 24) / 168.0,
        max_kw=9.0,
    )
    weekdays = DrawnMean(level=level, comparable=True)
    weekdays.add(np.full((3, 5 * 24), 0.5), FIRST)  # a Monday
    assert weekdays.slot[1] == pytest.approx(0.0)
    assert weekdays.mean_kw == pytest.approx(0.5)
    week = DrawnMean(level=level, comparable=True)
    week.add(np.full((3, 7 * 24), 0.5), FIRST)
    assert week.slot[0] >= 24
    assert week.warnings


def test_profiles_keep_the_bound_of_the_model() -> None:
    """Their root-mean-square load is bounded, a slot is not; midnight has the first factor."""
    level = replace(level_of(np.ones(24), 0.1), factors=np.linspace(1.0, 4.0, 24))
    spiky = np.zeros((2, 25))
    spiky[:, 23], spiky[:, 24] = [2.0, 9.0], 0.5
    scaled = level.apply(spiky, None)
    assert scaled[0, 23:] == pytest.approx([8.0, 0.5])
    assert np.sqrt(np.square(scaled[1]).mean()) == pytest.approx(3.0)


@pytest.fixture(scope="module")
def average_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle of average days by group; clusters tell nothing of the group."""
    generator = np.random.default_rng(2)
    has_car = np.arange(600) % 3 == 0
    evening = (abs(np.arange(24) - 20) < 2).astype(np.float64)
    curve = 0.4 + 0.2 * evening + np.where(has_car[:, None], 0.8 * evening, 0.0)
    profiles = Profiles(
        customer_ids=tuple(f"home {number}" for number in range(600)),
        load_kw=curve * np.exp(0.3 * generator.normal(size=(600, 1))),
        grid=TimeGrid(closing_midnight=False),
        timezone="UTC",
        attributes={"has_ev": tuple(map(str, has_car.tolist()))},
    )
    asked = ReleaseRequest(
        epsilon=100.0,
        delta=1e-6,
        n_clusters=1,
        customers=500,
        clip_kw=5.0,
        by="has_ev",
        levels=("True", "False"),
        weights=only("load", "clusters", "shares", "synthesis"),
    )
    out = tmp_path_factory.mktemp("days") / "bundle"
    with without_plan_simulation():
        release_bundle(profiles, plan_release(asked, profiles.grid), out)
    return out


def test_average_days_of_a_group_follow_its_curve(average_days: Path, tmp_path: Path) -> None:
    """One cluster gives both groups the same homes: factors plant the evening of one of them."""
    shapes = read_table(average_days, "load_shapes").to_pandas()
    for group in ("True", "False"):
        out = tmp_path / f"{group}.parquet"
        drawn = write_customers(average_days, out, customers=900, seed=1, group=group)
        assert drawn is not None
        assert not drawn.warnings
        load_kw = Profiles.read_parquet(out).load_kw
        assert drawn.mean_kw == pytest.approx(load_kw.mean())
        released = shapes[shapes.group == group].sort_values("slot").load_kw.to_numpy()
        assert load_kw.mean(axis=0) == pytest.approx(released, rel=0.12)


def test_warnings_of_a_group_are_printed_and_stored(average_days: Path, tmp_path: Path) -> None:
    """A group with a noisy curve and few customers: on the command line and in the origin."""
    bundle = tmp_path / "bundle"
    shutil.copytree(average_days, bundle)
    shapes = read_table(bundle, "load_shapes").to_pandas()
    shapes.loc[shapes.group == "True", "std_kw"] = 0.3
    shapes.to_parquet(bundle / "tables" / "load_shapes.parquet")
    groups = read_table(bundle, "groups").to_pandas()
    groups.loc[groups.group == "True", "customers"] = 8.0
    groups.to_parquet(bundle / "tables" / "groups.parquet")
    out = tmp_path / "cars.parquet"
    command = ["synthesize", str(bundle), "--customers", "50", "--group", "True"]
    told = CliRunner().invoke(app, [*command, "--out", str(out)])
    assert told.exit_code == 0, told.output
    said = " ".join(told.output.split())
    assert "Warning: this sample mostly follows all customers; do not size equipment" in said
    assert "Warning: the release has 8 ±" in said
    assert "Largest difference at " in said
    rules: dict[str, Any] = dict(Profiles.read_parquet(out).rules)
    stored = rules["synthetic"]["warnings"]
    assert len(stored) == 2
    asked = [*command, "--out", str(out), "--force", "--json"]
    record = json.loads(CliRunner().invoke(app, asked).stdout)
    assert record["group_warning"] == stored[0]
    assert record["group_mean"]["warning"].startswith(stored[1])
