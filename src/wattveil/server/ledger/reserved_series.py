"""Series of periods in the ledger: the whole budget is charged before the first period.

==========  ====================================================================================
entry       written
==========  ====================================================================================
``series``  when the series is opened, with the price of all periods: no other order can spend it
``period``  before a period is computed, without a price; its release is stored like any other
``end``     when the series is closed: no period follows
==========  ====================================================================================

The ledger states which periods were stored. The private state of a series is used only if its
periods are these (`bundle.registered_series`): an older copy of the state is refused.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, and_, bindparam, insert, select, union

from wattveil.bundle.series_request import SeriesRequest
from wattveil.declaration import to_plain
from wattveil.errors import ChargeRefusedError, InvalidParameterError
from wattveil.privacy.guarantee import Budget, Tier
from wattveil.server.ledger.accounts import (
    CHARGED,
    Charge,
    Release,
    ReleaseState,
    charge_of,
    names_in,
    read_accounts,
    read_plan,
    spend,
    store,
)
from wattveil.server.ledger.administration import admin_id, check_reason
from wattveil.server.ledger.admission import Refusal
from wattveil.server.ledger.amounts import Amounts
from wattveil.server.ledger.journal import EntryKind, LedgerTransaction
from wattveil.server.ledger.ledger_tables import (
    OF_PERIOD,
    dataset,
    entry,
    journal,
    lost_dataset,
    planned,
    principal,
    release,
    series,
)
from wattveil.server.ledger.order import canonical_text, check_name


@dataclass(frozen=True, kw_only=True)
class SeriesPeriod:
    """A period of a series that was begun."""

    charge: Charge
    label: str
    state: ReleaseState | None
    """Outcome; None while it is computed."""
    number: int | None = None
    """Which of the stored releases of its journal it is."""

    @property
    def id(self) -> str:
        """Identifier of its release."""
        return f"{self.charge.journal_id}-{self.charge.seq}"


@dataclass(frozen=True, kw_only=True)
class ReservedSeries:
    """A series whose whole budget was charged."""

    id: str
    """Random: names its folder."""
    journal_id: int
    seq: int
    """Of the entry that charged it."""
    dataset: str
    name: str
    plain_request: Mapping[str, Any]
    price: Amounts
    at: str
    by: str
    periods: tuple[SeriesPeriod, ...]
    """Those that were begun, in order."""
    ended: str | None
    """Why it was closed; None while it is open."""

    @cached_property
    def request(self) -> SeriesRequest:
        """Public choices."""
        return SeriesRequest.parse(self.plain_request)

    @property
    def pending(self) -> tuple[SeriesPeriod, ...]:
        """The period that is being computed, if there is one."""
        return tuple(one for one in self.periods if one.state is None)

    @property
    def released(self) -> tuple[str, ...]:
        """Names of the periods whose bundles are stored."""
        return tuple(one.label for one in self.periods if one.state is ReleaseState.OK)


def price_of(request: SeriesRequest) -> Amounts:
    """Return what a series costs: the grant of the budget from which all its periods spend."""
    return Amounts.price([Budget(request.design.guarantee).grant])


def reserve(
    transaction: LedgerTransaction,
    dataset_name: str,
    name: str,
    request: SeriesRequest,
    *,
    by: str,
    uid: str,
) -> None:
    """Charge the whole budget of a series to the data set; the same one again costs nothing.

    ``uid`` is the random identifier of a new one.
    """
    connection = transaction.connection
    check_name("name", name)
    actor = admin_id(connection, by)
    found = connection.execute(_DATASET, {"name": dataset_name}).one_or_none()
    if found is None:
        raise InvalidParameterError("dataset", "one that is registered", dataset_name)
    transaction.lock(found.journal_id)
    known = find_series(connection, dataset_name, name)
    if known is not None:
        if known.request != request:
            rule = "a new name: the series of this name has other choices"
            raise InvalidParameterError("name", rule, name)
        return
    guarantee, price = request.design.guarantee, price_of(request)
    if found.closed_at is not None:
        raise ChargeRefusedError(Refusal.CLOSED)
    if (found.unit, found.neighbours) != (guarantee.unit.value, guarantee.neighbours.value):
        raise ChargeRefusedError(Refusal.GUARANTEE)
    paying = read_accounts(connection, found.journal_id)[Tier.GLOBAL, None]
    if not price.fits(paying.left):
        raise ChargeRefusedError(Refusal.DATASET_BUDGET)
    spend(connection, {paying.id: price})
    detail = {"series": name, "id": uid, "request": to_plain(request)}
    made = transaction.entry(
        found.journal_id,
        EntryKind.SERIES,
        principal_id=actor,
        dataset_id=found.id,
        account_id=paying.id,
        amounts=price,
        request_sha256=_sha256(uid),
        detail=canonical_text("series", detail),
    )
    transaction.write([made])
    place = {"journal_id": found.journal_id, "seq": made["seq"]}
    connection.execute(insert(series), {**place, "dataset_id": found.id, "name": name})


def begin_period(
    transaction: LedgerTransaction,
    dataset_name: str,
    name: str,
    label: str,
    *,
    file: str,
    recluster: bool,
    by: str,
) -> Charge:
    """Record a period before it is computed; return the entry for which it is computed.

    The same one again, while it is computed, is the same entry: after an error the caller may not
    know that it was recorded.
    """
    actor = admin_id(transaction.connection, by)
    found = _open_series(transaction, dataset_name, name)
    request = found.request
    released = [request.period_of(one) for one in found.released]
    request.check_period(request.period_of(label), released=released)
    plan = {"file": file, "recluster": recluster}
    for one in found.pending:
        if (one.label, read_plan(transaction.connection, one.charge)) != (label, plan):
            rule = "begun after the one that is being computed"
            raise InvalidParameterError("period", rule, label)
        return one.charge
    if recluster and not (request.segments and found.released):
        rule = "for a series with segments, after its first period"
        raise InvalidParameterError("recluster", rule, recluster)
    detail = {
        "series": name,
        "period": label,
        "tier": Tier.GLOBAL.value,
        "epsilon": repr(request.epsilon),
        "delta": repr(request.delta),
    }
    made = _append(transaction, found, EntryKind.PERIOD, actor, detail)
    # Names of files are not public: they are stored until the release is.
    content = canonical_text("file", plan)
    place = {"journal_id": made["journal_id"], "seq": made["seq"]}
    transaction.connection.execute(insert(planned), {**place, "content": content})
    return Charge(
        **place, source_seq=None, request=made["detail"], price=Amounts(), principal_id=actor
    )


def end(
    transaction: LedgerTransaction, dataset_name: str, name: str, *, reason: str, by: str
) -> None:
    """Refuse every further period of a series; a series that has ended stays as it is.

    A period that is being computed fails: its result is discarded, and nothing of it was sent.
    """
    actor = admin_id(transaction.connection, by)
    check_reason(reason)
    found = _locked(transaction, dataset_name, name)
    if found.ended is not None:
        return
    for one in found.pending:
        store(transaction, charge=one.charge, outcome=Release(state=ReleaseState.FAILED))
    _append(transaction, found, EntryKind.END, actor, {"series": name, "reason": reason})


def _open_series(transaction: LedgerTransaction, dataset_name: str, name: str) -> ReservedSeries:
    """Return a series that may have a further period; its journal is locked."""
    found, connection = _locked(transaction, dataset_name, name), transaction.connection
    if found.ended is not None:
        raise InvalidParameterError("series", "open", f"closed: {found.ended}")
    if connection.execute(_DATASET, {"name": dataset_name}).one().closed_at is not None:
        raise ChargeRefusedError(Refusal.CLOSED)
    if may_lack_periods(connection, found):
        rule = "one without lost entries of the ledger: among them may be periods. Close it"
        raise InvalidParameterError("series", rule, name)
    return found


def _locked(transaction: LedgerTransaction, dataset_name: str, name: str) -> ReservedSeries:
    """Lock the journal of a series, and return the series as the lock finds it."""
    about = transaction.connection.execute(_DATASET, {"name": dataset_name}).one_or_none()
    if about is not None:
        transaction.lock(about.journal_id)
    found = find_series(transaction.connection, dataset_name, name)
    if found is None:
        raise InvalidParameterError("series", "one of this data set", name)
    return found


def _append(
    transaction: LedgerTransaction,
    found: ReservedSeries,
    kind: EntryKind,
    actor: int,
    detail: Mapping[str, object],
) -> dict[str, Any]:
    about = transaction.connection.execute(_DATASET, {"name": found.dataset}).one()
    made = transaction.entry(
        found.journal_id,
        kind,
        principal_id=actor,
        dataset_id=about.id,
        request_sha256=_sha256(found.id),
        detail=canonical_text("series", detail),
    )
    transaction.write([made])
    return made


def find_series(connection: Connection, dataset_name: str, name: str) -> ReservedSeries | None:
    """Return a series of a data set by its name."""
    named = _SERIES.where(series.c.name == bindparam("series"))
    row = connection.execute(named, {"name": dataset_name, "series": name}).one_or_none()
    return None if row is None else _read(connection, row)


def series_of(connection: Connection, dataset_name: str) -> list[ReservedSeries]:
    """Return the series of a data set, in the order in which they were opened."""
    return [_read(connection, row) for row in connection.execute(_SERIES, {"name": dataset_name})]


def series_ids(connection: Connection) -> list[str]:
    """Return the identifiers of all series."""
    details = connection.execute(select(entry.c.detail).select_from(entry.join(series, _AT)))
    return [str(json.loads(text)["id"]) for text in details.scalars()]


def has_losses(connection: Connection) -> bool:
    """Whether entries of any journal were lost, and the loss was accepted."""
    lost = select(entry.c.seq).where(entry.c.kind == EntryKind.LOST.value).limit(1)
    return connection.execute(lost).first() is not None


def series_of_period(connection: Connection, dataset_name: str, charge: Charge) -> ReservedSeries:
    """Return the series of a period."""
    found = find_series(connection, dataset_name, str(json.loads(charge.request)["series"]))
    if found is None:
        raise RuntimeError("a period without a series")
    return found


def fingerprints_of_others(connection: Connection, found: ReservedSeries) -> list[str]:
    """Return the fingerprints of data sets and periods of other people than those of a series.

    Those that the database has lost are among them.
    """
    datasets = select(dataset.c.fingerprint).where(dataset.c.journal_id != found.journal_id)
    periods = select(release.c.fingerprint).where(
        release.c.journal_id != found.journal_id, release.c.fingerprint.is_not(None)
    )
    lost = select(lost_dataset.c.fingerprint).where(
        lost_dataset.c.name.not_in(names_in(found.journal_id))
    )
    known = connection.execute(union(datasets, periods, lost)).scalars()
    return [one.removeprefix(OF_PERIOD) for one in known]


def may_lack_periods(connection: Connection, found: ReservedSeries) -> bool:
    """Whether entries were lost after a series was opened: periods may be among them."""
    lost = {"journal": found.journal_id, "after": found.seq}
    return connection.execute(_LOST, lost).first() is not None


def files_awaited(connection: Connection) -> list[tuple[str, str]]:
    """Return data set and file of each period that is being computed."""
    found = connection.execute(_AWAITED).all()
    return [(name, str(json.loads(content)["file"])) for name, content in found]


def is_period(charge: Charge) -> bool:
    """Whether an entry is a period of a series."""
    return "period" in json.loads(charge.request)


def _read(connection: Connection, row: Any) -> ReservedSeries:  # noqa: ANN401 - of `_SERIES`
    detail = json.loads(row.detail)
    own = {"journal": row.journal_id, "request": _sha256(detail["id"])}
    rows = connection.execute(_PERIODS, own).all()
    ended = [json.loads(one.detail)["reason"] for one in rows if one.kind == EntryKind.END]
    return ReservedSeries(
        id=detail["id"],
        journal_id=row.journal_id,
        seq=row.seq,
        dataset=row.dataset,
        name=row.name,
        plain_request=detail["request"],
        price=charge_of(row).price,
        at=row.at,
        by=row.principal,
        periods=tuple(
            SeriesPeriod(
                charge=charge_of(one),
                label=json.loads(one.detail)["period"],
                state=None if one.state is None else ReleaseState(one.state),
                number=one.number,
            )
            for one in rows
            if one.kind == EntryKind.PERIOD
        ),
        ended=ended[0] if ended else None,
    )


def _sha256(number: str) -> str:
    """Return the hash by which the entries of a series are found."""
    return hashlib.sha256(f"series\n{number}".encode()).hexdigest()


_DATASET = (
    select(
        dataset.c.id,
        dataset.c.journal_id,
        dataset.c.closed_at,
        journal.c.unit,
        journal.c.neighbours,
    )
    .join(journal, journal.c.id == dataset.c.journal_id)
    .where(dataset.c.name == bindparam("name"))
)
_AT = and_(series.c.journal_id == entry.c.journal_id, series.c.seq == entry.c.seq)
_SERIES = (
    CHARGED.add_columns(
        entry.c.at,
        series.c.name,
        dataset.c.name.label("dataset"),
        principal.c.name.label("principal"),
    )
    .select_from(
        entry.join(series, _AT)
        .join(dataset, dataset.c.id == series.c.dataset_id)
        .join(principal, principal.c.id == entry.c.principal_id)
    )
    .where(dataset.c.name == bindparam("name"))
    .order_by(entry.c.journal_id, entry.c.seq)
)
_PERIODS = (
    CHARGED.add_columns(entry.c.kind, release.c.state, release.c.number)
    .select_from(
        entry.outerjoin(
            release, and_(release.c.journal_id == entry.c.journal_id, release.c.seq == entry.c.seq)
        )
    )
    .where(
        entry.c.journal_id == bindparam("journal"),
        entry.c.request_sha256 == bindparam("request"),
    )
    .order_by(entry.c.seq)
)
_AWAITED = (
    select(dataset.c.name, planned.c.content)
    .select_from(
        planned.join(
            entry, and_(entry.c.journal_id == planned.c.journal_id, entry.c.seq == planned.c.seq)
        ).join(dataset, dataset.c.id == entry.c.dataset_id)
    )
    .where(entry.c.kind == EntryKind.PERIOD.value)
    .order_by(entry.c.journal_id, entry.c.seq)
)
_LOST = (
    select(entry.c.seq)
    .where(
        entry.c.journal_id == bindparam("journal"),
        entry.c.kind == EntryKind.LOST.value,
        entry.c.seq > bindparam("after"),
    )
    .limit(1)
)
