"""Authentication, rate limits and authorisation: what is not permitted here is refused."""

import asyncio
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from wattveil.errors import LedgerUnavailableError
from wattveil.server.auth.identities import principal_of
from wattveil.server.auth.identity_provider import IdentityProvider, ProviderError
from wattveil.server.auth.known_tokens import KnownTokens
from wattveil.server.auth.principals import Principal, sha256
from wattveil.server.client_addresses import counted_source
from wattveil.server.datasets import Dataset, admitted_to, all_datasets, find_dataset
from wattveil.server.http.problems import Code, Problem
from wattveil.server.ledger.administration import PrincipalKind
from wattveil.server.ledger.reserved_series import is_period
from wattveil.server.observe.request_record import (
    SecurityEvent,
    note_principal,
    security_event,
)
from wattveil.server.ordered_releases import ANY_PRINCIPAL, OrderedRelease, find_ordered, readers
from wattveil.server.server_state import ServerState

_REMEMBERED = 10_000
_REMEMBERED_READERS = 100
"""Tokens with which metrics were read, for the time in which the database does not respond."""
_READER_REMEMBERED = timedelta(hours=1)
_MAX_READING_SECONDS = 1.0
"""Time to wait for a reading that requests share; then each reads its token itself."""
_JWT = re.compile(r"[\w-]{10,4000}\.[\w-]{10,8000}\.[\w-]{10,4000}", re.ASCII)
"""Form of a signed JWT; a token of this server has no dots."""


@dataclass(frozen=True)
class Rate:
    """Token bucket: burst size and refill rate."""

    burst: float
    per_second: float


class Limiter:
    """Rate limiter by name; the least recently used names are dropped."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._lock = threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admits(self, name: str, requests: float = 1.0) -> bool:
        """Count a request, or what it may take, and return whether it is within the rate."""
        now = time.monotonic()
        with self._lock:
            left = self._left_of(name, now)
            admitted = left >= requests
            self._left.pop(name, None)
            self._left[name] = (left - requests if admitted else left, now)
            if len(self._left) > _REMEMBERED:
                self._left.popitem(last=False)
        return admitted

    def count(self, name: str, requests: float) -> None:
        """Count what a request has taken beyond what was counted, or less if it is negative."""
        now = time.monotonic()
        with self._lock:
            self._left[name] = (self._left_of(name, now) - requests, now)

    def would_admit(self, name: str) -> bool:
        """Return whether a request is within the rate, without counting it."""
        with self._lock:
            return self._left_of(name, time.monotonic()) >= 1.0

    def _left_of(self, name: str, now: float) -> float:
        left, then = self._left.get(name, (self._rate.burst, now))
        return min(self._rate.burst, left + (now - then) * self._rate.per_second)


_REQUEST_RATE = Rate(burst=100, per_second=20)
_PRICED_RATE = Rate(burst=24, per_second=4)
_PRICE_SECONDS = 0.05
_PRICES_RESERVED = 5.0
"""Requests that a quote or an order counts as while it is priced, so that four at most of one
principal are priced at the same time."""
_BODY_BYTES = 4096
"""A JSON body counts as one more request for each of these: reading 256 KiB of it may occupy the
event loop for 15 ms."""
_WRITTEN_SECONDS = 0.005
"""A table that is written as JSON counts as one more request for each of these, of processor time:
a large one takes 30 ms."""
_FAILED_TOKEN_RATE = Rate(burst=20, per_second=0.5)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Rates of requests per principal, and of invalid tokens and cookies per address."""

    requests: Rate = _REQUEST_RATE
    priced: Rate = _PRICED_RATE
    """Of quotes and orders. Each counts once, and again for every 50 ms of processor time: new
    prices take 40 to 330 ms."""
    failed_tokens: Rate = _FAILED_TOKEN_RATE


class _Reader(NamedTuple):
    """A principal that has read metrics."""

    principal: Principal
    until: datetime
    ended: int
    """Number of accesses that had been ended by then."""


