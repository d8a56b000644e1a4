"""A disk that is full, a database that cannot be written or is an old one: nothing is answered."""

import asyncio
import errno
import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.live_server import QUICK, put_profiles
from tests.neighbouring_servers import (
    HttpResponse,
    InProcessCompute,
    InProcessServer,
    computing_in_process,
    furnish,
    opened,
)
from tests.request_fuzzer import HttpRequest
from tests.sample_ledgers import broken, full_disk, read_only
from wattveil.bundle import plan, produce, registered_profiles
from wattveil.bundle.manifest import Manifest
from wattveil.bundle.plan import ReleasePlan
from wattveil.errors import LedgerBehindError
from wattveil.products.load import Load
from wattveil.products.product import Allotment
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import Profiles
from wattveil.server.http.problems import Code, Problem
from wattveil.server.jobs import compute_child, worker
from wattveil.server.ledger import pricing
from wattveil.server.ledger.accounts import Charge
from wattveil.server.ledger.database_record import FILE
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.release_service import ReleaseService
from wattveil.server.server_state import ServerState


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcessServer]:
    """Serve a data set to two analysts."""
    monkeypatch.setattr(worker, "_PAUSE_SECONDS", 0.01)
    put_profiles(tmp_path)
    with computing_in_process(), opened(tmp_path) as running:
        asyncio.run(furnish([running], datasets=("homes",)))
        yield running
        assert broken(running.state.ledger) == []


def send(
    server: InProcessServer, method: str, path: str, body: object = None, key: str = "k"
) -> HttpResponse:
    """Send a request of ann's."""
    headers = (
        ("Authorization", "Bearer <token-ann>"),
        ("Content-Type", "application/json"),
        ("Idempotency-Key", key),
    )
    content = b"" if body is None else json.dumps(body).encode()
    return asyncio.run(server.send(HttpRequest(method, path, "", headers, content)))


def order(server: InProcessServer, number: int = 0) -> HttpResponse:
    """Order a release; each number is a different request with its own key."""
    body = {**QUICK, "epsilon": 0.05 + number * 1e-6}
    return send(server, "POST", "/v1/datasets/homes/releases", body, f"key-{number}")


def budget(server: InProcessServer) -> bytes:
    """Return what was spent."""
    return send(server, "GET", "/v1/datasets/homes/budget").body


def state(server: InProcessServer, got: HttpResponse) -> str:
    """Return how far a release is."""
    found: str = json.loads(send(server, "GET", got.header("location")).body)["state"]
    return found


@pytest.mark.parametrize("trouble", [full_disk, read_only])
def test_a_database_that_cannot_be_written_answers_nothing(
    server: InProcessServer, trouble: Callable[[Engine], AbstractContextManager[None]]
) -> None:
    """The documented 503, nothing spent, reading goes on; afterwards the same key is charged.

    A disk that is full still has the room that was set aside before: it takes an order or two.
    """
    with trouble(server.state.ledger.engine):
        number, before = 0, budget(server)
        while (got := order(server, number)).status == 202 and number < 20:
            number, before = number + 1, budget(server)
        for refused in (got, order(server, number)):
            assert refused.status == Code.UNAVAILABLE.status
            assert json.loads(refused.body) == Problem(Code.UNAVAILABLE).body
            assert refused.header("retry-after") == "5"
        assert budget(server) == before
    done = order(server, number)
    assert done.status == 202
    server.settle()
    assert state(server, done) == "ok"
    assert len(server.state.ledger.payloads()) == number + 1


