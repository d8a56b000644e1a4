"""What computes, on both databases: a helper that is killed, a server that ends in the middle."""

import errno
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import wattveil
from tests.integration.conftest import Place
from tests.live_server import QUICK, Browser, ComputeHere, furnish, refused, serving
from tests.sample_ledgers import broken
from wattveil.errors import LedgerUnavailableError, ServerRefusalError
from wattveil.server import release_service
from wattveil.server.http.problems import Code
from wattveil.server.jobs import planner, worker
from wattveil.server.jobs.compute_pool import (
    ComputeProcessDiedError,
    ComputeProcessNotStartedError,
)
from wattveil.server.ledger import high_water_mark
from wattveil.server.ledger.accounts import Charge, Release
from wattveil.server.ledger.journal import Head
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.observe import readiness


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_a_charge_outlives_helper_and_server(place: Place) -> None:
    """Killed while it computes, then the server is closed: the next start finishes, once paid."""
    with serving(place.folder, place.database) as first:
        furnish(first)
        ordered = first.order("k", QUICK)
        helper = first.worker._processes[0]
        while not helper._turn.locked():  # it computes
            time.sleep(0.001)
        killed = helper._process
        assert killed is not None
        killed.kill()
        while helper._process is killed:  # another one takes its place
            time.sleep(0.01)
        assert (
            first.send("GET", ordered.headers["location"], as_="ann").json["state"] == "computing"
        )
        tokens = first.tokens
    with serving(place.folder, place.database, tokens=tokens) as second:
        assert second.state.first_admin_token is None
        assert second.finished(ordered.json["id"])["state"] == "ok"
        assert second.order("k", QUICK).json["id"] == ordered.json["id"]
        assert broken(second.state.ledger) == []
        charges = [
            one
            for one in second.send("GET", "/v1/admin/ledger").json["entries"]
            if one["kind"] == "charge"
        ]
        assert len(charges) == 1


@pytest.mark.usefixtures("computing_here")
def test_a_release_that_was_not_recorded_is_recorded_as_soon_as_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full just after a release was committed: it is sent once it is recorded."""
    with serving(tmp_path) as server:
        furnish(server)
        mark, failed = server.state.ledger._high_water_mark, threading.Event()
        record = mark.record

        def full_once(
            heads: Mapping[int, Head], stored: Mapping[int, int], names: Mapping[str, str]
        ) -> None:
            if stored.get(1) and not failed.is_set():
                failed.set()
                raise OSError(errno.ENOSPC, "no space left")
            record(heads, stored, names)

        monkeypatch.setattr(mark, "record", full_once)
        ordered = server.order("k", QUICK)
        assert server.finished(ordered.json["id"])["state"] == "ok"
        while server.worker.queue_length:
            time.sleep(0.01)
        assert failed.is_set()
        assert "\n1 stored 1\n" in mark.path.read_text()


@pytest.mark.usefixtures("computing_here")
def test_a_release_is_sent_when_the_mark_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While `ledger.heads` cannot be written, no route sends it: a restore would draw it again."""
    full, append = threading.Event(), high_water_mark._append

    def appending(path: Path, lines: str) -> None:
        if full.is_set() and " stored " in lines:
            raise OSError(errno.EIO, "input/output error")
        append(path, lines)

    monkeypatch.setattr(high_water_mark, "_append", appending)
    monkeypatch.setattr(readiness, "_KEPT_SECONDS", 0.0)
    monkeypatch.setattr(readiness, "_MAX_SECONDS", 600.0)
    monkeypatch.setattr(readiness, "_RECORD_SECONDS", 0.0)
    monkeypatch.setattr(release_service, "_RECORD_SECONDS", 600.0)
    with serving(tmp_path) as server:
        furnish(server)
        earlier = server.order("k1", QUICK).json["id"]
        assert server.finished(earlier)["state"] == "ok"
        ann = Browser(server, "ann")
        full.set()
        later = server.order("k2", {**QUICK, "epsilon": 0.25}).json["id"]
        while server.state.ledger.pending():
            time.sleep(0.01)
        shown = server.send("GET", f"/v1/releases/{later}", as_="ann").json
        assert shown["state"] == "computing"  # for a moment, this is usual
        monkeypatch.setattr(release_service, "_RECORD_SECONDS", -1.0)
        files = ("manifest", "report", "bundle.zip", "payload/load.csv", "payload/load.json")
        for path in (f"/v1/releases/{later}", *(f"/v1/releases/{later}/{one}" for one in files)):
            problem = refused(server.send("GET", path, as_="ann"), Code.NOT_RECORDED)
            assert "ledger.heads" in problem.json["title"]
        pages = [one for one in files if one != "report"]
        for path in (f"/releases/{later}", *(f"/releases/{later}/{one}" for one in pages)):
            assert ann.get(path).status == Code.NOT_RECORDED.status, path
        analyst = wattveil.connect(server.url, server.tokens["ann"])
        with pytest.raises(ServerRefusalError, match=r"ledger\.heads"):
            analyst.release(later).download(tmp_path / "copy")
        listed = server.send("GET", "/v1/releases", as_="ann").json["releases"]
        states = {one["id"]: one["state"] for one in listed}
        assert states == {earlier: "ok", later: "computing"}
        assert server.send("GET", f"/v1/releases/{earlier}/bundle.zip", as_="ann").status == 200
        ready = server.send("GET", "/readyz", as_=None)  # the earlier one can be read
        assert (ready.status, ready.json["failing"]) == (200, ["high_water_mark"])
        full.clear()  # nobody does anything else
        while server.send("GET", f"/v1/releases/{later}", as_="ann").status != 200:
            time.sleep(0.01)
        assert server.send("GET", f"/v1/releases/{later}/bundle.zip", as_="ann").status == 200
        assert server.send("GET", "/readyz", as_=None).json["status"] == "ok"


