"""Grid metrics: A1 to A6 of the medium-voltage network, B7 to B10 of transformers and customers.

A metric has a value, for the table, and a distance between two observations, which is compared with
sampling variability. The network metrics see aggregated load; the metrics of transformers and
customers distinguish populations.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np
from numpy.typing import NDArray

from wattveil.arrays import Floats
from wattveil.grid.feeders import Feeder
from wattveil.grid.observation import (
    GROUP_SIZES,
    RANGE_A_PU,
    RANGE_B_PU,
    GridSetting,
    Observation,
    Transformers,
)
from wattveil.numerics.measures.fidelity_measures import kolmogorov_smirnov, wasserstein
from wattveil.web.formatting import format_count

Value = Callable[[Observation], float]
SampleOf = Callable[[Observation], Floats]
Distance = Callable[[Observation, Observation], float]


class Compared(StrEnum):
    """What the distance of a metric compares, beside its value."""

    VALUE = "value"
    """The values, by their difference."""
    RATIO = "ratio"
    """The values, by their ratio: both are positive."""
    DISTRIBUTION = "distribution"
    """Samples or curves: they may differ where the value, one number of them, does not."""


@dataclass(frozen=True, kw_only=True)
class GridMetric:
    """A metric: its value, for the table, and the distance that is compared."""

    name: str
    unit: str
    value: Value
    distance: Distance
    compares: Compared = Compared.DISTRIBUTION
    minimum: float = -math.inf
    """Smallest possible value: no interval reaches below it."""
    shown: str = ""
    """Which number of a distribution or curve the value is; empty if the value is compared."""


def by_difference(name: str, unit: str, value: Value) -> GridMetric:
    """Return the metric of a value from 0 on whose distance is ``|s - t|``, in its unit."""
    return GridMetric(
        name=name,
        unit=unit,
        value=value,
        distance=lambda s, t: abs(value(s) - value(t)),
        compares=Compared.VALUE,
        minimum=0.0,
    )


def by_ratio(name: str, unit: str, value: Value) -> GridMetric:
    """Return the metric whose distance is ``|s / t - 1|``."""
    return GridMetric(
        name=name,
        unit=unit,
        value=value,
        distance=lambda s, t: abs(value(s) / value(t) - 1.0),
        compares=Compared.RATIO,
        minimum=0.0,
    )


def by_wasserstein(name: str, unit: str, sample: SampleOf) -> GridMetric:
    """Return the metric whose distance is that of two sorted samples; its value is the mean."""
    return GridMetric(
        name=name,
        unit=unit,
        value=lambda seen: float(sample(seen).mean()),
        distance=lambda s, t: wasserstein(sample(s), sample(t)),
        shown="mean",
    )


# --- network: A1 to A6 ----------------------------------------------------------------------------


Limits = tuple[float, float]
Outside = NDArray[np.bool_]

_BRANCHES = (("median branch", 0.5), ("95 % of branches", 0.95), ("largest", 1.0))
# A branch with less than this share of the largest current has no load: its ratio is undefined.
_CARRIES = 1e-6


def network_metrics(setting: GridSetting) -> tuple[GridMetric, ...]:
    """Return the metrics of the network, in the order of the table."""
    return (
        *_voltages(),
        *_violations(setting.slot_hours),
        by_ratio("A3 losses", "share", _losses),
        *_currents(),
        *_loadings(setting.feeder),
        *_load_of_the_feeder(setting.slot_hours),
        *_hosting(setting.feeder),
    )


def _voltages() -> list[GridMetric]:
    """A1: distances of the paper's histograms, of all hours together and hour by hour."""

    def lowest(seen: Observation) -> float:
        return float(seen.voltage_pu.min())

    return [
        by_wasserstein("A1 voltage, W1", "pu", lambda x: np.sort(x.voltage_pu, axis=None)),
        by_wasserstein("A1 voltage, W1 by hour", "pu", lambda x: np.sort(x.voltage_pu, axis=1)),
        GridMetric(
            name="A1 voltage, KS",
            unit="pu",
            shown="lowest",
            value=lowest,
            distance=lambda s, t: kolmogorov_smirnov(
                np.sort(s.voltage_pu, axis=None), np.sort(t.voltage_pu, axis=None)
            ),
        ),
        by_wasserstein("A1 angle, W1", "degree", lambda x: np.sort(x.angle_deg, axis=None)),
        by_wasserstein("A1 angle, W1 by hour", "degree", lambda x: np.sort(x.angle_deg, axis=1)),
    ]


