"""A real server on the loopback, for tests: uvicorn, SQLite, helper processes, nothing replaced.

`computing_here` replaces the processes that compute, for tests of other things: each of them takes
seconds to start.
"""

import asyncio
import http.client
import json
import re
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

import pytest

from tests.sample_bundles import LEVELS, some_profiles
from wattveil import Profiles
from wattveil.privacy.guarantee import Tier
from wattveil.products.registry import products_of
from wattveil.server.auth.access import Limits, Rate
from wattveil.server.auth.identity_provider import IdentityProvider
from wattveil.server.auth.principals import FIRST_ADMIN, issue_token_locally
from wattveil.server.http.app import make_app
from wattveil.server.http.problems import MEDIA_TYPE, Code
from wattveil.server.jobs import compute_child, planner, worker
from wattveil.server.jobs.compute_pool import ComputeProcess, ComputeProcessBusyError
from wattveil.server.jobs.worker import Worker
from wattveil.server.ledger.administration import PrincipalKind
from wattveil.server.observe.tracing import RequestTracer
from wattveil.server.run import HttpServer, configured, transport
from wattveil.server.server_state import ServerState

UNLIMITED = Limits(requests=Rate(1e9, 1e9), priced=Rate(1e9, 1e9), failed_tokens=Rate(1e9, 1e9))
QUICK: dict[str, Any] = {"epsilon": 0.5, "products": ["load"]}
"""A release that takes a second: its plan simulates nothing."""
_STOP_SECONDS = 300
"""Time in which a server must stop: thirty times what it gives open requests."""


@dataclass(frozen=True)
class Answer:
    """What a server said, to the byte."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever it is
        """The body, read."""
        return json.loads(self.body)


@dataclass
class Running:
    """A server that runs."""

    state: ServerState
    port: int
    tokens: dict[str, str]
    connections: set[Any]
    """Protocols of the open connections."""

    @property
    def worker(self) -> Worker:
        """What computes, in this process."""
        assert isinstance(self.state.worker, Worker)
        return self.state.worker

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        as_: str | None = "owner",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request; a body that is no bytes is sent as JSON."""
        sent = dict(headers or {})
        if as_ is not None:
            sent["Authorization"] = f"Bearer {self.tokens[as_]}"
        if body is not None and not isinstance(body, bytes):
            sent.setdefault("Content-Type", "application/json")
            body = json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def order(self, key: str, body: object, *, as_: str = "ann", dataset: str = "homes") -> Answer:
        """Order a release."""
        path = f"/v1/datasets/{dataset}/releases"
        return self.send("POST", path, body, as_=as_, headers={"Idempotency-Key": key})

    def finished(self, release_id: str, *, as_: str = "ann") -> dict[str, Any]:
        """Wait for a release."""
        while True:
            found: dict[str, Any] = self.send("GET", f"/v1/releases/{release_id}", as_=as_).json
            if found["state"] != "computing":
                return found
            time.sleep(0.05)

    def admit(self, name: str, *, epsilon: float, dataset: str = "homes") -> None:
        """Admit an analyst to a data set."""
        made = self.send("POST", "/v1/admin/principals", {"name": name})
        assert made.status == 201, made.body
        self.tokens[name] = made.json["token"]
        budget = {
            "allowance": {"epsilon": epsilon, "delta": 1e-6},
            "reason": "x",
            "principal": name,
        }
        set_ = self.send("POST", f"/v1/admin/datasets/{dataset}/budgets", budget)
        assert set_.status == 200, set_.body


@contextmanager
def serving(
    folder: Path,
    database: str | None = None,
    *,
    tokens: dict[str, str] | None = None,
    limits: Limits = UNLIMITED,
    tls: tuple[Path | None, Path | None] = (None, None),
    behind_proxy: Sequence[str] = (),
    compute_processes: int = 1,
    tracer: RequestTracer | None = None,
    provider: IdentityProvider | None = None,
) -> Iterator[Running]:
    """Serve a folder until the block ends; ``tokens`` are those of an earlier start."""
    with ServerState.open(
        folder, database, tick_seconds=0.1, compute_processes=compute_processes
    ) as state:
        known = dict(tokens or {})
        if state.first_admin_token is not None:
            known["owner"] = state.first_admin_token
        listener = socket.create_server(("127.0.0.1", 0))
        way = transport(tls, behind_proxy)
        app = make_app(state, limits, tracer, provider, tls[0])
        server = HttpServer(configured(app, **way), state)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield Running(state, listener.getsockname()[1], known, server.server_state.connections)
        finally:
            server.should_exit = True
            thread.join(_STOP_SECONDS)
            if thread.is_alive():
                loop = cast("Any", server.servers[0])._loop  # of `Acceptor`
                tasks = "\n".join(map(repr, asyncio.all_tasks(loop)))
                pytest.fail(f"the server does not stop:\n{tasks}\n{_busy_stacks()}", pytrace=False)


