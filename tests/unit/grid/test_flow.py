"""Power flow: by hand, by OpenDSS, by the laws of physics, and what happens when there is none."""

import math
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from dss import DSS
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from wattveil.arrays import Floats
from wattveil.errors import InvalidDataError, InvalidParameterError, MissingExtraError
from wattveil.grid import Feeder, power_flow, read_feeder


def test_base_case_of_case141() -> None:
    """The published figures of the base case: lowest voltage and where, and losses."""
    feeder = read_feeder("case141")
    flow = power_flow(feeder, load_kw=feeder.nominal_kw, load_kvar=feeder.nominal_kvar)
    assert feeder.bus_names[int(flow.voltage_pu.argmin())] == "87"
    assert flow.voltage_pu.min() == pytest.approx(0.92786, abs=5e-6)
    assert flow.loss_kw[0] == pytest.approx(632.7, abs=0.05)
    assert not flow.failures


def test_two_buses_by_hand() -> None:
    """One branch: |V|² solves a quadratic equation."""
    feeder = Feeder(
        name="two",
        base_kv=11.0,
        bus_names=("a", "b"),
        slack=0,
        slack_pu=1.0,
        nominal_kw=np.array([0.0, 1.0]),
        nominal_kvar=np.zeros(2),
        capacitor_kvar=np.zeros(2),
        from_bus=np.array([0]),
        to_bus=np.array([1]),
        r_ohm=np.array([2.0]),
        x_ohm=np.array([3.0]),
        b_us=np.zeros(1),
        rated_a=np.array([np.nan]),
    )
    flow = power_flow(feeder, load_kw=[0.0, 900.0], load_kvar=[0.0, 400.0])
    r, x, p, q = 2.0 / 121.0, 3.0 / 121.0, 0.9, 0.4  # per unit of 1 MVA
    # |V|⁴ + (2 (rp + xq) - 1) |V|² + (r² + x²)(p² + q²) = 0
    half = (1.0 - 2.0 * (r * p + x * q)) / 2.0
    squared = half + math.sqrt(half**2 - (r**2 + x**2) * (p**2 + q**2))
    assert flow.voltage_pu[0] == pytest.approx([1.0, math.sqrt(squared)], abs=1e-12)
    assert flow.loss_kw[0] == pytest.approx(1e3 * r * (p**2 + q**2) / squared)
    ampere = 1e6 * math.hypot(p, q) / (math.sqrt(3.0) * 11e3 * math.sqrt(squared))
    assert flow.current_a[0, 0] == pytest.approx(ampere)
    angle = -math.asin((x * p - r * q) / math.sqrt(squared))
    assert flow.angle_deg[0, 1] == pytest.approx(math.degrees(angle))


@pytest.mark.parametrize("name", ["case141", "ieee123", "four_buses", "with_tie"])
def test_opendss_agrees(name: str, request: pytest.FixtureRequest) -> None:
    """OpenDSS computes the same voltages and losses for the same feeder."""
    built_in = name in {"case141", "ieee123"}
    feeder = read_feeder(name) if built_in else request.getfixturevalue(name)
    generator = np.random.default_rng(3)
    scale = generator.uniform(-0.5, 1.2, (3, feeder.buses))  # some buses feed in
    load_kw, load_kvar = feeder.nominal_kw * scale, feeder.nominal_kvar * np.abs(scale)
    flow = power_flow(feeder, load_kw=load_kw, load_kvar=load_kvar)
    for snapshot, (voltage, loss_kw) in enumerate(opendss(feeder, load_kw, load_kvar)):
        assert flow.voltage_pu[snapshot] == pytest.approx(np.abs(voltage), abs=1e-6)
        assert flow.angle_deg[snapshot] == pytest.approx(np.degrees(np.angle(voltage)), abs=1e-4)
        assert flow.loss_kw[snapshot] == pytest.approx(loss_kw, rel=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 12))
def test_power_is_conserved(number: int, buses: int) -> None:
    """On any tree the source delivers load and losses, and losses are the sum of r I²."""
    generator = np.random.default_rng(number)
    feeder = Feeder(
        name="tree",
        base_kv=11.0,
        bus_names=tuple(map(str, range(buses))),
        slack=0,
        slack_pu=float(generator.uniform(0.95, 1.05)),
        nominal_kw=generator.uniform(0.0, 100.0, buses),
        nominal_kvar=generator.uniform(-50.0, 50.0, buses),
        capacitor_kvar=np.zeros(buses),
        from_bus=np.array([int(generator.integers(0, bus)) for bus in range(1, buses)]),
        to_bus=np.arange(1, buses),
        r_ohm=generator.uniform(0.01, 1.0, buses - 1),
        x_ohm=generator.uniform(0.0, 1.0, buses - 1),
        b_us=np.zeros(buses - 1),
        rated_a=np.full(buses - 1, np.nan),
    )
    flow = power_flow(feeder, load_kw=feeder.nominal_kw, load_kvar=feeder.nominal_kvar)
    assert flow.source_kw[0] == pytest.approx(feeder.nominal_kw.sum() + flow.loss_kw[0])
    assert flow.loss_kw[0] == pytest.approx(3e-3 * (feeder.r_ohm * flow.current_a[0] ** 2).sum())
    assert flow.voltage_pu[0, 0] == pytest.approx(feeder.slack_pu, abs=1e-9)


