"""Power flow by power-grid-model (Newton-Raphson): a feeder and kW in, a `Flow` out.

A module of its own because power-grid-model is an extra: only `wattveil.grid.flow` imports it.
"""

import math
from functools import lru_cache

import numpy as np
from power_grid_model import (
    ComponentAttributeFilterOptions,
    ComponentType,
    DatasetType,
    LoadGenType,
    PowerGridModel,
    initialize_array,
)

from wattveil.arrays import Floats
from wattveil.grid.feeders import Feeder
from wattveil.grid.flow import Flow

# A short-circuit power so large that the source holds its voltage to the last digit.
_IDEAL_SOURCE_VA = 1e20
_FREQUENCY_HZ = 50.0  # only turns susceptance into capacitance and back
_TOLERANCE_PU = 1e-10
_SEEN: dict[ComponentType, set[str] | list[str] | ComponentAttributeFilterOptions | None] = {
    ComponentType.node: ["u_pu", "u_angle"],
    ComponentType.line: ["i_from", "i_to", "p_from", "p_to"],
    ComponentType.source: ["p", "q"],
}


def solve(feeder: Feeder, active: Floats, reactive: Floats, held: Floats) -> Flow:
    """Solve snapshots: kW and kvar of each bus, (T, n), and the voltage held at the slack, (T,)."""
    model = _model(feeder)
    result = model.calculate_power_flow(
        error_tolerance=_TOLERANCE_PU,
        update_data={
            ComponentType.sym_load: {"p_specified": active * 1e3, "q_specified": reactive * 1e3},
            ComponentType.source: {"u_ref": np.ascontiguousarray(held[:, None])},
        },
        output_component_types=_SEEN,
        continue_on_batch_error=True,
    )
    node, line, source = (result[name] for name in _SEEN)
    # A snapshot without solution has undefined values here.
    with np.errstate(invalid="ignore", over="ignore"):
        angle_deg = np.degrees(node["u_angle"])
        loss_kw = (line["p_from"] + line["p_to"]).sum(axis=1) / 1e3
    flow = Flow(
        voltage_pu=node["u_pu"],
        angle_deg=angle_deg,
        current_a=np.maximum(line["i_from"], line["i_to"]),
        loss_kw=loss_kw,
        source_kw=source["p"][:, 0] / 1e3,
        source_kvar=source["q"][:, 0] / 1e3,
        failures={},
    )
    if model.batch_error is None:
        return flow
    failed = model.batch_error.failed_scenarios.tolist()
    messages = [message.strip() for message in model.batch_error.error_messages]
    return flow.without(dict(zip(failed, messages, strict=True)))


@lru_cache(maxsize=8)
def _model(feeder: Feeder) -> PowerGridModel:
    """Return the feeder as the solver's components, in volt, ampere, ohm, farad and watt."""
    buses, branches = feeder.buses, feeder.from_bus.size
    volt = feeder.base_kv * 1e3
    node = initialize_array(DatasetType.input, ComponentType.node, buses)
    node["id"] = np.arange(buses)
    node["u_rated"] = volt
    line = initialize_array(DatasetType.input, ComponentType.line, branches)
    line["id"] = buses + np.arange(branches)
    line["from_node"], line["to_node"] = feeder.from_bus, feeder.to_bus
    line["from_status"] = line["to_status"] = 1
    line["r1"], line["x1"] = feeder.r_ohm, feeder.x_ohm
    line["c1"] = feeder.b_us * 1e-6 / (2.0 * math.pi * _FREQUENCY_HZ)
    line["tan1"] = 0.0
    first = buses + branches
    load = initialize_array(DatasetType.input, ComponentType.sym_load, buses)
    load["id"] = first + np.arange(buses)
    load["node"] = node["id"]
    load["status"] = 1
    load["type"] = LoadGenType.const_power
    load["p_specified"] = load["q_specified"] = 0.0
    with_capacitor = np.flatnonzero(feeder.capacitor_kvar)
    shunt = initialize_array(DatasetType.input, ComponentType.shunt, with_capacitor.size)
    shunt["id"] = first + buses + np.arange(with_capacitor.size)
    shunt["node"] = with_capacitor
    shunt["status"] = 1
    shunt["g1"] = 0.0
    shunt["b1"] = feeder.capacitor_kvar[with_capacitor] * 1e3 / volt**2
    source = initialize_array(DatasetType.input, ComponentType.source, 1)
    source["id"] = first + buses + with_capacitor.size
    source["node"] = feeder.slack
    source["status"] = 1
    source["u_ref"] = feeder.slack_pu
    source["sk"] = _IDEAL_SOURCE_VA
    return PowerGridModel(
        {
            ComponentType.node: node,
            ComponentType.line: line,
            ComponentType.sym_load: load,
            ComponentType.shunt: shunt,
            ComponentType.source: source,
        },
        system_frequency=_FREQUENCY_HZ,
    )
