"""Pages of analysts: data sets, requests with a live quote, releases, verification of bundles."""

from functools import cache
from typing import Annotated
from uuid import uuid4

import numpy as np
from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response

from wattveil.bundle.bundle_files import MANIFEST
from wattveil.bundle.plan import PlanSummary
from wattveil.bundle.report import sections_of
from wattveil.privacy.guarantee import Tier
from wattveil.products.registry import products_of
from wattveil.server import bundle_archives
from wattveil.server.auth.access import Access, owns
from wattveil.server.auth.sessions import Sessions
from wattveil.server.bundle_archives import check_bundle
from wattveil.server.datasets import Dataset
from wattveil.server.http.requests import ReleaseBody
from wattveil.server.http.server_pages import (
    REFUSALS,
    Form,
    SentForm,
    SignedInUser,
    error_text,
    page,
    session_dependency,
)
from wattveil.server.ledger.order import check_key
from wattveil.server.ordered_releases import (
    OrderedRelease,
    readers,
    share_release,
    visible_releases,
)
from wattveil.server.release_service import ReleaseService
from wattveil.server.server_state import ServerState
from wattveil.simulate import simulate_load_kw
from wattveil.web.charts import BLUE, ReportFigure, add_band, new_figure, panel

_MAX_RELEASES = 200
_SIMULATED_HOMES = 200


def analyst_pages(state: ServerState, access: Access, sessions: Sessions) -> APIRouter:
    """Return the pages of data sets: budgets, quotes, orders."""
    routes, service = APIRouter(include_in_schema=False), ReleaseService(state)
    signed_in = Depends(session_dependency(sessions, access))

    def dataset_page(user: SignedInUser, dataset: Dataset, refusal: str | None) -> HTMLResponse:
        return user.page(
            "dataset.html",
            200 if refusal is None else 422,
            dataset=dataset,
            budgets={tier: service.budget(user.principal, dataset, tier) for tier in Tier},
            titles={one.name: one.title for one in products_of(Tier.GLOBAL)},
            key=f"page-{uuid4().hex}",
            refusal=refusal,
        )

    @routes.get("/")
    def show_datasets(user: Annotated[SignedInUser, signed_in]) -> HTMLResponse:
        principal = user.principal
        shown = [
            (one, service.budget(principal, one, Tier.GLOBAL)) for one in access.datasets(principal)
        ]
        return user.page("home.html", datasets=shown)

    @routes.get("/datasets/{name}")
    def show_dataset(name: str, user: Annotated[SignedInUser, signed_in]) -> HTMLResponse:
        return dataset_page(user, access.dataset(user.principal, name), None)

    @routes.post("/datasets/{name}/quote")
    def show_quote(
        name: str, form: SentForm, user: Annotated[SignedInUser, signed_in]
    ) -> HTMLResponse:
        sessions.check_csrf_token(user.session, form.text("csrf_token"))
        dataset = access.dataset(user.principal, name)
        try:
            quote = service.quote(user.principal, dataset, _release_body(form))
        except REFUSALS as refusal:
            return page("quote.html", refusal=error_text(refusal))
        more, paid = quote.more_of_this_kind, quote.already_paid
        return page(
            "quote.html",
            refusal=None,
            quote=quote,
            more=min(more.dataset, more.own),
            covered=bool((paid.dataset or more.dataset) and (paid.own or more.own)),
            figure=example_figure(quote.plan, dataset.public["typical_kw"]),
        )

    @routes.post("/datasets/{name}")
    def order(name: str, form: SentForm, user: Annotated[SignedInUser, signed_in]) -> Response:
        sessions.check_csrf_token(user.session, form.text("csrf_token"))
        dataset = access.dataset(user.principal, name)
        try:
            key = check_key("key", form.text("key"))
            ordered = service.order(user.principal, dataset, _release_body(form), key)
        except REFUSALS as refusal:
            return dataset_page(user, dataset, error_text(refusal))
        return RedirectResponse(f"/releases/{ordered.id}", 303)

    return routes


def _release_body(form: Form) -> ReleaseBody:
    """Return the request of a form; its rules are those of the API."""
    label_epsilon = form.number("label_epsilon")
    fields: dict[str, object] = {
        "epsilon": form.number("epsilon"),
        "delta": form.number("delta"),
        "n_clusters": form.integer("n_clusters"),
        "label_epsilon": label_epsilon,
        "tier": form.text("tier") or Tier.GLOBAL.value,
    }
    if fields["tier"] != Tier.INSTANCE.value:  # the instance tier has no such choices
        products = form.fields.get("products", [])
        fields |= {
            "products": [*products, *(["labels"] if label_epsilon is not None else [])],
            "by": form.text("by") or None,
            "normalise": form.checked("normalise"),
            "clusters_by_group": form.checked("clusters_by_group"),
        }
    body: ReleaseBody = ReleaseBody.model_validate(fields)
    return body


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
    hours = list(range(24))
    day = np.array(_simulated_day()) * typical_kw
    figure, reach = new_figure(height=240, legend=False), 2.0 * max(errors)
    add_band(figure, hours, day - reach, day + reach, colour=BLUE, opacity=0.25)
    figure.add_scatter(x=hours, y=day, mode="lines", line={"color": BLUE})
    title = "Example: mean of simulated homes, ± 2 standard errors of this release"
    return panel(title, figure, "hour", "kW per customer")


