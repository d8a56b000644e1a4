"""The verb `admin disable`."""

from typing import Annotated

import typer

from wattveil.serve.ledger.console import AsJson
from wattveil.serve.transport import Transport
from wattveil.serve.verbs.console import HERE, Url, act, say

EPILOG = "Example: wattveil admin disable --name ann"


def disable(
    *,
    name: Annotated[str, typer.Option(help="Who is sent away.")],
    url: Url = HERE,
    as_json: AsJson = False,
) -> None:
    """Refuse somebody from now on, for good; what they were given stays in the ledger."""
    path = f"/v1/admin/principals/{Transport.quoted(name)}/disable"
    say(act(url, path, {}), f"{name} is disabled.", as_json=as_json)
