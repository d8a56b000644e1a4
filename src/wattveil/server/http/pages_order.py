"""Pages of an order: the form with its live quote, the confirmation, and placing the order.

The form is derived from `ReleaseBody` and the registry of products: a field is offered, sent and
read only with a ticked product that it shapes (`Product.choices`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends
from starlette.responses import HTMLResponse, RedirectResponse, Response

from wattveil.bundle.plan import PlanSummary
from wattveil.privacy.guarantee import Tier
from wattveil.products.product import Product
from wattveil.products.registry import products_of
from wattveil.products.request import ReleaseRequest
from wattveil.server.auth.access import Access
from wattveil.server.auth.sessions import Sessions
from wattveil.server.datasets import Dataset
from wattveil.server.http import responses
from wattveil.server.http.form_fields import (
    FormField,
    filled_in,
    form_fields,
    read_fields,
    validated,
)
from wattveil.server.http.problems import Code, Problem
from wattveil.server.http.requests import ReleaseBody
from wattveil.server.http.server_pages import (
    FIELD_LABELS,
    REFUSALS,
    Form,
    SentForm,
    SignedInUser,
    error_text,
    page,
    session_dependency,
)
from wattveil.server.release_service import ReleaseService
from wattveil.server.reviewed_orders import Payers, ReviewedOrder
from wattveil.server.server_state import ServerState
from wattveil.simulate import simulate_load_kw
from wattveil.web.budget_texts import Affordability, affordability, spent_afterwards
from wattveil.web.charts import (
    BLUE,
    TWO_SIDED_95,
    ReportFigure,
    add_band,
    label_times,
    new_figure,
    panel,
)
from wattveil.web.formatting import format_lower_bound

_ALWAYS = ("epsilon", "delta")
"""Fields of every request, whatever its products."""
_FIRST_FORM: Mapping[str, Sequence[str]] = MappingProxyType(
    {"epsilon": ("0.5",), "products": ("load",), "tier": (Tier.GLOBAL.value,)}
)
"""Values of the form at first; the plan of `load` is computed at once."""
_DEFAULT_CUSTOMERS = ReleaseRequest.model_fields["customers"].default
"""Estimate of a data set whose registration states none: a page says so."""
_CONTENTS = {
    "clusters": "a typical load curve and the number of customers of each segment",
    "synthesis": "simulated load profiles with the statistics of the segments;"
    " needs customer segments of all customers, with their sizes",
    "load": "mean load per customer by time of day, load duration curve, number of customers",
    "years": "a model of load over a whole year, for synthetic customers hour by hour;"
    " needs profiles that keep every day",
    "shares": "share of each segment in each group;"
    " needs a grouping, and customer segments of all customers",
    "labels": "a randomised segment for each customer of a public list; needs an epsilon for them",
}
"""What an order of a product contains and needs; one without an entry has its title alone."""
_SIMULATED_HOMES = 200


@dataclass(frozen=True)
class OfferedField:
    """A field of the form, and the products that it shapes: it is shown with one of them."""

    field: FormField
    products: tuple[str, ...]
    instance: bool
    """Whether it is a choice of the instance tier."""


def offered_fields(dataset: Dataset) -> list[OfferedField]:
    """Return the fields that depend on the products of a data set."""
    offered = [one for one in products_of(Tier.GLOBAL) if one.name in dataset.public["products"]]
    groups = {
        name: f"{name} ({', '.join(values)})" for name, values in dataset.public["groups"].items()
    }
    shown = {one.name: one for one in _request_fields(groups) if one.name not in _ALWAYS}
    if not groups:
        shown = {name: one for name, one in shown.items() if name not in _OF_GROUPS}
    found = [
        OfferedField(
            one,
            tuple(product.name for product in offered if name in product.choices),
            instance=any(name in product.choices for product in products_of(Tier.INSTANCE)),
        )
        for name, one in shown.items()
    ]
    return [
        *(one for one in found if one.products or one.instance),
        *(
            OfferedField(one, (product.name,), instance=False)
            for product in offered
            for one in _own_options(product)
        ),
    ]


_HELP = {
    "n_clusters": "A segment is a group of customers with similar load. More segments have fewer"
    " customers each, and larger errors.",
    "by": "Load and shares of segments are released for each value of this attribute.",
    "label_epsilon": "Part of the epsilon above that is spent on labels: less than all of it.",
}
"""Help of fields on this page, where that of the option says more than an analyst needs."""
_OF_GROUPS = ("by", "clusters_by_group")


def _request_fields(groups: dict[str, str]) -> list[FormField]:
    together = {"": "all customers together", **groups}
    omit = ("tier", "options", "products")  # the page offers them itself
    choices = {"by": together}
    return form_fields(ReleaseBody, choices=choices, labels=FIELD_LABELS, helps=_HELP, omit=omit)


def _own_options(product: Product) -> list[FormField]:
    if product.Options is None:
        return []
    return form_fields(product.Options, prefix=f"options.{product.name}.")


def release_body(form: Form) -> ReleaseBody:
    """Return the request of a form; its rules are those of the API.

    Fields that shape no product of the request are left out, also if a browser without scripts
    sends them: equal requests are one release, and are charged once.
    """
    tier = form.text("tier") or Tier.GLOBAL.value
    fields: dict[str, Any] = {"tier": tier}
    if tier == Tier.INSTANCE.value:  # its mechanism releases all of its products together
        products = products_of(Tier.INSTANCE)
    else:
        fields["products"] = ticked = form.fields.get("products", [])
        products = tuple(one for one in products_of(Tier.GLOBAL) if one.name in ticked)
    used = {*_ALWAYS, *(name for product in products for name in product.choices)}
    read = [one for one in _request_fields({}) if one.name in used]
    read += [one for product in products for one in _own_options(product)]
    return validated(ReleaseBody, {**fields, **read_fields(form, read)})


def order_pages(state: ServerState, access: Access, sessions: Sessions) -> APIRouter:
    """Return the pages of a data set: its budget, and the request with a live quote."""
    routes, service = APIRouter(include_in_schema=False), ReleaseService(state)
    signed_in = Depends(session_dependency(sessions, access))

    @routes.get("/datasets/{name}")
    def show_dataset(
        name: str, user: Annotated[SignedInUser, signed_in], order: str = ""
    ) -> HTMLResponse:
        """Show the form; filled in as for an order of this session that is to be changed."""
        try:
            dataset = access.dataset(user.principal, name)
        except Problem as problem:  # an unknown name, or no access: the same page for both
            unknown = problem.code is Code.FORBIDDEN
            raise (Problem(Code.NOT_FOUND) if unknown else problem) from None
        found = user.session.orders.find(order)
        if found is not None and found.dataset == name and found.sent:
            sent = found.sent
        else:
            sent = _first_form(service, user, dataset)
        return _dataset_page(service, user, dataset, sent)

    @routes.post("/datasets/{name}/quote")
    def show_quote(
        name: str, form: SentForm, user: Annotated[SignedInUser, signed_in]
    ) -> HTMLResponse:
        sessions.check_csrf_token(user.session, form.text("csrf_token"))
        dataset = access.dataset(user.principal, name)
        try:
            with access.pricing(user.principal):
                quote = service.quote(user.principal, dataset, release_body(form))
        except REFUSALS as refusal:
            return page("quote.html", refusal=error_text(refusal))
        affordable = _affordability(quote)
        return page(
            "quote.html",
            refusal=None,
            quote=quote,
            titles=_titles(quote.tier),
            default_customers=_DEFAULT_CUSTOMERS,
            affordable=affordable,
            spent=_spent(service, user, dataset, quote) if affordable.is_covered else "",
            figure=example_figure(quote.plan, dataset.public["typical_kw"]),
        )

    @routes.post("/datasets/{name}")
    def review(name: str, form: SentForm, user: Annotated[SignedInUser, signed_in]) -> Response:
        """Store the request and redirect to its confirmation: nothing is charged."""
        sessions.check_csrf_token(user.session, form.text("csrf_token"))
        dataset = access.dataset(user.principal, name)
        try:
            body = release_body(form)
            with access.pricing(user.principal):
                quote = service.quote(user.principal, dataset, body)
        except REFUSALS as refusal:
            return _dataset_page(service, user, dataset, form.fields, error_text(refusal))
        order = user.session.orders.add(name, body, _payers(quote), form.fields)
        return RedirectResponse(f"/orders/{order.key}", 303)

    return routes


def confirmation_pages(state: ServerState, access: Access, sessions: Sessions) -> APIRouter:
    """Return the pages that state what an order charges, and place it."""
    routes, service = APIRouter(include_in_schema=False), ReleaseService(state)
    signed_in = Depends(session_dependency(sessions, access))

    def reviewed(user: SignedInUser, key: str) -> tuple[ReviewedOrder, Dataset]:
        """Return an order of this session; those of others are unknown here."""
        order = user.session.orders.find(key)
        if order is None:
            raise Problem(Code.NOT_FOUND)
        return order, access.dataset(user.principal, order.dataset)

    @routes.get("/orders/{key}")
    def show_review(key: str, user: Annotated[SignedInUser, signed_in]) -> HTMLResponse:
        order, dataset = reviewed(user, key)
        if order.release is not None:
            return _review_page(service, user, dataset, order)
        with access.pricing(user.principal):
            order = _restated(service, user, dataset, order)
            return _review_page(service, user, dataset, order)

    @routes.post("/orders/{key}")
    def place(key: str, form: SentForm, user: Annotated[SignedInUser, signed_in]) -> Response:
        """Place the order that was reviewed; a repetition leads to the same release."""
        sessions.check_csrf_token(user.session, form.text("csrf_token"))
        order, dataset = reviewed(user, key)
        if order.release is None:
            try:
                with access.pricing(user.principal):
                    stated = order.payers
                    order = _restated(service, user, dataset, order)
                    if stated != order.payers:  # another order or a failed computation came between
                        return _review_page(service, user, dataset, order, changed=True)
                    if order.release is None:
                        ordered = service.order(user.principal, dataset, order.body, order.key)
                        order = replace(order, release=ordered.id)
                        user.session.orders.update(order)
            except REFUSALS as refusal:
                return _dataset_page(service, user, dataset, order.sent, error_text(refusal))
        return RedirectResponse(f"/releases/{order.release}", 303)

    return routes


def _first_form(
    service: ReleaseService, user: SignedInUser, dataset: Dataset
) -> Mapping[str, Sequence[str]]:
    """Return the form at first, with an epsilon that the budget covers, if there is one."""
    first = _FIRST_FORM
    if first["products"][0] not in dataset.public["products"]:
        return first
    body = ReleaseBody(epsilon=float(first["epsilon"][0]), products=[*first["products"]])
    largest = service.largest_epsilon(user.principal, dataset, body)
    if largest is None or float(largest) >= body.epsilon:
        return first
    return {**first, "epsilon": (format_lower_bound(float(largest), 2),)}


def _dataset_page(
    service: ReleaseService,
    user: SignedInUser,
    dataset: Dataset,
    sent: Mapping[str, Sequence[str]],
    refusal: str | None = None,
) -> HTMLResponse:
    """Return the page of a data set, with the form filled in as it was sent."""
    offered = dataset.public["products"]
    always = [one for one in _request_fields({}) if one.name in _ALWAYS]
    delta = f"Slack added to every probability; empty: {dataset.public['delta']!r}, the data set's."
    always = [replace(one, help=delta) if one.name == "delta" else one for one in always]
    fields = offered_fields(dataset)
    budgets = {tier: service.budget(user.principal, dataset, tier) for tier in Tier}
    if budgets[Tier.INSTANCE].own is not None:  # the help of the option speaks of both tiers
        whole = {one.name: one.help for one in form_fields(ReleaseBody)}
        fields = [
            replace(one, field=replace(one.field, help=whole[one.field.name]))
            if one.field.name == "label_epsilon"
            else one
            for one in fields
        ]
    filled = filled_in([one.field for one in fields], sent)
    return user.page(
        "dataset.html",
        200 if refusal is None else 422,
        dataset=dataset,
        default_customers=_DEFAULT_CUSTOMERS,
        budgets=budgets,
        always={one.name: one for one in filled_in(always, sent)},
        products=[one for one in products_of(Tier.GLOBAL) if one.name in offered],
        contents={one: _CONTENTS.get(one, "") for one in offered},
        ticked=sent.get("products", ()),
        tier=sent.get("tier", _FIRST_FORM["tier"])[0],
        fields=[replace(one, field=field) for one, field in zip(fields, filled, strict=True)],
        refusal=refusal,
    )


def _review_page(
    service: ReleaseService,
    user: SignedInUser,
    dataset: Dataset,
    order: ReviewedOrder,
    *,
    changed: bool = False,
) -> HTMLResponse:
    shown: dict[str, Any] = {}
    if order.release is None:
        quote = service.quote(user.principal, dataset, order.body)
        affordable = _affordability(quote)
        covered = affordable.is_covered
        shown = {
            "quote": quote,
            "affordable": affordable,
            "budget": service.budget(user.principal, dataset, quote.tier),
            "after": service.budget_after(user.principal, dataset, quote) if covered else None,
        }
    return user.page(
        "review.html",
        409 if changed else 200,
        dataset=dataset,
        order=order,
        titles=_titles(order.body.tier),
        default_customers=_DEFAULT_CUSTOMERS,
        left_out=_left_out(dataset, order.body),
        choices=[*stated_choices(order.body), *_listed_groups(dataset, order.body)],
        changed=changed,
        **shown,
    )


def _titles(tier: Tier) -> dict[str, str]:
    """Return the title of each product, by name."""
    return {one.name: one.title for one in products_of(tier)}


def _affordability(quote: responses.Quote) -> Affordability:
    """Return whether every account that would be charged covers the price."""
    more, paid = quote.more_of_this_kind, quote.already_paid
    return affordability(
        paid_dataset=paid.dataset,
        paid_own=paid.own,
        more_dataset=more.dataset,
        more_own=more.own,
        largest_epsilon=quote.largest_epsilon,
        price=quote.price.model_dump(),
        left=None if quote.left is None else quote.left.model_dump(),
    )


def _spent(
    service: ReleaseService, user: SignedInUser, dataset: Dataset, quote: responses.Quote
) -> str:
    """Return which share of the user's own budget is spent after a release; empty without one."""
    now = service.budget(user.principal, dataset, quote.tier).own
    then = service.budget_after(user.principal, dataset, quote).own
    return (
        "" if now is None or then is None else spent_afterwards(now.share_spent, then.share_spent)
    )