@cache
def _simulated_day() -> list[float]:
    """Return the mean day of simulated homes, scaled to mean 1."""
    mean = simulate_load_kw(customers=_SIMULATED_HOMES).mean(axis=0)
    found: list[float] = (mean / mean.mean()).tolist()
    return found


def release_pages(state: ServerState, access: Access, sessions: Sessions) -> APIRouter:
    """Return the pages of releases."""
    routes, service = APIRouter(include_in_schema=False), ReleaseService(state)
    signed_in = Depends(session_dependency(sessions, access))

    def release_page(
        user: SignedInUser, ordered: OrderedRelease, refusal: str | None
    ) -> HTMLResponse:
        release = service.release(ordered)
        shown: dict[str, object] = {"sections": None, "tables": []}
        if release.state == "ok":
            bundle = service.bundle(ordered)
            sections = sections_of((bundle / "report.html").read_text("utf-8"))
            shown = {"sections": sections, "tables": bundle_archives.tables(bundle)}
        with state.ledger.reading() as connection:
            may_share = owns(user.principal, ordered)
            shown["readers"] = readers(connection, ordered) if may_share else None
        status = 200 if refusal is None else 422
        return user.page("release.html", status, release=release, refusal=refusal, **shown)

    @routes.get("/releases")
    def show_releases(user: Annotated[SignedInUser, signed_in]) -> HTMLResponse:
        with state.ledger.reading() as connection:
            latest = visible_releases(connection, user.principal.name, limit=_MAX_RELEASES)
        return user.page("releases.html", releases=[service.release(one) for one in latest])

    @routes.get("/releases/{release}")
    def show_release(release: str, user: Annotated[SignedInUser, signed_in]) -> HTMLResponse:
        return release_page(user, access.release(user.principal, release), None)

    @routes.post("/releases/{release}/shares")
    def share(release: str, form: SentForm, user: Annotated[SignedInUser, signed_in]) -> Response:
        sessions.check_csrf_token(user.session, form.text("csrf_token"))
        ordered = access.own_release(user.principal, release)
        try:
            share_release(state.ledger, ordered, reader=form.text("reader"), by=user.principal.name)
        except REFUSALS as refusal:
            return release_page(user, ordered, error_text(refusal))
        return RedirectResponse(f"/releases/{ordered.id}", 303)

    @routes.get("/releases/{release}/state")
    def show_state(release: str, user: Annotated[SignedInUser, signed_in]) -> dict[str, str]:
        return {"state": service.release(access.release(user.principal, release)).state}

    return routes


def file_pages(state: ServerState, access: Access, sessions: Sessions) -> APIRouter:
    """Return the files that the pages of releases link to."""
    routes, service = APIRouter(include_in_schema=False), ReleaseService(state)
    signed_in = Depends(session_dependency(sessions, access))

    @routes.get("/releases/{release}/manifest")
    def send_manifest(release: str, user: Annotated[SignedInUser, signed_in]) -> Response:
        bundle = service.bundle(access.release(user.principal, release))
        return Response((bundle / MANIFEST).read_bytes(), media_type="application/json")

    @routes.get("/releases/{release}/bundle.zip")
    def send_bundle(release: str, user: Annotated[SignedInUser, signed_in]) -> Response:
        bundle = service.bundle(access.release(user.principal, release))
        return Response(bundle_archives.zipped(bundle), media_type="application/zip")

    @routes.get("/releases/{release}/payload/{file}")
    def send_payload(release: str, file: str, user: Annotated[SignedInUser, signed_in]) -> Response:
        bundle = service.bundle(access.release(user.principal, release))
        content, kind = bundle_archives.payload(bundle, file)
        return Response(content, media_type=kind)

    return routes


def verify_pages(state: ServerState, access: Access, sessions: Sessions) -> APIRouter:
    """Return the page that verifies an uploaded bundle."""
    routes = APIRouter(include_in_schema=False)
    signed_in = Depends(session_dependency(sessions, access))

    @routes.get("/verify")
    def show_verify(user: Annotated[SignedInUser, signed_in]) -> HTMLResponse:
        return user.page("verify.html")

    @routes.post("/verify")
    async def verify(request: Request, user: Annotated[SignedInUser, signed_in]) -> HTMLResponse:
        sessions.check_csrf_token(user.session, request.headers.get("X-CSRF-Token", ""))
        content = await request.body()
        try:
            verdict = await run_in_threadpool(check_bundle, state, content)
        except REFUSALS as refusal:
            return page("verdict.html", refusal=error_text(refusal))
        return page("verdict.html", refusal=None, verdict=verdict)

    return routes
