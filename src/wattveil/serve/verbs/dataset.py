"""The verb `admin dataset`."""

from typing import Annotated, Any

import typer

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.public_estimate import MAX_CUSTOMERS, ROUNDING_RULE, rounded_customers, rounding_note
from wattveil.serve.ledger.console import AsJson
from wattveil.serve.verbs.console import HERE, Delta, LabelEpsilon, Url, act, say
from wattveil.terminal import refusals

EPILOG = (
    "Example: wattveil admin dataset --name homes --file homes.parquet --clip-kw 10"
    " --group class=home,shop --epsilon 4"
)

_PRODUCTS = ("clusters", "synthesis", "load", "shares")


def dataset(
    *,
    name: Annotated[str, typer.Option(help="What the data set is called.")],
    file: Annotated[str, typer.Option(help="A file in the server's folder `profiles`.")],
    clip_kw: Annotated[float, typer.Option(help="Public bound on customers, in kW.")],
    epsilon: Annotated[
        float | None, typer.Option(help="That may be spent in all; left out with --linked-to.")
    ] = None,
    linked_to: Annotated[
        str | None, typer.Option(help="A data set about the same people, whose budget it shares.")
    ] = None,
    delta: Delta = 1e-6,
    label_epsilon: LabelEpsilon = 0.0,
    group: Annotated[
        list[str] | None,
        typer.Option(help="attribute=value,value: its public list; may be repeated."),
    ] = None,
    customer_list_file: Annotated[
        str | None, typer.Option(help="For labels: public list of customers, in the same folder.")
    ] = None,
    customers: Annotated[
        int, typer.Option(help=f"Public estimate of the number of customers, {ROUNDING_RULE}.")
    ] = 1000,
    typical_kw: Annotated[float, typer.Option(help="Public guess of their median size.")] = 0.5,
    title: Annotated[str | None, typer.Option(help="For statements and pages.")] = None,
    curator: Annotated[str | None, typer.Option(help="Who publishes.")] = None,
    region: Annotated[str | None, typer.Option(help="Where the customers are.")] = None,
    contact: Annotated[str | None, typer.Option(help="Whom to ask.")] = None,
    url: Url = HERE,
    as_json: AsJson = False,
) -> None:
    """Register a data set, with its budget. All that is said here is public, and stays."""
    with refusals():
        groups = dict(_group(text) for text in group or [])
        checks.integer("customers", customers, least=1, most=MAX_CUSTOMERS)
    if note := rounding_note(customers):
        typer.echo(note, err=as_json)
    about = {"title": title, "curator": curator, "region": region, "contact": contact}
    promise = {"delta": delta, "label_epsilon": label_epsilon}
    labelled = [] if customer_list_file is None else ["labels"]
    body: dict[str, Any] = {
        "name": name,
        "file": file,
        "clip_kw": clip_kw,
        "delta": delta,
        "groups": groups,
        "products": [*_PRODUCTS, *labelled],
        "customer_list_file": customer_list_file,
        "customers": rounded_customers(customers),
        "typical_kw": typical_kw,
        "linked_to": linked_to,
        "allowance": None if epsilon is None else {**promise, "epsilon": epsilon},
        **{field: text for field, text in about.items() if text is not None},
    }
    say(act(url, "/v1/admin/datasets", body), f"{name} is registered.", as_json=as_json)


def _group(text: str) -> tuple[str, list[str]]:
    name, equals, values = text.partition("=")
    if not equals:
        raise InvalidParameterError("group", "attribute=value,value", text)
    return name, values.split(",")
