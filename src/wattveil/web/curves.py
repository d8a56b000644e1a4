"""Load curves and bars with their uncertainty, as Plotly figures.

A `Chart` is declared once. `chart_figure` returns its figure, which is also drawn as SVG where a
viewer may have stripped scripts (`wattveil.web.svg_charts`).
"""

from collections.abc import Hashable, Sequence
from html import escape
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from wattveil.arrays import Floats

if TYPE_CHECKING:  # slow to load: results are declared without it
    from plotly.graph_objects import Figure

_DAY_MINUTES = 1440
_BAND = 0.2
_FADED, _FADED_BAND = 0.35, 0.07
"""Opacity of line and band of a cluster that noise may explain."""


class Curve(NamedTuple):
    """A load curve of a cluster or group."""

    name: str
    number: int
    """Selects the colour: the same in every figure."""
    along: list[str]
    """Times of day, or ranks; the names of bars."""
    load: Floats
    std: Floats | None
    group: str = ""
    """Group of the customers, of a cluster of a group."""
    is_supported: bool = True
    """False: noise may explain the cluster; its curve is drawn faded."""

    def unsupported(self, customers: float, customers_std: float) -> "Curve":
        """Return the curve of a cluster that noise may explain: its label says so, with its size.

        Parameters
        ----------
        customers, customers_std
            Released size and its standard error.
        """
        from wattveil.web.charts import TWO_SIDED_95  # noqa: PLC0415 - loads Plotly

        size = f"{customers:,.0f} ± {TWO_SIDED_95 * customers_std:,.0f}"
        return self._replace(name=f"{self.name} ({size}, not supported)", is_supported=False)


class Chart(NamedTuple):
    """Curves or bars of a result."""

    curves: Sequence[Curve]
    unit: str
    kind: Literal["slots", "ranks", "bars"] = "slots"
    band: str = "privacy noise; clipping of very large customers is not covered"
    """What the standard errors are of."""
    period: str = "time"
    """Of which the horizontal axis of ranks shows percentages."""
    title: str = ""
    """Stands above the caption; empty: the names in the legend suffice."""

    @property
    def caption(self) -> str:
        """What bands or whiskers show; empty without standard errors."""
        if all(curve.std is None for curve in self.curves):
            return ""
        from wattveil.web.charts import TWO_SIDED_95  # noqa: PLC0415 - loads Plotly

        drawn = "Whiskers" if self.kind == "bars" else "Bands"
        return f"{drawn}: 95 % intervals, ± {TWO_SIDED_95} standard errors ({self.band})."


def curves_chart(
    groups: Sequence[Hashable], along: list[str], load_kw: Floats, std_kw: Floats
) -> Chart:
    """Return the chart of one curve per group."""
    curves = [
        Curve(str(group), number, along, load_kw[number], std_kw[number])
        for number, group in enumerate(groups)
    ]
    return Chart(curves, "kW per customer")


def slot_labels(n_slots: int, slots_per_day: int | None = None) -> list[str]:
    """Return the local time of each slot; of several days with the number of the day."""
    per_day = slots_per_day or n_slots
    if _DAY_MINUTES % per_day:
        return [str(slot) for slot in range(n_slots)]
    minutes = [slot % per_day * (_DAY_MINUTES // per_day) for slot in range(n_slots)]
    times = [f"{minute // 60:02}:{minute % 60:02}" for minute in minutes]
    if n_slots == per_day:
        return times
    return [f"day {slot // per_day + 1} {time}" for slot, time in enumerate(times)]


def add_curve(figure: "Figure", curve: Curve, along: Sequence[float], *, name: str = "") -> None:
    """Draw a curve, with its 95 % band where standard errors are known."""
    from wattveil.web.charts import add_band, colour  # noqa: PLC0415 - loads Plotly

    reach = None
    if curve.std is not None:
        low, high = _reach(curve)
        opacity = _BAND if curve.is_supported else _FADED_BAND
        add_band(figure, along, low, high, colour=colour(curve.number), opacity=opacity)
        reach = high - curve.load
    figure.add_scatter(
        x=list(along),
        y=curve.load,
        text=curve.along,
        customdata=reach,
        name=name,
        mode="lines",
        opacity=None if curve.is_supported else _FADED,
        line={"color": colour(curve.number), "width": 2.5},
        hovertemplate="%{text}: %{y:.3g}"
        + ("" if reach is None else " ± %{customdata:.2g}")
        + "<extra></extra>",
    )


def curves_figure(
    drawn: Sequence[Curve], *, unit: str, falling: bool = False, period: str = "time"
) -> "Figure":
    """Return a figure of curves.

    Parameters
    ----------
    drawn
        Load by slot or by rank.
    unit
        Title of the vertical axis.
    falling
        Whether the curves are duration curves, along ranks.
    period
        Of which their horizontal axis shows percentages.
    """
    from wattveil.web.charts import label_times, new_figure  # noqa: PLC0415 - loads Plotly

    figure = new_figure(height=340, legend=len(drawn) > 1)
    for curve in drawn:
        add_curve(figure, curve, _along(curve, falling=falling), name=curve.name)
    if falling:
        figure.update_xaxes(title_text=f"% of the {period} at or above")
    else:
        label_times(figure, drawn[0].along)
    figure.update_yaxes(title_text=unit, rangemode="tozero")
    return figure


def chart_figure(chart: Chart) -> "Figure":
    """Return a chart as a Plotly figure; its title states what bands or whiskers are."""
    if chart.kind == "bars":
        figure = _bars_figure(chart)
    else:
        falling = chart.kind == "ranks"
        figure = curves_figure(chart.curves, unit=chart.unit, falling=falling, period=chart.period)
        if chart.kind == "slots":
            figure.update_xaxes(title_text="start of the slot, local time")
    if text := "<br>".join(filter(None, (escape(chart.title), chart.caption))):
        title = {"text": text, "font": {"size": 12}, "x": 0, "xanchor": "left"}
        figure.update_layout(title=title, margin_t=64)
    return figure


def _bars_figure(chart: Chart) -> "Figure":
    from wattveil.web.charts import colour, new_figure  # noqa: PLC0415 - loads Plotly

    figure = new_figure(height=340, legend=len(chart.curves) > 1)
    for curve in chart.curves:
        reach = None if curve.std is None else _reach(curve)[1] - curve.load
        figure.add_bar(
            x=curve.along,
            y=curve.load,
            error_y={"type": "data", "array": reach, "visible": reach is not None},
            name=curve.name,
            marker={"color": colour(curve.number)},
        )
    figure.update_xaxes(type="category")
    figure.update_yaxes(title_text=chart.unit, rangemode="tozero")
    return figure


def _reach(curve: Curve) -> tuple[Floats, Floats]:
    """Return the ends of the 95 % band; the curve itself without standard errors."""
    from wattveil.web.charts import TWO_SIDED_95  # noqa: PLC0415 - loads Plotly

    reach = np.zeros_like(curve.load) if curve.std is None else TWO_SIDED_95 * curve.std
    return curve.load - reach, curve.load + reach


def _along(curve: Curve, *, falling: bool) -> Sequence[float]:
    ranks = range(len(curve.along))
    return [100.0 * (rank + 0.5) / len(ranks) for rank in ranks] if falling else ranks
