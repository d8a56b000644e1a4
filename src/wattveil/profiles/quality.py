"""One page that shows how good the data are. Every number on it is exact: it stays in house."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np
from plotly.graph_objects import Figure

from wattveil.profiles.build import ProfileBuild
from wattveil.profiles.grid import Grid
from wattveil.profiles.page import Shown, figure_html, private_page

_BARS, _TICKS = 60, 8  # at most, of a figure
_BLUE, _GREY = "#2563a8", "#9aa5b1"
_SHADES = ((5, 95, "rgba(37, 99, 168, 0.15)"), (25, 75, "rgba(37, 99, 168, 0.30)"))


def write_quality_page(build: ProfileBuild, path: str | Path) -> None:
    """Write the page, with all it needs inside."""
    account, profiles = build.account, build.profiles
    report = account.readings
    more = f" and {len(report.files) - 1} more" if len(report.files) > 1 else ""
    facts = [
        (f"{report.rows_in:,}", "readings"),
        (f"{report.rows_out / max(report.rows_in, 1):.2%}", "of them used"),
        (f"{account.customers_in:,}", "customers"),
        (f"{len(profiles):,}", "profiles"),
        (f"{profiles.grid.columns}", f"columns, {profiles.timezone}"),
    ]
    in_no_profile = [
        ("of these: in two cells of the grid, so in no profile", account.straddling),
        ("of these: of a length that no cell is a multiple of, so in no profile", account.unfit),
    ]
    readings = report.lines() + [line for line in in_no_profile if line[1]]
    customers = [("named in the source", account.customers_in)]
    customers += [
        (f"dropped: {reason}", count) for reason, count in account.customers_dropped.items()
    ]
    customers.append(("profiles", len(profiles)))
    tables = _shares("What became of every reading", readings)
    tables += _shares("What became of every customer", customers)
    rules = _table("Rules", _rules(profiles.rules))
    rules += _table("Guesses", [(guess,) for guess in report.guesses] or [("none",)])
    body = "".join(f'<div class="grid">{part}</div>' for part in (tables, _figures(build), rules))
    page = private_page(f"Data quality: {report.files[0]}{more}", facts, body)
    Path(path).write_text(page, encoding="utf-8")


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


def _figures(build: ProfileBuild) -> str:
    missing, daily, loads = Figure(), _daily_load(build), Figure()
    missing.add_bar(x=build.profiles.grid.labels, y=missing_share(build), marker_color=_GREY)
    missing.update_layout(bargap=0.1)
    missing.update_yaxes(tickformat="~%", rangemode="tozero")
    for by_column in (missing, daily):
        by_column.update_xaxes(dtick=_columns_a_tick(build.profiles.grid), tickangle=-45)
    loads.add_histogram(x=build.profiles.load_kw.mean(axis=1), nbinsx=_BARS, marker_color=_BLUE)
    shown = [
        Shown("Days with readings", _days(build), "days", "customers"),
        Shown("Missing readings, by column of the profile", missing, "", "share"),
        Shown("Load: median, quartiles, 5 % and 95 % of customers", daily, "", "kW"),
        Shown("Mean load", loads, "kW", "customers"),
    ]
    for each in shown:
        each.figure.update_layout(showlegend=False)
    return "".join(map(figure_html, shown))


def _days(build: ProfileBuild) -> Figure:
    """Draw bars that stand over whole days."""
    figure, days = Figure(), build.averages.days
    if days.size:
        span = int(days.max() - days.min()) + 1
        bins = {"start": int(days.min()) - 0.5, "size": -(-span // _BARS)}
        figure.add_histogram(x=days, xbins=bins, marker_color=_BLUE)
        if span <= _TICKS:
            figure.update_xaxes(dtick=1)
    return figure


def _columns_a_tick(grid: Grid) -> int:
    """Return a distance of ticks that begins every part of the grid with one; about 8 in all."""
    parts = grid.cells // grid.slots
    return grid.slots // max(1, _TICKS // parts)


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


def _daily_load(build: ProfileBuild) -> Figure:
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
