"""Page of `wattveil compare`: mechanisms and baselines. Internal: exact figures."""

import math
from collections.abc import Sequence
from pathlib import Path

from plotly.colors import qualitative
from plotly.graph_objects import Figure

from wattveil.lab.baselines.baseline_comparison import MECHANISMS, BaselineComparison
from wattveil.lab.baselines.baseline_summary import REFERENCE, BaselineRow, Quartiles
from wattveil.web.charts import GREY, add_band, new_figure, panel, use_log_axes
from wattveil.web.formatting import format_interval, format_number, format_share
from wattveil.web.pages import PageTable, TableCell, write_internal_page

_MIN_SHOWN = 1e-3
_COLOURS = qualitative.Dark24  # more mechanisms than the palette of all pages has colours
_READING = {
    "Loss": "(r(private) − r(exact)) / r(exact), where r is the mean squared distance of a customer"
    " to its centroid. 0 is as accurate as exact K-means.",
    "Charts": "A line is the median of the repetitions, a band their interquartile range. Losses"
    " below 0.001 are drawn at 0.001.",
    "Line style": "Solid: the method satisfies the differential privacy that it claims. Dashed: the"
    " guarantee holds for this data set only (instance tier). Dotted: the method satisfies less"
    " than it claims.",
    "Bounds": "Baselines use bounds taken from the data without noise. The global tier spends part"
    " of its budget on bounds.",
    "ε": "Budget of the centroids. Released labels cost the same amount again.",
    "95 % interval": "Interval of the median loss, between order statistics; it requires at least"
    " six repetitions.",
    "Difference from the global tier": "Whether the median loss differs from that of the global"
    " tier at the same ε, and by how much. Different: the difference exceeds 95 % of those under"
    " random assignment of the runs. No difference found: it does not, and a difference of one"
    " tenth of the global tier's loss would be detected with probability 80 %. Inconclusive (no"
    " power): such a difference might have been missed.",
    "Outlier runs": "Share of runs with a loss above three times the median, plus 0.02, of the same"
    " mechanism and ε.",
}
_NO_INTERVAL = "needs six repetitions"
_LIMITS = (
    "Estimates of the unavoidable loss of private methods, computed from these customers for a"
    " Gaussian release with the same budget. A: the exact clusters are known, and the whole budget"
    " is spent on one draw of noise of the best shape for their means. B: exact K-means without"
    " clusters of fewer than 5/μ customers, which cannot be distinguished from noise. Bound:"
    " smallest loss of unbiased releases of the means of the exact clusters (Hammersley, Chapman"
    " and Robbins). A and B are benchmarks: a biased method, which clips, smooths or shrinks, can"
    " have a smaller loss than A where the noise is large. The loss relative to B uses B in place"
    " of exact K-means; it is negative if a method is more accurate than B."
)
_LIMIT_LINES = {
    "one_draw": ("A: one draw, clusters known", "dash"),
    "no_small_clusters": ("B: no small clusters", "dashdot"),
    "bound": ("bound of unbiased releases", "dot"),
}


def write_comparison_page(
    comparison: BaselineComparison, rows: Sequence[BaselineRow], path: Path
) -> None:
    """Write the page as one file."""
    setting = comparison.setting
    facts = [
        (str(len(comparison.mechanisms)), "mechanisms"),
        (str(setting.n_clusters), "clusters"),
        (f"{setting.delta:g}", "δ"),
        (str(setting.repeats), "repetitions"),
        *_headlines(rows),
    ]
    loss = "DP accuracy loss"
    with_labels = [row for row in rows if row.labels is not None]
    nearest = _bands(rows, "nearest", height=600)
    _add_limits(nearest, comparison)
    use_log_axes(nearest, y=True)
    figures = [panel("Each customer at the nearest centroid", nearest, "ε", loss)]
    if with_labels:
        labels = _bands(with_labels, "labels", height=480)
        figures.append(panel("Each customer at its released label", labels, "ε", loss))
    write_internal_page(
        path,
        "baselines",
        title="Private K-means: mechanisms and baselines on the same customers",
        facts=facts,
        findings=_findings(rows),
        reading=_READING,
        limits=_limits_table(comparison),
        limits_text=_LIMITS,
        left_out=comparison.left_out,
        figures=figures,
        violations={row.title: row.known_violations for row in rows if row.known_violations},
        losses=_table(rows),
    )


def _headlines(rows: Sequence[BaselineRow]) -> list[tuple[str, str]]:
    """Return the loss of the global tier at each epsilon, with the interval of the median."""
    return [
        (f"{row.nearest.median:.3g}", _headline(row)) for row in rows if row.mechanism == REFERENCE
    ]


def _headline(row: BaselineRow) -> str:
    return f"loss of the global tier at ε = {row.epsilon:g}; 95 % interval: {_interval(row)}"


def _interval(row: BaselineRow) -> str:
    """Return the interval of the median loss; few repetitions have none."""
    low, high = row.nearest_interval
    return format_interval(low, high) if math.isfinite(low + high) else _NO_INTERVAL


