"""The grid experiment: which populations pass, which are detected, and by which metric."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wattveil.arrays import Floats
from wattveil.errors import InvalidDataError, InvalidParameterError, NoPowerFlowError
from wattveil.grid import (
    Feeder,
    GridComparison,
    GridRow,
    Verdict,
    compare_on_feeder,
    write_grid_page,
)
from wattveil.grid.experiment import Redraw, difference_interval, grid_row
from wattveil.grid.grid_metrics import GridMetric, by_difference, by_ratio
from wattveil.profiles import Profiles, TimeGrid

Named = Callable[..., Profiles]

VOLTAGE = ("A1 voltage, W1", "A1 voltage, KS", "A1 angle, W1")
SINGLE = ("B8 ADMD of 2 homes, W1", "B10 peak of a customer, W1", "B10 ramp, W1")


@pytest.fixture(scope="module")
def compared(
    homes_kw: Floats, named_profiles: Named, four_buses: Feeder
) -> Callable[[Floats], dict[str, GridRow]]:
    """Return a maker of tables: real homes against given synthetic ones."""

    def compare(synthetic_kw: Floats) -> dict[str, GridRow]:
        comparison = compare_on_feeder(
            named_profiles(homes_kw, "real"),
            named_profiles(synthetic_kw, "made"),
            feeder=four_buses,
            redraws=25,
        )
        return {row.metric: row for row in comparison.rows}

    return compare


def test_groups_do_not_depend_on_one_placement(
    homes_kw: Floats, named_profiles: Named, four_buses: Feeder
) -> None:
    """A few large homes among 200 houses: the 99th percentile of 25 groups would be their luck."""
    load_kw = np.array(homes_kw)
    load_kw[::50] *= 6.0
    real = named_profiles(load_kw, "real")
    seeds = [
        compare_on_feeder(real, real, feeder=four_buses, houses=200, redraws=20, seed=seed)
        for seed in (0, 1, 2)
    ]
    names = ("B9 peak loading, 99 %", "B8 ADMD of 8 homes, W1", "B8 ADMD of 64 homes, W1")
    for name in names:
        values = [row.real for one in seeds for row in one.rows if row.metric == name]
        assert np.ptp(values) < 0.05 * np.mean(values)


def test_real_customers_under_other_names_pass(
    compared: Callable[[Floats], dict[str, GridRow]], homes_kw: Floats
) -> None:
    """The same population is nowhere detectable, also where the control is."""
    rows = compared(homes_kw[::-1])
    assert not [name for name, row in rows.items() if row.verdict is Verdict.DIFFERENT]
    assert all(rows[name].verdict is Verdict.NO_DIFFERENCE for name in SINGLE)


def test_class_means_pass_the_histogram_and_nothing_else(
    compared: Callable[[Floats], dict[str, GridRow]], homes_kw: Floats
) -> None:
    """Voltage histograms do not distinguish centroids from customers; transformers do."""
    from wattveil.numerics.kmeans.lloyd import k_means  # noqa: PLC0415 - here alone

    clusters = k_means(homes_kw, 6, seed=0)
    rows = compared(clusters.centroids[clusters.labels])
    assert all(rows[name].verdict is Verdict.INCONCLUSIVE for name in VOLTAGE)
    assert all(rows[name].verdict is Verdict.DIFFERENT for name in SINGLE)
    for name in SINGLE:  # it is the control itself
        assert rows[name].ratio == pytest.approx(rows[name].control_ratio, rel=0.2)


@pytest.mark.parametrize(
    ("fault", "found_by"),
    [
        ("larger by a fifth", (*VOLTAGE, "A3 losses", "A5 peak", *SINGLE)),
        ("smaller by a fifth", (*VOLTAGE, "A3 losses", "A5 peak", *SINGLE)),
        ("three hours late", ("A5 hour of the peak", "A1 voltage, W1 by hour")),
        ("smoothed", ("B10 lag-1 autocorrelation, W1", *SINGLE)),
        ("exporting", ("B10 readings below 0", "A6 hosting capacity, PV")),
    ],
)
def test_planted_faults_are_found(
    compared: Callable[[Floats], dict[str, GridRow]],
    homes_kw: Floats,
    fault: str,
    found_by: tuple[str, ...],
) -> None:
    """Each fault is detectable by the metrics that are there for it."""
    spread = np.mean([np.roll(homes_kw, step, axis=1) for step in range(-2, 3)], axis=0)
    sun = np.where((np.arange(24) > 8) & (np.arange(24) < 16), 1.0, 0.0)
    planted = {
        "larger by a fifth": 1.2 * homes_kw,
        "smaller by a fifth": 0.8 * homes_kw,
        "three hours late": np.roll(homes_kw, 3, axis=1),
        "smoothed": spread,
        "exporting": homes_kw - sun,
    }
    rows = compared(planted[fault])
    missed = [name for name in found_by if rows[name].verdict is not Verdict.DIFFERENT]
    assert not missed


def test_not_all_metrics_fail_at_once(
    compared: Callable[[Floats], dict[str, GridRow]], homes_kw: Floats
) -> None:
    """Hours shuffled within each customer keep its peak and its readings, and lose their order."""
    generator = np.random.default_rng(0)
    rows = compared(generator.permuted(homes_kw, axis=1))
    assert rows["B10 lag-1 autocorrelation, W1"].verdict is Verdict.DIFFERENT
    assert rows["A5 load factor"].verdict is Verdict.DIFFERENT
    assert rows["B10 peak of a customer, W1"].verdict is Verdict.NO_DIFFERENCE
    assert rows["B10 readings of exactly 0"].verdict is not Verdict.DIFFERENT


def test_a_collapse_is_reported(
    homes_kw: Floats, named_profiles: Named, four_buses: Feeder, tmp_path: Path
) -> None:
    """Synthetic customers that the feeder cannot carry: hours named, network metrics infinite."""
    comparison = compare_on_feeder(
        named_profiles(homes_kw, "real"),
        named_profiles(40.0 * homes_kw, "made"),
        feeder=four_buses,
        redraws=20,
    )
    assert list(comparison.synthetic_failures)
    write_grid_page(comparison, tmp_path / "grid.html")  # it is drawn all the same
    assert "snapshots without a solution" in (tmp_path / "grid.html").read_text()
    rows = {row.metric: row for row in comparison.rows}
    assert math.isinf(rows["A1 voltage, W1"].ratio)
    assert rows["A1 voltage, W1"].verdict is Verdict.DIFFERENT
    written = comparison.to_json()
    assert written["synthetic_failures"]
    assert isinstance(written["metrics"], list)
    assert written["metrics"][0]["ratio"] is None  # JSON has no infinity
    with pytest.raises(NoPowerFlowError, match="did not converge for the real customers") as found:
        compare_on_feeder(
            named_profiles(homes_kw, "real"),
            named_profiles(homes_kw, "made"),
            feeder=four_buses,
            houses=300_000,
            redraws=20,
        )
    assert len(found.value.failures) > 1
    assert str(found.value).count("converge after") == 1  # one message of the solver, and a number
    assert f"in {len(found.value.failures)} snapshots" in str(found.value)
    assert "units of the impedances" in str(found.value)


@pytest.fixture(scope="module")
def by_attribute(
    homes_kw: Floats, home_classes: tuple[str, ...], named_profiles: Named
) -> GridComparison:
    """Return the paper's literal experiment with classes from a column."""
    return compare_on_feeder(
        named_profiles(homes_kw, "real", home_classes),
        named_profiles(homes_kw[:300], "made", home_classes[:300]),
        by="class",
        scaling="literal",
        redraws=20,
    )


