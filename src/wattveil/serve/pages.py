"""What the pages share: templates, who is there, forms, refusals in words."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import Depends, Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import ValidationError
from starlette.responses import HTMLResponse, RedirectResponse, Response

from wattveil.errors import WattveilError
from wattveil.serve.access import Access
from wattveil.serve.ledger.acts import PrincipalKind
from wattveil.serve.problems import Code, Problem, problem_of
from wattveil.serve.sessions import Session, Sessions
from wattveil.serve.tokens import Holder

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data: blob:; connect-src 'self'; form-action 'self';"
    " frame-ancestors 'none'; base-uri 'none'"
)
"""Scripts are files of ours; Plotly sets styles as it draws."""

STATIC = Path(__file__).with_name("static")

_TEMPLATES = Environment(
    loader=PackageLoader("wattveil.serve"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""Python reads more as a number: 1_0 as ten, and the digits of other scripts."""


class SignInFirst(Exception):  # noqa: N818 - no error: the way to the door
    """Nobody has signed in."""


class Visitor:
    """Somebody at a page, and what their forms must carry."""

    def __init__(self, session: Session, holder: Holder) -> None:
        self.session, self.holder = session, holder

    def page(self, template: str, status: int = 200, **values: object) -> HTMLResponse:
        """Return a page for this visitor."""
        word = self.session.form_word
        return page(template, status, holder=self.holder, form_word=word, **values)

    def check_admin(self) -> None:
        """Refuse whoever is no administrator."""
        if self.holder.kind is not PrincipalKind.ADMIN:
            raise Problem(Code.FORBIDDEN)


class Form:
    """The fields of a form, as they were sent."""

    def __init__(self, body: bytes) -> None:
        text = body.decode("utf-8", "replace")
        self.fields = parse_qs(text, keep_blank_values=True, max_num_fields=200)

    def text(self, name: str) -> str:
        """Return a field; empty if it was not sent."""
        return self.fields.get(name, [""])[0].strip()

    def number(self, name: str) -> float | str | None:
        """Return a number; what is none goes on as text, and is refused where its rule stands."""
        text = self.text(name)
        return float(text) if _DECIMAL.fullmatch(text) else text or None

    def checked(self, name: str) -> bool:
        """Whether a box is checked: of others nothing is sent."""
        return name in self.fields

    def whole(self, name: str) -> int | str | None:
        """Return a whole number, likewise."""
        text = self.text(name)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text or None  # noqa: PLR2004 - digits of a 64-bit number


def page(template: str, status: int = 200, **values: object) -> HTMLResponse:
    """Return a page."""
    known = {"holder": None, **values}
    text = _TEMPLATES.get_template(template).render(known)
    return HTMLResponse(text, status, {"Content-Security-Policy": POLICY})


def visiting(sessions: Sessions, access: Access) -> Callable[[Request], Visitor]:
    """Return the dependency that says who is at a page."""

    def visitor(request: Request) -> Visitor:
        found = sessions.find(request)
        if found is None:
            raise SignInFirst
        session, holder = found
        return Visitor(session, access.counted(holder))

    return visitor


async def sent_form(request: Request) -> Form:
    """Read the form of a request."""
    try:
        return Form(await request.body())
    except ValueError:
        raise Problem(Code.INVALID_REQUEST) from None


SentForm = Annotated[Form, Depends(sent_form)]


def in_words(error: Exception) -> str:
    """Return a refusal as a sentence of public words."""
    if isinstance(error, ValidationError):
        fields = {".".join(map(str, one["loc"])) for one in error.errors()}
        return f"Please look at: {', '.join(sorted(fields))}."
    problem = problem_of(error)
    broken: Any = problem.details.get("errors", [])
    rules = "; ".join(f"{one['field']} must be {one['rule']}" for one in broken)
    scope = problem.details.get("account_scope") or problem.details.get("reason")
    return f"{problem.code.title}{f': {rules}' if rules else ''}{f' ({scope})' if scope else ''}."


REFUSALS = (Problem, WattveilError, ValidationError)
"""What a page shows beside its form instead of ending."""


async def to_the_door(_: Request, __: Exception) -> Response:
    """Send to the sign-in page."""
    return RedirectResponse("/sign-in", 303)
