"""The verb `admin analyst`."""

from typing import Annotated

import typer

from wattveil.serve.ledger.console import AsJson
from wattveil.serve.verbs.console import HERE, Url, act, say

EPILOG = "Example: wattveil admin analyst --name ann"


def analyst(
    *,
    name: Annotated[str, typer.Option(help="Who may ask from now on.")],
    days: Annotated[int, typer.Option(help="How long the token is good.")] = 90,
    url: Url = HERE,
    as_json: AsJson = False,
) -> None:
    """Admit an analyst to a server, and print their token, once."""
    made = act(url, "/v1/admin/principals", {"name": name, "token_days": days})
    say(made, f"Token of {name}, shown this once: {made['token']}", as_json=as_json)
