"""Utility metrics U1 to U3 of docs/evaluation.md. PRIVATE.

Results of a study on other customers S relative to the same study on the real customers R.
"""

import numpy as np
from sklearn.linear_model import Ridge, RidgeClassifier

from wattveil.arrays import Floats
from wattveil.lab.evaluation.customer_samples import FEW, Sample, SampleLayout, evenly
from wattveil.lab.evaluation.fidelity_metrics import FidelityMetric
from wattveil.numerics.kmeans.lloyd import assign

_MAX_DAYS = 20_000

# A time-of-use tariff, and a battery and PV panels of typical size: public assumptions.
_PRICE, _PEAK_PRICE, _PEAK_HOURS = 0.20, 0.40, (16.0, 20.0)
_BATTERY_SHARE = 0.9
_PANELS_KW, _SUN_HOURS = 3.0, (6.0, 18.0)


def forecast_loss(real: Sample, other: Sample) -> tuple[float, float]:
    """U1: ``MAE_TSTR / MAE_TRTR - 1`` and ``|MAE_TRTS / MAE_TRTR - 1|`` of a forecast.

    Train on synthetic (S) or real (R) customers, test on the other: ridge regression of a day on
    the day before; of a single typical day, of its second half on its first.
    """
    own, own_test = _split(_pairs(real))
    others, others_test = _split(_pairs(other))
    base = _forecast_error(own, own_test)
    tstr = _forecast_error(others, own_test) / base - 1.0
    return tstr, abs(_forecast_error(own, others_test) / base - 1.0)


def day_type_loss(real: Sample, other: Sample) -> tuple[float]:
    """U1: ``accuracy_TRTR - accuracy_TSTR`` of classifying day types by shape.

    Weekday and weekend, or the typical days of the grid; balanced accuracy.
    """
    learn, test = _split(evenly(_shapes(real), _MAX_DAYS))
    others, _ = _split(evenly(_shapes(other), _MAX_DAYS))
    return (_accuracy(learn, test) - _accuracy(others, test),)


def decision_error(real: Sample, other: Sample) -> tuple[float, float, float]:
    """U2: relative error of three decisions: a mean bill, a battery size, PV self-consumption.

    * bill: ``sum_t price_t x_t`` under a tariff of 0.20 a kWh and 0.40 from 16 to 20 h
    * battery: kWh that cover the hours from 16 to 20 h for 90 % of the customers
    * panels: share of the energy of 3 kW of panels that is used at home
    """
    decisions = [_decisions(sample) for sample in (real, other)]
    return tuple(
        abs(theirs - ours) / max(abs(ours), 1e-12) for ours, theirs in zip(*decisions, strict=True)
    )


def clustering_loss(real: Sample, other: Sample) -> tuple[float]:
    """U3: ``r(R, c_S) / r(R, c_R) - 1``, ``r(X, c) = 1/P sum_p min_k |x_p - c_k|^2``.

    c_S are the centroids of K-means on S. This is the paper's DP accuracy loss, with customers
    reassigned, for centroids from synthetic customers.
    """
    rows, centroids = evenly(real.typical, FEW), other.clusters.centroids
    apart = rows - centroids[assign(rows, centroids)]
    loss = float(np.square(apart).sum(axis=1).mean())
    return (loss / max(real.clusters.loss, 1e-12) - 1.0,)


def _pairs(sample: Sample) -> Floats:
    """Return predictors and targets of the forecast: (n, 2, slots)."""
    layout = sample.layout
    if layout.days == 1:
        half = layout.slots_per_day // 2
        return sample.load_kw[:, : 2 * half].reshape(-1, 2, half)
    both = np.stack([sample.days[:, :-1], sample.days[:, 1:]], axis=2)
    return evenly(both.reshape(-1, 2, layout.slots_per_day), _MAX_DAYS)


def _split(rows: Floats) -> tuple[Floats, Floats]:
    """Return the first half of the rows, for training, and the second, for testing.

    Days of a customer are adjacent: all but one customer fall into one half.
    """
    half = len(rows) // 2
    return rows[:half], rows[half:]


def _forecast_error(learn: Floats, test: Floats) -> float:
    model = Ridge().fit(learn[:, 0], learn[:, 1])
    return float(np.abs(model.predict(test[:, 0]) - test[:, 1]).mean())


def _shapes(sample: Sample) -> Floats:
    """Return each day over its mean absolute load, and its type as the last column."""
    days = sample.rows.reshape(-1, sample.layout.slots_per_day)
    size = np.maximum(np.abs(days).mean(axis=1, keepdims=True), 1e-12)
    kinds = np.tile(sample.layout.day_type, len(sample.load_kw))
    return np.column_stack([days / size, kinds])


def _accuracy(learn: Floats, test: Floats) -> float:
    """Return the balanced accuracy of a linear classifier."""
    model = RidgeClassifier(class_weight="balanced").fit(learn[:, :-1], learn[:, -1])
    right = model.predict(test[:, :-1]) == test[:, -1]
    return float(np.mean([right[test[:, -1] == kind].mean() for kind in np.unique(test[:, -1])]))


def _one_type(layout: SampleLayout, _customers: int) -> str:
    several = np.unique(layout.day_type).size > 1
    return "" if several else "needs several day types"


def _decisions(sample: Sample) -> tuple[float, float, float]:
    hour, slot_hours = sample.layout.hour, sample.layout.slot_hours
    dear = (hour >= _PEAK_HOURS[0]) & (hour < _PEAK_HOURS[1])
    mean_day = sample.days.mean(axis=1)
    bill = float((mean_day @ np.where(dear, _PEAK_PRICE, _PRICE)).mean() * slot_hours)
    evening = mean_day[:, dear].sum(axis=1) * slot_hours
    battery = float(np.quantile(evening, _BATTERY_SHARE))
    sun = _panels(hour)
    used = np.minimum(np.maximum(mean_day, 0.0), sun).sum(axis=1) / sun.sum()
    return bill, battery, float(used.mean())


def _panels(hour: Floats) -> Floats:
    """Return PV generation on a clear day: half a sine from 6 to 18 h."""
    first, last = _SUN_HOURS
    return _PANELS_KW * np.maximum(np.sin(np.pi * (hour - first) / (last - first)), 0.0)


UTILITY_METRICS = (
    FidelityMetric(
        figures=(("U1 forecast, TSTR beyond TRTR", "relative"), ("U1 forecast, TRTS", "relative")),
        measure=forecast_loss,
    ),
    FidelityMetric(
        figures=(("U1 day type, accuracy loss", ""),), measure=day_type_loss, missing=_one_type
    ),
    FidelityMetric(
        figures=(
            ("U2 bill under a tariff", "relative"),
            ("U2 size of a battery", "relative"),
            ("U2 self-consumption of PV", "relative"),
        ),
        measure=decision_error,
    ),
    FidelityMetric(figures=(("U3 clusters from synthetic", "loss"),), measure=clustering_loss),
)
