"""The server's side of its helper processes: start, ask, replace one that died."""

import json
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any


class HelperDiedError(Exception):
    """The process ended before it answered: killed, too slow, out of memory, or told to stop."""


class Helper:
    """One process of `wattveil.serve.helper`; one task at a time, in the order of asking."""

    def __init__(self, *, most_seconds: float = threading.TIMEOUT_MAX) -> None:
        """Start nothing yet; what takes longer than ``most_seconds`` is broken off."""
        self._most_seconds = most_seconds
        self._turn = threading.Lock()
        self._starting = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    def ask(self, task: dict[str, Any]) -> dict[str, Any]:
        """Hand over a task, and wait for its answer."""
        with self._turn:
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
            if not answer.endswith("\n"):
                _bury(process)  # its pipes close before it is gone: no further task may meet it
                raise HelperDiedError
            found: dict[str, Any] = json.loads(answer)
            return found

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
            if self._process is None or self._process.poll() is not None:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "wattveil.serve.helper"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    start_new_session=True,  # Ctrl-C is for the server, which then ends this one
                )
            return self._process


def _bury(process: subprocess.Popen[str]) -> None:
    """End a process and close its pipes; what was not yet sent to it is lost."""
    process.kill()
    with suppress(OSError), process:
        pass