def _payers(quote: responses.Quote) -> Payers:
    paid = quote.already_paid
    return Payers(dataset=not paid.dataset, own=not paid.own)


def _restated(
    service: ReleaseService, user: SignedInUser, dataset: Dataset, order: ReviewedOrder
) -> ReviewedOrder:
    """Return an order as it stands now: with its release, or with the payers that it would charge.

    Of two clicks on one confirmation, the second may arrive when the first has been charged and its
    release is not yet recorded in the session. Nothing is left to be paid then, and the reason is
    this very order: the second click leads to its release.
    """
    payers = _payers(service.quote(user.principal, dataset, order.body))
    if payers == order.payers:
        return order
    placed = service.placed(user.principal, dataset, order.body, order.key)
    found = replace(order, release=placed) if placed else replace(order, payers=payers)
    user.session.orders.update(found)
    return found


def _left_out(dataset: Dataset, body: ReleaseBody) -> list[str]:
    """Return the titles of the products that the data set offers and the request leaves out."""
    if body.products is None:  # all of the instance tier
        return []
    left_out = {*dataset.public["products"]} - {*body.products}
    return [one.title for one in products_of(Tier.GLOBAL) if one.name in left_out]


def _listed_groups(dataset: Dataset, body: ReleaseBody) -> list[tuple[str, str]]:
    """Return the groups of a request, if it has any: they tell which customers are counted."""
    if body.by is None:
        return []
    return [("Groups", ", ".join(dataset.public["groups"][body.by]))]