def _busy_stacks() -> str:
    """Return where every other thread is that does not wait for work in a pool."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    shown = []
    for ident, frame in sys._current_frames().items():
        is_idle = frame.f_code.co_filename.endswith("concurrent/futures/thread.py")
        if ident != threading.get_ident() and not is_idle:
            stack = "".join(traceback.format_stack(frame)[-8:])
            shown.append(f"{names.get(ident)}:\n{stack}")
    return "\n".join(shown)


def owner_token(folder: Path, database: str | None = None) -> str:
    """Return a token of the first administrator; a server prints none to a pipe."""
    kind = PrincipalKind.ADMIN
    return issue_token_locally(folder, database, FIRST_ADMIN, role=kind, days=1)


class ComputeHere(ComputeProcess):
    """Runs the tasks of a compute process in this one, one at a time."""

    def run_task(self, task: dict[str, Any], *, wait_seconds: float = -1) -> dict[str, Any]:
        """Run a task as the process would, of which it is given a text and returns one."""
        if not self._turn.acquire(timeout=wait_seconds):
            raise ComputeProcessBusyError
        try:
            done = compute_child.run_task(json.loads(json.dumps(task)))
            found: dict[str, Any] = json.loads(json.dumps(done))
            return found
        finally:
            self._turn.release()

    def stop(self) -> None:
        """Wait for the task that runs: a thread cannot be killed."""
        with self._turn:
            pass


@contextmanager
def computing_here() -> Iterator[None]:
    """Have servers that are opened meanwhile compute in this process."""
    with pytest.MonkeyPatch.context() as patch:
        for part in (planner, worker):
            patch.setattr(part, "ComputeProcess", ComputeHere)
        yield


def put_profiles(
    folder: Path, name: str = "homes.parquet", profiles: Profiles | None = None
) -> str:
    """Put a file where an owner puts it, with the list of customers beside it."""
    place = folder / "profiles"
    place.mkdir(exist_ok=True)
    chosen = some_profiles() if profiles is None else profiles
    chosen.write_parquet(place / name)
    (place / "customers.txt").write_text("\n".join(some_profiles().customer_ids))
    return name


def registration(file: str, name: str = "homes", **choices: object) -> dict[str, object]:
    """Return what an owner sends to register a data set."""
    return {
        "name": name,
        "file": file,
        "clip_kw": 5.0,
        "groups": {"class": list(LEVELS)},
        "products": [
            product.name for product in products_of(Tier.GLOBAL) if not product.needs_days
        ],
        "customer_list_file": "customers.txt",
        "customers": 300,
        "allowance": {"epsilon": 4.0, "delta": 1e-6, "label_epsilon": 1.0},
        **choices,
    }


def furnish(server: Running) -> None:
    """Register a data set, and admit two analysts."""
    file = put_profiles(server.state.folder)
    made = server.send("POST", "/v1/admin/datasets", registration(file))
    assert made.status == 201, made.body
    server.admit("ann", epsilon=3.0)
    server.admit("bob", epsilon=0.6)


def refused(answer: Answer, code: Code) -> Answer:
    """Check that an answer is a problem of the list, and return it."""
    assert (answer.status, answer.json["code"]) == (code.status, code.name.lower()), answer.body
    assert answer.headers["content-type"] == MEDIA_TYPE
    return answer


class Browser:
    """Keeps a cookie and the word of the last form."""

    def __init__(self, server: Running, who: str) -> None:
        self._server = server
        self.signed_in = self.post("/sign-in", token=server.tokens[who])
        self.cookie = self.signed_in.headers["set-cookie"].partition(";")[0]
        self.word = re.findall(r'name="csrf_token" value="([^"]+)"', self.get("/").body.decode())[0]

    cookie = ""
    word = ""

    def get(self, path: str) -> Answer:
        """Go to a page."""
        headers = {"Cookie": self.cookie, "Accept": "text/html"}
        return self._server.send("GET", path, as_=None, headers=headers)

    def post(self, path: str, **fields: str | list[str]) -> Answer:
        """Send a form."""
        headers = {
            "Cookie": self.cookie,
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "text/html",
        }
        body = urlencode({"csrf_token": self.word, **fields}, doseq=True).encode()
        return self._server.send("POST", path, body, as_=None, headers=headers)
