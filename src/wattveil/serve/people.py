"""Who is known to a server, and what they are let in with."""

from typing import Any

from sqlalchemy import Connection, select

from wattveil.serve import tokens
from wattveil.serve.bodies import PrincipalBody
from wattveil.serve.ledger.acts import add_principal
from wattveil.serve.ledger.journal import Session
from wattveil.serve.ledger.ledger import Ledger
from wattveil.serve.ledger.tables import principal


def everybody(connection: Connection) -> list[dict[str, Any]]:
    """Return all principals, by name."""
    columns = (principal.c.name, principal.c.kind, principal.c.disabled_at)
    rows = connection.execute(select(*columns).order_by(principal.c.name)).mappings()
    return [dict(row) for row in rows]


def admit(ledger: Ledger, body: PrincipalBody) -> str:
    """Add somebody, and return their first token."""

    def act(session: Session) -> str:
        add_principal(session, body.name, body.kind)
        return tokens.issue(session, body.name, days=body.token_days)

    return ledger.write(act)


def further_token(ledger: Ledger, name: str, *, days: int = tokens.USUAL_DAYS) -> str:
    """Return a further token of somebody."""

    def act(session: Session) -> str:
        return tokens.issue(session, name, days=days)

    return ledger.write(act)


def lock_out(ledger: Ledger, name: str) -> int:
    """Make every token of somebody worthless; return how many were good."""

    def act(session: Session) -> int:
        return tokens.revoke_all(session, name)

    return ledger.write(act)
