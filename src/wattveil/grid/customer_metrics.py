"""Metrics B7 to B10: what service transformers and customers show. These tell populations apart."""

from functools import partial

import numpy as np

from wattveil.grid.metric import Metric, by_difference, by_wasserstein
from wattveil.grid.network import Floats
from wattveil.grid.observe import GROUP_SIZES, Observation, Setting, Transformers

_COINCIDENCE_SIZES = (8, 64)


def customer_metrics(setting: Setting) -> tuple[Metric, ...]:
    """Return the metrics of so many houses, in the order of the table."""
    sizes = [homes for homes in GROUP_SIZES if homes <= setting.placement.houses]
    return (
        *_coincidence([homes for homes in sizes if homes in _COINCIDENCE_SIZES]),
        *_diversity(sizes),
        *(_overload() if setting.transformer_homes <= setting.placement.houses else ()),
        *_customers(),
    )


def _coincidence(sizes: list[int]) -> list[Metric]:
    """B7: ``max_t sum_i x_i(t) / sum_i max_t x_i(t)`` over random groups."""

    def factors(seen: Observation, homes: int) -> Floats:
        return seen.groups[homes].coincidence

    return [
        by_wasserstein(f"B7 coincidence of {homes} homes, W1", "", partial(factors, homes=homes))
        for homes in sizes
    ]


def _diversity(sizes: list[int]) -> list[Metric]:
    """B8: ``max_t sum_i x_i(t) / N`` over random groups, and the curve of its mean over N."""

    def demand(seen: Observation, homes: int) -> Floats:
        return seen.groups[homes].admd_kw

    def curve(seen: Observation) -> Floats:
        return np.array([seen.groups[homes].admd_kw.mean() for homes in sizes])

    return [
        *(
            by_wasserstein(f"B8 ADMD of {homes} homes, W1", "kW", partial(demand, homes=homes))
            for homes in sizes
            if homes > 1  # of one home it is the peak of a customer, in B10
        ),
        Metric(
            name="B8 ADMD, mean curve",
            unit=f"kW, {sizes[-1]} homes",
            value=lambda seen: float(curve(seen)[-1]),
            distance=lambda s, t: float(np.abs(curve(s) / curve(t) - 1.0).max()),
        ),
    ]


def _overload() -> list[Metric]:
    """B9: transformers above their rating."""

    def peak(seen: Observation, quantile: float) -> float:
        return float(np.quantile(_transformers(seen).peak_loading, quantile))

    return [
        by_difference(
            "B9 transformers ever above 100 %",
            "share",
            lambda seen: float((_transformers(seen).peak_loading > 1.0).mean()),
        ),
        by_difference("B9 peak loading, 95 %", "share", partial(peak, quantile=0.95)),
        by_difference("B9 peak loading, 99 %", "share", partial(peak, quantile=0.99)),
        by_difference("B9 hours above 100 %", "share", lambda seen: _transformers(seen).hours_full),
        by_difference(
            "B9 hours above 120 %, mean of 2 h", "share", lambda seen: _transformers(seen).hours_hot
        ),
    ]


def _transformers(seen: Observation) -> Transformers:
    if seen.transformers is None:
        raise RuntimeError("no transformers were observed")
    return seen.transformers


def _customers() -> list[Metric]:
    """B10: peaks, ramps, persistence, export and silence of single customers."""
    return [
        by_wasserstein("B10 peak of a customer, W1", "kW", lambda seen: seen.peak_kw),
        Metric(
            name="B10 ramp, W1",
            unit="kW, mean size",
            value=lambda seen: float(np.abs(seen.ramp_kw).mean()),
            distance=lambda s, t: float(np.abs(s.ramp_kw - t.ramp_kw).mean()),
        ),
        by_wasserstein("B10 lag-1 autocorrelation, W1", "", lambda seen: seen.autocorrelation),
        by_difference("B10 readings below 0", "share", lambda seen: seen.negative_share),
        by_difference("B10 readings of exactly 0", "share", lambda seen: seen.zero_share),
    ]
