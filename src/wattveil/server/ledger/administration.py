"""Administration: data sets, budgets, principals. Each action is an entry of a journal."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from sqlalchemy import Connection, and_, insert, or_, select, update

from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Neighbours, Tier, Unit
from wattveil.server.ledger.accounts import (
    CAPS,
    SPENT,
    Release,
    ReleaseState,
    check_not_lost,
    names_in,
    read_accounts,
    read_pending,
    store,
)
from wattveil.server.ledger.amounts import Allowance, Amounts
from wattveil.server.ledger.journal import START, EntryKind, LedgerTransaction, now
from wattveil.server.ledger.ledger_tables import (
    OF_PERIOD,
    UNKNOWN_DATASET,
    account,
    dataset,
    entry,
    journal,
    lost_dataset,
    principal,
    release,
)
from wattveil.server.ledger.order import canonical_text, check_key, check_name

_MAX_REASON_LENGTH = 1000


class PrincipalKind(StrEnum):
    """Role of a principal."""

    ADMIN = "admin"
    ANALYST = "analyst"
    MONITOR = "monitor"
    """Reads metrics, and nothing else."""


def add_principal(transaction: LedgerTransaction, name: str, kind: PrincipalKind) -> int:
    """Create a principal."""
    check_name("principal", name)
    _check_new(transaction.connection, name, "principal")
    row = insert(principal).values(name=name, kind=kind.value).returning(principal.c.id)
    return int(transaction.connection.execute(row).scalar_one())


def disable_principal(transaction: LedgerTransaction, name: str) -> None:
    """Disable a principal; its releases stay readable to administrators."""
    check_name("principal", name)
    row = update(principal).where(principal.c.name == name, principal.c.disabled_at.is_(None))
    if transaction.connection.execute(row.values(disabled_at=now())).rowcount != 1:
        raise InvalidParameterError(
            "principal", "a principal that exists and is not disabled", name
        )


def open_dataset(
    transaction: LedgerTransaction,
    name: str,
    *,
    by: str,
    fingerprint: str,
    unit: Unit,
    neighbours: Neighbours,
    allowance: Allowance | None,
    linked_to: str | None,
    never_charged: str | None = None,
) -> None:
    """Register a data set, in a new journal or in that of a data set on the same people.

    If its registration was lost with an earlier database, so may charges be: all of its budget
    counts as spent. If it is unknown which registrations were lost, a declaration is needed.
    """
    connection = transaction.connection
    if (allowance is None) == (linked_to is None):
        rule = "given, one of them: linked data sets share one allowance"
        raise InvalidParameterError("allowance, linked_to", rule, linked_to)
    check_name("dataset", name)
    check_key("fingerprint", fingerprint)
    actor = admin_id(connection, by)
    _check_new(connection, name, "dataset")
    same = select(dataset.c.name).where(dataset.c.fingerprint == fingerprint)
    if connection.execute(same).first() is not None:
        rule = "of data that are not registered yet: a copy would double the budget"
        raise InvalidParameterError("fingerprint", rule, fingerprint)
    _check_periods(connection, fingerprint, linked_to)
    was_lost = _check_lost(connection, name, fingerprint, never_charged, linked_to)
    if not was_lost:
        own = None if linked_to is None else _journal_of(connection, linked_to)
        check_not_lost(transaction, fingerprint, journal_id=None)
        check_not_lost(transaction, OF_PERIOD + fingerprint, journal_id=own)
    if linked_to is None:
        new = insert(journal).values(
            unit=unit.value, neighbours=neighbours.value, head_seq=0, head_sha256=START
        )
        journal_id = int(connection.execute(new.returning(journal.c.id)).scalar_one())
    else:
        journal_id = _journal_of(connection, linked_to)
        kinds = select(journal.c.unit, journal.c.neighbours).where(journal.c.id == journal_id)
        if tuple(connection.execute(kinds).one()) != (unit.value, neighbours.value):
            rule = "those of the data set it is linked to"
            raise InvalidParameterError("unit, neighbours", rule, (unit.value, neighbours.value))
    row = insert(dataset).values(journal_id=journal_id, name=name, fingerprint=fingerprint)
    dataset_id = int(connection.execute(row.returning(dataset.c.id)).scalar_one())
    detail = {
        "name": name,
        "fingerprint": fingerprint,
        "unit": unit.value,
        "neighbours": neighbours.value,
    }
    if never_charged is not None:
        detail["never_charged"] = never_charged
    transaction.registered[fingerprint] = name
    transaction.append(
        journal_id,
        EntryKind.OPEN,
        principal_id=actor,
        dataset_id=dataset_id,
        detail=canonical_text("detail", detail),
    )
    if allowance is not None:
        set_budget(
            transaction,
            name,
            by=by,
            allowance=allowance,
            tier=Tier.GLOBAL,
            principal=None,
            reason="opened",
        )
    if was_lost:
        reason = "registered before, in entries that were lost"
        _count_as_spent(transaction, journal_id, actor, reason)


def set_budget(
    transaction: LedgerTransaction,
    name: str,
    *,
    by: str,
    allowance: Allowance,
    tier: Tier,
    principal: str | None,
    reason: str,
    lost: Allowance | None = None,
) -> None:
    """Set the cap of an account, of the data set or of one principal; the first opens it.

    If entries of the journal were lost, so may be charges under a larger cap than the one that is
    known. A data set's account is then raised, or a tier opened, only with a declaration of what
    was charged at most (``lost``), which counts as spent.
    """
    connection = transaction.connection
    actor, journal_id = admin_id(connection, by), _journal_of(connection, name)
    check_reason(reason)
    owner = None if principal is None else principal_id(connection, principal)
    transaction.lock(journal_id)
    caps = allowance.caps
    accounts = read_accounts(connection, journal_id)
    found = accounts.get((tier, owner))
    if (tier, None) not in accounts and owner is not None:
        raise InvalidParameterError("tier", "open for the data set first", tier.value)
    declared = Amounts()
    if owner is None and (found is None or not caps.fits(found.caps)):
        declared = _declared_lost(connection, journal_id, lost, caps)
    elif lost is not None:
        raise InvalidParameterError("lost_epsilon", "omitted, unless a budget is raised", lost)
    if found is None:
        values = {"journal_id": journal_id, "principal_id": owner, "tier": tier.value}
        limits = dict(zip(CAPS, caps.values, strict=True))
        row = insert(account).values(**values, **limits, **dict.fromkeys(SPENT, 0))
        account_id = int(connection.execute(row.returning(account.c.id)).scalar_one())
    else:
        account_id = found.id
        if not found.spent.fits(caps):
            raise InvalidParameterError("allowance", "at least what is spent", allowance)
        limits = dict(zip(CAPS, caps.values, strict=True))
        connection.execute(update(account).where(account.c.id == account_id).values(**limits))
    detail = {
        "allowance": allowance.to_json(),
        "reason": reason,
        "tier": tier.value,
        "principal": principal,
    }
    transaction.append(
        journal_id,
        EntryKind.CAP,
        principal_id=actor,
        account_id=account_id,
        amounts=caps,
        detail=canonical_text("detail", detail),
    )
    spent = Amounts() if found is None else found.spent
    more = Amounts(*map(max, declared.values, spent.values)) - spent
    if any(more.values):
        counted = dict(zip(SPENT, (spent + more).values, strict=True))
        connection.execute(update(account).where(account.c.id == account_id).values(**counted))
        detail = {"reason": reason, "tier": tier.value}
        transaction.append(
            journal_id,
            EntryKind.LOST,
            principal_id=actor,
            account_id=account_id,
            amounts=more,
            detail=canonical_text("detail", detail),
        )


def _declared_lost(
    connection: Connection, journal_id: int, lost: Allowance | None, caps: Amounts
) -> Amounts:
    """Return what counts as spent by a declaration; refuse a missing one."""
    kinds = (entry.c.journal_id == journal_id, entry.c.kind == EntryKind.LOST.value)
    if connection.execute(select(entry.c.seq).where(*kinds).limit(1)).first() is None:
        if lost is not None:
            raise InvalidParameterError("lost_epsilon", "omitted: no entries were lost", lost)
        return Amounts()
    if lost is None:
        rule = (
            "given: entries of this ledger were lost, and with them perhaps charges under a larger"
            " budget. State the largest epsilon that can have been spent in this tier; it counts"
            " as spent"
        )
        raise InvalidParameterError("lost_epsilon", rule, None)
    if not lost.caps.fits(caps):
        raise InvalidParameterError("lost_epsilon", "at most the budget", lost)
    return lost.caps


def close_dataset(transaction: LedgerTransaction, name: str, *, by: str, reason: str) -> None:
    """Refuse every further charge on a data set; its releases stay."""
    connection = transaction.connection
    actor, journal_id = admin_id(connection, by), _journal_of(connection, name)
    check_reason(reason)
    transaction.lock(journal_id)
    row = update(dataset).where(dataset.c.name == name, dataset.c.closed_at.is_(None))
    closed = connection.execute(row.values(closed_at=now()).returning(dataset.c.id)).one_or_none()
    if closed is None:
        raise InvalidParameterError("dataset", "one that is open", name)
    detail = canonical_text("detail", {"reason": reason})
    transaction.append(
        journal_id, EntryKind.CLOSE, principal_id=actor, dataset_id=closed.id, detail=detail
    )


def _check_periods(connection: Connection, fingerprint: str, linked_to: str | None) -> None:
    """Refuse the profiles of a period of a series, unless the data set shares its budget."""
    of_period = select(release.c.seq).where(release.c.fingerprint == fingerprint)
    if linked_to is not None:
        own = _journal_of(connection, linked_to)
        of_period = of_period.where(release.c.journal_id != own)
    if connection.execute(of_period.limit(1)).first() is not None:
        rule = (
            "of data that are no period of a series of another data set: a copy would double the"
            " budget; link it to that data set"
        )
        raise InvalidParameterError("fingerprint", rule, fingerprint)


def _check_lost(
    connection: Connection,
    name: str,
    fingerprint: str,
    never_charged: str | None,
    linked_to: str | None,
) -> bool:
    """Return whether the registration of a data set was lost; refuse what may have been."""
    if never_charged is not None:
        check_reason(never_charged, field="never_charged")
    same = or_(lost_dataset.c.name == name, lost_dataset.c.fingerprint == fingerprint)
    of_period = lost_dataset.c.fingerprint == OF_PERIOD + fingerprint
    if linked_to is not None:  # that shares the budget from which the period was published
        own = names_in(_journal_of(connection, linked_to))
        of_period = and_(of_period, lost_dataset.c.name.not_in(own))
    same = or_(same, of_period)
    if connection.execute(select(lost_dataset.c.id).where(same)).first() is not None:
        return True
    unknown = select(lost_dataset.c.id).where(lost_dataset.c.name == UNKNOWN_DATASET)
    is_unknown = connection.execute(unknown).first() is not None
    if is_unknown and linked_to is None and never_charged is None:
        rule = (
            "given: registrations were lost with the high-water mark, and these people may have"
            " been charged. State why they were not, or link the data set to one about them"
        )
        raise InvalidParameterError("never_charged", rule, None)
    return False


def _count_as_spent(
    transaction: LedgerTransaction, journal_id: int, actor: int, reason: str
) -> None:
    """Count all remaining amounts of a journal as spent, those of analysts too."""
    transaction.lock(journal_id)
    connection = transaction.connection
    for (tier, _), one in read_accounts(connection, journal_id).items():
        spent = dict(zip(SPENT, one.caps.values, strict=True))
        connection.execute(update(account).where(account.c.id == one.id).values(**spent))
        transaction.append(
            journal_id,
            EntryKind.LOST,
            principal_id=actor,
            account_id=one.id,
            amounts=one.left,
            detail=canonical_text("detail", {"reason": reason, "tier": tier.value}),
        )


def count_as_lost(
    transaction: LedgerTransaction,
    journals: Sequence[int],
    *,
    datasets: Mapping[str, str],
    by: str,
    reason: str,
) -> None:
    """Count all remaining amounts of journals as spent: entries may have been lost.

    ``datasets`` are names by fingerprint of data sets whose registration was lost. Releases may be
    lost as well. The release of a charge without one may have been sent, and a second draw would
    not be charged: it is stored as failed.
    """
    connection = transaction.connection
    actor = admin_id(connection, by)
    check_reason(reason)
    present = set(connection.execute(select(journal.c.id)).scalars())
    for journal_id in sorted(present.intersection(journals)):
        _count_as_spent(transaction, journal_id, actor, reason)
    about = {"at": now(), "by": by, "reason": reason}
    for fingerprint, name in datasets.items():
        row = {"fingerprint": fingerprint, "name": name, **about}
        connection.execute(insert(lost_dataset), row)
    for charge in read_pending(connection):
        if charge.journal_id in journals:
            store(transaction, charge, Release(state=ReleaseState.FAILED))


def principal_id(connection: Connection, name: str) -> int:
    """Return the number of a principal.

    Invalid names are not looked up: PostgreSQL refuses some characters, and with them the whole
    transaction, which other jobs may share.
    """
    check_name("principal", name)
    found = connection.execute(select(principal.c.id).where(principal.c.name == name)).scalar()
    if found is None:
        rule, text = "the name of an existing principal", f"there is no principal named {name}"
        raise InvalidParameterError("principal", rule, name, text=text)
    return int(found)


def admin_id(connection: Connection, name: str) -> int:
    """Return the number of an administrator that is not disabled; others are refused."""
    row = select(principal.c.id).where(
        principal.c.name == name,
        principal.c.kind == PrincipalKind.ADMIN.value,
        principal.c.disabled_at.is_(None),
    )
    found = connection.execute(row).scalar()
    if found is None:
        raise InvalidParameterError("by", "an administrator that is not disabled", name)
    return int(found)


def _journal_of(connection: Connection, name: str) -> int:
    found = connection.execute(select(dataset.c.journal_id).where(dataset.c.name == name)).scalar()
    if found is None:
        raise InvalidParameterError("dataset", "one that is registered", name)
    return int(found)


def _check_new(connection: Connection, name: str, field: str) -> None:
    table = {"principal": principal, "dataset": dataset}[field]
    if connection.execute(select(table.c.id).where(table.c.name == name)).first() is not None:
        raise InvalidParameterError(field, "a new name", name)


def check_reason(reason: str, *, field: str = "reason") -> None:
    """Accept a reason that is recorded in the ledger."""
    if not 0 < len(reason.strip()) <= _MAX_REASON_LENGTH:
        rule = f"given, in at most {_MAX_REASON_LENGTH} characters"
        raise InvalidParameterError(field, rule, reason)
