"""What the processes of a server report to each other, in shared memory.

Each value is the time of the last report, by the clock that all processes of a machine share: a
process that stops, however that happens, is known to be gone a few seconds later.
"""

import time
from collections.abc import Mapping
from multiprocessing.context import ForkServerContext

from wattveil.server.ledger.server_lease import Lease

_FRESH_SECONDS = 10.0
"""Age at which a report counts no more; a query of the database may take 5 seconds."""


class ServerHealth:
    """Reports of the supervisor (lease, process numbers) and of its children (that they work)."""

    def __init__(self, context: ForkServerContext, names: tuple[str, ...]) -> None:
        self._names = names
        self._pids = context.Array("q", len(names), lock=False)
        self._ready = context.Array("d", len(names), lock=False)
        self._lease = context.Array("d", 1, lock=False)

    def report_process(self, name: str, pid: int) -> None:
        """Record that a process was started; it is not ready yet."""
        self._ready[self._names.index(name)] = 0.0
        self._pids[self._names.index(name)] = pid

    def report_ready(self, name: str) -> None:
        """Record that a process works."""
        self._ready[self._names.index(name)] = time.monotonic()

    def report_lease(self) -> None:
        """Record that the server holds its lease."""
        self._lease[0] = time.monotonic()

    def is_ready(self, name: str) -> bool:
        """Whether a process has worked since it was started."""
        return bool(self._ready[self._names.index(name)] > 0.0)

    @property
    def has_worker(self) -> bool:
        """Whether the worker process has reported a moment ago."""
        return _is_fresh(self._ready[self._names.index(WORKER)])

    @property
    def has_lease(self) -> bool:
        """Whether the supervisor has held the lease a moment ago."""
        return _is_fresh(self._lease[0])

    @property
    def pids(self) -> Mapping[str, int]:
        """Process numbers by name."""
        return dict(zip(self._names, self._pids, strict=True))


def _is_fresh(reported_at: float) -> bool:
    return time.monotonic() - reported_at < _FRESH_SECONDS


WORKER = "worker"
"""Name of the worker process."""


class SupervisorLease(Lease):
    """The lease of a server, as its API processes see it."""

    def __init__(self, health: ServerHealth) -> None:
        self._health = health

    @property
    def is_held(self) -> bool:
        """Whether this server may accept orders."""
        return self._health.has_lease
