"""Charges and the releases that are stored for them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, and_, bindparam, insert, select

from wattveil.errors import InvalidParameterError
from wattveil.serve.ledger.amounts import MEASURES, Amounts
from wattveil.serve.ledger.journal import Kind, Session, now
from wattveil.serve.ledger.tables import entry, release


class State(StrEnum):
    """How a release ended. Both are paid for."""

    OK = "ok"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Charge:
    """A charge that is durable: whoever holds one may compute."""

    book_id: int
    seq: int
    source_seq: int | None
    """The earlier charge whose release answers this one, too."""
    request: str
    """The canonical request, as JSON."""
    price: Amounts

    @property
    def drawn_seq(self) -> int:
        """The charge that pays for the noise: at most one release is ever stored for it."""
        return self.seq if self.source_seq is None else self.source_seq


@dataclass(frozen=True, kw_only=True)
class Release:
    """What was stored for a charge; only this may be sent."""

    state: State
    payload_ref: str | None = None
    payload_sha256: str | None = None


def store(session: Session, paid: Charge, outcome: Release) -> Release:
    """Store what was computed for a charge, unless something is stored; return what is."""
    session.lock(paid.book_id)
    connection = session.connection
    if (stored := read_release(connection, paid)) is not None:
        return stored
    place = {"book_id": paid.book_id, "seq": paid.drawn_seq}
    drawn = connection.execute(_DRAWN, {"book": paid.book_id, "seq": paid.drawn_seq}).one_or_none()
    if drawn is None or drawn.kind != Kind.CHARGE or drawn.source_seq is not None:
        raise InvalidParameterError("charge", "in the ledger, and one that pays for noise", place)
    connection.execute(insert(release), {**place, **vars(outcome), "stored_at": now()})
    session.stored[paid.book_id] += 1
    return outcome


def read_release(connection: Connection, paid: Charge) -> Release | None:
    """Return what is stored for a charge."""
    row = connection.execute(_RELEASE, {"book": paid.book_id, "seq": paid.drawn_seq}).one_or_none()
    if row is None:
        return None
    state, payload_ref, payload_sha256 = row
    return Release(state=State(state), payload_ref=payload_ref, payload_sha256=payload_sha256)


def read_pending(connection: Connection) -> list[Charge]:
    """Return the charges that paid for noise and have no release, in order."""
    return [charge_of(row) for row in connection.execute(_PENDING)]


def charge_of(row: Row[Any]) -> Charge:
    """Return the charge of a row that begins with the columns of `CHARGED`."""
    book_id, seq, source_seq, request, *amounts = row[: 4 + len(MEASURES)]
    return Charge(
        book_id=book_id, seq=seq, source_seq=source_seq, request=request, price=Amounts(*amounts)
    )


CHARGED = select(
    entry.c.book_id,
    entry.c.seq,
    entry.c.source_seq,
    entry.c.detail,
    *(entry.c[measure] for measure in MEASURES),
)
_PENDING = (
    CHARGED.select_from(
        entry.outerjoin(
            release, and_(release.c.book_id == entry.c.book_id, release.c.seq == entry.c.seq)
        )
    )
    .where(
        entry.c.kind == Kind.CHARGE.value,
        entry.c.source_seq.is_(None),
        release.c.state.is_(None),
    )
    .order_by(entry.c.book_id, entry.c.seq)
)
_DRAWN = select(entry.c.kind, entry.c.source_seq).where(
    entry.c.book_id == bindparam("book"), entry.c.seq == bindparam("seq")
)
_RELEASE = select(release.c.state, release.c.payload_ref, release.c.payload_sha256).where(
    release.c.book_id == bindparam("book"), release.c.seq == bindparam("seq")
)
