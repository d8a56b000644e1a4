"""The verb `admin revoke`."""

from typing import Annotated

import typer

from wattveil.serve.ledger.console import AsJson
from wattveil.serve.transport import Transport
from wattveil.serve.verbs.console import HERE, Url, act, say

EPILOG = "Example: wattveil admin revoke --name ann"


def revoke(
    *,
    name: Annotated[str, typer.Option(help="Whose tokens.")],
    url: Url = HERE,
    as_json: AsJson = False,
) -> None:
    """Make every token of somebody worthless; they may be given a new one."""
    path = f"/v1/admin/principals/{Transport.quoted(name)}/revoke"
    say(act(url, path, {}), f"{name} has no token that is good.", as_json=as_json)
