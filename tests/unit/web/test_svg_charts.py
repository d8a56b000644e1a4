"""Drawings of the report: places by hand, and what is refused."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattveil.errors import InvalidParameterError
from wattveil.web.charts import (
    BLUE,
    COLOURS,
    GREEN,
    INK,
    add_band,
    label_times,
    new_figure,
)
from wattveil.web.pages import STATIC
from wattveil.web.svg_charts import colour_class, nice_ticks, series_colour, svg_chart


def test_a_line_is_where_its_numbers_are() -> None:
    """Percent along the horizontal axis, pixels down the vertical one, by hand."""
    figure = new_figure(height=146, legend=False)  # 22 above, 24 below: 100 pixels of plot
    figure.add_scatter(x=[0, 1, 4], y=[0.0, 5.0, 10.0], mode="lines", line={"color": GREEN})
    figure.update_yaxes(range=[0.0, 10.0])
    chart = svg_chart(figure)
    (line,) = chart.paths
    assert line.points == "0.0,122.0 25.0,72.0 100.0,22.0"
    assert (line.colour, line.is_area, line.dash) == ("series-2", False, False)
    assert [(tick.text, tick.y) for tick in chart.y_ticks] == [
        ("0", 122.0),
        ("2", 102.0),
        ("4", 82.0),
        ("6", 62.0),
        ("8", 42.0),
        ("10", 22.0),
    ]
    assert not chart.legend


def test_a_band_goes_there_and_back() -> None:
    """Along the upper edge, and back along the lower one."""
    figure = new_figure(height=146)
    add_band(figure, [0, 1], [1.0, 2.0], [3.0, 4.0], colour=BLUE, opacity=0.2)
    figure.update_yaxes(range=[0.0, 4.0])
    (area,) = svg_chart(figure).paths
    assert area.points == "0.0,47.0 100.0,22.0 100.0,72.0 0.0,97.0"
    assert (area.is_area, area.opacity) == (True, 0.2)


def test_lying_bars_begin_at_zero_or_where_the_last_one_ends() -> None:
    """Stacked bars follow one another; error bars are centred on the end of a bar."""
    figure = new_figure(height=146)
    for name, values in {"a": [10.0, 30.0], "b": [40.0, 20.0]}.items():
        figure.add_bar(y=["x", "y"], x=values, orientation="h", name=name, marker_color=INK)
    figure.update_layout(barmode="stack")
    figure.update_xaxes(range=[0, 100])
    figure.update_yaxes(autorange="reversed")
    chart = svg_chart(figure)
    assert [(bar.x, bar.width) for bar in chart.bars] == [(0, 10), (0, 30), (10, 40), (30, 20)]
    assert [bar.y + bar.height / 2.0 for bar in chart.bars] == [47.0, 97.0, 47.0, 97.0]
    assert chart.legend == [("series-ink", "a"), ("series-ink", "b")]
    assert [tick.text for tick in chart.y_ticks] == ["x", "y"]

    single = new_figure(height=146)
    single.add_bar(
        y=["x"], x=[50.0], orientation="h", error_x={"array": [20.0]}, text=["50 of 100"]
    )
    single.update_xaxes(range=[0, 100])
    chart = svg_chart(single)
    (error,) = chart.errors
    assert (error.x1, error.x2, error.y1) == (30.0, 70.0, 72.0)
    assert chart.texts[0].x == 70.0


def test_standing_bars_and_markers() -> None:
    """Bars stand on zero, also below it; markers have an area and a name above."""
    figure = new_figure(height=146)
    figure.add_bar(x=["p", "q"], y=[10.0, -10.0])
    figure.update_yaxes(range=[-10.0, 10.0])
    chart = svg_chart(figure)
    assert [(bar.y, bar.height) for bar in chart.bars] == [(22.0, 50.0), (72.0, 50.0)]
    assert [bar.x + bar.width / 2.0 for bar in chart.bars] == [25.0, 75.0]
    assert {bar.colour for bar in chart.bars} == {"series-0"}

    figure = new_figure(height=146)
    marker = {"size": [10.0, 20.0], "color": [BLUE, GREEN], "opacity": [1.0, 0.5]}
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="markers+text", text=["p", "q"], marker=marker)
    figure.update_xaxes(range=[0, 1], showticklabels=False)
    figure.update_yaxes(range=[0, 1], showticklabels=False)
    chart = svg_chart(figure)
    assert [(dot.x, dot.radius, dot.opacity) for dot in chart.dots] == [(0, 5, 1.0), (100, 10, 0.5)]
    assert [(text.text, text.anchor) for text in chart.texts] == [("p", "start"), ("q", "end")]
    assert chart.bottom == 146.0
    assert not chart.x_ticks
    assert not chart.y_ticks


def test_numbers_can_be_read_along_a_curve() -> None:
    """Every slot of a day; of longer curves, at most 48 places; all lines at once."""
    figure = new_figure(height=200)
    for name in ("home", "shop"):
        figure.add_scatter(
            x=list(range(24)),
            y=np.arange(24.0),
            customdata=np.full(24, 0.5),
            text=[f"{hour:02}:00" for hour in range(24)],
            name=name,
            mode="lines",
        )
    figure.update_yaxes(title_text="kW")
    readings = svg_chart(figure).readings
    assert len(readings) == 24
    assert readings[7].lines == ["07:00, kW", "home 7 ± 0.5", "shop 7 ± 0.5"]
    assert readings[7].x + readings[7].width / 2.0 == pytest.approx(100.0 * 7 / 23, abs=0.02)
    figure = new_figure(height=200)
    figure.add_scatter(x=list(range(8760)), y=np.ones(8760), mode="lines", line={"dash": "dot"})
    chart = svg_chart(figure)
    assert 24 < len(chart.readings) <= 48
    assert [line[-3:] for line in chart.readings[1].lines] == [": 1"]
    assert chart.paths[0].dash


def test_a_long_curve_keeps_its_peaks() -> None:
    """Drawn with fewer points, and with every extreme of a stretch among them."""
    values = np.sin(np.arange(2304) / 50.0)
    values[1000], values[1500] = 7.0, -7.0
    figure = new_figure(height=200)
    figure.add_scatter(x=list(range(2304)), y=values, mode="lines")
    figure.update_yaxes(range=[-7.0, 7.0])
    points = svg_chart(figure).paths[0].points.split()
    assert 200 < len(points) <= 402
    heights = [float(point.partition(",")[2]) for point in points]
    assert (min(heights), max(heights)) == (22.0, 176.0)
    assert (points[0].partition(",")[0], points[-1].partition(",")[0]) == ("0.0", "100.0")


def test_times_label_the_axis() -> None:
    """Tick labels of a figure are used as given."""
    times = [f"{hour:02}:00" for hour in range(24)]
    figure = new_figure(height=200)
    figure.add_scatter(x=list(range(24)), y=np.ones(24), mode="lines")
    label_times(figure, times)
    chart = svg_chart(figure)
    assert [tick.text for tick in chart.x_ticks] == ["00:00", "06:00", "12:00", "18:00"]
    assert [tick.anchor for tick in chart.x_ticks] == ["middle", "middle", "middle", "middle"]


@pytest.mark.parametrize("axis", ["constant", "empty"])
def test_a_figure_without_range_is_drawn(axis: str) -> None:
    """A constant curve, and no curve."""
    figure = new_figure(height=200)
    if axis == "constant":
        figure.add_scatter(x=[0, 1], y=[0.0, 0.0], mode="lines")
    chart = svg_chart(figure)
    assert len(chart.y_ticks) > 1
    assert "nan" not in str(chart)


def test_groups_of_columns_stand_side_by_side_with_their_errors() -> None:
    """Two series of two columns; the whiskers are at their middle and reach as far as the error."""
    figure = new_figure(height=200)
    for number, colour in enumerate(COLOURS[:2]):
        figure.add_bar(
            x=["a", "b"],
            y=[1.0 + number, 2.0],
            error_y={"type": "data", "array": [0.5, math.nan]},
            marker={"color": colour},
        )
    chart = svg_chart(figure)
    first, second, third, fourth = chart.bars  # both columns of a series, then those of the next
    assert first.x + first.width == pytest.approx(third.x, abs=0.02)
    assert second.x + second.width == pytest.approx(fourth.x, abs=0.02)
    assert third.height == pytest.approx(2.0 * first.height, abs=0.02)
    assert len(chart.errors) == 2  # an error that is not known is not drawn
    for bar, line in zip((first, third), chart.errors, strict=True):
        assert line.x1 == line.x2 == pytest.approx(bar.x + bar.width / 2.0, abs=0.02)
        assert line.y1 - line.y2 == pytest.approx(first.height, abs=0.02)  # 2 x 0.5 of 1.0
    assert "nan" not in str(chart)


def test_values_that_are_not_finite_are_left_out() -> None:
    """Of curves and of columns; the axis is that of the others."""
    figure = new_figure(height=200)
    figure.add_scatter(x=[0, 1, 2, 3], y=[1.0, math.nan, math.inf, 2.0], mode="lines")
    assert len(svg_chart(figure).paths[0].points.split()) == 2
    columns = new_figure(height=200)
    columns.add_bar(x=["a", "b"], y=[math.nan, 2.0])
    assert len(svg_chart(columns).bars) == 1


def test_a_class_has_its_colour_without_a_stylesheet() -> None:
    """As in the output of a notebook."""
    assert [series_colour(colour_class(one)) for one in (*COLOURS, INK)] == [*COLOURS, INK]


@given(
    st.floats(-1e6, 1e6, allow_subnormal=False),
    st.floats(1e-3, 1e6, allow_subnormal=False),
    st.integers(2, 10),
)
def test_ticks_are_few_and_inside(low: float, spread: float, at_most: int) -> None:
    """Multiples of 1, 2, 2.5 or 5 times a power of ten, at equal distances."""
    ticks = nice_ticks(low, low + spread, at_most=at_most)
    assert len(ticks) <= at_most + 1
    slack = 1e-6 * spread + 1e-9 * abs(low)
    assert all(low - slack <= tick <= low + spread + slack for tick in ticks)
    if len(ticks) > 1:
        mantissa = float(f"{ticks[1] - ticks[0]:.3e}".partition("e")[0])
        assert mantissa in (1.0, 2.0, 2.5, 5.0)


def test_other_traces_and_colours_are_refused() -> None:
    """Nothing is left out silently."""
    figure = new_figure()
    figure.add_heatmap(z=[[1.0]])
    with pytest.raises(InvalidParameterError, match="scatter or bar"):
        svg_chart(figure)
    with pytest.raises(InvalidParameterError, match="one of the chart style"):
        colour_class("#123456")


def test_every_colour_has_a_class_in_both_themes() -> None:
    """Each with a contrast of at least 3 to the ground of its theme."""
    style = (STATIC / "wattveil.css").read_text(encoding="utf-8")
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w+)", part)) for part in _themes(style))
    for number in range(len(COLOURS)):
        name = colour_class(COLOURS[number])
        assert f".{name} {{ color: var(--{name}); }}" in style
        for theme in (light, dark):
            assert _contrast(theme[name], theme["paper"]) >= 3.0
    for theme in (light, {**light, **dark}):
        for text in ("ink", "soft", "blue", "warn", "pass", "fail"):
            assert min(_contrast(theme[text], theme[on]) for on in ("paper", "ground")) >= 4.5
        assert _contrast(theme["on-header"], theme["header"]) >= 4.5
        assert _contrast(theme["on-blue"], theme["blue"]) >= 4.5


def _themes(style: str) -> tuple[str, str]:
    light, _, rest = style.partition("@media screen and (prefers-color-scheme: dark)")
    return light, rest.partition("* {")[0]


def _contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = [int(digits[place : place + 2], 16) / 255.0 for place in (0, 2, 4)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dim, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dim + 0.05)
