"""The verb `admin budget`."""

from typing import Annotated

import typer

from wattveil.serve.ledger.console import AsJson
from wattveil.serve.transport import Transport
from wattveil.serve.verbs.console import HERE, Delta, Epsilon, LabelEpsilon, Reason, Url, act, say

EPILOG = (
    "Example: wattveil admin budget --dataset homes --whose ann --epsilon 2 --reason 'her thesis'"
)


def budget(
    *,
    dataset: Annotated[str, typer.Option(help="Of which data set.")],
    epsilon: Epsilon,
    reason: Reason,
    delta: Delta = 1e-6,
    label_epsilon: LabelEpsilon = 0.0,
    whose: Annotated[
        str | None, typer.Option(help="Of whom; without it, of everybody together.")
    ] = None,
    tier: Annotated[
        str, typer.Option(help="global, or instance: the first budget opens that tier.")
    ] = "global",
    url: Url = HERE,
    as_json: AsJson = False,
) -> None:
    """Set what may be spent on a data set, by everybody together or by one analyst."""
    body = {
        "allowance": {"epsilon": epsilon, "delta": delta, "label_epsilon": label_epsilon},
        "reason": reason,
        "whose": whose,
        "tier": tier,
    }
    path = f"/v1/admin/datasets/{Transport.quoted(dataset)}/budgets"
    say(act(url, path, body), "The budget is set.", as_json=as_json)