def test_the_literal_experiment_of_the_paper(
    by_attribute: GridComparison, home_classes: tuple[str, ...]
) -> None:
    """One house per bus in kW: 141 houses of the classes' mix, and a feeder that idles."""
    assert by_attribute.setting.placement.houses == 141
    assert by_attribute.class_names == tuple(sorted(set(home_classes)))
    assert by_attribute.real.voltage_pu.min() > 0.998
    wanted = by_attribute.setting.placement.wanted_class
    for number, name in enumerate(by_attribute.class_names):
        expected = 141 * home_classes.count(name) / len(home_classes)
        assert abs(np.count_nonzero(wanted == number) - expected) < 1.0
    shares = [
        np.array([classes.count(name) for name in by_attribute.class_names]) / len(classes)
        for classes in (home_classes, home_classes[:300])
    ]
    apart = np.abs(shares[0] - shares[1]).sum() / 2.0
    assert by_attribute.class_mix_distance == pytest.approx(apart)
    assert not by_attribute.synthetic_failures


def test_the_table_is_the_rows(by_attribute: GridComparison) -> None:
    """The Arrow table has one row per metric and the same numbers."""
    table = by_attribute.to_arrow()
    assert table.num_rows == len(by_attribute.rows)
    assert table["metric"].to_pylist() == [row.metric for row in by_attribute.rows]
    assert table["ratio"].to_pylist() == [row.ratio for row in by_attribute.rows]
    assert set(table["verdict"].to_pylist()) <= {verdict.value for verdict in Verdict}


def test_a_seed_repeats_the_experiment(
    homes_kw: Floats, named_profiles: Named, four_buses: Feeder
) -> None:
    """The same seed gives the same table, another one another; progress is reported."""
    steps: list[None] = []

    def table(seed: int) -> list[float]:
        comparison = compare_on_feeder(
            named_profiles(homes_kw, "real"),
            named_profiles(homes_kw, "made"),
            feeder=four_buses,
            houses=200,
            redraws=20,
            seed=seed,
            advance=lambda: steps.append(None),
        )
        return [row.distance for row in comparison.rows]

    first = table(1)
    assert len(steps) == 20 + 10 + 10 + 1
    assert table(1) == first
    assert table(2) != first


