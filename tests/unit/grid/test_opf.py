"""Optimal power flow: nothing to control, something to control, nothing to be done."""

import sys

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from wattveil.errors import InvalidParameterError, MissingExtraError
from wattveil.grid import Controls, Feeder, optimal_power_flow, power_flow, read_feeder


@pytest.mark.parametrize("name", ["case141", "ieee123"])
def test_without_controls_it_is_the_power_flow(name: str) -> None:
    """With a held substation and nothing else to set, the paper's optimum is the power flow."""
    feeder = read_feeder(name)
    load_kw = feeder.nominal_kw * np.array([[0.1], [0.6], [1.0]])
    optimum = optimal_power_flow(feeder, load_kw=load_kw, load_kvar=0.3 * load_kw)
    plain = power_flow(feeder, load_kw=load_kw, load_kvar=0.3 * load_kw)
    assert not optimum.failures
    assert np.abs(optimum.flow.voltage_pu - plain.voltage_pu).max() < 1e-8
    assert optimum.cone_error_pu.max() < 1e-7  # the cone is tight: its voltages are the exact ones
    assert np.abs(optimum.pv_kw).max() < 1e-3


def test_inverters_keep_the_voltage() -> None:
    """Panels lift the feeder far beyond 1.05; their inverters hold it and waste little."""
    feeder = read_feeder("case141")
    load_kw, sun_kw = 0.2 * feeder.nominal_kw, 3.0 * feeder.nominal_kw
    wild = power_flow(feeder, load_kw=load_kw - sun_kw, load_kvar=0.1 * load_kw)
    assert wild.voltage_pu.max() > 1.1
    controls = Controls(inverter_kva=1.1 * sun_kw, available_kw=sun_kw)
    tamed = optimal_power_flow(
        feeder, load_kw=load_kw, load_kvar=0.1 * load_kw, controls=controls, limits_pu=(0.95, 1.05)
    )
    assert tamed.flow.voltage_pu.max() < 1.0501
    assert tamed.cone_error_pu.max() < 1e-4
    assert 0.9 * sun_kw.sum() < tamed.pv_kw.sum() <= sun_kw.sum() + 1e-3
    apparent = np.hypot(tamed.pv_kw, tamed.inverter_kvar)
    assert (apparent <= 1.1 * sun_kw + 1e-3).all()


def test_tap_changer_lifts_a_heavy_feeder() -> None:
    """A load that breaks the limits at 1.0 keeps them once the tap changer may move."""
    feeder = read_feeder("case141")
    load_kw, load_kvar = feeder.nominal_kw, feeder.nominal_kvar
    stuck = optimal_power_flow(feeder, load_kw=load_kw, load_kvar=load_kvar, limits_pu=(0.95, 1.05))
    assert list(stuck.failures) == [0]
    assert "infeasible" in stuck.failures[0]
    assert np.isnan(stuck.flow.voltage_pu).all()
    assert np.isnan(stuck.cone_error_pu).all()
    free = optimal_power_flow(
        feeder,
        load_kw=load_kw,
        load_kvar=load_kvar,
        controls=Controls(slack_pu=(0.95, 1.05)),
        limits_pu=(0.95, 1.05),
    )
    assert not free.failures
    assert free.slack_pu[0] == pytest.approx(1.05, abs=1e-6)  # losses fall with the voltage
    assert free.flow.voltage_pu.min() > 0.95


def test_capacitors_minimise_losses(four_buses: Feeder) -> None:
    """One capacitor: the optimum equals that of a direct search over power flows."""
    load_kw, load_kvar = four_buses.nominal_kw, four_buses.nominal_kvar
    at_far_end = np.array([0.0, 0.0, 1.0, 0.0])

    def losses(kvar: float) -> float:
        moved = load_kvar - kvar * at_far_end
        return float(power_flow(four_buses, load_kw=load_kw, load_kvar=moved).loss_kw[0])

    searched = minimize_scalar(losses, bounds=(0.0, 900.0), method="bounded")
    optimum = optimal_power_flow(
        four_buses,
        load_kw=load_kw,
        load_kvar=load_kvar,
        controls=Controls(capacitor_kvar=900.0 * at_far_end),
    )
    assert optimum.capacitor_kvar[0, 2] == pytest.approx(searched.x, abs=0.5)
    assert 0.0 < searched.x < 899.0
    assert optimum.flow.loss_kw[0] == pytest.approx(searched.fun, rel=1e-6)


def test_unsupported_problems_are_refused(four_buses: Feeder, with_tie: Feeder) -> None:
    """A loop, impossible limits and impossible controls are refused."""
    one = np.ones(4)
    with pytest.raises(InvalidParameterError, match="feeder must be radial"):
        optimal_power_flow(with_tie, load_kw=one, load_kvar=one)
    with pytest.raises(InvalidParameterError, match="limits_pu must be a lower and a higher"):
        optimal_power_flow(four_buses, load_kw=one, load_kvar=one, limits_pu=(1.1, 0.9))
    for controls, words in (
        (Controls(capacitor_kvar=[-1.0] * 4), "capacitor_kvar must be finite and at least 0"),
        (Controls(inverter_kva=np.ones(3)), r"inverter_kva must be of shape \(4,\)"),
        (Controls(slack_pu=(1.1, 0.9)), "slack_pu must be a lower and a higher voltage"),
    ):
        with pytest.raises(InvalidParameterError, match=words):
            optimal_power_flow(four_buses, load_kw=one, load_kvar=one, controls=controls)
    with pytest.raises(InvalidParameterError, match="load_kvar must be of shape"):
        optimal_power_flow(four_buses, load_kw=np.ones((2, 4)), load_kvar=np.ones(4))


def test_the_extra_is_named(four_buses: Feeder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without cvxpy the error names the extra to install."""
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(MissingExtraError, match=r"optimal power flow needs .*wattveil\[opf\]"):
        optimal_power_flow(four_buses, load_kw=np.ones(4), load_kvar=np.ones(4))
