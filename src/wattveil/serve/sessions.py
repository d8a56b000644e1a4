"""Sessions of the pages: a cookie instead of a token in every request.

A session is a random name that this process remembers, with the number of the token that opened it.
A token that is taken away closes its sessions. A restart closes all. Whoever signs in again and
again closes sessions of their own, never those of others.
"""

import hmac
import threading
import time
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from wattveil.serve import tokens
from wattveil.serve.house import House
from wattveil.serve.problems import Code, Problem
from wattveil.serve.tokens import Holder

_SECONDS = 8 * 3600
_MOST_OF_ONE = 20
"""Sessions of one token; the oldest is closed for a further one."""
COOKIE = "wattveil_session"


@dataclass(frozen=True)
class Session:
    """Somebody at a page."""

    token_id: int
    form_word: str
    """Stands in every form: another site can send a form here, and does not know it."""
    until: float


class Sessions:
    """The sessions of a house."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._lock = threading.Lock()
        self._open: dict[str, Session] = {}  # the oldest first

    def begin(self, holder: Holder, request: Request, response: Response) -> None:
        """Open a session, and hand out its cookie."""
        name = tokens.random_word()
        now = time.monotonic()
        opened = Session(holder.token_id, tokens.random_word(), now + _SECONDS)
        with self._lock:
            self._open = {key: one for key, one in self._open.items() if one.until > now}
            own = [key for key, one in self._open.items() if one.token_id == holder.token_id]
            for key in own[: 1 - _MOST_OF_ONE]:  # room for one more
                del self._open[key]
            self._open[tokens.sha256(name)] = opened
        response.set_cookie(
            COOKIE,
            name,
            max_age=_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )

    def end(self, request: Request, response: Response) -> None:
        """Forget a session."""
        with self._lock:
            self._open.pop(self._name(request), None)
        response.delete_cookie(COOKIE)

    def find(self, request: Request) -> tuple[Session, Holder] | None:
        """Return who is at a page; None if nobody has signed in, or may no longer."""
        with self._lock:
            found = self._open.get(self._name(request))
        if found is None or found.until < time.monotonic():
            return None
        with self._house.ledger.reading() as connection:
            holder = tokens.still_good(connection, found.token_id)
        return None if holder is None else (found, holder)

    @staticmethod
    def check_form(session: Session, word: str) -> None:
        """Refuse a form that did not come from one of our pages."""
        if not hmac.compare_digest(session.form_word.encode(), word.encode("utf-8", "replace")):
            raise Problem(Code.FORBIDDEN)

    @staticmethod
    def _name(request: Request) -> str:
        return tokens.sha256(request.cookies.get(COOKIE, ""))
