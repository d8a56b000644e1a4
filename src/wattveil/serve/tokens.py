"""Tokens: 256 random bits that open the door until they expire. Only their hash is kept."""

import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Connection, bindparam, insert, select, update

from wattveil import checks
from wattveil.serve.ledger.acts import PrincipalKind, principal_id
from wattveil.serve.ledger.journal import Session, now
from wattveil.serve.ledger.tables import principal, token

PREFIX = "wattveil_"
"""So that a token is known for what it is where it should not lie, in a repository or a mail."""

_BYTES = 32
LONGEST_DAYS = 3660
USUAL_DAYS = 90


@dataclass(frozen=True)
class Holder:
    """Whoever holds a token that is good."""

    name: str
    kind: PrincipalKind
    token_id: int


def issue(session: Session, name: str, *, days: int = USUAL_DAYS) -> str:
    """Make a token for a principal; this is the only time that anybody sees it."""
    checks.integer("days", days, least=1, most=LONGEST_DAYS)
    text = PREFIX + random_word()
    until = datetime.now(UTC) + timedelta(days=days)
    row = insert(token).values(
        principal_id=principal_id(session.connection, name),
        sha256=sha256(text),
        made_at=now(),
        expires_at=until.isoformat(timespec="microseconds"),
    )
    session.connection.execute(row)
    return text


def revoke_all(session: Session, name: str) -> int:
    """Make every token of a principal worthless; return how many were good until now."""
    mine = token.c.principal_id == principal_id(session.connection, name)
    row = update(token).where(mine, token.c.revoked_at.is_(None)).values(revoked_at=now())
    return session.connection.execute(row).rowcount


def holder_of(connection: Connection, text: str) -> Holder | None:
    """Return who holds a token; None for one that is unknown, expired, revoked or of nobody now."""
    given = sha256(text)
    row = connection.execute(_FIND, {"given": given}).one_or_none()
    kept, expires_at = ("0" * 64, "") if row is None else (row.sha256, row.expires_at)
    # The same work for every token. What an attacker could time is where hashes differ, and those
    # cannot be chosen.
    same = hmac.compare_digest(kept, given)
    if row is None or not same or expires_at <= now():
        return None
    return Holder(row.name, PrincipalKind(row.kind), row.id)


def still_good(connection: Connection, token_id: int) -> Holder | None:
    """Return who holds the token of a session, by its number."""
    row = connection.execute(_BY_NUMBER, {"number": token_id}).one_or_none()
    if row is None or row.expires_at <= now():
        return None
    return Holder(row.name, PrincipalKind(row.kind), row.id)


def ensure_key(path: Path) -> None:
    """Write a random key for its owner alone, unless there is one."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(handle, "wb") as file:
        file.write(secrets.token_bytes(_BYTES))


def random_word() -> str:
    """Return 256 random bits as text."""
    return secrets.token_urlsafe(_BYTES)


def sha256(text: str) -> str:
    """Return the hash under which a secret is kept."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


_GOOD = (
    select(token.c.id, token.c.sha256, token.c.expires_at, principal.c.name, principal.c.kind)
    .join(principal, principal.c.id == token.c.principal_id)
    .where(token.c.revoked_at.is_(None), principal.c.disabled_at.is_(None))
)
_FIND = _GOOD.where(token.c.sha256 == bindparam("given"))
_BY_NUMBER = _GOOD.where(token.c.id == bindparam("number"))
