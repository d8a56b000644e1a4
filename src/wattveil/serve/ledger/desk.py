"""Admission: what decides about the orders of one book, read once and looked at in memory.

Orders that wait together are decided together, one after the other, under the lock of the book.
What is read for all of them at once is what each would have read by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, or_, select

from wattveil.errors import ChargeRefusedError, KeyConflictError
from wattveil.privacy.guarantee import Tier
from wattveil.serve.ledger.accounts import Account, read_accounts, spend
from wattveil.serve.ledger.amounts import Amounts
from wattveil.serve.ledger.charges import CHARGED, Charge, State, charge_of
from wattveil.serve.ledger.journal import Kind, Session, now
from wattveil.serve.ledger.order import Order
from wattveil.serve.ledger.tables import book, dataset, entry, principal, refusal, release

KEPT_REFUSALS = 10_000
"""The latest ones, for people: whoever is refused for ever must not fill the disk. They are no part
of the ledger."""


class Refusal(StrEnum):
    """Why a charge is refused. Data have no say in it, and the list is closed."""

    DISABLED = "the principal is disabled"
    CLOSED = "the data set is closed"
    PROMISE = "the data set promises another unit or neighbouring relation"
    TIER = "the tier is not open for this data set"
    NOT_ADMITTED = "the principal has no account for this data set and tier"
    DATASET_BUDGET = "the data set's budget does not cover the price"
    OWN_BUDGET = "the principal's budget does not cover the price"


@dataclass(frozen=True)
class Place:
    """Where an order belongs, by number; none of these ever changes."""

    book_id: int
    dataset_id: int
    principal_id: int


@dataclass
class _Answered:
    """A request for which noise was drawn, or is about to be."""

    seq: int
    paid_by: set[int]


@dataclass
class _Desk:
    kind: tuple[str, str]
    closed: set[int]
    disabled: set[int]
    accounts: dict[tuple[Tier, int | None], Account]
    keys: dict[tuple[int, str], tuple[str, Charge]]
    answered: dict[str, _Answered]
    left: dict[int, Amounts]
    """What the accounts have left after the orders so far, by number."""

    def refusal(self, place: Place, order: Order) -> Refusal | None:
        """Look at everything but the budgets."""
        if place.principal_id in self.disabled:
            return Refusal.DISABLED
        if place.dataset_id in self.closed:
            return Refusal.CLOSED
        if self.kind != (order.unit.value, order.neighbours.value):
            return Refusal.PROMISE
        if (order.tier, None) not in self.accounts:
            return Refusal.TIER
        if (order.tier, place.principal_id) not in self.accounts:
            return Refusal.NOT_ADMITTED
        return None

    def pay(self, accounts: dict[Refusal, Account], price: Amounts) -> Refusal | None:
        """Take the price from all accounts, or from none and say why."""
        for code, paying in accounts.items():
            if not price.fits(self.left[paying.id]):
                return code
        for paying in accounts.values():
            self.left[paying.id] -= price
        return None

    @property
    def spent(self) -> dict[int, Amounts]:
        """What these orders took, from each account that paid."""
        taken = {one.id: one.left - self.left[one.id] for one in self.accounts.values()}
        return {number: amounts for number, amounts in taken.items() if amounts != Amounts()}


def charge_all(
    session: Session, book_id: int, orders: Sequence[tuple[Place, Order]]
) -> list[Charge | ChargeRefusedError | KeyConflictError]:
    """Find the charge of each order's key, or make it, or refuse it; refusals are written down."""
    session.lock(book_id)
    desk = _read(session.connection, book_id, orders)
    entries: list[dict[str, Any]] = []
    refusals: list[dict[str, Any]] = []
    outcomes: list[Charge | ChargeRefusedError | KeyConflictError] = []
    for place, order in orders:
        known = desk.keys.get((place.principal_id, order.key))
        if known is not None:
            same = known[0] == order.request_sha256
            outcomes.append(known[1] if same else KeyConflictError(order.key))
            continue
        made = _charge(session, desk, place, order)
        if isinstance(made, Refusal):
            refusals.append(_refusal_row(place, order, made))
            outcomes.append(ChargeRefusedError(made))
            continue
        entries.append(made)
        paid = Charge(
            book_id=book_id,
            seq=made["seq"],
            source_seq=made["source_seq"],
            request=order.request_text,
            price=order.price,
        )
        desk.keys[place.principal_id, order.key] = (order.request_sha256, paid)
        outcomes.append(paid)
    spend(session.connection, desk.spent)
    if entries:
        session.write(entries)
    if refusals:
        session.connection.execute(insert(refusal), refusals)
        session.connection.execute(_FORGET, {"kept": KEPT_REFUSALS})
    return outcomes


def already_paid(connection: Connection, place: Place, order: Order) -> tuple[bool, bool]:
    """Whether the data set, and the principal, have paid for this request before."""
    found = _read_answered(connection, place.book_id, {order.request_sha256})
    answered = found.get(order.request_sha256)
    return answered is not None, answered is not None and place.principal_id in answered.paid_by


