"""Pages of analysts: data sets, a question with its live quote, releases."""

from typing import Annotated
from uuid import uuid4

from fastapi import APIRouter, Depends
from starlette.responses import HTMLResponse, RedirectResponse, Response

from wattveil.privacy.guarantee import Tier
from wattveil.publish.bundle import MANIFEST
from wattveil.publish.report import sections_of
from wattveil.serve import files
from wattveil.serve.access import Access
from wattveil.serve.bodies import AskBody
from wattveil.serve.counter import Counter
from wattveil.serve.datasets import Dataset, admitted_to, all_datasets
from wattveil.serve.example import example_figure
from wattveil.serve.house import House
from wattveil.serve.ledger.acts import PrincipalKind
from wattveil.serve.ledger.order import check_key
from wattveil.serve.pages import REFUSALS, Form, SentForm, Visitor, in_words, page, visiting
from wattveil.serve.releases import paid_by
from wattveil.serve.sessions import Sessions

_MOST_LISTED = 200
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
            budget=counter.budget(who.holder, dataset, Tier.GLOBAL),
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
        return who.page("home.html", datasets=[one for one in known if one.name in seen])

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
        return page(
            "quote.html",
            refusal=None,
            plan=said["plan"],
            more=min(said["more_of_this_kind"].values()),
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


def release_pages(house: House, access: Access, sessions: Sessions) -> APIRouter:
    """Return the pages of releases."""
    routes, counter = APIRouter(include_in_schema=False), Counter(house)
    visitor = Depends(visiting(sessions, access))

    @routes.get("/releases")
    def show_releases(who: Annotated[Visitor, visitor]) -> HTMLResponse:
        with house.ledger.reading() as connection:
            latest = paid_by(connection, who.holder.name, most=_MOST_LISTED)
        return who.page("releases.html", releases=[counter.release(one) for one in latest])

    @routes.get("/releases/{release}")
    def show_release(release: str, who: Annotated[Visitor, visitor]) -> HTMLResponse:
        paid = access.paid(who.holder, release)
        said = counter.release(paid)
        if said["state"] != "ok":
            return who.page("release.html", release=said, sections=None, tables=[])
        bundle = counter.bundle(paid)
        report = (bundle / "report.html").read_text("utf-8")
        sections = sections_of(report)
        tables = files.tables(bundle)
        return who.page("release.html", release=said, sections=sections, tables=tables)

    @routes.get("/releases/{release}/state")
    def show_state(release: str, who: Annotated[Visitor, visitor]) -> dict[str, object]:
        return {"state": counter.release(access.paid(who.holder, release))["state"]}

    @routes.get("/releases/{release}/manifest")
    def send_manifest(release: str, who: Annotated[Visitor, visitor]) -> Response:
        bundle = counter.bundle(access.paid(who.holder, release))
        return Response((bundle / MANIFEST).read_bytes(), media_type="application/json")

    @routes.get("/releases/{release}/bundle.zip")
    def send_bundle(release: str, who: Annotated[Visitor, visitor]) -> Response:
        bundle = counter.bundle(access.paid(who.holder, release))
        return Response(files.zipped(bundle), media_type="application/zip")

    @routes.get("/releases/{release}/payload/{file}")
    def send_payload(release: str, file: str, who: Annotated[Visitor, visitor]) -> Response:
        content, kind = files.payload(counter.bundle(access.paid(who.holder, release)), file)
        return Response(content, media_type=kind)

    return routes


def _asked(form: Form) -> AskBody:
    """Return what a form asks for; the rules are those of the API."""
    products = form.fields.get("products", [])
    labels = form.number("label_epsilon")
    return AskBody.model_validate(
        {
            "epsilon": form.number("epsilon"),
            "clusters": form.whole("clusters"),
            "products": [*products, *(["labels"] if labels is not None else [])],
            "by": form.text("by") or None,
            "label_epsilon": labels,
        }
    )
