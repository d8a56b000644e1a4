"""Tokens that were found valid a moment ago: most requests need no query for theirs.

A token is known for a second. What this process writes, such as a revocation, ends that at once;
what another process writes takes effect within the second. A revocation is confirmed after that
second if the server has several processes (`Ledger.end_access`). A token that is used in the second
half of its second is read again in the background, so that requests need not wait for it. Requests
that come together after a pause wait for one such reading.
"""

import threading
import time
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from wattveil.errors import LedgerUnavailableError
from wattveil.server.auth import principals
from wattveil.server.auth.principals import Principal
from wattveil.server.ledger.ledger import CACHED_SECONDS, Ledger

_REMEMBERED = 1000
_MAX_READING = 32
"""Tokens that wait to be read in the background; requests with others wait for theirs."""
_LOCKS = 64


class _Known(NamedTuple):
    principal: Principal
    read_again_at: float
    until: float
    writes: int


class KnownTokens:
    """Finds the principals of tokens, with the ones that it has found in the last second."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._locks = [threading.Lock() for _ in range(_LOCKS)]
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="tokens")
        self._reading: dict[str, Future[None]] = {}
        self._submitting = threading.Lock()

    def recent(self, text: str) -> Principal | None:
        """Return the principal of a token that was found a moment ago; None says nothing."""
        return self._recent(principals.sha256(text))

    def reading(self, text: str) -> Future[None] | None:
        """Return the reading of a token that was valid when last read, and is not known any more.

        None for every other token: tokens that somebody makes up are not read here.
        """
        given = principals.sha256(text)
        if given not in self._known or self._recent(given) is not None:
            return None
        return self._start_reading(given)

    def find(self, text: str) -> Principal | None:
        """Return the principal of a token; None if it is invalid."""
        given = principals.sha256(text)
        with self._locks[int(given[:8], 16) % _LOCKS]:  # requests with one token share a query
            return self._recent(given) or self._read(given)

    def _recent(self, given: str) -> Principal | None:
        found, now = self._known.get(given), time.monotonic()
        if found is None or found.until < now or found.writes != self._ledger.writes:
            return None
        if found.read_again_at < now:
            self._start_reading(given)
        return found.principal

    def _start_reading(self, given: str) -> Future[None] | None:
        """Read a token in the background, once at a time; None if too many are being read."""
        with self._submitting:
            if given not in self._reading and len(self._reading) < _MAX_READING:
                self._reading[given] = self._reader.submit(self._read_again, given)
            return self._reading.get(given)

    def _read_again(self, given: str) -> None:
        try:
            with suppress(LedgerUnavailableError):  # the next request reads it, and states this
                self._read(given)
        finally:
            with self._submitting:
                del self._reading[given]

    def _read(self, given: str) -> Principal | None:
        """Read a token by its hash, and remember it if it is valid."""
        writes, now = self._ledger.writes, time.monotonic()
        with self._ledger.reading() as connection:
            found = principals.principal_of_token_hash(connection, given)
        if found is None:
            self._known.pop(given, None)
            return None
        left = min(CACHED_SECONDS, (found.expires_at - datetime.now(UTC)).total_seconds())
        self._known[given] = _Known(found, now + left / 2, now + left, writes)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return found
