"""Queue and turn that principals share: many items of one do not delay those of another."""

import threading
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class _Lines(Generic[T]):
    """Items by principal: in the order of arrival of each, and in turn between them."""

    def __init__(self) -> None:
        self._lines: OrderedDict[Hashable, deque[T]] = OrderedDict()
        self._last: Hashable = None

    def __bool__(self) -> bool:
        return bool(self._lines)

    def put(self, principal: Hashable, item: T) -> None:
        """Add an item to the line of a principal."""
        self._lines.setdefault(principal, deque()).append(item)

    def take(self) -> T:
        """Return the next item: one of the last principal only if no other one waits."""
        others = (one for one in self._lines if one != self._last)
        self._last = principal = next(others, self._last)
        line = self._lines.pop(principal)
        item = line.popleft()
        if line:
            self._lines[principal] = line  # behind all others
        return item

    def remove(self, principal: Hashable, item: T) -> None:
        """Remove an item that waits."""
        line = self._lines[principal]
        line.remove(item)
        if not line:
            del self._lines[principal]


class FairQueue(Generic[T]):
    """Queue of items of principals, who take turns."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: _Lines[T] = _Lines()
        self._closed = False

    def put(self, principal: int, item: T) -> None:
        """Add an item to the line of a principal."""
        with self._changed:
            self._lines.put(principal, item)
            self._changed.notify()

    def get(self) -> T | None:
        """Wait for the next item; None once the queue is closed."""
        with self._changed:
            while not self._lines and not self._closed:
                self._changed.wait()
            return None if self._closed else self._lines.take()

    def close(self) -> None:
        """End waiting; items that are left stay pending in the ledger."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class FairTurn:
    """Lock that principals hold in turn: one who waits is behind one turn of each other one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: _Lines[object] = _Lines()
        self._holder: object = None

    @contextmanager
    def held(self, principal: str, *, wait_seconds: float) -> Iterator[bool]:
        """Wait for the turn of a principal, and hold it; false if it did not come in time."""
        own = object()
        with self._changed:
            self._lines.put(principal, own)
            if self._holder is None:
                self._holder = self._lines.take()
            has_turn = self._changed.wait_for(lambda: self._holder is own, wait_seconds)
            if not has_turn:
                self._lines.remove(principal, own)
        try:
            yield has_turn
        finally:
            if has_turn:
                with self._changed:
                    self._holder = self._lines.take() if self._lines else None
                    self._changed.notify_all()
