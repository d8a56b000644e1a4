"""Ordered releases: charges with the names of data set and principal, and who may read them.

Sharing a release computes and charges nothing: it is already released.
"""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import (
    Connection,
    Integer,
    Select,
    and_,
    bindparam,
    func,
    insert,
    or_,
    select,
    tuple_,
    union,
)

from wattveil.server.ledger.accounts import (
    CHARGED,
    RELEASED_KINDS,
    Charge,
    ReleaseState,
    charge_of,
)
from wattveil.server.ledger.administration import principal_id
from wattveil.server.ledger.admission import SHARED_WITHOUT_EFFECT, record_refusal
from wattveil.server.ledger.journal import EntryKind, LedgerTransaction, now
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_tables import (
    account,
    dataset,
    entry,
    principal,
    release,
    series,
    share,
)
from wattveil.server.ledger.order import check_name
from wattveil.server.observe.request_record import SecurityEvent, security_event

ANY_PRINCIPAL = "*"
"""Reader that stands for all principals."""

MAX_ID = 40
"""Most characters of an identifier that is looked up."""
_NUMBER = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,17})")


@dataclass(frozen=True, kw_only=True)
class OrderedRelease:
    """Charge, with the names of its data set and principal."""

    charge: Charge
    dataset: str
    principal: str
    at: str
    state: ReleaseState | None
    """Outcome; None while it is computed."""
    number: int | None = None
    """Which of the stored releases of its journal it is."""
    stored_at: str | None = None
    repeated_seq: int | None = None
    """First order of its principal for the same result, if this one was not charged; in lists for
    that principal only."""

    @property
    def same_as(self) -> str:
        """Identifier of the release that this one repeats at no cost; empty if it was charged."""
        return "" if self.repeated_seq is None else f"{self.charge.journal_id}-{self.repeated_seq}"

    @property
    def id(self) -> str:
        """Identifier of the release in addresses."""
        return f"{self.charge.journal_id}-{self.charge.seq}"

    @cached_property
    def request(self) -> dict[str, Any]:
        """The canonical request."""
        found: dict[str, Any] = json.loads(self.charge.request)
        return found


def find_ordered(connection: Connection, release_id: str) -> OrderedRelease | None:
    """Return a release by its identifier."""
    found = _NUMBER.fullmatch(release_id)
    if found is None:
        return None
    place = {"journal": int(found[1]), "seq": int(found[2])}
    row = connection.execute(_ORDERED.where(*_PLACE), place).one_or_none()
    return None if row is None else _ordered_of(row)


def requests_about(connection: Connection, name: str) -> list[dict[str, Any]]:
    """Return the requests of all charges about the people of a data set, of linked ones too."""
    journal = select(dataset.c.journal_id).where(dataset.c.name == name).scalar_subquery()
    charged = select(entry.c.detail).where(
        entry.c.journal_id == journal, entry.c.kind == EntryKind.CHARGE.value
    )
    return [json.loads(text) for text in connection.execute(charged.distinct()).scalars()]


def visible_releases(
    connection: Connection, name: str, *, limit: int, before: OrderedRelease | None = None
) -> list[OrderedRelease]:
    """Return the latest releases that a principal may read, older than ``before``.

    They are its own, those shared with it, and periods of series of its data sets.
    """
    given: dict[str, Any] = {"reader": name, "limit": limit}
    if before is not None:
        given |= {"at": before.at, "journal": before.charge.journal_id, "seq": before.charge.seq}
    found = connection.execute(_LATEST if before is None else _LATEST_BEFORE, given)
    return [_ordered_of(row, reader=name) for row in found]


def _ordered_of(row: Any, *, reader: str = "") -> OrderedRelease:  # noqa: ANN401 - of `_ORDERED`
    return OrderedRelease(
        charge=charge_of(row),
        dataset=row.dataset,
        principal=row.principal,
        at=row.at,
        state=None if row.state is None else ReleaseState(row.state),
        number=row.number,
        stored_at=row.stored_at,
        repeated_seq=row.repeated_seq if row.principal == reader else None,
    )


