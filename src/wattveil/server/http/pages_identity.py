"""Pages of sign-in at an identity provider, and of one's own sessions and tokens."""

import base64
import hmac
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from wattveil.server.auth import principals
from wattveil.server.auth.access import Access
from wattveil.server.auth.identities import principal_of, session_token
from wattveil.server.auth.identity_provider import IdentityProvider, PendingSignIn, ProviderError
from wattveil.server.auth.sessions import Sessions
from wattveil.server.http.problems import Code, Problem
from wattveil.server.http.server_pages import (
    REFUSALS,
    SentForm,
    SignedInUser,
    error_text,
    local_page,
    page,
    session_dependency,
)
from wattveil.server.observe.request_record import SecurityEvent, note_problem, security_event
from wattveil.server.server_state import FINGERPRINT_KEY, ServerState

_COOKIE = "wattveil_sign_in"
_SECONDS = 600.0
"""Time to sign in at the provider."""
_CALLBACK = "/sign-in/callback"
_REFUSED = "The identity provider did not confirm who you are, or you have no role here."


class _SealedSignIns:
    """Sign-ins that have begun, kept by the browser itself in a cookie that this server seals.

    Nothing is kept here, so strangers who begin many sign-ins displace none of others. A provider
    accepts each code once.
    """

    def __init__(self, folder: Path) -> None:
        # Of its own purpose, and the same in every process of the data folder.
        key = (folder / FINGERPRINT_KEY).read_bytes()
        self._key = hmac.digest(key, b"sign-in at an identity provider", "sha256")

    def seal(self, begun: PendingSignIn) -> str:
        text = base64.urlsafe_b64encode(json.dumps(asdict(begun)).encode()).decode()
        return f"{text}.{self._mac(text)}"

    def open(self, cookie: str, state: str) -> PendingSignIn | None:
        """Return a sign-in that this server sealed, if the state is its own and it is not late."""
        text, _, mac = cookie.partition(".")
        if not hmac.compare_digest(mac.encode(), self._mac(text).encode()):
            return None
        begun = PendingSignIn(**json.loads(base64.urlsafe_b64decode(text)))
        same = hmac.compare_digest(begun.state.encode(), state.encode("utf-8", "replace"))
        return begun if same and begun.until >= time.time() else None

    def _mac(self, text: str) -> str:
        return hmac.digest(self._key, text.encode("utf-8", "replace"), "sha256").hex()


def provider_pages(state: ServerState, access: Access, sessions: Sessions) -> APIRouter:
    """Return the pages that lead to the identity provider and back; none without a provider."""
    routes = APIRouter(include_in_schema=False)
    if access.provider is None:
        return routes
    pending = _SealedSignIns(state.folder)
    provider: IdentityProvider = access.provider

    @routes.get("/sign-in/provider")
    def begin(request: Request, to: str = "/") -> Response:
        redirect_uri = f"{request.url.scheme}://{request.url.netloc}{_CALLBACK}"
        try:
            address, begun = provider.begin(redirect_uri, to=local_page(to), seconds=_SECONDS)
        except ProviderError:
            raise Problem(Code.UNAVAILABLE) from None
        response = RedirectResponse(address, 303)
        response.set_cookie(
            _COOKIE,
            pending.seal(begun),
            max_age=int(_SECONDS),
            path=_CALLBACK,
            httponly=True,
            samesite="lax",  # the provider sends the browser back: a strict cookie would be missing
            secure=request.url.scheme == "https",
        )
        return response

    @routes.get(_CALLBACK)
    def finish(request: Request, code: str = "") -> Response:
        given = request.query_params.get("state", "")
        begun = pending.open(request.cookies.get(_COOKIE, ""), given)
        person = None
        if begun is not None and code:
            try:
                person = provider.finish(begun, code)
            except ProviderError:
                person = None
        known = None if person is None else principal_of(state.ledger, person)
        if begun is None or known is None:
            security_event(SecurityEvent.IDENTITY_REFUSED, None if known is None else known.name)
            note_problem(Code.UNAUTHORIZED.name.lower())
            refused = page(
                "sign_in.html", 401, refusal=_REFUSED, ended=False, to="/", provider=True
            )
            refused.delete_cookie(_COOKIE, path=_CALLBACK)
            return refused
        # The cookie of the session is strict: it is not sent while the browser comes from another
        # site, so this page leads on to the next.
        response = page("signed_in.html", to=begun.to)
        response.delete_cookie(_COOKIE, path=_CALLBACK)
        sessions.begin(session_token(state.ledger, known), request, response)
        security_event(SecurityEvent.SIGNED_IN, known.name, how="provider")
        return response

    return routes


def session_pages(state: ServerState, access: Access, sessions: Sessions) -> APIRouter:
    """Return the page of one's own sessions and tokens, and of ending them."""
    routes = APIRouter(include_in_schema=False)
    signed_in = Depends(session_dependency(sessions, access))

    def overview(
        user: SignedInUser, *, message: str | None = None, refusal: str | None = None
    ) -> HTMLResponse:
        with state.ledger.reading() as connection:
            tokens = principals.valid_tokens(connection, user.principal.name)
        opened = sessions.of_tokens({one["id"] for one in tokens})
        return user.page(
            "sessions.html",
            200 if refusal is None else 422,
            tokens=tokens,
            sessions=[(one, one.id == user.session.id) for one in opened],
            current=user.session.token_id,
            message=message,
            refusal=refusal,
        )

    @routes.get("/sessions")
    def show(user: Annotated[SignedInUser, signed_in]) -> HTMLResponse:
        return overview(user)

    @routes.post("/sessions/end")
    def end(form: SentForm, user: Annotated[SignedInUser, signed_in]) -> HTMLResponse:
        sessions.check_csrf_token(user.session, form.text("csrf_token"))
        with state.ledger.reading() as connection:
            own = {one["id"] for one in principals.valid_tokens(connection, user.principal.name)}
        if not sessions.end_one(form.text("session"), own):
            raise Problem(Code.NOT_FOUND)
        security_event(SecurityEvent.SESSION_ENDED, user.principal.name)
        return overview(user, message="The session has ended.")

    @routes.post("/sessions/revoke")
    def revoke(form: SentForm, user: Annotated[SignedInUser, signed_in]) -> HTMLResponse:
        sessions.check_csrf_token(user.session, form.text("csrf_token"))
        number, name = form.integer("token"), user.principal.name
        if not isinstance(number, int) or number > 2**31 - 1:
            raise Problem(Code.NOT_FOUND)
        try:
            principals.revoke_token(state.ledger, name, number, by=name)
        except REFUSALS as refusal:
            return overview(user, refusal=error_text(refusal))
        return overview(user, message="The token is revoked, and its sessions have ended.")

    return routes
