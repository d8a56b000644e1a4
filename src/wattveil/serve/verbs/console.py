"""What the verbs of owners share: they are the API, spoken from a terminal."""

import json
import os
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from wattveil.errors import InvalidParameterError
from wattveil.terminal import refusals

VARIABLE = "WATTVEIL_TOKEN"

Url = Annotated[str, typer.Option(help=f"The server; its token is read from {VARIABLE}.")]
HERE = "http://127.0.0.1:8400"

Epsilon = Annotated[float, typer.Option(help="That may be spent in all.")]
Delta = Annotated[float, typer.Option(help="What the promise may miss by.")]
LabelEpsilon = Annotated[float, typer.Option(help="Of epsilon, the part for labels.")]
Reason = Annotated[str, typer.Option(help="Written into the ledger.")]


def act(url: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Send what an owner does; what the server refuses is said, and ends the verb."""
    with refusals():
        token = os.environ.get(VARIABLE, "")
        if not token:  # a secret on the command line could be read by others
            raise InvalidParameterError(VARIABLE, "set to the token of an administrator", token)
        from wattveil.serve.transport import Transport  # noqa: PLC0415 - with the network

        return Transport(url, token).post(path, body)


def say(answer: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Print what was done."""
    typer.echo(json.dumps(answer) if as_json else text)
