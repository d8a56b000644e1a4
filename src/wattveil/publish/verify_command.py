"""The verb `verify`."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from wattveil.publish import keys
from wattveil.publish.verify import Verdict, verify_bundle
from wattveil.terminal import plain, refusals

EPILOG = "Example: wattveil verify bundle --key utility.key.pub"


def verify(
    bundle: Annotated[Path, typer.Argument(help="Folder that `wattveil release` wrote.")],
    *,
    key: Annotated[Path | None, typer.Option(help="Public key that must have signed it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Recompute every claim of a bundle, without the data; exit with 1 if one does not hold."""
    with refusals():
        trusted = None if key is None else keys.read_public_key(key)
        verdict = verify_bundle(bundle, trusted=trusted)
    if as_json:
        typer.echo(json.dumps(verdict.to_json(), indent=2))
    else:
        show_verdict(Console(), verdict)
    if not verdict.accepted:
        raise typer.Exit(1)


def show_verdict(console: Console, verdict: Verdict) -> None:
    """Print what was checked, what holds, and what cannot be checked here."""
    table = Table("", "check", "seen", title="Verified without the data", title_justify="left")
    for finding in verdict.findings:
        mark = "[green]holds[/]" if finding.holds else "[red]FALSE[/]"
        table.add_row(mark, plain(finding.check), plain(finding.seen))
    for absent in verdict.absent:
        table.add_row("[yellow]absent[/]", plain(absent.check), plain(absent.seen))
    console.print(table)
    console.print("[bold]Not proved, to be taken on trust:[/]")
    for line in verdict.not_proved:
        console.print(f"  · {plain(line)}", highlight=False)
    broken = sum(not finding.holds for finding in verdict.findings)
    if broken:
        console.print(f"[red]{broken} of {len(verdict.findings)} checks do not hold.[/]")
    else:
        console.print(f"[green]All {len(verdict.findings)} checks hold.[/]")
    if verdict.absent:
        names = ", ".join(absent.check for absent in verdict.absent)
        console.print(f"[yellow]Absent, and not counted: {plain(names)}.[/]")
