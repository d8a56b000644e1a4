"""Fidelity metrics F1 to F18 of docs/evaluation.md. PRIVATE.

Distances of other customers S from real customers R. Slots are t = 1..d, F_R,t is the distribution
of the load of slot t, and ``mean |R|`` the mean absolute load: most figures are relative to it.
Metrics of whole profiles treat customers as points in d dimensions; those that need all pairs use
2,000 rows of each.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.linear_model import RidgeClassifier

from wattveil.arrays import Floats
from wattveil.lab.evaluation.customer_samples import Sample, SampleLayout, squared_distances
from wattveil.numerics.kmeans.lloyd import assign
from wattveil.numerics.measures.fidelity_measures import (
    circular_wasserstein,
    correlations,
    kolmogorov_smirnov,
    slot_distances,
    total_variation,
    wasserstein,
)
from wattveil.web.formatting import format_count

NEEDS_YEARS = "needs hourly years"

Measure = Callable[[Sample, Sample], Sequence[float]]


def nothing_missing(_layout: SampleLayout, _customers: int) -> str:
    """Return no reason: the metric can be computed from profiles."""
    return ""


@dataclass(frozen=True, kw_only=True)
class FidelityMetric:
    """A metric with one or more figures, one row of the table each.

    Attributes
    ----------
    figures
        Name and unit of each figure that `measure` returns, in order.
    measure
        Function of a real and another sample that returns their distances; 0 for identical
        distributions. A difference of two errors may be negative by chance.
    missing
        Function of the layout and the number of customers that returns the reason why the metric
        cannot be computed; empty if it can.
    """

    figures: tuple[tuple[str, str], ...]
    measure: Measure
    missing: Callable[[SampleLayout, int], str] = nothing_missing

    @property
    def number(self) -> tuple[str, int]:
        """Sort key of the table: F before U, by number."""
        code = self.figures[0][0].split()[0]
        return code[0], int(code[1:])


# --- slots: F1 to F4, F6, F7, F10 and F11 ---------------------------------------------------------


_OF_MEAN = "of the mean load"
_DECILES = np.arange(1, 10) / 10.0


def marginal_wasserstein(real: Sample, other: Sample) -> tuple[float, float]:
    """F1: ``W1_t = integral |F_R,t^-1(u) - F_S,t^-1(u)| du / mean |R|``; mean and largest."""
    apart, _ = slot_distances(real.sorted_slots, other.sorted_slots)
    return float(apart.mean() / size_kw(real)), float(apart.max() / size_kw(real))


def marginal_ks(real: Sample, other: Sample) -> tuple[float, float]:
    """F2: ``KS_t = sup_x |F_R,t(x) - F_S,t(x)|``; mean and largest."""
    _, apart = slot_distances(real.sorted_slots, other.sorted_slots)
    return float(apart.mean()), float(apart.max())


def profile_error(real: Sample, other: Sample) -> tuple[float, ...]:
    """F3: ``sqrt(mean_t (q_R,t - q_S,t)^2) / mean |R|``, q the mean and three quantiles."""
    curves = [real.mean_kw - other.mean_kw]
    curves += [
        slot_quantile(real.sorted_slots, q) - slot_quantile(other.sorted_slots, q)
        for q in (0.05, 0.5, 0.95)
    ]
    return tuple(_rms(apart) / size_kw(real) for apart in curves)


def shape_error(real: Sample, other: Sample) -> tuple[float, float]:
    """F4: of ``p_t = m_t / mean_t m``, m the mean profile: ``1 - corr`` and root-mean-square error.

    NaN where the net energy is not positive: the shape is undefined.
    """
    shapes = []
    for mean_kw in (real.mean_kw, other.mean_kw):
        if mean_kw.mean() <= 0.0:
            return float("nan"), float("nan")
        shapes.append(mean_kw / mean_kw.mean())
    x, y = (shape - 1.0 for shape in shapes)
    lengths = float(np.sqrt((x @ x) * (y @ y)))
    correlation = float(x @ y) / lengths if lengths > 0.0 else 1.0
    return 1.0 - correlation, _rms(x - y)


def correlation_distance(real: Sample, other: Sample) -> tuple[float, float]:
    """F6: ``||C_R - C_S||_F / ||C_R||_F``, and ``1 - tr(C_R C_S) / (||C_R||_F ||C_S||_F)``.

    C are the correlations of two slots; the second is Herdin's.
    """
    c, e = correlations(real.covariance), correlations(other.covariance)
    norm, norm_other = float(np.linalg.norm(c)), float(np.linalg.norm(e))
    herdin = 1.0 - float((c * e).sum()) / max(norm * norm_other, 1e-12)
    return float(np.linalg.norm(c - e)) / max(norm, 1e-12), herdin


def spectrum_distance(real: Sample, other: Sample) -> tuple[float]:
    """F7: ``sum_k |l_k^R - l_k^S| / tr(S_R)``, l the eigenvalues of the covariance of slots."""
    spectra = [np.linalg.eigvalsh(sample.covariance) for sample in (real, other)]
    return (float(np.abs(spectra[0] - spectra[1]).sum() / max(np.trace(real.covariance), 1e-12)),)


def duration_distance(real: Sample, other: Sample) -> tuple[float]:
    """F10: ``integral |L_R(u) - L_S(u)| du / integral |L_R(u)| du``, L the mean load, descending.

    The mean over customers in every slot of all days, sorted.
    """
    curve, curve_other = np.sort(real.aggregate_kw), np.sort(other.aggregate_kw)
    return (wasserstein(curve, curve_other) / float(np.abs(curve).mean()),)


def energy_distance(real: Sample, other: Sample) -> tuple[float, float, float]:
    """F11: of the daily energy ``E_i = 24 mean_t x_i``: W1, error of the mean, of the worst decile.

    The first two over ``mean |E_R|``, the last over the decile itself where that is not 0.
    """
    energy, energy_other = real.energy_kwh, other.energy_kwh
    size = float(np.abs(energy).mean())
    deciles, others = (np.quantile(e, _DECILES) for e in (energy, energy_other))
    worst = np.abs(others - deciles) / np.maximum(np.abs(deciles), 1e-3 * size)
    mean_error = abs(float(energy_other.mean() - energy.mean()))
    return wasserstein(energy, energy_other) / size, mean_error / size, float(worst.max())


def size_kw(sample: Sample) -> float:
    """Return the mean absolute load, ``mean |R|``."""
    return max(float(np.abs(sample.load_kw).mean()), 1e-12)


def slot_quantile(sorted_slots: Floats, q: float) -> Floats:
    """Return the quantile of every slot, read between two loads as `numpy.quantile` does."""
    place = q * (sorted_slots.shape[1] - 1)
    below = int(place)
    above = min(below + 1, sorted_slots.shape[1] - 1)
    share = place - below
    found: Floats = (1.0 - share) * sorted_slots[:, below] + share * sorted_slots[:, above]
    return found


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.square(values).mean()))


SLOT_METRICS = (
    FidelityMetric(
        figures=(("F1 W1 of a slot, mean", _OF_MEAN), ("F1 W1 of a slot, largest", _OF_MEAN)),
        measure=marginal_wasserstein,
    ),
    FidelityMetric(
        figures=(("F2 KS of a slot, mean", ""), ("F2 KS of a slot, largest", "")),
        measure=marginal_ks,
    ),
    FidelityMetric(
        figures=tuple(
            (f"F3 {which} profile, RMSE", _OF_MEAN) for which in ("mean", "5 %", "median", "95 %")
        ),
        measure=profile_error,
    ),
    FidelityMetric(
        figures=(("F4 shape, 1 - correlation", ""), ("F4 shape, RMSE", _OF_MEAN)),
        measure=shape_error,
    ),
    FidelityMetric(
        figures=(("F6 correlations of slots", "of their norm"), ("F6 correlations, Herdin", "")),
        measure=correlation_distance,
    ),
    FidelityMetric(
        figures=(("F7 spectrum of the covariance", "of its trace"),), measure=spectrum_distance
    ),
    FidelityMetric(figures=(("F10 load duration curve", _OF_MEAN),), measure=duration_distance),
    FidelityMetric(
        figures=(
            ("F11 daily energy, W1", "of the mean"),
            ("F11 daily energy, mean", "of the mean"),
            ("F11 daily energy, worst decile", "of the decile"),
        ),
        measure=energy_distance,
    ),
)


# --- customers: F5, F8, F9, F12 and F13 -----------------------------------------------------------


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


def _lag(layout: SampleLayout, hours: int) -> int:
    return max(round(hours / layout.slot_hours), 1)


def _too_short(layout: SampleLayout, _customers: int, *, hours: int) -> str:
    """Require a series of at least twice the lag."""
    return "" if layout.run >= 2 * _lag(layout, hours) else NEEDS_YEARS


def _too_few(_layout: SampleLayout, customers: int, *, homes: int) -> str:
    return "" if customers >= homes else f"needs {2 * homes} customers"


def _homes(number: int) -> str:
    return format_count(number, "home")


def _mean_day(sample: Sample) -> Floats:
    mean_day: Floats = sample.aggregate_kw.reshape(sample.layout.days, -1).mean(axis=0)
    return mean_day


def _peak_times(sample: Sample) -> Floats:
    """Return the share of days with the peak in each slot."""
    at = sample.days.argmax(axis=2)
    shares: Floats = np.bincount(at.ravel(), minlength=sample.layout.slots_per_day) / at.size
    return shares


def _window_share(sample: Sample) -> float:
    """Return the share of the energy within the window; NaN without net energy."""
    day = _mean_day(sample)
    first, last = _WINDOW_HOURS
    inside = (sample.layout.hour >= first) & (sample.layout.hour < last)
    return float(day[inside].sum() / day.sum()) if day.sum() > 0.0 else float("nan")


CUSTOMER_METRICS = (
    *(
        FidelityMetric(
            figures=((f"F5 autocorrelation at {name}, KS", ""),),
            measure=partial(autocorrelation_distance, hours=hours),
            missing=partial(_too_short, hours=hours),
        )
        for name, hours in LAGS_HOURS.items()
    ),
    FidelityMetric(
        figures=(
            ("F8 peak of a day, W1", "of the mean peak"),
            ("F8 time of the peak, W1", "h"),
            ("F8 peak of the mean day, time", "min"),
        ),
        measure=peak_distance,
    ),
    FidelityMetric(figures=(("F9 load factor, W1", ""),), measure=load_factor_distance),
    *(
        FidelityMetric(
            figures=(
                (f"F12 ADMD of {_homes(homes)}", "relative"),
                (f"F12 coincidence of {_homes(homes)}", ""),
            )[: 1 if homes == 1 else 2],
            measure=partial(diversity_distance, homes=homes),
            missing=partial(_too_few, homes=homes),
        )
        for homes in GROUP_SIZES
    ),
    FidelityMetric(
        figures=(
            ("F13 ramps, W1", "of the mean load"),
            ("F13 base load, W1", "of the mean load"),
            ("F13 energy from 16 to 23 h", "share"),
        ),
        measure=ramp_distance,
    ),
)


# --- whole profiles: F14 to F18 -------------------------------------------------------------------


_NEAREST = 5
_FOR_WIDTH = 500
_RIDGE = 0.1


def mmd(real: Sample, other: Sample) -> tuple[float]:
    """F14: unbiased ``MMD^2 = mean k(r, r') + mean k(s, s') - 2 mean k(r, s)``.

    ``k(x, y) = exp(-|x - y|^2 / (2 h^2))``, h the median distance of two real rows; pairs of a row
    with itself are left out.
    """
    some = real.own_squares[:_FOR_WIDTH, :_FOR_WIDTH]
    width = float(np.median(some[np.triu_indices(len(some), 1)])) or 1.0

    def kernel(squared: Floats) -> Floats:
        found: Floats = np.exp(squared / (-2.0 * width))
        return found

    own = [
        (kernel(sample.own_squares).sum() - len(sample.few))
        / (len(sample.few) * (len(sample.few) - 1))
        for sample in (real, other)
    ]
    across = kernel(squared_distances(real.few, other.few)).mean()
    return (float(own[0] + own[1] - 2.0 * across),)


def two_sample_classifier(real: Sample, other: Sample) -> tuple[float]:
    """F15: ``A - 1/2``, A the accuracy of a classifier of real against other rows.

    It is trained on one half and tested on the other: ``z = (A - 1/2) / sqrt(1/4 / n_test)``. Ridge
    regression on loads, their squares, products of neighbouring slots and sizes of steps: on
    synthetic homes it detects more than tree ensembles on the loads, in a twentieth of the time.
    """
    count = min(len(real.few), len(other.few))
    both = _features(np.concatenate([real.few[:count], other.few[:count]]), real.few)
    is_other = np.repeat([0, 1], count)
    learn = np.arange(2 * count) % 2 == 0
    both -= both[learn].mean(axis=0)
    both /= np.maximum(both[learn].std(axis=0), 1e-12)
    model = RidgeClassifier(alpha=_RIDGE * count).fit(both[learn], is_other[learn])
    accuracy = (model.predict(both[~learn]) == is_other[~learn]).mean()
    return (float(accuracy) - 0.5,)


def frechet(real: Sample, other: Sample) -> tuple[float]:
    """F16: ``(|m_R - m_S|^2 + tr(S_R + S_S - 2 (S_R S_S)^1/2)) / tr(S_R)``.

    The eigenvalues of ``S_R S_S`` are those of ``S_R^1/2 S_S S_R^1/2``, which is symmetric.
    """
    values, vectors = np.linalg.eigh(real.covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    inner = np.linalg.eigvalsh(root @ other.covariance @ root)
    trace = np.trace(real.covariance)
    shift = np.square(real.mean_kw - other.mean_kw).sum()
    spread = trace + np.trace(other.covariance) - 2.0 * np.sqrt(np.maximum(inner, 0.0)).sum()
    return (float((shift + spread) / max(trace, 1e-12)),)


def neighbourhoods(real: Sample, other: Sample) -> tuple[float, float, float, float]:
    """F17: 1 - precision, recall, density and coverage (Naeem et al. 2020), k = 5.

    B_i is the ball around row i up to its k-th nearest neighbour within its own sample::

        precision = mean_j [s_j in some B(r_i)]       density  = 1/(k m) sum_j #{i: s_j in B(r_i)}
        recall    = mean_i [r_i in some B(s_j)]       coverage = mean_i [some s_j in B(r_i)]
    """
    across = squared_distances(real.few, other.few)
    inside = across < _squared_radius(real)[:, None]
    inside_other = across < _squared_radius(other)[None, :]
    precision, recall = inside.any(axis=0).mean(), inside_other.any(axis=1).mean()
    density = inside.sum() / (_NEAREST * inside.shape[1])
    coverage = inside.any(axis=1).mean()
    return tuple(1.0 - float(found) for found in (precision, recall, density, coverage))  # type: ignore[return-value]


def cluster_shares(real: Sample, other: Sample) -> tuple[float]:
    """F18: ``1/2 sum_k |share_R(k) - share_S(k)|`` of the customers nearest to each centroid."""
    shares = []
    for sample in (real, other):
        counts = np.bincount(
            assign(sample.typical, sample.centroids), minlength=len(sample.centroids)
        )
        shares.append(counts / counts.sum())
    return (total_variation(*shares),)


def _features(rows: Floats, real: Floats) -> Floats:
    """Return the features of the classifier, in standard deviations of the real loads."""
    z = np.arcsinh((rows - real.mean(axis=0)) / np.maximum(real.std(axis=0), 1e-12))
    before, after = z[:, :-1], z[:, 1:]
    return np.column_stack([z, np.square(z), before * after, np.abs(after - before)])


def _squared_radius(sample: Sample) -> Floats:
    """Return the squared distance of each row to its k-th nearest other row."""
    place = min(_NEAREST, len(sample.few) - 1)  # place 0 is the row itself
    return np.partition(sample.own_squares, place, axis=1)[:, place]


JOINT_METRICS = (
    FidelityMetric(figures=(("F14 MMD squared", ""),), measure=mmd),
    FidelityMetric(
        figures=(("F15 classifier, accuracy above 1/2", ""),), measure=two_sample_classifier
    ),
    FidelityMetric(figures=(("F16 Frechet distance", "of the variance"),), measure=frechet),
    FidelityMetric(
        figures=tuple(
            (f"F17 {name} below 1", "") for name in ("precision", "recall", "density", "coverage")
        ),
        measure=neighbourhoods,
    ),
    FidelityMetric(figures=(("F18 shares of clusters", ""),), measure=cluster_shares),
)
