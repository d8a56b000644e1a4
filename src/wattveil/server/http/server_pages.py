"""Shared parts of the pages: sessions, forms, error texts, sign-in and static files."""

import re
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.responses import HTMLResponse, RedirectResponse, Response

from wattveil.errors import WattveilError
from wattveil.server.auth.access import Access
from wattveil.server.auth.principals import Principal
from wattveil.server.auth.sessions import Session, Sessions
from wattveil.server.http.problems import Code, Problem, problem_of
from wattveil.server.ledger.administration import PrincipalKind
from wattveil.web.pages import STATIC, asset, render

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data: blob:; connect-src 'self'; form-action 'self';"
    " frame-ancestors 'none'; base-uri 'none'"
)
"""Scripts are files of this server; Plotly sets inline styles."""

_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""`float` accepts more: 1_0 as ten, and digits of other scripts."""

_CACHED = {"Cache-Control": "public, max-age=3600"}
_SAME_ORIGIN = ("same-origin", "none")
"""Values of Sec-Fetch-Site of a form that was not sent by another site."""
_TYPES = {".css": "text/css", ".js": "text/javascript"}
_FILES = {
    "plotly.js": _TYPES[".js"],
    **{path.name: _TYPES[path.suffix] for path in STATIC.iterdir() if path.suffix in _TYPES},
}
"""Every file that may be sent, with its media type."""


class SignInRequired(Exception):  # noqa: N818 - it redirects
    """The request has no session."""


class SignedInUser:
    """Session and principal of a page request."""

    def __init__(self, session: Session, principal: Principal) -> None:
        self.session, self.principal = session, principal

    def page(self, template: str, status: int = 200, **values: object) -> HTMLResponse:
        """Return a page with navigation and CSRF token."""
        token = self.session.csrf_token
        return page(template, status, principal=self.principal, csrf_token=token, **values)

    def check_admin(self) -> None:
        """Refuse principals that are no administrators."""
        if self.principal.kind is not PrincipalKind.ADMIN:
            raise Problem(Code.FORBIDDEN)


class Form:
    """Fields of a form."""

    def __init__(self, body: bytes) -> None:
        text = body.decode("utf-8", "replace")
        self.fields = parse_qs(text, keep_blank_values=True, max_num_fields=200)

    def text(self, name: str) -> str:
        """Return a field as text; empty if it is missing."""
        return self.fields.get(name, [""])[0].strip()

    def number(self, name: str) -> float | str | None:
        """Return a number; other text is returned as it is, for validation by the request model."""
        text = self.text(name)
        return float(text) if _DECIMAL.fullmatch(text) else text or None

    def checked(self, name: str) -> bool:
        """Whether a box is checked: others are not sent."""
        return name in self.fields

    def integer(self, name: str) -> int | str | None:
        """Return a whole number, likewise."""
        text = self.text(name)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text or None  # noqa: PLR2004 - digits of a 64-bit number


def page(template: str, status: int = 200, **values: object) -> HTMLResponse:
    """Return a page."""
    text = render(f"server/{template}", **{"principal": None, **values})
    return HTMLResponse(text, status, {"Content-Security-Policy": POLICY})


def session_dependency(sessions: Sessions, access: Access) -> Callable[[Request], SignedInUser]:
    """Return the dependency that finds the session of a page request."""

    def find_user(request: Request) -> SignedInUser:
        found = sessions.find(request)
        if found is None:
            raise SignInRequired
        session, principal = found
        return SignedInUser(session, access.check_rate(principal))

    return find_user


async def sent_form(request: Request) -> Form:
    """Return the form of a request."""
    try:
        return Form(await request.body())
    except ValueError:
        raise Problem(Code.INVALID_REQUEST) from None


SentForm = Annotated[Form, Depends(sent_form)]


def error_text(error: Exception) -> str:
    """Return the text of an error; it contains public values alone."""
    if isinstance(error, ValidationError):  # of a form; the rules are those of the API
        found = [{**one, "loc": ("body", *one["loc"])} for one in error.errors()]
        error = RequestValidationError(found)
    problem = problem_of(error)
    broken: Any = problem.details.get("errors", [])
    rules = "; ".join(f"{one['field']} must be {one['rule']}" for one in broken)
    scope = problem.details.get("account_scope") or problem.details.get("reason")
    return f"{problem.code.title}{f': {rules}' if rules else ''}{f' ({scope})' if scope else ''}."


REFUSALS = (Problem, WattveilError, ValidationError)
"""Errors that a page shows beside its form."""


async def redirect_to_sign_in(_: Request, __: Exception) -> Response:
    """Redirect to the sign-in page."""
    return RedirectResponse("/sign-in", 303)


def sign_in_pages(access: Access, sessions: Sessions) -> APIRouter:
    """Return the pages for signing in and out, and the static files."""
    routes = APIRouter(include_in_schema=False)
    signed_in = Depends(session_dependency(sessions, access))

    @routes.get("/sign-in")
    def show_sign_in() -> HTMLResponse:
        return page("sign_in.html", wrong=False)

    @routes.post("/sign-in")
    def sign_in(request: Request, form: SentForm) -> Response:
        if request.headers.get("Sec-Fetch-Site", "none") not in _SAME_ORIGIN:
            raise Problem(Code.FORBIDDEN)  # login CSRF
        address = "" if request.client is None else request.client.host
        try:
            principal = access.authenticate(form.text("token"), address)
        except Problem as problem:
            return page("sign_in.html", problem.code.status, wrong=True)
        response = RedirectResponse("/", 303)
        sessions.begin(principal, request, response)
        return response

    @routes.post("/sign-out")
    def sign_out(
        request: Request, form: SentForm, user: Annotated[SignedInUser, signed_in]
    ) -> Response:
        sessions.check_csrf_token(user.session, form.text("csrf_token"))
        response = RedirectResponse("/sign-in", 303)
        sessions.end(request, response)
        return response

    @routes.get("/static/{name}")
    def send_static(name: str) -> Response:
        if name not in _FILES:
            raise Problem(Code.NOT_FOUND)
        return Response(asset(name), headers=_CACHED, media_type=_FILES[name])

    return routes
