"""How often somebody may ask: a bucket of so many requests that fills up again."""

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

_REMEMBERED = 10_000


@dataclass(frozen=True)
class Rate:
    """So many at once, and so many a second."""

    burst: float
    per_second: float


class Limiter:
    """Counts by name; those who have been quiet longest are forgotten."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._lock = threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admits(self, name: str) -> bool:
        """Count a request; whether there was room for it."""
        now = time.monotonic()
        with self._lock:
            left, then = self._left.pop(name, (self._rate.burst, now))
            left = min(self._rate.burst, left + (now - then) * self._rate.per_second)
            admitted = left >= 1.0
            self._left[name] = (left - 1.0 if admitted else left, now)
            if len(self._left) > _REMEMBERED:
                self._left.popitem(last=False)
        return admitted
