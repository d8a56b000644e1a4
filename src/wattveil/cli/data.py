"""Data commands: `simulate` writes readings of simulated customers, `profiles` averages them."""

import errno
import json
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from wattveil import checks
from wattveil.cli.model_options import model_options
from wattveil.cli.option_groups import (
    EXECUTION,
    Engine,
    EngineName,
    Master,
    check_private_files,
    chosen_engine,
)
from wattveil.cli.shown_account import assumed_zone, extreme, large_load, show, small_load, warn
from wattveil.errors import (
    AssumedTimeZoneWarning,
    InvalidParameterError,
    UnmatchedAttributesWarning,
)
from wattveil.profiles.attributes import listed_values
from wattveil.profiles.build import ProfileBuild, build_profiles
from wattveil.profiles.profile_account import WrittenProfiles
from wattveil.profiles.profiles import ProfileRules
from wattveil.profiles.quality import (
    empty_days,
    list_dropped_customers,
    no_profiles,
    outside_period,
    write_quality_page,
)
from wattveil.readings import Readings, ReadOptions, read_readings
from wattveil.readings.explain import explain as explain_source
from wattveil.readings.options import ASSUMED_UTC, UTC_PROFILES, inferred_options
from wattveil.terminal import (
    Console,
    check_folders,
    counting_bar,
    plain,
    print_error,
    private_files,
    refusals,
    working,
)
from wattveil.web.formatting import format_count

if TYPE_CHECKING:  # pyspark is an extra
    from wattveil.engines.spark.spark_engine import SparkEngine
    from wattveil.engines.spark.spark_profiles import SparkBuild

EPILOGS = {
    "simulate": "Example: wattveil simulate --customers 1409 --days 28 --out readings.parquet",
    "profiles": (
        "Example: wattveil profiles readings.parquet --timezone Europe/London"
        " --out profiles.parquet"
    ),
}

_POLL_SECONDS = 0.2
_SIMULATION = "Simulation"
_OTHER_TABLES = {".csv", ".tsv", ".txt", ".json", ".xlsx", ".arrow", ".feather", ".html"}


def simulate(
    context: typer.Context,
    *,
    out: Annotated[Path, typer.Option(help="Parquet file for the readings.")],
    customers: Annotated[int, typer.Option(help="Number of customers.")] = 1409,
    days: Annotated[int, typer.Option(help="Number of local days.")] = 28,
    start: Annotated[
        datetime,
        typer.Option(formats=["%Y-%m-%d"], help="First local day.", rich_help_panel=_SIMULATION),
    ] = datetime(2025, 3, 3),  # noqa: DTZ001 - a local day has no time zone of its own
    timezone: Annotated[
        str, typer.Option(help="IANA time zone of the customers.")
    ] = "Europe/London",
    minutes: Annotated[
        int,
        typer.Option(help="Interval length in minutes: 15, 30 or 60.", rich_help_panel=_SIMULATION),
    ] = 30,
    seed: Annotated[
        int,
        typer.Option(help="The same seed gives the same customers.", rich_help_panel=_SIMULATION),
    ] = 1,
    missing: Annotated[
        float, typer.Option(help="Share of readings that are missing.", rich_help_panel=_SIMULATION)
    ] = 0.001,
    homes: Annotated[
        bool, typer.Option("--homes", help="Homes only, without businesses and industry.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print a summary of the output as JSON.", rich_help_panel=EXECUTION
        ),
    ] = False,
) -> None:
    """Write interval readings of simulated customers, and a table of their attributes."""
    from wattveil.simulate import HOMES_MIX  # noqa: PLC0415 - SciPy is slow to load

    with refusals(context):
        check_folders({"out": out})
        written = write_readings(
            out,
            customers=customers,
            days=days,
            start=start.date(),
            timezone=timezone,
            minutes=minutes,
            seed=seed,
            missing=missing,
            quiet=as_json,
            mix=HOMES_MIX if homes else None,
        )
    if as_json:
        typer.echo(json.dumps(written, indent=2))
        return
    console = Console()
    readings = format_count(written["readings"], "reading")
    kind = "home" if homes else "customer"
    console.print(f"[bold]Simulated[/] {format_count(customers, kind)}, {readings}.")
    console.print(f"  readings    {written['path']}\n  attributes  {written['attributes']}")


