"""The verb `admin close`."""

from typing import Annotated

import typer

from wattveil.serve.ledger.console import AsJson
from wattveil.serve.transport import Transport
from wattveil.serve.verbs.console import HERE, Reason, Url, act, say

EPILOG = "Example: wattveil admin close --dataset homes --reason 'replaced by homes-2025'"


def close(
    *,
    dataset: Annotated[str, typer.Option(help="Which data set.")],
    reason: Reason,
    url: Url = HERE,
    as_json: AsJson = False,
) -> None:
    """Have a data set answer what it has answered, and nothing new, for good."""
    path = f"/v1/admin/datasets/{Transport.quoted(dataset)}/close"
    say(act(url, path, {"reason": reason}), f"{dataset} is closed.", as_json=as_json)
