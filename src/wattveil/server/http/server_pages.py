"""Shared parts of the pages: sessions, forms, error texts, sign-in and static files."""

import gzip
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qs, urlencode

from fastapi import APIRouter, Depends, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from wattveil.errors import ProductNeedsError, WattveilError
from wattveil.server.auth.access import Access, address_of
from wattveil.server.auth.principals import Principal
from wattveil.server.auth.sessions import COOKIE, Session, Sessions, masked
from wattveil.server.http.compression import accepts_gzip
from wattveil.server.http.problems import Code, Problem, problem_of
from wattveil.server.ledger.administration import PrincipalKind
from wattveil.server.observe.request_record import (
    SecurityEvent,
    note_problem,
    security_event,
)
from wattveil.web.pages import STATIC, asset, render, static_address

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data: blob:; connect-src 'self'; form-action 'self';"
    " frame-ancestors 'none'; base-uri 'none'"
)
"""Scripts are files of this server; Plotly sets inline styles."""

_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""`float` accepts more: 1_0 as ten, and digits of other scripts."""

_LOCAL_PAGE = re.compile(r"(/[A-Za-z0-9._-]+)+|/")
"""Path of a page: one that begins with two slashes would name another host."""
_CACHED = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Vary": "Accept-Encoding",
}
_SAME_ORIGIN = ("same-origin", "none")
"""Values of Sec-Fetch-Site of a form that was not sent by another site."""
_TYPES = {".css": "text/css", ".js": "text/javascript"}
_SIGN_IN_REFUSED = (
    "The token is unknown, expired or revoked. Check that you copied all of it, or ask the"
    " administrator for a new one."
)
_FILES = {
    "plotly.js": _TYPES[".js"],
    **{path.name: _TYPES[path.suffix] for path in STATIC.iterdir() if path.suffix in _TYPES},
}
"""Every file that may be sent, with its media type."""


def _static_file(name: str) -> str | None:
    """Return the file of the last part of an address; None if it is none of this version."""
    return next((file for file in _FILES if static_address(file) == f"/static/{name}"), None)


@cache
def _encoded_asset(name: str) -> bytes:
    """Return the bytes of a file; one copy for all requests."""
    return asset(name).encode()


@cache
def _compressed_asset(name: str) -> bytes:
    """Return a file compressed; once for all requests."""
    return gzip.compress(_encoded_asset(name), mtime=0)


class SignInRequired(Exception):  # noqa: N818 - it redirects
    """The request has no session.

    Parameters
    ----------
    ended
        Whether there was one: the browser sent its cookie.
    """

    def __init__(self, *, ended: bool) -> None:
        self.ended = ended
        super().__init__()


class SignedInUser:
    """Session and principal of a page request."""

    def __init__(self, session: Session, principal: Principal) -> None:
        self.session, self.principal = session, principal

    def page(self, template: str, status: int = 200, **values: object) -> HTMLResponse:
        """Return a page with navigation and CSRF token."""
        token = masked(self.session.csrf_token)
        return page(template, status, principal=self.principal, csrf_token=token, **values)

    def check_admin(self) -> None:
        """Refuse principals that are no administrators."""
        if self.principal.kind is not PrincipalKind.ADMIN:
            security_event(SecurityEvent.ROLE_REFUSED, self.principal.name)
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
            ended = COOKIE in request.cookies
            if ended:
                access.count_failure(address_of(request))
            raise SignInRequired(ended=ended)
        session, principal = found
        return SignedInUser(session, access.check_rate(principal))

    return find_user


def user_of(sessions: Sessions, access: Access, request: Request) -> SignedInUser | None:
    """Return the user of a request, for the menu of an error page; None if it is not known.

    An address that has sent too many unknown cookies gets a page without a menu, and no query.
    """
    address = address_of(request)
    if COOKIE not in request.cookies or not _wants_page(request) or access.has_tried_many(address):
        return None
    try:
        found = sessions.find(request)
        if found is None:
            access.count_failure(address)
            return None
    except REFUSALS:  # the ledger cannot be read: this may be what the page is about
        return None
    return SignedInUser(*found)


async def sent_form(request: Request) -> Form:
    """Return the form of a request."""
    try:
        return Form(await request.body())
    except ValueError:
        raise Problem(Code.INVALID_REQUEST) from None


SentForm = Annotated[Form, Depends(sent_form)]


FIELD_LABELS = {
    "n_clusters": "Number of segments",
    "normalise": "Compare shapes only",
    "by": "Group customers by",
    "clusters_by_group": "Separate segments for each group",
    "label_epsilon": "Epsilon of the labels",
}
"""Names of fields on the page of an order, where they differ from the words of the option."""
PRODUCT_NEEDS = {
    "shares": "“Segments by group” needs “Customer segments” and a choice under “Group customers"
    " by”, without “Separate segments for each group”",
    "synthesis": "“Synthetic customers” needs “Customer segments”, without “Compare shapes only”"
    " and “Separate segments for each group”",
    "labels": "“Labels” needs a number in “Epsilon of the labels”",
}
"""What a product of an order needs that the form does not have, in the words of the form."""
FIELD_NEEDS = {
    "clusters_by_group": "“Separate segments for each group” needs a choice under “Group customers"
    " by”, and excludes “Labels”",
    "products": "choose at least one under “Products”",
}
"""Likewise for a field that breaks one rule only in a form: its values are offered."""


def error_text(error: Exception) -> str:
    """Return the text of an error; it contains public values alone."""
    problem = problem_of(error)
    note_problem(problem.code.name.lower())
    broken: Any = problem.details.get("errors", [])
    if isinstance(error, ProductNeedsError) and error.product in PRODUCT_NEEDS:
        return f"Please correct the form: {PRODUCT_NEEDS[error.product]}."
    if broken:
        rules = "; ".join(map(_form_rule, broken))
        return f"Please correct the form: {rules}."
    scope = problem.details.get("account_scope") or problem.details.get("reason")
    title = problem.code.title
    return f"{title[:1].upper()}{title[1:]}{f' ({scope})' if scope else ''}."


def _form_rule(broken: Mapping[str, str]) -> str:
    """Return a rule that a form breaks: in the words of the form, where the API's are not those."""
    words = FIELD_NEEDS.get(broken["field"])
    return words or f"{_label(broken['field'])} must be {broken['rule']}"


