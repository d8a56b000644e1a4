"""One page that shows how good the data are. Every number on it is exact: it stays in house."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wattveil.errors import MissingExtraError
from wattveil.profiles.build import ProfileBuild

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_BLUE, _GREY = "#2563a8", "#9aa5b1"
_SHADES = ((5, 95, "rgba(37, 99, 168, 0.15)"), (25, 75, "rgba(37, 99, 168, 0.30)"))

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Data quality (private): {source}</title>
<style>
body {{ font-family: system-ui, sans-serif; margin: 0; color: #1c2733; }}
.band {{ background: #b3261e; color: #fff; padding: 0.6rem 1.5rem; font-weight: 600; }}
main {{ max-width: 72rem; margin: 1rem auto; padding: 0 1rem; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.4rem; margin: 0.5rem 0; }}
h2 {{ font-size: 1.05rem; margin: 1rem 0 0.3rem; }}
.facts {{ display: flex; flex-wrap: wrap; gap: 0.8rem 2rem; margin: 0.8rem 0; }}
.facts b {{ display: block; font-size: 1.5rem; }}
.grid {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr));
  gap: 0.5rem 2rem; }}
.grid > * {{ min-width: 0; }}
table {{ border-collapse: collapse; width: 100%; font-size: 0.9rem; }}
td {{ border-top: 1px solid #dde3e9; padding: 0.25rem 0.5rem 0.25rem 0; vertical-align: top; }}
td.number {{ text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }}
</style>
</head>
<body>
<div class="band">PRIVATE: exact figures about customers, not protected. Do not publish.</div>
<main>
<h1>Data quality: {source}</h1>
<div class="facts">{facts}</div>
<div class="grid">{tables}</div>
<div class="grid">{figures}</div>
<div class="grid">{rules}</div>
</main>
<script>
// The first figures are drawn before the grid has its columns; they take their width from it again.
addEventListener("load", () => dispatchEvent(new Event("resize")));
</script>
</body>
</html>
"""


def write_quality_page(build: ProfileBuild, path: str | Path) -> None:
    """Write the page, with all it needs inside."""
    report, profiles = build.cells.report, build.profiles
    more = f" and {len(report.files) - 1} more" if len(report.files) > 1 else ""
    facts = [
        (f"{report.rows_in:,}", "readings"),
        (f"{report.rows_out / max(report.rows_in, 1):.2%}", "of them used"),
        (f"{build.customers_in:,}", "customers"),
        (f"{len(profiles):,}", "profiles"),
        (f"{profiles.grid.columns}", f"columns, {escape(profiles.timezone)}"),
    ]
    in_no_profile = [
        ("of these: in two cells of the grid, so in no profile", build.cells.straddling),
        ("of these: longer than a cell of the grid, so in no profile", build.cells.too_long),
    ]
    readings = report.lines() + [line for line in in_no_profile if line[1]]
    customers = [("named in the source", build.customers_in)]
    customers += [(f"dropped: {reason}", count) for reason, count in build.dropped.items()]
    customers.append(("profiles", len(profiles)))
    Path(path).write_text(
        _PAGE.format(
            source=escape(report.files[0] + more),
            facts="".join(f"<div><b>{value}</b>{name}</div>" for value, name in facts),
            tables=_shares("What became of every reading", readings)
            + _shares("What became of every customer", customers),
            figures=_figures(build),
            rules=_table("Rules", _rules(profiles.rules))
            + _table("Guesses", [(guess,) for guess in report.guesses] or [("none",)]),
        ),
        encoding="utf-8",
    )


def _shares(title: str, lines: list[tuple[str, int]]) -> str:
    """Write a table of counts, and each as a share of the first."""
    whole = max(lines[0][1], 1)
    return _table(title, [(name, f"{n:,}", f"{n / whole:.2%}") for name, n in lines])


