"""Synthetic customers at buses, the choice of a format, and what is refused."""

import warnings
from collections import Counter
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow.csv as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattveil.bundle.customer_files import write_customers
from wattveil.bundle.drawn_customers import (
    Bus,
    Drawn,
    read_buses,
    read_temperatures,
    voltage_warning,
)
from wattveil.bundle.planner_files import (
    write_gridlabd,
    write_opendss,
    write_pandapower,
    write_series,
    write_simbench,
)
from wattveil.errors import (
    IgnoredColumnsWarning,
    ImplausibleTemperatureWarning,
    InvalidFileError,
    InvalidParameterError,
)
from wattveil.profiles import TimeGrid
from wattveil.profiles.time_grid import Split


def drawn(
    customers: int, *, buses: tuple[Bus, ...] | None = None, split: Split = Split.DAY
) -> Drawn:
    """Return customers of a constant load, each of its own."""
    grid = TimeGrid(split=split)
    load_kw = np.ones((customers, grid.columns)) * np.arange(1, customers + 1)[:, None]
    ids = [f"S{number}" for number in range(customers)]
    return Drawn(
        batches=iter([(ids, np.zeros(customers, np.int64), load_kw)]),
        customers=customers,
        grid=grid,
        timezone="UTC",
        power_factor=0.8,
        buses=buses,
    )


@given(stated=st.lists(st.integers(0, 5), min_size=1, max_size=6), more=st.integers(0, 20))
def test_every_customer_has_a_bus(stated: list[int], more: int) -> None:
    """Stated numbers are kept; the others differ by at most one."""
    buses = tuple(Bus(f"b{place}", 0.4, 1, count) for place, count in enumerate(stated))
    others = [bus.name for bus in buses if not bus.customers]
    customers = sum(stated) + (more if others else 0)
    found = Counter(bus.name for bus in drawn(customers, buses=buses).bus_of_each() if bus)
    assert sum(found.values()) == customers
    assert all(found[bus.name] == bus.customers for bus in buses if bus.customers)
    shares = [found[name] for name in others]
    assert not shares or max(shares) - min(shares) <= 1


@pytest.mark.parametrize("customers", [1, 4])
def test_numbers_that_do_not_add_up_are_refused(customers: int) -> None:
    """More or fewer customers than the buses state, with no bus for the rest."""
    buses = (Bus("a", 0.4, 1, 2), Bus("b", 0.4, 1, 1))
    with pytest.raises(InvalidParameterError, match="sum of the customers of all buses, 3") as no:
        list(drawn(customers, buses=buses).bus_of_each())
    assert ("or leave customers empty for one bus" in no.value.rule) is (customers > 3)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "header"),
        ("bus,volt\na,1\n", "header"),
        ("bus,kv\n,0.4\n", "line 2, bus"),
        ("bus,kv\na b,0.4\n", "line 2, bus"),
        ("bus,kv\na;new circuit,0.4\n", "line 2, bus"),
        ("bus,kv\na,0\n", "line 2, kv"),
        ("bus,kv\na,nan\n", "line 2, kv"),
        ("bus,kv\na,34.5\nb,400\n", "line 3, kv"),  # volts
        ("bus,kv\na,0.23\nb,high\n", "line 3, kv"),
        ("bus,kv,phases\na,0.4,2\n", "line 2, phases"),
        ("bus,kv,phases\na.1,0.4,3\n", "line 2, bus"),  # one node for three phases
        ("bus,kv\na.1.2.3,0.4\n", "line 2, bus"),
        ("bus,kv,customers\na,0.4,1.5\n", "line 2, customers"),
        ("bus,kv,customers\na,0.4,-1\n", "line 2, customers"),
        ("bus,kv,phases,connection\na,0.24,1,delta\n", "line 2, connection"),
        ("bus,kv,phases,connection\na,0.4,3,split-phase\n", "line 2, connection"),
        ("bus;kv\na;0.23\n", "header"),
    ],
)
def test_a_broken_list_of_buses_is_refused(tmp_path: Path, text: str, where: str) -> None:
    """The place in the file is named; a name cannot carry a command of a planning tool."""
    path = tmp_path / "buses.csv"
    path.write_text(text)
    with pytest.raises(InvalidFileError) as refused:
        read_buses(path)
    assert refused.value.where == where


