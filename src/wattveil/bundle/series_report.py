"""Report of a series: small multiples over time, trends with bands, and what is left."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from plotly.graph_objects import Figure

from wattveil.arrays import Floats
from wattveil.bundle.replaced_data import inference_sentence
from wattveil.bundle.series_result import SeriesResult
from wattveil.privacy.guarantee import Guarantee
from wattveil.products.curve_figures import common_limits
from wattveil.products.group_labels import group_labels
from wattveil.web.charts import (
    TWO_SIDED_95,
    ReportFigure,
    add_band,
    colour,
    label_times,
    new_figure,
)
from wattveil.web.curves import slot_labels
from wattveil.web.formatting import format_share, format_upper_bound
from wattveil.web.pages import PageTable, render_file
from wattveil.web.svg_charts import HOLLOW

_MEAN = (
    "Mean load of a customer by period, with bands of 1.96 standard errors of noise, clipping and"
    " the filter over periods, which covered 92 to 98 % in tests on homes. Customers far above the"
    " typical load are clipped, and bands do not cover their load. The last point is new; earlier"
    " ones are revised by what was released since. Hollow points on a dashed line are interpolated:"
    " nothing was released for these periods."
)
_DAY = (
    "Mean day of the newest period and, thin, of the same period a year before where there is one."
)

_DURATION = (
    "Load of the whole group in the newest period, in descending order, with bands of 1.96 standard"
    " errors of load and number of customers. It is that of the average day: extreme days are"
    " averaged out."
)
_SHAPE = (
    "Daily shape of the segment in the newest period, at unit L2 norm, with bands of 1.96 standard"
    " errors, and, dashed, as it was found. In tests bands covered 90 to 98 % in the period that"
    " found the segments and 95 to 99 % in later ones."
)
_SIZE = (
    "Customers nearest to the published centroid, with 95 % bands; earlier periods are revised. In"
    " the period that found the segments it is an estimate of K-means, not a count."
)


def series_report(manifest: Mapping[str, Any], result: SeriesResult) -> str:
    """Return the report of the newest period as a standalone page."""
    accrued = manifest["accrued"]
    share = int(accrued["rho_units"]) / int(accrued["of_rho_units"])
    guarantee = manifest["guarantee"]
    return render_file(
        "series_report.html",
        manifest=manifest,
        inferences=inference_sentence(Guarantee.from_json(guarantee)),
        facts=[
            (f"{manifest['period']} of {manifest['periods']}", f"period {manifest['label']}"),
            (guarantee["epsilon"], f"epsilon of all periods, at delta {guarantee['delta']}"),
            (format_upper_bound(float(accrued["epsilon"]), 4), "epsilon of the periods so far"),
            (format_share(1.0 - share, 0), "of the privacy cost (rho) left for later periods"),
        ],
        levels=[*_levels(result)],
        days=[*_days(result)],
        durations=[*_durations(result)],
        counts=[*_counts(result)],
        trends=_trend_table(result),
        has_trend=result.has_trend,
        shapes=[*_shapes(result)] if result.released.design.n_segments else [],
        sizes=[*_sizes(result)] if result.released.design.n_segments else [],
        drift=_drift_table(result) if result.released.design.n_segments else None,
        per_year=result.released.design.periods_per_year,
    )


def series_groups(result: SeriesResult) -> list[str]:
    """Return the labels of the groups."""
    design = result.released.design
    groups = [str(group) for group in design.groups]
    labels = group_labels(next(iter(design.levels), None), groups)
    return [labels[group] for group in groups]


def _levels(result: SeriesResult) -> Iterator[ReportFigure]:
    """Yield the mean load of each group over periods."""
    mean = result.load_kw.mean(axis=2)
    std = np.sqrt(np.square(result.std_kw).mean(axis=2))
    for place, group in enumerate(series_groups(result)):
        yield _over_periods(
            result.periods, result.skipped, group, mean[place], std[place], place, "kW", _MEAN
        )


def _counts(result: SeriesResult) -> Iterator[ReportFigure]:
    """Yield the numbers of customers of each group over periods."""
    for name in result.released.design.counted:
        mean, std = result.customers(name)
        for place, group in enumerate(series_groups(result)):
            title = f"{group}: {name}"
            caption = "Numbers of customers with 95 % bands."
            yield _over_periods(
                result.periods, result.skipped, title, mean[place], std[place], place, "", caption
            )


def _over_periods(  # noqa: PLR0917 - one chart
    periods: Sequence[str],
    skipped: frozenset[str],
    title: str,
    mean: Any,  # noqa: ANN401 - arrays
    std: Any,  # noqa: ANN401 - arrays
    place: int,
    unit: str,
    caption: str,
) -> ReportFigure:
    figure = new_figure(height=180, legend=False)
    along = list(range(mean.size))
    low, high = mean - TWO_SIDED_95 * std, mean + TWO_SIDED_95 * std
    if mean.size > 1:
        add_band(figure, along, low, high, colour=colour(place))
    else:  # the band of one period would have no width
        wide = np.repeat([low, high], 2, axis=1)
        add_band(figure, [-0.1, 0.1], *wide, colour=colour(place))
    _add_points(figure, periods, skipped, mean, colour(place))
    step = max(mean.size // 4, 1)
    figure.update_xaxes(
        tickvals=along[::step],
        ticktext=list(periods[::step]),
        range=[-0.2, max(mean.size - 1, 1) + 0.2],
    )
    figure.update_yaxes(title_text=unit)
    last = f"{mean[-1]:.3g} ± {TWO_SIDED_95 * std[-1]:.2g} {unit}".rstrip()
    return ReportFigure(title, figure, caption, alt=f"{title}, newest period: {last}")


def _add_points(
    figure: Figure, periods: Sequence[str], skipped: frozenset[str], mean: Floats, ink: str
) -> None:
    """Draw one marker per period; those of skipped periods are hollow, on a dashed line."""
    figure.add_scatter(
        x=list(range(mean.size)),
        y=mean,
        mode="lines+markers",
        line={"color": ink, "dash": "dash" if skipped else "solid"},
        marker={
            "color": ink,
            "symbol": [HOLLOW if one in skipped else "circle" for one in periods],
        },
    )
    for at in range(1, mean.size):
        if skipped and skipped.isdisjoint(periods[at - 1 : at + 1]):
            ends = slice(at - 1, at + 1)
            figure.add_scatter(
                x=[at - 1, at], y=mean[ends], mode="lines", line={"color": ink}, hoverinfo="skip"
            )


def _days(result: SeriesResult) -> Iterator[ReportFigure]:
    """Yield the mean day of each group in the newest period."""
    per_year = result.released.design.periods_per_year
    for place, group in enumerate(series_groups(result)):
        figure = new_figure(height=180, legend=False)
        curves, errors = result.load_kw[place], result.std_kw[place]
        along = list(range(curves.shape[1]))
        low = curves[-1] - TWO_SIDED_95 * errors[-1]
        add_band(figure, along, low, curves[-1] + TWO_SIDED_95 * errors[-1], colour=colour(place))
        figure.add_scatter(
            x=along, y=curves[-1], mode="lines", line={"color": colour(place)}, name="newest"
        )
        if len(curves) > per_year:
            style = {"color": colour(place), "dash": "dash", "width": 1}
            figure.add_scatter(
                x=along, y=curves[-1 - per_year], mode="lines", line=style, name="a year before"
            )
        figure.update_yaxes(title_text="kW")
        label_times(figure, slot_labels(len(along), len(along)))
        yield ReportFigure(group, figure, _DAY)


def _durations(result: SeriesResult) -> Iterator[ReportFigure]:
    """Yield the load duration curve of each group in the newest period."""
    for place, group in enumerate(series_groups(result)):
        figure = new_figure(height=180, legend=False)
        load, errors = (part[place, -1] for part in result.duration)
        along = [100.0 * (rank + 0.5) / load.size for rank in range(load.size)]
        low, high = load - TWO_SIDED_95 * errors, load + TWO_SIDED_95 * errors
        add_band(figure, along, low, high, colour=colour(place))
        style = {"color": colour(place)}
        figure.add_scatter(x=along, y=load, mode="lines", line=style, name=group)
        figure.update_yaxes(title_text="kW")
        figure.update_xaxes(title_text="% of the average day at or above")
        yield ReportFigure(group, figure, _DURATION)


def _shapes(result: SeriesResult) -> Iterator[ReportFigure]:
    """Yield the shape of each cluster in the newest period, and as it was found."""
    found = result.segments
    reach = TWO_SIDED_95 * found.centroids_std[:, -1]
    bands = [*zip(found.centroids[:, -1] - reach, found.centroids[:, -1] + reach, strict=True)]
    limits = common_limits(bands)
    for place, (curves, (low, high)) in enumerate(zip(found.centroids, bands, strict=True)):
        figure = new_figure(height=180, legend=False)
        along, style = list(range(curves.shape[1])), {"color": colour(place)}
        add_band(figure, along, low, high, colour=colour(place))
        figure.add_scatter(x=along, y=curves[-1], mode="lines", line=style, name="newest")
        if found.found_at < len(curves) - 1:
            thin = {**style, "dash": "dash", "width": 1}
            figure.add_scatter(
                x=along, y=curves[found.found_at], mode="lines", line=thin, name="as found"
            )
        label_times(figure, slot_labels(len(along), len(along)))
        figure.update_yaxes(range=limits)
        yield ReportFigure(f"Segment {place}", figure, _SHAPE)


def _sizes(result: SeriesResult) -> Iterator[ReportFigure]:
    """Yield the number of customers of each cluster over periods."""
    found = result.segments
    size, reach = found.sizes[0], TWO_SIDED_95 * found.sizes[1]
    limits = common_limits([(size - reach, size + reach)])
    for place, (mean, std) in enumerate(zip(*found.sizes, strict=True)):
        title = f"Segment {place}: customers"
        chart = _over_periods(found.periods, result.skipped, title, mean, std, place, "", _SIZE)
        chart.figure.update_yaxes(range=limits)
        yield chart


def _drift_table(result: SeriesResult) -> PageTable:
    """Return size and drift of each cluster in the newest period."""
    found = result.segments
    mean, std = (part[:, -1] for part in found.sizes)
    rows = [
        (f"Segment {place}", f"{mean[place]:.0f} ± {TWO_SIDED_95 * std[place]:.0f}", f"{drift:.2f}")
        for place, drift in enumerate(found.drift[:, -1])
    ]
    head = ("", "customers", "distance from the shape that was found, in radii")
    return PageTable("", head, rows, text_columns=(0, 1))


def _trend_table(result: SeriesResult) -> PageTable:
    """Return the change per year of each group, with its band and the smallest visible change."""
    rows = []
    for quantity, found in result.trends().items():
        low, high = found.band
        for place, group in enumerate(series_groups(result)):
            seen = (
                "change" if low[place] > 0.0 or high[place] < 0.0 else "not distinguishable from 0"
            )
            band = f"{low[place]:+.4f} to {high[place]:+.4f}"
            visible = f"{found.smallest_visible[place]:.4f}"
            rows.append((quantity, group, f"{found.slope[place]:+.4f}", band, visible, seen))
    head = ("load", "group", "kW per year", "95 % band", "smallest change that could be seen", "")
    return PageTable("", head, rows, text_columns=(0, 1, 3, 5))