def test_an_order_that_may_have_been_charged_is_repeated(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is charged before the mark is written: the response says so, and it is charged once."""
    mark = server.state.ledger._high_water_mark
    before = budget(server)
    with monkeypatch.context() as patch:
        patch.setattr(mark, "path", server.state.folder / "none" / "heads")
        got = order(server)
        charged = budget(server)
    assert got.status == Code.UNAVAILABLE.status
    assert charged != before
    assert "may have been charged: repeat it" in json.loads(got.body)["title"]
    done = order(server)  # the same key
    assert done.status == 202
    server.settle()
    assert state(server, done) == "ok"
    again = send(
        server, "POST", "/v1/datasets/homes/releases", {**QUICK, "epsilon": 0.05}, "another-key"
    )
    assert again.status in {200, 202}
    assert budget(server) == charged


def test_a_release_waits_until_it_can_be_stored(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Charged and drawn, and then the database is read-only: nothing leaves before it is stored."""
    ledger, draw = server.state.ledger, InProcessCompute.run_task
    trouble = read_only(ledger.engine)
    pending: list[int] = []
    confirm = Ledger.confirm

    def recover(self: Ledger, charge: Charge) -> None:
        if pending:  # the second attempt: it begins when the database accepts the charge
            trouble.__exit__(None, None, None)
        confirm(self, charge)

    def draw_into_trouble(self: InProcessCompute, task: dict[str, Any]) -> dict[str, Any]:
        pending.append(len(ledger.pending()))
        said = draw(self, task)
        if len(pending) == 1:
            trouble.__enter__()
        return said

    monkeypatch.setattr(InProcessCompute, "run_task", draw_into_trouble)
    monkeypatch.setattr(Ledger, "confirm", recover)
    done = order(server)
    server.settle()
    assert pending == [1, 1]
    assert state(server, done) == "ok"


def test_a_full_disk_is_no_failed_computation(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle that found no room is drawn anew once there is some; it is paid once."""
    tried: list[Path] = []
    draw = InProcessCompute.run_task

    def no_room_twice(self: InProcessCompute, task: dict[str, Any]) -> dict[str, Any]:
        tried.append(Path(task["out"]))
        if len(tried) > 2:
            return draw(self, task)
        tried[-1].mkdir()  # what was written until the disk was full
        return {"done": False, "temporary": "ENOSPC"}

    monkeypatch.setattr(InProcessCompute, "run_task", no_room_twice)
    done = order(server)
    server.settle()
    assert state(server, done) == "ok"
    assert [path.exists() for path in tried] == [False, False, True]


def test_nothing_is_drawn_beyond_what_was_paid(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An upgrade between charge and computation grants more: it fails, is named, and stays paid."""
    split, draw, drawn = plan.split_budget, produce.release_bundle, list[Path]()

    def drawing(profiles: Profiles, planned: ReleasePlan, out: Path, **more: Any) -> Manifest:  # noqa: ANN401 - as it takes them
        drawn.append(out)
        return draw(profiles, planned, out, **more)

    def outcome(number: int, *, paid_times: float = 1.0, drawn_times: float = 1.0) -> str:
        def split_of(times: float, request: ReleaseRequest) -> dict[str, Allotment]:
            return split(request.replace(epsilon=times * request.epsilon))

        monkeypatch.setattr(pricing, "split_budget", partial(split_of, paid_times))
        monkeypatch.setattr(plan, "split_budget", partial(split_of, drawn_times))
        paid, before = order(server, number), budget(server)
        server.settle()
        assert budget(server) == before
        return state(server, paid)

    monkeypatch.setattr(registered_profiles, "release_bundle", drawing)
    monkeypatch.setattr(ReleaseService, "_planned", lambda *_: None)  # as after a restart
    assert (outcome(76, drawn_times=1.001), drawn) == ("failed", [])  # beyond the request itself
    assert (outcome(77, paid_times=0.999), drawn) == ("failed", [])
    assert "beyond what was paid" in caplog.text
    assert (outcome(78, drawn_times=0.999), len(drawn)) == ("ok", 1)


def test_a_request_is_priced_and_planned_once(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the quote to the bundle the budget is split once, and simulated for the quote alone."""
    splits, simulated = list[float](), list[str]()
    split, expected = plan.split_budget, Load.expected

    def counted(request: ReleaseRequest) -> dict[str, Allotment]:
        splits.append(request.epsilon)
        return split(request)

    def simulating(product: Load, *more: Any) -> Any:  # noqa: ANN401 - as it takes them
        simulated.append(product.name)
        return expected(product, *more)

    monkeypatch.setattr(plan, "split_budget", counted)
    monkeypatch.setattr(pricing, "split_budget", counted)
    monkeypatch.setattr(Load, "expected", simulating)
    body = {**QUICK, "epsilon": 0.0625}
    quoted = send(server, "POST", "/v1/datasets/homes/quotes", body)
    assert quoted.status == 200
    done = send(server, "POST", "/v1/datasets/homes/releases", body, "once")
    server.settle()
    assert state(server, done) == "ok"
    assert splits.count(0.0625) == 1
    assert simulated == ["load"]
    path = f"{done.header('location')}/manifest"
    (load,) = json.loads(send(server, "GET", path).body)["products"]
    assert load["expected"]  # those of the quote
    send(server, "POST", "/v1/datasets/homes/releases", {**QUICK, "epsilon": 0.07}, "unquoted")
    server.settle()
    assert splits.count(0.07) == 1
    assert simulated == ["load"]  # nothing is simulated in the computation


def test_data_that_are_gone_cost_nothing(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Refused before the charge; what was drawn is still there; what was paid waits for them."""
    first = order(server)
    server.settle()
    profiles, before = server.state.folder / "profiles" / "homes.parquet", budget(server)
    away = profiles.rename(profiles.with_suffix(".away"))
    refused = order(server, 1)
    assert refused.status == Code.UNAVAILABLE.status
    assert "this request charged nothing" in json.loads(refused.body)["title"]
    assert budget(server) == before
    assert (order(server).status, state(server, first)) == (200, "ok")
    monkeypatch.setattr(
        ReleaseService, "_check_computable", lambda *_: None
    )  # they went a moment later
    paid = order(server, 2)
    assert paid.status == 202
    while (waits := "storing failed: profiles: ENOENT") not in caplog.messages:
        time.sleep(0.01)
    (line, *_) = (one for one in caplog.records if one.getMessage() == waits)
    assert vars(line)["fields"] == {"release": paid.header("location").rpartition("/")[2]}
    assert state(server, paid) == "computing"
    away.rename(profiles)
    server.settle()
    assert state(server, paid) == "ok"


def test_the_compute_child_reports_disk_errors_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A disk that is full or gone is reported, as it depends on no rows; other causes are not."""
    said = {
        OSError(errno.ENOSPC, "No space left"): {"done": False, "temporary": "ENOSPC"},
        OSError(errno.EIO, "x", "/state"): {"done": False, "temporary": "EIO"},
        OSError(errno.ENOENT, "x", "/a"): {"done": False, "temporary": "profiles: ENOENT"},
        OSError(errno.EINVAL, "customer 4711"): {"done": False},
        ValueError("row 17 of customer 4711"): {"done": False},
    }
    for error, expected in said.items():

        def fail(_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(compute_child, "release", fail)
        task = {"do": "release", "profiles": "/a", "customer_list": None}
        assert compute_child.run_task(task) == expected


def test_a_server_does_not_start_on_an_old_backup_or_on_nothing(tmp_path: Path) -> None:
    """The database was put back, or is gone, and the file of heads knows of more."""
    put_profiles(tmp_path)
    backup = tmp_path / "backup"
    with computing_in_process(), opened(tmp_path) as running:
        asyncio.run(furnish([running], datasets=("homes",)))
        with (
            closing(sqlite3.connect(tmp_path / FILE)) as source,
            closing(sqlite3.connect(backup)) as target,
        ):
            source.backup(target)
        assert order(running).status == 202
        running.settle()
    for stale in tmp_path.glob(f"{FILE}*"):
        stale.unlink()
    with pytest.raises(LedgerBehindError, match="the database holds 0"):
        ServerState.open(tmp_path)
    shutil.copy(backup, tmp_path / FILE)
    with pytest.raises(LedgerBehindError, match="wattveil admin ledger accept"):
        ServerState.open(tmp_path)
