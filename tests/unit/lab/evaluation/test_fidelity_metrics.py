"""Every figure of F1 to F18, computed independently: SciPy, NumPy's own, or a loop."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import sqrtm
from scipy.spatial.distance import cdist

from wattveil.arrays import Floats
from wattveil.lab.evaluation import fidelity_metrics
from wattveil.lab.evaluation.customer_samples import FEW, Sample, SampleLayout
from wattveil.lab.evaluation.fidelity_comparison import METRICS

Pair = tuple[Sample, Sample]


def by_slot(pair: Pair, distance: Callable[[Floats, Floats], float]) -> Floats:
    """Return a distance of every slot."""
    real, other = pair
    return np.array([distance(a, b) for a, b in zip(real.load_kw.T, other.load_kw.T, strict=True)])


def test_marginals(pair: Pair) -> None:
    """F1 and F2, slot by slot with SciPy."""
    size = np.abs(pair[0].load_kw).mean()
    apart = by_slot(pair, stats.wasserstein_distance) / size
    assert fidelity_metrics.marginal_wasserstein(*pair) == pytest.approx(
        (apart.mean(), apart.max())
    )
    apart = by_slot(pair, lambda a, b: stats.ks_2samp(a, b).statistic)
    assert fidelity_metrics.marginal_ks(*pair) == pytest.approx((apart.mean(), apart.max()))


def test_profiles(pair: Pair) -> None:
    """F3 with NumPy's quantiles, F4 with its correlation."""
    real, other = (sample.load_kw for sample in pair)
    curves = [(real.mean(axis=0), other.mean(axis=0))]
    curves += [
        (np.quantile(real, q, axis=0), np.quantile(other, q, axis=0)) for q in (0.05, 0.5, 0.95)
    ]
    expected = [np.sqrt(np.mean((a - b) ** 2)) / np.abs(real).mean() for a, b in curves]
    assert fidelity_metrics.profile_error(*pair) == pytest.approx(expected)
    shapes = [mean / mean.sum() for mean in curves[0]]
    correlation = np.corrcoef(*shapes)[0, 1]
    rms = 24.0 * np.sqrt(np.mean((shapes[0] - shapes[1]) ** 2))
    assert fidelity_metrics.shape_error(*pair) == pytest.approx((1.0 - correlation, rms))


def test_no_shape_without_net_energy(pair: Pair, sampled: Callable[..., Sample]) -> None:
    """F4 is undefined where customers export more than they use."""
    exporting = sampled(-np.abs(pair[1].load_kw))
    assert np.isnan(fidelity_metrics.shape_error(pair[0], exporting)).all()


def test_covariance(pair: Pair) -> None:
    """F6, F7 and F16 from NumPy's covariances, eigenvalues and SciPy's matrix root."""
    real, other = (np.atleast_2d(np.cov(sample.load_kw.T, bias=True)) for sample in pair)
    c, e = (np.atleast_2d(np.corrcoef(sample.load_kw.T)) for sample in pair)
    norm, norm_other = np.sqrt(np.trace(c @ c)), np.sqrt(np.trace(e @ e))
    expected = (np.sqrt(((c - e) ** 2).sum()) / norm, 1.0 - np.trace(c @ e) / (norm * norm_other))
    assert fidelity_metrics.correlation_distance(*pair) == pytest.approx(expected)
    spectra = [np.sort(np.linalg.svd(matrix)[1]) for matrix in (real, other)]
    apart = np.abs(spectra[0] - spectra[1]).sum() / np.trace(real)
    assert fidelity_metrics.spectrum_distance(*pair)[0] == pytest.approx(apart)
    shift = pair[0].load_kw.mean(axis=0) - pair[1].load_kw.mean(axis=0)
    frechet = shift @ shift + np.trace(real + other - 2.0 * np.real(sqrtm(real @ other)))
    assert fidelity_metrics.frechet(*pair)[0] == pytest.approx(frechet / np.trace(real))


