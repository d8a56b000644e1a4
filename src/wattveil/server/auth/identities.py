"""Principals of people who sign in at a provider: created at their first sign-in.

A person is known by issuer and subject, never by name: a name can be chosen, and must not lead to
the account of somebody else.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from wattveil.server.auth.identity_provider import Identity
from wattveil.server.auth.principals import (
    Principal,
    PrincipalAction,
    random_secret,
    record_event,
    sha256,
)
from wattveil.server.ledger.administration import PrincipalKind, add_principal
from wattveil.server.ledger.journal import LedgerTransaction, now
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_tables import identity, principal, token
from wattveil.server.ledger.order import is_name
from wattveil.server.observe.request_record import SecurityEvent, security_event

PROVIDER = "(identity provider)"
"""Actor of what follows from a sign-in. Names of principals have no parentheses."""

_SESSION_HOURS = 8


def principal_of(ledger: Ledger, person: Identity) -> Principal | None:
    """Return the principal of a person, with the role of its groups; None if it is disabled.

    It is created for a person who is new, and its role is changed if the groups have changed, by
    the newest token only. An older one, which may state groups that the person has left, changes
    nothing: it has the lower of the role that it states and the role of the newest.
    """
    with ledger.reading() as connection:
        row = _find(connection, person)
    if row is None or _is_news(row, person):
        name, event = ledger.write(lambda transaction: _admit(transaction, person))
        if event is not None:
            security_event(event, PROVIDER, about=name, role=person.role.value)
        with ledger.reading() as connection:
            row = _find(connection, person)
    if row is None or row.disabled_at is not None:
        return None
    role = person.role if row.kind == person.role.value else PrincipalKind.ANALYST
    # A JWT is checked with each request, and never known without a query.
    return Principal(row.name, role, token_id=0, expires_at=datetime.now(UTC))


def session_token(ledger: Ledger, signed_in: Principal) -> Principal:
    """Return the principal with a token of its own for one session, which nobody can send.

    So sessions of all principals are ended in the same way: by revoking their token.
    """
    until = datetime.now(UTC) + timedelta(hours=_SESSION_HOURS)

    def write(transaction: LedgerTransaction) -> int:
        owner = select(principal.c.id).where(principal.c.name == signed_in.name)
        row = insert(token).values(
            principal_id=transaction.connection.execute(owner).scalar_one(),
            sha256=sha256(random_secret()),
            made_at=now(),
            expires_at=until.isoformat(timespec="microseconds"),
        )
        return int(transaction.connection.execute(row.returning(token.c.id)).scalar_one())

    return Principal(signed_in.name, signed_in.kind, ledger.write(write), until)


def _is_news(row: Row[Any, Any, Any, Any, Any], person: Identity) -> bool:
    """Whether a token is the newest of its person, or as new and states a lower role.

    Times of issue are in whole seconds: of two tokens with the same one, the lower role counts.
    """
    if row.issued_at is None or person.issued_at > row.issued_at:
        return True
    is_lower = person.role is PrincipalKind.ANALYST and row.kind != person.role.value
    return bool(is_lower and person.issued_at == row.issued_at)


def _admit(transaction: LedgerTransaction, person: Identity) -> tuple[str, SecurityEvent | None]:
    """Create the principal of a person, or change its role; return its name, and what happened."""
    connection = transaction.connection
    row = _find(connection, person, is_locked=True)
    if row is None:
        name = _free_name(connection, person)
        number = add_principal(transaction, name, person.role)
        own = {
            "issuer": person.issuer,
            "subject": person.subject,
            "principal_id": number,
            "issued_at": person.issued_at,
        }
        connection.execute(insert(identity), own)
        record_event(transaction, PrincipalAction.CREATED, name, by=PROVIDER)
        return name, SecurityEvent.PRINCIPAL_CREATED
    name = str(row.name)
    if not _is_news(row, person):  # another request has presented a newer one meanwhile
        return name, None
    issued = update(identity).where(identity.c.id == row.id).values(issued_at=person.issued_at)
    connection.execute(issued)
    if row.kind == person.role.value:
        return name, None
    change = update(principal).where(principal.c.name == name).values(kind=person.role.value)
    connection.execute(change)
    record_event(transaction, PrincipalAction.ROLE, name, by=PROVIDER)
    return name, SecurityEvent.ROLE_CHANGED


def _free_name(connection: Connection, person: Identity) -> str:
    """Return the preferred name if it is valid and free; otherwise one with a hash of the person.

    A name that is taken belongs to somebody else, whatever the provider states.
    """
    digest = hashlib.sha256(f"{person.issuer}\n{person.subject}".encode()).hexdigest()
    wanted = person.name.lower()
    taken = select(principal.c.id).where(principal.c.name == wanted)
    if is_name(wanted) and connection.execute(taken).first() is None:
        return wanted
    return f"person-{digest[:24]}"


def _find(
    connection: Connection, person: Identity, *, is_locked: bool = False
) -> Row[Any, Any, Any, Any, Any] | None:
    """Return principal and newest token of a person; locked, no other process changes them."""
    found = (
        select(
            principal.c.name,
            principal.c.kind,
            principal.c.disabled_at,
            identity.c.id,
            identity.c.issued_at,
        )
        .join(identity, identity.c.principal_id == principal.c.id)
        .where(identity.c.issuer == person.issuer, identity.c.subject == person.subject)
    )
    found = found.with_for_update() if is_locked else found
    return connection.execute(found).one_or_none()
