"""Admission control: decides about the orders of one journal.

Orders that wait together are decided together, one after the other, under the lock of the journal.
What is read once for all of them is what each would have read alone.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, or_, select

from wattveil.errors import ChargeRefusedError, KeyConflictError
from wattveil.privacy.guarantee import Tier
from wattveil.server.ledger.accounts import (
    CHARGED,
    Account,
    Charge,
    ReleaseState,
    charge_of,
    read_accounts,
    spend,
)
from wattveil.server.ledger.amounts import Amounts
from wattveil.server.ledger.journal import EntryKind, LedgerTransaction, now
from wattveil.server.ledger.ledger_tables import (
    dataset,
    entry,
    journal,
    planned,
    principal,
    refusal,
    release,
)
from wattveil.server.ledger.order import Order

KEPT_REFUSALS = 10_000
"""The latest refusals are stored for administrators: repeated requests must not fill the disk. They
are no part of the ledger."""


MAX_KEYS = 8
"""Keys under which a principal may order one request and have each recorded: every key is an entry
of the ledger, and all but the first are free."""


class Refusal(StrEnum):
    """Reason of a refused charge: a closed list, independent of the data."""

    DISABLED = "the principal is disabled"
    CLOSED = "the data set is closed"
    GUARANTEE = "the data set has another unit or neighbouring relation"
    TIER = "the tier is not open for this data set"
    NOT_ADMITTED = "the principal has no account for this data set and tier"
    DATASET_BUDGET = "the data set's budget does not cover the price"
    OWN_BUDGET = "the principal's budget does not cover the price"
    KEYS = "the same request is being computed under other keys; repeat one of them"


SHARED_WITHOUT_EFFECT = "shared_without_effect"
RECORDED_REASONS = {
    **{one.name.lower(): one.value for one in Refusal},
    SHARED_WITHOUT_EFFECT: "a release was shared with nobody who could not read it before",
}
"""Texts of the codes in the table of refusals."""


@dataclass(frozen=True)
class OrderIds:
    """Numbers of journal, data set and principal of an order; they never change."""

    journal_id: int
    dataset_id: int
    principal_id: int


@dataclass
class _PriorCharge:
    """Request that was charged before, and by whom."""

    seq: int
    is_stored: bool
    first_of: dict[int, int]
    """First charge of each principal that was charged for it."""
    keys_of: Counter[int]
    """Number of keys under which each of them has ordered it."""


@dataclass
class _AdmissionState:
    kind: tuple[str, str]
    closed: set[int]
    disabled: set[int]
    accounts: dict[tuple[Tier, int | None], Account]
    keys: dict[tuple[int, str], tuple[str, Charge]]
    prior: dict[str, _PriorCharge]
    left: dict[int, Amounts]
    """Remaining amounts after the orders so far, by account."""

    def refusal(self, ids: OrderIds, order: Order) -> Refusal | None:
        """Check everything except budgets."""
        if ids.principal_id in self.disabled:
            return Refusal.DISABLED
        if ids.dataset_id in self.closed:
            return Refusal.CLOSED
        if self.kind != (order.unit.value, order.neighbours.value):
            return Refusal.GUARANTEE
        if (order.tier, None) not in self.accounts:
            return Refusal.TIER
        if (order.tier, ids.principal_id) not in self.accounts:
            return Refusal.NOT_ADMITTED
        return None

    def pay(self, accounts: dict[Refusal, Account], price: Amounts) -> Refusal | None:
        """Take the price from all accounts, or from none and return the reason."""
        for code, paying in accounts.items():
            if not price.fits(self.left[paying.id]):
                return code
        for paying in accounts.values():
            self.left[paying.id] -= price
        return None

    @property
    def spent(self) -> dict[int, Amounts]:
        """Amounts that these orders took, by account."""
        taken = {one.id: one.left - self.left[one.id] for one in self.accounts.values()}
        return {number: amounts for number, amounts in taken.items() if amounts != Amounts()}


def charge_all(
    transaction: LedgerTransaction, journal_id: int, orders: Sequence[tuple[OrderIds, Order]]
) -> list[Charge | ChargeRefusedError | KeyConflictError]:
    """Return the charge of each order's key, make it, or refuse it; refusals are recorded."""
    transaction.lock(journal_id)
    state = _read(transaction.connection, journal_id, orders)
    entries: list[dict[str, Any]] = []
    plans: list[dict[str, Any]] = []
    refusals: list[dict[str, Any]] = []
    outcomes: list[Charge | ChargeRefusedError | KeyConflictError] = []
    for ids, order in orders:
        known = state.keys.get((ids.principal_id, order.key))
        if known is not None:
            same = known[0] == order.request_sha256
            outcomes.append(known[1] if same else KeyConflictError(order.key))
            continue
        made = _known_without_key(state, ids, order) or _charge(transaction, state, ids, order)
        if isinstance(made, Refusal):
            refusals.append(_refusal_row(ids, order, made))
            outcomes.append(ChargeRefusedError(made))
            continue
        if isinstance(made, Charge):
            outcomes.append(made)
            continue
        entries.append(made)
        if made["source_seq"] is None:
            plan = {"journal_id": journal_id, "seq": made["seq"], "content": order.plan or "null"}
            plans.append(plan)
        charge = _charge_of_order(ids, order, seq=made["seq"], source_seq=made["source_seq"])
        state.keys[ids.principal_id, order.key] = (order.request_sha256, charge)
        outcomes.append(charge)
    spend(transaction.connection, state.spent)
    if entries:
        transaction.write(entries)
    if plans:
        transaction.connection.execute(insert(planned), plans)
    if refusals:
        _write_refusals(transaction.connection, refusals)
    return outcomes


