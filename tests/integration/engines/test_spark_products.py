"""Every product on Spark: the integers of one machine, labels that a retry does not change."""

import datetime as dt
import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.example_row_functions import (
    adding,
    always_refused,
    by_sign_sums,
    divided_by_zero,
    halved,
)
from tests.release_transcripts import record, replay
from tests.sample_bundles import walk_few_steps, without_plan_simulation
from wattveil import YearSynthesizer, cluster_shares, load_duration_curve, release_labels
from wattveil.arrays import Floats
from wattveil.cli import app
from wattveil.engines.local import LocalRows
from wattveil.engines.spark.spark_engine import SparkEngine
from wattveil.engines.spark.spark_profiles import SparkProfiles
from wattveil.engines.spark.spark_rows import SparkRows
from wattveil.errors import InvalidDataError, InvalidFileError, InvalidParameterError
from wattveil.privacy.guarantee import Budget
from wattveil.privacy.mechanisms.contributions import BlockSums, Query
from wattveil.privacy.mechanisms.gaussian import PrivateTable
from wattveil.privacy.private_data import Rows
from wattveil.profiles import Profiles, Split, TimeGrid
from wattveil.release.queries import YearQueries
from wattveil.release.rows.day_features import typical_days

CUSTOMERS = 90
LEVELS = ("home", "shop")
CENTROIDS = np.array([[0.2] * 24, [2.0] * 24])


@pytest.fixture(scope="module")
def profiles() -> Profiles:
    """Return customers of two attributes, one of them with a name that SQL would misread."""
    load_kw = np.random.default_rng(7).lognormal(-1.0, 1.0, size=(CUSTOMERS, 24))
    load_kw[10:20, 12] *= -1.0
    return Profiles(
        customer_ids=tuple(f"meter {number:03}" for number in range(CUSTOMERS)),
        load_kw=load_kw,
        grid=TimeGrid(),
        timezone="Europe/London",
        attributes={
            "class": tuple(("home", "shop", None)[number % 3] for number in range(CUSTOMERS)),
            "area.of `town`": tuple(str(number % 2) for number in range(CUSTOMERS)),
        },
        rules={"min_days": 14},
    )


