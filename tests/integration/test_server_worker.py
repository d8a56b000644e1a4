"""What computes, on both databases: a helper that is killed, a server that ends in the middle."""

import errno
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.integration.conftest import Place
from tests.live_server import QUICK, furnish, serving
from tests.sample_ledgers import broken
from wattveil.server.ledger.journal import Head


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
    """The disk is full just after a release was committed: analysts may have it already."""
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
