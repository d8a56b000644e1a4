"""Orders that a user has reviewed on the pages and not placed yet.

An order is placed in two steps. The first stores the request and what it would charge, under a key
that becomes its idempotency key; the second names the key alone. What is charged is therefore what
the confirmation page stated, and confirming twice charges once. The store belongs to a session and
ends with it.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from wattveil.server.http.requests import ReleaseBody

_MAX_ORDERS = 50
"""Of one session; the oldest is dropped."""


@dataclass(frozen=True)
class Payers:
    """Which accounts an order would charge: neither, if the release was charged before."""

    dataset: bool
    own: bool


@dataclass
class ReviewedOrder:
    """A request, what its confirmation page stated, and the release once it is ordered."""

    key: str
    dataset: str
    body: ReleaseBody
    payers: Payers
    sent: Mapping[str, Sequence[str]]
    """Fields of the form, to change the order."""
    release: str | None = None


class ReviewedOrders:
    """Reviewed orders of one session, the oldest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: dict[str, ReviewedOrder] = {}

    def add(
        self, dataset: str, body: ReleaseBody, payers: Payers, sent: Mapping[str, Sequence[str]]
    ) -> ReviewedOrder:
        """Store a request and the form that it was read from; return it with its key."""
        order = ReviewedOrder(f"page-{uuid4().hex}", dataset, body, payers, sent)
        with self._lock:
            self._orders[order.key] = order
            while len(self._orders) > _MAX_ORDERS:
                del self._orders[next(iter(self._orders))]
        return order

    def find(self, key: str) -> ReviewedOrder | None:
        """Return an order; None if it is unknown or was dropped."""
        with self._lock:
            return self._orders.get(key)
