"""The commands `evaluate` and `grid`: synthetic customers compared with real ones."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

from wattveil.bundle.customer_files import (
    check_average_days,
    check_order,
    group_mismatch,
    synthetic_timezone,
)
from wattveil.cli.option_groups import STATISTICS, AsJson, Report, check_private_files
from wattveil.grid.experiment import (
    DEFAULT_REDRAWS,
    DRAWS,
    PAPER_POWER_FACTOR,
    GridComparison,
    GridRow,
    compare_on_feeder,
)
from wattveil.grid.grid_page import write_grid_page
from wattveil.grid.planning_summary import (
    DEFAULT_MARGIN,
    Equivalence,
    PlanningRow,
    beyond_margin,
    format_difference,
    format_equivalence,
    is_zero_throughout,
    known_margin,
    light_load,
    metric_parts,
    min_margin,
    planning_summary,
    powerless,
    summary_notes,
    summary_sentence,
)
from wattveil.lab.evaluation.customer_samples import (
    Populations,
    read_populations,
    usual_populations,
)
from wattveil.lab.evaluation.evaluate_page import write_evaluation_page
from wattveil.lab.evaluation.fidelity_comparison import MIN_REPEATS, Evaluation, evaluate_load
from wattveil.lab.evaluation.fidelity_metrics import NEEDS_YEARS
from wattveil.lab.evaluation.load_summary import load_summary, more_customers
from wattveil.numerics.measures.verdicts import Verdict
from wattveil.profiles.profiles import Profiles
from wattveil.terminal import Console, counting_bar, notices, plain, refusals
from wattveil.web.formatting import format_count, format_interval, format_number, format_ratio

EPILOGS = {
    "evaluate": "Example: wattveil evaluate profiles.parquet synthetic.parquet --report page.html",
    "grid": "Example: wattveil grid profiles.parquet synthetic.parquet --feeder case141"
    " --report grid.html",
}

Seed = Annotated[
    int,
    typer.Option(help="Seed of the random assignment of customers.", rich_help_panel=STATISTICS),
]
Margin = Annotated[
    float, typer.Option(help="Relative difference that the study accepts: 0.05 is 5 %.")
]
ControlClusters = Annotated[
    int, typer.Option(help="Number of clusters of the control.", rich_help_panel=STATISTICS)
]

_FEEDER_LOAD = "Load of the feeder"
_WIDE = 100
"""Columns of a terminal from which a difference and its interval are on one line."""

_COLOURS = {
    Verdict.NO_DIFFERENCE: "green",
    Verdict.DIFFERENT: "red",
    Verdict.INCONCLUSIVE: "dim",
}
_EQUIVALENCE_COLOURS = {
    Equivalence.EQUIVALENT: "green",
    Equivalence.DIFFERENT: "red",
    Equivalence.INCONCLUSIVE: "dim",
}
_VERDICT_COLOURS = {verdict.value: colour for verdict, colour in _COLOURS.items()}
_VERDICTS = (
    "inconclusive (no power): a difference as large as that of the control might have been missed."
)
_DISTRIBUTIONS = (
    "For distributions (W1: Wasserstein distance, KS: Kolmogorov-Smirnov, curves, branches) the"
    " verdict compares the whole distribution, the interval only the value shown: the two may"
    " disagree."
)
_DETECTED = (
    "difference detected: larger than sampling explains. It may still be within the margin of the"
    " summary: a quantity can be equivalent there and have a difference detected here."
)
_ONE_RELEASE = (
    "equivalent: the whole interval is within the margin. The intervals of `wattveil grid` cover"
    " the resampling of real customers and their placement on the feeder; those of `wattveil"
    " evaluate` cover resampled real and"
    " synthetic customers without a feeder, so the two differ for the same files. Neither covers"
    " the noise of the release: another release of the same customers gives other differences."
)
_ONE_SAMPLE = (
    "equivalent: the whole interval is within the margin. Intervals of evaluate cover resampled"
    " real and synthetic customers; those of grid cover resampled real customers and their"
    " placement on a feeder, so the two differ for the same files. Neither covers the noise of the"
    " release: another release of the same customers gives other differences."
)


# --- evaluate -------------------------------------------------------------------------------------


def evaluate(
    context: typer.Context,
    real: Annotated[Path, typer.Argument(help="Real profiles, or readings; private.")],
    synthetic: Annotated[Path, typer.Argument(help="Synthetic customers on the same grid.")],
    *,
    report: Report = None,
    margin: Margin = DEFAULT_MARGIN,
    timezone: Annotated[
        str | None,
        typer.Option(
            help="For readings: time zone of the days; that of synthetic years in Parquet if"
            " omitted, else UTC."
        ),
    ] = None,
    clusters: ControlClusters = 6,
    repeats: Annotated[
        int,
        typer.Option(
            help="Number of random splits of the real customers.", rich_help_panel=STATISTICS
        ),
    ] = MIN_REPEATS,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Compare synthetic with real customers, relative to sampling variability and a control."""
    console = Console()
    with refusals(context):
        check_private_files({"report": report})
        check_order(real, synthetic, field="real")
        known_margin(margin)
        zone = timezone or synthetic_timezone(synthetic)
        both = usual_populations(read_populations(real, synthetic, timezone=zone))
        with counting_bar(quiet=as_json) as bar:
            task = bar.add_task("measuring", total=repeats)
            found = evaluate_load(
                both.real_kw,
                both.synthetic_kw,
                both.layout,
                n_clusters=clusters,
                repeats=repeats,
                seed=seed,
                advance=lambda: bar.advance(task),
            )
        summary = load_summary(
            both.real_kw, both.synthetic_kw, both.layout, margin=margin, seed=seed
        )
        warnings = tuple(filter(None, (group_mismatch(real, synthetic), both.warning)))
        if report is not None:
            write_evaluation_page(
                found,
                report,
                summary=summary,
                margin=margin,
                set_aside=both.set_aside,
                warnings=warnings,
                exclusions=both.exclusions,
            )
    if as_json:
        first = {
            "warnings": list(warnings),
            "margin": margin,
            "summary": [_planning_json(row) for row in summary],
            "note": more_customers(summary, found.customers, found.synthetic_customers) or None,
            "set_aside": both.set_aside._asdict(),
        }
        typer.echo(json.dumps({**found.to_json(), **first}, indent=2))
    else:
        _show_evaluation(console, found, both)
        _show_warnings(console, warnings)
        _show_summary(console, summary, margin, _ONE_SAMPLE)
        if note := more_customers(summary, found.customers, found.synthetic_customers):
            console.print(note, highlight=False)
        _show_metrics(console, found)