def test_energy_and_duration(pair: Pair) -> None:
    """F10 is the area between two descending curves; F11 is SciPy's W1 and NumPy's deciles."""
    curves = [sorted(sample.load_kw.mean(axis=0), reverse=True) for sample in pair]
    area = sum(abs(a - b) for a, b in zip(*curves, strict=True)) / sum(map(abs, curves[0]))
    assert fidelity_metrics.duration_distance(*pair)[0] == pytest.approx(area)
    energy, others = (sample.load_kw.sum(axis=1) for sample in pair)
    size = np.abs(energy).mean()
    deciles = [np.percentile(each, range(10, 100, 10)) for each in (energy, others)]
    expected = (
        stats.wasserstein_distance(energy, others) / size,
        abs(energy.mean() - others.mean()) / size,
        np.abs(deciles[1] / deciles[0] - 1.0).max(),
    )
    assert fidelity_metrics.energy_distance(*pair) == pytest.approx(expected)


def test_autocorrelation(pair: Pair) -> None:
    """F5 with NumPy's correlation, customer by customer."""
    one, other = (
        np.array([np.corrcoef(row[:-12], row[12:])[0, 1] for row in sample.load_kw])
        for sample in pair
    )
    expected = stats.ks_2samp(one, other).statistic
    assert fidelity_metrics.autocorrelation_distance(*pair, hours=12) == pytest.approx((expected,))


def test_autocorrelation_does_not_cross_typical_days(sampled: Callable[..., Sample]) -> None:
    """The last hour of one typical day is not followed by the first of the next."""
    generator = np.random.default_rng(1)
    load_kw = generator.normal(size=(9, 48))
    found = sampled(load_kw, SampleLayout(slots_per_day=24, days=2)).autocorrelation(1)
    pairs = [(t, t + 1) for t in range(47) if t != 23]
    before, after = (load_kw[:, [pair[i] for pair in pairs]] for i in (0, 1))
    expected = sorted(np.corrcoef(x, y)[0, 1] for x, y in zip(before, after, strict=True))
    assert found == pytest.approx(expected)
    series = sampled(load_kw, SampleLayout(slots_per_day=24, days=2, series=True)).autocorrelation(
        1
    )
    assert series == pytest.approx(sorted(np.corrcoef(row[:-1], row[1:])[0, 1] for row in load_kw))


def test_peaks(pair: Pair, sampled: Callable[..., Sample]) -> None:
    """F8: W1 of peaks, their time around the clock, and the minutes between two mean peaks."""
    peaks = [sample.load_kw.max(axis=1) for sample in pair]
    size, _, _ = fidelity_metrics.peak_distance(*pair)
    expected = stats.wasserstein_distance(*peaks) / np.abs(peaks[0]).mean()
    assert size == pytest.approx(expected)
    late, early = np.ones((4, 96)), np.ones((4, 96))
    late[:, 95], early[:, 1] = 2.0, 2.0
    _, hours, minutes = fidelity_metrics.peak_distance(sampled(late), sampled(early))
    assert (hours, minutes) == pytest.approx((0.5, 30.0))


def test_diversity_and_factor(pair: Pair) -> None:
    """F9 and F12 by loops over customers and groups."""
    factors = [[row.mean() / row.max() for row in sample.load_kw] for sample in pair]
    expected = stats.wasserstein_distance(*factors)
    assert fidelity_metrics.load_factor_distance(*pair) == pytest.approx((expected,))
    admd, single = [], []
    for sample in pair:
        groups = [sample.load_kw[first : first + 25] for first in (0, 25)]
        admd.append(np.mean([group.sum(axis=0).max() / 25.0 for group in groups]))
        single.append(np.mean([row.max() for row in sample.load_kw]))
    relative = abs(admd[1] / admd[0] - 1.0)
    coincidence = abs(admd[1] / single[1] - admd[0] / single[0])
    found = fidelity_metrics.diversity_distance(*pair, homes=25)
    assert found == pytest.approx((relative, coincidence))
    assert fidelity_metrics.diversity_distance(*pair, homes=1) == pytest.approx(
        (abs(single[1] / single[0] - 1.0),)
    )


def test_ramps(pair: Pair) -> None:
    """F13: steps, base load and the share of the evening."""
    size = np.abs(pair[0].load_kw).mean()
    steps = [np.diff(sample.load_kw, axis=1).ravel() for sample in pair]
    bases = [np.sort(sample.load_kw, axis=1)[:, 1] for sample in pair]  # the second lowest of 24
    evening = [sample.load_kw[:, 16:23].sum() / sample.load_kw.sum() for sample in pair]
    expected = (
        stats.wasserstein_distance(*steps) / size,
        stats.wasserstein_distance(*bases) / size,
        abs(evening[0] - evening[1]),
    )
    assert fidelity_metrics.ramp_distance(*pair) == pytest.approx(expected)


