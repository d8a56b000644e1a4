"""The server's side of its helper processes: start, ask, replace one that died."""

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

_SPARING = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
"""Settings of a process whose memory is limited: Arrow's own allocator sets a gigabyte aside at
once, and every thread has a stack."""


class HelperDiedError(Exception):
    """The process ended before it answered: killed, too slow, out of memory, or told to stop."""


class HelperBusyError(Exception):
    """Another task took too long to wait for."""


class Helper:
    """One process of `wattveil.serve.helper`; one task at a time, in the order of asking."""

    def __init__(
        self, *, most_seconds: float = threading.TIMEOUT_MAX, most_bytes: int | None = None
    ) -> None:
        """Start nothing yet; what takes longer than ``most_seconds`` is broken off.

        With ``most_bytes``, a process has no more memory than that, and ends after one task: what
        that task has left behind must not take from the next.
        """
        self._most_seconds, self._most_bytes = most_seconds, most_bytes
        self._turn = threading.Lock()
        self._starting = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    def ask(self, task: dict[str, Any], *, wait_seconds: float = -1) -> dict[str, Any]:
        """Hand over a task, and wait for its answer; for one's turn so long, or however long."""
        if not self._turn.acquire(timeout=wait_seconds):
            raise HelperBusyError
        try:
            process = self._running()
            clock = threading.Timer(self._most_seconds, process.kill)
            clock.start()
            try:
                print(json.dumps(task), file=process.stdin, flush=True)
                answer = "" if process.stdout is None else process.stdout.readline()
            except OSError:
                answer = ""
            finally:
                clock.cancel()
                clock.join()
            whole = answer.endswith("\n")
            if not whole or self._most_bytes is not None:
                _bury(process)  # its pipes close before it is gone: no further task may meet it
            if not whole:
                raise HelperDiedError
            found: dict[str, Any] = json.loads(answer)
            return found
        finally:
            self._turn.release()

    def stop(self) -> None:
        """End the process, whatever it is doing: a charge without a release is taken up later."""
        with self._starting:
            self._stopped = True
            process = self._process
        if process is not None:
            process.kill()  # whoever waits for its answer now learns that there is none
            with self._turn:
                _bury(process)

    def _running(self) -> subprocess.Popen[str]:
        with self._starting:
            if self._stopped:
                raise HelperDiedError
            if self._process is not None and self._process.poll() is not None:
                _bury(self._process)  # it died between two tasks
                self._process = None
            if self._process is None:
                limit = [] if self._most_bytes is None else [str(self._most_bytes)]
                self._process = subprocess.Popen(  # noqa: S603 - ourselves, and a number
                    [sys.executable, "-m", "wattveil.serve.helper", *limit],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    env={**os.environ, **_SPARING} if limit else None,
                    start_new_session=True,  # Ctrl-C is for the server, which then ends this one
                )
            return self._process


def _bury(process: subprocess.Popen[str]) -> None:
    """End a process and close its pipes; what was not yet sent to it is lost."""
    process.kill()
    with suppress(OSError), process:
        pass
