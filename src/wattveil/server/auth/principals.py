"""Principals (administrators and analysts) and their tokens.

A token is 256 random bits, valid until it expires or is revoked. Only its hash is stored.
"""

import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, update

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.server.ledger.administration import (
    PrincipalKind,
    add_principal,
    disable_principal,
    principal_id,
)
from wattveil.server.ledger.database import existing_database, prepare_database, writing
from wattveil.server.ledger.database_record import check_identity
from wattveil.server.ledger.journal import LedgerTransaction, now
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_tables import identity, principal, principal_event, token
from wattveil.server.observe.request_record import SecurityEvent, security_event

PREFIX = "wattveil_"
"""Makes a leaked token recognisable, for example to secret scanners of repositories."""

_BYTES = 32
MAX_TOKEN_DAYS = 3660
DEFAULT_TOKEN_DAYS = 90


@dataclass(frozen=True)
class Principal:
    """Authenticated principal, with the number of its token."""

    name: str
    kind: PrincipalKind
    token_id: int
    expires_at: datetime
    """End of the token."""


def _issue(transaction: LedgerTransaction, name: str, *, days: int = DEFAULT_TOKEN_DAYS) -> str:
    """Create a token of a principal; its text is not stored."""
    checks.integer("days", days, minimum=1, maximum=MAX_TOKEN_DAYS)
    text = PREFIX + random_secret()
    until = datetime.now(UTC) + timedelta(days=days)
    row = insert(token).values(
        principal_id=principal_id(transaction.connection, name),
        sha256=sha256(text),
        made_at=now(),
        expires_at=until.isoformat(timespec="microseconds"),
    )
    transaction.connection.execute(row)
    return text


def _revoke_all(transaction: LedgerTransaction, name: str) -> int:
    """Revoke every token of a principal; return how many were valid."""
    mine = token.c.principal_id == principal_id(transaction.connection, name)
    row = update(token).where(mine, token.c.revoked_at.is_(None)).values(revoked_at=now())
    return transaction.connection.execute(row).rowcount


def principal_of_token(connection: Connection, text: str) -> Principal | None:
    """Return the principal of a token; None if it is unknown, expired, revoked or disabled."""
    return principal_of_token_hash(connection, sha256(text))


def principal_of_token_hash(connection: Connection, given: str) -> Principal | None:
    """Return the principal of a token by the hash of the token."""
    row = connection.execute(_FIND, {"given": given}).one_or_none()
    kept, expires_at = ("0" * 64, "") if row is None else (row.sha256, row.expires_at)
    # The same work for every token. Timing could reveal only where hashes differ, and an attacker
    # cannot choose hashes.
    same = hmac.compare_digest(kept, given)
    if row is None or not same or expires_at <= now():
        return None
    until = datetime.fromisoformat(row.expires_at)
    return Principal(row.name, PrincipalKind(row.kind), row.id, until)


def principal_of_token_id(connection: Connection, token_id: int) -> Principal | None:
    """Return the principal of the token of a session; None if the token is no longer valid."""
    row = connection.execute(_BY_NUMBER, {"number": token_id}).one_or_none()
    if row is None or row.expires_at <= now():
        return None
    until = datetime.fromisoformat(row.expires_at)
    return Principal(row.name, PrincipalKind(row.kind), row.id, until)


def ensure_key(path: Path) -> None:
    """Create a file with a random key, readable by its owner alone, unless it exists."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(handle, "wb") as file:
        file.write(secrets.token_bytes(_BYTES))


def random_secret() -> str:
    """Return 256 random bits as text."""
    return secrets.token_urlsafe(_BYTES)


def random_bytes(count: int) -> bytes:
    """Return random bytes that mask a secret."""
    return secrets.token_bytes(count)


def sha256(text: str) -> str:
    """Return the hash under which a secret is stored."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


