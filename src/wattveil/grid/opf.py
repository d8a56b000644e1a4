"""Optimal power flow: set points of inverters, capacitors and the tap changer.

Branch-flow model of a radial feeder (Farivar and Low 2013), relaxed to a second-order cone. With
v = |V|², l = |I|², per unit, for the branch from i towards j with series impedance r + jx::

    P_ij - r l_ij = p_j + sum_k P_jk
    Q_ij - x l_ij + b_j v_j = q_j + sum_k Q_jk          b_j: capacitors and half of the charging
    v_j = v_i - 2 (r P_ij + x Q_ij) + (r² + x²) l_ij
    l_ij v_i >= P_ij² + Q_ij²                            an equality in nature

The power from the substation is minimised: losses and curtailed generation have equal weight. The
relaxation is not assumed to be tight: the set points are checked by `power_flow`, whose result is
returned with the difference of the voltages for each snapshot.

With a held substation voltage and nothing else to control there is one solution, so the optimal
power flow is the power flow; the paper's two experiments are of that kind.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.errors import InvalidParameterError, MissingExtraError
from wattveil.grid.feeders import Feeder
from wattveil.grid.flow import Flow, crossed_table, power_flow, snapshots, snapshots_table
from wattveil.web.results import PrivateResult, ResultTable

MATPOWER_LIMITS_PU = (0.9, 1.1)
_BASE_MVA = 1.0
# A branch without resistance costs nothing, so nothing would keep its l from growing: it pays this.
_MIN_PRICE_PU = 1e-7


@dataclass(frozen=True, kw_only=True, eq=False)
class Controls:
    """Controls of each snapshot; without arguments there are none.

    Parameters
    ----------
    inverter_kva : (n,)
        Rating of the inverters of each bus, a limit on apparent power.
    available_kw : (T, n)
        Available PV power; the rest is curtailed.
    capacitor_kvar : (n,)
        Switchable capacitors, modelled as continuous and as constant power.
    slack_pu
        Range of the tap changer of the substation, modelled as continuous.
    """

    inverter_kva: ArrayLike | None = None
    available_kw: ArrayLike | None = None
    capacitor_kvar: ArrayLike | None = None
    slack_pu: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)  # the load may be private
class OptimalFlow(PrivateResult):
    """Optimal set points and the exact power flow at them.

    Attributes
    ----------
    flow
        Power flow at the set points; NaN without set points.
    pv_kw, inverter_kvar, capacitor_kvar : (T, n)
        Output of inverters and capacitors.
    slack_pu : (T,)
        Voltage of the substation.
    cone_error_pu : (T,)
        Largest difference between a voltage of the cone program and the exact one. Where it is not
        near 0, the relaxation was not tight and the set points need not be optimal.
    failures
        Snapshots without set points, and the reason: mostly infeasible limits.
    """

    flow: Flow
    pv_kw: Floats
    inverter_kvar: Floats
    capacitor_kvar: Floats
    slack_pu: Floats
    cone_error_pu: Floats
    failures: Mapping[int, str]

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        set_points = ("pv_kw", "inverter_kvar", "capacitor_kvar")
        return {
            "set_points": lambda: crossed_table(self, "bus", *set_points),
            "substation": lambda: snapshots_table(self, "slack_pu", "cone_error_pu"),
            **self.flow._result_tables(),  # noqa: SLF001 - same base
        }


def optimal_power_flow(
    feeder: Feeder,
    *,
    load_kw: ArrayLike,
    load_kvar: ArrayLike,
    controls: Controls | None = None,
    limits_pu: tuple[float, float] = MATPOWER_LIMITS_PU,
) -> OptimalFlow:
    """Choose the set points of each snapshot that minimise the power from the substation.

    Parameters
    ----------
    feeder
        A radial network.
    load_kw, load_kvar : (T, n) or (n,)
        Three-phase load of each bus.
    controls
        Available controls; none if omitted.
    limits_pu
        Voltage limits of every bus except the substation.
    """
    if not feeder.radial:
        raise InvalidParameterError("feeder", "radial for the branch-flow model", feeder.name)
    active = snapshots(feeder, "load_kw", load_kw)
    reactive = snapshots(feeder, "load_kvar", load_kvar)
    low, high = (checks.positive("limits_pu", limit) for limit in limits_pu)
    if low >= high:
        raise InvalidParameterError("limits_pu", "a lower and a higher voltage", limits_pu)
    if active.shape != reactive.shape:
        raise InvalidParameterError("load_kvar", f"of shape {active.shape}", reactive.shape)
    room = _Room.of(feeder, controls or Controls(), len(active))
    program = _ConeProgram(feeder, room, low, high)
    points, failures = [], {}
    for snapshot, (p_kw, q_kvar, sun_kw) in enumerate(
        zip(active, reactive, room.available_kw, strict=True)
    ):
        found = program.solve(p_kw, q_kvar, sun_kw)
        if isinstance(found, str):
            failures[snapshot] = found
            found = _Point.idle(feeder)
        points.append(found)
    pv_kw = np.stack([point.pv_kw for point in points])
    inverter_kvar = np.stack([point.inverter_kvar for point in points])
    capacitor_kvar = np.stack([point.capacitor_kvar for point in points])
    cone_pu = np.stack([point.voltage_pu for point in points])
    flow = power_flow(
        feeder,
        load_kw=active - pv_kw,
        load_kvar=reactive - inverter_kvar - capacitor_kvar,
        slack_pu=cone_pu[:, feeder.slack],
    ).without(failures)
    return OptimalFlow(
        flow=flow,
        pv_kw=pv_kw,
        inverter_kvar=inverter_kvar,
        capacitor_kvar=capacitor_kvar,
        slack_pu=cone_pu[:, feeder.slack],
        cone_error_pu=np.abs(cone_pu - flow.voltage_pu).max(axis=1),
        failures=flow.failures,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Room:
    """The controls as full arrays."""

    inverter_kva: Floats
    available_kw: Floats
    capacitor_kvar: Floats
    slack_low: float
    slack_high: float

    @classmethod
    def of(cls, feeder: Feeder, controls: Controls, count: int) -> "_Room":
        zeros = np.zeros(feeder.buses)
        columns = {}
        for name, shape in (
            ("inverter_kva", zeros.shape),
            ("capacitor_kvar", zeros.shape),
            ("available_kw", (count, feeder.buses)),
        ):
            given = getattr(controls, name)
            values = checks.numbers(name, zeros if given is None else given)
            if not (np.isfinite(values).all() and (values >= 0.0).all()):
                raise InvalidParameterError(name, "finite and at least 0", "something else")
            try:
                columns[name] = np.broadcast_to(values, shape)
            except ValueError as error:
                raise InvalidParameterError(name, f"of shape {shape}", values.shape) from error
        low, high = controls.slack_pu or (feeder.slack_pu, feeder.slack_pu)
        if not 0.0 < low <= high:
            raise InvalidParameterError("slack_pu", "a lower and a higher voltage", (low, high))
        return cls(**columns, slack_low=low, slack_high=high)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Point:
    """The set points of one snapshot, and the voltages of the cone program."""

    pv_kw: Floats
    inverter_kvar: Floats
    capacitor_kvar: Floats
    voltage_pu: Floats

    @classmethod
    def idle(cls, feeder: Feeder) -> "_Point":
        """Return placeholder set points of a snapshot without solution."""
        zeros = np.zeros(feeder.buses)
        held = np.full(feeder.buses, feeder.slack_pu)
        return cls(pv_kw=zeros, inverter_kvar=zeros, capacitor_kvar=zeros, voltage_pu=held)


class _ConeProgram:
    """The cone program, built once; loads and available PV power are its parameters."""

    def __init__(self, feeder: Feeder, room: _Room, low: float, high: float) -> None:
        cp = _cvxpy()
        self.kw = _BASE_MVA * 1e3
        base_ohm = feeder.base_kv**2 / _BASE_MVA
        parent, child = _orientation(feeder)
        r, x = feeder.r_ohm / base_ohm, feeder.x_ohm / base_ohm
        buses, branches = feeder.buses, feeder.from_bus.size
        one = np.ones(branches)
        each = np.arange(branches)
        arrives = coo_array((one, (child, each)), shape=(buses, branches)).tocsr()
        leaves = coo_array((one, (parent, each)), shape=(buses, branches)).tocsr()
        charging = (arrives + leaves) @ (feeder.b_us * 1e-6 * base_ohm / 2.0)
        shunt = feeder.capacitor_kvar / self.kw + charging

        self.load_p, self.load_q = cp.Parameter(buses), cp.Parameter(buses)
        self.sun = cp.Parameter(buses, nonneg=True)
        self.v, self.pv, self.inverter_q = (cp.Variable(buses) for _ in range(3))
        self.capacitor_q = cp.Variable(buses)
        current, p, q = (cp.Variable(branches) for _ in range(3))
        source_p, source_q = cp.Variable(), cp.Variable()
        at_slack = np.zeros(buses)
        at_slack[feeder.slack] = 1.0
        v_sending = leaves.T @ self.v
        limits = feeder.not_slack
        price = np.maximum(_MIN_PRICE_PU - r, 0.0)
        self.problem = cp.Problem(
            cp.Minimize(source_p + price @ current),
            [
                arrives @ (p - cp.multiply(r, current)) + at_slack * source_p
                == self.load_p - self.pv + leaves @ p,
                arrives @ (q - cp.multiply(x, current))
                + cp.multiply(shunt, self.v)
                + at_slack * source_q
                == self.load_q - self.inverter_q - self.capacitor_q + leaves @ q,
                arrives.T @ self.v
                == v_sending
                - 2.0 * (cp.multiply(r, p) + cp.multiply(x, q))
                + cp.multiply(r**2 + x**2, current),
                # l v >= P² + Q² as a cone: ||(2P, 2Q, l - v)|| <= l + v
                cp.SOC(
                    current + v_sending, cp.vstack([2.0 * p, 2.0 * q, current - v_sending]), axis=0
                ),
                self.v[limits] >= low**2,
                self.v[limits] <= high**2,
                self.v[feeder.slack] >= room.slack_low**2,
                self.v[feeder.slack] <= room.slack_high**2,
                self.pv >= 0.0,
                self.pv <= self.sun,
                # P² + Q² <= S² of the inverters
                cp.SOC(room.inverter_kva / self.kw, cp.vstack([self.pv, self.inverter_q]), axis=0),
                self.capacitor_q >= 0.0,
                self.capacitor_q <= room.capacitor_kvar / self.kw,
            ],
        )
        self.solver_error = cp.SolverError

    def solve(self, active_kw: Floats, reactive_kvar: Floats, sun_kw: Floats) -> _Point | str:
        """Solve one snapshot, or return the reason why there is no solution."""
        self.load_p.value = active_kw / self.kw
        self.load_q.value = reactive_kvar / self.kw
        self.sun.value = sun_kw / self.kw
        try:
            self.problem.solve(solver="CLARABEL")
        except self.solver_error as error:
            return str(error)
        if self.problem.status != "optimal":
            return str(self.problem.status)
        return _Point(
            pv_kw=self.pv.value * self.kw,
            inverter_kvar=self.inverter_q.value * self.kw,
            capacitor_kvar=self.capacitor_q.value * self.kw,
            voltage_pu=np.sqrt(self.v.value),
        )


def _orientation(feeder: Feeder) -> tuple[Ints, Ints]:
    """Return the end of each branch that is nearer to the substation, and the other."""
    ends = (np.ones(feeder.from_bus.size), (feeder.from_bus, feeder.to_bus))
    graph = coo_array(ends, shape=(feeder.buses, feeder.buses)).tocsr()
    order = breadth_first_order(graph, feeder.slack, directed=False)[0]
    rank = np.empty(feeder.buses, np.int64)
    rank[order] = np.arange(feeder.buses)
    swapped = rank[feeder.from_bus] > rank[feeder.to_bus]
    parent = np.where(swapped, feeder.to_bus, feeder.from_bus)
    return parent, np.where(swapped, feeder.from_bus, feeder.to_bus)


def _cvxpy() -> Any:  # noqa: ANN401 -- cvxpy ships no types
    try:
        import cvxpy  # noqa: PLC0415 -- an extra, needed only here
    except ImportError as error:
        raise MissingExtraError("optimal power flow", "opf") from error
    return cvxpy
