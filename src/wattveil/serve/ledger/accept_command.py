"""The verb `admin ledger accept`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from wattveil.serve.ledger.console import AsJson, Data, Database, ledger_refusals

EPILOG = (
    "Example: wattveil admin ledger accept --data server --by owner"
    " --reason 'disk lost on 3 May, backup of 2 May restored'"
)


def accept(
    *,
    by: Annotated[str, typer.Option(help="The administrator who decides.")],
    reason: Annotated[str, typer.Option(help="What happened; it is written into the ledger.")],
    data: Data = Path(),
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a database that has lost entries; what its budgets had left counts as spent."""
    with ledger_refusals():
        from wattveil.serve.ledger import verbs  # noqa: PLC0415 - needs the extra

        books = verbs.accept(data, database, by=by, reason=reason)
    text = f"{books} books were behind; what they had left counts as spent"
    typer.echo(json.dumps({"books": books}) if as_json else text)