@pytest.mark.parametrize(
    ("distance", "control", "redraws", "verdict"),
    [
        (0.5, 3.0, 1.0, Verdict.NO_DIFFERENCE),
        (0.5, 0.9, 1.0, Verdict.INCONCLUSIVE),
        (1.1, 0.9, 1.0, Verdict.DIFFERENT),
        (1.1, 3.0, 1.0, Verdict.DIFFERENT),
        (0.0, 0.0, 0.0, Verdict.INCONCLUSIVE),  # nothing ever happens
        (0.0, 0.1, 0.0, Verdict.NO_DIFFERENCE),
        (1e-9, 0.0, 0.0, Verdict.DIFFERENT),
        (math.nan, 0.0, 1.0, Verdict.DIFFERENT),  # a power flow without solution
    ],
)
def test_verdicts(
    by_attribute: GridComparison, distance: float, control: float, redraws: float, verdict: Verdict
) -> None:
    """The rule of the three verdicts, at its edges."""
    real, synthetic = by_attribute.real, by_attribute.synthetic
    other = dataclasses.replace(real)
    metric = GridMetric(
        name="planted",
        unit="",
        value=lambda _: 1.0,
        distance=lambda seen, _: distance if seen is synthetic else control,
    )
    measured = [Redraw(distance=redraws, to_synthetic=distance, value=1.0)] * 20
    row = grid_row(metric, real, redraws=measured, synthetic=[synthetic] * 3, control=[other])
    assert row.verdict is verdict


def test_bad_input_is_refused(
    homes_kw: Floats, home_classes: tuple[str, ...], named_profiles: Named
) -> None:
    """Grids, classes and parameters that do not fit are refused by name."""
    real = named_profiles(homes_kw, "real", home_classes)
    half_hours = Profiles(
        customer_ids=("a",),
        load_kw=np.ones((1, 48)),
        grid=TimeGrid(minutes=30),
        timezone="Europe/London",
    )
    few = named_profiles(homes_kw[:2], "made", home_classes[:2])
    for synthetic, changes, words in (
        (half_hours, {}, "synthetic must be on the grid"),
        (few, {"by": "zip"}, "by must be an attribute of the real customers, one of: class"),
        (few, {"by": "class"}, "synthetic must be customers of every class"),
        (real, {"power_factor": 1.2}, "power_factor must be above 0 and at most 1"),
        (real, {"redraws": 5}, "redraws must be a whole number of at least 20"),
        (real, {"scaling": "kW"}, "scaling must be one of"),
        (real, {"n_clusters": 0}, "n_clusters must be a whole number of at least 1"),
        (real, {"transformer_kva": 0.0}, "transformer_kva must be a finite number above 0"),
        (named_profiles(homes_kw[:0], "made"), {}, "synthetic must be at least one customer"),
    ):
        with pytest.raises(InvalidParameterError, match=words):
            compare_on_feeder(real, synthetic, **changes)
    unknown = named_profiles(homes_kw[:2], "made", ("x", None))
    with pytest.raises(
        InvalidDataError, match="rows made1 violate the rule 'each of the synthetic"
    ):
        compare_on_feeder(real, unknown, by="class")


positive = st.floats(min_value=0.01, max_value=100.0)


@given(real=positive, values=st.lists(positive, min_size=1, max_size=9), spread=positive)
@pytest.mark.parametrize("make", [by_difference, by_ratio])
def test_interval_and_verdict_on_a_value_agree(
    make: Callable[..., GridMetric], real: float, values: list[float], spread: float
) -> None:
    """An interval contains 0 unless the value is found different, and never reaches -100 %."""
    metric: Any = make("load", "kW", float)  # an observation is its own value here
    redrawn = [real * (1.0 + sign * spread * step / 20) for step in range(20) for sign in (1, -1)]
    low, high = difference_interval(metric, real, values, redrawn)
    limit = np.quantile([metric.distance(one, real) for one in redrawn], 0.95)
    distance = np.median([metric.distance(one, real) for one in values])
    assume(abs(distance - limit) > 1e-9 * limit)
    assert (low <= 0.0 <= high) == (distance <= limit)
    assert low >= -real
    assert low <= high


def test_an_interval_without_a_power_flow_is_none() -> None:
    """Half of the samples without a solution have no median."""
    make: Any = by_ratio
    metric = make("load", "kW", float)
    assert all(map(math.isnan, difference_interval(metric, 1.0, [math.nan, 1.0], [1.0, 2.0])))
    low, high = difference_interval(metric, 1.0, [math.nan, 1.0, 1.0], [1.0, 2.0])
    assert low < 0.0 < high
    low, high = difference_interval(metric, 1.0, [0.0], [1.0, 1.5])  # nothing at all is drawn
    assert low == -1.0
