"""The commands that read a bundle: `verify`, `synthesize` and `export`.

All are post-processing of a release: they use no private data and spend no privacy budget.
"""

import json
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from wattveil.bundle import keys
from wattveil.bundle.bundle_archive import bundle_folder
from wattveil.bundle.bundle_files import MANIFEST, read_manifest
from wattveil.bundle.customer_files import FORMATS, write_customers
from wattveil.bundle.drawn_customers import (
    DrawnLoad,
    read_buses,
    read_temperatures,
    voltage_warning,
)
from wattveil.bundle.group_level import DrawnMean
from wattveil.bundle.group_years import group_note
from wattveil.bundle.manifest import Manifest
from wattveil.bundle.planner_files import POWER_FACTOR
from wattveil.bundle.released_groups import size_warning
from wattveil.bundle.series_bundle import VERSION as SERIES_VERSION
from wattveil.bundle.series_verify import verify_period
from wattveil.bundle.table_exports import (
    AREA_PROPERTY,
    StandardProfiles,
    write_map,
    write_standard_profiles,
)
from wattveil.bundle.verify.verify_bundle import VerificationReport, verify_bundle
from wattveil.bundle.year_samples import YearSample
from wattveil.cli.option_groups import EXECUTION, EngineName, Master, chosen_engine
from wattveil.errors import InvalidParameterError
from wattveil.products.years import read_year_model
from wattveil.terminal import Console, notices, plain, refusals, working
from wattveil.web.formatting import format_count

EPILOGS = {
    "verify": "Example: wattveil verify bundle --key utility.key.pub",
    "synthesize": (
        "Example: wattveil synthesize bundle --customers 100000 --out synthetic.parquet"
    ),
    "export": "Example: wattveil export bundle --out standard-profiles.csv",
}

_DOSSIER = "dossier.json"
"""The signed file of a dossier."""
_YEARS = "Synthetic years"


