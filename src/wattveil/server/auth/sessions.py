"""Sessions of the pages: a cookie instead of a token in every request.

A session is a random identifier, of which the database has the hash, with the number of its token:
every process of the server knows it, also after a restart. A revoked token ends its sessions.
Repeated sign-ins end the oldest sessions of the same token, never those of other tokens.
"""

import hmac
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import xor

from sqlalchemy import ColumnElement, delete, insert, select
from starlette.requests import Request
from starlette.responses import Response

from wattveil.server.auth import principals
from wattveil.server.auth.principals import Principal
from wattveil.server.http.problems import Code, Problem
from wattveil.server.ledger.journal import LedgerTransaction, now
from wattveil.server.ledger.ledger_tables import session
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
class OpenSession:
    """A session as its user sees it in the list of all."""

    id: int
    short: str
    """Short name, which ends it."""
    token_id: int
    begun_at: str
    """Time of the sign-in, for people."""
    address: str
    """Address of the browser at the sign-in."""


@dataclass(frozen=True)
class Session:
    """Session of the browser that sent a request."""

    id: int
    token_id: int
    csrf_token: str
    """Sent with every form: another site can submit a form, but does not have the token. It follows
    from the cookie, which is not stored: neither is the token."""
    orders: ReviewedOrders
    """What its user has reviewed and not ordered yet."""


class Sessions:
    """Sessions of a server."""

    def __init__(self, state: ServerState) -> None:
        self._ledger = state.ledger

    def begin(self, principal: Principal, request: Request, response: Response) -> None:
        """Begin a session, and set its cookie."""
        name = principals.random_secret()
        at = datetime.now(UTC)
        row: dict[str, str | int] = {
            "sha256": principals.sha256(name),
            "token_id": principal.token_id,
            "begun_at": at.isoformat(timespec="seconds"),
            "expires_at": (at + timedelta(seconds=_SECONDS)).isoformat(timespec="microseconds"),
            "address": "" if request.client is None else request.client.host,
        }
        self._ledger.write(partial(_begin, row=row))
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
        this = delete(session).where(session.c.sha256 == principals.sha256(_cookie(request)))
        self._ledger.write(lambda transaction: transaction.connection.execute(this))
        response.delete_cookie(COOKIE)

    def of_tokens(self, token_ids: Collection[int]) -> list[OpenSession]:
        """Return the sessions of tokens, the newest first."""
        found = select(session).where(session.c.token_id.in_(token_ids), _is_open())
        with self._ledger.reading() as connection:
            rows = connection.execute(found.order_by(session.c.id.desc())).all()
        return [
            OpenSession(row.id, row.sha256[:_SHORT], row.token_id, row.begun_at, row.address)
            for row in rows
        ]

    def end_one(self, short: str, token_ids: Collection[int]) -> bool:
        """End a session of one of these tokens by its short name; return whether there was one."""
        ended = {one.id for one in self.of_tokens(token_ids) if one.short == short}
        if ended:
            row = delete(session).where(session.c.id.in_(ended))
            self._ledger.write(lambda transaction: transaction.connection.execute(row))
        return bool(ended)

    def find(self, request: Request) -> tuple[Session, Principal] | None:
        """Return session and principal of a request; None without a valid session."""
        if not (name := _cookie(request)):
            return None
        given = session.c.sha256 == principals.sha256(name)
        with self._ledger.reading() as connection:
            row = connection.execute(select(session).where(given, _is_open())).one_or_none()
            if row is None:
                return None
            principal = principals.principal_of_token_id(connection, row.token_id)
        if principal is None:
            return None
        secret = name.encode("utf-8", "surrogateescape")
        csrf_token = hmac.digest(secret, b"forms of this session", "sha256").hex()
        orders = ReviewedOrders(self._ledger, row.id)
        return Session(row.id, row.token_id, csrf_token, orders), principal

    @staticmethod
    def check_csrf_token(session: Session, word: str) -> None:
        """Refuse a form without the CSRF token of its session."""
        if not hmac.compare_digest(session.csrf_token.encode(), _unmasked(word)):
            security_event(SecurityEvent.FORM_REFUSED, None)
            raise Problem(Code.FORBIDDEN)


def _cookie(request: Request) -> str:
    return request.cookies.get(COOKIE, "")


def _is_open() -> ColumnElement[bool]:
    return session.c.expires_at > now()


def _begin(transaction: LedgerTransaction, row: dict[str, str | int]) -> None:
    """Store a session; remove those that have ended, and the oldest of a token beyond its limit."""
    connection = transaction.connection
    connection.execute(delete(session).where(session.c.expires_at <= now()))
    connection.execute(insert(session), row)
    own = session.c.token_id == row["token_id"]
    newest = select(session.c.id).where(own).order_by(session.c.id.desc())
    kept = connection.execute(newest.limit(_MAX_PER_TOKEN)).scalars().all()
    connection.execute(delete(session).where(own, session.c.id < kept[-1]))


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
