"""Accounts, the charges made to them, and the releases that are stored for charges."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
    union_all,
    update,
)

from wattveil.bundle.cumulative import Cumulative
from wattveil.errors import InvalidParameterError, LedgerBehindError
from wattveil.privacy.guarantee import Tier
from wattveil.server.ledger.amounts import MEASURES, Amounts
from wattveil.server.ledger.journal import EntryKind, LedgerTransaction, now
from wattveil.server.ledger.ledger_tables import (
    OF_PERIOD,
    account,
    dataset,
    entry,
    lost_dataset,
    planned,
    principal,
    release,
)

CAPS = tuple(f"{measure}_cap" for measure in MEASURES)
SPENT = tuple(f"{measure}_spent" for measure in MEASURES)
RELEASED_KINDS = (EntryKind.CHARGE.value, EntryKind.PERIOD.value)
"""Entries for which a release is computed and stored: a period was charged with its series."""


@dataclass(frozen=True)
class Account:
    """Account: caps, and amounts spent."""

    id: int
    caps: Amounts
    spent: Amounts

    @property
    def left(self) -> Amounts:
        """Remaining amounts."""
        return self.caps - self.spent

    @property
    def share_spent(self) -> float:
        """Share of the most used measure that is spent, from 0 to 1.

        Amounts add up and epsilon does not: twice the releases have less than twice the epsilon.
        """
        pairs = zip(self.spent.values, self.caps.values, strict=True)
        return max((spent / cap for spent, cap in pairs if cap), default=0.0)

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at delta of all amounts spent; the guarantee follows from the caps."""
        return self.spent.composition.epsilon(delta)


def read_accounts(
    connection: Connection, journal_id: int
) -> dict[tuple[Tier, int | None], Account]:
    """Return the accounts of a journal by tier and principal; None: the data set's account."""
    return {
        (Tier(row[1]), row[2]): Account(row[0], Amounts(*row[3:7]), Amounts(*row[7:]))
        for row in connection.execute(_READ, {"journal": journal_id})
    }


def named_accounts(connection: Connection, name: str) -> list[tuple[Tier, str | None, Account]]:
    """Return the accounts of a data set: tier, principal (None: of the data set), account."""
    journal_id = select(dataset.c.journal_id).where(dataset.c.name == name)
    accounts = read_accounts(connection, connection.execute(journal_id).scalar_one())
    known = connection.execute(select(principal.c.id, principal.c.name))
    names = {row.id: row.name for row in known}
    found = [(tier, names.get(owner), one) for (tier, owner), one in accounts.items()]
    return sorted(found, key=lambda one: (one[0].value, one[1] or ""))


def spend(connection: Connection, amounts: Mapping[int, Amounts]) -> None:
    """Add to what accounts have spent, by number, unless that would pass a cap.

    The caller has compared already, under the lock of the journal. The condition is repeated in
    SQL, so that a missing lock cannot become an overspend.
    """
    for account_id, price in amounts.items():
        more = {f"more_{measure}": getattr(price, measure) for measure in MEASURES}
        if connection.execute(_SPEND, {"paying": account_id, **more}).rowcount != 1:
            raise RuntimeError("an account changed under the lock of its journal")


_READ = select(
    account.c.id,
    account.c.tier,
    account.c.principal_id,
    *(account.c[name] for name in (*CAPS, *SPENT)),
).where(account.c.journal_id == bindparam("journal"))

_SPEND = (
    update(account)
    .where(
        account.c.id == bindparam("paying"),
        *(
            account.c[f"{measure}_spent"] + bindparam(f"more_{measure}")
            <= account.c[f"{measure}_cap"]
            for measure in MEASURES
        ),
    )
    .values(
        {
            f"{measure}_spent": account.c[f"{measure}_spent"] + bindparam(f"more_{measure}")
            for measure in MEASURES
        }
    )
)


class ReleaseState(StrEnum):
    """Outcome of a computation. Both are charged."""

    OK = "ok"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Charge:
    """Durable charge: a release may be computed for it."""

    journal_id: int
    seq: int
    source_seq: int | None
    """Earlier charge of the same request, whose release is returned."""
    request: str
    """The canonical request, as JSON."""
    price: Amounts
    principal_id: int
    """Principal who ordered it."""

    @property
    def drawn_seq(self) -> int:
        """Charge that pays for the noise: at most one release is stored for it."""
        return self.seq if self.source_seq is None else self.source_seq


@dataclass(frozen=True, kw_only=True)
class Release:
    """Stored outcome of a charge; only this may be sent."""

    state: ReleaseState
    payload_ref: str | None = None
    payload_sha256: str | None = None
    number: int | None = field(default=None, compare=False)
    """Which of the releases of its journal it is, from 1; None before it is stored, and for one
    that an earlier version stored."""
    fingerprint: str | None = field(default=None, compare=False)
    """Of the profiles of a period, before it is stored; None for other releases."""


