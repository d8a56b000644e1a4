"""What computes, on both databases: a helper that is killed, a server that ends in the middle."""

import time

import pytest

from tests.integration.conftest import Place
from tests.live_server import QUICK, furnish, serving
from tests.sample_ledgers import broken


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
