"""A series whose periods come from Spark: the contributions of one machine, rows in parts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.release_transcripts import record, replay
from tests.series_bundles import CHOICES, quarter
from wattveil.bundle.published_series import LoadSeries
from wattveil.bundle.series_request import SeriesRequest
from wattveil.cli import app
from wattveil.engines import series_rows
from wattveil.engines.series_folder import SeriesFolder
from wattveil.engines.spark.spark_engine import SparkEngine
from wattveil.engines.spark.spark_profiles import SparkProfiles
from wattveil.engines.spark.spark_rows import SparkRows
from wattveil.errors import InvalidParameterError, SeriesStateError
from wattveil.lab.audit.memory_state import MemoryState
from wattveil.privacy.mechanisms.period_sums import CustomerState
from wattveil.privacy.pseudonyms import customer_names
from wattveil.profiles import Profiles, Split, TimeGrid
from wattveil.release.load_series import ReleasedSeries, release_load_period

KEY = bytes(range(64))
ERASED = ("household 3", "household 141", "household 9999")

ToSpark = Callable[[Profiles], SparkProfiles]


@pytest.fixture
def to_spark(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToSpark:
    """Return what puts profiles on Spark; their rows come here in four parts."""
    monkeypatch.setattr(series_rows, "ELSEWHERE", series_rows.ELSEWHERE[::4])

    def put(profiles: Profiles) -> SparkProfiles:
        path = tmp_path / f"profiles-{len(list(tmp_path.iterdir()))}.parquet"
        profiles.write_parquet(path)
        return SparkEngine(spark).read_profiles(path)

    return put


def whole(state: MemoryState, name: str) -> CustomerState:
    """Return the state of one kind of sums as one block."""
    blocks = [own for own in state.blocks(name) if own.names.size]
    before = np.cumsum([0, *(own.names.size for own in blocks)])
    return CustomerState(
        names=np.concatenate([own.names for own in blocks]),
        used=np.concatenate([own.used for own in blocks]),
        owners=np.concatenate([own.owners + at for own, at in zip(blocks, before, strict=False)]),
        cells=np.concatenate([own.cells for own in blocks]),
        history=np.concatenate([own.history for own in blocks]),
    )


def test_contributions_are_those_of_one_machine(to_spark: ToSpark) -> None:
    """Every query of every period to the last bit, and the private state that they leave.

    Customers join and leave, some are erased, and the last period is that of one machine on the
    state that Spark has left.
    """
    request = SeriesRequest(**CHOICES, segments=2, customers=10**6)
    states = {engine: MemoryState(names_key=KEY) for engine in ("local", "spark")}
    found = ReleasedSeries(design=request.design)
    erased = customer_names(ERASED, key=KEY)
    for period in range(4):
        profiles = quarter(period)

        def add(own: Any, state: MemoryState) -> ReleasedSeries:  # noqa: ANN401 - of either engine
            return release_load_period(
                own.load_kw,
                groups=own.attributes,
                customer_ids=own.customer_ids,
                past=found,  # noqa: B023 - called in this round
                period=period,  # noqa: B023 - same
                state=state,
                recluster=period == 2,  # noqa: B023 - same
                erased=erased[:0] if period == 0 else erased,  # noqa: B023 - same
            )

        released: list[ReleasedSeries] = []
        draws = record(lambda: released.append(add(profiles, states["local"])))  # noqa: B023 - same
        other = profiles if period == 3 else to_spark(profiles)
        again = replay(lambda: released.append(add(other, states["spark"])), draws)  # noqa: B023 - same
        assert len(draws) > 3
        assert [draw.exact.tolist() for draw in again] == [draw.exact.tolist() for draw in draws]
        found = released[0]
        for name in ("load", *request.design.counted):
            here, there = (whole(states[engine], name) for engine in ("local", "spark"))
            for field in vars(here):
                assert (getattr(here, field) == getattr(there, field)).all(), field
            assert here.history.shape[1] == period + 1
            assert here.used.any()


def test_rows_come_in_parts(
    to_spark: ToSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver never holds the rows of all customers, also while the state is small."""
    series = LoadSeries.begin(tmp_path / "series", **CHOICES)
    series.add(quarter(0, customers=20))
    sizes: list[int] = []
    read = SparkRows._columns_in_order

    def counting(rows: SparkRows[Any]) -> Any:  # noqa: ANN401 - columns
        columns = read(rows)
        sizes.append(len(columns[0]))
        return columns

    monkeypatch.setattr(SparkRows, "_columns_in_order", counting)
    with pytest.warns(UserWarning, match="new to the series"):
        series.add(to_spark(quarter(1)))
    kinds = 3
    assert len(sizes) == 4 * kinds
    assert sum(sizes) == kinds * len(quarter(1))
    assert max(sizes) < len(quarter(1)) / 2
    assert series.verify().accepted


def test_the_command_adds_a_period_and_leaves_erased_customers_out(
    to_spark: ToSpark, tmp_path: Path
) -> None:
    """`--engine spark` on an encrypted state, after an erasure; the chain is accepted."""
    series = LoadSeries.begin(tmp_path / "series", encrypt=True, **CHOICES)
    series.add(quarter(0))
    assert series.erase(ERASED).erased == 2
    to_spark(quarter(1)).write_parquet(tmp_path / "lake")
    command = ["series", "add", str(series.folder), str(tmp_path / "lake"), "--period", "2026-Q2"]
    result = CliRunner().invoke(
        app, [*command, "--engine", "spark", "--master", "local[1]", "--yes", "--json"]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["period"] == "2026-Q2"
    with SeriesFolder.open(series.folder, series.secrets) as folder:
        names = customer_names(ERASED, key=folder.key.names)
        for kind in folder.head.files:
            for block in folder.state(kind):
                assert not np.isin(block.names[block.owners], names).any()
    assert series.verify().accepted


def test_profiles_of_spark_are_checked_like_others(to_spark: ToSpark, tmp_path: Path) -> None:
    """Public facts before anything is charged; two rows of one id after it."""
    series = LoadSeries.begin(tmp_path / "series", **CHOICES)
    grid = TimeGrid(split=Split.WEEKDAY_WEEKEND)
    weekly = Profiles(
        customer_ids=("a",), load_kw=np.ones((1, 48)), grid=grid, timezone="Europe/London"
    )
    with pytest.raises(InvalidParameterError, match="of one average day"):
        series.add(to_spark(weekly))
    profiles = quarter(0, customers=20)
    twice = Profiles(
        **{**vars(profiles), "customer_ids": ("same", "same ", *profiles.customer_ids[2:])}
    )
    with pytest.raises(SeriesStateError, match="one row per customer id"):
        series.add(to_spark(twice))
    assert series.add(to_spark(profiles), again=True).name == "001"
