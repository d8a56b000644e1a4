"""What owners do: register, admit, set budgets, close. Each is an entry of the book."""

from collections.abc import Sequence
from enum import StrEnum

from sqlalchemy import Connection, insert, select, update

from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Neighbours, Tier, Unit
from wattveil.serve.ledger.accounts import CAPS, SPENT, read_accounts
from wattveil.serve.ledger.amounts import Allowance
from wattveil.serve.ledger.chain import START
from wattveil.serve.ledger.charges import Release, State, read_pending, store
from wattveil.serve.ledger.journal import Kind, Session, now
from wattveil.serve.ledger.order import canonical_text, check_key, check_name
from wattveil.serve.ledger.tables import account, book, dataset, principal

_LONGEST_REASON = 1000


class PrincipalKind(StrEnum):
    """What a principal may do."""

    ADMIN = "admin"
    ANALYST = "analyst"


def add_principal(session: Session, name: str, kind: PrincipalKind) -> int:
    """Add somebody who may act or ask."""
    check_name("principal", name)
    _check_new(session.connection, name, "principal")
    row = insert(principal).values(name=name, kind=kind.value).returning(principal.c.id)
    return int(session.connection.execute(row).scalar_one())


def disable_principal(session: Session, name: str) -> None:
    """Refuse a principal from now on; what it was given stays readable."""
    check_name("principal", name)
    row = update(principal).where(principal.c.name == name, principal.c.disabled_at.is_(None))
    if session.connection.execute(row.values(disabled_at=now())).rowcount != 1:
        raise InvalidParameterError("principal", "somebody who is known and not disabled", name)


def open_dataset(
    session: Session,
    name: str,
    *,
    by: str,
    fingerprint: str,
    unit: Unit,
    neighbours: Neighbours,
    allowance: Allowance | None,
    linked_to: str | None,
) -> None:
    """Register a data set: with a book of its own, or in that of a data set on the same people."""
    connection = session.connection
    if (allowance is None) == (linked_to is None):
        rule = "given, one of them: linked data sets share one allowance"
        raise InvalidParameterError("allowance, linked_to", rule, linked_to)
    check_name("dataset", name)
    check_key("fingerprint", fingerprint)
    actor = _admin(connection, by)
    _check_new(connection, name, "dataset")
    same = select(dataset.c.name).where(dataset.c.fingerprint == fingerprint)
    if connection.execute(same).first() is not None:
        rule = "of data that are not registered yet: a copy would double the budget"
        raise InvalidParameterError("fingerprint", rule, fingerprint)
    if linked_to is None:
        new = insert(book).values(
            unit=unit.value, neighbours=neighbours.value, head_seq=0, head_sha256=START
        )
        book_id = int(connection.execute(new.returning(book.c.id)).scalar_one())
    else:
        book_id = _book_of(connection, linked_to)
        kinds = select(book.c.unit, book.c.neighbours).where(book.c.id == book_id)
        if tuple(connection.execute(kinds).one()) != (unit.value, neighbours.value):
            rule = "those of the data set it is linked to"
            raise InvalidParameterError("unit, neighbours", rule, (unit.value, neighbours.value))
    row = insert(dataset).values(book_id=book_id, name=name, fingerprint=fingerprint)
    dataset_id = int(connection.execute(row.returning(dataset.c.id)).scalar_one())
    said = {
        "name": name,
        "fingerprint": fingerprint,
        "unit": unit.value,
        "neighbours": neighbours.value,
    }
    session.append(
        book_id,
        Kind.OPEN,
        principal_id=actor,
        dataset_id=dataset_id,
        detail=canonical_text("detail", said),
    )
    if allowance is not None:
        set_budget(
            session, name, by=by, allowance=allowance, tier=Tier.GLOBAL, whose=None, reason="opened"
        )


