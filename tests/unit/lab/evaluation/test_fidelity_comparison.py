"""The table: planted errors are found, real customers pass, the control behaves as one."""

from collections.abc import Callable

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.lab.evaluation.customer_samples import SampleLayout
from wattveil.lab.evaluation.fidelity_comparison import (
    METRICS,
    Evaluation,
    _RandomSplits,
    evaluate_load,
)
from wattveil.numerics.measures.verdicts import Verdict

DAY = SampleLayout(slots_per_day=24)
DETECTABLE, WITHIN, INCONCLUSIVE = (
    verdict.value for verdict in (Verdict.DIFFERENT, Verdict.NO_DIFFERENCE, Verdict.INCONCLUSIVE)
)
REAL = slice(0, 400)


@pytest.fixture(scope="module")
def other_homes(homes_kw: Floats) -> Evaluation:
    """Return other real homes in the place of synthetic ones."""
    return evaluate_load(homes_kw[REAL], homes_kw[400:], DAY)


@pytest.fixture
def verdicts_of(homes_kw: Floats) -> Callable[[Floats], dict[str, str]]:
    """Return a function that compares changed customers."""

    def compare(changed_kw: Floats) -> dict[str, str]:
        found = evaluate_load(homes_kw[REAL], changed_kw, DAY)
        return {row.metric: row.verdict for row in found.rows}

    return compare


def test_other_real_homes_pass(other_homes: Evaluation) -> None:
    """Few figures detect other real homes, and none with a large ratio."""
    ratios = {row.metric: row.ratio for row in other_homes.rows if not np.isnan(row.ratio)}
    assert sum(ratio > 1.0 for ratio in ratios.values()) <= 4
    assert max(ratios.values()) < 1.6


def test_the_control_is_one(other_homes: Evaluation) -> None:
    """Centroids keep all means, so metrics of means are inconclusive; others detect the control."""
    rows = {row.metric: row for row in other_homes.rows}
    for metric in ("F3 mean profile, RMSE", "F10 load duration curve", "F11 daily energy, mean"):
        assert rows[metric].verdict == INCONCLUSIVE
    assert rows["U2 bill under a tariff"].control_ratio < 1.0
    for metric in ("F2 KS of a slot, mean", "F9 load factor, W1", "F13 ramps, W1"):
        assert rows[metric].control_ratio > 2.0
    assert rows["F15 classifier, accuracy above 1/2"].control > 0.4
    assert rows["F17 recall below 1"].control_ratio > 3.0


def test_metrics_that_a_single_day_does_not_define(other_homes: Evaluation) -> None:
    """A single typical day has no previous day and no weekend; the rows give that reason."""
    rows = {row.metric: row for row in other_homes.rows}
    for lag in ("24 h", "168 h", "26 weeks"):
        assert rows[f"F5 autocorrelation at {lag}, KS"].verdict == "needs hourly years"
    assert rows["U1 day type, accuracy loss"].verdict == "needs several day types"
    assert len(rows) == sum(len(metric.figures) for metric in METRICS)
    assert next(iter(rows)).startswith("F1 ")
    assert list(rows)[-1].startswith("U3 ")
    numbers = {metric.split()[0] for metric in rows}
    assert numbers == {f"F{n}" for n in range(1, 19)} | {"F20", "U1", "U2", "U3"}


def test_another_size_is_found(
    homes_kw: Floats, verdicts_of: Callable[..., dict[str, str]]
) -> None:
    """A quarter more load shows in sizes, and not in shapes."""
    found = verdicts_of(1.25 * homes_kw[400:])
    for metric in ("F1 W1 of a slot, mean", "F3 median profile, RMSE", "F11 daily energy, W1"):
        assert found[metric] == DETECTABLE
    for metric in ("F4 shape, RMSE", "F9 load factor, W1", "F5 autocorrelation at 1 h, KS"):
        assert found[metric] != DETECTABLE


def test_another_hour_is_found(
    homes_kw: Floats, verdicts_of: Callable[..., dict[str, str]]
) -> None:
    """A day that comes three hours late shows in times, and not in sizes."""
    found = verdicts_of(np.roll(homes_kw[400:], 3, axis=1))
    for metric in ("F4 shape, RMSE", "F8 time of the peak, W1", "F8 peak of the mean day, time"):
        assert found[metric] == DETECTABLE
    for metric in ("F11 daily energy, W1", "F9 load factor, W1"):
        assert found[metric] != DETECTABLE


