"""Files of synthetic customers, loaded by the planning tools themselves."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dss import DSS
from numpy.typing import NDArray

from wattveil.arrays import Floats
from wattveil.bundle.customer_files import FORMATS
from wattveil.bundle.drawn_customers import Drawn, read_buses
from wattveil.profiles import TimeGrid

Complexes = NDArray[np.complex128]
CUSTOMERS, STEPS, POWER_FACTOR = 7, 4, 0.9
KVAR_PER_KW = np.tan(np.arccos(POWER_FACTOR))
BUSES = "bus,kv,phases,customers\none,0.23,1,2\nthree,0.4,3,\nlast,0.23,,\n"
SERVICES = (
    "bus,kv,phases,customers,connection\none,0.23094,1,4,\none.2,0.23094,1,1,\n"
    "one,0.4,3,1,\none.1.3,0.4,1,1,\n"
)
"""A street of three phases and 400 V: customers from phase to neutral, on three phases, and between
two of them."""
RUN_GRIDLABD = """
import gridlabd
simulation = gridlabd.GridLabD()
simulation.setup_before_load()
assert simulation.load("model.glm") == 0
simulation.setup_after_load()
assert simulation.run() == 0
simulation.finalize()
"""
PLACES = ("one", "one", "three", "three", "three", "last", "last")
"""Two at the first bus, as stated; of five others, one more at the earlier bus."""


LOAD_KW: Floats = np.random.default_rng(3).gamma(2.0, 0.4, (CUSTOMERS, 24)) - 0.3
"""Some of it is negative, as with solar generation."""


def written(kind: str, out: Path, *, text: str = BUSES) -> Path:
    """Write the customers with their buses."""
    buses = out.with_name("buses.csv")
    buses.write_text(text)
    ids = [f"S{number:09}" for number in range(CUSTOMERS)]
    drawn = Drawn(
        batches=iter([(ids, np.zeros(CUSTOMERS, np.int64), LOAD_KW)]),
        customers=CUSTOMERS,
        grid=TimeGrid(),
        timezone="UTC",
        power_factor=POWER_FACTOR,
        buses=read_buses(buses),
    )
    FORMATS[kind].write(out, drawn)
    return out


def test_opendss_solves_the_loads(tmp_path: Path) -> None:
    """In daily mode every Load has the active and reactive power of its hour, at its bus."""
    path = written("opendss", tmp_path / "homes.dss")
    run, circuit = DSS.Text.Commands, DSS.ActiveCircuit
    run("clear\nnew circuit.c bus1=one pu=1 phases=3 basekv=0.4 r1=0 x1=1e-9 r0=0 x0=1e-9")
    for bus in ("three", "last"):
        run(f"new line.{bus} bus1=one bus2={bus} phases=3 length=1 r1=1e-6 x1=1e-6 r0=1e-6 x0=1e-6")
    run(f"redirect {path}\nset voltagebases=[0.4]\ncalcvoltagebases")
    run("set mode=daily stepsize=1h number=1")
    for hour in range(24):
        run("solve")
        for number, place in enumerate(PLACES):
            circuit.SetActiveElement(f"load.S{number:09}")
            element = circuit.ActiveCktElement
            assert element.BusNames[0].split(".")[0] == place
            kw, kvar = element.TotalPowers
            expected = LOAD_KW[number, hour]
            assert abs(kw - expected) < 1e-3 + 1e-3 * abs(expected)
            assert abs(kvar - expected * KVAR_PER_KW) < 1e-3 + 1e-3 * abs(expected)


def test_opendss_has_single_phase_customers_on_three_phases(tmp_path: Path) -> None:
    """In turn without a node, on the stated phase with one; power is constant at 0.9 pu as well."""
    text = "bus,kv,phases,customers\none,0.23094,1,4\none.2,0.23094,1,2\none,0.4,3,1\n"
    path = written("opendss", tmp_path / "homes.dss", text=text)
    run, circuit = DSS.Text.Commands, DSS.ActiveCircuit
    run("clear\nnew circuit.c bus1=one pu=0.9 phases=3 basekv=0.4 r1=0 x1=1e-9 r0=0 x0=1e-9")
    run(f"redirect {path}\nset voltagebases=[0.4]\ncalcvoltagebases")
    run("set mode=daily stepsize=1h number=1\nsolve")
    found = []
    for number in range(CUSTOMERS):
        circuit.SetActiveElement(f"load.S{number:09}")
        element = circuit.ActiveCktElement
        found.append([node for node in element.NodeOrder.tolist() if node])
        assert abs(element.TotalPowers[0] - LOAD_KW[number, 0]) < 1e-3
    assert found == [[1], [2], [3], [1], [2], [2], [1, 2, 3]]


@pytest.mark.filterwarnings("ignore")  # of pandapower and its dependencies
def test_pandapower_runs_the_time_series(tmp_path: Path) -> None:
    """`DFData` and `ConstControl` take the profiles, `create_loads` the loads."""
    import pandapower  # noqa: PLC0415 - takes seconds
    from pandapower.control import ConstControl  # noqa: PLC0415 - takes seconds
    from pandapower.timeseries import DFData, OutputWriter, run_timeseries  # noqa: PLC0415

    folder = written("pandapower", tmp_path / "homes")
    loads = pd.read_csv(folder / "load.csv")
    assert loads["bus"].tolist() == list(PLACES)
    assert np.allclose(loads["p_mw"], LOAD_KW.max(axis=1) / 1000.0, atol=1e-9)
    net = pandapower.create_empty_network()
    index = {name: pandapower.create_bus(net, 0.4) for name in ("one", "three", "last")}
    pandapower.create_ext_grid(net, index["one"])
    for name in ("three", "last"):
        pandapower.create_line_from_parameters(
            net, index["one"], index[name], 0.01, 0.1, 0.1, 0.0, 1.0
        )
    pandapower.create_loads(
        net,
        buses=loads["bus"].map(index),
        p_mw=loads["p_mw"],
        q_mvar=loads["q_mvar"],
        name=loads["name"],
    )
    source = DFData(pd.read_csv(folder / "profiles.csv"))
    for column in ("p_mw", "q_mvar"):
        names = [f"{name}.{column}" for name in net.load["name"]]
        ConstControl(net, "load", column, net.load.index, data_source=source, profile_name=names)
    log = [("res_load", "p_mw"), ("res_load", "q_mvar")]
    found = OutputWriter(net, time_steps=range(STEPS), output_path=None, log_variables=log)
    run_timeseries(net, range(STEPS), verbose=False, numba=False)
    megawatts = LOAD_KW.T[:STEPS] / 1000.0
    assert np.allclose(found.output["res_load.p_mw"], megawatts, atol=1e-9)
    assert np.allclose(found.output["res_load.q_mvar"], megawatts * KVAR_PER_KW, atol=1e-9)


@pytest.mark.filterwarnings("ignore")  # of simbench and its dependencies
def test_simbench_applies_the_profiles(tmp_path: Path) -> None:
    """SimBench multiplies the relative profiles by the loads: that is the drawn power."""
    import pandapower  # noqa: PLC0415 - takes seconds
    import simbench  # noqa: PLC0415 - takes seconds

    folder = written("simbench", tmp_path / "homes")
    loads = pd.read_csv(folder / "Load.csv", sep=";")
    profiles = pd.read_csv(folder / "LoadProfile.csv", sep=";")
    net = pandapower.create_empty_network()
    index = {name: pandapower.create_bus(net, 0.4) for name in ("one", "three", "last")}
    pandapower.create_loads(
        net, buses=loads["node"].map(index), p_mw=loads["pLoad"], q_mvar=loads["qLoad"]
    )
    net.load["profile"] = loads["profile"]
    net["profiles"] = {"load": profiles}
    for column, ratio in (("p_mw", 1.0), ("q_mvar", KVAR_PER_KW)):
        found = simbench.get_absolute_profiles_from_relative_profiles(net, "load", column)
        assert np.allclose(found, LOAD_KW.T / 1000.0 * ratio, atol=1e-8)
    assert set(loads["voltLvl"]) == {7}


def run_gridlabd(folder: Path, nodes: str, watched: Sequence[tuple[str, str]]) -> list[Complexes]:
    """Return properties of objects, each in every hour of two days."""
    recorders = "".join(
        f"object recorder {{ parent {name}; property {what}.real,{what}.imag; interval 3600;"
        f' file "seen{number}.csv"; }}\n'
        for number, (name, what) in enumerate(watched)
    )
    (folder / "model.glm").write_text(
        "clock { timezone GMT0; starttime '2001-01-01 00:00:00';"
        " stoptime '2001-01-03 00:00:00'; }\n"
        'module powerflow { solver_method NR; };\n#include "customers.glm"\n' + nodes + recorders
    )
    done = subprocess.run(
        [sys.executable, "-c", RUN_GRIDLABD],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = []
    for number in range(len(watched)):
        lines = (folder / f"seen{number}.csv").read_text().splitlines()
        values = [line.split(",")[1:] for line in lines if not line.startswith("#")]
        found.append(np.array([float(re) + 1j * float(im) for re, im in values])[:48])
    return found


def check_power(seen: Complexes, kw: Floats, tolerance_va: float = 0.051) -> None:
    """Compare the complex power of two days, in VA, with the load of a day."""
    expected = np.tile(kw, 2) * 1000.0 * (1.0 + 1j * KVAR_PER_KW)
    assert np.abs(seen.real - expected.real).max() <= tolerance_va
    assert np.abs(seen.imag - expected.imag).max() <= tolerance_va


def test_gridlabd_plays_the_profiles(tmp_path: Path) -> None:
    """At a street of 400 V each phase delivers the power of its customers; the profile repeats."""
    folder = written("gridlabd", tmp_path / "homes", text=SERVICES)
    nodes = (
        "object node { name source; phases ABCN; nominal_voltage 230.94; bustype SWING; }\n"
        "object line_configuration { name cable; z11 0.3+0.1j; z22 0.3+0.1j; z33 0.3+0.1j; }\n"
        "object overhead_line { name street; phases ABCN; from source; to one; length 300 ft;"
        " configuration cable; }\n"
        "object node { name one; phases ABCN; nominal_voltage 230.94; }\n"
    )
    powers = ("A", "B", "C", "A", "B", "B", "C")
    watched = [(f"S{number:09}", f"constant_power_{one}") for number, one in enumerate(powers)]
    street = [("street", "power_out"), ("street", "power_out_B")]
    *seen, whole, phase_b = run_gridlabd(folder, nodes, [*watched, *street])
    thirds = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0 / 3.0, 1.0])
    for number, one in enumerate(seen):
        check_power(one, LOAD_KW[number] * thirds[number])
    check_power(whole, LOAD_KW.sum(axis=0), 1.0)  # players have 0.1 W
    check_power(phase_b, (LOAD_KW * thirds[:, None])[[1, 4, 5]].sum(axis=0), 1.0)


def test_gridlabd_has_triplex_loads_on_request(tmp_path: Path) -> None:
    """At a split-phase service a customer is between its two legs, on the phase of the node."""
    rows = "one,0.24,1,4,split-phase\ntwo.2,0.24,1,3,Split-phase\n"
    text = f"bus,kv,phases,customers,connection\n{rows}"
    folder = written("gridlabd", tmp_path / "homes", text=text)
    nodes = (
        "object triplex_node { name one; phases AS; nominal_voltage 120; bustype SWING; }\n"
        "object triplex_node { name two; phases BS; nominal_voltage 120; bustype SWING; }\n"
    )
    watched = [(f"S{number:09}", "constant_power_12") for number in range(CUSTOMERS)]
    for number, one in enumerate(run_gridlabd(folder, nodes, watched)):
        check_power(one, LOAD_KW[number])
