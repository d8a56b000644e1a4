"""What is known about the request that is being answered, for logs, metrics and traces.

A record is carried by a context variable, also into the threads that answer requests. It is
changed in place: a thread has a copy of the context, which holds the same record.
"""

import logging
import re
import uuid
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum

_GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")
"""Identifiers that are accepted from a client or a proxy; others could forge lines of a log."""

SECURITY_LOGGER = "wattveil.security"
_LOG = logging.getLogger(SECURITY_LOGGER)


@dataclass
class RequestRecord:
    """The request that is being answered."""

    id: str
    """Identifier in logs, in traces and in the response."""
    address: str
    """Address of the client, as the trusted proxy states it."""
    is_authenticated: bool = False
    """Whether the sender is a principal, whose rate of requests is limited."""
    is_timed: bool = True
    """Whether its duration may be published: it does not depend on private rows."""
    problem: str | None = None
    """Code of the problem that is sent or shown."""
    events: list["SecurityEvent"] = field(default_factory=list)
    """Security events of this request, for the metrics."""


class SecurityEvent(StrEnum):
    """Closed list of security events: who did what, who was refused."""

    SIGNED_IN = "signed_in"
    SIGNED_OUT = "signed_out"
    SIGN_IN_REFUSED = "sign_in_refused"
    TOKEN_REFUSED = "token_refused"  # noqa: S105 - no secret
    TOO_MANY_REFUSED = "too_many_refused"
    ROLE_REFUSED = "role_refused"
    FORM_REFUSED = "form_refused"
    PRINCIPAL_CREATED = "principal_created"
    PRINCIPAL_DISABLED = "principal_disabled"
    TOKEN_ISSUED = "token_issued"  # noqa: S105 - no secret
    TOKENS_REVOKED = "tokens_revoked"
    TOKEN_REVOKED = "token_revoked"  # noqa: S105 - no secret
    SESSION_ENDED = "session_ended"
    ROLE_CHANGED = "role_changed"
    IDENTITY_REFUSED = "identity_refused"
    BUDGET_SET = "budget_set"
    DATASET_REGISTERED = "dataset_registered"
    DATASET_CLOSED = "dataset_closed"
    SERIES_OPENED = "series_opened"
    SERIES_CLOSED = "series_closed"
    SERIES_ERASURE = "series_erasure"
    RELEASE_SHARED = "release_shared"


_REFUSED = {
    SecurityEvent.SIGN_IN_REFUSED,
    SecurityEvent.TOKEN_REFUSED,
    SecurityEvent.TOO_MANY_REFUSED,
    SecurityEvent.ROLE_REFUSED,
    SecurityEvent.FORM_REFUSED,
    SecurityEvent.IDENTITY_REFUSED,
}

_CURRENT: ContextVar[RequestRecord | None] = ContextVar("wattveil_request", default=None)


def begin_record(given_id: str, address: str) -> RequestRecord:
    """Begin the record of a request, with the identifier that was sent if it is acceptable."""
    is_given = given_id != "" and _GIVEN_ID.fullmatch(given_id)
    number = given_id if is_given else uuid.uuid4().hex
    record = RequestRecord(number, address)
    _CURRENT.set(record)
    return record


def current_record() -> RequestRecord | None:
    """Return the record of the request that is being answered; None outside of requests."""
    return _CURRENT.get()


def note_principal() -> None:
    """Record that the sender of the request is a principal."""
    record = _CURRENT.get()
    if record is not None:
        record.is_authenticated = True


def note_untimed() -> None:
    """Record that the request waits for a process that reads rows."""
    record = _CURRENT.get()
    if record is not None:
        record.is_timed = False


def note_problem(code: str) -> None:
    """Record the code of the problem that is sent or shown."""
    record = _CURRENT.get()
    if record is not None:
        record.problem = code


def security_event(event: SecurityEvent, principal: str | None, **about: str) -> None:
    """Log a security event with its principal, and with the address and number of the request.

    ``about`` holds checked names alone, such as those of data sets and principals: text of a client
    that was not checked could forge a line or contain a secret.
    """
    record = _CURRENT.get()
    if record is not None:
        record.events.append(event)
    fields = {"event": event.value, "principal": principal, **about}
    level = logging.WARNING if event in _REFUSED else logging.INFO
    _LOG.log(level, event.value, extra={"fields": fields})
