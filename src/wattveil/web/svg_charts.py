"""Figures as SVG, without script: for the report of a release, and for the output of notebooks.

Plotly's script has 4.8 MB (2.0 MB compressed, as text). The report instead draws the same figures
when it is written: lines, bands, bars and markers, and refuses other traces. `svg_chart` returns
what to draw; the template writes the elements and escapes every text. Horizontal places are
percentages, so that a chart fills the width of its place at any size of screen while letters keep
theirs; vertical places are pixels. Colours are classes of the stylesheet, so that they follow its
theme; `series_colour` is the colour of a class where there is no stylesheet. Values that are not
finite are left out.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from plotly.graph_objects import Figure

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.web.charts import COLOURS, INK
from wattveil.web.formatting import format_number

_TOP, _TICKS = 22.0, 24.0
"""Pixels above the plot, for the read-out, and below it, for labels of ticks."""
_LETTER = 7.0
"""Width of a letter, in pixels; used for the space left of the plot."""
_MIN_LEFT, _MAX_LEFT = 30.0, 170.0
_BAR = 0.68
"""Height of a bar as a share of its row."""
_MAX_READINGS = 48
"""Maximum of places on a curve whose value can be read with the pointer."""
_MAX_POINTS, _ALL_POINTS = 400, 8000
"""Maximum of points of a line or area, and of all of a chart: more are not visible."""
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
HOLLOW = "circle-open"
"""Symbol of a marker without a filling."""


class PathMark(NamedTuple):
    """A line, or the outline of an area, as points in percent and pixels."""

    points: str
    colour: str
    opacity: float
    is_area: bool
    dash: bool
    width: float


class BarMark(NamedTuple):
    """A rectangle: left edge and width in percent, top and height in pixels."""

    x: float
    width: float
    y: float
    height: float
    colour: str
    opacity: float


class LineMark(NamedTuple):
    """A straight line between two places."""

    x1: float
    y1: float
    x2: float
    y2: float


class DotMark(NamedTuple):
    """A circle."""

    x: float
    y: float
    radius: float
    colour: str
    opacity: float
    is_hollow: bool


class TextMark(NamedTuple):
    """A text at a place."""

    x: float
    y: float
    text: str
    anchor: str


class Reading(NamedTuple):
    """A strip of the plot, and the lines of text that appear while the pointer is on it."""

    x: float
    width: float
    lines: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class SvgChart:
    """What to draw, for a template."""

    height: float
    left: float
    """Pixels for the labels of the vertical axis."""
    top: float
    bottom: float
    """Upper and lower edge of the plot."""
    x_title: str
    y_title: str
    x_ticks: Sequence[TextMark]
    y_ticks: Sequence[TextMark]
    legend: Sequence[tuple[str, str]]
    """Colour and name of each series, if there are several."""
    paths: list[PathMark] = field(default_factory=list)
    bars: list[BarMark] = field(default_factory=list)
    errors: list[LineMark] = field(default_factory=list)
    dots: list[DotMark] = field(default_factory=list)
    texts: list[TextMark] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)


class _Axis:
    """Places of values along one axis, from 0 to 1."""

    def __init__(self, found: list[Any], options: Any, *, from_zero: bool, padding: float) -> None:  # noqa: ANN401 - of Plotly
        texts = dict.fromkeys(value for value in found if isinstance(value, str))
        self.names = list(texts)
        numbers = [float(value) for value in found if _is_finite(value)]
        low, high = (min(numbers), max(numbers)) if numbers else (0.0, 1.0)
        if from_zero or options.rangemode == "tozero":
            low, high = min(low, 0.0), max(high, 0.0)
        spread = (high - low) or max(abs(high), 1.0)
        low, high = low - (padding * spread if low else 0.0), high + padding * spread
        if options.range is not None:
            low, high = map(float, options.range)
        self.low, self.high = (0.0, float(len(texts))) if texts else (low, high)
        self.reversed = options.autorange == "reversed"
        self.options = options

    def place(self, value: float | str) -> float:
        number = self.names.index(value) + 0.5 if isinstance(value, str) else float(value)
        share = (number - self.low) / (self.high - self.low)
        return 1.0 - share if self.reversed else share

    def ticks(self, at_most: int) -> Iterator[tuple[float, str]]:
        """Yield the place and label of each tick."""
        if self.options.showticklabels is False:
            return
        if self.options.tickvals is not None:
            pairs = zip(self.options.tickvals, self.options.ticktext, strict=True)
            yield from ((self.place(value), text) for value, text in pairs)
        elif self.names:
            yield from ((self.place(name), name) for name in self.names)
        else:
            for value in nice_ticks(self.low, self.high, at_most=at_most):
                yield self.place(value), format_number(value)


def svg_chart(figure: Figure) -> SvgChart:
    """Return a figure as marks.

    Parameters
    ----------
    figure
        Of lines, areas, markers with texts, and bars.
    """
    traces = list(figure.data)
    for trace in traces:
        if trace.type not in ("scatter", "bar"):
            rule = "scatter or bar: the report draws lines, bands, markers and bars"
            raise InvalidParameterError("trace", rule, trace.type)
    x_axis, y_axis = _axes(figure, traces)
    height = float(figure.layout.height)
    x_title = figure.layout.xaxis.title.text or ""
    has_labels = figure.layout.xaxis.showticklabels is not False
    bottom = height - _TICKS * has_labels
    y_ticks = [
        TextMark(0.0, _round(_TOP + (1.0 - place) * (bottom - _TOP)), text, "end")
        for place, text in y_axis.ticks(6)
    ]
    chart = SvgChart(
        height=height,
        left=_left(tick.text for tick in y_ticks),
        top=_TOP,
        bottom=bottom,
        x_title=x_title,
        y_title=figure.layout.yaxis.title.text or "",
        x_ticks=[
            TextMark(_round(100.0 * place), bottom, text, _anchor(place, starts=not y_ticks))
            for place, text in x_axis.ticks(5)
        ],
        y_ticks=y_ticks,
        legend=_legend(figure, traces),
    )
    columns = sum(trace.type == "bar" and trace.orientation != "h" for trace in traces)
    canvas = _Canvas(
        chart, x_axis, y_axis, stacked=figure.layout.barmode == "stack", columns=columns
    )
    points = min(_MAX_POINTS, max(_ALL_POINTS // max(len(traces), 1), _MAX_READINGS))
    for trace in traces:
        if trace.type == "bar":
            canvas.draw_bars(trace)
        else:
            canvas.draw_scatter(trace, points)
    chart.readings.extend(_readings(traces, x_axis, figure.layout.yaxis.title.text or ""))
    return chart


def nice_ticks(low: float, high: float, *, at_most: int) -> list[float]:
    """Return round numbers from ``low`` to ``high``, ``at_most`` of them and one."""
    rough = (high - low) / at_most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(part * power for part in _STEPS if part * power >= rough * (1.0 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [0.0 if number == 0 else number * step for number in range(first, last + 1)]


def _is_finite(value: float | str) -> bool:
    return not isinstance(value, str) and math.isfinite(value)


def series_colour(name: str) -> str:
    """Return the colour of a class of `colour_class`."""
    number = name.removeprefix("series-")
    return COLOURS[int(number)] if number.isdigit() else INK


def colour_class(colour: str) -> str:
    """Return the class of the stylesheet for a colour of the chart style."""
    if colour in COLOURS:
        return f"series-{COLOURS.index(colour)}"
    if colour == INK:
        return "series-ink"
    raise InvalidParameterError("colour", "one of the chart style", colour)


class _Canvas:
    """Turns traces into marks."""

    def __init__(
        self, chart: SvgChart, x_axis: _Axis, y_axis: _Axis, *, stacked: bool, columns: int
    ) -> None:
        self.chart, self.x_axis, self.y_axis = chart, x_axis, y_axis
        self.stacked, self.columns, self.drawn = stacked, max(columns, 1), 0
        self.heights: dict[object, float] = {}

    def x(self, value: float | str) -> float:
        return _round(100.0 * self.x_axis.place(value))

    def y(self, value: float | str) -> float:
        chart = self.chart
        return _round(chart.top + (1.0 - self.y_axis.place(value)) * (chart.bottom - chart.top))

    def draw_scatter(self, trace: Any, points: int) -> None:  # noqa: ANN401 - of Plotly
        pairs = [(x, y) for x, y in zip(trace.x, trace.y, strict=True) if _is_drawn(x, y)]
        xs, ys, mode = [x for x, _ in pairs], [y for _, y in pairs], trace.mode or "lines"
        if trace.fill is not None or "lines" in mode:
            is_area = trace.fill is not None
            colour = trace.fillcolor if is_area else trace.line.color
            self.chart.paths.append(
                PathMark(
                    points=" ".join(
                        f"{self.x(xs[place])},{self.y(ys[place])}" for place in _thinned(ys, points)
                    ),
                    colour=colour_class(colour or COLOURS[0]),
                    opacity=1.0 if trace.opacity is None else trace.opacity,
                    is_area=is_area,
                    dash=trace.line.dash not in (None, "solid"),
                    width=trace.line.width or 2.0,
                )
            )
        if "markers" in mode:
            marker = trace.marker
            sizes = np.broadcast_to(6.0 if marker.size is None else marker.size, len(xs))
            colours = _each(marker.color or COLOURS[0], len(xs))
            opacities = _each(marker.opacity or 1.0, len(xs))
            hollow = [symbol == HOLLOW for symbol in _each(marker.symbol, len(xs))]
            marks = zip(xs, ys, sizes, colours, opacities, hollow, strict=True)
            for x, y, size, colour, opacity, is_hollow in marks:
                place = (self.x(x), self.y(y), _round(size / 2.0))
                dot = DotMark(*place, colour_class(colour), opacity, is_hollow)
                self.chart.dots.append(dot)
        if "text" in mode:
            for dot, text in zip(self.chart.dots[-len(xs) :], trace.text, strict=True):
                above = _round(dot.y - dot.radius - 4.0)
                self.chart.texts.append(TextMark(dot.x, above, text, _anchor(dot.x / 100.0)))

    def draw_bars(self, trace: Any) -> None:  # noqa: ANN401 - of Plotly
        xs, ys = list(trace.x), list(trace.y)
        colours = _each(trace.marker.color or COLOURS[0], len(xs))
        opacities = _each(trace.marker.opacity or 1.0, len(xs))
        if trace.orientation == "h":
            row = (self.chart.bottom - self.chart.top) / max(len(self.y_axis.names), 1)
            for x, y, colour, opacity in zip(xs, ys, colours, opacities, strict=True):
                begin = self.heights.get(y, 0.0) if self.stacked else 0.0
                self.heights[y] = begin + x
                left, right = sorted((self.x(begin), self.x(begin + x)))
                top, high = _round(self.y(y) - _BAR * row / 2.0), _round(_BAR * row)
                width = _round(right - left)
                bar = BarMark(left, width, top, high, colour_class(colour), opacity)
                self.chart.bars.append(bar)
            self._add_errors(trace, xs, ys)
        else:
            column = _BAR * 100.0 / max(len(self.x_axis.names), 1)
            width, before = column / self.columns, self.drawn * column / self.columns
            reach = np.zeros(len(xs)) if trace.error_y.array is None else trace.error_y.array
            self.drawn += 1
            for x, y, colour, opacity, error in zip(xs, ys, colours, opacities, reach, strict=True):
                if not _is_finite(y):
                    continue
                top, base = sorted((self.y(y), self.y(0.0)))
                left, high = _round(self.x(x) - column / 2.0 + before), _round(base - top)
                bar = BarMark(left, _round(width), top, high, colour_class(colour), opacity)
                self.chart.bars.append(bar)
                if error and math.isfinite(error):
                    middle = _round(left + width / 2.0)
                    ends = self.y(max(y - error, self.y_axis.low)), self.y(y + error)
                    self.chart.errors.append(LineMark(middle, ends[0], middle, ends[1]))

    def _add_errors(self, trace: Any, xs: list[float], ys: list[str]) -> None:  # noqa: ANN401 - of Plotly
        """Draw error bars, and the texts of the bars behind them."""
        reach = np.zeros(len(xs)) if trace.error_x.array is None else trace.error_x.array
        for x, y, error in zip(xs, ys, reach, strict=True):
            if error:
                low, high = (
                    self.x(min(max(end, self.x_axis.low), self.x_axis.high))
                    for end in (x - error, x + error)
                )
                self.chart.errors.append(LineMark(low, self.y(y), high, self.y(y)))
        if trace.text is not None:
            for x, y, error, text in zip(xs, ys, reach, trace.text, strict=True):
                place = self.x(min(x + error, self.x_axis.high))
                self.chart.texts.append(TextMark(place, _round(self.y(y) + 4.0), text, "after"))


def _is_drawn(x: float | str, y: float | str) -> bool:
    return all(isinstance(value, str) or math.isfinite(value) for value in (x, y))


def _axes(figure: Figure, traces: Sequence[Any]) -> tuple[_Axis, _Axis]:
    """Return both axes; bars begin at 0, and markers keep away from the edges."""
    xs = [value for trace in traces for value in trace.x]
    ys = [value for trace in traces for value in trace.y]
    bars = [trace for trace in traces if trace.type == "bar"]
    lying = any(trace.orientation == "h" for trace in bars)
    has_dots = any("markers" in (trace.mode or "") for trace in traces if trace.type == "scatter")
    for trace in bars:
        if lying and trace.error_x.array is not None:
            xs += [x + error for x, error in zip(trace.x, trace.error_x.array, strict=True)]
        if not lying and trace.error_y.array is not None:
            ys += [y + error for y, error in zip(trace.y, trace.error_y.array, strict=True)]
    padding = 0.18 if has_dots else 0.0
    x_axis = _Axis(xs, figure.layout.xaxis, from_zero=lying, padding=padding)
    y_axis = _Axis(
        ys, figure.layout.yaxis, from_zero=bool(bars) and not lying, padding=padding or 0.04
    )
    return x_axis, y_axis


def _legend(figure: Figure, traces: Iterable[Any]) -> list[tuple[str, str]]:
    if figure.layout.showlegend is False:
        return []
    return [(_colour_of(trace), trace.name) for trace in traces if trace.name]


def _colour_of(trace: Any) -> str:  # noqa: ANN401 - of Plotly
    if trace.type == "bar":
        return colour_class(_each(trace.marker.color or COLOURS[0], 1)[0])
    return colour_class(trace.line.color or COLOURS[0])


def _readings(traces: Sequence[Any], x_axis: _Axis, unit: str) -> Iterator[Reading]:
    """Yield the values of all lines at each place along the horizontal axis."""
    lines = [
        trace
        for trace in traces
        if trace.type == "scatter" and trace.fill is None and trace.mode == "lines"
        if trace.hoverinfo != "skip"
    ]
    if not lines or any(len(line.x) != len(lines[0].x) for line in lines):
        return
    xs = np.array(lines[0].x, dtype=np.float64)
    step = math.ceil(len(xs) / _MAX_READINGS)
    width = _round(100.0 * step / max(len(xs) - 1, 1))
    for place in range(0, len(xs), step):
        label = str(lines[0].text[place] if lines[0].text is not None else format_number(xs[place]))
        values = [_value_text(line, place) for line in lines]
        texts = [f"{label}: {values[0]} {unit}".rstrip()]
        if len(lines) > 1:
            named = zip(lines, values, strict=True)
            texts = [
                f"{label}, {unit}".rstrip(", "),
                *(f"{one.name} {text}" for one, text in named),
            ]
        left = _round(100.0 * x_axis.place(float(xs[place])) - width / 2.0)
        yield Reading(left, width, texts)


def _value_text(line: Any, place: int) -> str:  # noqa: ANN401 - of Plotly
    text = format_number(float(line.y[place]))
    if line.customdata is not None:
        text += f" ± {format_number(float(line.customdata[place]))}"
    return text


def _thinned(values: Sequence[float], points: int) -> list[int]:
    """Return places along a curve that are drawn: minimum and maximum of each stretch, in order."""
    if len(values) <= points:
        return list(range(len(values)))
    kept: set[int] = set()
    for stretch in np.array_split(np.arange(len(values)), points // 2):
        own = np.array([values[place] for place in stretch])
        kept |= {int(stretch[own.argmin()]), int(stretch[own.argmax()])}
    return sorted(kept | {0, len(values) - 1})


def _left(labels: Iterable[str]) -> float:
    longest = max((len(label) for label in labels), default=0)
    return min(max(_LETTER * longest + 8.0, _MIN_LEFT), _MAX_LEFT) if longest else 4.0


def _anchor(place: float, *, starts: bool = True) -> str:
    """Return where a text stands at its place: inside the plot at its edges.

    ``starts`` is False where there is room for half of a text left of the plot.
    """
    edge = 0.06
    if place < edge and starts:
        return "start"
    return "end" if place > 1.0 - edge else "middle"


def _each(value: Any, number: int) -> list[Any]:  # noqa: ANN401 - of Plotly
    """Return one value per mark, also if all marks share one."""
    return list(value) if isinstance(value, list | tuple | np.ndarray) else [value] * number


def _round(number: float | Floats) -> float:
    return round(float(number), 2) + 0.0  # -0.0 is 0
