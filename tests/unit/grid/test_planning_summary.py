"""Planning summary: relative differences, and the test of equivalence."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from wattveil.errors import InvalidParameterError
from wattveil.grid import Equivalence, GridComparison, GridRow, Verdict, planning_summary
from wattveil.grid.large_customers import SetAside
from wattveil.grid.planning_summary import (
    format_difference,
    format_equivalence,
    is_zero_throughout,
    light_load,
    metric_parts,
    summary_notes,
    summary_sentence,
)


def grid_row(metric: str, real: float, synthetic: float, low: float, high: float) -> GridRow:
    """Return a row; what the summary does not read is 0."""
    return GridRow(
        metric=metric,
        unit="kW",
        compares="value",
        real=real,
        synthetic=synthetic,
        difference_low=low,
        difference_high=high,
        verdict=Verdict.DIFFERENT,
        shown="",
        **dict.fromkeys(
            (
                "distance",
                "low",
                "high",
                "noise",
                "smallest_detectable",
                "ratio",
                "control_ratio",
            ),
            0.0,
        ),
    )


def compared(*rows: GridRow) -> GridComparison:
    """Return a comparison of these rows on a feeder with 1.02 pu at the substation."""
    nothing: Any = None
    setting: Any = SimpleNamespace(
        feeder=SimpleNamespace(slack_pu=1.02, nominal_kw=np.array([0.0, 6000.0, 4000.0])),
        placement=SimpleNamespace(houses=60),
        transformer_homes=8,
        transformer_kva=25.0,
    )
    return GridComparison(
        rows=rows,
        setting=setting,
        real=nothing,
        synthetic=nothing,
        control=nothing,
        class_names=("all",),
        class_mix_distance=0.0,
        synthetic_failures={},
        set_aside=SetAside(0, 0, 0.0, 0.0),
        redraws=100,
    )


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-100.0, 100.0, Equivalence.EQUIVALENT),
        (-100.1, 0.0, Equivalence.INCONCLUSIVE),
        (0.0, 100.1, Equivalence.INCONCLUSIVE),
        (100.1, 200.0, Equivalence.DIFFERENT),
        (-200.0, -100.1, Equivalence.DIFFERENT),
        (-200.0, 200.0, Equivalence.INCONCLUSIVE),
        (math.nan, math.nan, Equivalence.INCONCLUSIVE),
    ],
)
def test_the_whole_interval_is_compared(low: float, high: float, expected: Equivalence) -> None:
    """At 10 % of 1,000 kW; a limit that is reached is accepted."""
    peak = compared(grid_row("A5 peak", 1000.0, 1010.0, low, high))
    (row,) = planning_summary(peak, margin=0.1)
    assert row.equivalence is expected
    assert row.difference == pytest.approx(0.01)


def test_voltage_is_compared_by_its_drop() -> None:
    """A voltage of 0.97 instead of 0.98 pu is a drop of 0.05 instead of 0.04: 25 % more."""
    lowest = grid_row("A1 voltage, KS", 0.98, 0.97, -0.012, -0.008)
    (row,) = planning_summary(compared(lowest))
    assert (row.unit, row.equivalence) == ("pu", Equivalence.DIFFERENT)
    found = (row.real, row.synthetic, row.difference, row.low, row.high)
    assert found == pytest.approx((0.04, 0.05, 0.25, 0.2, 0.3))
    assert format_difference(row) == "+25.0 % (+20.0 to +30.0)"


def test_without_a_real_value_nothing_is_claimed() -> None:
    """A relative difference from 0 is not defined, and metrics of zeros are recognised."""
    nothing = grid_row("A5 peak", 0.0, 0.0, 0.0, 0.0)
    (row,) = planning_summary(compared(nothing))
    assert (row.equivalence, format_difference(row)) == (Equivalence.INCONCLUSIVE, "not defined")
    assert is_zero_throughout(nothing)
    assert not is_zero_throughout(grid_row("A5 peak", 0.0, 0.0, 0.0, 0.1))


def test_the_sentence_counts_all_quantities() -> None:
    """Each row is counted once."""
    rows = planning_summary(
        compared(
            grid_row("A3 losses", 1.0, 1.0, 0.0, 0.0),
            grid_row("A5 peak", 1.0, 2.0, 0.9, 1.1),
            grid_row("B10 ramp, W1", 1.0, 2.0, 0.9, 1.1),
        ),
        margin=0.05,
    )
    assert [row.quantity for row in rows] == ["peak load", "losses"]
    assert summary_sentence(rows, 0.05) == (
        "Margin ±5 %: 1 of 2 quantities are equivalent, 1 different, 0 inconclusive."
    )


@pytest.mark.parametrize("margin", [0.0, -0.1, 1.1, math.nan])
def test_a_margin_is_a_share(margin: float) -> None:
    """10 instead of 0.1 is refused."""
    with pytest.raises(InvalidParameterError, match="margin"):
        planning_summary(compared(), margin=margin)


@pytest.mark.parametrize("reach", [0.02, 0.04, 0.06, 0.2])
def test_the_power_is_the_frequency_of_equivalence(reach: float) -> None:
    """Of estimates around 0 with this interval, the stated share is found equivalent."""
    margin = 0.05
    (row,) = planning_summary(compared(grid_row("A5 peak", 1.0, 1.0, -reach, reach)), margin=margin)
    away = np.random.default_rng(0).normal(0.0, reach / 1.96, 20_000)
    share = (np.abs(away) + reach <= margin).mean()
    assert row.power == pytest.approx(share, abs=0.015)
    assert ("power" in format_equivalence(row)) == (reach > margin)
    assert ("too few customers" in format_equivalence(row)) == (row.power < 0.1)


@pytest.mark.parametrize(("peak_kw", "warned"), [(999.0, True), (1000.0, False)])
def test_a_feeder_almost_without_load_is_noticed(peak_kw: float, *, warned: bool) -> None:
    """Below a tenth of the nominal 10,000 kW, the network hardly distinguishes populations."""
    warning = light_load(compared(grid_row("A5 peak", peak_kw, peak_kw, 0.0, 0.0)))
    assert bool(warning) is warned
    assert not warned or "10.0 % of the nominal load" in warning


def test_omitted_quantities_and_extremes_are_named() -> None:
    """Rows that 60 houses do not have are listed; so is reverse flow, of solved snapshots only."""
    nan = math.nan
    real: Any = SimpleNamespace(
        voltage_pu=np.array([[1.01, 1.03], [0.99, 1.0], [nan, nan]]),
        flow=SimpleNamespace(source_kw=np.array([-250.0, 40.0, nan])),
    )
    failed: Any = SimpleNamespace(
        voltage_pu=np.full((1, 2), nan), flow=SimpleNamespace(source_kw=np.array([nan]))
    )
    present = [
        grid_row(name, 1.0, 1.0, 0.0, 0.0)
        for name in ("B8 ADMD of 4 homes, W1", "B9 peak loading, 99 %")
    ]
    comparison = replace(compared(*present), real=real, synthetic=failed)
    *omitted, extremes = summary_notes(comparison)
    assert "Omitted: average-day ADMD of 64 homes, because there are only 60 houses." in omitted
    assert not any("ADMD of 4 homes" in line or "transformer" in line for line in omitted)
    assert "Highest voltage 1.0300 pu" in extremes
    few = set(summary_notes(replace(comparison, redraws=20))) - {*omitted, extremes}
    assert "Only 20 redraws" in "".join(few)  # 100 or more: no such note
    assert "-250 kW (none)" in extremes
    _, transformers = planning_summary(comparison)
    assert transformers.quantity == ("transformer peak loading, 8 homes on 25 kVA, 99th percentile")
    assert (transformers.unit, transformers.real) == ("% of rating", 100.0)


@pytest.mark.parametrize(
    ("metric", "shown", "compares", "expected"),
    [
        ("A5 load duration curve, NRMSE", "mean load", "distribution", ("mean load, kW", "NRMSE")),
        ("A1 voltage, W1 by hour", "mean", "distribution", ("mean, kW", "W1 by hour")),
        ("B8 ADMD, mean curve", "of 64 homes", "distribution", ("of 64 homes, kW", "whole curve")),
        ("A6 hosting capacity, PV", "", "value", ("kW", "difference")),
        ("A5 peak", "", "ratio", ("kW", "ratio")),
    ],
)
def test_the_value_shown_is_not_the_distance(
    metric: str, shown: str, compares: str, expected: tuple[str, str]
) -> None:
    """A value in kW has no unit of a distance, and the distance is named beside it."""
    row = replace(grid_row(metric, 1.0, 1.0, 0.0, 0.0), shown=shown, compares=compares)
    name, *found = metric_parts(row)
    assert tuple(found) == expected
    assert name == metric.removesuffix(f", {expected[1]}")