def verify(
    context: typer.Context,
    bundle: Annotated[
        Path,
        typer.Argument(
            help="Folder that `wattveil release` wrote, or its zip archive; or a signed dossier."
        ),
    ],
    *,
    key: Annotated[Path | None, typer.Option(help="Public key that must have signed it.")] = None,
    of_bundle: Annotated[
        Path | None,
        typer.Option("--bundle", help="For a dossier: the bundle that it must be about."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Recompute every claim of a bundle, without the data; exit with 1 if a check fails.

    For a series, only this period is checked; `wattveil series verify` checks all periods. For a
    dossier, signature and files are checked; its release is verified separately.
    """
    title, stated = "Verified without the data", ""
    with refusals(context), working(Console(stderr=True)) as started:
        trusted = None if key is None else keys.read_public_key(key)
        started("verifying")
        if _is_dossier(bundle):
            from wattveil.dossier.dossier_verify import verify_dossier  # noqa: PLC0415 - slow

            title = "Signed dossier"
            report = verify_dossier(bundle, trusted=trusted, bundle=of_bundle)
        elif of_bundle is not None:
            raise InvalidParameterError("bundle", "given with a dossier only", str(of_bundle))
        else:
            with bundle_folder(bundle) as folder:
                manifest = read_manifest(folder)
                is_period = manifest.get("manifest_version") == SERIES_VERSION
                check = verify_period if is_period else verify_bundle
                report = check(folder, trusted=trusted)
                if report.accepted:
                    stated = conclusion(manifest, is_key_given=key is not None)
    if as_json:
        typer.echo(json.dumps(report.to_json(), indent=2))
    else:
        show_report(Console(), report, title, stated=stated)
    if not report.accepted:
        raise typer.Exit(1)


def _is_dossier(path: Path) -> bool:
    """Whether a path is a dossier, or a folder of dossiers, and no bundle."""
    if path.is_file():
        return path.name == _DOSSIER
    return not (path / MANIFEST).exists() and any(
        found for pattern in (_DOSSIER, f"*/{_DOSSIER}") for found in path.glob(pattern)
    )


def conclusion(manifest: Manifest, *, is_key_given: bool) -> str:
    """Return the guarantee and the signer of a bundle that was accepted."""
    guarantee, signature = manifest["guarantee"], manifest.get("signature")
    text = (
        f"Guarantee: epsilon {guarantee['epsilon']} at delta {guarantee['delta']} per"
        f" {guarantee['unit']}, {guarantee['tier']} tier"
    )
    text += ", for all periods together." if "series" in manifest else "."
    key = None if signature is None else keys.signer(manifest, signature)
    if key is None:
        return f"{text} Not signed."
    end = "the one given." if is_key_given else "not compared with the publisher's (--key)."
    return f"{text} Signed by key {keys.fingerprint(key)}, {end}"


def show_report(
    console: Console,
    report: VerificationReport,
    title: str = "Verified without the data",
    *,
    stated: str = "",
) -> None:
    """Print warnings, the outcome of every check, and the claims that cannot be checked.

    The last line has what failed, or ``stated``: what was verified of an accepted bundle.
    """
    for warning in report.warnings:
        console.print(f"[bold red]Warning:[/] {plain(warning)}", highlight=False)
    table = Table("", "check", title=title, title_justify="left")
    table.add_column("result", overflow="fold")  # an id is shown whole
    for finding in report.findings:
        mark = "[green]passed[/]" if finding.holds else "[red]FAILED[/]"
        table.add_row(mark, plain(finding.check), plain(finding.seen))
    for one in report.not_run:
        table.add_row("not run", plain(one.check), plain(one.reason))
    console.print(table)
    console.print("[bold]Not verified; you must trust the publisher:[/]")
    for line in report.not_proved:
        console.print(f"  · {plain(line)}", highlight=False)
    for one in report.not_run:
        text = f"Not run: {one.check} ({one.reason}). {one.remedy}"
        console.print(plain(text), highlight=False)
    colour = "green" if report.accepted else "red"
    console.print(f"[{colour}]{report.summary}[/]", highlight=False)
    failed = "; ".join(f"{one.check} ({one.seen})" for one in report.findings if not one.holds)
    if last := f"Failed: {failed}." if failed else stated:
        console.print(plain(last), highlight=False)


def synthesize(
    context: typer.Context,
    bundle: Annotated[Path, typer.Argument(help="Folder that `wattveil release` wrote.")],
    *,
    customers: Annotated[int, typer.Option(help="Number of synthetic customers.")],
    out: Annotated[str, typer.Option(help="New file, or new folder for some formats.")],
    kind: Annotated[
        str | None,
        typer.Option("--format", help=f"{', '.join(FORMATS)}; by the ending of --out if omitted."),
    ] = None,
    buses: Annotated[
        Path | None,
        typer.Option(
            help="CSV of buses (bus, kv, phases, customers, connection): customers become loads at"
            " them."
        ),
    ] = None,
    power_factor: Annotated[
        float | None,
        typer.Option(
            help=f"Power factor of all customers, for files of planning tools; default:"
            f" {POWER_FACTOR}."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same customers.")] = 1,
    group: Annotated[
        str | None,
        typer.Option(
            help="Draw customers of this group, by its released shares of segments and mean load."
        ),
    ] = None,
    years: Annotated[
        bool,
        typer.Option(
            "--years",
            help="Draw whole years, slot by slot, from the model of the product years.",
            rich_help_panel=_YEARS,
        ),
    ] = False,
    first_day: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"],
            help="With --years: first day; that of the data if omitted.",
            rich_help_panel=_YEARS,
        ),
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(
            help="With --years: number of days; as in the data if omitted.", rich_help_panel=_YEARS
        ),
    ] = None,
    temperatures: Annotated[
        Path | None,
        typer.Option(
            help="With --years: CSV of public daily mean temperatures (day, temperature_c) of all"
            " days of the data and of the sample, which then has this weather.",
            rich_help_panel=_YEARS,
        ),
    ] = None,
    engine: EngineName = "local",
    master: Master = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print a summary of the output as JSON.", rich_help_panel=EXECUTION
        ),
    ] = False,
) -> None:
    """Draw synthetic customers from the model of a bundle; no privacy budget is spent.

    With --engine spark, --out is a folder of Parquet files that executors write, at any address
    that Spark supports; --force replaces such a folder, but no other kind of folder.
    """
    console = Console(stderr=as_json)
    with refusals(context), notices(), working(console) as started:
        spark = chosen_engine(engine, master)
        weather = None if temperatures is None else read_temperatures(temperatures)
        sample = YearSample(
            None if first_day is None else first_day.date(),
            days,
            weather,
            None if temperatures is None else temperatures.name,
        )
        if not years and sample != YearSample():
            rule = "given with --first-day, --days or --temperatures"
            raise InvalidParameterError("years", rule, years)
        started("drawing customers")
        load = DrawnLoad()
        mean = write_customers(
            bundle,
            out,
            customers=customers,
            seed=seed,
            kind=kind,
            buses=buses,
            power_factor=power_factor,
            engine=spark,
            years=sample if years else None,
            group=group,
            force=force,
            load=load,
        )
        weathered = sample.weather(read_year_model(bundle)) if weather is not None else None
        found = "" if buses is None else voltage_warning(read_buses(buses))
        note = _group_text(bundle, group, mean, years=years)
        small = "" if group is None else size_warning(bundle, group)
    others = () if mean is None else mean.warnings
    by_weather = () if weathered is None else tuple(one.warning for one in weathered)
    for warning in (found, *by_weather, small, *others):
        if warning:
            console.print(f"[yellow]Warning:[/] {plain(warning)}", highlight=False)
    if as_json:
        summary: dict[str, object] = {"out": out, "customers": customers, "seed": seed}
        summary["load"] = load.to_json()
        if weathered is not None:
            response, extrapolation = weathered
            summary["temperature_response"] = response.to_json()
            summary["warning"] = response.warning or None
            summary["extrapolation"] = extrapolation.to_json()
        if note:
            summary["note"] = note
            summary["group_mean"] = None if mean is None else mean.to_json()
            summary["group_warning"] = small or None
        typer.echo(json.dumps(summary, indent=2))
        return
    console.print(f"{format_count(customers, 'synthetic customer')} in {plain(out)}.")
    console.print(load.statement, end="\n" if load.statement else "", highlight=False)
    if weathered is not None:
        response, extrapolation = weathered
        console.print(f"Response to temperature, 95 %: {plain(response.statement)}.")
        if not extrapolation.warning:
            console.print(f"Weather: {plain(extrapolation.statement)}.", highlight=False)
    if note:
        console.print(plain(note), highlight=False)


def _group_text(bundle: Path, group: str | None, mean: DrawnMean | None, *, years: bool) -> str:
    """Return what a sample of a group takes from it, with drawn and released mean load."""
    if group is None:
        return ""
    note = group_note(bundle, group, years=years, scaled=mean is not None)
    return note if mean is None else f"{note} {mean.statement}."


def export(
    context: typer.Context,
    bundle: Annotated[Path, typer.Argument(help="Folder that `wattveil release` wrote.")],
    *,
    out: Annotated[
        Path,
        typer.Option(help="New .csv or .parquet file of profiles, or .geojson file of areas."),
    ],
    geometry: Annotated[
        Path | None, typer.Option(help="GeoJSON file of public areas, for a .geojson file.")
    ] = None,
    area: Annotated[
        str | None,
        typer.Option(
            help="With --geometry: property that holds the group name of an area; default:"
            f" {AREA_PROPERTY}."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print a summary of the output as JSON.", rich_help_panel=EXECUTION
        ),
    ] = False,
) -> None:
    """Write released load curves as standard load profiles, or load by group as a map.

    A standard load profile is the load of a group or segment by season, kind of day and time, for
    an annual consumption of 1,000 kWh. A map joins load by group to the areas of --geometry.
    """
    found = StandardProfiles((), (), {}, "")
    with refusals(context):
        if geometry is None:
            if area is not None:
                raise InvalidParameterError("area", "omitted without --geometry", area)
            found = write_standard_profiles(bundle, out, force=force)
            what, number = "profiles", len(found.written)
        else:
            what = "areas"
            number = write_map(
                bundle, geometry, out, area_property=area or AREA_PROPERTY, force=force
            )
    if as_json:
        summary = {"out": str(out), what: number, "omitted": list(found.omitted)}
        summary |= {"flagged": found.flagged, "notice": found.notice or None}
        typer.echo(json.dumps(summary, indent=2))
        return
    console = Console()
    console.print(f"{number:,} {what if number != 1 else what[:-1]} in {plain(str(out))}.")
    if found.omitted:
        names = plain(", ".join(found.omitted))
        console.print(f"Omitted, annual consumption not above 0: {names}.")
    for name, flag in found.flagged.items():
        text = f"{name}: {flag}; check it before use."
        console.print(f"[yellow]Warning:[/] {plain(text)}", highlight=False)
    if found.notice:
        console.print(plain(found.notice), highlight=False)