_GOOD = (
    select(token.c.id, token.c.sha256, token.c.expires_at, principal.c.name, principal.c.kind)
    .join(principal, principal.c.id == token.c.principal_id)
    .where(token.c.revoked_at.is_(None), principal.c.disabled_at.is_(None))
)
_FIND = _GOOD.where(token.c.sha256 == bindparam("given"))
_BY_NUMBER = _GOOD.where(token.c.id == bindparam("number"))
_LAST_TOKENS = (
    select(principal.c.kind, principal.c.name, func.max(token.c.expires_at))
    .join(principal, principal.c.id == token.c.principal_id)
    .where(
        token.c.revoked_at.is_(None),
        principal.c.disabled_at.is_(None),
        principal.c.kind.in_([PrincipalKind.ADMIN.value, PrincipalKind.MONITOR.value]),
        principal.c.id.not_in(select(identity.c.principal_id)),
    )
    .group_by(principal.c.id, principal.c.kind, principal.c.name)
    .order_by(principal.c.name)
)


FIRST_ADMIN = "owner"
LOCAL_OPERATOR = "(local operator)"
"""Actor of the first start and of `admin token`. Names of principals have no parentheses."""


class PrincipalAction(StrEnum):
    """Administrative action on a principal."""

    CREATED = "created"
    TOKEN = "token issued"  # noqa: S105 - no secret
    REVOKED = "tokens revoked"
    TOKEN_REVOKED = "token revoked"  # noqa: S105 - no secret
    ROLE = "role changed"
    DISABLED = "disabled"


def list_principals(connection: Connection) -> list[dict[str, Any]]:
    """Return all principals, by name."""
    columns = (principal.c.name, principal.c.kind, principal.c.disabled_at)
    rows = connection.execute(select(*columns).order_by(principal.c.name)).mappings()
    return [dict(row) for row in rows]


def latest_events(connection: Connection, *, limit: int) -> list[dict[str, Any]]:
    """Return administrative actions on principals, the latest first."""
    return [dict(row) for row in connection.execute(_ACTS.limit(limit)).mappings()]


def create_principal(
    ledger: Ledger, name: str, kind: PrincipalKind, *, by: str, days: int = DEFAULT_TOKEN_DAYS
) -> str:
    """Create a principal, and return its first token."""

    def write(transaction: LedgerTransaction) -> str:
        return _admitted(transaction, name, kind, by=by, days=days)

    text = ledger.write(write)
    about = {"about": name, "role": kind.value}
    security_event(SecurityEvent.PRINCIPAL_CREATED, by, **about)
    return text


def issue_token(ledger: Ledger, name: str, *, by: str, days: int = DEFAULT_TOKEN_DAYS) -> str:
    """Return a further token of a principal."""

    def write(transaction: LedgerTransaction) -> str:
        return _issued(transaction, name, by=by, days=days)

    text = ledger.write(write)
    security_event(SecurityEvent.TOKEN_ISSUED, by, about=name)
    return text


def revoke_tokens(ledger: Ledger, name: str, *, by: str) -> int:
    """Revoke every token of a principal; return how many were valid."""

    def write(transaction: LedgerTransaction) -> int:
        revoked = _revoke_all(transaction, name)
        record_event(transaction, PrincipalAction.REVOKED, name, by=by)
        return revoked

    revoked = ledger.end_access(write)
    security_event(SecurityEvent.TOKENS_REVOKED, by, about=name)
    return revoked


def revoke_token(ledger: Ledger, name: str, number: int, *, by: str) -> None:
    """Revoke one token of a principal, and end its sessions."""

    def write(transaction: LedgerTransaction) -> None:
        mine = token.c.principal_id == principal_id(transaction.connection, name)
        row = update(token).where(mine, token.c.id == number, token.c.revoked_at.is_(None))
        if transaction.connection.execute(row.values(revoked_at=now())).rowcount != 1:
            raise InvalidParameterError("token", f"a valid token of {name}", number)
        record_event(transaction, PrincipalAction.TOKEN_REVOKED, name, by=by)

    ledger.end_access(write)
    security_event(SecurityEvent.TOKEN_REVOKED, by, about=name, token=str(number))