def already_paid(connection: Connection, ids: OrderIds, order: Order) -> tuple[bool, bool]:
    """Whether the data set, and the principal, were charged for this request before."""
    found = _read_prior(connection, ids.journal_id, {order.request_sha256})
    prior = found.get(order.request_sha256)
    return prior is not None, prior is not None and ids.principal_id in prior.first_of


def charge_under_key(connection: Connection, ids: OrderIds, order: Order) -> Charge | None:
    """Return the charge that was made for this request under the key of the order."""
    known = _read_keys(connection, ids.journal_id, {order.key}).get((ids.principal_id, order.key))
    return None if known is None or known[0] != order.request_sha256 else known[1]


def _known_without_key(
    state: _AdmissionState, ids: OrderIds, order: Order
) -> Charge | Refusal | None:
    """Return the charge of a request that its principal has ordered under many keys.

    A further key would be a further entry at no cost, without a bound. The release of such a
    request is stored and can fail no more: it is returned, and the key is not recorded. While it is
    computed, the order is refused: were it to fail, a key that is not recorded would be charged.
    """
    prior = state.prior.get(order.request_sha256)
    if prior is None or prior.keys_of[ids.principal_id] < MAX_KEYS or state.refusal(ids, order):
        return None
    if not prior.is_stored:
        return Refusal.KEYS
    first = prior.first_of[ids.principal_id]
    source = None if first == prior.seq else prior.seq
    return _charge_of_order(ids, order, seq=first, source_seq=source)


def _charge_of_order(ids: OrderIds, order: Order, *, seq: int, source_seq: int | None) -> Charge:
    return Charge(
        journal_id=ids.journal_id,
        seq=seq,
        source_seq=source_seq,
        request=order.request_text,
        price=order.price,
        principal_id=ids.principal_id,
    )


def _charge(
    transaction: LedgerTransaction, state: _AdmissionState, ids: OrderIds, order: Order
) -> dict[str, Any] | Refusal:
    """Admit an order whose key is new, and return its entry."""
    if (refused := state.refusal(ids, order)) is not None:
        return refused
    # The data set is charged once per request, and so is each principal: no further noise is drawn.
    prior = state.prior.get(order.request_sha256)
    paying = {}
    if prior is None:
        paying[Refusal.DATASET_BUDGET] = state.accounts[order.tier, None]
    if prior is None or ids.principal_id not in prior.first_of:
        paying[Refusal.OWN_BUDGET] = state.accounts[order.tier, ids.principal_id]
    if (refused := state.pay(paying, order.price)) is not None:
        return refused
    payers = {code: account.id for code, account in paying.items()}
    made = transaction.entry(
        ids.journal_id,
        EntryKind.CHARGE,
        principal_id=ids.principal_id,
        dataset_id=ids.dataset_id,
        account_id=payers.get(Refusal.DATASET_BUDGET),
        own_account_id=payers.get(Refusal.OWN_BUDGET),
        amounts=order.price,
        request_key=order.key,
        request_sha256=order.request_sha256,
        source_seq=None if prior is None else prior.seq,
        detail=order.request_text,
    )
    new = _PriorCharge(made["seq"], is_stored=False, first_of={}, keys_of=Counter())
    first = state.prior.setdefault(order.request_sha256, new)
    first.first_of.setdefault(ids.principal_id, made["seq"])
    first.keys_of[ids.principal_id] += 1
    return made


