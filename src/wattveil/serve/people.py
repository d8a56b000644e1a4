"""Who is known to a server, and what they are let in with. What is done about them is kept."""

from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert, select

from wattveil.errors import InvalidParameterError
from wattveil.serve import tokens
from wattveil.serve.bodies import PrincipalBody
from wattveil.serve.ledger.acts import (
    PrincipalKind,
    add_principal,
    disable_principal,
    principal_id,
)
from wattveil.serve.ledger.engine import writing
from wattveil.serve.ledger.journal import Session, now
from wattveil.serve.ledger.ledger import Ledger
from wattveil.serve.ledger.migrate import migrate
from wattveil.serve.ledger.tables import act, principal
from wattveil.serve.ledger.verbs import existing

FIRST_ADMIN = "owner"
AT_THE_MACHINE = "(at the machine)"
"""Who acts when nobody has signed in: the first start, and the verb for a lost token. No name of a
principal has brackets."""


class Act(StrEnum):
    """What was done about somebody."""

    ADMITTED = "admitted"
    TOKEN = "given a token"  # noqa: S105 - a word for people
    LOCKED_OUT = "tokens taken away"
    DISABLED = "disabled"


def everybody(connection: Connection) -> list[dict[str, Any]]:
    """Return all principals, by name."""
    columns = (principal.c.name, principal.c.kind, principal.c.disabled_at)
    rows = connection.execute(select(*columns).order_by(principal.c.name)).mappings()
    return [dict(row) for row in rows]


def latest_acts(connection: Connection, *, most: int) -> list[dict[str, Any]]:
    """Return what was done about people, the latest first."""
    return [dict(row) for row in connection.execute(_ACTS.limit(most)).mappings()]


def admit(ledger: Ledger, body: PrincipalBody, *, by: str) -> str:
    """Add somebody, and return their first token."""

    def write(session: Session) -> str:
        return _admitted(session, body.name, body.kind, by=by, days=body.token_days)

    return ledger.write(write)


def further_token(ledger: Ledger, name: str, *, by: str, days: int = tokens.USUAL_DAYS) -> str:
    """Return a further token of somebody."""

    def write(session: Session) -> str:
        return _issued(session, name, by=by, days=days)

    return ledger.write(write)


def lock_out(ledger: Ledger, name: str, *, by: str) -> int:
    """Make every token of somebody worthless; return how many were good."""

    def write(session: Session) -> int:
        revoked = tokens.revoke_all(session, name)
        _record(session, Act.LOCKED_OUT, name, by=by)
        return revoked

    return ledger.write(write)


def disable(ledger: Ledger, name: str, *, by: str) -> None:
    """Refuse somebody from now on; what they were given stays readable to administrators."""

    def write(session: Session) -> None:
        disable_principal(session, name)
        _record(session, Act.DISABLED, name, by=by)

    ledger.write(write)


def first_token(session: Session) -> str | None:
    """Make the first administrator and its token, unless there is one."""
    known = select(principal.c.id).where(principal.c.kind == PrincipalKind.ADMIN.value)
    if session.connection.execute(known).first() is not None:
        return None
    return _admitted(session, FIRST_ADMIN, PrincipalKind.ADMIN, by=AT_THE_MACHINE)


def token_at_the_machine(
    data: Path, database: str | None, name: str, *, role: PrincipalKind, days: int
) -> str:
    """Return a token for whoever sits at the machine, also while the server runs.

    Somebody who is not known yet is admitted. No book is touched, so the file of heads is not.
    """
    with existing(data, database) as engine:
        migrate(engine)
        with writing(engine).begin() as connection:
            session = Session(connection)
            found = select(principal.c.kind, principal.c.disabled_at)
            row = connection.execute(found.where(principal.c.name == name)).one_or_none()
            if row is None:
                return _admitted(session, name, role, by=AT_THE_MACHINE, days=days)
            if row.kind != role.value:
                raise InvalidParameterError("role", f"that of {name}: {row.kind}", role.value)
            if row.disabled_at is not None:
                raise InvalidParameterError("name", "somebody who is not disabled", name)
            return _issued(session, name, by=AT_THE_MACHINE, days=days)


def _admitted(
    session: Session, name: str, kind: PrincipalKind, *, by: str, days: int = tokens.USUAL_DAYS
) -> str:
    add_principal(session, name, kind)
    _record(session, Act.ADMITTED, name, by=by)
    return _issued(session, name, by=by, days=days)


def _issued(session: Session, name: str, *, by: str, days: int) -> str:
    text = tokens.issue(session, name, days=days)
    _record(session, Act.TOKEN, name, by=by)
    return text


def _record(session: Session, what: Act, name: str, *, by: str) -> None:
    row = insert(act).values(
        at=now(), by=by, what=what.value, principal_id=principal_id(session.connection, name)
    )
    session.connection.execute(row)


_ACTS = (
    select(act.c.at, act.c.by, act.c.what, principal.c.name)
    .join(principal, principal.c.id == act.c.principal_id)
    .order_by(act.c.id.desc())
)