def write_readings(
    out: Path,
    *,
    customers: int,
    days: int,
    start: date,
    timezone: str,
    minutes: int,
    seed: int,
    missing: float,
    quiet: bool,
    mix: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Write readings batch by batch, and the attributes to ``<name>.attributes.parquet``.

    The file appears under its name when it is complete, never before.
    """
    from wattveil.simulate.population import BLOCK  # noqa: PLC0415 - SciPy is slow to load
    from wattveil.simulate.simulated_readings import (  # noqa: PLC0415
        READINGS_SCHEMA,
        simulate_attributes,
        simulate_readings,
    )

    batches = simulate_readings(
        customers=customers,
        days=days,
        start=start,
        timezone=timezone,
        minutes=minutes,
        seed=seed,
        missing=missing,
        mix=mix,
    )
    part = out.with_name(out.name + ".part")
    facts = {"timezone": timezone, "seed": seed, "minutes": minutes, "start": str(start)}
    schema = READINGS_SCHEMA.with_metadata({"wattveil.simulation": json.dumps(facts)})
    readings = 0
    with (
        counting_bar(quiet=quiet) as progress,
        pq.ParquetWriter(part, schema, compression="zstd") as writer,
    ):
        task = progress.add_task("simulating customers", total=customers)
        for batch in batches:
            writer.write_table(
                pa.Table.from_batches([batch]).replace_schema_metadata(schema.metadata)
            )
            readings += batch.num_rows
            progress.advance(task, min(BLOCK, customers))
        progress.update(task, completed=customers)
    attributes = out.with_name(out.stem + ".attributes.parquet")
    pq.write_table(simulate_attributes(customers=customers, mix=mix, seed=seed), attributes)
    part.replace(out)
    return {
        "path": str(out),
        "attributes": str(attributes),
        "customers": customers,
        "readings": readings,
        **facts,
    }


@model_options(
    common=("timezone",),
    groups={"rules": "How profiles are made", "options": "How readings are read"},
)
def profiles(
    context: typer.Context,
    source: Annotated[
        list[str], typer.Argument(help="Files, folders or globs; with --sql, one database.")
    ],
    *,
    out: Annotated[
        str | None,
        typer.Option(
            help="Parquet file for the profiles, replaced if it exists; on Spark, a new folder."
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Print how the files are interpreted; write nothing."),
    ] = False,
    rules: ProfileRules,
    attributes: Annotated[
        Path | None,
        typer.Option(help="Table of customer_id and attributes; values and counts are printed."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="HTML page on the quality of the data, replaced if it exists; private."),
    ] = None,
    problems_to: Annotated[
        Path | None,
        typer.Option(
            help="CSV or Parquet file for the dropped rows, replaced if it exists; private."
        ),
    ] = None,
    sql: Annotated[str | None, typer.Option(help="Query whose rows are the readings.")] = None,
    options: ReadOptions,
    memory_mb: Annotated[
        int,
        typer.Option(
            help="Memory limit in MB; beyond it the disk is used.", rich_help_panel=EXECUTION
        ),
    ] = 600,
    engine: EngineName = "local",
    master: Master = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print the result as JSON: counts, rules, warnings.",
            rich_help_panel=EXECUTION,
        ),
    ] = False,
) -> None:
    """Average meter readings into one load profile per customer, and report what was dropped.

    With --engine spark, --out is a folder; --sql, --report and --problems-to are for one machine.
    If no customer is left, --out is not written and the command fails.
    """
    console = Console(stderr=as_json)
    options = options.replace(timezone=options.timezone or rules.timezone)
    for printed in (AssumedTimeZoneWarning, UnmatchedAttributesWarning):  # with the summary
        warnings.simplefilter("ignore", printed)
    if explain:
        with refusals(context):
            _explain(source, options, memory_mb, as_json=as_json)
        return
    assumed = assumed_zone(rules, options)
    rules = rules.for_readings(options)
    out = _given(out)
    try:
        with private_files(), refusals(context):
            written = {"out": Path(out), "report": report, "problems_to": problems_to}
            _check_options(engine, {"sql": sql, "report": report, "problems_to": problems_to})
            spark = chosen_engine(engine, master)
            _check_attributes(attributes)
            if spark is not None:
                built = _on_spark(
                    spark, source, options, rules, out, attributes, memory_mb, console
                )
                made = _written(built, rules, out, (*assumed, *large_load(built), *extreme(built)))
            else:
                database = None if sql is None else Path(_one(source).partition(":///")[2])
                read = {
                    attributes: "the file of --attributes",
                    options.meters: "the file of --meters",
                    database: "the database",
                }
                _check_local(written, read)
                with _progress(console) as watch:
                    readings = read_readings(
                        source if sql is None else _one(source),
                        options,
                        sql=sql,
                        problems_to=problems_to,
                        memory_mb=memory_mb,
                    )
                    _check_outputs(written, dict.fromkeys(readings.files, "the source file"))
                    if Path(out).suffix.lower() in _OTHER_TABLES:
                        raise InvalidParameterError("out", "a Parquet file, such as p.parquet", out)
                    _print_assumptions(console, readings.assumptions)
                    watch(readings)
                    build = build_profiles(readings, rules, attributes=attributes)
                    build.account.check_median(build.median_kw)
                _write_quality(build, report, problems_to)
                periods = (*outside_period(build, readings), *empty_days(build, readings))
                found = (*assumed, *large_load(build), *extreme(build), *periods)
                made = _written(build, rules, out, found)
    except duckdb.Error as error:
        short = f"--memory-mb must be larger than {memory_mb}: the readings need more memory"
        print_error(short if isinstance(error, duckdb.OutOfMemoryException) else str(error))
        raise typer.Exit(1) from error
    failed = {} if made.account.profiles else no_profiles(made)
    if as_json:
        typer.echo(json.dumps({**made.to_json(), **failed}, indent=2))
        warn(made.warnings)
    else:
        show(console, made, listed=problems_to is not None)
    if failed:
        print_error(str(failed["message"]))
        raise typer.Exit(1)


def _print_assumptions(console: Console, assumptions: Sequence[str]) -> None:
    """Print inferred options, and notes on columns."""
    inferred = inferred_options(assumptions)
    for text in assumptions:
        label = "[yellow]inferred[/]" if text in inferred else "[yellow]note[/]"
        console.print(f"{label} {plain(text)}", highlight=False)


def _given(out: str | None) -> str:
    """Accept --out, which only --explain does without."""
    if out is None:
        print_error("--out is required: a Parquet file for the profiles; on Spark, a folder.")
        raise typer.Exit(2)
    return out


def _explain(source: list[str], options: ReadOptions, memory_mb: int, *, as_json: bool) -> None:
    """Print the format of the files, why it was recognised, and the first readings."""
    try:
        found = explain_source(source, options, memory_mb=memory_mb)
    except duckdb.Error as error:
        print_error(str(error))
        raise typer.Exit(1) from error
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
        return
    console = Console()
    console.print(f"[bold]format[/]  {plain(found.format)}", highlight=False)
    lengths = ", ".join(map(str, found.minutes))
    console.print(
        f"[bold]unit[/]    {found.unit}, read as {found.becomes}; intervals of {lengths} minutes",
        highlight=False,
    )
    for assumption in found.assumptions:
        console.print(f"        {plain(assumption)}", highlight=False)
    table = Table(*(found.readings[0] if found.readings else ()), title="First readings")
    for row in found.readings:
        shown = (f"{value:.6g}" if isinstance(value, float) else value for value in row.values())
        table.add_row(*(plain(str(value)) for value in shown))
    console.print(table)
    for label, count in found.report:
        console.print(f"{count:>10,}  {plain(label)}", highlight=False)
    warn(found.warnings)


def _check_options(engine: str, one_machine: Mapping[str, object]) -> None:
    """Reject on Spark what is for one machine."""
    for name, value in one_machine.items():
        if engine == Engine.SPARK and value is not None:
            raise InvalidParameterError(name, "omitted with --engine spark", str(value))


def _check_attributes(path: Path | None) -> None:
    """Raise before readings are read if the table of attributes does not exist."""
    if path is not None and not path.is_file():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _on_spark(  # noqa: PLR0917 - options of the command
    spark: "SparkEngine",
    source: list[str],
    options: ReadOptions,
    rules: ProfileRules,
    out: str,
    attributes: Path | None,
    memory_mb: int,
    console: Console,
) -> "SparkBuild":
    """Read and average on Spark executors."""
    with working(console) as show:
        show("on Spark")
        spark.check_new(out)
        readings = read_readings(source, options, memory_mb=memory_mb, engine=spark)
        return readings.build(rules, attributes=attributes)


def _one(source: list[str]) -> str:
    """Accept a single database."""
    if len(source) > 1:
        raise InvalidParameterError("source", "one database when --sql is given", source)
    return source[0]


def _check_local(written: Mapping[str, Path | None], read: Mapping[Path | None, str]) -> None:
    """Reject outputs that are elsewhere, in a folder that is missing or a bundle, or are read."""
    checks.local_path("out", Path(written["out"] or ""))
    check_private_files(written)
    _check_outputs(written, read)


def _check_outputs(written: Mapping[str, Path | None], read: Mapping[Path | None, str]) -> None:
    """Reject an output that is a file that is read, or another output."""
    taken = {path.resolve(): name for path, name in read.items() if path is not None}
    for name, path in written.items():
        if path is None:
            continue
        option = f"--{name.replace('_', '-')}"
        if other := taken.get(path.resolve()):
            text = f"{option} must differ from {other}; got {path}"
            raise InvalidParameterError(name, "", str(path), text=text)
        taken[path.resolve()] = f"the file of {option}"


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[Readings], None]]:
    """Show the progress of the readings that are passed to the result.

    DuckDB does not report it for every query; then, and before, only the time is shown.
    """
    watched: list[Readings] = []
    done = threading.Event()
    bar = Progress(
        TextColumn("reading"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = bar.add_task("reading", total=None)

    def poll() -> None:
        while not done.wait(_POLL_SECONDS):
            percent = watched[-1].progress_percent if watched else -1.0
            bar.update(task, total=100 if percent >= 0 else None, completed=max(percent, 0))

    poller = threading.Thread(target=poll, daemon=True)
    with bar:
        poller.start()
        try:
            yield watched.append
        finally:
            done.set()
            poller.join()


def _write_quality(build: ProfileBuild, report: Path | None, problems_to: Path | None) -> None:
    """Write the private pages that were asked for."""
    if report is not None:
        write_quality_page(build, report)
    if problems_to is not None:
        list_dropped_customers(build, problems_to)


def _written(
    build: "ProfileBuild | SparkBuild",
    rules: ProfileRules,
    out: str,
    warnings: tuple[str, ...] = (),
) -> WrittenProfiles:
    """Write the profiles, if there are any, and return their account."""
    replaced = bool(build.account.profiles) and Path(out).is_file()
    if build.account.profiles:
        build.profiles.write_parquet(out)
    if ASSUMED_UTC in build.account.readings.assumptions:  # it has a warning of its own
        warnings = tuple(one for one in warnings if UTC_PROFILES not in one)
    return WrittenProfiles(
        path=out,
        rules=rules,
        account=build.account,
        median_kw=build.median_kw,
        largest_kw=build.largest_kw,
        warnings=(
            *build.account.warnings,
            *small_load(build.median_kw),
            *build.warnings,
            *warnings,
        ),
        replaced=replaced,
        attribute_values=(
            listed_values(build.profiles.attributes) if isinstance(build, ProfileBuild) else {}
        ),
    )
