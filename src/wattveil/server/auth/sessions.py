"""Sessions of the pages: a cookie instead of a token in every request.

A session is a random identifier in the memory of this process, with the number of its token. A
revoked token ends its sessions, and a restart ends all. Repeated sign-ins end the oldest sessions
of the same token, never those of other tokens.
"""

import hmac
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import xor

from starlette.requests import Request
from starlette.responses import Response

from wattveil.server.auth import principals
from wattveil.server.auth.principals import Principal
from wattveil.server.http.problems import Code, Problem
from wattveil.server.observe.request_record import SecurityEvent, security_event
from wattveil.server.reviewed_orders import ReviewedOrders
from wattveil.server.server_state import ServerState

_SECONDS = 8 * 3600
_COOKIE_SECONDS = 3 * _SECONDS
"""The cookie outlives its session, so that a page can state that the session has ended."""
_MAX_PER_TOKEN = 20
"""Sessions of one token; the oldest ends when a further one begins."""
COOKIE = "wattveil_session"
_SHORT = 16
"""Length of the short name of a session: a part of the hash of its cookie."""


@dataclass(frozen=True)
class Session:
    """Session of a browser."""

    token_id: int
    csrf_token: str
    """Sent with every form: another site can submit a form, but does not have the token."""
    until: float
    begun_at: str
    """Time of the sign-in, for people."""
    address: str
    """Address of the browser at the sign-in."""
    orders: ReviewedOrders = field(default_factory=ReviewedOrders)
    """What its user has reviewed and not ordered yet."""


class Sessions:
    """Sessions of a server."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._open: dict[str, Session] = {}  # the oldest first

    def begin(self, principal: Principal, request: Request, response: Response) -> None:
        """Begin a session, and set its cookie."""
        name = principals.random_secret()
        now = time.monotonic()
        address = "" if request.client is None else request.client.host
        opened = Session(
            principal.token_id,
            principals.random_secret(),
            now + _SECONDS,
            begun_at=datetime.now(UTC).isoformat(timespec="seconds"),
            address=address,
        )
        with self._lock:
            self._open = {key: one for key, one in self._open.items() if one.until > now}
            own = [key for key, one in self._open.items() if one.token_id == principal.token_id]
            for key in own[: 1 - _MAX_PER_TOKEN]:  # room for one more
                del self._open[key]
            self._open[principals.sha256(name)] = opened
        response.set_cookie(
            COOKIE,
            name,
            max_age=_COOKIE_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )

    def end(self, request: Request, response: Response) -> None:
        """End a session."""
        with self._lock:
            self._open.pop(self._name(request), None)
        response.delete_cookie(COOKIE)

    def of_tokens(self, token_ids: Collection[int]) -> list[tuple[str, Session]]:
        """Return the sessions of tokens, each with a short name, the newest first."""
        now = time.monotonic()
        with self._lock:
            return [
                (key[:_SHORT], one)
                for key, one in reversed(self._open.items())
                if one.token_id in token_ids and one.until > now
            ]

    def end_one(self, short: str, token_ids: Collection[int]) -> bool:
        """End a session of one of these tokens by its short name; return whether there was one."""
        with self._lock:
            own = [key for key, one in self._open.items() if one.token_id in token_ids]
            ended = [key for key in own if key[:_SHORT] == short]
            for key in ended:
                del self._open[key]
        return bool(ended)

    def find(self, request: Request) -> tuple[Session, Principal] | None:
        """Return session and principal of a request; None without a valid session."""
        with self._lock:
            found = self._open.get(self._name(request))
        if found is None or found.until < time.monotonic():
            return None
        with self._state.ledger.reading() as connection:
            principal = principals.principal_of_token_id(connection, found.token_id)
        return None if principal is None else (found, principal)

    @staticmethod
    def check_csrf_token(session: Session, word: str) -> None:
        """Refuse a form without the CSRF token of its session."""
        if not hmac.compare_digest(session.csrf_token.encode(), _unmasked(word)):
            security_event(SecurityEvent.FORM_REFUSED, None)
            raise Problem(Code.FORBIDDEN)

    @staticmethod
    def _name(request: Request) -> str:
        return principals.sha256(request.cookies.get(COOKIE, ""))


def masked(word: str) -> str:
    """Return a secret as it is written to a page: different each time, since pages are compressed.

    Half of it is random, and the other half is the secret combined with it.
    """
    pad = principals.random_bytes(len(word))
    return pad.hex() + bytes(map(xor, pad, word.encode())).hex()


def _unmasked(word: str) -> bytes:
    """Return the secret of a masked one; no secret, if it is none."""
    try:
        both = bytes.fromhex(word)
    except ValueError:
        return b""
    half = len(both) // 2
    return bytes(map(xor, both[:half], both[half:]))
