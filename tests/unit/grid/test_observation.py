"""What is measured, by naive loops and by SciPy."""

import dataclasses

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.grid.feeders import Feeder
from wattveil.grid.flow import HostingQuery, hosting_capacity_mw, power_flow
from wattveil.grid.grid_metrics import customer_metrics, longest_runs, network_metrics
from wattveil.grid.observation import GridSetting, Observation, observe
from wattveil.grid.placement import Placement
from wattveil.profiles import Split, TimeGrid


@pytest.fixture
def setting(four_buses: Feeder) -> GridSetting:
    """Return 20 houses on three buses, and small transformers."""
    return GridSetting(
        feeder=four_buses,
        placement=Placement(
            bus=np.repeat([1, 2, 3], [8, 8, 4]),
            wanted_class=np.zeros(20, np.int64),
            factor=30.0,
            buses=4,
        ),
        grid=TimeGrid(),
        power_factor=0.95,
        transformer_kva=8.0,
        transformer_homes=8,
    )


@pytest.fixture
def customers_kw() -> Floats:
    """Return 20 customers: some export, one is silent, one constant."""
    generator = np.random.default_rng(4)
    load_kw = generator.gamma(2.0, 0.6, (20, 24))
    load_kw[3, 10:15] -= 4.0
    load_kw[7] = 0.0
    load_kw[8] = 0.7
    return load_kw


@pytest.fixture
def seen(setting: GridSetting, customers_kw: Floats) -> Observation:
    """Return what is seen of them."""
    return observe(setting, customers_kw, customers_kw)


def test_groups_by_hand(seen: Observation, customers_kw: Floats) -> None:
    """ADMD and coincidence are those of a loop over groups of neighbours."""
    assert list(seen.groups) == [1, 2, 4, 8, 16]  # there are no 64 homes
    for homes in (2, 8, 16):
        admd, coincidence = [], []
        for first in range(0, 20 - homes + 1, homes):
            group = customers_kw[first : first + homes]
            peak = max(sum(group[:, hour]) for hour in range(24))
            admd.append(peak / homes)
            coincidence.append(peak / sum(max(row) for row in group))
        assert seen.groups[homes].admd_kw == pytest.approx(sorted(admd))
        assert seen.groups[homes].coincidence == pytest.approx(sorted(coincidence))
    assert seen.groups[1].coincidence == pytest.approx(np.ones(20))  # also of the silent one


def test_transformers_by_hand(seen: Observation, customers_kw: Floats) -> None:
    """Loading is apparent power over the rating; heat is a mean of two hours."""
    loading = [
        [abs(sum(customers_kw[first : first + 8, hour])) / 0.95 / 8.0 for hour in range(24)]
        for first in (0, 8)
    ]
    assert seen.transformers is not None
    assert seen.transformers.peak_loading == pytest.approx(sorted(max(row) for row in loading))
    full = [value > 1.0 for row in loading for value in row]
    assert 0.1 < np.mean(full) < 1.0
    assert seen.transformers.hours_full == pytest.approx(np.mean(full))
    hot = [(row[hour] + row[hour + 1]) / 2.0 > 1.2 for row in loading for hour in range(23)]
    assert 0.0 < np.mean(hot) < 1.0
    assert seen.transformers.hours_hot == pytest.approx(np.mean(hot))


def test_groups_are_those_of_their_own_rows(
    setting: GridSetting, seen: Observation, customers_kw: Floats
) -> None:
    """Groups may be many more than the houses; network and customers are those of the houses."""
    many = observe(setting, customers_kw, np.tile(customers_kw, (64, 1)))
    assert list(many.groups) == list(seen.groups)  # up to the number of houses
    assert many.groups[8].admd_kw.size == 160
    assert many.transformers is not None
    assert many.transformers.peak_loading.size == 160
    assert many.feeder_kw == pytest.approx(seen.feeder_kw)
    assert many.peak_kw == pytest.approx(seen.peak_kw)


def test_customers_by_hand(seen: Observation, customers_kw: Floats) -> None:
    """Peaks, ramps, autocorrelation, and shares of export and silence."""
    assert seen.peak_kw == pytest.approx(np.sort(customers_kw.max(axis=1)))
    assert seen.ramp_kw == pytest.approx(np.sort(np.diff(customers_kw, axis=1).ravel()))
    others = [row for row in range(20) if row not in {7, 8}]
    correlation = [
        np.corrcoef(customers_kw[row, :-1], customers_kw[row, 1:])[0, 1] for row in others
    ]
    assert seen.autocorrelation == pytest.approx(sorted([1.0, 1.0, *correlation]))
    assert seen.negative_share == (customers_kw < 0).sum() / customers_kw.size > 0.0
    assert seen.zero_share == 24 / customers_kw.size