@pytest.mark.usefixtures("computing_here")
def test_what_could_not_be_stored_does_not_pile_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt removes what the one before has left; the last one is stored, with its files."""
    monkeypatch.setattr(worker, "_PAUSE_SECONDS", 0.01)
    left: list[int] = []
    store = Ledger.store

    def failing(ledger: Ledger, charge: Charge, outcome: Release) -> Release:
        left.append(len([*(tmp_path / "releases").iterdir()]))
        if len(left) < 4:
            raise LedgerUnavailableError("the disk is full")
        return store(ledger, charge, outcome)

    monkeypatch.setattr(Ledger, "store", failing)
    with serving(tmp_path) as server:
        furnish(server)
        release = server.order("k", QUICK).json["id"]
        assert server.finished(release)["state"] == "ok"
        assert server.send("GET", f"/v1/releases/{release}/bundle.zip", as_="ann").status == 200
    assert left == [2] * 4, "a bundle and its archive"


@pytest.mark.usefixtures("computing_here")
def test_a_release_that_was_stored_although_an_error_was_reported_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commit was durable: it is not computed again, and its files stay."""
    monkeypatch.setattr(worker, "_PAUSE_SECONDS", 0.01)
    stored: list[Release] = []
    store = Ledger.store

    def lost_answer(ledger: Ledger, charge: Charge, outcome: Release) -> Release:
        stored.append(store(ledger, charge, outcome))
        raise LedgerUnavailableError("the connection was lost")

    monkeypatch.setattr(Ledger, "store", lost_answer)
    with serving(tmp_path) as server:
        furnish(server)
        release = server.order("k", QUICK).json["id"]
        assert server.finished(release)["state"] == "ok"
        while server.worker.queue_length:
            time.sleep(0.01)
        assert server.send("GET", f"/v1/releases/{release}/bundle.zip", as_="ann").status == 200
    assert len(stored) == 1


class _UntilStopped(ComputeHere):
    """A computation that goes on until it is ended."""

    begun, stopped = threading.Event(), threading.Event()

    def run_task(self, task: dict[str, Any], *, wait_seconds: float = -1) -> dict[str, Any]:
        """Wait for the end."""
        assert task
        assert wait_seconds
        self.begun.set()
        self.stopped.wait()
        raise ComputeProcessDiedError

    def stop(self) -> None:
        """End it."""
        self.stopped.set()


@pytest.mark.usefixtures("computing_here")
def test_a_request_that_waits_for_a_computation_is_answered_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Computations end before open requests are waited for: those get a response, not a reset."""
    monkeypatch.setattr(planner, "ComputeProcess", _UntilStopped)
    with ThreadPoolExecutor(1) as pool:
        with serving(tmp_path) as server:
            furnish(server)
            path = "/v1/datasets/homes/quotes"
            asked = pool.submit(server.send, "POST", path, QUICK, as_="ann")
            assert _UntilStopped.begun.wait(600)
        refused(asked.result(), Code.BUSY)


@pytest.mark.usefixtures("computing_here")
def test_a_charge_waits_until_a_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was computed: it is stored as failed neither then nor later."""
    monkeypatch.setattr(worker, "_PAUSE_SECONDS", 0.01)
    attempts: list[None] = []
    run_task = ComputeHere.run_task

    def started_late(process: ComputeHere, task: dict[str, Any], **how: float) -> dict[str, Any]:
        if task["do"] == "release":
            attempts.append(None)
            if len(attempts) < 5:
                raise ComputeProcessNotStartedError
        return run_task(process, task, **how)

    monkeypatch.setattr(ComputeHere, "run_task", started_late)
    with serving(tmp_path) as server:
        furnish(server)
        assert server.finished(server.order("k", QUICK).json["id"])["state"] == "ok"
    assert len(attempts) == 5