def _show_evaluation(console: Console, found: Evaluation, both: Populations) -> None:
    days = format_count(both.layout.days, "day")
    synthetic = format_count(found.synthetic_customers, "synthetic customer")
    console.print(
        f"{found.customers:,} real and {synthetic},"
        f" {days} of {format_count(both.layout.slots_per_day, 'slot')}."
        " [red]Private:[/] exact values without protection; do not publish.",
        highlight=False,
    )
    for line in both.exclusions:
        console.print(f"[yellow]{line}[/]", highlight=False)
    if any(both.set_aside[:2]):
        console.print(f"Set aside: {both.set_aside.sentence}", highlight=False)


def _show_warnings(console: Console, warnings: Sequence[str]) -> None:
    for warning in warnings:
        console.print(f"[yellow]Warning:[/] {plain(warning)}", highlight=False)


def _show_metrics(console: Console, found: Evaluation) -> None:
    console.print("\nAll metrics:")
    titles = ("metric", "score", "limit", "ratio", "control", "verdict")
    table = Table(*titles, box=SIMPLE, padding=0, show_edge=False)  # a terminal has 80 columns
    for column in table.columns[1:5]:
        column.justify, column.no_wrap = "right", True
    table.columns[5].max_width = 18  # 80 columns in all
    hourly = [row for row in found.rows if row.verdict == NEEDS_YEARS]
    for row in found.rows:
        if row in hourly:
            continue
        numbers = map(format_number, (row.score, row.noise))
        ratios = map(format_ratio, (row.ratio, row.control_ratio))
        colour = _VERDICT_COLOURS.get(row.verdict, "yellow")
        table.add_row(row.metric, *numbers, *ratios, f"[{colour}]{row.verdict}[/]")
    console.print(table)
    if hourly:
        console.print(f"{NEEDS_YEARS}: {format_count(len(hourly), 'more metric')}.")
    console.print(
        "limit: 95th percentile of the distances between random halves of real customers."
    )
    console.print(
        "ratio: score over limit. control: the same for cluster centroids of real customers."
    )
    console.print(_VERDICTS)


