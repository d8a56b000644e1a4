"""Power flow: the voltages and currents that loads cause, many snapshots in one call.

The solver is power-grid-model (`wattveil.grid.flow_solver`). Every snapshot without a solution is
reported.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.errors import InvalidDataError, InvalidParameterError, MissingExtraError
from wattveil.grid.feeders import Feeder
from wattveil.web.results import PrivateResult, ResultTable

_COLUMNS = ("voltage_pu", "angle_deg", "current_a", "loss_kw", "source_kw", "source_kvar")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)  # the load may be private
class Flow(PrivateResult):
    """Power flow of T snapshots; a snapshot without solution is NaN everywhere.

    Attributes
    ----------
    voltage_pu, angle_deg : (T, n)
        Voltage of each bus against the slack.
    current_a : (T, m)
        Current of each branch, the larger of its two ends.
    loss_kw, source_kw, source_kvar : (T,)
        Losses of the branches, and power from the substation.
    failures
        Message of the solver for each snapshot without solution.
    """

    voltage_pu: Floats
    angle_deg: Floats
    current_a: Floats
    loss_kw: Floats
    source_kw: Floats
    source_kvar: Floats
    failures: Mapping[int, str]

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {
            "snapshots": lambda: snapshots_table(self, "loss_kw", "source_kw", "source_kvar"),
            "buses": lambda: crossed_table(self, "bus", "voltage_pu", "angle_deg"),
            "branches": lambda: crossed_table(self, "branch", "current_a"),
        }

    def without(self, failures: Mapping[int, str]) -> "Flow":
        """Return the flow with NaN in the failed snapshots."""
        columns = {}
        for name in _COLUMNS:
            columns[name] = np.array(getattr(self, name))
            columns[name][list(failures)] = math.nan
        return Flow(**columns, failures={**self.failures, **failures})


def snapshots_table(result: object, *names: str) -> ResultTable:
    """Return values of each snapshot."""
    columns = {name: getattr(result, name) for name in names}
    return ResultTable({"snapshot": np.arange(len(columns[names[0]])), **columns}, ("snapshot",))


def crossed_table(result: object, place: str, *names: str) -> ResultTable:
    """Return values of each bus or branch in each snapshot, as a tidy table."""
    columns = {name: getattr(result, name) for name in names}
    snapshots, places = np.indices(columns[names[0]].shape).reshape(2, -1)
    flat = {name: values.ravel() for name, values in columns.items()}
    return ResultTable({"snapshot": snapshots, place: places, **flat}, ("snapshot", place))


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
    slack_pu : (T,)
        Voltage held at the substation (tap changer); that of the feeder if omitted.
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
    """Return finite loads as a matrix with one row per snapshot."""
    rows = np.atleast_2d(checks.numbers(name, load))
    if rows.ndim != 2 or rows.shape[1] != feeder.buses:  # noqa: PLR2004 - a matrix has two axes
        raise InvalidParameterError(name, f"of shape (snapshots, {feeder.buses})", rows.shape)
    broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if broken.size:
        raise InvalidDataError(f"{name} is finite", broken.tolist())
    return rows


def _solve(feeder: Feeder, active: Floats, reactive: Floats, held: Floats) -> Flow:
    try:
        from wattveil.grid.flow_solver import solve  # noqa: PLC0415 -- needs an extra
    except ImportError as error:
        raise MissingExtraError("power flow", "grid") from error
    return solve(feeder, active, reactive, held)


# --- hosting capacity -----------------------------------------------------------------------------


# Search range in multiples of the nominal load, and levels per round.
_MIN, _MAX = -1.0, 5.0
_LEVELS, _ROUNDS = 7, 5


@dataclass(frozen=True, kw_only=True, eq=False)
class HostingQuery:
    """A hosting-capacity query: a snapshot, what is added, and the limits to keep.

    Attributes
    ----------
    load_kw, load_kvar : (n,)
        The snapshot.
    feeds_in
        Whether generation is added instead of load.
    low_pu, high_pu
        Voltage limits of all buses except the slack; branches always keep their ratings.
    """

    load_kw: Floats
    load_kvar: Floats
    feeds_in: bool
    low_pu: float = 0.0
    high_pu: float = math.inf


def hosting_capacity_mw(feeder: Feeder, queries: Sequence[HostingQuery]) -> list[float]:
    """Return the hosting capacity of each query in MW, distributed evenly over loaded buses.

    Negative where the limits are violated already. It is a bisection with several levels, of all
    queries, in one call; a snapshot without solution violates the limits.
    """
    loaded = feeder.nominal_kw > 0.0
    weights = loaded / loaded.sum()
    nominal_kw = float(feeder.nominal_kw.sum())
    low = np.full(len(queries), _MIN * nominal_kw)
    high = np.full(len(queries), _MAX * nominal_kw)
    sign = np.array([-1.0 if query.feeds_in else 1.0 for query in queries])
    load_kw = np.stack([query.load_kw for query in queries])
    load_kvar = np.stack([query.load_kvar for query in queries])
    each = np.arange(len(queries))
    for _ in range(_ROUNDS):
        levels = np.linspace(low, high, _LEVELS, axis=1)
        added = (sign[:, None] * levels)[:, :, None] * weights
        flow = power_flow(
            feeder,
            load_kw=(load_kw[:, None] + added).reshape(-1, feeder.buses),
            load_kvar=np.repeat(load_kvar, _LEVELS, axis=0),
        )
        broken = ~_kept(feeder, flow, queries)
        broken[:, -1] = True  # the search ends at the last level
        first = np.argmax(broken, axis=1)
        low, high = levels[each, np.maximum(first - 1, 0)], levels[each, first]
    return [float(kw) / 1e3 for kw in low]


def _kept(feeder: Feeder, flow: Flow, queries: Sequence[HostingQuery]) -> NDArray[np.bool_]:
    """Return for each query and level whether the limits are kept."""
    shape = (len(queries), _LEVELS)
    voltage = flow.voltage_pu[:, feeder.not_slack].reshape(*shape, -1)
    low = np.array([query.low_pu for query in queries])[:, None, None]
    high = np.array([query.high_pu for query in queries])[:, None, None]
    inside = (voltage >= low) & (voltage <= high)  # false for NaN
    rating = np.where(np.isnan(feeder.rated_a), math.inf, feeder.rated_a)
    carried = (flow.current_a <= rating).reshape(*shape, -1)
    return np.asarray(np.concatenate([inside, carried], axis=2).all(axis=2))