def test_customers_without_habits_are_found(
    homes_kw: Floats, verdicts_of: Callable[..., dict[str, str]]
) -> None:
    """Hours taken from different customers keep every slot, and lose all that joins them."""
    generator = np.random.default_rng(0)
    mixed = np.column_stack([generator.permutation(slot) for slot in homes_kw[400:].T])
    found = verdicts_of(mixed)
    for metric in (
        "F5 autocorrelation at 1 h, KS",
        "F6 correlations of slots",
        "F13 ramps, W1",
        "F14 MMD squared",
        "F15 classifier, accuracy above 1/2",
        "U3 clusters from synthetic",
    ):
        assert found[metric] == DETECTABLE, metric
    assert found["F1 W1 of a slot, mean"] != DETECTABLE
    assert found["F3 mean profile, RMSE"] != DETECTABLE


def test_a_series_has_weeks(homes_kw: Floats) -> None:
    """Consecutive days are compared by lag and by kind of day; days without order are found."""
    generator = np.random.default_rng(1)
    layout = SampleLayout(slots_per_day=24, days=14, series=True)
    weekly = np.where(layout.day_type == 1, 1.5, 1.0)
    days = homes_kw[:120, None] * weekly[:, None] * generator.gamma(9.0, 1 / 9.0, (120, 14, 24))
    shuffled = np.stack([home[generator.permutation(14)] for home in days])
    found = evaluate_load(days[:60].reshape(60, -1), shuffled[60:].reshape(60, -1), layout)
    rows = {row.metric: row for row in found.rows}
    assert rows["F5 autocorrelation at 168 h, KS"].verdict == DETECTABLE
    assert rows["F5 autocorrelation at 26 weeks, KS"].verdict == "needs hourly years"
    assert rows["F5 autocorrelation at 1 h, KS"].verdict == WITHIN
    assert not np.isnan(rows["U1 day type, accuracy loss"].score)


def test_export_and_few_customers(homes_kw: Floats) -> None:
    """Metrics that need net energy or more customers give the reason; JSON is marked private."""
    said = evaluate_load(-homes_kw[:90], -homes_kw[90:180], DAY).to_json()
    assert said["private"] is True
    metrics = said["metrics"]
    assert isinstance(metrics, list)
    rows = {row["metric"]: row for row in metrics}
    assert rows["F4 shape, RMSE"]["verdict"] == "not defined"
    assert rows["F4 shape, RMSE"]["score"] is None
    assert rows["F12 ADMD of 50 homes"]["verdict"] == "needs 100 customers"
    assert rows["F1 W1 of a slot, mean"]["verdict"] in {WITHIN, DETECTABLE, INCONCLUSIVE}


def test_halves_are_repeatable(homes_kw: Floats) -> None:
    """The same seed gives the same splits, which share no customer; another gives others."""
    splits = _RandomSplits(homes_kw[:90], homes_kw[90:120], DAY, 6)
    assert splits.size == 30
    one, same, other = splits.draw(3, 0), splits.draw(3, 0), splits.draw(4, 0)
    assert all(np.array_equal(a.load_kw, b.load_kw) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one[0].load_kw, other[0].load_kw)
    drawn = np.concatenate([one[0].load_kw, one[1].load_kw])
    assert len(np.unique(drawn, axis=0)) == 60
    assert len(np.unique(one[3].load_kw, axis=0)) <= 6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"synthetic_kw": 1000.0}, "synthetic must be in the unit of the real customers, kW"),
        ({"repeats": 3}, "repeats must be a whole number of at least 20"),
        ({"seed": -1}, "seed must be"),
        ({"n_clusters": 0}, "clusters must be"),
        ({"rows": 10}, "real must be at least 40 customers"),
    ],
)
def test_refusals(homes_kw: Floats, change: dict[str, float], words: str) -> None:
    """A bad argument is named with its rule and its value."""
    factor = change.pop("synthetic_kw", 1.0)
    real = homes_kw[: int(change.pop("rows", 100))]
    with pytest.raises(InvalidParameterError, match=words):
        evaluate_load(real, factor * homes_kw[:100], DAY, **change)  # type: ignore[arg-type]
