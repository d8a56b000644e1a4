"""Orders that a user has reviewed on the pages and not placed yet.

An order is placed in two steps. The first stores the request and what it would charge, under a key
that becomes its idempotency key; the second names the key alone. What is charged is therefore what
the confirmation page stated, and confirming twice charges once. Reviewed orders belong to a session
and end with it. They are in the database: any process of the server may receive the second step.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from uuid import uuid4

from sqlalchemy import delete, insert, select, update

from wattveil.server.http.requests import ReleaseBody
from wattveil.server.ledger.journal import LedgerTransaction
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_tables import reviewed_order

_MAX_ORDERS = 50
"""Of one session; the oldest is dropped."""


@dataclass(frozen=True)
class Payers:
    """Which accounts an order would charge: neither, if the release was charged before."""

    dataset: bool
    own: bool


@dataclass(frozen=True)
class ReviewedOrder:
    """A request, what its confirmation page stated, and the release once it is ordered."""

    key: str
    dataset: str
    body: ReleaseBody
    payers: Payers
    sent: Mapping[str, Sequence[str]]
    """Fields of the form, to change the order."""
    release: str | None = None

    @property
    def content(self) -> str:
        """Request, payers and form as JSON, for the database."""
        parts = {
            "body": self.body.model_dump(mode="json"),
            "payers": asdict(self.payers),
            "sent": {name: list(values) for name, values in self.sent.items()},
        }
        return json.dumps(parts)


@dataclass(frozen=True)
class ReviewedOrders:
    """Reviewed orders of one session."""

    ledger: Ledger
    session_id: int

    def add(
        self, dataset: str, body: ReleaseBody, payers: Payers, sent: Mapping[str, Sequence[str]]
    ) -> ReviewedOrder:
        """Store a request and the form that it was read from; return it with its key."""
        order = ReviewedOrder(f"page-{uuid4().hex}", dataset, body, payers, sent)
        self.ledger.write(partial(self._insert, order=order))
        return order

    def find(self, key: str) -> ReviewedOrder | None:
        """Return an order of this session; None if it is unknown or was dropped."""
        own = (reviewed_order.c.session_id == self.session_id, reviewed_order.c.key == key)
        with self.ledger.reading() as connection:
            row = connection.execute(select(reviewed_order).where(*own)).one_or_none()
        if row is None:
            return None
        parts = json.loads(row.content)
        return ReviewedOrder(
            row.key,
            row.dataset,
            ReleaseBody.model_validate(parts["body"]),
            Payers(**parts["payers"]),
            parts["sent"],
            row.release,
        )

    def update(self, order: ReviewedOrder) -> None:
        """Store what has changed: the payers that were stated, or the release."""
        values = {"content": order.content, "release": order.release}
        row = update(reviewed_order).where(reviewed_order.c.key == order.key).values(values)
        self.ledger.write(lambda transaction: transaction.connection.execute(row))

    def _insert(self, transaction: LedgerTransaction, order: ReviewedOrder) -> None:
        connection = transaction.connection
        row = insert(reviewed_order).values(
            session_id=self.session_id,
            key=order.key,
            dataset=order.dataset,
            content=order.content,
        )
        connection.execute(row)
        own = reviewed_order.c.session_id == self.session_id
        newest = select(reviewed_order.c.id).where(own).order_by(reviewed_order.c.id.desc())
        kept = connection.execute(newest.limit(_MAX_ORDERS)).scalars().all()
        connection.execute(delete(reviewed_order).where(own, reviewed_order.c.id < kept[-1]))
