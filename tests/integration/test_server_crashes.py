"""Servers and databases are killed while many clients send requests: no charge is lost or doubled.

A handful in `make test`; `make soak` sets WATTVEIL_SERVER_KILLS, WATTVEIL_DATABASE_KILLS and
WATTVEIL_CLIENT_SECONDS.
"""

import math
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from tests.integration.conftest import Place
from tests.live_server import put_profiles, registration
from tests.postgres import postgres_server, require_postgres
from tests.sample_ledgers import broken, whole
from wattveil.errors import ServerRefusalError
from wattveil.server.client import Transport
from wattveil.server.ledger.amounts import MEASURES, Amounts
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_tables import entry, release

SERVER_KILLS = int(os.environ.get("WATTVEIL_SERVER_KILLS", "2"))
DATABASE_KILLS = int(os.environ.get("WATTVEIL_DATABASE_KILLS", "1"))
CLIENT_SECONDS = float(os.environ.get("WATTVEIL_CLIENT_SECONDS", "0"))
CLIENTS = 32
EPSILON = 0.05

DATABASES = ["sqlite", "postgresql"] if SERVER_KILLS > 2 else ["sqlite"]
"""In `make test` PostgreSQL is killed itself, and its clients are in `test_ledger_crashes.py`."""

Tell = Callable[[object], Any]


class Site:
    """A data folder, and the server that runs on it just now."""

    def __init__(self, tell: Tell, place: Place) -> None:
        self._tell, self.place = tell, place
        self.pid = self.port = 0
        self.tokens: dict[str, str] = {}

    def start(self) -> None:
        """Start a server."""
        said = self._tell({"folder": str(self.place.folder), "database": self.place.database})
        self.pid, self.port = said["pid"], said["port"]
        if said["token"] is not None:
            self.tokens["owner"] = said["token"]

    def wait(self) -> int:
        """Wait for the end of the server; return how it ended."""
        ended: int = self._tell({"wait": self.pid})["ended"]
        self.pid = 0
        return ended

    def stop(self, told: int = signal.SIGTERM) -> int:
        """End the server."""
        os.kill(self.pid, told)
        return self.wait()

    def as_(self, name: str) -> Transport:
        """Return a client."""
        return Transport(f"http://127.0.0.1:{self.port}", self.tokens[name])

    def allow(self, epsilon: float, *principal: str | None) -> None:
        """Set budgets."""
        for name in principal:
            body = {
                "allowance": {"epsilon": epsilon, "delta": 1e-6},
                "reason": "r",
                "principal": name,
            }
            self.as_("owner").post("/v1/admin/datasets/homes/budgets", body)


@contextmanager
def opened(tell: Tell, place: Place, *, epsilon: float) -> Iterator[Site]:
    """Serve one data set to one analyst; kill what still runs at the end."""
    site = Site(tell, place)
    put_profiles(place.folder)
    site.start()
    try:
        allowance = {"epsilon": epsilon, "delta": 1e-6}
        body = registration("homes.parquet", products=["load"], allowance=allowance)
        site.as_("owner").post("/v1/admin/datasets", {**body, "customer_list_file": None})
        site.tokens["ann"] = site.as_("owner").post("/v1/admin/principals", {"name": "ann"})[
            "token"
        ]
        site.allow(epsilon, "ann")
        yield site
    finally:
        if site.pid:
            site.stop(signal.SIGKILL)


def send(client: Transport, key: str, number: int) -> dict[str, Any]:
    """Order; each number is another request of almost the same price."""
    body = {"epsilon": EPSILON + number * 1e-9}
    return client.post("/v1/datasets/homes/releases", body, {"Idempotency-Key": key})


def word_of(client: Transport, release_id: str) -> str:
    """Wait for a release, and return what it says."""
    while client.get(f"/v1/releases/{release_id}")["state"] == "computing":
        time.sleep(0.005)
    word: str = client.get(f"/v1/releases/{release_id}/manifest")["word"]
    return word


def crowd(
    site: Site,
    going_on: Callable[[], bool],
    accepted: dict[str, Any],
    refused: Counter[str] | None = None,
) -> Counter[str]:
    """Run many clients; add accepted requests by key, and count refusals by code."""
    refused = Counter() if refused is None else refused
    numbers = count()

    def requests() -> None:
        client, number, unknown = site.as_("ann"), next(numbers), False
        while going_on() or unknown:  # perhaps it was charged: the key will tell
            key = f"key-{number}"
            try:
                said = send(client, key, number)
            except ServerRefusalError as error:
                refused[error.code] += 1
                unknown = error.code == "unavailable" or (unknown and error.code == "busy")
                time.sleep(0.1)
            else:
                unknown = False
                again = number % 3 == 0 and key not in accepted  # the same key once more
                assert accepted.setdefault(key, said)["id"] == said["id"]
                number = number if again else next(numbers)

    with ThreadPoolExecutor(CLIENTS) as pool:
        for done in [pool.submit(requests) for _ in range(CLIENTS)]:
            done.result()
    return refused


