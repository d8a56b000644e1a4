"""Whole servers that are killed: a process that forks one for each line it reads.

    {"folder": ..., "database": ...}         -> {"pid": ..., "port": ..., "token": ...}
    {"wait": pid}                            -> {"ended": ...}

Ledger, worker, HTTP and files are those of `wattveil serve`. What computes a release is a stand-in
that leaves a random word: a kill is then a matter of milliseconds, and words that meet were drawn
twice. Periods of a series are computed, since they also change a private state on disk.
`/steps/17` kills the server 17 steps later; every statement, commit and connection handed back is a
step, before and after, and so are the parts of the computation.
"""

import json
import os
import shutil
import signal
import socket
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.ledger_worker import Say, Steps
from tests.live_server import UNLIMITED
from wattveil.bundle import bundle_archive, registered_series
from wattveil.engines.series_folder import SeriesFolder
from wattveil.server.http.app import make_app
from wattveil.server.jobs import compute_child, worker
from wattveil.server.run import configured
from wattveil.server.server_state import ServerState

_BACKLOG = 64
_LOADED = (bundle_archive, registered_series)
"""Modules of a period, which each server would otherwise load after its start."""


class StandIn:
    """Takes the place of the process that computes."""

    steps = Steps(None)

    def run_task(self, task: dict[str, Any], **_: float) -> dict[str, Any]:
        """Leave a random word, as a bundle with no table; do all else as the process does."""
        if task["do"] == "describe":
            return compute_child.run_task(task)
        self.steps.reach("compute")
        if task["do"] != "release":
            done = compute_child.run_task(task)
            self.steps.reach("computed")
            return done
        out = Path(task["out"])
        out.mkdir()
        said = {"payload": [], "word": uuid.uuid4().hex}
        (out / "manifest.json").write_text(json.dumps(said))
        self.steps.reach("computed")
        return {"done": True}

    def stop(self) -> None:
        """Nothing runs."""


def stepwise(function: Callable[..., Any], steps: Steps) -> Callable[..., Any]:
    """Return a function with a step before and one after it."""

    def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - of any function
        steps.reach(f"before {function.__name__}")
        result = function(*arguments, **options)
        steps.reach(f"after {function.__name__}")
        return result

    return call


def watch_series(steps: Steps) -> None:
    """Make steps of what changes the folder of a series, and of all that is forced to disk."""
    for owner, name in (
        (SeriesFolder, "commit"),
        (Path, "replace"),
        (Path, "rename"),
        (shutil, "copyfile"),
        (shutil, "rmtree"),
        (os, "fsync"),
    ):
        setattr(owner, name, stepwise(getattr(owner, name), steps))


def armed(app: ASGIApp, steps: Steps) -> ASGIApp:
    """Return an application that can be told when to die, and says how many steps it took."""

    async def told(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/steps/"):
            taken = len(steps.names)
            steps.names.clear()
            steps.kill_at = int(scope["path"].removeprefix("/steps/")) or None
            await JSONResponse({"taken": taken})(scope, receive, send)
        else:
            await app(scope, receive, send)

    return told


def serve(task: dict[str, Any], say: Say) -> None:
    """Serve a folder until it is terminated."""
    StandIn.steps = steps = Steps(None)
    worker.__dict__["ComputeProcess"] = StandIn  # for good: this process does nothing else
    with ServerState.open(Path(task["folder"]), task["database"], tick_seconds=1e-3) as state:
        listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        steps.watch()
        watch_series(steps)
        say({"port": listener.getsockname()[1], "token": state.first_admin_token})
        app = armed(make_app(state, UNLIMITED), steps)
        uvicorn.Server(configured(app)).run(sockets=[listener])


def start(task: dict[str, Any]) -> dict[str, Any]:
    """Fork a server; return what it says once it listens."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        with os.fdopen(reading) as pipe:
            return {"pid": child, **json.loads(pipe.readline() or "{}")}
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # as `wattveil serve` does
    status = 1
    try:
        serve(task, lambda words: _say(writing, words))
    except SystemExit:
        status = 0
    finally:
        os._exit(status)  # nothing of the parent's is cleaned up twice


def _say(pipe: int, words: dict[str, Any]) -> None:
    os.write(pipe, (json.dumps(words) + "\n").encode())
    os.close(pipe)


def main() -> None:
    """Do what each line says, until there are no more."""
    for line in sys.stdin:
        task = json.loads(line)
        if "wait" in task:
            _, ended = os.waitpid(task["wait"], 0)
            said = {"ended": os.waitstatus_to_exitcode(ended)}
        else:
            said = start(task)
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
