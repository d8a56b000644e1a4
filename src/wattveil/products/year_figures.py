"""Figures of synthetic years for the report: weeks of customers, the year, and levels of days."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from plotly.graph_objects import Figure

from wattveil.arrays import Floats
from wattveil.products.product import Headline
from wattveil.products.tables import Table
from wattveil.web.charts import BLUE, GREEN, ORANGE, ReportFigure, colour, new_figure
from wattveil.web.formatting import format_number
from wattveil.web.pages import PageTable

_WEEK = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
_LINES = 4
"""Customers in a figure of a week: more lines cannot be distinguished."""
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_MAX_TICKS = 13
_FEW_DAYS, _WEEKLY_DAYS = 90, 14
"""Days below which the axis has dates, and above which it has one per week."""
PLAN_NOTE = (
    "Ranges of synthetic years are those of four simulated releases only. Coincident peaks in"
    " releases of London homes differed by -9 to +12 % from real ones: size with at least that."
)
"""Below a plan with synthetic years."""
_WEEK_CAPTION = (
    "Load of single synthetic customers, sampled from the released model. None is a real customer."
    " A synthetic customer keeps its habits on all days. Sample more with wattveil synthesize"
    " --years."
)
_YEAR_CAPTION = (
    "Mean load of the synthetic customers of each day, and the largest mean load in a slot of that"
    " day. The largest of all values is the coincident peak, per customer."
)
_LEVEL_CAPTION = (
    "How far the load of a day lies above or below the typical days of its season, for all"
    " customers together: cold days, holidays. Noise partly hides the level of individual days:"
    " the model uses one plausible set of levels."
)


def year_headline(days: Table, load: Table) -> Headline:
    """Return the coincident peak and its time, and the mean load of the synthetic customers."""
    peak_kw, slots_kw = days.column("peak_kw"), load.column("load_kw")
    at, slot = int(np.argmax(peak_kw)), int(np.argmax(slots_kw))
    day, time = (load.data[name].to_pylist()[slot] for name in ("day", "time"))
    mean_kw = float(days.column("energy_kwh").mean()) / 24.0
    peak = f"{format_number(float(peak_kw[at]))} kW"
    sentence = (
        f"Synthetic customers have a mean load of {format_number(mean_kw)} kW; their coincident"
        f" peak is {peak} per customer, on {day} at {time}."
    )
    return Headline(sentence, ((peak, "coincident peak per synthetic customer"),))


def year_figures(tables: Mapping[str, Table]) -> Iterator[ReportFigure]:
    """Return figures of two weeks, of the year of all customers, and of the common levels."""
    yield from _week_figures(tables["year_weeks"])
    days = tables["year_days"]
    names = days.data["day"].to_pylist()
    mean_kw, peak_kw = days.column("energy_kwh") / 24.0, days.column("peak_kw")
    at = int(np.argmax(peak_kw))
    figure = _year_figure(names, "kW per customer", {"mean": mean_kw, "peak": peak_kw})
    yield ReportFigure(
        "Every day of all synthetic customers",
        figure,
        _YEAR_CAPTION,
        alt=f"Mean load {format_number(float(mean_kw.mean()))} kW; coincident peak"
        f" {format_number(float(peak_kw[at]))} kW on {names[at]}",
        table=_month_table(names, mean_kw, peak_kw),
    )
    percent = 100.0 * days.column("level")
    yield ReportFigure(
        "Common level of days",
        _year_figure(names, "% of typical days", {"level": percent}),
        _LEVEL_CAPTION,
        alt=f"Levels from {format_number(float(percent.min()))} to"
        f" {format_number(float(percent.max()))} %",
    )


def _week_figures(weeks: Table) -> Iterator[ReportFigure]:
    days = weeks.data["day"].to_pylist()
    customers = np.unique(weeks.column("customer"))
    load_kw = weeks.column("load_kw").reshape(customers.size, -1)
    slots = load_kw.shape[1]
    slots_of_week = slots * len(_WEEK) // len(set(days))
    shown = np.linspace(0, customers.size - 1, _LINES).round().astype(int)
    highest = float(load_kw[shown].max())
    for first in range(0, slots, slots_of_week):
        own = slice(first, first + slots_of_week)
        figure = new_figure(height=260)
        for number, row in enumerate(shown):
            figure.add_scatter(
                x=list(range(slots_of_week)),
                y=load_kw[row, own],
                name=f"customer {customers[row]}",
                line={"color": colour(number), "width": 1.2},
                mode="lines",
            )
        starts = range(0, slots_of_week, slots_of_week // len(_WEEK))
        figure.update_xaxes(tickvals=[*starts], ticktext=_WEEK, ticks="outside", ticklen=6)
        figure.update_yaxes(title_text="kW", rangemode="tozero", range=(0.0, highest))
        day = days[first]
        yield ReportFigure(
            f"Week from {day}",
            figure,
            _WEEK_CAPTION,
            alt=f"Load of {_LINES} synthetic customers in the week from {day}; the largest is"
            f" {format_number(float(load_kw[shown, own].max()))} kW",
        )


def _year_figure(days: Sequence[str], unit: str, lines: Mapping[str, Floats]) -> Figure:
    """Return a figure of one value per day."""
    figure = new_figure(height=260, legend=len(lines) > 1)
    for (name, values), shade in zip(lines.items(), (BLUE, ORANGE, GREEN), strict=False):
        figure.add_scatter(
            x=list(range(len(days))), y=values, name=name, line={"color": shade}, mode="lines"
        )
    dates = [dt.date.fromisoformat(day) for day in days]
    if len(days) < _FEW_DAYS:  # months would label one or two places
        places = list(range(0, len(days), 7 if len(days) > _WEEKLY_DAYS else 1))
        texts = [f"{dates[place].day} {_MONTHS[dates[place].month - 1]}" for place in places]
    else:
        places = [place for place, day in enumerate(dates) if day.day == 1]
        places = places[:: -(-len(places) // _MAX_TICKS)]
        texts = [_MONTHS[dates[place].month - 1] for place in places]
    figure.update_xaxes(tickvals=places, ticktext=texts, tickangle=0, ticks="outside", ticklen=6)
    figure.update_yaxes(title_text=unit)
    return figure


def _month_table(days: Sequence[str], mean_kw: Floats, peak_kw: Floats) -> PageTable:
    """Return mean and peak of each month."""
    months = np.array([day[:7] for day in days])
    rows = [
        (
            str(month),
            format_number(float(mean_kw[months == month].mean())),
            format_number(float(peak_kw[months == month].max())),
        )
        for month in np.unique(months)
    ]
    return PageTable("By month, kW per customer", ("month", "mean", "peak"), rows)
