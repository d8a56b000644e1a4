"""Two servers whose data differ in one customer, in this process; they must say the same.

The application is called as uvicorn calls it, without a socket. Plans and releases are computed by
the helper's own functions, without its process, and only between requests: whether a release is
there must not depend on who was faster. After a few releases their bundles are copied: what is
looked at is what the server says around them.
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

from tests.ledgers import broken
from tests.odd_requests import Sender, Sent
from tests.released import no_rehearsal, some_profiles
from tests.servers import UNLIMITED, put_profiles, registration
from wattveil import Profiles
from wattveil.serve import helper, planner, worker
from wattveil.serve.app import make_app
from wattveil.serve.guard import Guard
from wattveil.serve.house import House
from wattveil.serve.ledger.order import canonical_text
from wattveil.serve.problems import MEDIA_TYPE, Code

CANARY = "CANARY"
_NEVER = (CANARY.encode(), b"secret/meters", b"Traceback", b"ledger.sqlite")
"""Streets and files are in the profiles, and in nothing that leaves."""
_DRAWN = 3
CODES = {(code.status, code.name.lower()) for code in Code} - {(500, "internal")}
_SECRET = re.compile(
    rb"wattveil_[\w-]{43}|[0-9a-f]{64}|<code>[0-9a-f]{12}|page-[0-9a-f]{32}"
    rb"|(form_word\" value|data-word)=\"[^\"]*"
)
_TIME = re.compile(rb"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+\+00:00)?")
_OF_ONE_ANSWER = (b"content-length", b"set-cookie", b"etag", b"last-modified")
_RELEASED = ("manifest", "report", "bundle.zip", "payload")
"""What holds noise: only its kind is compared."""


@dataclass(frozen=True)
class Got:
    """An answer."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def header(self, name: str) -> str:
        """Return a header; empty if there is none."""
        return dict(self.headers).get(name.encode(), b"").decode()


class Indoors:
    """A helper that is no process."""

    gate = threading.Lock()

    def __init__(
        self, *, most_seconds: float = threading.TIMEOUT_MAX, most_bytes: int | None = None
    ) -> None:
        """Take what a helper takes; nothing here runs long or needs much."""
        assert most_seconds > 0.0
        assert most_bytes is None or most_bytes > 0

    def ask(self, task: dict[str, Any], *, wait_seconds: float = -1) -> dict[str, Any]:
        """Plan at once; draw when nobody asks."""
        assert wait_seconds  # nobody waits
        if task["do"] == "plan":
            return dict(_plan(canonical_text("task", task)))
        if task["do"] in ("describe", "verify"):
            return helper.answered(task)
        with self.gate:
            out = Path(task["out"])
            made = sorted(path for path in out.parent.iterdir() if path.is_dir())
            if len(made) < _DRAWN:
                return helper.answered(task)
            shutil.copytree(made[0], out)
        return {"done": True}

    def stop(self) -> None:
        """Nothing runs."""


@lru_cache(maxsize=10_000)
def _plan(text: str) -> dict[str, Any]:

    return helper.answered(json.loads(text))


class Twin:
    """One of the servers."""

    def __init__(self, house: House, app: Guard) -> None:
        self.house, self.app = house, app
        self.secrets = {"<token-owner>": house.first_token or "", "<token-gone>": "wattveil_gone"}

    async def ask(self, sent: Sent) -> Got:
        """Send a request as uvicorn would."""
        path, query, body = self._own(sent.path), self._own(sent.query), sent.body
        for word, secret in self.secrets.items():
            body = body.replace(word.encode(), secret.encode())
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

        with Indoors.gate:
            await self.app(scope, receive, send)
        start, *rest = got
        content = b"".join(message.get("body", b"") for message in rest)
        return Got(start["status"], tuple(start["headers"]), content)

    def settle(self) -> None:
        """Wait until nothing is being computed."""
        while self.house.worker._known:
            threading.Event().wait(0.001)

    def _own(self, text: str) -> str:
        for word, secret in self.secrets.items():
            text = text.replace(word, secret)
        return text


