"""Two servers in this process whose data differ in one customer; their responses must be the same.

The application is called as uvicorn calls it, without a socket. Plans and releases are computed by
the functions of the compute child, without its process, and only between requests: a response must
not depend on which was faster. After a few releases their bundles are copied: what is compared is
the responses of the server around them.
"""

import asyncio
import json
import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import anyio
import anyio.to_thread
import numpy as np
import pytest
from starlette.types import Message, Scope

from tests.live_server import UNLIMITED, put_profiles, registration
from tests.request_fuzzer import HttpRequest, RequestFuzzer
from tests.sample_bundles import some_profiles, without_plan_simulation
from tests.sample_ledgers import broken
from wattveil import Profiles
from wattveil.server.http.app import make_app
from wattveil.server.http.observed import ObservedMiddleware
from wattveil.server.http.problems import MEDIA_TYPE, Code
from wattveil.server.jobs import compute_child, planner, worker
from wattveil.server.ledger.order import canonical_text
from wattveil.server.observe import readiness, server_metrics
from wattveil.server.server_state import ServerState

CANARY = "CANARY"
_NEVER = (CANARY.encode(), b"secret/meters", b"Traceback", b"ledger.sqlite")
"""Streets and files are in the profiles, and in nothing that leaves."""
_DRAWN = 3
CODES = {(code.status, code.name.lower()) for code in Code} - {(500, "internal")}
_SECRET = re.compile(
    rb"wattveil_[\w-]{43}|[0-9a-f]{64}|<code>[0-9a-f]{12}|page-[0-9a-f]{32}"
    rb"|(csrf_token\" value|data-csrf-token)=\"[^\"]*"
)
_TIME = re.compile(rb"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+\+00:00)?")
_DURATION = re.compile(
    rb"^(wattveil_request_seconds_(bucket|sum)|process_|wattveil_\w+_created).*$", re.MULTILINE
)
"""Of the metrics: durations of requests, and the server process. All others must be equal."""
_OF_ONE_ANSWER = (b"content-length", b"set-cookie", b"etag", b"x-request-id")
_RELEASED = ("manifest", "report", "bundle.zip", "payload")
"""What holds noise: only its kind is compared."""