def test_other_columns_of_a_list_of_buses_are_named(tmp_path: Path) -> None:
    """They are not used; coordinates may be there."""
    path = tmp_path / "buses.csv"
    path.write_text("bus,kv,x,phase,owner\na,0.23,7,3,me\n")
    with pytest.warns(IgnoredColumnsWarning, match="not used: phase, owner"):
        assert read_buses(path) == (Bus("a", 0.23, 1, 0),)


def test_the_separator_is_a_comma_and_names_of_columns_have_any_case(tmp_path: Path) -> None:
    """The error says what the separator must be."""
    path = tmp_path / "buses.csv"
    path.write_text("Bus, KV,Phases\na,0.4,3\n")
    assert read_buses(path) == (Bus("a", 0.4, 3, 0),)
    path.write_text("bus;kv;phases\na;0,4;3\n")
    with pytest.raises(InvalidFileError, match=r"header: the separator must be a comma$"):
        read_buses(path)


def test_a_missing_list_of_buses_is_refused(tmp_path: Path) -> None:
    """The file is named."""
    with pytest.raises(FileNotFoundError, match=r"none\.csv"):
        read_buses(tmp_path / "none.csv")


def test_days_that_do_not_follow_each_other_have_no_time_series(tmp_path: Path) -> None:
    """A week does; seasons are refused, and nothing is written."""
    write_series(tmp_path / "week", drawn(2, split=Split.WEEK))
    table = pc.read_csv(tmp_path / "week" / "series.csv")
    assert table.num_rows == 168
    assert str(table["time"][-1]) == "2001-01-07 23:00:00"
    with pytest.raises(InvalidParameterError, match="season"):
        write_series(tmp_path / "seasons", drawn(2, split=Split.SEASON))
    assert not (tmp_path / "seasons").exists()


def test_without_buses_there_are_no_loads(tmp_path: Path) -> None:
    """Profiles alone: the planner connects them."""
    write_opendss(tmp_path / "some.dss", drawn(2))
    lines = (tmp_path / "some.dss").read_text().splitlines()[1:]
    assert [line.split(".")[0] for line in lines] == ["New LoadShape"] * 2
    write_gridlabd(tmp_path / "players", drawn(2))
    model = (tmp_path / "players" / "customers.glm").read_text()
    assert model.count("object player") == 2
    assert "load" not in model
    first = (tmp_path / "players" / "players" / "S1.csv").read_text().splitlines()[0]
    assert first == "2001-01-01 00:00:00,2000.0+1500.0j"  # 3-4-5: power factor 0.8


@pytest.mark.parametrize(
    ("name", "place", "nodes"),
    [("a", "a", ()), ("a.2", "a", (2,)), ("a.1.0", "a", (1, 0)), ("mv1.101", "mv1.101", ())],
)
def test_nodes_of_a_bus(name: str, place: str, nodes: tuple[int, ...]) -> None:
    """An ending that OpenDSS reads as nodes is not part of the name."""
    bus = Bus(name, 0.4, 1, 0)
    assert (bus.place, bus.nodes) == (place, nodes)


def test_one_list_of_buses_serves_every_tool(tmp_path: Path) -> None:
    """Tools without nodes get the name of the bus, GridLAB-D the phase of the node."""
    buses = (Bus("a.3", 0.24, 1, 0),)
    write_pandapower(tmp_path / "pandapower", drawn(2, buses=buses))
    assert pc.read_csv(tmp_path / "pandapower" / "load.csv")["bus"].to_pylist() == ["a", "a"]
    write_simbench(tmp_path / "simbench", drawn(2, buses=buses))
    options = pc.ParseOptions(delimiter=";")
    loads = pc.read_csv(tmp_path / "simbench" / "Load.csv", parse_options=options)
    assert loads["node"].to_pylist() == ["a", "a"]
    write_gridlabd(tmp_path / "gridlabd", drawn(2, buses=buses))
    model = (tmp_path / "gridlabd" / "customers.glm").read_text()
    assert model.count("parent a; phases CN;") == 2


