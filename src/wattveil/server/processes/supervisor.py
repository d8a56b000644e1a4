"""Supervisor: starts the processes of a server, replaces those that end, and stops them.

It owns the listening socket, the data folder and the lease of the database, and answers no request
itself. All API processes accept connections of the one socket: those that wait to be accepted do
not belong to any of them, so the end of a process loses only what it was answering. Clients repeat
such a request; an order is charged once by its key.

Children are forks of the forkserver, which reports their ends. If it is killed, children that run
seem to have ended. Duplicates of them would serve two servers on one database: all are killed
instead, and the supervisor ends with an error, so that the service manager starts it again.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing import connection, get_context, parent_process
from multiprocessing.context import ForkServerContext, ForkServerProcess
from types import FrameType

from wattveil.errors import InvalidParameterError
from wattveil.server.ledger.server_lease import ServerLease
from wattveil.server.processes.server_health import ServerHealth

_LOG = logging.getLogger(__name__)

_CHECK_SECONDS = 0.5
"""Time between two reports of the lease; the end of a process is noticed at once."""
_PAUSE_SECONDS = 2.0
"""Least time between two starts of the same process."""
_GRACE_SECONDS = 15.0
"""Time for children to end by themselves: open requests have ten seconds."""

_NO_REPORT = 255
"""Exit code that `multiprocessing` states if the forkserver has ended before the child."""

ENDINGS = (signal.SIGINT, signal.SIGTERM)

Start = Callable[[], None]
"""What a child runs; it must be importable, with arguments that can be pickled."""


class Supervisor:
    """The children of a server, by name."""

    def __init__(
        self, context: ForkServerContext, starts: Mapping[str, Start], health: ServerHealth
    ) -> None:
        self._context, self._starts, self._health = context, starts, health
        self._running: dict[str, ForkServerProcess] = {}
        self._started_at: dict[str, float] = {}

    def start(self) -> None:
        """Start all children, and wait until they work; refuse to go on if one does not start."""
        for name in self._starts:
            self._start(name)
        while waiting := [name for name in self._starts if not self._health.is_ready(name)]:
            for name in waiting:
                if not self._running[name].is_alive():
                    rule = "able to start; the log names the error"
                    raise InvalidParameterError("processes", rule, name)
            time.sleep(_CHECK_SECONDS / 10)

    def run(self, lease: ServerLease) -> None:
        """Replace children that end, and report whether the lease is held; until interrupted."""
        while True:
            if lease.is_held:
                self._health.report_lease()
            ended = {name: one for name, one in self._running.items() if not one.is_alive()}
            if lost := [name for name, one in ended.items() if _send(one, 0)]:
                _LOG.critical("processes cannot be observed", extra={"fields": {"lost": lost}})
                raise SystemExit(1)  # `stop` ends them
            for name, process in ended.items():
                self._replace(name, process)
            connection.wait([one.sentinel for one in self._running.values()], _CHECK_SECONDS)

    def stop(self) -> None:
        """End all children: politely, and then in any case.

        By their numbers: a `Process` sends no signal to a child that only seems to have ended, and
        does not wait for it. Such a child is killed at once.
        """
        for process in self._running.values():
            _send(process, signal.SIGTERM)
        until = time.monotonic() + _GRACE_SECONDS
        for process in self._running.values():
            process.join(max(0.0, until - time.monotonic()))
            _send(process, signal.SIGKILL)
            process.join()

    def _start(self, name: str) -> None:
        target = self._starts[name]
        process = self._context.Process(target=_run_child, name=name, args=(target,), daemon=True)
        process.start()
        self._health.report_process(name, process.pid or 0)
        _LOG.info("process started", extra={"fields": {"started": name, "pid": process.pid}})
        self._running[name], self._started_at[name] = process, time.monotonic()

    def _replace(self, name: str, ended: ForkServerProcess) -> None:
        """Start a child again, unless it was started a moment ago: the next turn will."""
        if time.monotonic() - self._started_at[name] < _PAUSE_SECONDS:
            time.sleep(_CHECK_SECONDS / 10)
            return
        fields = {"ended": name, "exit_code": ended.exitcode}
        _LOG.error("process ended", extra={"fields": fields})
        self._start(name)


def _send(process: ForkServerProcess, number: int) -> bool:
    """Send a signal to a child, also to one that only seems to have ended; 0 is no signal.

    Return whether there is such a child. The number of a child whose end was reported may be that
    of another process by now.
    """
    if process.pid is None or process.exitcode not in (None, _NO_REPORT):
        return False
    try:
        os.kill(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def process_context(preload: str) -> ForkServerContext:
    """Return how children are made: forks of a process that has imported a module, and no more.

    They start at once, and share the memory of what was imported. A fork of the supervisor would
    copy locks of its threads.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload([preload])
    return context


def _run_child(target: Start) -> None:
    """Run a child, which ends with its supervisor."""
    for told in ENDINGS:
        signal.signal(told, end)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    target()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # as if killed: what is durable is in the database


def end(_: int, __: FrameType | None) -> None:
    """Exit through the context managers; uvicorn has finished open requests before.

    A second signal must not interrupt the closing.
    """
    for told in ENDINGS:
        signal.signal(told, signal.SIG_IGN)
    raise SystemExit(0)
