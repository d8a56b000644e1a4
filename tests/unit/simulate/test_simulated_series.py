"""Simulated homes over years: months, adoption, joins and leavers."""

import numpy as np
import pytest

from wattveil.simulate.simulated_series import (
    CHURN,
    HomeMonths,
    simulate_home_months,
    simulate_series,
)


@pytest.fixture(scope="module")
def homes() -> HomeMonths:
    """A few homes over a year, from the simulator."""
    return simulate_home_months(customers=20, years=1, seed=5)


def flat_homes(count: int) -> HomeMonths:
    """Homes of constant load over five years; technologies of a size that shows."""
    ones = np.ones((count, 60, 24), dtype=np.float32)
    return HomeMonths(
        load_kw=0.5 * ones,
        panels_kw=-0.2 * ones,
        car_kw=0.3 * ones,
        heat_pump_kw=0.4 * ones,
        classes=np.array(["couple", "electric_heating"] * (count // 2)),
    )


def test_months_of_homes_follow_the_year(homes: HomeMonths) -> None:
    """Heat pumps run in winter, panels generate in summer by day, a car takes 6.5 kWh per day."""
    assert homes.load_kw.shape == (20, 12, 24)
    assert 0.1 < homes.load_kw.mean() < 1.0
    heat = homes.heat_pump_kw.mean(axis=(0, 2))
    assert heat[[0, 1]].min() > 2.0 * heat[[6, 7]].max()
    sun = -homes.panels_kw.mean(axis=0)
    assert sun[5].sum() > 2.0 * sun[0].sum()
    assert sun[:, 0].max() == 0.0
    assert homes.car_kw.sum(axis=2).mean() == pytest.approx(6.5, rel=0.3)


def test_homes_do_not_depend_on_their_number(homes: HomeMonths) -> None:
    """The first homes of a larger population are the same."""
    fewer = simulate_home_months(customers=3, years=1, seed=5)
    assert (fewer.load_kw == homes.load_kw[:3]).all()
    assert (fewer.classes == homes.classes[:3]).all()


def test_joins_replace_leavers() -> None:
    """The number stays; the share that leaves a quarter is the churn; nobody returns."""
    series = simulate_series(flat_homes(50), customers=2000, seed=1)
    here = np.isfinite(series.load_kw[:, :, 0])
    assert here.shape[1] == 20
    assert here.sum(axis=0) == pytest.approx(np.full(20, 2000), rel=0.05)
    left = (here[:, :-1] & ~here[:, 1:]).sum() / here[:, :-1].sum()
    assert left == pytest.approx(CHURN, abs=0.003)
    starts = np.diff(here.astype(int), axis=1) == 1
    assert (starts.sum(axis=1) + here[:, 0] <= 1).all()


def test_a_trend_is_efficiency_and_adoption() -> None:
    """Cars reach 14 % of the homes; homes with electric heating get no heat pump."""
    series = simulate_series(flat_homes(50), customers=3000, churn=0.0, trend=True, seed=2)
    owners = series.has_car.mean(axis=0)
    assert owners[0] == pytest.approx(0.012, abs=0.01)
    assert owners[-1] == pytest.approx(0.14, abs=0.02)
    assert (np.diff(owners) >= 0.0).all()
    heated = series.groups == series.levels.index("electric_heating")
    last = series.load_kw[:, -1].mean(axis=1)
    ends = 0.5 * 0.99 ** (np.arange(57, 60) / 3.0).mean()
    assert np.median(last) == pytest.approx(ends, rel=0.03)
    assert last[~heated].mean() - last[heated].mean() == pytest.approx(0.08 * 0.4, abs=0.01)


def test_without_trend_only_seasons_are_left() -> None:
    """Years in random order: a rise over years becomes a level, the season stays."""
    homes = flat_homes(200)
    rising = homes.load_kw * (1.0 + 0.5 * (np.arange(60) // 12))[:, None]
    rising += 0.2 * (np.arange(60) % 12 == 0)[:, None]
    changed = HomeMonths(**{**vars(homes), "load_kw": rising.astype(np.float32)})
    series = simulate_series(
        changed, customers=2000, months_per_period=1, churn=0.0, trend=False, seed=3
    )
    by_month = series.load_kw.mean(axis=(0, 2)).reshape(5, 12)
    assert by_month.mean(axis=1) == pytest.approx(np.full(5, by_month.mean()), rel=0.05)
    assert (by_month[:, 0] - by_month[:, 1:].mean(axis=1)) == pytest.approx(
        np.full(5, 0.2), abs=0.05
    )
    assert not series.has_car.any()
    assert series.periods_per_year == 12
