"""Figures and tables of released load curves, for the report sections of several products."""

import math
from collections.abc import Sequence

from plotly.graph_objects import Figure

from wattveil.arrays import Floats
from wattveil.products.segments import curves
from wattveil.products.tables import Table
from wattveil.web.charts import BANDS, TWO_SIDED_95, label_times, new_figure
from wattveil.web.curves import Curve, add_curve, curves_figure
from wattveil.web.formatting import format_number, format_share
from wattveil.web.pages import PageTable, TableCell

_MAX_ROWS = 96
"""Maximum of rows of a table behind a figure."""
_MIN_ERRORS = 2.0
"""Standard errors that a number must exceed to differ from 0 by more than noise."""
_MAX_SHARE_STD = 0.5
"""Standard error above which a share, a number from 0 to 1, is not known."""
_HIGH_CLIPPED_SHARE = 0.2
"""Share of clipped customers above which the report marks a group: its mean may be biased."""


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
    prefix: str = "segment ",
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


def group_flags(groups: Table, drawn: Sequence[Curve]) -> tuple[TableCell, ...]:
    """Return a mark for each group that may be empty, or of which many customers were clipped.

    A mark is a finding: it follows from released numbers and their errors. The bound on the bias
    from clipping is not one: it is large wherever noise could hide a very large customer.
    """
    flags = []
    for curve, customers, error, clipped in zip(
        drawn,
        groups.column("customers"),
        groups.column("customers_std"),
        _clipped_surely(groups),
        strict=True,
    ):
        if customers <= _MIN_ERRORS * error:
            flags.append(TableCell(f"{curve.name}: size ≤ 2 SE, may be empty", passed=False))
        elif clipped > _HIGH_CLIPPED_SHARE:
            text = f"{curve.name}: {format_share(clipped, 0)} or more were clipped"
            flags.append(TableCell(text, passed=False))
    return tuple(flags)


def _clipped_surely(groups: Table) -> Floats:
    """Return the share of clipped customers of each group, less what noise may add to it."""
    shares, errors = groups.column("clipped_share"), groups.column("clipped_share_std")
    found: Floats = shares - _MIN_ERRORS * errors
    return found


def _clipped_text(groups: Table) -> str:
    """Return the share of customers above the clipping level; not known if noise hides it."""
    shares, errors = groups.column("clipped_share"), groups.column("clipped_share_std")
    texts = [
        f"{format_share(share, 0)} ± {format_share(TWO_SIDED_95 * error, 0)}"
        if error <= _MAX_SHARE_STD
        else "not known (the noise exceeds it)"
        for share, error in zip(shares, errors, strict=True)
    ]
    if len(texts) == 1:
        return f"Share of customers above the clipping level: {texts[0]}."
    named = zip(groups.data["group"].to_pylist(), texts, strict=True)
    return f"Share above the clipping level: {'; '.join(f'{one} {text}' for one, text in named)}."


def load_caption(groups: Table, *, has_flags: bool) -> str:
    """Return how to read the figures: bands and marks."""
    is_whole = groups.data.num_rows == 1
    whose = "of all customers together" if is_whole else "of all customers of a group"
    caption = (
        f"Mean daily load, and load duration curve {whose}: the sorted slots of the mean profile,"
        f" not of a year of readings. {BANDS}, for the privacy noise and the estimated correction"
        " for clipping. The text below the figures states what they do not cover."
    )
    if has_flags:
        caption += (
            " Groups are marked (✗) if they may be empty, so that their curve is noise, or if"
            f" {format_share(_HIGH_CLIPPED_SHARE, 0)} or more of their customers were clipped: the"
            " public range of sizes, or the public clipping bound, does not fit them, and the means"
            " may be too low."
        )
    return caption


def clipping_text(groups: Table) -> str:
    """Return which effects of clipping the bands do not cover, and how many were clipped."""
    bias_kw = groups.column("max_clipping_bias_kw")
    n_groups = bias_kw.size
    most = format_number(bias_kw.max(), 2)
    if n_groups > 1:
        most = f"{format_number(bias_kw.min(), 2)} to {most}"
    shown = (
        f"Bands do not cover {'two effects' if bias_kw.max() else 'one effect'} of clipping. The"
        " correction is the same factor at all times of day, so a mean may remain too low when"
        " large customers draw more than at other times."
    )
    if bias_kw.max():
        shown += (
            f" And very large customers that the noise hides could raise a mean by at most {most}"
            f" kW{'' if n_groups == 1 else ', depending on the group'}: a worst-case bound, which"
            " holds in 97.5 % of releases, not an estimate. It shrinks as epsilon and the number of"
            " customers in a group grow."
        )
    return f"{shown} {_clipped_text(groups)}"
