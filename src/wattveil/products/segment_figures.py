"""Figures of customer segments for the report, of either tier: curves, sizes and a map."""

from collections.abc import Iterator, Sequence

import numpy as np

from wattveil.arrays import Floats
from wattveil.numerics.segment_support import differing_pairs
from wattveil.products.curve_figures import common_limits, curve_figure, curve_table, curve_words
from wattveil.products.product import Headline
from wattveil.products.segments import Segment, largest_segments, segments
from wattveil.products.tables import Table
from wattveil.web.charts import BANDS, INK, TWO_SIDED_95, ReportFigure, colour, new_figure
from wattveil.web.curves import Curve
from wattveil.web.formatting import format_number, format_share
from wattveil.web.pages import PageTable, TableCell

_MAX_NAMES = 12
"""Above this number the names of clusters on a map overlap."""
_PLANE = 3
"""So many curves lie in a plane: two components explain them whatever they are."""
_PALE = 0.4
"""Opacity of what noise may explain."""
_PARTS = {"at night": 0, "in the morning": 6, "in the afternoon": 12, "in the evening": 17}
"""Parts of the day, and the hour at which each begins."""
_MARKED = 0.5
"""Share of the largest loading from which on a part of the day is named."""


def segment_figures(
    centroids: Table, sizes: Table | None, *, unit_norm: bool = False
) -> Iterator[ReportFigure]:
    """Return figures of load curves and sizes of clusters, supported ones first, of either tier."""
    found, rest = largest_segments(segments(centroids, sizes))
    yield from _curve_figures(found, rest, unit_norm=unit_norm)
    if sizes is not None:
        yield _size_figure(found)
    if len({one.curve.number for one in found}) > 1:
        yield _map_figure(found, unit="unit L2 norm" if unit_norm else "kW")


def segment_headline(centroids: Table | None, sizes: Table | None) -> Headline:
    """Return how many segments the noise supports, and the largest, in ordinary words."""
    if centroids is None:
        return Headline()
    found = segments(centroids, sizes)
    flags, groups = [one.distinguishable for one in found], {one.group for one in found}
    joint = "; the largest has about "
    where = f" of {len(groups)} groups" if len(groups) > 1 else ""
    if len(found) == len(groups):
        sentence = f"The customers{where} are shown as one segment{' each' if where else ''}"
        joint = " of about " if len(found) == 1 else joint
    elif None in flags:
        sentence = f"The customers{where} are shown as {len(found)} segments"
    else:
        sentence = _support_sentence(found, where)
    largest = max(found, key=lambda one: one.customers or 0.0)
    if largest.customers is not None:
        sentence += joint + _size_text(largest)
    return Headline(f"{sentence}.")


def _support_sentence(found: Sequence[Segment], where: str) -> str:
    """Return how many segments are supported, or that no two can be distinguished."""
    groups: dict[str, list[Segment]] = {}
    for one in found:
        groups.setdefault(one.group, []).append(one)
    alone = [own for own in groups.values() if sum(one.distinguishable is True for one in own) <= 1]
    if len(alone) == len(groups):
        who = "Only some" if any(map(_some_differ, alone)) else "No two"
        return f"{who} of the {len(found)} customer segments{where} can be distinguished"
    number = sum(one.is_supported for one in found)
    start = f"{number or 'None'} of the {len(found)} customer segments{where}"
    if number == len(found):
        start = f"All {number} customer segments{where}"
    if number <= 1:
        return f"{start} is supported; {'the others' if number else 'they'} may be noise"
    apart = "within a group" if where else "from each other"
    sentence = (
        f"{start} are supported: their load curves differ {apart}, and their sizes from 0, by more"
        " than the privacy noise"
    )
    if hidden := len([own for own in alone if not _some_differ(own)]):
        sentence += f"; in {hidden} of the groups no two segments can be distinguished"
    return sentence


def _some_differ(found: Sequence[Segment]) -> bool:
    """Whether the curves of any two segments differ by more than noise."""
    std = np.array([one.curve.std for one in found if one.curve.std is not None])
    load = np.array([one.curve.load for one in found])
    return bool(differing_pairs(load, np.square(std).sum(axis=1)).any())


def size_title(segment: Segment) -> str:
    """Return name and size of a segment."""
    size = "" if segment.customers is None else f" · {_size_text(segment)}"
    return f"Segment {segment.curve.name}{size}"


