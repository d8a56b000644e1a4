"""Pages of analysts: data sets, releases, verification of bundles. Orders: `pages_order`."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response

from wattveil.bundle.report import sections_of
from wattveil.privacy.guarantee import Tier
from wattveil.products.registry import products_of
from wattveil.server import bundle_archives
from wattveil.server.auth.access import Access, owns
from wattveil.server.auth.sessions import Sessions
from wattveil.server.bundle_archives import check_bundle
from wattveil.server.http import responses
from wattveil.server.http.bundle_downloads import REPORT, BundleFiles
from wattveil.server.http.problems import Code, problem_of
from wattveil.server.http.server_pages import (
    REFUSALS,
    SentForm,
    SignedInUser,
    error_text,
    page,
    session_dependency,
)
from wattveil.server.ledger.administration import PrincipalKind
from wattveil.server.ordered_releases import (
    ANY_PRINCIPAL,
    MAX_ID,
    OrderedRelease,
    readers,
    share_release,
    visible_releases,
)
from wattveil.server.release_service import ReleaseService
from wattveil.server.server_state import ServerState
from wattveil.web.request_texts import contents_text

_MAX_RELEASES = 50
_OTHER_FILE = (
    "This file is not a zipped bundle. Choose the zip file that was downloaded from a release page."
)


def analyst_pages(state: ServerState, access: Access, sessions: Sessions) -> APIRouter:
    """Return the page that lists the data sets."""
    routes, service = APIRouter(include_in_schema=False), ReleaseService(state)
    signed_in = Depends(session_dependency(sessions, access))

    @routes.get("/")
    def show_datasets(user: Annotated[SignedInUser, signed_in]) -> HTMLResponse:
        principal = user.principal
        shown = [
            (one, service.budget(principal, one, Tier.GLOBAL)) for one in access.datasets(principal)
        ]
        return user.page("home.html", datasets=shown)

    return routes


def _report_and_tables(bundle: Path) -> tuple[str, list[tuple[str, str]]]:
    sections = sections_of((bundle / REPORT).read_text("utf-8"))
    return sections, bundle_archives.table_texts(bundle)


def _contents(release: responses.Release) -> str:
    """Return what was ordered, with the titles of products."""
    titles = {one.name: one.title for one in products_of(Tier(release.request["tier"]))}
    return contents_text(release.request, titles)


def release_pages(state: ServerState, access: Access, sessions: Sessions) -> APIRouter:
    """Return the pages of releases."""
    routes, service = APIRouter(include_in_schema=False), ReleaseService(state)
    signed_in = Depends(session_dependency(sessions, access))

    def release_page(
        user: SignedInUser, ordered: OrderedRelease, refusal: str | None
    ) -> HTMLResponse:
        service.check_recorded(ordered)
        release = service.release(ordered)
        shown: dict[str, object] = {"sections": None, "tables": []}
        if release.state == "ok":
            sections, tables = service.read_bundle(ordered, _report_and_tables)
            shown = {"sections": sections, "tables": tables}
        with state.ledger.reading() as connection:
            # Names of readers would tell their owner which names exist.
            all_readers = readers(connection, ordered)
            is_admin = user.principal.kind is PrincipalKind.ADMIN
            known = all_readers if is_admin else {*all_readers} & {ANY_PRINCIPAL}
            shown["readers"] = sorted(known) if owns(user.principal, ordered) else None
        status = 200 if refusal is None else 422
        shown["contents"] = _contents(release)
        return user.page("release.html", status, release=release, refusal=refusal, **shown)

    @routes.get("/releases")
    def show_releases(
        user: Annotated[SignedInUser, signed_in],
        before: Annotated[str, Query(max_length=MAX_ID)] = "",
    ) -> HTMLResponse:
        reader, limit = user.principal, _MAX_RELEASES
        last = access.release(reader, before) if before else None
        with state.ledger.reading() as connection:
            latest = visible_releases(connection, reader.name, limit=limit, before=last)
        found = [service.release(one) for one in latest]
        older = found[-1].id if len(found) == limit else ""
        return user.page(
            "releases.html",
            releases=found,
            contents={one.id: _contents(one) for one in found},
            older=older,
            is_first=not before,
        )

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


def file_pages(access: Access, sessions: Sessions, bundle_files: BundleFiles) -> APIRouter:
    """Return the files that the pages of releases link to."""
    routes = APIRouter(include_in_schema=False)
    signed_in = Depends(session_dependency(sessions, access))

    @routes.get("/releases/{release}/manifest")
    def send_manifest(release: str, user: Annotated[SignedInUser, signed_in]) -> Response:
        return bundle_files.manifest(access.release(user.principal, release), user.principal)

    @routes.get("/releases/{release}/bundle.zip")
    def send_bundle(release: str, user: Annotated[SignedInUser, signed_in]) -> Response:
        return bundle_files.archive(access.release(user.principal, release), user.principal)

    @routes.get("/releases/{release}/payload/{file}")
    def send_payload(release: str, file: str, user: Annotated[SignedInUser, signed_in]) -> Response:
        return bundle_files.table(access.release(user.principal, release), file, user.principal)

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
            verdict = await run_in_threadpool(check_bundle, state, content, user.principal)
        except REFUSALS as refusal:
            is_other_file = problem_of(refusal).code is Code.INVALID_REQUEST
            text = _OTHER_FILE if is_other_file else error_text(refusal)
            return page("verdict.html", refusal=text)
        return page("verdict.html", refusal=None, verdict=verdict)

    return routes
