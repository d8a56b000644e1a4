"""The chart style: one template, a palette for all, constructors that every figure uses."""

import ast
import json
import math
from pathlib import Path

import numpy as np
import pytest

import wattveil
from wattveil.web import charts
from wattveil.web.comparison_charts import (
    population_histogram,
    population_lines,
    ratio_chart,
    verdict_table,
)

SOURCE = Path(wattveil.__file__).parent


def test_every_figure_begins_with_the_style() -> None:
    """No module but web/charts.py makes a figure or names a template of Plotly."""
    makers = {}
    for path in SOURCE.rglob("*.py"):
        calls = [
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call)
        ]
        if count := calls.count("Figure") + calls.count("make_subplots"):
            makers[path.relative_to(SOURCE).as_posix()] = count
    assert makers.keys() == {"web/charts.py"}


def test_the_style_is_small() -> None:
    """A figure carries its style: less than 1 kB, where Plotly's own template has 6."""
    text = charts.new_figure().to_json()
    assert len(text) < 1_000
    layout = json.loads(text)["layout"]
    assert layout["template"]["layout"]["font"]["color"] == charts.INK
    assert {"xaxis", "yaxis"} <= layout["template"]["layout"].keys()  # charts.js sets their colours


def test_the_palette_has_contrast() -> None:
    """Every colour has a contrast of at least 2 against white, every outcome 4.5 or a dark grey."""

    def contrast(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [
            one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts
        ]
        return 1.05 / (0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)

    assert len(set(charts.COLOURS)) == len(charts.COLOURS)
    assert min(map(contrast, charts.COLOURS)) > 2.0
    assert min(map(contrast, (charts.PASS, charts.FAIL))) > 4.5
    assert contrast(charts.UNDECIDED) > 4.0


def test_colours_repeat_after_the_palette() -> None:
    """A cluster has the same colour in every figure."""
    assert charts.colour(9) == charts.colour(1) == charts.COLOURS[1]


@pytest.mark.parametrize(
    ("passed", "colour"),
    [(True, charts.PASS), (False, charts.FAIL), (None, charts.UNDECIDED)],
)
def test_outcomes_have_colours(passed: bool | None, colour: str) -> None:  # noqa: FBT001 - a case
    """Pass, fail and undecided differ."""
    assert charts.outcome_colour(passed) == colour


def test_a_band_goes_there_and_back() -> None:
    """Along the upper curve, then back along the lower one; listed only if it has a name."""
    figure = charts.new_figure()
    charts.add_band(figure, [0, 1], [1.0, 2.0], [3.0, 4.0], colour=charts.BLUE)
    charts.add_band(figure, ["a", "b"], [1.0, 2.0], [3.0, 4.0], colour=charts.BLUE, name="band")
    plain, named = figure.data
    assert list(plain.x) == [0, 1, 1, 0]
    assert list(plain.y) == [3.0, 4.0, 2.0, 1.0]
    assert list(named.x) == ["a", "b", "b", "a"]
    assert (plain.showlegend, named.showlegend) == (False, True)


def test_lines_and_logarithmic_axes() -> None:
    """Lines keep name, colour and dash; axes are logarithmic on request."""
    line = charts.Line("one", [1, 2], [3, 4], charts.GREEN, "dash")
    figure = charts.line_figure([line], log_x=True, log_y=True)
    assert (figure.data[0].name, figure.data[0].line.dash) == ("one", "dash")
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    assert charts.line_figure([line]).layout.xaxis.type is None


def test_times_are_labelled_by_hour_or_by_day_type() -> None:
    """Four hours of one day; the first slot of each day type where there are several."""
    day = [f"{hour:02d}:00" for hour in range(24)]
    figure = charts.new_figure()
    charts.label_times(figure, day)
    assert list(figure.layout.xaxis.ticktext) == ["00:00", "06:00", "12:00", "18:00"]
    charts.label_times(
        figure, [f"{kind} {time}" for kind in ("weekday", "weekend") for time in day]
    )
    assert list(figure.layout.xaxis.ticktext) == ["weekday", "weekend"]
    assert list(figure.layout.xaxis.tickvals) == [0, 24]


class Metric:
    """A metric with fixed ratios."""

    metric, unit, control_ratio, noise, smallest_detectable = "F1", "kW", 3.0, 2.0, 2.5

    def __init__(self, ratio: float, verdict: str) -> None:
        self.ratio, self.verdict = ratio, verdict
        self.low, self.high = ratio * self.noise - 0.2, ratio * self.noise + 0.4


OUTCOMES = {"good": True, "bad": False, "open": None}


def test_ratios_stay_on_the_axis() -> None:
    """A ratio beyond the axis stands at its end; a metric that was not measured is not drawn."""
    rows = [Metric(1e9, "bad"), Metric(0.5, "good"), Metric(0.0, "open"), Metric(1.0, "no data")]
    figure = ratio_chart(rows, "Ratios", OUTCOMES).figure
    synthetic = figure.data[1]
    assert list(synthetic.x) == [30.0, 0.5, 0.03]
    assert list(synthetic.marker.color) == [charts.FAIL, charts.PASS, charts.UNDECIDED]
    assert list(synthetic.error_x.array) == pytest.approx([0.0, 0.2, 0.17])  # over the noise
    assert list(synthetic.error_x.arrayminus) == pytest.approx([0.0, 0.1, 0.0])
    table = verdict_table(rows, {"ratio": lambda row: f"{row.ratio:g}"}, OUTCOMES)
    assert len(table.rows) == 4
    assert [getattr(row[-1], "passed", "") for row in table.rows] == [False, True, None, None]


def test_shares_of_a_population_add_up() -> None:
    """Each histogram is a share of its own population, drawn to the right edge of the last bin."""
    samples = [np.array([0.5, 1.5]), np.array([0.5]), np.empty(0)]
    figure = population_histogram(samples, np.array([0.0, 1.0, 2.0]))
    assert [list(one.y) for one in figure.data] == [[0.5, 0.5, 0.5], [1.0, 0.0, 0.0], [0.0] * 3]
    dotted = population_lines([([0], [1])] * 3).data[2]
    assert (dotted.name, dotted.line.dash) == ("centroids only", "dot")


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([2.0, 67.0], (2.0, 5.0, 10.0, 20.0, 50.0)),
        ([0.0, math.nan, 0.01, 0.3], (0.01, 0.02, 0.05, 0.1, 0.2)),
        ([1e-6, 1.0], (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)),  # many powers: these alone
        ([11.6, 13.8], None),  # none between: those of Plotly
        ([0.0], None),
    ],
)
def test_log_axes_have_ticks_with_whole_labels(
    values: list[float], ticks: tuple[float, ...] | None
) -> None:
    """At 1, 2 and 5 times powers of ten, on the axis that was named."""
    for name in ("x", "y"):
        figure = charts.new_figure()
        figure.add_scatter(x=values, y=values)
        charts.use_log_axes(figure, **{name: True})
        axes = {"x": figure.layout.xaxis, "y": figure.layout.yaxis}
        assert axes.pop(name).tickvals == ticks
        (other,) = axes.values()
        assert other.type is None
