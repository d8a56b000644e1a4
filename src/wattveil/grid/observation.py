"""Observation of a population on a feeder: network, transformers and customers."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from wattveil.arrays import Floats
from wattveil.grid.feeders import Feeder
from wattveil.grid.flow import Flow, HostingQuery, hosting_capacity_mw, power_flow
from wattveil.grid.placement import Placement
from wattveil.numerics.measures.fidelity_measures import GroupDemand, autocorrelation, group_demand
from wattveil.profiles.time_grid import TimeGrid

# ANSI C84.1, service voltage: what should be kept, and what may happen rarely.
RANGE_A_PU = (0.95, 1.05)
RANGE_B_PU = (0.9167, 1.0583)
GROUP_SIZES = (1, 2, 4, 8, 16, 64)
GROUP_ROWS = 65_536
"""Homes drawn for the groups: 8,192 groups of 8. A few hundred are one random placement: the 99th
percentile of their peaks differs by a fifth from one placement to another."""

_MIDDAY_HOURS = (10.0, 15.0)
_HEAT_HOURS = 2.0  # a transformer warms up: the mean load of two hours counts
_HEAT_LIMIT = 1.2


@dataclass(frozen=True, kw_only=True, eq=False)
class GridSetting:
    """Feeder, placement and parameters that all compared populations share.

    Attributes
    ----------
    grid
        Time grid of the snapshots.
    power_factor
        Reactive power is ``tan(arccos(power_factor))`` of the active one.
    transformer_kva, transformer_homes
        Rating of a service transformer, and the number of homes it feeds.
    """

    feeder: Feeder
    placement: Placement
    grid: TimeGrid
    power_factor: float
    transformer_kva: float
    transformer_homes: int

    @property
    def slot_hours(self) -> float:
        """Length of a snapshot."""
        return self.grid.minutes / 60.0

    @property
    def midday(self) -> NDArray[np.bool_]:
        """Mask of the midday snapshots, with the highest PV generation."""
        first, last = _MIDDAY_HOURS
        hour = np.arange(self.grid.columns) % self.grid.slots * self.slot_hours
        midday: NDArray[np.bool_] = (hour >= first) & (hour < last)
        return midday

    @property
    def follows(self) -> NDArray[np.bool_]:
        """Whether each snapshot, from the second on, follows the previous one on the same day."""
        column = np.arange(1, self.grid.columns)
        follows: NDArray[np.bool_] = (column % self.grid.slots != 0) | (column >= self.grid.cells)
        return follows


@dataclass(frozen=True, kw_only=True, eq=False)
class Transformers:
    """Service transformers, one per group of homes.

    Attributes
    ----------
    peak_loading : (G,)
        Peak load over rating of each. Sorted.
    hours_full, hours_hot
        Share of hours with a load above the rating; with a mean of two hours above 1.2 times it.
    """

    peak_loading: Floats
    hours_full: float
    hours_hot: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """A population on the feeder.

    Attributes
    ----------
    flow
        The feeder in each snapshot.
    voltage_pu, angle_deg : (T, n - 1)
        Of all buses except the slack.
    feeder_kw : (T,)
        Load of all houses together.
    panels_mw, more_load_mw
        Hosting capacity for PV at the midday snapshot of minimum load, and for load at the peak.
    groups
        By number of homes per group, up to the number of houses.
    transformers
        None if there are fewer homes than one transformer feeds.
    peak_kw : (N,)
        Highest load of each home. Sorted.
    ramp_kw
        Differences of consecutive snapshots of the same day, of all homes. Sorted.
    autocorrelation : (N,)
        Lag-1 autocorrelation; 1 for a constant load. Sorted.
    negative_share, zero_share
        Of the readings.
    """

    flow: Flow
    voltage_pu: Floats
    angle_deg: Floats
    feeder_kw: Floats
    panels_mw: float
    more_load_mw: float
    groups: Mapping[int, GroupDemand]
    transformers: Transformers | None
    peak_kw: Floats
    ramp_kw: Floats
    autocorrelation: Floats
    negative_share: float
    zero_share: float


def observe(setting: GridSetting, customers_kw: Floats, groups_kw: Floats) -> Observation:
    """Observe the feeder and the customers.

    Parameters
    ----------
    setting
        Feeder, placement and parameters.
    customers_kw : (N, T)
        One row per house.
    groups_kw : (M, T)
        Customers of random groups, neighbours in one group; at least as many as a group has. They
        are many more than the houses, so that groups do not depend on one placement.
    """
    feeder = setting.feeder
    load_kw = setting.placement.bus_load_kw(customers_kw)
    load_kvar = load_kw * np.tan(np.arccos(setting.power_factor))
    feeder_kw = load_kw.sum(axis=1)
    flow = power_flow(feeder, load_kw=load_kw, load_kvar=load_kvar)
    noon = int(np.argmin(np.where(setting.midday, feeder_kw, np.inf)))
    peak = int(np.argmax(feeder_kw))
    low_pu, high_pu = RANGE_A_PU
    panels_mw, more_load_mw = hosting_capacity_mw(
        feeder,
        [
            HostingQuery(
                load_kw=load_kw[noon], load_kvar=load_kvar[noon], feeds_in=True, high_pu=high_pu
            ),
            HostingQuery(
                load_kw=load_kw[peak], load_kvar=load_kvar[peak], feeds_in=False, low_pu=low_pu
            ),
        ],
    )
    before, after = customers_kw[:, :-1], customers_kw[:, 1:]
    return Observation(
        flow=flow,
        voltage_pu=flow.voltage_pu[:, feeder.not_slack],
        angle_deg=flow.angle_deg[:, feeder.not_slack],
        feeder_kw=feeder_kw,
        panels_mw=panels_mw,
        more_load_mw=more_load_mw,
        groups=_groups(setting.placement.houses, groups_kw),
        transformers=_transformers(setting, groups_kw),
        peak_kw=np.sort(customers_kw.max(axis=1)),
        ramp_kw=np.sort((after - before)[:, setting.follows], axis=None),
        autocorrelation=np.sort(autocorrelation(before, after)),
        negative_share=float((customers_kw < 0.0).mean()),
        zero_share=float((customers_kw == 0.0).mean()),
    )


def _groups(houses: int, groups_kw: Floats) -> dict[int, GroupDemand]:
    """Return random groups of every size up to the number of houses."""
    sizes = [homes for homes in GROUP_SIZES if homes <= houses]
    return {homes: group_demand(groups_kw, homes) for homes in sizes}


def _transformers(setting: GridSetting, groups_kw: Floats) -> Transformers | None:
    if setting.transformer_homes > setting.placement.houses:
        return None
    homes = setting.transformer_homes
    groups = len(groups_kw) // homes  # of neighbours: customers were drawn independently
    members = groups_kw[: groups * homes].reshape(groups, homes, -1)
    active_kw = members.sum(axis=1)
    # |S| = |P| / cos(phi)
    loading = np.abs(active_kw) / setting.power_factor / setting.transformer_kva
    window = min(max(1, round(_HEAT_HOURS / setting.slot_hours)), loading.shape[1])
    warm = sliding_window_view(loading, window, axis=1).mean(axis=2)
    return Transformers(
        peak_loading=np.sort(loading.max(axis=1)),
        hours_full=float((loading > 1.0).mean()),
        hours_hot=float((warm > _HEAT_LIMIT).mean()),
    )