class Access:
    """Authenticates requests, and finds what a principal may read."""

    def __init__(
        self, state: ServerState, limits: Limits, provider: IdentityProvider | None = None
    ) -> None:
        self._state, self.provider = state, provider
        self._tokens = KnownTokens(state.ledger)
        self._requests = Limiter(limits.requests)
        self._priced = Limiter(limits.priced)
        self._reserved = min(_PRICES_RESERVED, limits.priced.burst)
        self._failed_tokens = Limiter(limits.failed_tokens)
        self._readers_of_metrics: OrderedDict[str, _Reader] = OrderedDict()

    def sign_in(self, text: str, address: str) -> Principal:
        """Return the principal of a token of this server that may begin a session.

        A JWT may not: the session would outlive it.
        """
        return _not_monitor(self._checked(self._tokens.find(text), text, address))

    def _authenticated(self, request: Request) -> Principal:
        text = _bearer(request)
        return self._checked(self._find(text), text, address_of(request))

    def _checked(self, principal: Principal | None, text: str, address: str) -> Principal:
        """Count a request; refuse invalid tokens, and addresses that try many."""
        if principal is None:
            self.count_failure(address)
            if text:  # a request without a token is no attempt
                security_event(SecurityEvent.TOKEN_REFUSED, None)
            raise Problem(Code.UNAUTHORIZED)
        return self.check_rate(principal)

    def count_failure(self, address: str) -> None:
        """Count an invalid token or an unknown session, and refuse addresses that try many."""
        if not self._failed_tokens.admits(counted_source(address)):
            security_event(SecurityEvent.TOO_MANY_REFUSED, None)
            raise Problem(Code.BUSY)

    def has_tried_many(self, address: str) -> bool:
        """Whether an address has sent too many invalid tokens or unknown sessions."""
        return not self._failed_tokens.would_admit(counted_source(address))

    def check_rate(self, principal: Principal) -> Principal:
        """Count a request of a principal, and refuse it above the rate."""
        if not self._requests.admits(principal.name):
            raise Problem(Code.BUSY)
        note_principal()
        return principal

    @contextmanager
    def pricing(self, principal: Principal) -> Iterator[None]:
        """Count a quote or an order of a principal, by its time too; refuse it above the rate.

        Its time is known afterwards: meanwhile it counts as much as most take.
        """
        reserved = self._reserved
        if not self._priced.admits(principal.name, reserved):
            raise Problem(Code.BUSY)
        began = time.thread_time()
        try:
            yield
        finally:
            taken = 1.0 + (time.thread_time() - began) / _PRICE_SECONDS
            self._priced.count(principal.name, taken - reserved)

    @contextmanager
    def writing(self, principal: Principal) -> Iterator[None]:
        """Count what is written for a principal by the processor time that it takes."""
        began = time.thread_time()
        try:
            yield
        finally:
            taken = (time.thread_time() - began) / _WRITTEN_SECONDS
            self._requests.count(principal.name, taken)

    def identify(self, request: Request, *, json_bytes: int = 0) -> Principal | None:
        """Return the principal of a request, without counting it; None if the token is invalid.

        If it has a JSON body, that is counted by its size, before it is parsed, and an invalid
        token is refused and counted; None if there is no token.
        """
        text = _bearer(request)
        principal = self._find(text)
        if principal is None and text and json_bytes:
            self._checked(None, text, address_of(request))
        more = json_bytes // _BODY_BYTES
        if principal is not None and more and not self._requests.admits(principal.name, more):
            raise Problem(Code.BUSY)
        return principal

    def _find(self, text: str) -> Principal | None:
        """Return the principal of a token of this server, or of a JWT of the provider."""
        if self.provider is not None and _JWT.fullmatch(text):
            try:
                person = self.provider.identify(text)
            except ProviderError:
                return None
            return None if person is None else principal_of(self._state.ledger, person)
        return self._tokens.find(text) if text else None

    def principal(self, request: Request) -> Principal:
        """Return the principal of a request that may use the service; monitors may not."""
        return _not_monitor(self._authenticated(request))

    def monitor(self, request: Request) -> Principal:
        """Return the principal of a request for metrics: a monitor or an administrator.

        While the database does not respond, a token is valid that was valid when metrics were last
        read with it: metrics are needed then, and the token can read nothing else. It is valid for
        an hour, since another process may have revoked it; this one has not.
        """
        text = _bearer(request)
        given, ended = sha256(text), self._state.ledger.accesses_ended
        seen = self._readers_of_metrics.pop(given, None)
        until = datetime.now(UTC) + _READER_REMEMBERED
        try:
            principal = self._authenticated(request)
        except LedgerUnavailableError:
            if seen is None or seen.until <= datetime.now(UTC) or seen.ended != ended:
                raise
            principal, until = self.check_rate(seen.principal), seen.until
        if principal.kind is PrincipalKind.ANALYST:
            raise _role_refused(principal)
        if not _JWT.fullmatch(text):
            until = min(until, principal.expires_at)
            self._readers_of_metrics[given] = _Reader(principal, until, ended)
            while len(self._readers_of_metrics) > _REMEMBERED_READERS:
                self._readers_of_metrics.popitem(last=False)
        return principal

    async def current(self, request: Request) -> Principal:
        """Return the principal of a request; a thread is used only if its token must be read."""
        authorization = request.headers.get("Authorization", "")
        await self.wait_for_reading(authorization)
        recent = self.recent(authorization)
        return await run_in_threadpool(self.principal, request) if recent is None else recent

    def recent(self, authorization: str) -> Principal | None:
        """Return the principal of a token that was found valid a moment ago, and count the request.

        None if the token must be read, the request is above the rate, or the principal a monitor.
        """
        recent = self._tokens.recent(_token_in(authorization))
        if recent is None or recent.kind is PrincipalKind.MONITOR:
            return None
        if not self._requests.admits(recent.name):
            return None
        note_principal()
        return recent

    async def wait_for_reading(self, authorization: str) -> None:
        """Wait until a token that was valid lately has been read again, if it must be."""
        reading = self._tokens.reading(_token_in(authorization))
        if reading is not None:
            await asyncio.wait([asyncio.wrap_future(reading)], timeout=_MAX_READING_SECONDS)

    def admin(self, request: Request) -> Principal:
        """Return the principal of a request that only administrators may send."""
        principal = self.principal(request)
        if principal.kind is not PrincipalKind.ADMIN:
            raise _role_refused(principal)
        return principal

    def datasets(self, principal: Principal) -> list[Dataset]:
        """Return the data sets that a principal may read, by name."""
        with self._state.ledger.reading() as connection:
            known = all_datasets(connection)
            if principal.kind is PrincipalKind.ADMIN:
                return known
            admitted = admitted_to(connection, principal.name)
        return [one for one in known if one.name in admitted]

    def dataset(self, principal: Principal, name: str) -> Dataset:
        """Return a data set that a principal may read; unknown names are refused alike."""
        with self._state.ledger.reading() as connection:
            found = find_dataset(connection, name) if name.isprintable() else None
            seen = principal.kind is PrincipalKind.ADMIN or name in admitted_to(
                connection, principal.name
            )
        if found is None or not seen:
            raise Problem(Code.FORBIDDEN)
        return found

    def release(self, principal: Principal, release_id: str) -> OrderedRelease:
        """Return a release that a principal may read; administrators: all.

        Others: their own, shared ones, and periods of series of their data sets.
        """
        with self._state.ledger.reading() as connection:
            found = find_ordered(connection, release_id)
            seen = found is not None and (
                owns(principal, found)
                or not {principal.name, ANY_PRINCIPAL}.isdisjoint(readers(connection, found))
                or (
                    is_period(found.charge)
                    and found.dataset in admitted_to(connection, principal.name)
                )
            )
        if found is None or not seen:
            raise Problem(Code.NOT_FOUND)
        return found

    def own_release(self, principal: Principal, release_id: str) -> OrderedRelease:
        """Return a release that a principal may share."""
        found = self.release(principal, release_id)
        if not owns(principal, found):
            raise Problem(Code.FORBIDDEN)
        return found


def address_of(request: Request) -> str:
    """Return the address of the client, as the trusted proxy states it; empty if unknown."""
    return "" if request.client is None else request.client.host


def _not_monitor(principal: Principal) -> Principal:
    """Refuse a monitor, whose token is for metrics alone."""
    if principal.kind is PrincipalKind.MONITOR:
        raise _role_refused(principal)
    return principal


def _role_refused(principal: Principal) -> Problem:
    security_event(SecurityEvent.ROLE_REFUSED, principal.name)
    return Problem(Code.FORBIDDEN)


def _bearer(request: Request) -> str:
    """Return the token in the headers of a request; empty if there is none."""
    return _token_in(request.headers.get("Authorization", ""))


def _token_in(authorization: str) -> str:
    scheme, _, text = authorization.partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def owns(principal: Principal, ordered: OrderedRelease) -> bool:
    """Whether a principal may share a release."""
    return principal.kind is PrincipalKind.ADMIN or ordered.principal == principal.name