def valid_tokens(connection: Connection, name: str) -> list[dict[str, Any]]:
    """Return number and times of the valid tokens of a principal, the newest first."""
    columns = (token.c.id, token.c.made_at, token.c.expires_at)
    mine = token.c.principal_id == principal_id(connection, name)
    found = select(*columns).where(mine, token.c.revoked_at.is_(None), token.c.expires_at > now())
    return [dict(row) for row in connection.execute(found.order_by(token.c.id.desc())).mappings()]


def last_expiries(connection: Connection) -> list[tuple[str, str, datetime]]:
    """Return role and name of each administrator and monitor, and when its last token expires.

    That may be in the past: until a token is issued, or the principal is disabled. People who sign
    in at a provider are left out: each of their sessions has a token of its own.
    """
    found = connection.execute(_LAST_TOKENS)
    return [(role, name, datetime.fromisoformat(expires_at)) for role, name, expires_at in found]


def disable(ledger: Ledger, name: str, *, by: str) -> None:
    """Disable a principal; its releases stay readable to administrators."""

    def write(transaction: LedgerTransaction) -> None:
        disable_principal(transaction, name)
        record_event(transaction, PrincipalAction.DISABLED, name, by=by)

    ledger.end_access(write)
    security_event(SecurityEvent.PRINCIPAL_DISABLED, by, about=name)


def first_admin_token(transaction: LedgerTransaction) -> str | None:
    """Create the first administrator, and return its token; None if there is one."""
    known = select(principal.c.id).where(principal.c.kind == PrincipalKind.ADMIN.value)
    if transaction.connection.execute(known).first() is not None:
        return None
    return _admitted(transaction, FIRST_ADMIN, PrincipalKind.ADMIN, by=LOCAL_OPERATOR)


def issue_token_locally(
    data: Path, database: str | None, name: str, *, role: PrincipalKind, days: int
) -> str:
    """Return a new token for an operator with file access, also while the server runs.

    A principal that is new is created. No journal changes, and so the high-water mark does not.
    Whoever can reach another database than that of the folder has no file access to its server: the
    folder must have recorded the identity of the ledger. In an empty database, which belongs to no
    server, the tables are created.
    """
    with existing_database(data, database) as engine:
        prepare_database(data, engine)
        with writing(engine).begin() as connection:
            check_identity(data, connection)
            transaction = LedgerTransaction(connection)
            found = select(principal.c.kind, principal.c.disabled_at)
            row = connection.execute(found.where(principal.c.name == name)).one_or_none()
            if row is None:
                return _admitted(transaction, name, role, by=LOCAL_OPERATOR, days=days)
            if row.kind != role.value:
                raise InvalidParameterError("role", f"that of {name}: {row.kind}", role.value)
            if row.disabled_at is not None:
                raise InvalidParameterError("name", "a principal that is not disabled", name)
            return _issued(transaction, name, by=LOCAL_OPERATOR, days=days)


def _admitted(
    transaction: LedgerTransaction,
    name: str,
    kind: PrincipalKind,
    *,
    by: str,
    days: int = DEFAULT_TOKEN_DAYS,
) -> str:
    add_principal(transaction, name, kind)
    record_event(transaction, PrincipalAction.CREATED, name, by=by)
    return _issued(transaction, name, by=by, days=days)


def _issued(transaction: LedgerTransaction, name: str, *, by: str, days: int) -> str:
    text = _issue(transaction, name, days=days)
    record_event(transaction, PrincipalAction.TOKEN, name, by=by)
    return text


def record_event(
    transaction: LedgerTransaction, action: PrincipalAction, name: str, *, by: str
) -> None:
    """Record an administrative action on a principal."""
    row = insert(principal_event).values(
        at=now(),
        by=by,
        action=action.value,
        principal_id=principal_id(transaction.connection, name),
    )
    transaction.connection.execute(row)


_ACTS = (
    select(principal_event.c.at, principal_event.c.by, principal_event.c.action, principal.c.name)
    .join(principal, principal.c.id == principal_event.c.principal_id)
    .order_by(principal_event.c.id.desc())
)
