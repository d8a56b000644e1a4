"""Figures and tables of released load curves, for the report sections of several products."""

import math
from collections.abc import Sequence

from plotly.graph_objects import Figure

from wattveil.arrays import Floats
from wattveil.products.segments import curves
from wattveil.products.tables import Table
from wattveil.web.charts import TWO_SIDED_95, label_times, new_figure
from wattveil.web.curves import Curve, add_curve, curves_figure
from wattveil.web.formatting import format_number
from wattveil.web.pages import PageTable

_MAX_ROWS = 96
"""Maximum of rows of a table behind a figure."""


def curve_figure(curve: Curve, *, unit: str, limits: tuple[float, float] | None = None) -> Figure:
    """Return a figure of one load curve with its band.

    Parameters
    ----------
    unit
        Title of the vertical axis.
    limits
        Range of the vertical axis, to compare several figures; None for that of the curve.
    """
    figure = new_figure(height=230, legend=False)
    add_curve(figure, curve, range(len(curve.along)))
    label_times(figure, curve.along)
    figure.update_yaxes(title_text=unit, rangemode="tozero", range=limits)
    return figure


def common_limits(shown: Sequence[tuple[Floats, Floats]]) -> tuple[float, float]:
    """Return a vertical range for several figures: from 0 or below to above every value.

    Parameters
    ----------
    shown
        Lower and upper values of each figure.
    """
    low = min(0.0, *(float(lower.min()) for lower, _ in shown))
    high = max(float(upper.max()) for _, upper in shown)
    room = 0.05 * ((high - low) or 1.0)
    return low - (room if low else 0.0), high + room


def curve_words(curve: Curve, unit: str) -> str:
    """Return maximum and minimum of a curve in words, for readers who do not see it."""
    high, low = int(curve.load.argmax()), int(curve.load.argmin())
    return (
        f"highest {format_number(curve.load[high])} {unit} at {curve.along[high]},"
        f" lowest {format_number(curve.load[low])} {unit} at {curve.along[low]}"
    )


def curve_table(title: str, drawn: Sequence[Curve], *, along: str, prefix: str = "") -> PageTable:
    """Return the values of curves as a table: a row per slot, a column per curve.

    Parameters
    ----------
    along
        Title of the first column.
    prefix
        Begins the title of the column of each curve.
    """
    texts = [[_cell(curve, slot) for slot in range(len(curve.along))] for curve in drawn]
    return slot_table(title, drawn, texts, along=along, prefix=prefix)


def slot_table(
    title: str,
    drawn: Sequence[Curve],
    texts: Sequence[Sequence[str]],
    *,
    along: str = "time",
    prefix: str = "cluster ",
) -> PageTable:
    """Return a table of one text per slot and curve.

    Of long curves every k-th slot is listed, and the title says so.
    """
    times = drawn[0].along
    slots = range(0, len(times), math.ceil(len(times) / _MAX_ROWS))
    if slots.step > 1:
        title += f"; one row in {slots.step}, the tables folder has all"
    head = (along, *(f"{prefix}{curve.name}" for curve in drawn))
    return PageTable(
        title, head, [(times[slot], *(column[slot] for column in texts)) for slot in slots]
    )


def _cell(curve: Curve, slot: int) -> str:
    text = format_number(curve.load[slot])
    if curve.std is None:
        return text
    return f"{text} ± {format_number(TWO_SIDED_95 * curve.std[slot])}"


def group_curves_figure(table: Table, *, unit: str, falling: bool = False) -> Figure:
    """Return a figure of the curves of all groups.

    Parameters
    ----------
    table
        Load by group and slot, or by group and rank.
    unit
        Title of the vertical axis.
    falling
        Whether the curves are duration curves, along ranks.
    """
    return curves_figure(curves(table), unit=unit, falling=falling)