def test_phases_are_taken_in_turn_over_all_buses(tmp_path: Path) -> None:
    """One customer at each of three buses: not all of them on phase 1, in either tool."""
    buses = tuple(Bus(name, 0.23, 1, 1) for name in "abc")
    write_opendss(tmp_path / "some.dss", drawn(3, buses=buses))
    text = (tmp_path / "some.dss").read_text()
    assert all(f" bus1={node} " in text for node in ("a.1", "b.2", "c.3"))
    write_gridlabd(tmp_path / "gridlabd", drawn(3, buses=buses))
    model = (tmp_path / "gridlabd" / "customers.glm").read_text()
    for place, phase in zip("abc", "ABC", strict=True):
        assert f"parent {place}; phases {phase}N; nominal_voltage 230.00;" in model
        assert f"constant_power_{phase};" in model
    assert "triplex" not in model


def test_the_table_of_customers(tmp_path: Path) -> None:
    """Peak and daily energy of each, beside its bus."""
    write_series(tmp_path / "some", drawn(2, buses=(Bus("a", 0.4, 3, 0),)))
    table = pc.read_csv(tmp_path / "some" / "customers.csv").to_pydict()
    assert table["bus"] == ["a", "a"]
    assert table["peak_kw"] == [1.0, 2.0]
    assert table["energy_kwh_per_day"] == [24.0, 48.0]


@pytest.mark.parametrize(
    ("out", "options", "field"),
    [
        ("some.csv", {"kind": "pandapower"}, "out"),
        ("some", {"kind": "opendss"}, "out"),
        ("some", {"kind": "excel"}, "kind"),
        ("some", {}, "out"),
        ("some.csv", {"buses": Path("buses.csv")}, "buses"),
        ("some.dss", {"power_factor": 0.0}, "power_factor"),
        ("some.dss", {"power_factor": 1.1}, "power_factor"),
    ],
)
def test_what_does_not_fit_the_format_is_refused(
    whole: Path, tmp_path: Path, out: str, options: dict[str, object], field: str
) -> None:
    """The field is named, and nothing is left behind."""
    with pytest.raises(InvalidParameterError) as refused:
        write_customers(whole, tmp_path / out, customers=1, seed=1, **options)  # type: ignore[arg-type]
    assert refused.value.field == field
    assert not list(tmp_path.iterdir())


def test_a_folder_is_never_replaced(whole: Path, tmp_path: Path) -> None:
    """Even with force: it may hold other files."""
    out = tmp_path / "homes"
    write_customers(whole, out, customers=2, seed=1, kind="series")
    with pytest.raises(InvalidParameterError, match="a new folder"):
        write_customers(whole, out, customers=2, seed=1, kind="series", force=True)


def test_temperatures_of_a_file(tmp_path: Path) -> None:
    """Days in any order; another column is named, and does no harm."""
    path = tmp_path / "weather.csv"
    path.write_text("station,day,temperature_c\nK,2025-01-02,-3.5\nK,2025-01-01,4\n")
    with pytest.warns(IgnoredColumnsWarning, match="not used: station"):
        assert read_temperatures(path) == {date(2025, 1, 1): 4.0, date(2025, 1, 2): -3.5}


@pytest.mark.parametrize(("degrees", "warned"), [((41, 38, 30), 1), ((33, 31, 5), 0)])
def test_a_winter_in_fahrenheit_is_warned_of(
    tmp_path: Path, degrees: tuple[int, ...], warned: int
) -> None:
    """Its days are within the range of Celsius, but most of them are implausibly warm."""
    path = tmp_path / "weather.csv"
    rows = [f"2025-01-0{day},{value}\n" for day, value in enumerate(degrees, 1)]
    path.write_text("day,temperature_c\n" + "".join(rows))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert len(read_temperatures(path)) == len(degrees)
    assert [one.category for one in found] == [ImplausibleTemperatureWarning] * warned