@contextmanager
def indoors() -> Iterator[None]:
    """Have servers compute in this process, one request at a time."""
    with pytest.MonkeyPatch.context() as patch, no_rehearsal():
        patch.setattr(worker, "Helper", Indoors)
        patch.setattr(planner, "Helper", Indoors)
        patch.setattr(anyio.to_thread, "run_sync", _at_once)
        yield


@contextmanager
def opened(folder: Path, database: str | None = None) -> Iterator[Twin]:
    """Open one server, which must be indoors."""
    with House.open(folder, database, tick_seconds=1e-4) as house:
        yield Twin(house, make_app(house, UNLIMITED))


@contextmanager
def twins(folder: Path, databases: tuple[str | None, str | None]) -> Iterator[list[Twin]]:
    """Open two servers on neighbouring data."""
    with indoors(), ExitStack() as stack:
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


async def furnish(pair: list[Twin], datasets: tuple[str, ...] = ("homes", "spare")) -> None:
    """Register data sets on each server, admit two analysts, sign everybody in."""

    async def post(twin: Twin, path: str, fields: dict[str, Any]) -> Any:  # noqa: ANN401
        door = (("Authorization", "Bearer <token-owner>"), ("Content-Type", "application/json"))
        got = await twin.ask(Sent("POST", path, "", door, json.dumps(fields).encode()))
        assert got.status < 300, got
        return json.loads(got.body)

    for twin in pair:
        for name in datasets:
            await post(twin, "/v1/admin/datasets", registration(f"{name}.parquet", name))
        for name in ("ann", "bob"):
            made = await post(twin, "/v1/admin/principals", {"name": name})
            twin.secrets[f"<token-{name}>"] = made["token"]
            budget = {
                "allowance": {"epsilon": 1.0, "delta": 1e-6, "label_epsilon": 0.2},
                "reason": "r",
            }
            await post(twin, "/v1/admin/datasets/homes/budgets", {**budget, "whose": name})
        for name in ("owner", "ann", "bob"):
            form = f"token={twin.secrets[f'<token-{name}>']}".encode()
            got = await twin.ask(Sent("POST", "/sign-in", "", (), form))
            cookie = got.header("set-cookie").partition("=")[2].partition(";")[0]
            twin.secrets[f"<cookie-{name}>"] = cookie
            door = (("Cookie", f"wattveil_session={cookie}"),)
            page = (await twin.ask(Sent("GET", "/", "", door, b""))).body.decode()
            found = re.search(r'name="form_word" value="([^"]*)"', page)
            twin.secrets[f"<word-{name}>"] = found[1] if found else ""


def compare(
    folder: Path, databases: tuple[str | None, str | None], *, seed: int, requests: int
) -> Counter[str]:
    """Send requests to both servers, and check each answer; return how often what was said."""
    said: Counter[str] = Counter()

    async def run(pair: list[Twin]) -> None:
        await furnish(pair)
        sender = Sender(_routes(pair[0].app), seed)
        for number in range(requests):
            sent = sender.next()
            got = [await twin.ask(sent) for twin in pair]
            for twin in pair:
                twin.settle()
            _check(sent, *got, number=number)
            said[f"{got[0].status}"] += 1

    with twins(folder, databases) as pair:
        asyncio.run(run(pair))
        for twin in pair:
            assert broken(twin.house.ledger) == []
    return said


def _check(sent: Sent, one: Got, other: Got, *, number: int) -> None:
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


def _public(sent: Sent, got: Got) -> tuple[object, ...]:
    """Return what must be the same: all but secrets, hashes and times, and what is noise."""
    headers = {name: value for name, value in got.headers if name not in _OF_ONE_ANSWER}
    noisy = got.status == 200 and any(f"/{word}" in sent.path for word in _RELEASED)
    # A share that is refused shows the page of the release once more.
    page = re.fullmatch(r"/releases/[^/]+(/shares)?", sent.path) is not None
    noisy = noisy or (page and b"data-figure" in got.body)
    body = b"" if noisy else _TIME.sub(b"<time>", _SECRET.sub(b"<secret>", got.body))
    return got.status, headers, body


def _routes(app: Guard) -> list[tuple[str, str]]:
    """Return every method and path of the application, but the way out and what is large."""
    top = app._app.routes  # type: ignore[attr-defined] # FastAPI's
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