def _read(
    connection: Connection, journal_id: int, orders: Sequence[tuple[OrderIds, Order]]
) -> _AdmissionState:
    """Read the state that decides about these orders; the journal is locked."""
    requests = {"principals": list({ids.principal_id for ids, _ in orders})}
    datasets = connection.execute(_DATASETS, {"journal": journal_id}).all()
    accounts = read_accounts(connection, journal_id)
    return _AdmissionState(
        kind=(datasets[0].unit, datasets[0].neighbours),
        closed={row.id for row in datasets if row.closed_at is not None},
        disabled=set(connection.execute(_DISABLED, requests).scalars()),
        accounts=accounts,
        keys=_read_keys(connection, journal_id, {order.key for _, order in orders}),
        prior=_read_prior(connection, journal_id, {order.request_sha256 for _, order in orders}),
        left={one.id: one.left for one in accounts.values()},
    )


def _read_keys(
    connection: Connection, journal_id: int, keys: set[str]
) -> dict[tuple[int, str], tuple[str, Charge]]:
    """Return the charges that have one of these keys, by principal and key."""
    rows = connection.execute(_KNOWN, {"journal": journal_id, "keys": list(keys)})
    return {
        (row.principal_id, row.request_key): (row.request_sha256, charge_of(row)) for row in rows
    }


def _read_prior(
    connection: Connection, journal_id: int, requests: set[str]
) -> dict[str, _PriorCharge]:
    """Return which requests were charged before, and by whom, without failed ones."""
    prior: dict[str, _PriorCharge] = {}
    rows = connection.execute(_PRIOR, {"journal": journal_id, "requests": list(requests)})
    for sha256, principal_id, seq, keys, stored in rows:
        new = _PriorCharge(seq, is_stored=False, first_of={}, keys_of=Counter())
        one = prior.setdefault(sha256, new)
        one.seq = min(one.seq, seq)  # the first paid for the noise
        one.is_stored = one.is_stored or stored is not None
        one.first_of[principal_id] = seq
        one.keys_of[principal_id] = keys
    return prior


def record_refusal(
    connection: Connection, *, principal_id: int, dataset_name: str, code: str
) -> None:
    """Record an action of a principal that had no effect, for administrators."""
    about = select(dataset.c.id).where(dataset.c.name == dataset_name)
    row = {
        "principal_id": principal_id,
        "dataset_id": connection.execute(about).scalar_one(),
        "request_sha256": "",
        "code": code,
        "at": now(),
    }
    _write_refusals(connection, [row])


def _write_refusals(connection: Connection, rows: list[dict[str, Any]]) -> None:
    connection.execute(insert(refusal), rows)
    connection.execute(_FORGET, {"kept": KEPT_REFUSALS})


def _refusal_row(ids: OrderIds, order: Order, code: Refusal) -> dict[str, Any]:
    return {
        "principal_id": ids.principal_id,
        "dataset_id": ids.dataset_id,
        "request_sha256": order.request_sha256,
        "code": code.name.lower(),
        "at": now(),
    }


_DATASETS = (
    select(dataset.c.id, dataset.c.closed_at, journal.c.unit, journal.c.neighbours)
    .join(journal, journal.c.id == dataset.c.journal_id)
    .where(dataset.c.journal_id == bindparam("journal"))
)
_DISABLED = select(principal.c.id).where(
    principal.c.id.in_(bindparam("principals", expanding=True)),
    principal.c.disabled_at.is_not(None),
)
_KNOWN = CHARGED.add_columns(entry.c.request_key, entry.c.request_sha256).where(
    entry.c.journal_id == bindparam("journal"),
    entry.c.request_key.in_(bindparam("keys", expanding=True)),
)
_FORGET = delete(refusal).where(
    refusal.c.id.in_(
        select(refusal.c.id)
        .where(refusal.c.id <= select(func.max(refusal.c.id)).scalar_subquery() - bindparam("kept"))
        # Rows that another process is removing stay: whoever waited for them while it holds a
        # journal could deadlock with a process that waits for that journal.
        .with_for_update(skip_locked=True)
    )
)
_PRIOR = (
    select(
        entry.c.request_sha256,
        entry.c.principal_id,
        func.min(entry.c.seq),
        func.count(),
        func.max(release.c.state),
    )
    .select_from(
        entry.outerjoin(
            release,
            and_(
                release.c.journal_id == entry.c.journal_id,
                release.c.seq == func.coalesce(entry.c.source_seq, entry.c.seq),
            ),
        )
    )
    .where(
        entry.c.journal_id == bindparam("journal"),
        entry.c.request_sha256.in_(bindparam("requests", expanding=True)),
        or_(release.c.state.is_(None), release.c.state == ReleaseState.OK.value),
    )
    .group_by(entry.c.request_sha256, entry.c.principal_id)
)
