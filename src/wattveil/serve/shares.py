"""Releases that are shown to others. Nothing is drawn and nothing is paid: what left has left."""

from sqlalchemy import Connection, insert, select

from wattveil.errors import InvalidParameterError
from wattveil.serve.ledger.acts import principal_id
from wattveil.serve.ledger.journal import Session, now
from wattveil.serve.ledger.ledger import Ledger
from wattveil.serve.ledger.tables import principal, share
from wattveil.serve.releases import Paid

EVERYBODY = "*"
"""All who have a token of this server."""


def share_release(ledger: Ledger, paid: Paid, *, reader: str, by: str) -> None:
    """Let somebody, or everybody, read a release; for good, as it cannot be unread."""

    def write(session: Session) -> None:
        owner = None if reader == EVERYBODY else principal_id(session.connection, reader)
        if reader in readers(session.connection, paid):
            raise InvalidParameterError("reader", "somebody who may not read it yet", reader)
        row = insert(share).values(
            book_id=paid.charge.book_id, seq=paid.charge.seq, principal_id=owner, at=now(), by=by
        )
        session.connection.execute(row)

    ledger.write(write)


def readers(connection: Connection, paid: Paid) -> list[str]:
    """Return with whom a release is shared, in the order in which that was said."""
    found = (
        select(principal.c.name)
        .select_from(share.outerjoin(principal, principal.c.id == share.c.principal_id))
        .where(share.c.book_id == paid.charge.book_id, share.c.seq == paid.charge.seq)
        .order_by(share.c.id)
    )
    names = connection.execute(found).scalars()
    return [EVERYBODY if name is None else str(name) for name in names]