def _violations(slot_hours: float) -> list[GridMetric]:
    """A2: share of readings and nodes, and duration, with a voltage outside of the range."""

    def readings(seen: Observation, limits: Limits) -> float:
        return float(_outside(seen, limits).mean())

    def nodes(seen: Observation, limits: Limits) -> float:
        return float(_outside(seen, limits).any(axis=0).mean())

    def hours(seen: Observation) -> Floats:
        return slot_hours * longest_runs(_outside(seen, RANGE_A_PU))

    return [
        by_difference("A2 readings outside range A", "share", partial(readings, limits=RANGE_A_PU)),
        by_difference("A2 readings outside range B", "share", partial(readings, limits=RANGE_B_PU)),
        by_difference("A2 nodes ever outside range A", "share", partial(nodes, limits=RANGE_A_PU)),
        by_difference("A2 nodes ever outside range B", "share", partial(nodes, limits=RANGE_B_PU)),
        GridMetric(
            name="A2 longest time outside range A, by node",
            unit="h",
            shown="longest",
            value=lambda seen: float(hours(seen).max()),
            distance=lambda s, t: float(np.abs(hours(s) - hours(t)).mean()),
            minimum=0.0,
        ),
    ]


def _outside(seen: Observation, limits: Limits) -> Outside:
    low, high = limits
    return (seen.voltage_pu < low) | (seen.voltage_pu > high)


def longest_runs(outside: Outside) -> Floats:
    """Return the longest run of true values in each column."""
    longest, current = np.zeros(outside.shape[1]), np.zeros(outside.shape[1])
    for row in outside:
        current = np.where(row, current + 1.0, 0.0)
        longest = np.maximum(longest, current)
    return longest


def _losses(seen: Observation) -> float:
    """A3: ``sum_t sum_e r_e I_e(t)² / sum_t P_source(t)``."""
    return float(seen.flow.loss_kw.sum() / seen.flow.source_kw.sum())


def _currents() -> list[GridMetric]:
    """A4: ``|max_t I_s / max_t I_t - 1|`` over branches."""

    def value(seen: Observation, quantile: float) -> float:
        return float(np.quantile(_peak_current(seen), quantile))

    def distance(s: Observation, t: Observation, quantile: float) -> float:
        real = _peak_current(t)
        carries = real > _CARRIES * real.max()
        errors = np.abs(_peak_current(s)[carries] / real[carries] - 1.0)
        return float(np.quantile(errors, quantile))

    return [
        GridMetric(
            name=f"A4 peak current, {name}",
            unit="A",
            value=partial(value, quantile=quantile),
            distance=partial(distance, quantile=quantile),
            minimum=0.0,
        )
        for name, quantile in _BRANCHES
    ]


def _loadings(feeder: Feeder) -> list[GridMetric]:
    """A4, with known ratings: loading of the branches and share of overloaded branches."""
    rated = ~np.isnan(feeder.rated_a)
    if not rated.any():
        return []

    def loading(seen: Observation) -> Floats:
        share: Floats = (_peak_current(seen) / feeder.rated_a)[rated]
        return share

    def value(seen: Observation, quantile: float) -> float:
        return float(np.quantile(loading(seen), quantile))

    return [
        *(
            by_difference(f"A4 loading, {name}", "share", partial(value, quantile=quantile))
            for name, quantile in _BRANCHES
        ),
        by_difference(
            "A4 overloaded branches", "share", lambda seen: float((loading(seen) > 1.0).mean())
        ),
    ]


def _peak_current(seen: Observation) -> Floats:
    peak: Floats = seen.flow.current_a.max(axis=0)
    return peak


def _load_of_the_feeder(slot_hours: float) -> list[GridMetric]:
    """A5: the peak of the feeder, its hour, the load factor, the load duration curve."""

    def curve_error(s: Observation, t: Observation) -> float:
        # sqrt(mean_k (L_s[k] - L_t[k])²) / mean(L_t), L sorted
        gap = np.sort(s.feeder_kw) - np.sort(t.feeder_kw)
        return float(np.sqrt(np.mean(gap**2)) / abs(t.feeder_kw.mean()))

    return [
        by_ratio("A5 peak", "kW", lambda seen: float(seen.feeder_kw.max())),
        by_difference(
            "A5 hour of the peak", "h", lambda seen: slot_hours * float(np.argmax(seen.feeder_kw))
        ),
        by_difference(
            "A5 load factor", "", lambda seen: float(seen.feeder_kw.mean() / seen.feeder_kw.max())
        ),
        GridMetric(
            name="A5 load duration curve, NRMSE",
            unit="kW",
            shown="mean load",
            value=lambda seen: float(seen.feeder_kw.mean()),
            distance=curve_error,
        ),
    ]


