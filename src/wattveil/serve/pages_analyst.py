"""Pages of analysts: data sets, and a question with its live quote."""

from typing import Annotated
from uuid import uuid4

from fastapi import APIRouter, Depends
from starlette.responses import HTMLResponse, RedirectResponse, Response

from wattveil.privacy.guarantee import Tier
from wattveil.serve.access import Access
from wattveil.serve.bodies import AskBody
from wattveil.serve.counter import Counter
from wattveil.serve.datasets import Dataset, admitted_to, all_datasets
from wattveil.serve.example import example_figure
from wattveil.serve.house import House
from wattveil.serve.ledger.acts import PrincipalKind
from wattveil.serve.ledger.order import check_key
from wattveil.serve.pages import REFUSALS, Form, SentForm, Visitor, in_words, page, visiting
from wattveil.serve.sessions import Sessions

_WORDS = {
    "clusters": "kinds of customers",
    "synthesis": "synthetic customers",
    "load": "load shapes and duration curve",
    "shares": "which kinds live where",
}


def asking_pages(house: House, access: Access, sessions: Sessions) -> APIRouter:
    """Return the pages on which one looks and asks."""
    routes, counter = APIRouter(include_in_schema=False), Counter(house)
    visitor = Depends(visiting(sessions, access))

    def dataset_page(who: Visitor, dataset: Dataset, refusal: str | None) -> HTMLResponse:
        return who.page(
            "dataset.html",
            200 if refusal is None else 422,
            dataset=dataset,
            budgets={tier: counter.budget(who.holder, dataset, tier) for tier in Tier},
            words=_WORDS,
            key=f"page-{uuid4().hex}",
            refusal=refusal,
        )

    @routes.get("/")
    def show_datasets(who: Annotated[Visitor, visitor]) -> HTMLResponse:
        with house.ledger.reading() as connection:
            known = all_datasets(connection)
            seen = admitted_to(connection, who.holder.name)
        if who.holder.kind is PrincipalKind.ADMIN:
            seen = {one.name for one in known}
        shown = [
            (one, counter.budget(who.holder, one, Tier.GLOBAL)) for one in known if one.name in seen
        ]
        return who.page("home.html", datasets=shown)

    @routes.get("/datasets/{name}")
    def show_dataset(name: str, who: Annotated[Visitor, visitor]) -> HTMLResponse:
        return dataset_page(who, access.dataset(who.holder, name), None)

    @routes.post("/datasets/{name}/quote")
    def show_quote(name: str, form: SentForm, who: Annotated[Visitor, visitor]) -> HTMLResponse:
        sessions.check_form(who.session, form.text("form_word"))
        dataset = access.dataset(who.holder, name)
        try:
            said = counter.quote(who.holder, dataset, _asked(form))
        except REFUSALS as refusal:
            return page("quote.html", refusal=in_words(refusal))
        more, paid = said["more_of_this_kind"], said["already_paid"]
        return page(
            "quote.html",
            refusal=None,
            said=said,
            more=min(more.values()),
            covered=all(paid[account] or more[account] for account in more),
            figure=example_figure(said["plan"], dataset.public["typical_kw"]),
        )

    @routes.post("/datasets/{name}")
    def order(name: str, form: SentForm, who: Annotated[Visitor, visitor]) -> Response:
        sessions.check_form(who.session, form.text("form_word"))
        dataset = access.dataset(who.holder, name)
        try:
            key = check_key("key", form.text("key"))
            paid = counter.order(who.holder, dataset, _asked(form), key)
        except REFUSALS as refusal:
            return dataset_page(who, dataset, in_words(refusal))
        return RedirectResponse(f"/releases/{paid.id}", 303)

    return routes


def _asked(form: Form) -> AskBody:
    """Return what a form asks for; the rules are those of the API."""
    labels = form.number("label_epsilon")
    asked: dict[str, object] = {
        "epsilon": form.number("epsilon"),
        "delta": form.number("delta"),
        "clusters": form.whole("clusters"),
        "label_epsilon": labels,
        "tier": form.text("tier") or Tier.GLOBAL.value,
    }
    if asked["tier"] != Tier.INSTANCE.value:  # of these the other tier has no choice
        products = form.fields.get("products", [])
        asked |= {
            "products": [*products, *(["labels"] if labels is not None else [])],
            "by": form.text("by") or None,
            "normalise": form.checked("normalise"),
            "clusters_by_group": form.checked("clusters_by_group"),
        }
    return AskBody.model_validate(asked)