_FIRST = entry.alias()
_REPEATED = (
    select(func.min(_FIRST.c.seq))
    .where(
        # No account paid for it: the principal has paid for the same result before.
        entry.c.account_id.is_(None),
        entry.c.own_account_id.is_(None),
        entry.c.kind == EntryKind.CHARGE.value,
        *(
            _FIRST.c[name] == entry.c[name]
            for name in ("journal_id", "request_sha256", "principal_id", "kind")
        ),
        func.coalesce(_FIRST.c.source_seq, _FIRST.c.seq) == entry.c.source_seq,
        _FIRST.c.seq < entry.c.seq,
    )
    .correlate(entry)
    .scalar_subquery()
)
_ORDERED = (
    CHARGED.add_columns(
        dataset.c.name.label("dataset"),
        principal.c.name.label("principal"),
        entry.c.at,
        release.c.state,
        release.c.number,
        release.c.stored_at,
        _REPEATED.label("repeated_seq"),
    )
    .select_from(
        entry.join(dataset, dataset.c.id == entry.c.dataset_id)
        .join(principal, principal.c.id == entry.c.principal_id)
        .outerjoin(
            release,
            and_(
                release.c.journal_id == entry.c.journal_id,
                release.c.seq == func.coalesce(entry.c.source_seq, entry.c.seq),
            ),
        )
    )
    .where(entry.c.kind.in_(RELEASED_KINDS))
)


def _visible(*, is_before: bool) -> Select[Any]:
    """Return the query of `visible_releases`, which is compiled once.

    What others have ordered is not read: the latest of its own come from an index in their order,
    those shared with it from the shares, and periods from the series.
    """
    reader = select(principal.c.id).where(principal.c.name == bindparam("reader")).scalar_subquery()
    order, limit = (entry.c.at, entry.c.journal_id, entry.c.seq), bindparam("limit", type_=Integer)
    released = select(*order).where(entry.c.kind.in_(RELEASED_KINDS))
    if is_before:
        last = (
            bindparam(name, type_=column.type) for name, column in zip(_LAST, order, strict=True)
        )
        released = released.where(tuple_(*order) < tuple_(*last))
    released = released.order_by(*(column.desc() for column in order)).limit(limit)
    own = released.where(entry.c.principal_id == reader)
    shared = released.distinct().where(
        *(share.c[name] == entry.c[name] for name in ("journal_id", "seq")),
        or_(share.c.principal_id.is_(None), share.c.principal_id == reader),
    )
    # By data set: a condition on the journal would make a database search all its entries first.
    admitted = select(dataset.c.id).where(
        account.c.journal_id == dataset.c.journal_id, account.c.principal_id == reader
    )
    opened = entry.alias()
    periods = released.distinct().where(
        entry.c.kind == EntryKind.PERIOD.value,
        entry.c.journal_id == opened.c.journal_id,
        entry.c.request_sha256 == opened.c.request_sha256,
        *(series.c[name] == opened.c[name] for name in ("journal_id", "seq")),
        series.c.dataset_id.in_(admitted),
    )
    found = union(*(select(one.subquery()) for one in (own, shared, periods))).subquery()
    same = and_(found.c.journal_id == entry.c.journal_id, found.c.seq == entry.c.seq)
    latest = _ORDERED.join(found, same).order_by(*(column.desc() for column in order))
    return latest.limit(limit)


_LAST = ("at", "journal", "seq")
_LATEST, _LATEST_BEFORE = _visible(is_before=False), _visible(is_before=True)
_PLACE = (entry.c.journal_id == bindparam("journal"), entry.c.seq == bindparam("seq"))


def share_release(ledger: Ledger, ordered: OrderedRelease, *, reader: str, by: str) -> None:
    """Permit a principal, or all, to read a release; permanent, since readers keep copies.

    A name that nobody has, or who may read it already, is recorded for administrators, and neither
    the result nor the work tells which: names of principals cannot be found out by sharing.
    """
    if reader != ANY_PRINCIPAL:
        check_name("reader", reader)

    def write(transaction: LedgerTransaction) -> None:
        connection = transaction.connection
        owner = connection.execute(
            select(principal.c.id).where(principal.c.name == reader)
        ).scalar()
        if reader in readers(connection, ordered) or (reader != ANY_PRINCIPAL and owner is None):
            record_refusal(
                connection,
                principal_id=principal_id(connection, by),
                dataset_name=ordered.dataset,
                code=SHARED_WITHOUT_EFFECT,
            )
            return
        row = insert(share).values(
            journal_id=ordered.charge.journal_id,
            seq=ordered.charge.seq,
            principal_id=owner,
            at=now(),
            by=by,
        )
        connection.execute(row)

    ledger.write(write)
    security_event(SecurityEvent.RELEASE_SHARED, by, about=ordered.id, reader=reader)


def readers(connection: Connection, ordered: OrderedRelease) -> list[str]:
    """Return the readers of a shared release, in order of sharing."""
    found = (
        select(principal.c.name)
        .select_from(share.outerjoin(principal, principal.c.id == share.c.principal_id))
        .where(share.c.journal_id == ordered.charge.journal_id, share.c.seq == ordered.charge.seq)
        .order_by(share.c.id)
    )
    names = connection.execute(found).scalars()
    return [ANY_PRINCIPAL if name is None else str(name) for name in names]
