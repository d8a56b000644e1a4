"""Metrics A1 to A6: what the medium-voltage network sees of a population."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from wattveil.grid.metric import (
    Metric,
    by_difference,
    by_ratio,
    by_wasserstein,
)
from wattveil.grid.network import Feeder, Floats
from wattveil.grid.observe import RANGE_A_PU, RANGE_B_PU, Observation, Setting
from wattveil.measures.samples import kolmogorov_smirnov

Limits = tuple[float, float]
Outside = NDArray[np.bool_]

_BRANCHES = (("median branch", 0.5), ("95 % of branches", 0.95), ("largest", 1.0))
# A branch with less than this share of the largest current feeds nobody: its ratio says nothing.
_CARRIES = 1e-6


def network_metrics(setting: Setting) -> tuple[Metric, ...]:
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


def _voltages() -> list[Metric]:
    """A1: the paper's histograms, made numbers; of all hours together, and hour by hour."""

    def lowest(seen: Observation) -> float:
        return float(seen.voltage_pu.min())

    return [
        by_wasserstein("A1 voltage, W1", "pu", lambda x: np.sort(x.voltage_pu, axis=None)),
        by_wasserstein("A1 voltage, W1 by hour", "pu", lambda x: np.sort(x.voltage_pu, axis=1)),
        Metric(
            name="A1 voltage, KS",
            unit="pu, lowest",
            value=lowest,
            distance=lambda s, t: kolmogorov_smirnov(
                np.sort(s.voltage_pu, axis=None), np.sort(t.voltage_pu, axis=None)
            ),
        ),
        by_wasserstein("A1 angle, W1", "degree", lambda x: np.sort(x.angle_deg, axis=None)),
        by_wasserstein("A1 angle, W1 by hour", "degree", lambda x: np.sort(x.angle_deg, axis=1)),
    ]


def _violations(slot_hours: float) -> list[Metric]:
    """A2: how often, at how many nodes and for how long the voltage leaves its range."""

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
        Metric(
            name="A2 longest time outside range A, by node",
            unit="h, longest",
            value=lambda seen: float(hours(seen).max()),
            distance=lambda s, t: float(np.abs(hours(s) - hours(t)).mean()),
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


def _currents() -> list[Metric]:
    """A4: ``|max_t I_s / max_t I_t - 1|`` over branches."""

    def value(seen: Observation, quantile: float) -> float:
        return float(np.quantile(_peak_current(seen), quantile))

    def distance(s: Observation, t: Observation, quantile: float) -> float:
        real = _peak_current(t)
        carries = real > _CARRIES * real.max()
        errors = np.abs(_peak_current(s)[carries] / real[carries] - 1.0)
        return float(np.quantile(errors, quantile))

    return [
        Metric(
            name=f"A4 peak current, {name}",
            unit="A",
            value=partial(value, quantile=quantile),
            distance=partial(distance, quantile=quantile),
        )
        for name, quantile in _BRANCHES
    ]


def _loadings(feeder: Feeder) -> list[Metric]:
    """A4, where ratings are known: loading of the branches, and how many are overloaded."""
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


def _load_of_the_feeder(slot_hours: float) -> list[Metric]:
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
        Metric(
            name="A5 load duration curve, NRMSE",
            unit="kW",
            value=lambda seen: float(seen.feeder_kw.mean()),
            distance=curve_error,
        ),
    ]


def _hosting(feeder: Feeder) -> list[Metric]:
    """A6: hosting capacity. Distances are shares of the nominal load: it may itself be near 0."""
    nominal_mw = float(feeder.nominal_kw.sum()) / 1e3
    return [
        Metric(
            name="A6 hosting capacity, panels",
            unit="MW",
            value=lambda seen: seen.panels_mw,
            distance=lambda s, t: abs(s.panels_mw - t.panels_mw) / nominal_mw,
        ),
        Metric(
            name="A6 hosting capacity, load",
            unit="MW",
            value=lambda seen: seen.more_load_mw,
            distance=lambda s, t: abs(s.more_load_mw - t.more_load_mw) / nominal_mw,
        ),
    ]