def flags_of(segment: Segment) -> tuple[TableCell, ...]:
    """Return both flags of a segment in words; none if standard errors were not released."""
    if segment.distinguishable is None or segment.sized is None:
        return ()
    return (
        TableCell(
            "curve distinguishable" if segment.distinguishable else "curve not distinguishable",
            segment.distinguishable,
        ),
        TableCell("size > 2 SE" if segment.sized else "size ≤ 2 SE", segment.sized),
    )


def _size_text(segment: Segment) -> str:
    text = f"{segment.customers:,.0f}"
    if segment.customers_std is not None:
        text += f" ± {TWO_SIDED_95 * segment.customers_std:,.0f}"
    return f"{text} customers"


def _curve_figures(
    found: Sequence[Segment], rest: str, *, unit_norm: bool
) -> Iterator[ReportFigure]:
    """Return the curve of each segment, all on one vertical scale."""
    unit = "unit L2 norm" if unit_norm else "kW"
    caption = (
        "Typical daily load of each segment (a cluster of similar customers: column cluster of the"
        " tables), on a common vertical scale: supported segments first, then by size."
    )
    caption += rest
    if any(one.distinguishable is not None for one in found):
        caption += (
            f" {BANDS} of the privacy noise. A curve is distinguishable"
            " if it differs from every other distinguishable one by more than 2 SE of the"
            " difference. If the size is at most 2 SE, the segment may consist of noise only, and"
            " its curve is faded."
        )
        if 0 < sum(one.is_supported for one in found) < len(found):
            caption += (
                " The scale fits the supported segments; the others are clipped to it and shown in"
                " a section below."
            )
        if not unit_norm:
            caption += (
                " Bands in kW are calibrated on homes. If homes and businesses were clustered"
                " together, the curve of a small segment of large customers is too low, often by"
                " more than its band."
            )
    if unit_norm:
        caption += " Each customer was scaled to unit L2 norm: curves show shape, not size."
    limits = scale_of(
        found,
        [
            (one.curve.load - reach, one.curve.load + reach)
            for one in found
            for reach in (0.0 if one.curve.std is None else TWO_SIDED_95 * one.curve.std,)
        ],
    )
    supports = any(one.is_supported for one in found)
    table = curve_table(
        "Load curves", [one.curve for one in found], along="time", prefix="segment "
    )
    for one in found:
        yield ReportFigure(
            size_title(one),
            curve_figure(one.curve, unit=unit, limits=limits),
            caption,
            alt=f"Load curve of segment {one.curve.name}: {curve_words(one.curve, unit)}",
            flags=flags_of(one),
            is_faded=one.sized is False,
            is_supported=one.is_supported or not supports,
            table=table if one is found[0] else None,
        )


def scale_of(
    found: Sequence[Segment], shown: Sequence[tuple[Floats, Floats]]
) -> tuple[float, float]:
    """Return one vertical range, for what is shown of supported segments; of all if none is.

    Parameters
    ----------
    found
        Segments.
    shown
        Lower and upper values of each.
    """
    supported = [values for one, values in zip(found, shown, strict=True) if one.is_supported]
    return common_limits(supported or shown)


def _size_figure(found: Sequence[Segment]) -> ReportFigure:
    """Return a bar chart of sizes, with 95 % error bars where errors are known."""
    errors = [one.customers_std for one in found if one.customers_std is not None]
    reach = [TWO_SIDED_95 * error for error in errors]
    figure = new_figure(height=80 + 30 * len(found), legend=False)
    figure.add_bar(
        y=[f"segment {one.curve.name}" for one in found],
        x=[one.customers for one in found],
        orientation="h",
        marker={
            "color": [colour(one.curve.number) for one in found],
            "opacity": [_PALE if one.sized is False else 1.0 for one in found],
        },
        error_x={"array": reach, "color": INK, "thickness": 1.2} if errors else None,
        hovertemplate="%{y}: %{x:,.0f} customers<extra></extra>",
    )
    ends = np.array([one.customers or 0.0 for one in found]) + np.array(reach or [0.0])
    most = 1.04 * max(float(ends.max()), 1.0)  # an error bar that ends at the edge looks cut off
    figure.update_xaxes(title_text="customers", range=[0.0, most])
    figure.update_yaxes(autorange="reversed")
    rows = [
        (f"segment {one.curve.name}", _size_text(one), *(flag.text for flag in flags_of(one)))
        for one in found
    ]
    head = ("", "size", *(("curve", "size and its noise") if flags_of(found[0]) else ()))
    return ReportFigure(
        "Customers per segment",
        figure,
        alt="Bars: " + ", ".join(f"segment {one.curve.name}: {_size_text(one)}" for one in found),
        table=PageTable("Sizes", head, rows, text_columns=(0, 2, 3)),
    )


