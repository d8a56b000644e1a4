"""Page of data quality, and the list of dropped customers. Internal: exact, with names."""

import csv
import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from plotly.graph_objects import Figure

from wattveil.profiles.build import ProfileBuild, no_reading_for
from wattveil.profiles.profile_account import NO_USABLE_READING, WrittenProfiles, left_out
from wattveil.profiles.profiles import ProfileRules
from wattveil.profiles.time_grid import TimeGrid
from wattveil.readings.options import ASSUMED_UTC
from wattveil.readings.readings import Readings
from wattveil.readings.row_checks import Drop
from wattveil.readings.timestamps import DAY_US, MINUTE_US, offsets
from wattveil.terminal import error_record
from wattveil.web.charts import BLUE, GREY, ReportFigure, add_band, new_figure, panel
from wattveil.web.formatting import format_share
from wattveil.web.pages import PageTable, write_internal_page

WITHOUT_ATTRIBUTES = "of these: without attributes"
_BARS, _TICKS = 60, 8  # at most, of a figure
_SHOWN_DAYS = 5
_BANDS = ((5, 95, 0.15), (25, 75, 0.3))


def write_quality_page(build: ProfileBuild, path: str | Path) -> None:
    """Write the page as one file."""
    account, profiles = build.account, build.profiles
    report = account.readings
    more = f" and {len(report.files) - 1} more" if len(report.files) > 1 else ""
    used = report.rows_out - account.straddling - account.unfit
    also = " (including those of dropped customers)" if build.dropped else ""
    facts = [
        (f"{report.rows_in:,}", "readings"),
        (format_share(used / max(report.rows_in, 1), 2), f"readings kept{also}"),
        (f"{account.customers_in:,}", "customers"),
        (f"{len(profiles):,}", "profiles"),
        (f"{profiles.grid.columns}", f"columns, {profiles.timezone}"),
    ]
    if ASSUMED_UTC in report.assumptions:
        facts.append(("UTC", "assumed: stamps have no offset, and no time zone was given"))
    in_no_profile = [
        ("of these: span two slots, not used", account.straddling),
        ("of these: of a length that no slot is a multiple of, not used", account.unfit),
    ]
    readings = report.lines() + [line for line in in_no_profile if line[1]]
    customers = [("found in the source", account.customers_in)]
    customers += [
        (f"dropped: {reason}", count) for reason, count in account.customers_dropped.items()
    ]
    customers.append(("profiles", len(profiles)))
    if account.without_attributes:
        customers.append((WITHOUT_ATTRIBUTES, account.without_attributes))
    assumptions = [(assumption,) for assumption in report.assumptions] or [("none",)]
    write_internal_page(
        path,
        "quality",
        title=f"Data quality: {report.files[0]}{more}",
        facts=facts,
        readings=_shares("Readings", readings),
        customers=_shares("Customers", customers),
        figures=_figures(build),
        rules=PageTable("Rules", (), _rules(profiles.rules)),
        assumptions=PageTable("Inferred settings and notes", (), assumptions),
    )


def list_dropped_customers(build: ProfileBuild, path: Path) -> None:
    """Append the dropped customers, by id and with the reason, to a file of dropped rows."""
    reasons = [f"customer dropped: {reason}" for reason in build.dropped.values()]
    if path.suffix == ".parquet":
        rows = pq.read_table(path)
        columns = (reasons, [None] * len(reasons), [*build.dropped])
        more = pa.table(dict(zip(rows.column_names, columns, strict=True)), schema=rows.schema)
        pq.write_table(pa.concat_tables([rows, more]), path)
        return
    with path.open("a", encoding="utf-8", newline="") as file:
        lines = zip(reasons, build.dropped, strict=True)
        csv.writer(file, lineterminator="\n").writerows((why, "", name) for why, name in lines)


def _shares(title: str, lines: Sequence[tuple[str, int]]) -> PageTable:
    """Return a table of counts, and each as a share of the first."""
    whole = max(lines[0][1], 1)
    return PageTable(title, (), [(name, f"{n:,}", format_share(n / whole, 2)) for name, n in lines])


def _rules(rules: Mapping[str, object], within: str = "") -> list[tuple[str, str]]:
    """Lay out the rules that were given; inferred options have their own table."""
    lines = []
    for key, value in rules.items():
        name = within + key.replace("_", " ")
        if isinstance(value, dict):
            lines += _rules(value, f"{name}: ")
        elif key != "assumptions" and value is not None:
            lines.append((name, _as_text(value)))
    return lines


