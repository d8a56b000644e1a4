"""The page on which anybody who may come in has a bundle checked."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse

from wattveil.serve.access import Access
from wattveil.serve.checking import check_bundle
from wattveil.serve.house import House
from wattveil.serve.pages import REFUSALS, Visitor, in_words, page, visiting
from wattveil.serve.sessions import Sessions


def check_pages(house: House, access: Access, sessions: Sessions) -> APIRouter:
    """Return the page, and what it is answered."""
    routes = APIRouter(include_in_schema=False)
    visitor = Depends(visiting(sessions, access))

    @routes.get("/verify")
    def show_check(who: Annotated[Visitor, visitor]) -> HTMLResponse:
        return who.page("verify.html")

    @routes.post("/verify")
    async def check(request: Request, who: Annotated[Visitor, visitor]) -> HTMLResponse:
        sessions.check_form(who.session, request.headers.get("X-Form-Word", ""))
        content = await request.body()
        try:
            verdict = await run_in_threadpool(check_bundle, house, content)
        except REFUSALS as refusal:
            return page("verdict.html", refusal=in_words(refusal))
        return page("verdict.html", refusal=None, verdict=verdict)

    return routes