def _charge(session: Session, desk: _Desk, place: Place, order: Order) -> dict[str, Any] | Refusal:
    """Admit an order whose key is new, and return its entry."""
    if (refused := desk.refusal(place, order)) is not None:
        return refused
    # The data set pays once for a request, and so does each principal: no further noise is drawn.
    answered = desk.answered.get(order.request_sha256)
    paying = {}
    if answered is None:
        paying[Refusal.DATASET_BUDGET] = desk.accounts[order.tier, None]
    if answered is None or place.principal_id not in answered.paid_by:
        paying[Refusal.OWN_BUDGET] = desk.accounts[order.tier, place.principal_id]
    if (refused := desk.pay(paying, order.price)) is not None:
        return refused
    payers = {code: account.id for code, account in paying.items()}
    made = session.entry(
        place.book_id,
        Kind.CHARGE,
        principal_id=place.principal_id,
        dataset_id=place.dataset_id,
        account_id=payers.get(Refusal.DATASET_BUDGET),
        own_account_id=payers.get(Refusal.OWN_BUDGET),
        amounts=order.price,
        request_key=order.key,
        request_sha256=order.request_sha256,
        source_seq=None if answered is None else answered.seq,
        detail=order.request_text,
    )
    first = desk.answered.setdefault(order.request_sha256, _Answered(made["seq"], set()))
    first.paid_by.add(place.principal_id)
    return made


def _read(connection: Connection, book_id: int, orders: Sequence[tuple[Place, Order]]) -> _Desk:
    """Read all that decides about these orders; the book is locked."""
    asking = {"principals": list({place.principal_id for place, _ in orders})}
    datasets = connection.execute(_DATASETS, {"book": book_id}).all()
    accounts = read_accounts(connection, book_id)
    return _Desk(
        kind=(datasets[0].unit, datasets[0].neighbours),
        closed={row.id for row in datasets if row.closed_at is not None},
        disabled=set(connection.execute(_DISABLED, asking).scalars()),
        accounts=accounts,
        keys=_read_keys(connection, book_id, {order.key for _, order in orders}),
        answered=_read_answered(connection, book_id, {order.request_sha256 for _, order in orders}),
        left={one.id: one.left for one in accounts.values()},
    )


def _read_keys(
    connection: Connection, book_id: int, keys: set[str]
) -> dict[tuple[int, str], tuple[str, Charge]]:
    """Return the charges that have one of these keys, by principal and key."""
    rows = connection.execute(_KNOWN, {"book": book_id, "keys": list(keys)})
    return {
        (row.principal_id, row.request_key): (row.request_sha256, charge_of(row)) for row in rows
    }


def _read_answered(
    connection: Connection, book_id: int, requests: set[str]
) -> dict[str, _Answered]:
    """Return which requests were charged for, and by whom; one that failed answers nobody."""
    answered: dict[str, _Answered] = {}
    rows = connection.execute(_ANSWERED, {"book": book_id, "requests": list(requests)})
    for sha256, principal_id, seq in rows:
        one = answered.setdefault(sha256, _Answered(seq, set()))
        one.seq = min(one.seq, seq)  # the first of them drew; the others were answered by it
        one.paid_by.add(principal_id)
    return answered


def _refusal_row(place: Place, order: Order, code: Refusal) -> dict[str, Any]:
    return {
        "principal_id": place.principal_id,
        "dataset_id": place.dataset_id,
        "request_sha256": order.request_sha256,
        "code": code.name.lower(),
        "at": now(),
    }


_DATASETS = (
    select(dataset.c.id, dataset.c.closed_at, book.c.unit, book.c.neighbours)
    .join(book, book.c.id == dataset.c.book_id)
    .where(dataset.c.book_id == bindparam("book"))
)
_DISABLED = select(principal.c.id).where(
    principal.c.id.in_(bindparam("principals", expanding=True)),
    principal.c.disabled_at.is_not(None),
)
_KNOWN = CHARGED.add_columns(
    entry.c.principal_id, entry.c.request_key, entry.c.request_sha256
).where(
    entry.c.book_id == bindparam("book"),
    entry.c.request_key.in_(bindparam("keys", expanding=True)),
)
_FORGET = delete(refusal).where(
    refusal.c.id <= select(func.max(refusal.c.id)).scalar_subquery() - bindparam("kept")
)
_ANSWERED = (
    select(entry.c.request_sha256, entry.c.principal_id, func.min(entry.c.seq))
    .select_from(
        entry.outerjoin(
            release,
            and_(
                release.c.book_id == entry.c.book_id,
                release.c.seq == func.coalesce(entry.c.source_seq, entry.c.seq),
            ),
        )
    )
    .where(
        entry.c.book_id == bindparam("book"),
        entry.c.request_sha256.in_(bindparam("requests", expanding=True)),
        or_(release.c.state.is_(None), release.c.state == State.OK.value),
    )
    .group_by(entry.c.request_sha256, entry.c.principal_id)
)