def _table(title: str, rows: Sequence[tuple[str, ...]]) -> str:
    body = ""
    for first, *others in rows:
        numbers = "".join(f'<td class="number">{escape(value)}</td>' for value in others)
        body += f"<tr><td>{escape(first)}</td>{numbers}</tr>"
    return f"<section><h2>{title}</h2><table>{body}</table></section>"


def _rules(rules: Mapping[str, object], within: str = "") -> list[tuple[str, str]]:
    """Lay out the rules that were given; guesses have their own table."""
    lines = []
    for key, value in rules.items():
        name = within + key.replace("_", " ")
        if isinstance(value, dict):
            lines += _rules(value, f"{name}: ")
        elif key != "guesses" and value is not None:
            lines.append((name, str(value)))
    return lines


def require_plots() -> None:
    """Refuse at once where the page could not be drawn in the end."""
    try:
        import plotly  # noqa: F401, PLC0415 -- an extra, needed only here
    except ImportError as error:
        raise MissingExtraError("the quality page", "plots") from error


def _figures(build: ProfileBuild) -> str:
    require_plots()
    from plotly.graph_objects import Figure  # noqa: PLC0415 -- an extra, needed only here

    days, loads = Figure(), Figure()
    days.add_histogram(x=build.averages.days, nbinsx=60, marker_color=_BLUE)
    missing = Figure()
    missing.add_bar(x=build.profiles.grid.labels, y=missing_share(build), marker_color=_GREY)
    missing.update_yaxes(tickformat=".1%", rangemode="tozero")
    loads.add_histogram(x=build.profiles.load_kw.mean(axis=1), nbinsx=60, marker_color=_BLUE)
    shown = [
        ("Days with readings", days, "days", "customers"),
        ("Missing readings, by column of the profile", missing, "", "share"),
        ("Load: median, quartiles, 5 % and 95 % of customers", _daily_load(build), "", "kW"),
        ("Mean load", loads, "kW", "customers"),
    ]
    sections: list[str] = []
    for title, figure, x_title, y_title in shown:
        figure.update_layout(
            showlegend=False, template="plotly_white", margin={"l": 10, "r": 10, "t": 10, "b": 10}
        )
        figure.update_xaxes(title_text=x_title, automargin=True)
        figure.update_yaxes(title_text=y_title, automargin=True)
        drawn = figure.to_html(
            full_html=False,
            include_plotlyjs=not sections,  # once a page
            config={"displayModeBar": False, "responsive": True},
            default_height="19rem",
        )
        sections.append(f"<section><h2>{title}</h2>{drawn}</section>")
    return "".join(sections)


def missing_share(build: ProfileBuild) -> list[float]:
    """Compare each cell with the fullest one of its customer and kind of day.

    The fullest but for an hour: one hour may be shown twice, and none of the others lacks it.
    """
    grid, rows = build.profiles.grid, build.averages.rows
    if not rows.size:
        return []
    by_kind = np.sort(rows.reshape(rows.shape[0], -1, grid.slots), axis=2)
    full = by_kind[:, :, -1 - 60 // grid.minutes]
    expected = np.repeat(full, grid.slots, axis=1).sum(axis=0)
    share = 1 - rows.sum(axis=0) / np.maximum(expected, 1)
    return [max(float(value), 0.0) for value in share]


def _daily_load(build: ProfileBuild) -> "Figure":
    from plotly.graph_objects import Figure  # noqa: PLC0415 -- an extra, needed only here

    figure = Figure()
    load_kw, labels = build.profiles.load_kw, list(build.profiles.grid.labels)
    if not len(build.profiles):
        return figure
    for low, high, colour in _SHADES:
        lower, upper = np.percentile(load_kw, (low, high), axis=0)
        figure.add_scatter(
            x=labels + labels[::-1],
            y=np.concatenate([upper, lower[::-1]]),
            fill="toself",
            fillcolor=colour,
            line={"width": 0},
            hoverinfo="skip",
        )
    median = np.median(load_kw, axis=0)
    figure.add_scatter(x=labels, y=median, line={"color": _BLUE, "width": 2}, name="median")
    return figure