@pytest.fixture(scope="module")
def path(profiles: Profiles, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of these profiles."""
    path = tmp_path_factory.mktemp("lake") / "profiles.parquet"
    profiles.write_parquet(path)
    return path


@pytest.fixture(scope="module")
def kept(spark: SparkSession, path: Path) -> SparkProfiles:
    """Return them on Spark."""
    return Profiles.read_parquet(path, engine=SparkEngine(spark))


@pytest.mark.parametrize(
    "release",
    [
        lambda who: load_duration_curve(
            who.load_kw, groups=who.attributes["class"], levels=LEVELS, epsilon=2.0, delta=1e-6
        ),
        lambda who: cluster_shares(
            who.load_kw,
            centroids=CENTROIDS,
            groups=who.attributes,
            levels={"class": LEVELS, "area.of `town`": ("0", "1")},
            epsilon=2.0,
            delta=1e-6,
        ),
    ],
    ids=["duration", "shares"],
)
def test_groups_have_the_same_integers(
    release: Callable[[object], object], profiles: Profiles, kept: SparkProfiles
) -> None:
    """The same call for profiles in memory and on Spark; no number differs."""
    draws = record(lambda: release(profiles))
    again = replay(lambda: release(kept), draws)
    assert [draw.exact.tolist() for draw in again] == [draw.exact.tolist() for draw in draws]


def test_years_have_the_same_integers(spark: SparkSession) -> None:
    """Rows of many days: the typical days, of which a model is made, and the days around them."""
    hours = np.random.default_rng(8).lognormal(-1.0, 1.0, size=(40, 14 * 4))
    hours[3, 5] = np.nan
    years = YearSynthesizer(
        first_day=dt.date(2024, 1, 1),
        n_clusters=1,
        epsilon=8.0,
        slots_per_day=4,
        split=Split.WEEKDAY_WEEKEND,
    ).fit(hours)
    calendar = years._calendar(hours.shape[1])
    frame = spark.createDataFrame([(row,) for row in hours.tolist()], "hours array<double>")
    rows = SparkRows(frame, np.zeros((0, hours.shape[1])))
    parts: dict[str, Any] = {"parts": calendar.parts, "n_parts": calendar.n_parts}
    typical = rows.map(typical_days.bind(**parts))
    for work in (adding(2 * 4), by_sign_sums(2 * 4)):
        expected = LocalRows(typical_days(hours, **parts)[0]).add_up(work)
        assert np.array_equal(work.split(typical.add_up(work))[-1], work.split(expected)[-1])

    def release(customers: Rows[Floats]) -> None:
        budget = Budget(years.guarantee())
        queries = YearQueries(PrivateTable(customers, budget), calendar)
        years._find_days(queries, calendar, budget)

    draws = record(lambda: release(LocalRows(hours)))
    again = replay(lambda: release(rows), draws)
    assert [draw.exact.tolist() for draw in again] == [draw.exact.tolist() for draw in draws]
    assert len(draws) == 7


def test_labels_stay_the_same_when_tasks_run_again(kept: SparkProfiles) -> None:
    """One charge, one key: read three times, from caches and without, no label moves."""
    released = release_labels(
        kept.load_kw,
        centroids=CENTROIDS,
        sizes=[1.0, 1.0],
        epsilon=0.5,
        customer_ids=kept.customer_ids,
    )
    first = (released.ids, released.labels.tolist())
    table: Any = released.table._rows
    assert isinstance(table, SparkRows)
    table._own_frame.sparkSession.catalog.clearCache()
    again = table._own_frame.repartition(5).sort("column_0").toArrow().to_pydict()
    assert again == {"column_0": list(first[0]), "column_1": first[1]}
    assert len(set(first[0])) == CUSTOMERS
    assert list(first[0]) == sorted(first[0])
    assert len(released.spends) == 1


@pytest.mark.parametrize("second", ["a", None])
def test_an_id_that_occurs_twice_is_refused(spark: SparkSession, second: str | None) -> None:
    """On Spark as in memory, before a label is drawn: two rows would share one random word."""
    table = [("a", [0.2] * 24), (second, [2.0] * 24)]
    frame = spark.createDataFrame(table, "id string, load_kw array<double>")
    no_rows = {"id": np.zeros(0, dtype=np.object_), "load_kw": np.zeros((0, 24))}
    columns = SparkRows.columns_of(frame, no_rows)
    with pytest.raises(InvalidParameterError, match="customer_ids must be one per row"):
        release_labels(
            columns["load_kw"],
            centroids=CENTROIDS,
            sizes=[1.0, 1.0],
            epsilon=0.5,
            customer_ids=columns["id"],
        )


def test_an_error_of_an_executor_is_ours_and_names_no_row(kept: SparkProfiles) -> None:
    """The rule arrives; which rows broke it stays where they are. Other errors are not hidden."""
    query = Query(tag="count", rho_units=1, n_cells=1)
    with pytest.raises(
        InvalidDataError, match="the data violate the rule 'a rule that 'all' break'"
    ) as refused:
        kept.load_kw.add_up(BlockSums([query], always_refused.bind()))
    assert "meter 007" not in "".join(traceback.format_exception(refused.value))
    with pytest.raises(Exception, match="ZeroDivisionError"):
        kept.load_kw.add_up(BlockSums([query], divided_by_zero.bind()))


def test_columns_of_another_table_do_not_fit(kept: SparkProfiles) -> None:
    """Nor does a column that was changed: which row is whose would be a guess."""
    other = SparkProfiles.of(kept.frame.select("*"), kept.record)
    changed = kept.load_kw.map(halved.bind())
    strangers: list[Any] = [other.customer_ids, changed]
    for stranger in strangers:
        with pytest.raises(InvalidParameterError, match="a column of the same table"):
            kept.load_kw.beside(stranger, field="ids")


def test_what_is_no_table_of_profiles_is_refused(
    spark: SparkSession, kept: SparkProfiles, tmp_path: Path
) -> None:
    """No table, no record, a customer twice: before anything is released."""
    engine = SparkEngine(spark)
    with pytest.raises(InvalidFileError, match="a Parquet table"):
        engine.read_profiles(tmp_path / "nothing")
    twice = kept.frame.union(kept.frame.limit(1)).coalesce(1)
    twice.write.parquet(str(tmp_path / "plain"))
    with pytest.raises(InvalidFileError, match="made by `wattveil profiles`"):
        engine.read_profiles(tmp_path / "plain")
    one = next((tmp_path / "plain").glob("*.parquet"))
    metadata = {"wattveil.profiles": json.dumps(kept.record)}
    pq.write_table(pq.read_table(one).replace_schema_metadata(metadata), tmp_path / "twice.parquet")
    with pytest.raises(InvalidDataError, match="one profile per customer"):
        engine.read_profiles(tmp_path / "twice.parquet")


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let K-means go through the customers a few times only: more would tell no more of Spark."""
    walk_few_steps(monkeypatch)


@pytest.mark.usefixtures("spark", "few_steps")
def test_a_bundle_is_made_checked_and_drawn_from(path: Path, tmp_path: Path) -> None:
    """`release`, `verify` and `synthesize` with --engine spark; a customer without profile too."""
    names = [f"meter {number:03}" for number in range(CUSTOMERS)]
    (tmp_path / "list.txt").write_text("\n".join([*names, "meter without data"]))
    spark_options = ["--engine", "spark", "--master", "local[1]"]
    bundle = str(tmp_path / "bundle")
    options = (
        "--epsilon 6 --clusters 2 --clip-kw 10 --by class --levels home,shop --label-epsilon 1"
    )
    listed = ["--customer-list", str(tmp_path / "list.txt"), "--yes"]
    run = CliRunner()
    with without_plan_simulation():
        made = run.invoke(
            app,
            ["release", str(path), *options.split(), *listed, "--out", bundle, *spark_options],
        )
    assert made.exit_code == 0, made.output
    labels = pq.read_table(tmp_path / "bundle" / "tables" / "labels.parquet")
    assert labels.num_rows == CUSTOMERS + 1
    assert "`keyed_response`" in (tmp_path / "bundle" / "CARD.md").read_text()
    checked = run.invoke(app, ["verify", bundle])
    assert checked.exit_code == 0, checked.output
    here, there = str(tmp_path / "here.parquet"), f"{tmp_path.as_uri()}/there.parquet"
    draw = ["synthesize", bundle, "--customers", "70000", "--out"]
    assert run.invoke(app, [*draw, here]).exit_code == 0
    assert run.invoke(app, [*draw, there, *spark_options]).exit_code == 0
    assert run.invoke(app, [*draw, there, *spark_options]).exit_code == 2  # it is there
    one, two = Profiles.read_parquet(here), Profiles.read_parquet(tmp_path / "there.parquet")
    order = np.argsort(two.customer_ids)
    assert [two.customer_ids[place] for place in order] == list(one.customer_ids)
    assert np.array_equal(two.load_kw[order], one.load_kw)
    assert (one.grid, one.timezone, one.rules) == (two.grid, two.timezone, two.rules)