def test_mmd(pair: Pair) -> None:
    """F14 as a double loop over pairs, none of a row with itself."""
    real, other = (sample.load_kw for sample in pair)
    width = np.median(cdist(real, real)[np.triu_indices(60, 1)] ** 2)

    def mean_kernel(rows: Floats, columns: Floats, *, same: bool) -> float:
        return float(
            np.mean(
                [
                    np.exp(-((x - y) @ (x - y)) / (2.0 * width))
                    for i, x in enumerate(rows)
                    for j, y in enumerate(columns)
                    if not (same and i == j)
                ]
            )
        )

    expected = (
        mean_kernel(real, real, same=True)
        + mean_kernel(other, other, same=True)
        - 2.0 * mean_kernel(real, other, same=False)
    )
    assert fidelity_metrics.mmd(*pair)[0] == pytest.approx(expected, abs=1e-9)


def test_neighbourhoods(pair: Pair) -> None:
    """F17 by loops over balls that reach to the fifth neighbour."""
    real, other = (sample.load_kw for sample in pair)
    radius, radius_other = ([sorted(row)[5] for row in cdist(rows, rows)] for rows in (real, other))
    across = cdist(real, other)
    inside = [[across[i, j] < radius[i] for i in range(60)] for j in range(50)]
    precision = np.mean([any(balls) for balls in inside])
    density = sum(map(sum, inside)) / (5 * 50)
    coverage = np.mean([any(inside[j][i] for j in range(50)) for i in range(60)])
    recall = np.mean([any(across[i, j] < radius_other[j] for j in range(50)) for i in range(60)])
    expected = [1.0 - figure for figure in (precision, recall, density, coverage)]
    assert fidelity_metrics.neighbourhoods(*pair) == pytest.approx(expected)


def test_classifier_and_clusters(pair: Pair, sampled: Callable[..., Sample]) -> None:
    """F15 is near 0 for the same law and 1/2 for another; F18 counts nearest centroids."""
    generator = np.random.default_rng(4)
    rows = generator.normal(size=(600, 6))
    same, far = sampled(rows[:300]), sampled(rows[300:] + 5.0)
    (chance,) = fidelity_metrics.two_sample_classifier(same, sampled(rows[300:]))
    z = chance / np.sqrt(0.25 / 300)
    assert abs(z) < 5.0
    assert fidelity_metrics.two_sample_classifier(same, far)[0] > 0.49
    shares = []
    for sample in pair:
        nearest = cdist(sample.load_kw, sample.centroids).argmin(axis=1)
        shares.append(np.bincount(nearest, minlength=3) / len(nearest))
    expected = np.abs(shares[0] - shares[1]).sum() / 2.0
    assert fidelity_metrics.cluster_shares(*pair) == pytest.approx((expected,))


@pytest.mark.parametrize(
    "layout",
    [
        SampleLayout(slots_per_day=24),
        SampleLayout(slots_per_day=24, days=7, week=True),
        SampleLayout(slots_per_day=24, days=21, series=True, first_weekday=2),
    ],
    ids=["day", "week", "series"],
)
def test_no_distance_from_oneself(layout: SampleLayout, sampled: Callable[..., Sample]) -> None:
    """Every figure of the same customers is at or below its value for none: no false alarm."""
    generator = np.random.default_rng(5)
    load_kw = generator.gamma(2.0, 0.5, (60, layout.days * 24))
    one, other = sampled(load_kw, layout), sampled(load_kw, layout)
    figures = {
        name: figure
        for metric in METRICS
        if not metric.missing(layout, 60)
        for (name, _), figure in zip(metric.figures, metric.measure(one, other), strict=True)
    }
    far = {name for name, figure in figures.items() if figure > 1e-9}
    # Half of the customers is learnt from and the other half tested, so these see a difference.
    assert far <= {"F15 classifier, accuracy above 1/2", "U1 forecast, TRTS"}


def test_few_rows_come_from_all(sampled: Callable[..., Sample]) -> None:
    """The rows of all pairs are spread over all customers, also over the days of a series."""
    rows = np.arange(5000.0)[:, None] * np.ones(2)
    few = sampled(rows).few
    assert len(few) == FEW
    assert few[0, 0] == 0.0
    assert few[-1, 0] == 4999.0
    assert np.diff(few[:, 0]).max() <= 3.0
