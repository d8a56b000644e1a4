"""Profiles stand for their load wherever a release takes load; tables get a remedy."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from wattveil import (
    LeaveOneOutKMeans,
    LoadSynthesizer,
    PrivateKMeans,
    Profiles,
    YearSynthesizer,
    load_duration_curve,
    load_shapes,
)
from wattveil.engines.local import load_rows
from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.profiles import Split, TimeGrid

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


def some_profiles(customers: int = 40, **grid: Any) -> Profiles:  # noqa: ANN401 - fields of a grid
    """Return profiles of random load."""
    made = TimeGrid(**grid)
    load_kw = np.random.default_rng(5).gamma(2.0, 0.3, (customers, made.columns))
    ids = tuple(f"home {place}" for place in range(customers))
    return Profiles(customer_ids=ids, load_kw=load_kw, grid=made, timezone="UTC")


def test_profiles_are_the_matrix_of_their_load() -> None:
    """NumPy converts profiles to their load, in kW."""
    profiles = some_profiles()
    assert np.array_equal(np.asarray(profiles), profiles.load_kw)
    assert np.asarray(profiles, dtype=np.float32).dtype == np.float32
    assert load_rows(profiles).width == load_rows(profiles.load_kw).width == 24


@pytest.mark.parametrize("kind", [PrivateKMeans, LoadSynthesizer, LeaveOneOutKMeans])
def test_estimators_take_profiles(kind: Callable[..., Any]) -> None:
    """Profiles are fitted and labelled like the matrix of their load."""
    profiles = some_profiles()
    fitted = kind(n_clusters=2).fit(profiles)
    assert np.array_equal(fitted.predict(profiles), fitted.predict(profiles.load_kw))


def test_release_functions_take_profiles() -> None:
    """The grid of the profiles is public and agrees with the days of a release."""
    profiles = some_profiles()
    assert load_shapes(profiles, **BUDGET).mean_kw.shape == (1, 24)
    assert load_duration_curve(profiles, **BUDGET).load_kw.shape == (1, 24)
    halves = some_profiles(minutes=30)
    assert load_duration_curve(halves, **BUDGET).load_kw.shape == (1, 48)


SEVERAL = {
    "mean": lambda profiles: load_shapes(profiles, **BUDGET),
    "duration": lambda profiles: load_duration_curve(profiles, **BUDGET),
    "clusters": PrivateKMeans(n_clusters=2).fit,
    "synthesis": LoadSynthesizer(n_clusters=2).fit,
}


@pytest.mark.parametrize("take", SEVERAL.values(), ids=SEVERAL)
def test_rows_of_several_days_need_the_slots_of_a_day(take: Callable[[object], object]) -> None:
    """Otherwise weekday and weekend would be taken for one day of 48 slots."""
    both = some_profiles(split=Split.WEEKDAY_WEEKEND)
    with pytest.raises(InvalidDataError, match="pass its load_kw, and slots_per_day"):
        take(both)
    with pytest.raises(InvalidParameterError, match="profiles must be of one average day"):
        np.asarray(both)
    fitted = PrivateKMeans(n_clusters=2, slots_per_day=24).fit(both.load_kw)
    assert fitted.cluster_centers_.shape == (2, 48)


def test_years_are_not_read_from_average_days() -> None:
    """The columns of profiles are no consecutive days of all seasons."""
    with pytest.raises(InvalidParameterError):
        YearSynthesizer(first_day=dt.date(2020, 1, 1), n_clusters=2).fit(some_profiles())


@pytest.mark.parametrize("as_table", [lambda frame: frame, pa.Table.from_pandas])
@pytest.mark.parametrize(
    "take", [lambda rows: load_shapes(rows, **BUDGET), PrivateKMeans(n_clusters=2).fit]
)
def test_a_column_that_is_no_number_is_named(
    take: Callable[[object], object], as_table: Callable[[pd.DataFrame], object]
) -> None:
    """The name of the column is stated, and no value of it."""
    frame = pd.DataFrame(some_profiles().load_kw).rename(columns=str)
    frame.insert(0, "customer_id", [f"home {place}" for place in frame.index])
    with pytest.raises(InvalidDataError, match="leave out column 'customer_id'") as caught:
        take(as_table(frame))
    assert "home" not in str(caught.value)
    take(as_table(frame.drop(columns="customer_id")))


@pytest.mark.parametrize(
    "take", [lambda rows: load_shapes(rows, **BUDGET), PrivateKMeans(n_clusters=2).fit]
)
def test_a_column_of_lists_is_explained(take: Callable[[object], object]) -> None:
    """A file of profiles that pandas has read has the load in one column."""
    frame = some_profiles().to_pandas("profiles").reset_index()
    with pytest.raises(InvalidDataError, match=r"pass Profiles\.read_parquet"):
        take(frame)


def test_profiles_of_an_engine_are_explained() -> None:
    """Their load is a column that the engine stores."""

    class SparkProfiles:
        load_kw = np.zeros((2, 24))

    with pytest.raises(InvalidDataError, match="pass its load_kw"):
        load_rows(SparkProfiles())  # type: ignore[arg-type]