def store(transaction: LedgerTransaction, charge: Charge, outcome: Release) -> Release:
    """Store the outcome of a charge, unless one is stored; return the stored outcome."""
    transaction.lock(charge.journal_id)
    connection = transaction.connection
    if (stored := read_release(connection, charge)) is not None:
        return stored
    place = {"journal_id": charge.journal_id, "seq": charge.drawn_seq}
    drawn = connection.execute(
        _DRAWN, {"journal": charge.journal_id, "seq": charge.drawn_seq}
    ).one_or_none()
    if drawn is None or drawn.kind not in RELEASED_KINDS or drawn.source_seq is not None:
        raise InvalidParameterError("charge", "in the ledger, and one that pays for noise", place)
    if (content := outcome.fingerprint) is not None:
        of_period = OF_PERIOD + content
        found = {"journal": charge.journal_id, "fingerprint": content}
        if connection.execute(_OF_OTHERS, {**found, "of_period": of_period}).first() is not None:
            # Registered, or stored as a period, while it was computed: the budget of these people
            # is another one.
            outcome = Release(state=ReleaseState.FAILED)
        else:
            for one in (content, of_period):
                check_not_lost(transaction, one, journal_id=charge.journal_id)
            # The high-water mark knows it if the database loses it.
            name = connection.execute(_NAME, {"dataset": drawn.dataset_id}).scalar_one()
            transaction.registered[of_period] = name
    stored = replace(outcome, number=transaction.stored[charge.journal_id] + 1)
    connection.execute(insert(release), {**place, **vars(stored), "stored_at": now()})
    connection.execute(_FORGET_PLAN, {"journal": charge.journal_id, "number": charge.drawn_seq})
    transaction.stored[charge.journal_id] += 1
    return stored


def check_not_lost(
    transaction: LedgerTransaction, fingerprint: str, *, journal_id: int | None
) -> None:
    """Refuse content that the high-water mark knows, and that the caller has not found.

    An older database took the place of this one while the server runs. Content of the data sets of
    a journal, if one is given, shares the budget, and is accepted.
    """
    known = transaction.known_datasets
    if (name := known.get(fingerprint)) is None:
        return
    own = select(dataset.c.id).where(dataset.c.name == name, dataset.c.journal_id == journal_id)
    if transaction.connection.execute(own).first() is None:
        raise LedgerBehindError(None, len(known), len(known) - 1, what="data sets")


def read_release(connection: Connection, charge: Charge) -> Release | None:
    """Return the stored outcome of a charge."""
    row = connection.execute(
        _RELEASE, {"journal": charge.journal_id, "seq": charge.drawn_seq}
    ).one_or_none()
    if row is None:
        return None
    state, payload_ref, payload_sha256, number = row
    return Release(
        state=ReleaseState(state),
        payload_ref=payload_ref,
        payload_sha256=payload_sha256,
        number=number,
    )


def read_pending(connection: Connection, after: Mapping[int, int] | None = None) -> list[Charge]:
    """Return the charges that paid for noise and have no stored outcome, in order.

    ``after`` limits them to some journals, and to entries after a number of each.
    """
    if after is None:
        return [charge_of(row) for row in connection.execute(_PENDING)]
    return [
        charge_of(row)
        for journal_id, seq in after.items()
        for row in connection.execute(_PENDING_AFTER, {"journal": journal_id, "after": seq})
    ]


def count_pending(connection: Connection, principal_id: int | None = None) -> int:
    """Return the number of pending charges, of all principals or of one; reads no others."""
    found = _COUNT_PLANNED
    if principal_id is not None:
        found = found.where(entry.c.principal_id == principal_id)
    return int(connection.execute(found).scalar_one())


def read_plan(connection: Connection, charge: Charge) -> dict[str, Any] | None:
    """Return the plan that was stored with a pending charge; None if there is none."""
    place = {"journal": charge.journal_id, "number": charge.drawn_seq}
    text = connection.execute(_PLAN, place).scalar()
    found: dict[str, Any] | None = None if text is None else json.loads(text)
    return found


def charge_of(row: Row[Any]) -> Charge:
    """Return the charge of a row that begins with the columns of `CHARGED`."""
    journal_id, seq, source_seq, request, principal_id, *amounts = row[: 5 + len(MEASURES)]
    return Charge(
        journal_id=journal_id,
        seq=seq,
        source_seq=source_seq,
        request=request,
        price=Amounts(*amounts),
        principal_id=principal_id,
    )


