"""The verb `profiles`: meter data in, one load profile a customer out."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import duckdb
import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from wattveil import checks
from wattveil.engines.choice import ENGINE_HELP, MASTER_HELP, Engine, chosen_engine
from wattveil.errors import InvalidFileError, InvalidParameterError, WattveilError
from wattveil.ingest import Readings
from wattveil.ingest.options import ReadOptions
from wattveil.ingest.read import checked_memory, open_readings
from wattveil.profiles.account import ProfileRules, WrittenProfiles
from wattveil.profiles.build import ProfileBuild, build_by_rules
from wattveil.profiles.grid import Grid, Split
from wattveil.profiles.quality import write_quality_page
from wattveil.terminal import check_folders, plain, working

if TYPE_CHECKING:  # pyspark is an extra
    from wattveil.engines.spark_engine import SparkEngine

EPILOG = (
    "Example: wattveil profiles readings.parquet --timezone Europe/London --out profiles.parquet"
)

_POLL_SECONDS = 0.2


def profiles(
    source: Annotated[
        list[str], typer.Argument(help="Files, folders or globs; with --sql, one database.")
    ],
    *,
    out: Annotated[str, typer.Option(help="Parquet file for the profiles; on Spark, a folder.")],
    sql: Annotated[str | None, typer.Option(help="Query whose rows are the readings.")] = None,
    timezone: Annotated[str | None, typer.Option(help="IANA zone of the profile's hours.")] = None,
    stamps_in: Annotated[
        str | None, typer.Option(help="Zone of stamps without offset, if another.")
    ] = None,
    layout: Annotated[str | None, typer.Option(help="long, wide or matrix.")] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="role=name, such as value=net_kwh; may be repeated.")
    ] = None,
    unit: Annotated[str | None, typer.Option(help="kWh, Wh, kW or register.")] = None,
    minutes: Annotated[int | None, typer.Option(help="Length of the intervals.")] = None,
    stamp: Annotated[str | None, typer.Option(help="start or end of the interval.")] = None,
    stamp_format: Annotated[str | None, typer.Option(help="As for strptime.")] = None,
    decimal: Annotated[str | None, typer.Option(help="point or comma, in values.")] = None,
    day_slots: Annotated[str | None, typer.Option(help="Wide tables: clock or elapsed.")] = None,
    period: Annotated[
        tuple[str, str] | None, typer.Option(help="First day, and day after the last.")
    ] = None,
    conflicts: Annotated[str, typer.Option(help="drop, first, last or mean.")] = "drop",
    estimated: Annotated[str, typer.Option(help="keep, flag or drop.")] = "keep",
    meters: Annotated[Path | None, typer.Option(help="Table of meter_id, customer_id.")] = None,
    register_rollover: Annotated[
        float | None, typer.Option(help="Where a register starts again from 0, in kWh.")
    ] = None,
    skip_lines: Annotated[int, typer.Option(help="Lines before a CSV header.")] = 0,
    grid_minutes: Annotated[int, typer.Option(help="Length of a slot of the profile.")] = 60,
    split: Annotated[
        str, typer.Option(help="day, weekday-weekend, season, season-weekday-weekend or week.")
    ] = "day",
    least_days: Annotated[int, typer.Option(help="Days with readings a customer needs.")] = 14,
    longest_gap_hours: Annotated[
        float | None, typer.Option(help="Longest time without readings.")
    ] = None,
    attributes: Annotated[
        Path | None, typer.Option(help="Table of customer_id and attributes.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="HTML page on the quality of the data; private.")
    ] = None,
    problems_to: Annotated[
        Path | None, typer.Option(help="CSV or Parquet file for the rows left out; private.")
    ] = None,
    memory_mb: Annotated[int, typer.Option(help="Memory before the disk is used.")] = 600,
    closing_midnight: Annotated[
        bool, typer.Option(help="Add 24:00 as a last column: the paper's d = 25.")
    ] = False,
    engine: Annotated[str, typer.Option(help=ENGINE_HELP)] = "local",
    master: Annotated[str | None, typer.Option(help=MASTER_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the account as JSON.")] = False,
) -> None:
    """Turn meter readings into one load profile a customer, and say what was left out and why.

    With --engine spark, --out is a folder; --sql, --report and --problems-to are for one machine.
    If no customer is left, --out is not written and the command fails.
    """
    console, errors = Console(stderr=as_json), Console(stderr=True)
    try:
        written = {"out": Path(out), "report": report, "problems_to": problems_to}
        if engine == Engine.SPARK:
            _check_options({"sql": sql, "report": report, "problems_to": problems_to})
        else:
            checks.local_path("out", Path(out))
            check_folders(written)
        spark = chosen_engine(engine, master)
        grid = Grid(
            minutes=grid_minutes,
            split=checks.enum_value("split", split, Split),
            closing_midnight=closing_midnight,
        )
        options = ReadOptions.from_text(
            timezone=stamps_in or timezone,
            layout=layout,
            columns=_columns(column or []),
            unit=unit,
            minutes=minutes,
            stamp=stamp,
            stamp_format=stamp_format,
            decimal=decimal,
            day_slots=day_slots,
            period=period,
            conflicts=conflicts,
            estimated=estimated,
            meters=meters,
            register_rollover=register_rollover,
            skip_lines=skip_lines,
        )
        rules = ProfileRules(
            grid=grid,
            timezone=timezone or stamps_in or "UTC",
            least_days=least_days,
            longest_gap_hours=longest_gap_hours,
        )
        if spark is not None:
            with working(console) as say:
                say("on Spark")
                made = _on_spark(
                    spark, source, options, rules, out=out, attributes=attributes, mb=memory_mb
                )
        else:
            with _progress(console) as watch:
                readings = open_readings(
                    source if sql is None else _one(source),
                    options,
                    sql=sql,
                    problems_to=problems_to,
                    memory_mb=memory_mb,
                )
                _check_sources_stay(written, readings)
                for guess in readings.guesses:
                    console.print(f"[yellow]guessed[/] {plain(guess)}", highlight=False)
                watch(readings)
                build = build_by_rules(readings, rules, attributes=attributes)
            made = _write(build, rules, out, report)
    except InvalidParameterError as error:
        raise typer.BadParameter(_said(error)) from error
    except duckdb.OutOfMemoryException as error:
        errors.print(f"[red]Error:[/] more than --memory-mb {memory_mb} is needed.")
        raise typer.Exit(1) from error
    except (WattveilError, OSError, duckdb.Error) as error:
        errors.print(f"[red]Error:[/] {plain(_said(error))}", highlight=False)
        raise typer.Exit(1) from error
    if as_json:
        typer.echo(json.dumps(made.to_json(), indent=2))
    else:
        _show(console, made)
    if not made.account.profiles:
        errors.print("[red]Error:[/] no customer is left, so there are no profiles to write.")
        raise typer.Exit(1)


def _said(error: Exception) -> str:
    """Return a message in which the arguments that it advises are options of the verb."""
    match error:
        case InvalidFileError():
            expected = _as_options(error.expected)
            return str(InvalidFileError(error.path, error.where, expected, error.found))
        case InvalidParameterError():
            return str(InvalidParameterError(error.field, _as_options(error.rule), error.value))
        case _:
            return str(error)


def _as_options(advice: str) -> str:
    advice = re.sub(r"columns=\{'(\w+)': …\}", r"--column \1=NAME", advice)
    return re.sub(
        r"\b([a-z_]+)=(?:(…|\d+)|'(\w+)')",
        lambda found: f"--{found[1].replace('_', '-')} {found[2] or found[3]}",
        advice,
    )


def _check_options(one_machine: Mapping[str, object]) -> None:
    """Refuse on Spark what is for one machine."""
    for name, value in one_machine.items():
        if value is not None:
            raise InvalidParameterError(name, "left out with --engine spark", str(value))


def _on_spark(
    spark: "SparkEngine",
    source: list[str],
    options: ReadOptions,
    rules: ProfileRules,
    *,
    out: str,
    attributes: Path | None,
    mb: int,
) -> WrittenProfiles:
    """Let executors do it."""
    spark.check_new(out)
    readings = spark.read_readings(source, options, memory_mb=checked_memory(mb))
    build = readings.build(rules, attributes=attributes)
    if build.account.profiles:
        build.profiles.write_parquet(out)
    return WrittenProfiles(
        path=out,
        rules=rules,
        account=build.account,
        median_kw=build.median_kw,
        largest_kw=build.largest_kw,
    )


def _one(source: list[str]) -> str:
    """Accept a single database."""
    if len(source) > 1:
        raise InvalidParameterError("source", "one database when --sql is given", source)
    return source[0]


def _check_sources_stay(written: Mapping[str, Path | None], readings: Readings) -> None:
    """Refuse to write over what is being read."""
    sources = {path.resolve() for path in readings.source.files}
    for name, path in written.items():
        if path is not None and path.resolve() in sources:
            raise InvalidParameterError(name, "another file than the source", str(path))


def _columns(pairs: list[str]) -> dict[str, str]:
    columns = {}
    for pair in pairs:
        role, equals, name = pair.partition("=")
        if not equals:
            raise InvalidParameterError("column", "role=name", pair)
        columns[role] = name
    return columns


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[Readings], None]]:
    """Show how far DuckDB is with the readings to watch, as it says itself.

    It does not know of every query, and before there is anything to watch, only time passes.
    """
    watched: list[Readings] = []
    done = threading.Event()
    bar = Progress(
        TextColumn("reading"), BarColumn(), TimeElapsedColumn(), console=console, transient=True
    )
    task = bar.add_task("reading", total=None)

    def poll() -> None:
        while not done.wait(_POLL_SECONDS):
            percent = watched[-1].connection.query_progress() if watched else -1.0
            bar.update(task, total=100 if percent >= 0 else None, completed=max(percent, 0))

    poller = threading.Thread(target=poll, daemon=True)
    with bar:
        poller.start()
        try:
            yield watched.append
        finally:
            done.set()
            poller.join()


def _write(
    build: ProfileBuild, rules: ProfileRules, out: str, report: Path | None
) -> WrittenProfiles:
    if build.account.profiles:
        build.profiles.write_parquet(out)
    if report is not None:
        write_quality_page(build, report)
    mean_kw = build.profiles.load_kw.mean(axis=1)
    return WrittenProfiles(
        path=out,
        rules=rules,
        account=build.account,
        median_kw=float(np.median(mean_kw)) if mean_kw.size else None,
        largest_kw=float(mean_kw.max()) if mean_kw.size else None,
    )


def _show(console: Console, made: WrittenProfiles) -> None:
    account, grid = made.account, made.rules.grid
    console.print(account.readings.table())
    table = Table("", "customers", title="Customers", title_justify="left")
    table.columns[1].justify = "right"
    table.add_row("named in the source", f"{account.customers_in:,}")
    for reason, customers in account.customers_dropped.items():
        table.add_row(f"dropped: {reason}", f"{customers:,}")
    table.add_row("profiles", f"{account.profiles:,}")
    console.print(table)
    for readings, where in (
        (account.straddling, "lie in two cells of the grid"),
        (account.unfit, "have a length that no cell of the grid is a multiple of"),
    ):
        if readings:
            console.print(f"[yellow]{readings:,} readings {where}[/] and are in no profile.")
    if not account.profiles:
        return
    console.print(  # whoever mistook Wh for kWh sees it here
        f"The median customer has {made.median_kw:.3g} kW on average, the largest"
        f" {made.largest_kw:.3g} kW."
    )
    console.print(
        f"{account.profiles:,} profiles of {grid.columns} columns"
        f" ({made.rules.timezone}) in {plain(made.path)}."
        " [red]Private:[/] exact, not protected."
    )