def test_transformers_need_their_homes(setting: GridSetting, customers_kw: Floats) -> None:
    """Where there are fewer homes than a transformer feeds, its metrics are not in the table."""
    names = [metric.name for metric in customer_metrics(setting)]
    assert [name for name in names if name.startswith("B9")]
    large = dataclasses.replace(setting, transformer_homes=21)
    assert observe(large, customers_kw, customers_kw).transformers is None
    assert not [metric for metric in customer_metrics(large) if metric.name.startswith("B9")]


def test_ramps_stay_within_a_day(setting: GridSetting) -> None:
    """Midnight between two kinds of days is no step; the closing midnight is one."""
    two = dataclasses.replace(setting, grid=TimeGrid(split=Split.WEEKDAY_WEEKEND))
    assert np.flatnonzero(~two.follows).tolist() == [23]
    closed = dataclasses.replace(setting, grid=TimeGrid(closing_midnight=True))
    assert closed.follows.all()
    assert np.flatnonzero(two.midday).tolist() == [*range(10, 15), *range(34, 39)]


def test_network_by_hand(setting: GridSetting, seen: Observation, customers_kw: Floats) -> None:
    """The loads of the buses, their power flow, and the metrics' values from it."""
    load_kw = np.zeros((24, 4))
    for bus, first, last in ((1, 0, 8), (2, 8, 16), (3, 16, 20)):
        load_kw[:, bus] = 30.0 * customers_kw[first:last].sum(axis=0)
    tangent = np.sqrt(1.0 / 0.95**2 - 1.0)
    flow = power_flow(setting.feeder, load_kw=load_kw, load_kvar=tangent * load_kw)
    assert seen.voltage_pu == pytest.approx(flow.voltage_pu[:, 1:])
    value = {metric.name: metric.value(seen) for metric in network_metrics(setting)}
    assert value["A3 losses"] == pytest.approx(flow.loss_kw.sum() / flow.source_kw.sum())
    assert value["A5 peak"] == pytest.approx(load_kw.sum(axis=1).max())
    assert value["A5 hour of the peak"] == load_kw.sum(axis=1).argmax()
    assert value["A1 voltage, KS"] == pytest.approx(flow.voltage_pu[:, 1:].min())
    outside = (flow.voltage_pu[:, 1:] < 0.95) | (flow.voltage_pu[:, 1:] > 1.05)
    assert value["A2 readings outside range A"] == outside.mean()
    assert value["A4 peak current, largest"] == pytest.approx(flow.current_a.max())


def test_loading_is_measured_where_ratings_are_known(
    setting: GridSetting, customers_kw: Floats
) -> None:
    """A rated branch adds rows on loading; unrated ones are left out of them."""
    plain = {metric.name for metric in network_metrics(setting)}
    rated = dataclasses.replace(setting.feeder, rated_a=np.array([20.0, np.nan, 500.0]))
    with_ratings = dataclasses.replace(setting, feeder=rated)
    seen = observe(with_ratings, customers_kw, customers_kw)
    value = {metric.name: metric.value(seen) for metric in network_metrics(with_ratings)}
    assert set(value) - plain == {
        "A4 loading, median branch",
        "A4 loading, 95 % of branches",
        "A4 loading, largest",
        "A4 overloaded branches",
    }
    assert value["A4 loading, largest"] == pytest.approx(seen.flow.current_a[:, 0].max() / 20.0)
    assert value["A4 overloaded branches"] == 0.5


def test_longest_runs() -> None:
    """The longest run of each column, also at its end; none is 0."""
    columns = ["0110111", "0000000", "1111111", "1010100"]
    outside = np.array([[letter == "1" for letter in column] for column in columns]).T
    assert longest_runs(outside).tolist() == [3.0, 0.0, 7.0, 1.0]


def test_hosting_capacity_is_where_the_limit_breaks(four_buses: Feeder) -> None:
    """A little less is within the limits and a little more is not, for panels and for load."""
    load_kw = 0.5 * four_buses.nominal_kw
    spread = np.array([0.0, 1.0, 1.0, 1.0]) / 3.0
    none = np.zeros(4)

    def voltages(added_mw: float) -> Floats:
        flow = power_flow(four_buses, load_kw=load_kw + 1e3 * added_mw * spread, load_kvar=none)
        return flow.voltage_pu[0, 1:]

    def capacity_mw(feeder: Feeder, kw: Floats) -> list[float]:
        sun = HostingQuery(load_kw=kw, load_kvar=none, feeds_in=True, high_pu=1.05)
        more = HostingQuery(load_kw=kw, load_kvar=none, feeds_in=False, low_pu=0.95)
        return hosting_capacity_mw(feeder, [sun, more])

    sun, more = capacity_mw(four_buses, load_kw)
    assert voltages(-sun).max() <= 1.05 < voltages(-1.005 * sun).max()
    assert voltages(more).min() >= 0.95 > voltages(1.005 * more).min()
    # a full branch stops it earlier; too much load already there makes it negative
    rated = dataclasses.replace(four_buses, rated_a=np.array([80.0, np.nan, np.nan]))
    assert capacity_mw(rated, load_kw)[1] < more
    assert capacity_mw(four_buses, 3.0 * four_buses.nominal_kw)[1] < 0.0