CHARGED = select(
    entry.c.journal_id,
    entry.c.seq,
    entry.c.source_seq,
    entry.c.detail,
    entry.c.principal_id,
    *(entry.c[measure] for measure in MEASURES),
)
_PENDING = (
    CHARGED.select_from(
        entry.outerjoin(
            release, and_(release.c.journal_id == entry.c.journal_id, release.c.seq == entry.c.seq)
        )
    )
    .where(
        entry.c.kind.in_(RELEASED_KINDS),
        entry.c.source_seq.is_(None),
        release.c.state.is_(None),
    )
    .order_by(entry.c.journal_id, entry.c.seq)
)
_PENDING_AFTER = _PENDING.where(
    entry.c.journal_id == bindparam("journal"), entry.c.seq > bindparam("after")
)
_COUNT_PLANNED = select(func.count()).select_from(
    planned.join(
        entry, and_(entry.c.journal_id == planned.c.journal_id, entry.c.seq == planned.c.seq)
    )
)
_PLAN_OF_CHARGE = (
    planned.c.journal_id == bindparam("journal"),
    planned.c.seq == bindparam("number"),
)
_PLAN = select(planned.c.content).where(*_PLAN_OF_CHARGE)
_FORGET_PLAN = delete(planned).where(*_PLAN_OF_CHARGE)


def names_in(journal_id: ColumnElement[int] | int) -> Select[tuple[str]]:
    """Return the query of the names of the data sets of a journal, which share one budget."""
    return select(dataset.c.name).where(dataset.c.journal_id == journal_id)


_DRAWN = select(entry.c.kind, entry.c.source_seq, entry.c.dataset_id).where(
    entry.c.journal_id == bindparam("journal"), entry.c.seq == bindparam("seq")
)
_OF_OTHERS = union_all(
    *(
        select(table.c.journal_id).where(
            table.c.fingerprint == bindparam("fingerprint"),
            table.c.journal_id != bindparam("journal"),
        )
        for table in (dataset, release)
    ),
    select(lost_dataset.c.id).where(
        lost_dataset.c.fingerprint.in_([bindparam("fingerprint"), bindparam("of_period")]),
        lost_dataset.c.name.not_in(names_in(bindparam("journal"))),
    ),
)
_NAME = select(dataset.c.name).where(dataset.c.id == bindparam("dataset"))
_RELEASE = select(
    release.c.state, release.c.payload_ref, release.c.payload_sha256, release.c.number
).where(release.c.journal_id == bindparam("journal"), release.c.seq == bindparam("seq"))


def cumulative_at(connection: Connection, charge: Charge) -> Cumulative:
    """Return the totals of the account that paid for the noise of a charge, up to that charge."""
    place = {"journal": charge.journal_id, "seq": charge.drawn_seq}
    drawn = connection.execute(_DRAWN_ENTRY, place).one()
    until = {**place, "account": drawn.account_id}
    spent = connection.execute(_SPENT, until).one()
    opened = set(connection.execute(_OPENED, place).scalars())
    return Cumulative(
        tier=drawn.tier,
        delta=float(json.loads(charge.request)["delta"]),
        # PostgreSQL adds 64-bit numbers up to a decimal.
        spent=Amounts(*map(int, spent)).composition,
        caps=Amounts(*connection.execute(_CAPS, until).one()).composition,
        releases=int(connection.execute(_RELEASES, until).scalar_one()),
        ledger_seq=charge.drawn_seq,
        chain_head=drawn.row_sha256,
        other_tier_open=bool(opened - {drawn.tier}),
    )


_UP_TO = (entry.c.journal_id == bindparam("journal"), entry.c.seq <= bindparam("seq"))
_HERE = (*_UP_TO, entry.c.account_id == bindparam("account"))
_DRAWN_ENTRY = (
    select(entry.c.account_id, entry.c.row_sha256, account.c.tier)
    .join(account, account.c.id == entry.c.account_id)
    .where(entry.c.journal_id == bindparam("journal"), entry.c.seq == bindparam("seq"))
)
_SPENT = select(*(func.sum(entry.c[measure]) for measure in MEASURES)).where(
    *_HERE,
    entry.c.kind.in_([EntryKind.CHARGE.value, EntryKind.SERIES.value, EntryKind.LOST.value]),
)
_RELEASES = select(func.count()).where(*_HERE, entry.c.kind == EntryKind.CHARGE.value)
_CAPS = (
    select(*(entry.c[measure] for measure in MEASURES))
    .where(*_HERE, entry.c.kind == EntryKind.CAP.value)
    .order_by(entry.c.seq.desc())
    .limit(1)
)
_OPENED = (
    select(account.c.tier)
    .join(entry, entry.c.account_id == account.c.id)
    .where(*_UP_TO, entry.c.kind == EntryKind.CAP.value, account.c.principal_id.is_(None))
)