def _map_figure(found: Sequence[Segment], *, unit: str) -> ReportFigure:
    """Return a map of the clusters: first two principal components of the centroids."""
    curves = [one.curve for one in found]
    places, axes, shares = principal_scores(np.array([curve.load for curve in curves]))
    weights = np.array([max(one.customers or 0.0, 0.0) for one in found])
    if not weights.any():
        weights[:] = 1.0
    figure = new_figure(height=340, legend=False)
    figure.add_scatter(
        x=places[:, 0],
        y=places[:, 1],
        mode="markers+text" if len(found) <= _MAX_NAMES else "markers",
        text=[curve.name for curve in curves],
        textposition="top center",
        marker={
            "size": 14.0 + 46.0 * np.sqrt(weights / weights.max()),
            "color": [colour(curve.number) for curve in curves],
            "opacity": [_PALE if one.sized is False else 0.8 for one in found],
            "line": {"width": 1, "color": "#fff"},
        },
        hovertemplate="segment %{text}<extra></extra>",
    )
    titles = [
        f"{side} PC {number + 1}{explained}: {component_words(axis, curves[0])}"
        for number, (axis, share, side) in enumerate(zip(axes, shares, ("→", "↑"), strict=False))
        for explained in (
            f" ({format_share(share, 0)} of the variance)" if len(found) > _PLANE else "",
        )
    ]
    for axis, title in zip((figure.update_xaxes, figure.update_yaxes), titles, strict=False):
        axis(title_text=title, zeroline=False)
    figure.update_layout(margin={"l": 40, "r": 30, "t": 40, "b": 40})
    rows = [
        (f"segment {curve.name}", *map(format_number, place))
        for curve, place in zip(curves, places, strict=True)
    ]
    return ReportFigure(
        "Map of the segments",
        figure,
        alt=f"Map of the segments, scores in {unit}: similar curves are close. {'; '.join(titles)}",
        table=PageTable("Scores", ("", f"PC 1, {unit}", f"PC 2, {unit}"), rows),
    )


def principal_scores(loads: Floats) -> tuple[Floats, Floats, Floats]:
    """Return scores on the first two principal components, the components, and their shares.

    The component whose largest loading is positive is taken, of the two signs that it may have.

    Parameters
    ----------
    loads
        One row per curve.
    """
    centred = loads - loads.mean(axis=0)
    _, lengths, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:2]
    largest = axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)]
    axes *= np.where(largest < 0.0, -1.0, 1.0)[:, None]
    scores = np.zeros((len(loads), 2))
    scores[:, : len(axes)] = centred @ axes.T
    shares = np.square(lengths) / max(float(np.square(lengths).sum()), 1e-300)
    return scores, axes, shares[:2]


def component_words(loadings: Floats, curve: Curve) -> str:
    """Return what a positive score on a principal component means; a negative one, the opposite.

    Loadings are averaged over parts of the day. A part is named if its average is at least half of
    the largest; if all parts have the same sign, the load differs all day.

    Parameters
    ----------
    loadings
        The component: one number per slot.
    curve
        Any curve on the same slots, for their times.
    """
    hours = np.array([int(time.rpartition(" ")[2][:2]) % 24 for time in curve.along])
    place = np.searchsorted([*_PARTS.values()], hours, side="right") - 1
    means = {
        name: float(loadings[place == part].mean())
        for part, name in enumerate(_PARTS)
        if (place == part).any()
    }
    largest = max(map(abs, means.values()))
    more = [name for name, mean in means.items() if mean >= _MARKED * largest]
    less = [name for name, mean in means.items() if -mean >= _MARKED * largest]
    if all(mean > 0.0 for mean in means.values()):
        return "more load all day"
    if all(mean < 0.0 for mean in means.values()):
        return "less load all day"
    return ", ".join(
        [
            *([f"more load {' and '.join(more)}"] if more else []),
            *([f"less {'' if more else 'load '}{' and '.join(less)}"] if less else []),
        ]
    )
