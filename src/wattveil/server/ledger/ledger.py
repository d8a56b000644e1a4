"""The ledger: every charge and every budget of a server.

>>> import tempfile
>>> from pathlib import Path
>>> with tempfile.TemporaryDirectory() as folder, Ledger.open(Path(folder)) as ledger:
...     ledger.add_principal("owner", PrincipalKind.ADMIN)
...     ledger.open_dataset(
...         "homes-2024",
...         by="owner",
...         fingerprint="hmac:5d41",
...         unit=Unit.CUSTOMER,
...         neighbours=Neighbours.ZERO_OUT,
...         allowance=Allowance(epsilon=2.0, delta=1e-6),
...     )
...     whole, own = ledger.accounts("homes-2024", "owner", Tier.GLOBAL)
>>> whole.spent, own
(Amounts(rho=0, epsilon=0, delta=0, eta=0), None)
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from wattveil.bundle.series_request import SeriesRequest
from wattveil.errors import InvalidParameterError, LedgerUnavailableError, WattveilError
from wattveil.privacy.guarantee import Neighbours, Tier, Unit
from wattveil.server.ledger import accounts as charges
from wattveil.server.ledger import administration, reserved_series
from wattveil.server.ledger.accounts import Account, Charge, Release, read_accounts
from wattveil.server.ledger.administration import PrincipalKind
from wattveil.server.ledger.admission import OrderIds, already_paid, charge_under_key
from wattveil.server.ledger.amounts import Allowance
from wattveil.server.ledger.database import open_database
from wattveil.server.ledger.database_errors import cause_of
from wattveil.server.ledger.database_record import (
    check_database,
    check_no_other,
    record_database,
)
from wattveil.server.ledger.high_water_mark import HighWaterMark, count_stored, stated_counts
from wattveil.server.ledger.journal import LedgerTransaction
from wattveil.server.ledger.ledger_tables import UNKNOWN_DATASET, dataset, journal, release
from wattveil.server.ledger.order import Order, check_name
from wattveil.server.ledger.server_lease import leased
from wattveil.server.ledger.writer import Writer
from wattveil.server.observe.request_record import SecurityEvent, security_event

T = TypeVar("T")

CACHED_SECONDS = 1.0
"""Time for which a process may use what it has read about a token."""
_HUNG_SECONDS = 1.0
"""After an error that took longer, reads are refused for this time."""


class Ledger(AbstractContextManager["Ledger"]):
    """Every charge and every budget of a server; safe to use from many threads.

    Open it with `Ledger.open`. On SQLite one process serves; on PostgreSQL several may.
    """

    def __init__(
        self, engine: Engine, high_water_mark: HighWaterMark, *, is_shared: bool = False
    ) -> None:
        self.engine = engine
        self._is_shared = is_shared
        self._high_water_mark = high_water_mark
        self._writer = Writer(engine, high_water_mark)
        self._order_ids: dict[tuple[str, str], OrderIds] = {}
        self._hung_until = 0.0
        self.writes = 0
        """Number of calls of `write`: what was read before one of them may have changed."""
        self.accesses_ended = 0
        """Number of calls of `end_access`."""

    @classmethod
    def open(cls, folder: Path, database: str | None = None, *, is_shared: bool = False) -> Self:
        """Open the ledger of a data folder; refuse one that has lost entries.

        Parameters
        ----------
        folder
            Folder of the high-water mark, and of the database unless another one is named.
        database
            Address of a PostgreSQL database.
        is_shared
            Whether other processes write at the same time; one of them opens the ledger first and
            closes it last, not shared.
        """
        engine, high_water_mark = open_database(folder, database)
        try:
            with engine.connect() as connection:
                lost = high_water_mark.behind(connection)
                if not lost:
                    check_no_other(folder, connection)
                    high_water_mark.catch_up(connection)
                    record_database(folder, engine.url, connection)
        except OSError:
            engine.dispose()
            raise LedgerUnavailableError("the high-water mark cannot be written") from None
        except WattveilError:
            if not is_shared:
                high_water_mark.close()
            engine.dispose()
            raise
        if lost:
            if not is_shared:
                high_water_mark.close()
            engine.dispose()
            check_database(folder, engine.url, is_exact=True)
            raise next(iter(lost.values()))
        return cls(engine, high_water_mark, is_shared=is_shared)

    @classmethod
    def accept(cls, folder: Path, database: str | None = None, *, by: str, reason: str) -> int:
        """Accept a database that has lost entries.

        All remaining amounts of the journals concerned count as spent, since the lost charges are
        unknown. Data sets whose registration was lost are remembered: the budget that they are
        given first counts as spent. A budget is raised later only with a declaration of the largest
        total that can have been charged (`set_budget`). Without a high-water mark it is unknown
        which registrations were lost: then a data set is registered only with a declaration.
        Returns the number of journals concerned.
        """
        engine, high_water_mark = open_database(folder, database, is_exact=True)
        with leased(engine):  # a server of another folder may use the database
            with engine.connect() as connection:
                lost = sorted(high_water_mark.behind(connection))
                gone = high_water_mark.lost_datasets(connection)
            if lost and high_water_mark.is_new:
                gone[UNKNOWN_DATASET] = UNKNOWN_DATASET
            seen = dict(high_water_mark.heads), dict(high_water_mark.stored)
            for journal_id in lost:
                high_water_mark.heads.pop(journal_id, None)
            with engine.connect() as connection:
                high_water_mark.stored = count_stored(connection)
            with cls(engine, high_water_mark) as ledger:
                try:
                    ledger._writer.run(
                        partial(
                            administration.count_as_lost,
                            journals=lost,
                            datasets=gone,
                            by=by,
                            reason=reason,
                        )
                    )
                    with engine.connect() as connection:
                        high_water_mark.catch_up(connection)
                        record_database(folder, engine.url, connection)
                except BaseException:
                    # Nothing was accepted: the ledger must not open the next time.
                    high_water_mark.heads, high_water_mark.stored = seen
                    raise
        return len([journal_id for journal_id in lost if journal_id])

    def close(self) -> None:
        """Finish waiting jobs, and close the database."""
        self._writer.close()
        try:
            if not self._is_shared:
                with suppress(DBAPIError), self.engine.connect() as connection:
                    self._high_water_mark.record({}, stated_counts(connection), {})
                self._high_water_mark.close()
        except OSError:
            raise LedgerUnavailableError("the high-water mark cannot be written") from None
        finally:  # what could not be recorded is recorded by the next start
            self.engine.dispose()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or its writer has ended by itself: nothing is read or written."""
        return self._writer.closed

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    # --- administration --------------------------------------------------------------------------

    def add_principal(self, name: str, kind: PrincipalKind) -> None:
        """Create a principal."""
        self._writer.run(partial(administration.add_principal, name=name, kind=kind))

    def disable_principal(self, name: str) -> None:
        """Disable a principal; its releases stay readable to administrators."""
        self.end_access(partial(administration.disable_principal, name=name))

    def open_dataset(
        self,
        name: str,
        *,
        by: str,
        fingerprint: str,
        unit: Unit,
        neighbours: Neighbours,
        allowance: Allowance | None = None,
        linked_to: str | None = None,
        never_charged: str | None = None,
    ) -> None:
        """Register a data set, in the global tier.

        With an allowance of its own, or linked to a data set on the same people, whose accounts it
        then shares. ``fingerprint`` is a keyed hash of the content; the same content is refused.
        ``never_charged`` is a declaration that is needed after registrations may have been lost.
        """
        if allowance is not None:
            _ = allowance.caps  # computed before the lock is taken
        journal_id = 0 if linked_to is None else self._journal(linked_to)
        work = partial(
            administration.open_dataset,
            name=name,
            by=by,
            fingerprint=fingerprint,
            unit=unit,
            neighbours=neighbours,
            allowance=allowance,
            linked_to=linked_to,
            never_charged=never_charged,
        )
        self._writer.run(work, journal_id=journal_id, compares=True)

    def set_budget(
        self,
        name: str,
        allowance: Allowance,
        *,
        by: str,
        reason: str,
        tier: Tier = Tier.GLOBAL,
        principal: str | None = None,
        lost: Allowance | None = None,
    ) -> None:
        """Set the budget of a data set, or of one principal on it.

        The first budget of a principal admits it; the first one of the instance tier opens that
        tier. A budget below what is spent is refused. After entries were lost, ``lost`` declares
        the largest total that can have been charged before, and counts as spent.
        """
        _ = allowance.caps, lost and lost.caps
        work = partial(
            administration.set_budget,
            name=name,
            by=by,
            allowance=allowance,
            tier=tier,
            principal=principal,
            reason=reason,
            lost=lost,
        )
        self._writer.run(work, journal_id=self._journal(name))
        about = {} if principal is None else {"account_of": principal}
        security_event(SecurityEvent.BUDGET_SET, by, about=name, tier=tier.value, **about)

    def close_dataset(self, name: str, *, by: str, reason: str) -> None:
        """Refuse every further charge on a data set; its releases stay."""
        work = partial(administration.close_dataset, name=name, by=by, reason=reason)
        self._writer.run(work, journal_id=self._journal(name))
        security_event(SecurityEvent.DATASET_CLOSED, by, about=name)

    def reserve_series(
        self, name: str, series: str, request: SeriesRequest, *, by: str, uid: str
    ) -> None:
        """Charge the whole budget of a series of periods to a data set; durable when this returns.

        The same series again costs nothing, and keeps its identifier; ``uid`` is that of a new one.
        """
        _ = reserved_series.price_of(request)  # computed before the lock is taken
        work = partial(
            reserved_series.reserve, dataset_name=name, name=series, request=request, by=by, uid=uid
        )
        self._writer.run(work, journal_id=self._journal(name))
        security_event(SecurityEvent.SERIES_OPENED, by, about=name, series=series)

    def begin_period(
        self, name: str, series: str, period: str, *, file: str, recluster: bool, by: str
    ) -> Charge:
        """Record that a period of a series is computed, from a file; return its entry."""
        work = partial(
            reserved_series.begin_period,
            dataset_name=name,
            name=series,
            label=period,
            file=file,
            recluster=recluster,
            by=by,
        )
        return self._writer.run(work, journal_id=self._journal(name))

    def end_series(self, name: str, series: str, *, reason: str, by: str) -> None:
        """Refuse every further period of a series; its releases stay."""
        work = partial(reserved_series.end, dataset_name=name, name=series, reason=reason, by=by)
        self._writer.run(work, journal_id=self._journal(name))
        security_event(SecurityEvent.SERIES_CLOSED, by, about=name, series=series)

    def record_erasures(self, series: str, count: int) -> None:
        """Record how many erasures there were from a series; durable when this returns."""
        try:
            self._high_water_mark.record_erasures(series, count)
        except OSError:
            raise LedgerUnavailableError("the high-water mark cannot be written") from None

    def erasures_of(self, series: str) -> int:
        """Return how many erasures from a series were recorded."""
        return self._high_water_mark.erasures_of(series)

    def write(
        self,
        work: Callable[[LedgerTransaction], T],
        *,
        linked_to: str | None = None,
        compares: bool = False,
    ) -> T:
        """Run other writes of the server, which touch one journal at most.

        ``linked_to`` names a data set whose journal is touched; a new journal needs none.
        ``compares``: fingerprints are compared with those of other journals.
        """
        journal_id = 0 if linked_to is None else self._journal(linked_to)
        try:
            return self._writer.run(work, journal_id=journal_id, compares=compares)
        finally:
            self.writes += 1

    def end_access(self, work: Callable[[LedgerTransaction], T]) -> T:
        """Run a write that ends the access of a token or a principal.

        It returns when no process of the server accepts the token any more.
        """
        result = self.write(work)
        self.accesses_ended += 1
        if self._is_shared:
            time.sleep(CACHED_SECONDS)
        return result

    # --- charge, then compute, then store ---------------------------------------------------------

    def charge(self, order: Order) -> Charge:
        """Charge an order, or return the charge of its key; durable when this returns.

        Raises
        ------
        ChargeRefusedError
            With a code of `Refusal`; nothing was charged.
        KeyConflictError
            The key belongs to another request.
        LedgerUnavailableError
            Whether it was charged is unknown: repeat the same order; it is charged once.
        """
        return self._writer.charge(self._resolve(order), order)

    def confirm(self, charge: Charge) -> None:
        """Make sure that the high-water mark has a charge, before anything is computed for it.

        The process that made the charge, or that stored a release of the journal, may have ended
        before it recorded it. A database that has lost a release is refused: its charge seems to be
        pending, and would be drawn again.
        """
        self._writer.run(
            lambda transaction: transaction.lock(charge.journal_id), journal_id=charge.journal_id
        )

    def store(self, charge: Charge, outcome: Release) -> Release:
        """Store an outcome, unless one is stored; return the stored outcome.

        As before the computation, a database that has lost a release is refused: the next one would
        hide that.
        """
        return self._writer.run(
            partial(charges.store, charge=charge, outcome=outcome),
            journal_id=charge.journal_id,
            compares=outcome.fingerprint is not None,
        )

    # --- reading ----------------------------------------------------------------------------------

    def release_of(self, charge: Charge) -> Release | None:
        """Return the stored outcome of a charge; None while it is computed."""
        with self.reading() as connection:
            return charges.read_release(connection, charge)

    def is_recorded(self, journal_id: int, number: int | None) -> bool:
        """Whether the high-water mark has the release of this number: only then it may be sent."""
        # One without a number was stored by an earlier version, and recorded by this start.
        return number is None or self._high_water_mark.has_release(journal_id, number)

    def check_recorded(self, *, grace_seconds: float) -> None:
        """Raise an error if the mark cannot be written, or lacks a release for longer than this."""
        self._high_water_mark.check_writable()
        with self.reading() as connection:
            due = stated_counts(connection)
        self._high_water_mark.check_releases(due, grace_seconds=grace_seconds)

    def pending(self) -> list[Charge]:
        """Return the charges without a stored outcome, for example after a crash."""
        with self.reading() as connection:
            return charges.read_pending(connection)

    def pending_since(self, heads: Mapping[int, int]) -> tuple[list[Charge], dict[int, int]]:
        """Return the pending charges after these numbers of entries, and the numbers now.

        A journal that has not grown costs no further query.
        """
        with self.reading() as connection:
            found = connection.execute(select(journal.c.id, journal.c.head_seq))
            now = {int(journal_id): int(seq) for journal_id, seq in found}
            grown = {one: heads.get(one, 0) for one in now if now[one] > heads.get(one, 0)}
            return charges.read_pending(connection, grown), now

    def count_pending(self, principal_id: int | None = None) -> int:
        """Return the number of charges without a stored outcome, of all principals or of one."""
        with self.reading() as connection:
            return charges.count_pending(connection, principal_id)

    def payloads(self) -> set[str]:
        """Return the names of all payloads that are stored."""
        named = select(release.c.payload_ref).where(release.c.payload_ref.is_not(None))
        with self.reading() as connection:
            return set(connection.execute(named).scalars())

    def accounts(
        self, name: str, principal: str, tier: Tier
    ) -> tuple[Account | None, Account | None]:
        """Return the accounts of the data set and of one principal."""
        journal_id = self._journal(name)
        with self.reading() as connection:
            owner = administration.principal_id(connection, principal)
            found = read_accounts(connection, journal_id)
        return found.get((tier, None)), found.get((tier, owner))

    def already_paid(self, order: Order) -> tuple[bool, bool]:
        """Whether the data set, and the principal, were charged for this request before.

        They are not charged again, whatever the key.
        """
        ids = self._resolve(order)
        with self.reading() as connection:
            return already_paid(connection, ids, order)

    def charge_under_key(self, order: Order) -> Charge | None:
        """Return the charge that was made for this request under the key of the order."""
        ids = self._resolve(order)
        with self.reading() as connection:
            return charge_under_key(connection, ids, order)

    def principal_id(self, order: Order) -> int:
        """Return the number of the principal of an order."""
        return self._resolve(order).principal_id

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Return a connection for reading."""
        if self.is_closed:
            raise LedgerUnavailableError("it is closed")
        started = time.monotonic()
        if started < self._hung_until:
            raise LedgerUnavailableError("the database did not respond a moment ago")
        try:
            with self.engine.connect() as connection:
                yield connection
        except PoolTimeoutError as error:  # many requests; the database may respond all the same
            raise LedgerUnavailableError(cause_of(error, self.engine.url)) from None
        except DBAPIError as error:
            if time.monotonic() - started > _HUNG_SECONDS:  # others need not wait for it as well
                self._hung_until = time.monotonic() + _HUNG_SECONDS
            raise LedgerUnavailableError(cause_of(error, self.engine.url)) from None

    def _journal(self, name: str) -> int:
        check_name("dataset", name)
        with self.reading() as connection:
            found = connection.execute(select(dataset.c.journal_id).where(dataset.c.name == name))
            journal_id = found.scalar()
        if journal_id is None:
            raise InvalidParameterError("dataset", "one that is registered", name)
        return int(journal_id)

    def _resolve(self, order: Order) -> OrderIds:
        """Return the numbers of an order; cached, since they never change."""
        names = (order.dataset, order.principal)
        if names not in self._order_ids:
            with self.reading() as connection:
                found = select(dataset.c.journal_id, dataset.c.id).where(dataset.c.name == names[0])
                row = connection.execute(found).one_or_none()
                if row is None:
                    raise InvalidParameterError("dataset", "one that is registered", names[0])
                self._order_ids[names] = OrderIds(
                    *row, administration.principal_id(connection, names[1])
                )
        return self._order_ids[names]
