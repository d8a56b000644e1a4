"""Requests that take the processor longer than others count as more requests of their principal."""

import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.live_server import QUICK, Running, computing_here, furnish, refused, serving
from wattveil.server.auth import access
from wattveil.server.auth.access import Limits, Rate
from wattveil.server.http import middleware
from wattveil.server.http.problems import Code

_UNLIMITED = Rate(1e9, 1e9)
_BURST = 60
"""Of requests; none is paid back during a test."""
_LARGE = b"[" + b",".join([b"{}"] * 50_000) + b"]"
"""A body that takes long to parse: a hook is called for each of its objects."""


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Running]:
    """Return a server of two analysts with few requests."""
    limits = Limits(
        requests=Rate(_BURST, 1e-6), priced=_UNLIMITED, failed_tokens=Rate(_BURST, 1e-6)
    )
    with computing_here(), serving(tmp_path, limits=limits) as running:
        furnish(running)
        yield running


def test_a_large_body_is_counted_by_its_size_before_it_is_parsed(
    limited: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parsing occupies the event loop, which answers everybody."""
    parsed: list[int] = []
    check = middleware._check_json

    def counted(body: bytes) -> None:
        parsed.append(len(body))
        check(body)

    monkeypatch.setattr(middleware, "_check_json", counted)
    where = "/v1/datasets/homes/quotes"
    sent = [limited.send("POST", where, _LARGE, as_="ann") for _ in range(3)]
    assert sent[0].status == HTTPStatus.UNPROCESSABLE_ENTITY
    refused(sent[1], Code.BUSY)
    refused(sent[2], Code.BUSY)
    assert parsed == [len(_LARGE)]
    # A body of usual size is one request; other principals have their own.
    assert limited.send("POST", where, QUICK, as_="ann").status == HTTPStatus.OK
    assert limited.send("POST", where, _LARGE, as_="bob").status != Code.BUSY.status


def test_a_table_in_json_is_counted_by_the_time_that_it_takes(
    limited: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is sent as it is stored counts once."""
    release = limited.order("k", QUICK).json["id"]
    while limited.state.worker.queue_length:  # not by requests, which are few here
        time.sleep(0.05)
    table = f"/v1/releases/{release}/payload/load_shapes"
    limited.send("POST", f"/v1/releases/{release}/shares", {"reader": "bob"}, as_="ann")
    assert limited.send("GET", f"{table}.json", as_="bob").status == HTTPStatus.OK
    assert limited.send("GET", "/v1/datasets", as_="bob").status == HTTPStatus.OK
    monkeypatch.setattr(access, "_WRITTEN_SECONDS", 1e-9)  # any time is more than there is
    assert limited.send("GET", f"{table}.csv", as_="bob").status == HTTPStatus.OK
    assert limited.send("GET", f"{table}.json", as_="bob").status == HTTPStatus.OK
    refused(limited.send("GET", "/v1/datasets", as_="bob"), Code.BUSY)
    assert limited.send("GET", "/v1/datasets", as_="owner").status == HTTPStatus.OK
