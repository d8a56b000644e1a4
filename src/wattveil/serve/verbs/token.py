"""The verb `admin token`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from wattveil.serve.ledger.console import AsJson, Data, Database, ledger_refusals

EPILOG = "Example: wattveil admin token --data server --name owner --role admin"

_USUAL_DAYS = 90


def token(
    *,
    name: Annotated[str, typer.Option(help="Whose token; somebody new is admitted.")],
    role: Annotated[str, typer.Option(help="admin or analyst.")],
    days: Annotated[int, typer.Option(help="How long it is good.")] = _USUAL_DAYS,
    data: Data = Path(),
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Print a new token for somebody known or new, once, at the machine itself; it may serve."""
    with ledger_refusals():
        from wattveil import checks  # noqa: PLC0415 - with what needs the extra
        from wattveil.serve import people  # noqa: PLC0415
        from wattveil.serve.ledger.acts import PrincipalKind  # noqa: PLC0415

        kind = checks.enum_value("role", role, PrincipalKind)
        text = people.token_at_the_machine(data, database, name, role=kind, days=days)
    said = {"name": name, "role": role, "token": text}
    typer.echo(json.dumps(said) if as_json else f"Token of {name}, shown this once: {text}")