def _label(field: str) -> str:
    """Return the name of a field in words: that of its last part, without a position in a list."""
    name = [part for part in field.split(".") if not part.isdigit()][-1]
    if name in FIELD_LABELS:
        return f"“{FIELD_LABELS[name]}”"
    return name.removeprefix("n_").replace("_", " ")


class ProblemWords(NamedTuple):
    """A problem in plain words, for the page that a browser gets."""

    heading: str
    text: str


PROBLEM_WORDS: Mapping[Code, ProblemWords] = {
    Code.INVALID_REQUEST: ProblemWords(
        "The request could not be read",
        "The address or the form contains a value that is not permitted. Nothing was changed. Go"
        " back to the page and try again.",
    ),
    Code.UNAUTHORIZED: ProblemWords(
        "Sign in first", "This page needs a valid token. Sign in with yours and try again."
    ),
    Code.FORBIDDEN: ProblemWords(
        "You do not have access to this page",
        "The page does not exist, or your account may not open it, or the form was opened in a"
        " session that has ended. Nothing was changed. If you need access, contact the"
        " administrator who issued your token.",
    ),
    Code.BUDGET_REFUSED: ProblemWords(
        "The budget is too small",
        "The remaining budget does not cover this release. Nothing was charged. The quote on the"
        " page of the data set states the maximum epsilon.",
    ),
    Code.REFUSED: ProblemWords("The order was refused", "Nothing was charged."),
    Code.NOT_FOUND: ProblemWords(
        "Page not found",
        "There is no page at this address, or you do not have access to it. Check the address, or"
        " choose a page below.",
    ),
    Code.METHOD_NOT_ALLOWED: ProblemWords(
        "This page cannot be opened this way",
        "The address belongs to a form and cannot be opened or reloaded by itself. Nothing was"
        " changed. Open the form again.",
    ),
    Code.TOO_SLOW: ProblemWords(
        "The request took too long", "The connection was too slow. Nothing was changed. Try again."
    ),
    Code.KEY_CONFLICT: ProblemWords(
        "This order was placed before, with different choices",
        "Nothing was charged. Start a new order on the page of the data set.",
    ),
    Code.NOT_READY: ProblemWords(
        "The release is not ready yet",
        "It is still being computed. Its page, in the list of releases, shows when it is complete.",
    ),
    Code.FAILED: ProblemWords(
        "The release could not be computed",
        "Its budget stays spent. A new order draws new noise and is charged again; contact the"
        " administrator first.",
    ),
    Code.TOO_LARGE: ProblemWords(
        "The request is too large", "Nothing was changed. Send a smaller file or form."
    ),
    Code.HEADERS_TOO_LARGE: ProblemWords(
        "The request is too large",
        "The browser sent more header fields than the server reads. Delete the cookies of this"
        " address and sign in again.",
    ),
    Code.BUSY: ProblemWords(
        "The server is busy", "It received too many requests. Wait a few seconds and try again."
    ),
    Code.INTERNAL: ProblemWords(
        "Something went wrong on the server",
        "The error was recorded. If an order was charged, it is kept and listed under Releases."
        " Contact the administrator if this happens again.",
    ),
    Code.BUNDLE_MISSING: ProblemWords(
        "Files of the release are missing",
        "The release was computed and stays paid, but its files are missing or damaged on the"
        " server. The operator can restore them from a backup. Ordering it again charges nothing.",
    ),
    Code.NOT_CLOSED: ProblemWords(
        "The series has ended, but closing it is not complete",
        "It has no further period. Files of its private state could not be deleted, or files of its"
        " periods are missing or damaged, so that its end is not stated. Correct this, and close it"
        " again.",
    ),
    Code.NOT_ERASED: ProblemWords(
        "The erasure is not complete",
        "The private state of the series is in use, missing or damaged, or a period that was added"
        " before reads its file later. Correct the cause, and erase again. If the state is lost,"
        " close the series.",
    ),
    Code.NOT_RECORDED: ProblemWords(
        "The release waits to be recorded",
        "It was computed and stays paid. It can be read as soon as the server has recorded it; an"
        " error of its disk prevents that now. Inform the operator, and try again later.",
    ),
    Code.UNAVAILABLE: ProblemWords(
        "The server is temporarily unavailable",
        "The ledger or the data cannot be reached. Try again in a few minutes. If you were placing"
        " an order, repeat it from the same page: it is charged only once.",
    ),
}


