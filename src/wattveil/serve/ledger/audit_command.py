"""The verb `admin ledger audit`."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wattveil.serve.ledger.console import AsJson, Data, Database, ledger_refusals
from wattveil.terminal import plain

EPILOG = "Example: wattveil admin ledger audit --data server"


def audit(
    *,
    data: Data = Path(),
    database: Database = None,
    exported: Annotated[
        Path | None, typer.Option("--export", help="Check this export instead of a database.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check all of a ledger anew: chain, sums, caps, payers, releases."""
    with ledger_refusals():
        from wattveil.serve.ledger import audit as auditing  # noqa: PLC0415 - needs the extra
        from wattveil.serve.ledger import verbs  # noqa: PLC0415

        if exported is None:
            findings = verbs.audit(data, database)
        else:
            findings = auditing.audit_export(exported)
    sound = all(finding.holds for finding in findings)
    if as_json:
        said = {"sound": sound, "findings": [vars(finding) for finding in findings]}
        typer.echo(json.dumps(said, indent=2))
    else:
        console = Console()
        for finding in findings:
            mark = "[green]holds[/]" if finding.holds else "[red]BROKEN[/]"
            console.print(f"{mark}  {finding.check}: {plain(finding.seen)}", highlight=False)
    if not sound:
        raise typer.Exit(1)