def stated_choices(body: ReleaseBody) -> list[tuple[str, str]]:
    """Return the choices of a request beside epsilon and delta, as the form names them."""
    products = [
        one for one in products_of(body.tier) if body.products is None or one.name in body.products
    ]
    used = {name for product in products for name in product.choices}
    named = [
        (one.label, getattr(body, one.name))
        for one in _request_fields({})
        if one.name in used and one.name not in _ALWAYS
    ]
    named += [
        (f"{product.title}: {name.replace('_', ' ')}", value)
        for product in products
        for name, value in body.options.get(product.name, ())
    ]
    return [
        (label, _as_text(value))
        for label, value in named
        if value is not None and value is not False
    ]


def _as_text(value: object) -> str:
    return "yes" if value is True else str(value)


def example_figure(plan: PlanSummary, typical_kw: float) -> ReportFigure | None:
    """Return a figure of the expected error around the mean day of simulated homes.

    None if no product of the plan has an expected error in kW.
    """
    errors = [
        one.value
        for product in plan.products
        for one in product.expected
        if one.unit == "kW" and one.value is not None
    ]
    if not errors:
        return None
    day = np.array(_simulated_day()) * typical_kw
    figure, reach = new_figure(height=240, legend=False), TWO_SIDED_95 * max(errors)
    slots = list(range(day.size))
    add_band(figure, slots, day - reach, day + reach, colour=BLUE, opacity=0.25)
    figure.add_scatter(x=slots, y=day, mode="lines", line={"color": BLUE})
    label_times(figure, [f"{hour:02}:00" for hour in slots])
    figure.update_yaxes(rangemode="tozero")
    title = "Example: mean of simulated homes, with the 95 % band expected of this release"
    return panel(title, figure, "", "kW per customer")


@cache
def _simulated_day() -> list[float]:
    """Return the mean day of simulated homes, scaled to mean 1."""
    mean = simulate_load_kw(customers=_SIMULATED_HOMES).mean(axis=0)
    found: list[float] = (mean / mean.mean()).tolist()
    return found