def test_a_snapshot_without_solution_is_named() -> None:
    """An impossible load is reported by its snapshot and is NaN; its neighbours are as if alone."""
    feeder = read_feeder("case141")
    scale = np.array([[0.5], [40.0], [1.0]])
    load_kw, load_kvar = feeder.nominal_kw * scale, feeder.nominal_kvar * scale
    flow = power_flow(feeder, load_kw=load_kw, load_kvar=load_kvar)
    assert list(flow.failures) == [1]
    assert "converge" in flow.failures[1]
    for values in (flow.voltage_pu, flow.angle_deg, flow.current_a, flow.loss_kw, flow.source_kw):
        assert np.isnan(values[1]).all()
        assert np.isfinite(values[[0, 2]]).all()
    alone = power_flow(feeder, load_kw=load_kw[2], load_kvar=load_kvar[2])
    assert flow.voltage_pu[2] == pytest.approx(alone.voltage_pu[0], abs=1e-12)


def test_the_substation_can_be_set(four_buses: Feeder) -> None:
    """A voltage for each snapshot takes the place of the feeder's."""
    load_kw = np.tile(four_buses.nominal_kw, (2, 1))
    flow = power_flow(four_buses, load_kw=load_kw, load_kvar=0.0 * load_kw, slack_pu=[1.0, 1.05])
    assert flow.voltage_pu[:, 0] == pytest.approx([1.0, 1.05])
    assert (flow.voltage_pu[1] > flow.voltage_pu[0]).all()


def test_bad_loads_are_refused(four_buses: Feeder) -> None:
    """Loads have one value per bus, the same snapshots, and no gaps."""
    good = np.ones((2, 4))
    with pytest.raises(InvalidParameterError, match=r"load_kw must be of shape \(snapshots, 4\)"):
        power_flow(four_buses, load_kw=np.ones(3), load_kvar=good)
    with pytest.raises(InvalidParameterError, match=r"load_kvar must be of shape \(2, 4\)"):
        power_flow(four_buses, load_kw=good, load_kvar=np.ones(4))
    with pytest.raises(InvalidDataError, match="rows 1 violate the rule 'load_kvar is finite'"):
        power_flow(four_buses, load_kw=good, load_kvar=[[1.0] * 4, [np.nan] * 4])
    with pytest.raises(InvalidParameterError, match="slack_pu must be a voltage above 0, or 2"):
        power_flow(four_buses, load_kw=good, load_kvar=good, slack_pu=[1.0, 1.0, 1.0])


def test_the_extra_is_named(four_buses: Feeder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without power-grid-model the error names the extra to install."""
    monkeypatch.delitem(sys.modules, "wattveil.grid.flow_solver", raising=False)
    monkeypatch.setitem(sys.modules, "power_grid_model", None)
    with pytest.raises(MissingExtraError, match=r"power flow needs .*wattveil\[grid\]"):
        power_flow(four_buses, load_kw=np.ones(4), load_kvar=np.ones(4))


def opendss(
    feeder: Feeder, load_kw: Floats, load_kvar: Floats
) -> Iterator[tuple[NDArray[np.complex128], float]]:
    """Yield the voltages in per unit and the losses of each snapshot, by OpenDSS."""
    run = DSS.Text.Commands
    circuit = DSS.ActiveCircuit
    three = f"phases=3 basekv={feeder.base_kv} frequency=50"
    run("clear\nset defaultbasefrequency=50")
    run(
        f"new circuit.c bus1=b{feeder.slack} pu={feeder.slack_pu} {three} r1=0 x1=1e-9 r0=0 x0=1e-9"
    )
    for branch, (a, b) in enumerate(zip(feeder.from_bus, feeder.to_bus, strict=True)):
        r, x = feeder.r_ohm[branch], feeder.x_ohm[branch]
        nanofarad = feeder.b_us[branch] * 1e3 / (2.0 * math.pi * 50.0)
        run(
            f"new line.l{branch} bus1=b{a} bus2=b{b} phases=3 length=1"
            f" r1={r} x1={x} r0={r} x0={x} c1={nanofarad} c0={nanofarad}"
        )
    for bus in np.flatnonzero(feeder.capacitor_kvar).tolist():
        kvar = feeder.capacitor_kvar[bus]
        run(f"new capacitor.c{bus} bus1=b{bus} phases=3 kvar={kvar} kv={feeder.base_kv}")
    for bus in range(feeder.buses):
        run(f"new load.d{bus} bus1=b{bus} phases=3 kv={feeder.base_kv} vminpu=0.2 vmaxpu=2 model=1")
    run(f"set voltagebases=[{feeder.base_kv}]\ncalcvoltagebases\nset tolerance=1e-11 maxiter=200")
    for active, reactive in zip(load_kw, load_kvar, strict=True):
        for bus in range(feeder.buses):
            run(f"load.d{bus}.kw={active[bus]}\nload.d{bus}.kvar={reactive[bus]}")
        run("solve")
        assert circuit.Solution.Converged
        voltage = np.empty(feeder.buses, np.complex128)
        for bus in range(feeder.buses):
            circuit.SetActiveBus(f"b{bus}")
            voltage[bus] = complex(*circuit.ActiveBus.puVoltages[:2])
        yield voltage, float(circuit.LineLosses[0])
