"""One page that shows a comparison. Private: it stays in house."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from plotly.colors import qualitative
from plotly.graph_objects import Figure

from wattveil.baselines.comparison import Comparison
from wattveil.baselines.mechanisms import MECHANISMS
from wattveil.baselines.summary import Quartiles, Row
from wattveil.profiles.page import Shown, figure_html, private_page

_LEAST_SHOWN = 1e-3
_COLOURS = qualitative.Dark24
_NOTE = (
    "Loss: (r(private) − r(exact)) / r(exact), r the mean squared distance of a customer to its"
    " centroid. Line: median; band: the middle half of the repetitions. Solid lines keep what they"
    " claim under differential privacy, dashed ones hold for this data set alone (instance tier),"
    " dotted ones have less than they claim. Losses below 0.001 are drawn at 0.001. Rivals are"
    " given bounds taken from the data for free; the global tier buys its own. Epsilon is that of"
    " the centroids; released labels cost as much again."
)


def write_comparison_page(comparison: Comparison, rows: Sequence[Row], path: Path) -> None:
    """Write the page, with all it needs inside."""
    setting = comparison.setting
    facts = [
        (str(len(comparison.mechanisms)), "mechanisms"),
        (str(setting.n_clusters), "clusters"),
        (f"{setting.delta:g}", "δ"),
        (str(setting.repeats), "repetitions"),
    ]
    loss = "DP accuracy loss"
    with_labels = [row for row in rows if row.labels is not None]
    body = [
        f"<p>{escape(_NOTE)}</p>",
        *(f"<p>Left out: {escape(reason)}</p>" for reason in comparison.left_out),
        figure_html(
            Shown("Each customer at the nearest centroid", _bands(rows, "nearest"), "ε", loss),
            height="38rem",
        ),
    ]
    if with_labels:
        shown = Shown(
            "Each customer at its released label", _bands(with_labels, "labels"), "ε", loss
        )
        body.append(figure_html(shown, height="30rem"))
    body += [_doubts(rows), _table(rows)]
    page = private_page("Mechanisms and rivals on the same customers", facts, "".join(body))
    path.write_text(page, encoding="utf-8")


def _bands(rows: Sequence[Row], field: str) -> Figure:
    """Draw a line and a band for each mechanism; a click on its name hides both."""
    figure = Figure()
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row.mechanism, []).append(row)
    for name, lines in by_name.items():
        colour = _COLOURS[list(MECHANISMS).index(name)]  # the same in every figure
        ordered = sorted(lines, key=lambda row: row.epsilon)
        epsilons = [row.epsilon for row in ordered]
        parts: list[Quartiles] = [getattr(row, field) for row in ordered]
        low, median, high = (
            [max(one, _LEAST_SHOWN) for one in part] for part in zip(*parts, strict=True)
        )
        figure.add_scatter(
            x=[*epsilons, *reversed(epsilons)],
            y=[*high, *reversed(low)],
            fill="toself",
            fillcolor=colour,
            opacity=0.15,
            line={"width": 0},
            hoverinfo="skip",
            legendgroup=name,
            showlegend=False,
        )
        figure.add_scatter(
            x=epsilons,
            y=median,
            mode="lines+markers",
            line={"color": colour, "dash": _dash(ordered)},
            name=ordered[0].title,
            legendgroup=name,
        )
    figure.update_layout(legend={"orientation": "h", "y": -0.15, "yanchor": "top"})
    figure.update_xaxes(type="log", tickvals=sorted({row.epsilon for row in rows}))
    figure.update_yaxes(type="log")
    return figure


def _dash(rows: Sequence[Row]) -> str:
    if all("instance" in row.true for row in rows):
        return "dash"
    return "solid" if all(row.keeps_its_claim for row in rows) else "dot"


def _table(rows: Sequence[Row]) -> str:
    numbers = ("ε", "loss, nearest centroid", "loss, released labels", "CPU s")
    promises = ("claims", "has", "has with labels")
    head = "".join(f'<th class="number">{name}</th>' for name in (*numbers, *promises))
    lines = []
    for row in rows:
        figures = (
            f"{row.epsilon:g}",
            shown(row.nearest),
            shown(row.labels),
            f"{row.cpu_seconds:.2f}",
            row.claimed,
        )
        cells = "".join(f'<td class="number">{escape(figure)}</td>' for figure in figures)
        colour = "#2e7d32" if row.keeps_its_claim else "#b3261e"
        lines.append(
            f"<tr><td>{escape(row.title)}</td>{cells}"
            f'<td class="number" style="color: {colour}">{escape(row.true)}</td>'
            f'<td class="number">{escape(row.true_with_labels)}</td></tr>'
        )
    table = f"<table><thead><tr><th>mechanism</th>{head}</tr></thead>"
    return f"<div class='scroll'>{table}<tbody>{''.join(lines)}</tbody></table></div>"


def _doubts(rows: Sequence[Row]) -> str:
    by_title = {row.title: row.doubts for row in rows if row.doubts}
    listed = "".join(
        f"<li>{escape(title)}: {escape('; '.join(doubts))}.</li>"
        for title, doubts in by_title.items()
    )
    return f"<h2>Doubts</h2><ul>{listed}</ul>" if listed else ""


def shown(losses: Quartiles | None) -> str:
    """Return a median with its quartiles as tables show it."""
    if losses is None:
        return "–"
    low, high = (f"{loss:.2g}" if abs(loss) >= _LEAST_SHOWN else "0" for loss in losses[::2])
    median = f"{losses.median:.3g}" if abs(losses.median) >= _LEAST_SHOWN else "0"
    return f"{median} ({low}–{high})"