def check_whole(ledger: Ledger, ids: dict[str, str], words: set[str]) -> None:
    """Compare what clients were told with what the ledger holds: no more, no less, none twice."""
    charged = select(entry.c.request_key, entry.c.journal_id, entry.c.seq).where(
        entry.c.kind == "charge"
    )
    with ledger.reading() as connection:
        found = {key: f"{journal}-{seq}" for key, journal, seq in connection.execute(charged)}
        states = connection.execute(select(release.c.state)).scalars().all()
    assert found == ids
    assert states == ["ok"] * len(ids)
    assert len(words) == len(ids)
    assert broken(ledger) == []


@pytest.mark.parametrize("place", DATABASES, indirect=True)
def test_a_killed_server_leaves_no_answer_unpaid_and_none_twice(
    place: Place, servers: Tell
) -> None:
    """Killed at each step of an order in turn, and started again: one charge, the same word."""
    ids: dict[str, str] = {}
    words: dict[str, str] = {}
    with opened(servers, place, epsilon=4.0) as site:

        def get(number: int) -> None:
            """Order and read; what was once read must come again."""
            key = f"key-{number}"
            found = send(site.as_("ann"), key, number)["id"]
            assert ids.setdefault(key, found) == found
            word = word_of(site.as_("ann"), found)
            assert words.setdefault(key, word) == word

        def get_until_killed(number: int) -> None:
            """Order and read; now and then an answer is there before the kill."""
            while True:
                get(number)

        site.as_("ann").get("/steps/0")
        get(0)
        steps = site.as_("ann").get("/steps/0")["taken"]
        assert steps > 30
        for number in range(1, SERVER_KILLS + 1):
            # Spread over all steps; with more kills than steps every one has its turns.
            few = steps > SERVER_KILLS
            at = 1 + (number * steps // (SERVER_KILLS + 1) if few else number % steps)
            site.as_("ann").get(f"/steps/{at}")
            with pytest.raises(ServerRefusalError, match="unreachable"):
                get_until_killed(number)
            assert site.wait() == -signal.SIGKILL
            site.start()
            get(number)
        assert site.stop() == 0
    with place.open() as ledger:
        check_whole(ledger, ids, set(words.values()))


@pytest.mark.skipif(not CLIENT_SECONDS, reason="long, see `make soak`: clients of HTTP")
@pytest.mark.parametrize("place", DATABASES, indirect=True)
def test_many_clients_at_a_tight_cap_over_http(place: Place, servers: Tell) -> None:
    """Any number of concurrent clients: overspent 0, doubled 0, lost 0, no draw is seen twice.

    The cap is raised meanwhile, a little at a time, so that it is tight all the time.
    """
    with opened(servers, place, epsilon=EPSILON) as site, ThreadPoolExecutor(1) as pool:
        until = time.monotonic() + CLIENT_SECONDS
        accepted: dict[str, Any] = {}
        running = pool.submit(crowd, site, lambda: time.monotonic() < until, accepted)
        for fitting in count(10, 10):
            if running.done():
                break
            time.sleep(0.2)
            site.allow(EPSILON * math.sqrt(fitting), None, "ann")  # about so many fit
        refused = running.result()
        words = {word_of(site.as_("ann"), one["id"]) for one in accepted.values()}
        assert site.stop() == 0
    assert refused["budget_refused"] > 0
    assert set(refused) <= {"budget_refused", "busy"}
    with place.open() as ledger:
        check_whole(ledger, {key: one["id"] for key, one in accepted.items()}, words)
        prices = [one["price"] for one in accepted.values()]
        sums = {measure: sum(int(price[measure]) for price in prices) for measure in MEASURES}
        assert whole(ledger).spent == Amounts(**sums)
        assert whole(ledger).spent.fits(whole(ledger).caps)
    print(f"{len(accepted):,} accepted, {dict(refused)}")  # noqa: T201 - `make soak` shows it


def test_a_killed_database_loses_nothing_confirmed(tmp_path: Path, servers: Tell) -> None:
    """PostgreSQL dies under the clients and comes back: 503 meanwhile, and every answer stands."""
    require_postgres()
    with postgres_server(durable=True) as database:
        place = Place(tmp_path, database.address)
        # For 100 kills, with some 35 charges before each.
        with opened(servers, place, epsilon=20.0) as site, ThreadPoolExecutor(1) as pool:
            accepted: dict[str, Any] = {}
            refused: Counter[str] = Counter()

            def kill_and_start() -> None:
                for _ in range(DATABASE_KILLS):
                    enough = len(accepted) + CLIENTS
                    while len(accepted) < enough:  # it must be in the middle of its work
                        time.sleep(0.01)
                    before = refused["unavailable"]
                    database.kill()
                    while refused["unavailable"] == before:  # a client has noticed
                        time.sleep(0.01)
                    database.start()

            killing = pool.submit(kill_and_start)
            crowd(site, lambda: not killing.done(), accepted, refused)
            killing.result()
            words = {word_of(site.as_("ann"), one["id"]) for one in accepted.values()}
            assert site.stop() == 0
        assert refused["unavailable"] >= DATABASE_KILLS
        assert set(refused) <= {"unavailable", "busy", "budget_refused"}
        with place.open() as ledger:
            check_whole(ledger, {key: one["id"] for key, one in accepted.items()}, words)
    print(f"{len(accepted):,} accepted, {dict(refused)}")  # noqa: T201 - `make soak` shows it
