"""Fidelity of customers: F5, F8, F9, F12 and F13 of docs/evaluation.md. PRIVATE.

Peaks, persistence, diversity and ramps: what customers do that the mean of many does not show.
"""

from functools import partial

import numpy as np

from wattveil.evaluation.fidelity import size_kw
from wattveil.evaluation.metric import NEEDS_YEARS, Metric
from wattveil.evaluation.sample import Floats, Layout, Sample
from wattveil.measures.samples import circular_wasserstein, kolmogorov_smirnov, wasserstein

LAGS_HOURS = {"1 h": 1, "12 h": 12, "24 h": 24, "168 h": 168, "26 weeks": 26 * 168}
GROUP_SIZES = (1, 5, 10, 25, 50, 100)
_WINDOW_HOURS = (16.0, 23.0)


def autocorrelation_distance(real: Sample, other: Sample, *, hours: int) -> tuple[float]:
    """F5: ``rho_i(l) = corr(x_i,t, x_i,t+l)``; KS between the customers' rho of R and of S."""
    lag = _lag(real.layout, hours)
    return (kolmogorov_smirnov(real.autocorrelation(lag), other.autocorrelation(lag)),)


def peak_distance(real: Sample, other: Sample) -> tuple[float, float, float]:
    """F8: of the peak of a customer's day: W1 of ``max_t x``, circular W1 of ``argmax_t x``.

    The third figure is the peak of the mean day: ``min(|a - b|, 24 h - |a - b|)`` in minutes.
    """
    size = max(float(np.abs(real.day_peak_kw).mean()), 1e-12)
    when, when_other = (_peak_times(sample) for sample in (real, other))
    hours = circular_wasserstein(when, when_other) * real.layout.slot_hours
    a, b = (int(np.argmax(_mean_day(sample))) for sample in (real, other))
    slots = real.layout.slots_per_day
    delta = min(abs(a - b), slots - abs(a - b)) * real.layout.slot_hours * 60.0
    return wasserstein(real.day_peak_kw, other.day_peak_kw) / size, hours, delta


def load_factor_distance(real: Sample, other: Sample) -> tuple[float]:
    """F9: W1 of ``LF_i = mean_t x / max_t x``."""
    return (wasserstein(real.load_factor, other.load_factor),)


def diversity_distance(real: Sample, other: Sample, *, homes: int) -> tuple[float, ...]:
    """F12: ``ADMD(N) = E[max_t 1/N sum_{i in G} x_i,t]``, ``coincidence(N) = ADMD(N) / ADMD(1)``.

    Relative error of the first; of several homes, absolute error of the second.
    """
    admd = [float(sample.groups(homes).admd_kw.mean()) for sample in (real, other)]
    relative = abs(admd[1] - admd[0]) / max(abs(admd[0]), 1e-12)
    if homes == 1:  # its coincidence is 1
        return (relative,)
    single = [float(sample.groups(1).admd_kw.mean()) for sample in (real, other)]
    coincidence = [a / max(one, 1e-12) for a, one in zip(admd, single, strict=True)]
    return relative, abs(coincidence[1] - coincidence[0])


def ramp_distance(real: Sample, other: Sample) -> tuple[float, float, float]:
    """F13: W1 of ``x_t+1 - x_t``; W1 of the customers' 5 % quantile; share of 16 to 23 h.

    The first two over ``mean |R|``; the last is ``sum_{t in W} x / sum x`` of all customers.
    """
    shares = [_window_share(sample) for sample in (real, other)]
    size = size_kw(real)
    ramps = wasserstein(real.ramps_kw, other.ramps_kw) / size
    return ramps, wasserstein(real.base_kw, other.base_kw) / size, abs(shares[1] - shares[0])


def _lag(layout: Layout, hours: int) -> int:
    return max(round(hours / layout.slot_hours), 1)


def _too_short(layout: Layout, _customers: int, *, hours: int) -> str:
    """Ask for twice the lag without a break."""
    return "" if layout.run >= 2 * _lag(layout, hours) else NEEDS_YEARS


def _too_few(_layout: Layout, customers: int, *, homes: int) -> str:
    return "" if customers >= homes else f"needs {2 * homes} customers"


def _homes(number: int) -> str:
    return "1 home" if number == 1 else f"{number} homes"


def _mean_day(sample: Sample) -> Floats:
    mean_day: Floats = sample.aggregate_kw.reshape(sample.layout.days, -1).mean(axis=0)
    return mean_day


def _peak_times(sample: Sample) -> Floats:
    """Return the share of days that have their peak in each slot."""
    at = sample.days.argmax(axis=2)
    shares: Floats = np.bincount(at.ravel(), minlength=sample.layout.slots_per_day) / at.size
    return shares


def _window_share(sample: Sample) -> float:
    """Return the share of the energy that is used within the window; NaN without net energy."""
    day = _mean_day(sample)
    first, last = _WINDOW_HOURS
    inside = (sample.layout.hour >= first) & (sample.layout.hour < last)
    return float(day[inside].sum() / day.sum()) if day.sum() > 0.0 else float("nan")


CUSTOMER_METRICS = (
    *(
        Metric(
            figures=((f"F5 autocorrelation at {name}, KS", ""),),
            measure=partial(autocorrelation_distance, hours=hours),
            missing=partial(_too_short, hours=hours),
        )
        for name, hours in LAGS_HOURS.items()
    ),
    Metric(
        figures=(
            ("F8 peak of a day, W1", "of the mean peak"),
            ("F8 time of the peak, W1", "h"),
            ("F8 peak of the mean day, time", "min"),
        ),
        measure=peak_distance,
    ),
    Metric(figures=(("F9 load factor, W1", ""),), measure=load_factor_distance),
    *(
        Metric(
            figures=(
                (f"F12 ADMD of {_homes(homes)}", "relative"),
                (f"F12 coincidence of {_homes(homes)}", ""),
            )[: 1 if homes == 1 else 2],
            measure=partial(diversity_distance, homes=homes),
            missing=partial(_too_few, homes=homes),
        )
        for homes in GROUP_SIZES
    ),
    Metric(
        figures=(
            ("F13 ramps, W1", "of the mean load"),
            ("F13 base load, W1", "of the mean load"),
            ("F13 energy from 16 to 23 h", "share"),
        ),
        measure=ramp_distance,
    ),
)
