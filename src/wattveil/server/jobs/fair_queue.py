"""Queue in which principals take turns: many orders of one do not delay those of another."""

import threading
from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items by principal: in the order of arrival of each, and in turn between them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: OrderedDict[int, deque[T]] = OrderedDict()
        self._closed = False

    def put(self, principal: int, item: T) -> None:
        """Add an item to the line of a principal."""
        with self._changed:
            self._lines.setdefault(principal, deque()).append(item)
            self._changed.notify()

    def get(self) -> T | None:
        """Wait for the next item; None once the queue is closed."""
        with self._changed:
            while not self._lines and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            principal, line = self._lines.popitem(last=False)
            item = line.popleft()
            if line:
                self._lines[principal] = line  # behind all others
            return item

    def close(self) -> None:
        """End waiting; items that are left stay pending in the ledger."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