def _wants_page(request: Request) -> bool:
    """Whether the client is a browser, and the address is none of the API."""
    is_page = not request.url.path.startswith("/v1/")
    return is_page and "text/html" in request.headers.get("Accept", "")


def problem_response(
    request: Request, problem: Problem, user: SignedInUser | None = None
) -> Response:
    """Return a problem as a page to a browser, and as JSON to every other client."""
    note_problem(problem.code.name.lower())
    if not _wants_page(request):
        return problem.response()
    words, number = PROBLEM_WORDS[problem.code], problem.details.get("id")
    show = page if user is None else user.page
    response = show("problem.html", problem.code.status, words=words, number=number)
    response.headers.update(problem.headers)
    return response


REFUSALS = (Problem, WattveilError)
"""Errors that a page shows beside its form."""


async def redirect_to_sign_in(request: Request, error: Exception) -> Response:
    """Redirect to the sign-in page, which leads back to the page that was requested."""
    query = {"ended": "yes"} if isinstance(error, SignInRequired) and error.ended else {}
    if request.method == "GET" and local_page(request.url.path) != "/":
        query["to"] = request.url.path
    response = RedirectResponse(f"/sign-in?{urlencode(query)}" if query else "/sign-in", 303)
    response.delete_cookie(COOKIE)
    return response


def local_page(path: str) -> str:
    """Return the path of a page of this server; ``/`` in the place of any other address."""
    return path if _LOCAL_PAGE.fullmatch(path) else "/"


def sign_in_page(
    access: Access,
    *,
    to: str,
    ended: bool = False,
    refusal: str | None = None,
    status: int = 200,
) -> HTMLResponse:
    """Return the page of signing in, with the way to the identity provider if there is one."""
    known = access.provider is not None
    return page("sign_in.html", status, provider=known, to=to, ended=ended, refusal=refusal)


def sign_in_pages(access: Access, sessions: Sessions) -> APIRouter:
    """Return the pages for signing in and out, and the static files."""
    routes = APIRouter(include_in_schema=False)
    signed_in = Depends(session_dependency(sessions, access))

    @routes.get("/sign-in")
    def show_sign_in(ended: str = "", to: str = "/") -> HTMLResponse:
        return sign_in_page(access, to=local_page(to), ended=bool(ended))

    @routes.post("/sign-in")
    def sign_in(request: Request, form: SentForm) -> Response:
        if request.headers.get("Sec-Fetch-Site", "none") not in _SAME_ORIGIN:
            security_event(SecurityEvent.FORM_REFUSED, None)
            raise Problem(Code.FORBIDDEN)  # login CSRF
        to = local_page(form.text("to"))
        try:
            principal = access.sign_in(form.text("token"), address_of(request))
        except Problem as problem:
            note_problem(problem.code.name.lower())
            security_event(SecurityEvent.SIGN_IN_REFUSED, None)
            known = problem.code is Code.UNAUTHORIZED
            refusal = _SIGN_IN_REFUSED if known else error_text(problem)
            status = problem.code.status
            return sign_in_page(access, to=to, refusal=refusal, status=status)
        response = RedirectResponse(to, 303)
        sessions.begin(principal, request, response)
        security_event(SecurityEvent.SIGNED_IN, principal.name)
        return response

    @routes.post("/sign-out")
    def sign_out(
        request: Request, form: SentForm, user: Annotated[SignedInUser, signed_in]
    ) -> Response:
        sessions.check_csrf_token(user.session, form.text("csrf_token"))
        response = RedirectResponse("/sign-in", 303)
        sessions.end(request, response)
        security_event(SecurityEvent.SIGNED_OUT, user.principal.name)
        return response

    @routes.get("/static/{name}")
    def send_static(name: str, request: Request) -> Response:
        found = _static_file(name)
        if found is None:
            raise Problem(Code.NOT_FOUND)
        if not accepts_gzip(request.headers.get("Accept-Encoding", "")):
            return Response(_encoded_asset(found), headers=_CACHED, media_type=_FILES[found])
        packed = {**_CACHED, "Content-Encoding": "gzip"}
        return Response(_compressed_asset(found), headers=packed, media_type=_FILES[found])

    return routes
