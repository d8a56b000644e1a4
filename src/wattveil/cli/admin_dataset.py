"""The commands `admin dataset` and `admin budget`: their options are derived from declared models.

They are not in `cli.admin` because the models load NumPy.
"""

from typing import Annotated

import typer

from wattveil.cli.admin import LOCAL_SERVER, AsJson, Reason, Url, post, print_result
from wattveil.cli.model_options import model_options
from wattveil.errors import InvalidParameterError
from wattveil.products.public_estimate import rounding_notes
from wattveil.products.request import ReleaseRequest
from wattveil.server.dataset_choices import AllowanceBody, DatasetBody, offered_products
from wattveil.terminal import refusals

EPILOGS = {
    "dataset": (
        "Example: wattveil admin dataset --name homes --file homes.parquet --clip-kw 10"
        " --group class=home,shop --epsilon 4"
    ),
    "budget": (
        "Example: wattveil admin budget --dataset homes --principal ann --epsilon 2 --reason thesis"
    ),
}

_NO_ALLOWANCE = 0.0
"""Epsilon that stands for none, with --linked-to."""


@model_options(
    fallbacks={"epsilon": _NO_ALLOWANCE},
    omit=("allowance",),
    common=("name", "file", "clip_kw", "groups", "epsilon", "delta"),
    groups={"body": "Products and customers"},
)
def dataset(
    context: typer.Context,
    *,
    body: DatasetBody,
    allowance: AllowanceBody,
    url: Url = LOCAL_SERVER,
    as_json: AsJson = False,
) -> None:
    """Register a data set, with its budget. All parameters are public and permanent."""
    given = context.params
    with refusals(context):
        if given["epsilon"] is not None:
            body = body.replace(allowance=allowance)
        elif allowance.label_epsilon:
            rule = "omitted without epsilon, of which it is a part"
            raise InvalidParameterError("label_epsilon", rule, allowance.label_epsilon)
        if given["products"] is None:
            has_list = body.customer_list_file is not None
            offered = offered_products(body.rule, has_customer_list=has_list)
            body = body.replace(products=offered)
    for note in rounding_notes(given):
        typer.echo(note, err=as_json)
    source = context.get_parameter_source("customers")
    if source is not None and source.name == "DEFAULT":
        note = f"Assumed by default: --customers {body.customers:,}. Every quote depends on it."
        typer.echo(note, err=as_json)
    response = post(url, ("datasets",), body.model_dump(mode="json"))
    print_result(response, f"{body.name} is registered.", as_json=as_json)


@model_options(defaults={"delta": ReleaseRequest.model_fields["delta"].default})
def budget(
    *,
    dataset: Annotated[str, typer.Option(help="Name of the data set.")],
    allowance: AllowanceBody,
    reason: Reason,
    principal: Annotated[
        str | None, typer.Option(help="Name of an analyst; without it, of the whole data set.")
    ] = None,
    tier: Annotated[
        str, typer.Option(help="global, or instance: the first budget opens that tier.")
    ] = "global",
    lost_epsilon: Annotated[
        float | None,
        typer.Option(help="After a lossy restore: largest epsilon that can have been charged."),
    ] = None,
    lost_label_epsilon: Annotated[
        float, typer.Option(help="The part of it for randomised labels.")
    ] = 0.0,
    url: Url = LOCAL_SERVER,
    as_json: AsJson = False,
) -> None:
    """Set the budget of a data set, or of one analyst on it."""
    body = {
        "allowance": allowance.model_dump(mode="json"),
        "reason": reason,
        "principal": principal,
        "tier": tier,
        "lost_epsilon": lost_epsilon,
        "lost_label_epsilon": lost_label_epsilon,
    }
    response = post(url, ("datasets", dataset, "budgets"), body)
    print_result(response, "The budget is set.", as_json=as_json)
