"""Notes below a summary: differences that a verdict does not show, and margins with power."""

import math

import numpy as np
import pytest

from wattveil.grid.planning_summary import (
    Equivalence,
    PlanningRow,
    beyond_margin,
    compared,
    min_margin,
    powerless,
    summary_text,
)

PEAK = compared("peak load", "kW", (100.0, 101.0), (-0.03, 0.05), 0.1)
BIASED = compared("transformer", "share", (1.0, 0.6), (-0.775, -0.025), 0.1)
SURE = compared("ramp", "kW", (1.0, 2.0), (0.9, 1.1), 0.1)
UNDEFINED = compared("hosting", "MW", (0.0, 0.0), (math.nan, math.nan), 0.1)


def test_a_large_difference_is_named_although_inconclusive() -> None:
    """Not one that is found different already, nor one within the margin, nor one undefined."""
    assert BIASED.equivalence is Equivalence.INCONCLUSIVE
    note = beyond_margin((PEAK, BIASED, SURE, UNDEFINED), 0.1)
    assert "transformer: -40.0 %" in note
    assert not any(name in note for name in ("peak", "ramp", "hosting"))
    assert beyond_margin((PEAK, SURE, UNDEFINED), 0.1) == ""
    assert note in summary_text((PEAK, BIASED), 0.1)


def test_a_margin_that_no_test_can_show_is_said_first() -> None:
    """Only if no test has power; with the margin of all, or of the one that has a usable margin."""

    def row(name: str, reach: float, margin: float = 0.05) -> PlanningRow:
        return compared(name, "kW", (1.0, 1.0), (-reach, reach), margin)

    weak = (row("peak load", 0.06), row("losses", 0.07), UNDEFINED)
    text = powerless(weak, 0.05)
    # 0.07 (1 + 1.2816 / 1.96) = 0.1158
    assert "within ±5 %" in text
    assert "±12 % for all quantities" in text
    assert summary_text(weak, 0.05).startswith(text)
    assert powerless((*weak, row("energy", 0.04)), 0.05) == ""
    assert "±10 % for peak load" in powerless((*weak, row("ramp", 0.7)), 0.05)
    assert "any other margin" in powerless((row("ramp", 0.7),), 0.05)
    assert powerless((UNDEFINED,), 0.05) == ""


def test_the_min_margin_has_the_stated_power() -> None:
    """At reach (1 + 1.2816 / 1.96), 80 % of estimates without difference are within it."""
    text = min_margin((PEAK, BIASED, UNDEFINED))
    assert "±6.6 %" in text  # 0.04 (1 + 1.2816 / 1.96) = 0.06615
    assert "for all (transformer)" in text
    at = compared("peak load", "kW", (1.0, 1.0), (-0.04, 0.04), 0.04 * 1.6539)
    assert at.power == pytest.approx(0.8, abs=0.001)
    drawn = np.random.default_rng(0).normal(scale=0.04 / 1.96, size=100_000)
    assert np.mean(np.abs(drawn) + 0.04 <= 0.06615) == pytest.approx(0.8, abs=0.01)
    assert min_margin((UNDEFINED,)) == ""
