"""The fast run's numbers stay what they were, within tolerances that are stored here.

What is seeded repeats; where a product without a seed is in a number, it is held to a range that
its noise hardly leaves. `test_independent_checks` recomputes numbers where possible.
"""

from collections.abc import Callable
from typing import Any

import pytest

from wattveil.lab.reproduce import FIGURES, Outcome

EXACT: dict[str, dict[str, Any]] = {
    "differencing": {
        "sizes": [15, 400],
        "largest_error_kw_of_rounded_averages": [0.0141429, 0.394429],
    },
    "filtering": {"s": 0.289959, "white_rmse_kw": 0.750627, "filtered_rmse_kw": 0.0681763},
    "label-set": {"label_set": [0, 4, 8, 14, 19], "labels_changed": 3},
    "mixture-scatter": {
        "sensitivity": 0.0441055,
        "label_set": 4,
        "labels_changed": 3,
        "flip": 0.781786,
        "changed": 3,
        "global_label_error": 0.531446,
    },
    "mixture-performance": {"loss_at_1_exact": 0.0109685, "loss_at_1_paper": 0.0329596},
    "ami-scatter": {
        "sensitivity_before": 48.0089,
        "sensitivity_after": 0.401718,
        "sizes_before": [400, 1, 2, 1, 2, 1],
        "outliers_found_by_neighbours": 7,
    },
    "ami-performance": {"label_set_percent": 0.75, "labels_changed": 2},
    "histograms": {"slots": 21},
    "wishart": {"impossible_share": [0.075, 0.1, 0.275, 0.675, 0.925, 1.0]},
    "load-shapes": {"real_largest_kw": 5.14886},
    "voltages": {},
    "duration": {"peak_kw": 272.648},
}
"""To 5 parts in a million."""

SOLVED: dict[str, dict[str, float]] = {
    "filtering": {"coloured_rmse_kw": 0.0424492},
    "mixture-performance": {
        "lemma_mended_over_optimum": 99.2997,
        "coloured_over_white_power": 0.197243,
    },
    "ami-scatter": {"noise_rms_kw": 0.00582225},
    "ami-performance": {"coloured_over_white_power": 0.0301603},
    "histograms": {"normal_minus_log_normal_excess": 1.54426},
    "voltages": {"control_w1_over_noise": 0.169002},
    "duration": {"paper_nrmse": 0.00187429},
}
"""To a part in a thousand: behind them stands a solver that stops at a gap of 1e-4."""

RANGES = {
    ("ami-performance", "median_loss", "coloured, exact"): [(0.03, 0.4), (0.001, 0.01)],
    ("ami-performance", "median_loss", "white, exact"): [(5.0, 30.0), (0.15, 0.7)],
    ("ami-performance", "median_loss", "Wattveil, global tier"): [(0.05, 1.0), (0.005, 0.4)],
    ("ami-performance", "median_loss", "Balcan"): [(1.0, 6.0), (0.3, 1.5)],
    ("ami-performance", "median_loss", "Yu"): [(1.5, 7.0), (0.3, 1.5)],
    ("ami-performance", "median_loss", "Ni"): [(1.5, 8.0), (0.6, 3.0)],
    ("load-shapes", "mean_band_error", "Algorithm 2, centred, Wishart noise"): [(0.5, 1.2)],
    ("load-shapes", "mean_band_error", "Algorithm 2, centred, no noise"): [(0.05, 0.2)],
    ("load-shapes", "mean_band_error", "Wattveil, ε = 3"): [(0.03, 0.6)],
    ("duration", "released_nrmse"): [(0.0, 0.4)],
}


@pytest.mark.parametrize("name", FIGURES)
def test_numbers_are_as_stored(drawn: Callable[[str], Outcome], name: str) -> None:
    """Every figure is in the store, and its seeded numbers are those of the store."""
    found = drawn(name).numbers
    for key, stored in EXACT[name].items():
        assert found[key] == pytest.approx(stored, rel=5e-6), key
    for key, solved in SOLVED.get(name, {}).items():
        assert found[key] == pytest.approx(solved, rel=1e-3), key
    for (figure, *path), ranges in RANGES.items():
        if figure == name:
            at: Any = found
            for key in path:
                at = at[key]
            values = at if isinstance(at, list) else [at]
            for value, (low, high) in zip(values, ranges, strict=True):
                assert low <= value <= high, path


@pytest.mark.parametrize("name", FIGURES)
def test_figures_have_plots_and_texts(drawn: Callable[[str], Outcome], name: str) -> None:
    """A figure has nonempty plots, and a text for the paper, our result and the differences."""
    outcome = drawn(name)
    assert outcome.panels
    assert all(panel.title and panel.figure.data for panel in outcome.panels)
    assert min(map(len, (FIGURES[name].paper, outcome.found, outcome.differs))) > 40