@dataclass(frozen=True)
class HttpResponse:
    """A response."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def header(self, name: str) -> str:
        """Return a header; empty if there is none."""
        return dict(self.headers).get(name.encode(), b"").decode()


class InProcessCompute:
    """Computes in this process, in place of the compute child."""

    gate = threading.Lock()

    def __init__(
        self, *, max_seconds: float = threading.TIMEOUT_MAX, max_bytes: int | None = None
    ) -> None:
        """Accept the parameters of a compute pool; limits are not needed here."""
        assert max_seconds > 0.0
        assert max_bytes is None or max_bytes > 0

    def run_task(self, task: dict[str, Any], *, wait_seconds: float = -1) -> dict[str, Any]:
        """Run plans at once; draw releases in the background."""
        assert wait_seconds  # not used
        if task["do"] == "plan":
            return dict(_plan(canonical_text("task", task)))
        if task["do"] in ("describe", "verify"):
            return compute_child.run_task(task)
        with self.gate:
            out = Path(task["out"])
            made = sorted(path for path in out.parent.iterdir() if path.is_dir())
            if len(made) < _DRAWN:
                return compute_child.run_task(task)
            shutil.copytree(made[0], out)
        return {"done": True}

    def stop(self) -> None:
        """Nothing runs."""


@lru_cache(maxsize=10_000)
def _plan(text: str) -> dict[str, Any]:

    return compute_child.run_task(json.loads(text))


class InProcessServer:
    """A server that is called without a socket."""

    def __init__(self, state: ServerState, app: ObservedMiddleware) -> None:
        self.state, self.app = state, app
        self.secrets = {
            "<token-owner>": state.first_admin_token or "",
            "<token-gone>": "wattveil_gone",
        }

    async def send(self, sent: HttpRequest) -> HttpResponse:
        """Send a request as uvicorn would."""
        path, query, body = self._own(sent.path), self._own(sent.query), sent.body
        for name, secret in self.secrets.items():
            body = body.replace(name.encode(), secret.encode())
        headers = [
            (name.lower().encode(), self._own(value).encode("utf-8", "surrogatepass"))
            for name, value in sent.headers
        ]
        scope: Scope = {
            "type": "http",
            "http_version": "1.1",
            "method": sent.method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode("ascii", "replace"),
            "query_string": query.encode("ascii", "replace"),
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        got: list[Message] = []

        to_come = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if not to_come:
                await anyio.sleep_forever()  # the client listens, and sends nothing more
            return to_come.pop()

        async def send(message: Message) -> None:
            got.append(message)

        with InProcessCompute.gate:
            await self.app(scope, receive, send)
        start, *rest = got
        content = b"".join(message.get("body", b"") for message in rest)
        return HttpResponse(start["status"], tuple(start["headers"]), content)

    def settle(self) -> None:
        """Wait until nothing is being computed."""
        while self.state.worker.queue_length:
            threading.Event().wait(0.001)

    def _own(self, text: str) -> str:
        for name, secret in self.secrets.items():
            text = text.replace(name, secret)
        return text


@contextmanager
def computing_in_process() -> Iterator[None]:
    """Have servers compute in this process, one request at a time."""
    with pytest.MonkeyPatch.context() as patch, without_plan_simulation():
        patch.setattr(worker, "ComputeProcess", InProcessCompute)
        patch.setattr(planner, "ComputeProcess", InProcessCompute)
        patch.setattr(anyio.to_thread, "run_sync", _at_once)
        patch.setattr(server_metrics, "_KEPT_SECONDS", -1.0)  # read anew by each of a pair
        patch.setattr(readiness, "_KEPT_SECONDS", -1.0)
        yield


@contextmanager
def opened(folder: Path, database: str | None = None) -> Iterator[InProcessServer]:
    """Open one server, within `computing_in_process`."""
    with ServerState.open(folder, database, tick_seconds=1e-4) as state:
        yield InProcessServer(state, make_app(state, UNLIMITED))


@contextmanager
def neighbouring_servers(
    folder: Path, databases: tuple[str | None, str | None]
) -> Iterator[list[InProcessServer]]:
    """Open two servers on neighbouring data."""
    with computing_in_process(), ExitStack() as stack:
        pair = []
        for number, database in enumerate(databases):
            place = folder / str(number)
            place.mkdir()
            for name, customers in (("homes", 300), ("spare", 60)):
                whole = _with_canaries(some_profiles(customers))
                put_profiles(place, f"{name}.parquet", _without_one(whole) if number else whole)
            pair.append(stack.enter_context(opened(place, database)))
        yield pair


async def _at_once(work: Callable[..., object], *given: object, **_: object) -> object:
    """Do what a thread would do: one request at a time needs none, and is twice as fast."""
    return work(*given)


async def furnish(
    pair: list[InProcessServer], datasets: tuple[str, ...] = ("homes", "spare")
) -> None:
    """Register data sets on each server, admit two analysts, sign all principals in."""

    async def post(server: InProcessServer, path: str, fields: dict[str, Any]) -> Any:  # noqa: ANN401
        headers = (("Authorization", "Bearer <token-owner>"), ("Content-Type", "application/json"))
        got = await server.send(HttpRequest("POST", path, "", headers, json.dumps(fields).encode()))
        assert got.status < 300, got
        return json.loads(got.body)

    for server in pair:
        for name in datasets:
            await post(server, "/v1/admin/datasets", registration(f"{name}.parquet", name))
        for name in ("ann", "bob"):
            made = await post(server, "/v1/admin/principals", {"name": name})
            server.secrets[f"<token-{name}>"] = made["token"]
            budget = {
                "allowance": {"epsilon": 1.0, "delta": 1e-6, "label_epsilon": 0.2},
                "reason": "r",
            }
            await post(server, "/v1/admin/datasets/homes/budgets", {**budget, "principal": name})
        for name in ("owner", "ann", "bob"):
            form = f"token={server.secrets[f'<token-{name}>']}".encode()
            got = await server.send(HttpRequest("POST", "/sign-in", "", (), form))
            cookie = got.header("set-cookie").partition("=")[2].partition(";")[0]
            server.secrets[f"<cookie-{name}>"] = cookie
            headers = (("Cookie", f"wattveil_session={cookie}"),)
            page = (await server.send(HttpRequest("GET", "/", "", headers, b""))).body.decode()
            found = re.search(r'name="csrf_token" value="([^"]*)"', page)
            server.secrets[f"<csrf-{name}>"] = found[1] if found else ""


def compare(
    folder: Path, databases: tuple[str | None, str | None], *, seed: int, requests: int
) -> Counter[str]:
    """Send requests to both servers, and check each answer; count the responses by status."""
    said: Counter[str] = Counter()

    async def run(pair: list[InProcessServer]) -> None:
        await furnish(pair)
        sender = RequestFuzzer(_routes(pair[0].app), seed)
        for number in range(requests):
            sent = sender.next()
            got = [await server.send(sent) for server in pair]
            for server in pair:
                server.settle()
            _check(sent, *got, number=number)
            said[f"{got[0].status}"] += 1

    with neighbouring_servers(folder, databases) as pair:
        asyncio.run(run(pair))
        for server in pair:
            assert broken(server.state.ledger) == []
    return said


def _check(sent: HttpRequest, one: HttpResponse, other: HttpResponse, *, number: int) -> None:
    """Look at two answers to a request."""
    assert _public(sent, one) == _public(sent, other), (number, sent, one, other)
    for got in (one, other):
        assert got.status < 500, (number, sent, got)
        assert not any(canary in got.body for canary in _NEVER), (number, sent, got)
        if got.header("content-type") == MEDIA_TYPE and got.body:
            problem = json.loads(got.body)
            assert (got.status, problem["code"]) in CODES, (number, sent, got)
        elif got.status >= 400 and sent.method != "HEAD":
            assert "text/html" in got.header("content-type"), (number, sent, got)


def _public(sent: HttpRequest, got: HttpResponse) -> tuple[object, ...]:
    """Return what must be the same: all but secrets, hashes and times, and what is noise."""
    # A redirection repeats the path that was sent, which may have a token in it.
    kept = [(name, value) for name, value in got.headers if name not in _OF_ONE_ANSWER]
    headers = {name: _SECRET.sub(b"<secret>", value) for name, value in kept}
    noisy = got.status == 200 and any(f"/{name}" in sent.path for name in _RELEASED)
    # A share that is refused shows the page of the release once more.
    page = re.fullmatch(r"/releases/[^/]+(/shares)?", sent.path) is not None
    noisy = noisy or (page and b'class="plot"' in got.body)
    body = b"" if noisy else _TIME.sub(b"<time>", _SECRET.sub(b"<secret>", got.body))
    body = _DURATION.sub(b"<duration>", body)
    return got.status, headers, body


def _routes(app: ObservedMiddleware) -> list[tuple[str, str]]:
    """Return every method and path of the application, but the way out and what is large."""
    top = app._app._app.routes  # type: ignore[attr-defined] # FastAPI's
    routers = [one.original_router for one in top if hasattr(one, "original_router")]
    routes = [
        *(one for one in top if hasattr(one, "path")),
        *(r for q in routers for r in q.routes),
    ]
    return [
        (method, route.path)
        for route in routes
        for method in sorted(route.methods)
        if method in ("GET", "POST") and route.path not in ("/sign-out", "/static/plotly.js")
    ]


def _with_canaries(profiles: Profiles) -> Profiles:
    streets = tuple(f"{CANARY}-{number}" for number in range(len(profiles)))
    return replace(profiles, attributes={**profiles.attributes, "street": streets})


def _without_one(profiles: Profiles) -> Profiles:
    kept = [number for number in range(len(profiles)) if number != 7]
    return replace(
        profiles,
        customer_ids=tuple(profiles.customer_ids[number] for number in kept),
        load_kw=np.array(profiles.load_kw[kept]),
        attributes={
            name: tuple(values[number] for number in kept)
            for name, values in profiles.attributes.items()
        },
    )