@pytest.mark.parametrize(
    ("text", "field", "rule"),
    [
        ("", "header", "columns day and temperature_c"),
        ("date,temperature\n2025-01-01,4\n", "header", "a column day; a column temperature_c"),
        ("day,temperature_c\n1.1.2025,4\n", "line 2, day", "a date such as 2025-01-31"),
        ("day,temperature_c\n2025-01-01,4\n2025-01-01,5\n", "line 3, day", "occurs once"),
        ("day,temperature_c\n2025-01-01,\n", "line 2, temperature_c", "a number"),
        ("day,temperature_c\n2025-01-01,nan\n", "line 2, temperature_c", "a number"),
        ("day,temperature_c\n2025-07-01,72\n", "line 2, temperature_c", "degrees Celsius"),
        ("day,temperature_c\n2025-07-01,280\n", "line 2, temperature_c", "degrees Celsius"),
    ],
)
def test_temperatures_that_cannot_be_read(tmp_path: Path, text: str, field: str, rule: str) -> None:
    """The error names the line, the rule and the value."""
    path = tmp_path / "weather.csv"
    path.write_text(text)
    with pytest.raises(InvalidFileError, match=rule) as caught:
        read_temperatures(path)
    assert field in str(caught.value)
    path.write_bytes(b"day,temperature_c\n\xff\n")
    with pytest.raises(InvalidFileError, match="UTF-8"):
        read_temperatures(path)
    with pytest.raises(InvalidFileError, match="a readable file"):
        read_temperatures(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ("a,0.4,3\nb,0.23,1\n", ""),
        ("a,0.4,3\nb,0.23,3\n", "Bus b has 3 phases and kv=0.23"),
    ],
)
def test_three_phases_at_the_voltage_of_one_are_noticed(
    tmp_path: Path, rows: str, named: str
) -> None:
    """Between phases, 0.23 kV is rare: it is 0.4 kV that was meant. Coordinates are ignored."""
    path = tmp_path / "buses.csv"
    table = "".join(f"{row},1.5,2\n" for row in rows.splitlines())
    path.write_text("bus,kv,phases,x,y\n" + table)
    warning = voltage_warning(read_buses(path))
    assert bool(warning) is bool(named)
    assert named in warning
    assert not named or "0.4 kV" in warning


@pytest.mark.parametrize("kv", ["0.38", "0.4", "0.48"])
def test_one_phase_at_the_voltage_between_phases(tmp_path: Path, kv: str) -> None:
    """Refused where the number of phases is not given; a warning where it is."""
    path = tmp_path / "buses.csv"
    text = rf"kv is {kv}\. For a single-phase load, kv is the line-to-neutral voltage, 0\.2"
    for table in (f"bus,kv\nmain,{kv}\n", f"bus,kv,phases\nmain,{kv},\n"):
        path.write_text(table)
        with pytest.raises(
            InvalidFileError, match=rf"bus main: phases is 1 \(the default\) and {text}"
        ):
            read_buses(path)
    path.write_text(f"bus,kv,phases\nmain,{kv},1\nlane.1,{kv},1\n")
    warning = voltage_warning(read_buses(path))
    assert warning.startswith(f"Bus main: phases is 1 and kv is {kv}. For a single-phase load")
    assert warning.endswith("Buses with such a voltage: 2.")
    if kv == "0.4":
        assert "0.23 kV in a 400 V network. Set phases to 3 or kv to 0.23." in warning
    path.write_text(f"bus,kv,phases\nmain,{kv},3\nlane.1.2,{kv},1\nhill,0.23,1\nmv,11,1\n")
    assert not voltage_warning(read_buses(path))  # lane is between two phases