def _findings(rows: Sequence[BaselineRow]) -> list[str]:
    """Return, for each epsilon, the global tier beside the best baseline that keeps its claim."""
    found = []
    for own in (row for row in rows if row.mechanism == REFERENCE):
        others = [
            row
            for row in rows
            if row.epsilon == own.epsilon and row.mechanism != REFERENCE and row.keeps_its_claim
        ]
        sentence = f"At ε = {own.epsilon:g}, the global tier has a median loss of"
        sentence += f" {own.nearest.median:.3g}."
        if others:
            best = min(others, key=lambda row: row.nearest.median)
            sentence += " The smallest loss of the other methods that satisfy their claim is"
            sentence += f" {best.nearest.median:.3g} ({best.title})."
        found.append(sentence)
    return found


def _bands(rows: Sequence[BaselineRow], field: str, *, height: int) -> Figure:
    """Draw a line and a band for each mechanism; a click on its name hides both."""
    figure = new_figure(height=height)
    by_name: dict[str, list[BaselineRow]] = {}
    for row in rows:
        by_name.setdefault(row.mechanism, []).append(row)
    for name, lines in by_name.items():
        colour = _COLOURS[list(MECHANISMS).index(name)]  # the same in both figures
        ordered = sorted(lines, key=lambda row: row.epsilon)
        epsilons = [row.epsilon for row in ordered]
        parts: list[Quartiles] = [getattr(row, field) for row in ordered]
        low, median, high = (
            [max(one, _MIN_SHOWN) for one in part] for part in zip(*parts, strict=True)
        )
        add_band(figure, epsilons, low, high, colour=colour, opacity=0.15, group=name)
        figure.add_scatter(
            x=epsilons,
            y=median,
            mode="lines+markers",
            line={"color": colour, "dash": _dash(ordered)},
            name=ordered[0].title,
            legendgroup=name,
        )
    figure.update_layout(legend={"y": -0.15, "yanchor": "top"})
    figure.update_xaxes(type="log", tickvals=sorted({row.epsilon for row in rows}))
    use_log_axes(figure, y=True)
    return figure


def _add_limits(figure: Figure, comparison: BaselineComparison) -> None:
    """Draw A, B and the bound in grey, wide lines."""
    ordered = sorted(comparison.limits, key=lambda one: one.epsilon)
    for field, (name, dash) in _LIMIT_LINES.items():
        figure.add_scatter(
            x=[one.epsilon for one in ordered],
            y=[max(getattr(one, field), _MIN_SHOWN) for one in ordered],
            mode="lines",
            line={"color": GREY, "dash": dash, "width": 3},
            name=name,
        )


def _limits_table(comparison: BaselineComparison) -> PageTable:
    head = ("ε", "μ", "A", "B", "5/μ customers", "max(A, B)", "bound")
    cells: list[tuple[str | TableCell, ...]] = [
        (
            f"{one.epsilon:g}",
            f"{one.mu:.3g}",
            f"{one.one_draw:.3g}",
            f"{one.no_small_clusters:.3g}",
            f"{one.min_customers:.0f}",
            f"{one.reference:.3g}",
            f"{one.bound:.3g}",
        )
        for one in comparison.limits
    ]
    return PageTable("Limits of accuracy", head, cells, text_columns=())


def _dash(rows: Sequence[BaselineRow]) -> str:
    if all("instance" in row.true for row in rows):
        return "dash"
    return "solid" if all(row.keeps_its_claim for row in rows) else "dot"


def _table(rows: Sequence[BaselineRow]) -> PageTable:
    head = (
        *("mechanism", "ε", "loss, nearest centroid", "95 % interval", "loss relative to B"),
        *("outlier runs", "difference from the global tier", "loss, released labels", "CPU s"),
        *("claims", "satisfies", "with labels"),
    )
    cells: list[tuple[str | TableCell, ...]] = [
        (
            row.title,
            f"{row.epsilon:g}",
            format_quartiles(row.nearest),
            _interval(row),
            f"{row.against_b:.3g}",
            format_share(row.wild),
            _against(row),
            format_quartiles(row.labels),
            f"{row.cpu_seconds:.2f}",
            row.claimed,
            TableCell(row.true, row.keeps_its_claim),
            row.true_with_labels,
        )
        for row in rows
    ]
    # Medians with quartiles and intervals are texts: they may need two lines.
    return PageTable("All results", head, cells, text_columns=(0, 2, 3, 6, 7, 9, 10, 11))


def _against(row: BaselineRow) -> str | TableCell:
    """Return the verdict on the difference from the global tier, with its size."""
    if row.against is None:
        return "–"
    found = row.against
    return f"{found.verdict.value}: {format_number(found.effect)}"


def format_quartiles(losses: Quartiles | None) -> str:
    """Return a median with its quartiles in parentheses."""
    if losses is None:
        return "–"
    low, high = (f"{loss:.2g}" if abs(loss) >= _MIN_SHOWN else "0" for loss in losses[::2])
    median = f"{losses.median:.3g}" if abs(losses.median) >= _MIN_SHOWN else "0"
    return f"{median} ({low}–{high})"
