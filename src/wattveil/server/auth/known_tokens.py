"""Tokens that were found valid a moment ago: most requests need no query for theirs.

A token is known for a second. What this process writes, such as a revocation, ends that at once;
what another process writes takes effect within the second.
"""

import time
from collections import OrderedDict
from datetime import UTC, datetime
from typing import NamedTuple

from wattveil.server.auth import principals
from wattveil.server.auth.principals import Principal
from wattveil.server.ledger.ledger import Ledger

_KNOWN_SECONDS = 1.0
_REMEMBERED = 1000


class _Known(NamedTuple):
    principal: Principal
    until: float
    writes: int


class KnownTokens:
    """Finds the principals of tokens, with the ones that it has found in the last second."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def recent(self, text: str) -> Principal | None:
        """Return the principal of a token that was found a moment ago; None says nothing."""
        found = self._known.get(principals.sha256(text))
        if found is None or found.until < time.monotonic() or found.writes != self._ledger.writes:
            return None
        return found.principal

    def find(self, text: str) -> Principal | None:
        """Return the principal of a token; None if it is invalid."""
        if (recent := self.recent(text)) is not None:
            return recent
        writes, now = self._ledger.writes, time.monotonic()
        with self._ledger.reading() as connection:
            found = principals.principal_of_token(connection, text)
        if found is not None:
            left = (found.expires_at - datetime.now(UTC)).total_seconds()
            until = now + min(_KNOWN_SECONDS, left)
            self._known[principals.sha256(text)] = _Known(found, until, writes)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found