# --- grid -----------------------------------------------------------------------------------------


def grid(
    context: typer.Context,
    profiles: Annotated[Path, typer.Argument(help="Real profiles; private.")],
    synthetic: Annotated[Path, typer.Argument(help="Synthetic profiles on the same grid.")],
    *,
    feeder: Annotated[
        str,
        typer.Option(help="case141, ieee123, a folder of buses.csv and branches.csv, or case.m."),
    ] = "case141",
    by: Annotated[
        str | None,
        typer.Option(
            help="Attribute, present in both files, that contains the customer class; the real"
            " class mix is kept."
        ),
    ] = None,
    report: Report = None,
    margin: Margin = DEFAULT_MARGIN,
    scaling: Annotated[
        str,
        typer.Option(
            help="How customers become feeder load: houses, factor or literal.",
            rich_help_panel=_FEEDER_LOAD,
        ),
    ] = "houses",
    houses: Annotated[
        int | None,
        typer.Option(
            help="Number of houses; enough for the nominal load if omitted.",
            rich_help_panel=_FEEDER_LOAD,
        ),
    ] = None,
    power_factor: Annotated[
        float,
        typer.Option(
            help="Power factor of all customers; 0.995 if omitted.",
            show_default=False,
            rich_help_panel=_FEEDER_LOAD,
        ),
    ] = PAPER_POWER_FACTOR,
    transformer_kva: Annotated[
        float,
        typer.Option(help="Rating of a service transformer.", rich_help_panel=_FEEDER_LOAD),
    ] = 25.0,
    transformer_homes: Annotated[
        int, typer.Option(help="Homes per service transformer.", rich_help_panel=_FEEDER_LOAD)
    ] = 8,
    clusters: ControlClusters = 6,
    redraws: Annotated[
        int,
        typer.Option(
            help="Bootstrap samples of real customers; at least 20.", rich_help_panel=STATISTICS
        ),
    ] = DEFAULT_REDRAWS,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Compare real and synthetic customers on the same feeder."""
    console = Console()
    with refusals(context):
        check_private_files({"report": report})
        check_order(profiles, synthetic, field="profiles")
        check_average_days(synthetic, field="synthetic")
        with notices(), counting_bar(quiet=as_json) as bar:
            task = bar.add_task("drawing", total=redraws + 2 * DRAWS + 1)
            comparison = compare_on_feeder(
                Profiles.read_parquet(profiles),
                Profiles.read_parquet(synthetic),
                feeder=feeder,
                by=by,
                n_clusters=clusters,
                scaling=scaling,
                houses=houses,
                power_factor=power_factor,
                transformer_kva=transformer_kva,
                transformer_homes=transformer_homes,
                redraws=redraws,
                seed=seed,
                advance=lambda: bar.advance(task),
            )
        summary = planning_summary(comparison, margin=margin)
        mismatch = group_mismatch(profiles, synthetic)
        if report is not None:
            write_grid_page(comparison, report, margin=margin, warning=mismatch)
    if as_json:
        found = {
            "margin": margin,
            "summary": [_planning_json(row) for row in summary],
            "notes": summary_notes(comparison),
            "warning": light_load(comparison) or None,
            "group_warning": mismatch or None,
        }
        typer.echo(json.dumps({**comparison.to_json(), **found}, indent=2))
    else:
        _show_warnings(console, [mismatch] if mismatch else [])
        _show_grid(console, comparison, summary, margin)


def _planning_json(row: PlanningRow) -> dict[str, object]:
    """Return a row of the summary as JSON values; null if not finite."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(row).items()
    }