def set_budget(
    session: Session,
    name: str,
    *,
    by: str,
    allowance: Allowance,
    tier: Tier,
    whose: str | None,
    reason: str,
) -> None:
    """Set the cap of an account, of the whole book or of one principal; the first opens it."""
    connection = session.connection
    actor, book_id = _admin(connection, by), _book_of(connection, name)
    _check_reason(reason)
    owner = None if whose is None else principal_id(connection, whose)
    session.lock(book_id)
    caps = allowance.caps
    accounts = read_accounts(connection, book_id)
    found = accounts.get((tier, owner))
    if (tier, None) not in accounts and owner is not None:
        raise InvalidParameterError("tier", "open for the data set first", tier.value)
    if found is None:
        values = {"book_id": book_id, "principal_id": owner, "tier": tier.value}
        limits = dict(zip(CAPS, caps.values, strict=True))
        row = insert(account).values(**values, **limits, **dict.fromkeys(SPENT, 0))
        account_id = int(connection.execute(row.returning(account.c.id)).scalar_one())
    else:
        account_id = found.id
        if not found.spent.fits(caps):
            raise InvalidParameterError("allowance", "at least what is spent", allowance)
        limits = dict(zip(CAPS, caps.values, strict=True))
        connection.execute(update(account).where(account.c.id == account_id).values(**limits))
    said = {"allowance": allowance.to_json(), "reason": reason, "tier": tier.value, "whose": whose}
    session.append(
        book_id,
        Kind.CAP,
        principal_id=actor,
        account_id=account_id,
        amounts=caps,
        detail=canonical_text("detail", said),
    )


def close_dataset(session: Session, name: str, *, by: str, reason: str) -> None:
    """Refuse every further charge on a data set; what was released stays."""
    connection = session.connection
    actor, book_id = _admin(connection, by), _book_of(connection, name)
    _check_reason(reason)
    session.lock(book_id)
    row = update(dataset).where(dataset.c.name == name, dataset.c.closed_at.is_(None))
    closed = connection.execute(row.values(closed_at=now()).returning(dataset.c.id)).one_or_none()
    if closed is None:
        raise InvalidParameterError("dataset", "one that is open", name)
    detail = canonical_text("detail", {"reason": reason})
    session.append(book_id, Kind.CLOSE, principal_id=actor, dataset_id=closed.id, detail=detail)


def count_as_lost(session: Session, books: Sequence[int], *, by: str, reason: str) -> None:
    """Count all that the accounts of books have left as spent: entries may have been lost.

    So may releases. A charge without one may have been answered, and a second draw would be one
    that nobody paid for: it ends as failed.
    """
    connection = session.connection
    actor = _admin(connection, by)
    _check_reason(reason)
    present = set(connection.execute(select(book.c.id)).scalars())
    for book_id in sorted(present.intersection(books)):
        session.lock(book_id)
        for (tier, _), one in read_accounts(connection, book_id).items():
            spent = dict(zip(SPENT, one.caps.values, strict=True))
            connection.execute(update(account).where(account.c.id == one.id).values(**spent))
            session.append(
                book_id,
                Kind.LOST,
                principal_id=actor,
                account_id=one.id,
                amounts=one.left,
                detail=canonical_text("detail", {"reason": reason, "tier": tier.value}),
            )
    for paid in read_pending(connection):
        if paid.book_id in books:
            store(session, paid, Release(state=State.FAILED))


def principal_id(connection: Connection, name: str) -> int:
    """Return the number of a principal.

    What is no name is not looked up: PostgreSQL refuses some characters, and with them the whole
    transaction, in which others may be.
    """
    check_name("principal", name)
    found = connection.execute(select(principal.c.id).where(principal.c.name == name)).scalar()
    if found is None:
        raise InvalidParameterError("principal", "somebody who is known", name)
    return int(found)


def _admin(connection: Connection, name: str) -> int:
    """Return the number of an enabled administrator; nobody else acts."""
    row = select(principal.c.id).where(
        principal.c.name == name,
        principal.c.kind == PrincipalKind.ADMIN.value,
        principal.c.disabled_at.is_(None),
    )
    found = connection.execute(row).scalar()
    if found is None:
        raise InvalidParameterError("by", "an administrator who is not disabled", name)
    return int(found)


def _book_of(connection: Connection, name: str) -> int:
    found = connection.execute(select(dataset.c.book_id).where(dataset.c.name == name)).scalar()
    if found is None:
        raise InvalidParameterError("dataset", "one that is registered", name)
    return int(found)


def _check_new(connection: Connection, name: str, field: str) -> None:
    table = {"principal": principal, "dataset": dataset}[field]
    if connection.execute(select(table.c.id).where(table.c.name == name)).first() is not None:
        raise InvalidParameterError(field, "a new name", name)


def _check_reason(reason: str) -> None:
    if not 0 < len(reason.strip()) <= _LONGEST_REASON:
        rule = f"said, in at most {_LONGEST_REASON} characters"
        raise InvalidParameterError("reason", rule, reason)
