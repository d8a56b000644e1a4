"""Compute processes as seen by the server: start, run a task, replace a dead one."""

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

_LOW_MEMORY = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
"""Environment of a process with limited memory: Arrow's own allocator reserves a gigabyte at once,
and every thread has a stack."""

MAX_WAITING_SECONDS = 50.0
"""Maximum wait of a request for a process that is busy; proxies wait 60."""


class ComputeProcessDiedError(Exception):
    """The process ended without a result: killed, too slow, out of memory, or stopped."""


class ComputeProcessNotStartedError(ComputeProcessDiedError):
    """No process could be started, for example at a limit of processes: nothing was computed."""


class ComputeProcessBusyError(Exception):
    """The process was busy for longer than the caller waits."""


class ComputeProcess:
    """One process of `server.jobs.compute_child`; one task at a time, in the order of arrival."""

    def __init__(
        self, *, max_seconds: float = threading.TIMEOUT_MAX, max_bytes: int | None = None
    ) -> None:
        """Create without starting a process; tasks longer than ``max_seconds`` are killed.

        With ``max_bytes``, the memory of a process is limited, and it ends after one task, so that
        the next task has all of it.
        """
        self._max_seconds, self._max_bytes = max_seconds, max_bytes
        self._turn = threading.Lock()
        self._starting = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    def run_task(self, task: dict[str, Any], *, wait_seconds: float = -1) -> dict[str, Any]:
        """Run a task, and return its result; wait at most ``wait_seconds`` for the process."""
        if not self._turn.acquire(timeout=wait_seconds):
            raise ComputeProcessBusyError
        try:
            process, clock = self._timed()
            try:
                print(json.dumps(task), file=process.stdin, flush=True)
                answer = "" if process.stdout is None else process.stdout.readline()
            except OSError:
                answer = ""
            finally:
                clock.cancel()
                clock.join()
            whole = answer.endswith("\n")
            if not whole or self._max_bytes is not None:
                _reap(process)  # its pipes close before it exits: no further task may use it
            if not whole:
                raise ComputeProcessDiedError
            found: dict[str, Any] = json.loads(answer)
            return found
        finally:
            self._turn.release()

    def stop(self) -> None:
        """Kill the process; a charge without a release is computed at the next start."""
        with self._starting:
            self._stopped = True
            process = self._process
        if process is not None:
            process.kill()  # a waiting caller gets an error
            with self._turn:
                _reap(process)

    def _timed(self) -> tuple[subprocess.Popen[str], threading.Timer]:
        """Return the process, and the clock that ends it."""
        try:
            process = self._running()
            clock = threading.Timer(self._max_seconds, process.kill)
            clock.start()
        except (OSError, RuntimeError):  # the system permits no process, or no thread
            raise ComputeProcessNotStartedError from None
        return process, clock

    def _running(self) -> subprocess.Popen[str]:
        with self._starting:
            if self._stopped:
                raise ComputeProcessDiedError
            if self._process is not None and self._process.poll() is not None:
                _reap(self._process)  # it died between two tasks
                self._process = None
            if self._process is None:
                limit = [] if self._max_bytes is None else [str(self._max_bytes)]
                self._process = subprocess.Popen(  # noqa: S603 - ourselves, and a number
                    [sys.executable, "-m", "wattveil.server.jobs.compute_child", *limit],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    env={**os.environ, **_LOW_MEMORY} if limit else None,
                    start_new_session=True,  # Ctrl-C is for the server, which then ends this one
                )
            return self._process


def _reap(process: subprocess.Popen[str]) -> None:
    """Kill a process and close its pipes; unsent input is lost."""
    process.kill()
    with suppress(OSError), process:
        pass
