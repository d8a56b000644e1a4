"""The ledger, as the server holds it.

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

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import DBAPIError

from wattveil.errors import InvalidParameterError, LedgerUnavailableError
from wattveil.privacy.guarantee import Neighbours, Tier, Unit
from wattveil.serve.ledger import acts, charges
from wattveil.serve.ledger.accounts import Account, read_accounts
from wattveil.serve.ledger.acts import PrincipalKind
from wattveil.serve.ledger.amounts import Allowance
from wattveil.serve.ledger.charges import Charge, Release
from wattveil.serve.ledger.desk import Place, already_paid
from wattveil.serve.ledger.engine import cause_of, connect, database_url
from wattveil.serve.ledger.journal import Session
from wattveil.serve.ledger.migrate import migrate
from wattveil.serve.ledger.order import Order, check_name
from wattveil.serve.ledger.tables import dataset, release
from wattveil.serve.ledger.witness import Witness, count_stored
from wattveil.serve.ledger.writer import Writer

T = TypeVar("T")


class Ledger(AbstractContextManager["Ledger"]):
    """Every charge and every budget of a server; safe to use from many threads.

    Open it with `Ledger.open`. On SQLite one process serves; on PostgreSQL several may.
    """

    def __init__(self, engine: Engine, witness: Witness) -> None:
        self.engine = engine
        self._witness = witness
        with engine.connect() as connection:
            witness.stored = count_stored(connection)
        self._writer = Writer(engine, witness)
        self._places: dict[tuple[str, str], Place] = {}

    @classmethod
    def open(cls, folder: Path, database: str | None = None) -> Self:
        """Open the ledger of a data folder; refuse one that has lost entries.

        Parameters
        ----------
        folder
            Where the file of heads is kept, and the database unless another one is named.
        database
            Address of a PostgreSQL database.
        """
        engine, witness = _open(folder, database)
        with engine.connect() as connection:
            lost = witness.behind(connection)
        if lost:
            witness.close()
            engine.dispose()
            raise next(iter(lost.values()))
        return cls(engine, witness)

    @classmethod
    def accept(cls, folder: Path, database: str | None = None, *, by: str, reason: str) -> int:
        """Take a database that has lost entries for the ledger, from now on.

        What the books concerned have left is counted as spent, since nobody can know how much of
        it was. Returns how many books that were.
        """
        engine, witness = _open(folder, database)
        with engine.connect() as connection:
            lost = sorted(witness.behind(connection))
        seen = dict(witness.heads), dict(witness.stored)
        for book_id in lost:
            witness.heads.pop(book_id, None)
        with cls(engine, witness) as ledger:
            try:
                ledger._writer.run(partial(acts.count_as_lost, books=lost, by=by, reason=reason))
            except BaseException:
                # Nothing was accepted: the ledger must not start the next time.
                witness.heads, witness.stored = seen
                raise
        return len(lost)

    def close(self) -> None:
        """Finish what is waiting, and let go of the database."""
        self._writer.close()
        self._witness.close()
        self.engine.dispose()

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    # --- what owners do ---------------------------------------------------------------------------

    def add_principal(self, name: str, kind: PrincipalKind) -> None:
        """Add somebody who may act or ask."""
        self._writer.run(partial(acts.add_principal, name=name, kind=kind))

    def disable_principal(self, name: str) -> None:
        """Refuse a principal from now on; what it was given stays readable."""
        self._writer.run(partial(acts.disable_principal, name=name))

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
    ) -> None:
        """Register a data set, in the global tier.

        With an allowance of its own, or linked to a data set on the same people, whose accounts it
        then shares. ``fingerprint`` is a keyed hash of the content; the same content is refused.
        """
        if allowance is not None:
            _ = allowance.caps  # computed once, before anybody waits for the lock
        book_id = 0 if linked_to is None else self._book(linked_to)
        act = partial(
            acts.open_dataset,
            name=name,
            by=by,
            fingerprint=fingerprint,
            unit=unit,
            neighbours=neighbours,
            allowance=allowance,
            linked_to=linked_to,
        )
        self._writer.run(act, book_id=book_id)

    def set_budget(
        self,
        name: str,
        allowance: Allowance,
        *,
        by: str,
        reason: str,
        tier: Tier = Tier.GLOBAL,
        whose: str | None = None,
    ) -> None:
        """Set what may be spent on a data set, by everybody together or by one principal.

        The first budget of a principal admits it; the first one of the instance tier opens that
        tier. A budget below what is spent is refused.
        """
        _ = allowance.caps
        act = partial(
            acts.set_budget,
            name=name,
            by=by,
            allowance=allowance,
            tier=tier,
            whose=whose,
            reason=reason,
        )
        self._writer.run(act, book_id=self._book(name))

    def close_dataset(self, name: str, *, by: str, reason: str) -> None:
        """Refuse every further charge on a data set; what was released stays."""
        act = partial(acts.close_dataset, name=name, by=by, reason=reason)
        self._writer.run(act, book_id=self._book(name))

    def write(self, work: Callable[[Session], T], *, linked_to: str | None = None) -> T:
        """Run what the server writes about itself, with an act of one book at most.

        ``linked_to`` names a data set whose book is known already; a new book needs none.
        """
        return self._writer.run(work, book_id=0 if linked_to is None else self._book(linked_to))

    # --- charge, then compute, then store ---------------------------------------------------------

    def charge(self, order: Order) -> Charge:
        """Charge an order, or find the charge of its key; durable when this returns.

        Raises
        ------
        ChargeRefusedError
            With a code of `Refusal`; nothing was spent.
        KeyConflictError
            The key stands for another request.
        LedgerUnavailableError
            Whether it was charged is not known: the same order finds out, and pays once.
        """
        return self._writer.charge(self._place(order), order)

    def store(self, paid: Charge, outcome: Release) -> Release:
        """Store what was computed, unless something was stored before; return what is stored."""
        return self._writer.run(
            partial(charges.store, paid=paid, outcome=outcome), book_id=paid.book_id
        )

    # --- reading ----------------------------------------------------------------------------------

    def release_of(self, paid: Charge) -> Release | None:
        """Return what is stored for a charge; None while it is being computed."""
        with self.reading() as connection:
            return charges.read_release(connection, paid)

    def pending(self) -> list[Charge]:
        """Return the charges whose release is still to be computed, perhaps after a crash."""
        with self.reading() as connection:
            return charges.read_pending(connection)

    def payloads(self) -> set[str]:
        """Return the names of all payloads that are stored."""
        named = select(release.c.payload_ref).where(release.c.payload_ref.is_not(None))
        with self.reading() as connection:
            return set(connection.execute(named).scalars())

    def accounts(self, name: str, whose: str, tier: Tier) -> tuple[Account | None, Account | None]:
        """Return the accounts of a data set: of everybody together, and of one principal."""
        book_id = self._book(name)
        with self.reading() as connection:
            owner = acts.principal_id(connection, whose)
            found = read_accounts(connection, book_id)
        return found.get((tier, None)), found.get((tier, owner))

    def already_paid(self, order: Order) -> tuple[bool, bool]:
        """Whether the data set, and the principal, have paid for this request before.

        Whoever has does not pay for it again, whatever the key.
        """
        place = self._place(order)
        with self.reading() as connection:
            return already_paid(connection, place, order)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Look at the tables, as they are at one moment."""
        if self._writer.closed:
            raise LedgerUnavailableError("it is closed")
        try:
            with self.engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise LedgerUnavailableError(cause_of(error)) from None

    def _book(self, name: str) -> int:
        check_name("dataset", name)
        with self.reading() as connection:
            found = connection.execute(select(dataset.c.book_id).where(dataset.c.name == name))
            book_id = found.scalar()
        if book_id is None:
            raise InvalidParameterError("dataset", "one that is registered", name)
        return int(book_id)

    def _place(self, order: Order) -> Place:
        """Look the names up, once: numbers never change."""
        names = (order.dataset, order.principal)
        if names not in self._places:
            with self.reading() as connection:
                found = select(dataset.c.book_id, dataset.c.id).where(dataset.c.name == names[0])
                row = connection.execute(found).one_or_none()
                if row is None:
                    raise InvalidParameterError("dataset", "one that is registered", names[0])
                self._places[names] = Place(*row, acts.principal_id(connection, names[1]))
        return self._places[names]


def _open(folder: Path, database: str | None) -> tuple[Engine, Witness]:
    """Connect, and bring the tables up to date."""
    if not folder.is_dir():
        raise InvalidParameterError("data", "a folder that exists", str(folder))
    engine = connect(database_url(folder, database))
    try:
        migrate(engine)
        return engine, Witness(folder)
    except BaseException as error:
        engine.dispose()
        if isinstance(error, DBAPIError):
            raise LedgerUnavailableError(cause_of(error)) from None
        raise
