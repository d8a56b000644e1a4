"""Pages before one is known: sign in, sign out, and the files that pages need."""

from functools import cache
from typing import Annotated

import plotly.offline
from fastapi import APIRouter, Depends, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from wattveil.serve.access import Access
from wattveil.serve.pages import STATIC, SentForm, Visitor, page, visiting
from wattveil.serve.problems import Code, Problem
from wattveil.serve.sessions import Sessions

_KEPT = {"Cache-Control": "public, max-age=3600"}
_FROM_HERE = ("same-origin", "none")
"""What browsers say of a form that no other site has sent."""
_KINDS = {".css": "text/css", ".js": "text/javascript"}


def door_pages(access: Access, sessions: Sessions) -> APIRouter:
    """Return the pages of the door."""
    routes = APIRouter(include_in_schema=False)
    visitor = Depends(visiting(sessions, access))

    @routes.get("/sign-in")
    def show_door() -> HTMLResponse:
        return page("sign_in.html", wrong=False)

    @routes.post("/sign-in")
    def sign_in(request: Request, form: SentForm) -> Response:
        if request.headers.get("Sec-Fetch-Site", "none") not in _FROM_HERE:
            raise Problem(Code.FORBIDDEN)  # another site would have somebody act under its name
        address = "" if request.client is None else request.client.host
        try:
            holder = access.by_token(form.text("token"), address)
        except Problem as problem:
            return page("sign_in.html", problem.code.status, wrong=True)
        response = RedirectResponse("/", 303)
        sessions.begin(holder, request, response)
        return response

    @routes.post("/sign-out")
    def sign_out(request: Request, form: SentForm, who: Annotated[Visitor, visitor]) -> Response:
        sessions.check_form(who.session, form.text("form_word"))
        response = RedirectResponse("/sign-in", 303)
        sessions.end(request, response)
        return response

    @routes.get("/static/plotly.js")
    def send_plotly() -> Response:
        return Response(_plotly(), headers=_KEPT, media_type=_KINDS[".js"])

    @routes.get("/static/{name}")
    def send_static(name: str) -> Response:
        known = {path.name: path for path in STATIC.iterdir() if path.suffix in _KINDS}
        if name not in known:
            raise Problem(Code.NOT_FOUND)
        kind = _KINDS[known[name].suffix]
        return Response(known[name].read_bytes(), headers=_KEPT, media_type=kind)

    return routes


@cache
def _plotly() -> bytes:
    text: str = plotly.offline.get_plotlyjs()
    return text.encode()