def _hosting(feeder: Feeder) -> list[GridMetric]:
    """A6: hosting capacity. Distances are shares of the nominal load: it may itself be near 0."""
    nominal_mw = float(feeder.nominal_kw.sum()) / 1e3
    return [
        GridMetric(
            name="A6 hosting capacity, PV",
            unit="MW",
            value=lambda seen: seen.panels_mw,
            distance=lambda s, t: abs(s.panels_mw - t.panels_mw) / nominal_mw,
            compares=Compared.VALUE,
        ),
        GridMetric(
            name="A6 hosting capacity, load",
            unit="MW",
            value=lambda seen: seen.more_load_mw,
            distance=lambda s, t: abs(s.more_load_mw - t.more_load_mw) / nominal_mw,
            compares=Compared.VALUE,
        ),
    ]


# --- transformers and customers: B7 to B10 --------------------------------------------------------


_COINCIDENCE_SIZES = (8, 64)


def customer_metrics(setting: GridSetting) -> tuple[GridMetric, ...]:
    """Return the metrics of transformers and customers, in the order of the table."""
    sizes = [homes for homes in GROUP_SIZES if homes <= setting.placement.houses]
    return (
        *_coincidence([homes for homes in sizes if homes in _COINCIDENCE_SIZES]),
        *_diversity(sizes),
        *(_overload() if setting.transformer_homes <= setting.placement.houses else ()),
        *_customers(),
    )


def _coincidence(sizes: list[int]) -> list[GridMetric]:
    """B7: ``max_t sum_i x_i(t) / sum_i max_t x_i(t)`` over random groups."""

    def factors(seen: Observation, homes: int) -> Floats:
        return seen.groups[homes].coincidence

    return [
        by_wasserstein(
            f"B7 coincidence of {format_count(homes, 'home')}, W1",
            "",
            partial(factors, homes=homes),
        )
        for homes in sizes
    ]


def _diversity(sizes: list[int]) -> list[GridMetric]:
    """B8: ``max_t sum_i x_i(t) / N`` over random groups, and the curve of its mean over N."""

    def demand(seen: Observation, homes: int) -> Floats:
        return seen.groups[homes].admd_kw

    def curve(seen: Observation) -> Floats:
        return np.array([seen.groups[homes].admd_kw.mean() for homes in sizes])

    return [
        *(
            by_wasserstein(
                f"B8 ADMD of {homes} homes, W1", "kW per home", partial(demand, homes=homes)
            )
            for homes in sizes
            if homes > 1  # of one home it is the peak of a customer, in B10
        ),
        GridMetric(
            name="B8 ADMD, mean curve",
            unit="kW per home",
            shown=f"of {format_count(sizes[-1], 'home')}",
            value=lambda seen: float(curve(seen)[-1]),
            distance=lambda s, t: float(np.abs(curve(s) / curve(t) - 1.0).max()),
        ),
    ]


def _overload() -> list[GridMetric]:
    """B9: transformers above their rating."""

    def peak(seen: Observation, quantile: float) -> float:
        return float(np.quantile(_observed_transformers(seen).peak_loading, quantile))

    return [
        by_difference(
            "B9 transformers ever above 100 %",
            "share",
            lambda seen: float((_observed_transformers(seen).peak_loading > 1.0).mean()),
        ),
        by_difference("B9 peak loading, 95 %", "share", partial(peak, quantile=0.95)),
        by_difference("B9 peak loading, 99 %", "share", partial(peak, quantile=0.99)),
        by_difference(
            "B9 hours above 100 %", "share", lambda seen: _observed_transformers(seen).hours_full
        ),
        by_difference(
            "B9 hours above 120 %, mean of 2 h",
            "share",
            lambda seen: _observed_transformers(seen).hours_hot,
        ),
    ]


def _observed_transformers(seen: Observation) -> Transformers:
    if seen.transformers is None:
        raise RuntimeError("no transformers were observed")
    return seen.transformers


def _customers() -> list[GridMetric]:
    """B10: peaks, ramps, persistence, export and silence of single customers."""
    return [
        by_wasserstein("B10 peak of a customer, W1", "kW", lambda seen: seen.peak_kw),
        GridMetric(
            name="B10 ramp, W1",
            unit="kW",
            shown="mean size",
            value=lambda seen: float(np.abs(seen.ramp_kw).mean()),
            distance=lambda s, t: float(np.abs(s.ramp_kw - t.ramp_kw).mean()),
        ),
        by_wasserstein("B10 lag-1 autocorrelation, W1", "", lambda seen: seen.autocorrelation),
        by_difference("B10 readings below 0", "share", lambda seen: seen.negative_share),
        by_difference("B10 readings of exactly 0", "share", lambda seen: seen.zero_share),
    ]
