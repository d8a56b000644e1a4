"""Fidelity of slots: F1 to F4, F6, F7, F10 and F11 of docs/evaluation.md. PRIVATE.

Distances of other customers S from real ones R. Slots are t = 1..d, F_R,t is the distribution of
the load of slot t, and ``mean |R|`` the mean size of a load: most figures are shares of it.
"""

import numpy as np

from wattveil.evaluation.metric import Metric
from wattveil.evaluation.sample import Floats, Sample
from wattveil.measures.samples import slot_distances, wasserstein
from wattveil.measures.slots import correlations

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

    NaN where the net energy is not above 0: there is no shape then.
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
    """Return the mean size of a load, ``mean |R|``; export counts like consumption."""
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
    Metric(
        figures=(("F1 W1 of a slot, mean", _OF_MEAN), ("F1 W1 of a slot, largest", _OF_MEAN)),
        measure=marginal_wasserstein,
    ),
    Metric(
        figures=(("F2 KS of a slot, mean", ""), ("F2 KS of a slot, largest", "")),
        measure=marginal_ks,
    ),
    Metric(
        figures=tuple(
            (f"F3 {which} profile, RMSE", _OF_MEAN) for which in ("mean", "5 %", "median", "95 %")
        ),
        measure=profile_error,
    ),
    Metric(
        figures=(("F4 shape, 1 - correlation", ""), ("F4 shape, RMSE", _OF_MEAN)),
        measure=shape_error,
    ),
    Metric(
        figures=(("F6 correlations of slots", "of their norm"), ("F6 correlations, Herdin", "")),
        measure=correlation_distance,
    ),
    Metric(figures=(("F7 spectrum of the covariance", "of its trace"),), measure=spectrum_distance),
    Metric(figures=(("F10 load duration curve", _OF_MEAN),), measure=duration_distance),
    Metric(
        figures=(
            ("F11 daily energy, W1", "of the mean"),
            ("F11 daily energy, mean", "of the mean"),
            ("F11 daily energy, worst decile", "of the decile"),
        ),
        measure=energy_distance,
    ),
)
