"""The verb `admin ledger export`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from wattveil.serve.ledger.console import AsJson, Data, Database, ledger_refusals

EPILOG = "Example: wattveil admin ledger export --data server --out ledger.jsonl"


def export(
    *,
    out: Annotated[Path, typer.Option(help="New file: a line of JSON for each entry.")],
    data: Data = Path(),
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Write every entry of a ledger to a file that can be checked without the database."""
    with ledger_refusals():
        from wattveil.serve.ledger import verbs  # noqa: PLC0415 - needs the extra

        count = verbs.export(data, database, out)
    said = {"out": str(out), "entries": count}
    typer.echo(json.dumps(said) if as_json else f"{count:,} entries in {out}")