def _as_text(value: object) -> str:
    """Return a value without the signs of Python: yes or no, and lists such as a period."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(_as_text, value)) if isinstance(value, list | tuple) else str(value)


def _figures(build: ProfileBuild) -> list[ReportFigure]:
    missing, daily, loads = (new_figure(legend=False), _daily_load(build), new_figure(legend=False))
    missing.add_bar(x=build.profiles.grid.labels, y=missing_share(build), marker_color=GREY)
    missing.update_layout(bargap=0.1)
    missing.update_yaxes(tickformat="~%", rangemode="tozero")
    for by_column in (missing, daily):
        by_column.update_xaxes(dtick=_columns_per_tick(build.profiles.grid), tickangle=-45)
    loads.add_histogram(x=build.profiles.load_kw.mean(axis=1), nbinsx=_BARS, marker_color=BLUE)
    return [
        panel("Days with readings", _days(build), "days", "customers"),
        panel("Missing readings, by column of the profile", missing, "", "share"),
        panel("Load: median, quartiles, 5 % and 95 % of customers", daily, "", "kW"),
        panel("Mean load", loads, "kW", "customers"),
    ]


def _days(build: ProfileBuild) -> Figure:
    """Draw bars that stand over whole days."""
    figure, days = new_figure(legend=False), build.averages.days
    if days.size:
        span = int(days.max() - days.min()) + 1
        bins = {"start": int(days.min()) - 0.5, "size": -(-span // _BARS)}
        figure.add_histogram(x=days, xbins=bins, marker_color=BLUE)
        if span <= _TICKS:
            figure.update_xaxes(dtick=1)
    return figure


def _columns_per_tick(grid: TimeGrid) -> int:
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
    figure = new_figure(legend=False)
    load_kw, labels = build.profiles.load_kw, list(build.profiles.grid.labels)
    if not len(build.profiles):
        return figure
    for low, high, opacity in _BANDS:
        lower, upper = np.percentile(load_kw, (low, high), axis=0)
        add_band(figure, labels, lower, upper, colour=BLUE, opacity=opacity)
    median = np.median(load_kw, axis=0)
    figure.add_scatter(x=labels, y=median, line={"color": BLUE, "width": 2}, name="median")
    return figure


def outside_period(build: ProfileBuild, readings: Readings) -> tuple[str, ...]:
    """Return a warning with the days of the readings if none is within the period."""
    outside = build.account.readings.dropped.get(Drop.OUTSIDE_PERIOD.text, 0)
    if build.account.readings.rows_out or not outside:
        return ()
    stamps = "min(make_timestamp(stamp_us))::DATE, max(make_timestamp(stamp_us))::DATE"
    query = f"SELECT {stamps} FROM ({readings.checked().sql()}) WHERE reason = 0"
    first, last = readings.connection.cursor().execute(query).fetchall()[0]
    return (f"no reading is within --period; readings span {first} to {last}",)


def empty_days(build: ProfileBuild, readings: Readings) -> tuple[str, ...]:
    """Return a warning with the local days of the period on which no customer has a reading.

    Such a day is none of any customer, so rows are searched only if everybody lacks a day.
    """
    period = readings.options.period
    if period is None or not build.account.readings.rows_out:
        return ()
    length = (period[1] - period[0]).days
    if build.averages.days.max(initial=0) >= length:
        return ()
    before = 1 if readings.source.rows.end_stamped else 0
    query = f"""
        SELECT DISTINCT (stamp_us - {before}) // {15 * MINUTE_US} * {15 * MINUTE_US} AS us
        FROM ({readings.checked().sql()}) WHERE reason = 0
    """
    found = readings.connection.cursor().execute(query).fetchnumpy()["us"].astype(np.int64)
    zone = readings.options.timezone or "UTC"
    if readings.clock is None:
        found += offsets(zone, int(found.min()), int(found.max())).at(found)
    read = set((found // DAY_US).tolist())
    days = (period[0] + dt.timedelta(days=day) for day in range(length))
    empty = [day for day in days if (day - dt.date(1970, 1, 1)).days not in read]
    if not empty:
        return ()
    more = f" and {len(empty) - _SHOWN_DAYS} more" if len(empty) > _SHOWN_DAYS else ""
    shown = ", ".join(map(str, empty[:_SHOWN_DAYS])) + more
    return (f"{len(empty)} of {length} days of --period have no readings: {shown}",)


def no_profiles(made: WrittenProfiles) -> dict[str, Any]:
    """Return the keys of an error, which the account of a failure has in JSON."""
    message = (
        f"{left_out(made.account.customers_dropped)}. {made.path} is not written."
        f" {remedy(made.account.customers_dropped, made.rules)}"
    )
    return {"out": None, **error_record(None, message)}


def remedy(dropped: Mapping[str, int], rules: ProfileRules) -> str:
    """Return what helps against the most frequent reason for which customers were dropped."""
    reason = max(dropped, key=dropped.__getitem__, default=NO_USABLE_READING)
    remedies = {
        NO_USABLE_READING: "--problems-to FILE lists the dropped readings with their reasons",
        no_reading_for(rules.grid.minutes): (
            "Pass readings of whole days, on every kind of day that --split names, or choose a"
            " longer --grid-minutes"
        ),
        "readings not spaced": "State --minutes, or pass one file per interval length",
        "readings on fewer than": "Pass more days of readings, or lower --min-days",
        "a gap of more than": "Pass readings without that gap, or raise --max-gap-hours",
    }
    return next(text for begin, text in remedies.items() if reason.startswith(begin))
