"""Figures of years against loops and SciPy, with gaps; and changes that each must notice."""

import itertools

import numpy as np
import pytest
from scipy.stats import ks_2samp

from wattveil.arrays import Floats
from wattveil.lab.evaluation.customer_samples import Sample, SampleLayout
from wattveil.lab.evaluation.year_metrics import YEAR_METRICS
from wattveil.numerics.measures import year_measures

DAYS, SLOTS = 28, 24
GROUPS = (np.arange(DAYS) % 7 >= 5).astype(np.int64)


def some_years(seed: int = 0, customers: int = 12) -> Floats:
    """Return customers whose days have something in common."""
    generator = np.random.default_rng(seed)
    common = np.exp(0.2 * generator.normal(size=(1, DAYS, 1)))
    own = generator.gamma(2.0, 0.3, (customers, DAYS, SLOTS))
    rows: Floats = (own * common * generator.lognormal(size=(customers, 1, 1))).reshape(
        customers, -1
    )
    return rows


def test_figures_by_loops() -> None:
    """Each figure, computed customer by customer and day by day, without the missing slots."""
    rows = some_years()
    rows[3, 5 * SLOTS : 6 * SLOTS] = np.nan
    means = [np.nanmean(rows[:, slot]) for slot in range(rows.shape[1])]
    assert year_measures.coincident_peak(rows) == pytest.approx(max(means))
    peaks = [np.nanmax(row) for row in rows]
    assert year_measures.high_peak(rows) == pytest.approx(np.quantile(peaks, 0.95))
    steps = [abs(b - a) for row in rows for a, b in itertools.pairwise(row)]
    known = [step for step in steps if np.isfinite(step)]
    assert year_measures.median_ramp(rows) == pytest.approx(np.median(known))
    flat = [
        abs(b - a) < 0.05 * np.nanmean(row)
        for row in rows
        for a, b in itertools.pairwise(row)
        if np.isfinite(b - a)
    ]
    assert year_measures.flat_share(rows) == pytest.approx(np.mean(flat))
    whole = some_years()
    daily = whole.reshape(12, DAYS, SLOTS).sum(axis=2)
    total = daily.sum(axis=0)
    within = np.concatenate([total[g == GROUPS] / total[g == GROUPS].mean() for g in (0, 1)])
    assert year_measures.daily_variation(whole, GROUPS) == pytest.approx(within.std())
    for group in (0, 1):
        daily[:, group == GROUPS] -= daily[:, group == GROUPS].mean(axis=1, keepdims=True)
    pairs = np.corrcoef(daily)[np.triu_indices(12, 1)]
    assert year_measures.daily_correlation(whole, GROUPS) == pytest.approx(pairs.mean())
    own = [np.corrcoef(row[:-24], row[24:])[0, 1] for row in whole]
    assert year_measures.lag_correlation(whole, 24) == pytest.approx(own)


def test_distances_by_scipy() -> None:
    """Between the customers' figures, of other customers."""
    one, other = some_years(), some_years(seed=4, customers=30)
    found = year_measures.year_distances(one, other)
    expected = ks_2samp(one.mean(axis=1), other.mean(axis=1)).statistic
    assert found["annual energy"] == pytest.approx(expected)
    first, second = (year_measures.lag_correlation(rows, 1) for rows in (one, other))
    assert found["autocorrelation 1 h"] == pytest.approx(ks_2samp(first, second).statistic)


def test_every_metric_notices_its_change() -> None:
    """Days of customers shuffled independently have nothing in common; doubled load has."""
    layout = SampleLayout(slots_per_day=SLOTS, days=DAYS, series=True)
    rows = some_years(customers=40)
    generator = np.random.default_rng(1)
    shuffled = np.stack(
        [row.reshape(DAYS, SLOTS)[generator.permutation(DAYS)].ravel() for row in rows]
    )
    real, mixed, doubled = (
        Sample(load_kw=load, layout=layout, centroids=rows[:2])
        for load in (rows, shuffled, 2 * rows)
    )
    names = [name for metric in YEAR_METRICS for name, _ in metric.figures]

    def measured(other: Sample) -> dict[str, float]:
        values = [value for metric in YEAR_METRICS for value in metric.measure(real, other)]
        return dict(zip(names, values, strict=True))

    assert all(value == pytest.approx(0.0, abs=1e-12) for value in measured(real).values())
    found = measured(mixed)
    assert found["F20 daily energy of all, variation"] > 0.3
    assert found["F20 daily energy, correlation of customers"] > 0.1
    assert found["F20 95 % quantile of peaks"] == 0.0
    assert found["F20 energy over all days, KS"] < 0.03  # one customer: sums are rounded
    found = measured(doubled)
    for name in ("coincident peak of all", "95 % quantile of peaks", "median ramp"):
        assert found[f"F20 {name}"] == pytest.approx(1.0)
    assert found["F20 flat hours"] == pytest.approx(0.0, abs=1e-12)
    assert found["F20 energy over all days, KS"] > 0.2
    for metric in YEAR_METRICS:
        assert metric.missing(SampleLayout(slots_per_day=SLOTS), 100)
        assert not metric.missing(layout, 100)
