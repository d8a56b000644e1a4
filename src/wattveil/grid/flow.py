"""Power flow: the voltages and currents that loads cause, many snapshots in one call.

The solver is power-grid-model (`wattveil.grid.solver`). Every snapshot that it did not solve is
named.

>>> import numpy as np
>>> from wattveil.grid.feeders import read_feeder
>>> feeder = read_feeder("case141")
>>> flow = power_flow(feeder, load_kw=feeder.nominal_kw, load_kvar=feeder.nominal_kvar)
>>> feeder.bus_names[np.argmin(flow.voltage_pu)], round(float(flow.voltage_pu.min()), 5)
('87', 0.92786)
>>> round(float(flow.loss_kw[0]), 1)
632.7
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from wattveil import checks
from wattveil.errors import InvalidDataError, InvalidParameterError, MissingExtraError
from wattveil.grid.network import Feeder, Floats

_COLUMNS = ("voltage_pu", "angle_deg", "current_a", "loss_kw", "source_kw", "source_kvar")


@dataclass(frozen=True, kw_only=True, eq=False)
class Flow:
    """What the feeder does in T snapshots; a snapshot that was not solved is NaN everywhere.

    Attributes
    ----------
    voltage_pu, angle_deg : (T, n)
        Voltage of each bus against the slack.
    current_a : (T, m)
        Current of each branch, the larger of its two ends.
    loss_kw, source_kw, source_kvar : (T,)
        Heat in the branches, and what the substation delivers.
    failures : mapping
        What the solver said of each snapshot that it did not solve.
    """

    voltage_pu: Floats
    angle_deg: Floats
    current_a: Floats
    loss_kw: Floats
    source_kw: Floats
    source_kvar: Floats
    failures: Mapping[int, str]

    def without(self, failures: Mapping[int, str]) -> "Flow":
        """Return the flow with NaN in the snapshots that failed: what stands there is no answer."""
        columns = {}
        for name in _COLUMNS:
            columns[name] = np.array(getattr(self, name))
            columns[name][list(failures)] = math.nan
        return Flow(**columns, failures={**self.failures, **failures})


def power_flow(
    feeder: Feeder,
    *,
    load_kw: ArrayLike,
    load_kvar: ArrayLike,
    slack_pu: ArrayLike | None = None,
) -> Flow:
    """Compute the power flow of snapshots.

    Parameters
    ----------
    feeder
        The network.
    load_kw, load_kvar : (T, n) or (n,)
        Three-phase load of each bus; negative where it feeds in.
    slack_pu : (T,), optional
        Voltage held at the substation, if another than the feeder's: a tap changer.
    """
    active = snapshots(feeder, "load_kw", load_kw)
    reactive = snapshots(feeder, "load_kvar", load_kvar)
    if active.shape != reactive.shape:
        raise InvalidParameterError("load_kvar", f"of shape {active.shape}", reactive.shape)
    held = checks.numbers("slack_pu", feeder.slack_pu if slack_pu is None else slack_pu)
    if held.shape not in {(), (len(active),)} or not (held > 0.0).all():
        rule = f"a voltage above 0, or {len(active)} of them"
        raise InvalidParameterError("slack_pu", rule, held.shape)
    held = np.broadcast_to(held, (len(active),))
    return _solve(feeder, active, reactive, held)


def snapshots(feeder: Feeder, name: str, load: ArrayLike) -> Floats:
    """Accept a row of finite loads for each snapshot."""
    rows = np.atleast_2d(checks.numbers(name, load))
    if rows.ndim != 2 or rows.shape[1] != feeder.buses:  # noqa: PLR2004 - a matrix has two axes
        raise InvalidParameterError(name, f"of shape (snapshots, {feeder.buses})", rows.shape)
    broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if broken.size:
        raise InvalidDataError(f"{name} is finite", broken.tolist())
    return rows


def _solve(feeder: Feeder, active: Floats, reactive: Floats, held: Floats) -> Flow:
    try:
        from wattveil.grid.solver import solve  # noqa: PLC0415 -- needs an extra
    except ImportError as error:
        raise MissingExtraError("power flow", "grid") from error
    return solve(feeder, active, reactive, held)