def _show_summary(
    console: Console, summary: Sequence[PlanningRow], margin: float, note: str
) -> None:
    titles = ("quantity", "unit", "real", "synth.", "difference (95 %)", "verdict")
    table = Table(*titles, box=SIMPLE, padding=(0, 1, 0, 0), show_edge=False)
    for column in table.columns[2:5]:
        column.justify, column.no_wrap = "right", True
    table.columns[0].min_width = max(len(word) for row in summary for word in row.quantity.split())
    table.columns[5].min_width = max(len(one.value) for one in Equivalence)
    for row in summary:
        table.add_row(
            row.quantity,
            row.unit,
            *map(format_number, (row.real, row.synthetic)),
            _narrowed(format_difference(row), console),
            f"[{_EQUIVALENCE_COLOURS[row.equivalence]}]{format_equivalence(row)}[/]",
        )
    if text := powerless(summary, margin):
        console.print(f"[yellow]{text}[/]", highlight=False)
    console.print(summary_sentence(summary, margin), highlight=False)
    console.print(table)
    for text in (beyond_margin(summary, margin), min_margin(summary), note):
        if text:
            console.print(text, highlight=False)


def _narrowed(difference: str, console: Console) -> str:
    """Return a difference with its interval below it where a verdict would be cut beside it."""
    return difference.replace(" (", "\n(") if console.width < _WIDE else difference


def _grid_label(row: GridRow) -> str:
    """Return a metric with the value that is shown, and its distance if that is of more."""
    name, shown, by = metric_parts(row)
    details = "; ".join(filter(None, (shown, f"compared by {by}" if row.shown else "")))
    return f"{name} ({details})" if details else name


def _show_grid(
    console: Console,
    comparison: GridComparison,
    summary: Sequence[PlanningRow],
    margin: float,
) -> None:
    setting = comparison.setting
    console.print(
        f"{setting.feeder.name}: {format_count(setting.placement.houses, 'house')} on"
        f" {setting.feeder.buses} buses. [red]Private:[/] computed from real readings,"
        " without privacy noise.",
        highlight=False,
    )
    if len(comparison.class_names) > 1:
        console.print(
            f"{len(comparison.class_names)} classes; total variation of the class mixes:"
            f" {comparison.class_mix_distance:.3f}."
        )
    if any(comparison.set_aside[:2]):
        console.print(f"Set aside: {comparison.set_aside.sentence}", highlight=False)
    for snapshot, message in comparison.synthetic_failures.items():
        when = setting.grid.labels[snapshot]
        console.print(
            f"[red]no solution[/] for the synthetic customers at {when}: {plain(message)}"
        )
    if warning := light_load(comparison):
        console.print(f"[yellow]Warning:[/] {warning}", highlight=False)
    _show_summary(console, summary, margin, _ONE_RELEASE)
    for note in summary_notes(comparison):
        console.print(note, highlight=False)
    console.print("\nAll metrics:")
    titles = ("metric", "real", "synth.", "difference, 95 %", "ratio", "verdict")
    table = Table(*titles, box=SIMPLE, padding=(0, 1, 0, 0), show_edge=False)
    for column in table.columns[1:5]:
        column.justify, column.no_wrap = "right", True
    table.columns[0].min_width = max(
        len(word) for one in comparison.rows for word in one.metric.split()
    )
    verdict = table.columns[5]
    verdict.min_width = verdict.max_width = max(
        len(word) for one in Verdict for word in one.split()
    )
    occurred = [row for row in comparison.rows if not is_zero_throughout(row)]
    shown = [row for row in occurred if row.verdict is not Verdict.INCONCLUSIVE]
    for row in shown:
        colour = _COLOURS[row.verdict]
        table.add_row(
            _grid_label(row),
            *map(format_number, (row.real, row.synthetic)),
            format_interval(row.difference_low, row.difference_high),
            format_ratio(row.ratio),
            f"[{colour}]{row.verdict.value}[/]",
        )
    console.print(table)
    if hidden := len(occurred) - len(shown):
        console.print(
            f"{format_count(hidden, 'more metric')}: {Verdict.INCONCLUSIVE.value}. They are not"
            " evidence of agreement; --report and --json have them."
        )
    if len(occurred) < len(comparison.rows):
        zero = ", ".join(row.metric for row in comparison.rows if is_zero_throughout(row))
        console.print(f"Zero for both real and synthetic customers: {zero}.")
    console.print("ratio: distance over the 95th percentile of distances between real samples.")
    console.print(_DETECTED)
    console.print(_DISTRIBUTIONS)
    console.print(_VERDICTS)
