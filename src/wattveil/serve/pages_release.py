"""Pages of releases: what was released, and with whom it is shared."""

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import HTMLResponse, RedirectResponse, Response

from wattveil.publish.bundle import MANIFEST
from wattveil.publish.report import sections_of
from wattveil.serve import files
from wattveil.serve.access import Access, owns
from wattveil.serve.counter import Counter
from wattveil.serve.house import House
from wattveil.serve.pages import REFUSALS, SentForm, Visitor, in_words, visiting
from wattveil.serve.releases import Paid, shown_to
from wattveil.serve.sessions import Sessions
from wattveil.serve.shares import readers, share_release

_MOST_LISTED = 200


def release_pages(house: House, access: Access, sessions: Sessions) -> APIRouter:
    """Return the pages of releases."""
    routes, counter = APIRouter(include_in_schema=False), Counter(house)
    visitor = Depends(visiting(sessions, access))

    def release_page(who: Visitor, paid: Paid, refusal: str | None) -> HTMLResponse:
        said = counter.release(paid)
        shown: dict[str, object] = {"sections": None, "tables": []}
        if said["state"] == "ok":
            bundle = counter.bundle(paid)
            sections = sections_of((bundle / "report.html").read_text("utf-8"))
            shown = {"sections": sections, "tables": files.tables(bundle)}
        with house.ledger.reading() as connection:
            shown["readers"] = readers(connection, paid) if owns(who.holder, paid) else None
        status = 200 if refusal is None else 422
        return who.page("release.html", status, release=said, refusal=refusal, **shown)

    @routes.get("/releases")
    def show_releases(who: Annotated[Visitor, visitor]) -> HTMLResponse:
        with house.ledger.reading() as connection:
            latest = shown_to(connection, who.holder.name, most=_MOST_LISTED)
        return who.page("releases.html", releases=[counter.release(one) for one in latest])

    @routes.get("/releases/{release}")
    def show_release(release: str, who: Annotated[Visitor, visitor]) -> HTMLResponse:
        return release_page(who, access.paid(who.holder, release), None)

    @routes.post("/releases/{release}/shares")
    def share(release: str, form: SentForm, who: Annotated[Visitor, visitor]) -> Response:
        sessions.check_form(who.session, form.text("form_word"))
        paid = access.own_paid(who.holder, release)
        try:
            share_release(house.ledger, paid, reader=form.text("reader"), by=who.holder.name)
        except REFUSALS as refusal:
            return release_page(who, paid, in_words(refusal))
        return RedirectResponse(f"/releases/{paid.id}", 303)

    @routes.get("/releases/{release}/state")
    def show_state(release: str, who: Annotated[Visitor, visitor]) -> dict[str, object]:
        return {"state": counter.release(access.paid(who.holder, release))["state"]}

    return routes


def file_pages(house: House, access: Access, sessions: Sessions) -> APIRouter:
    """Return the files that the page of a release links to."""
    routes, counter = APIRouter(include_in_schema=False), Counter(house)
    visitor = Depends(visiting(sessions, access))

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
