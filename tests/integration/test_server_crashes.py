"""Servers and databases are killed while many clients send requests: no charge is lost or doubled.

A handful in `make test`; `make soak` sets WATTVEIL_SERVER_KILLS, WATTVEIL_DATABASE_KILLS and
WATTVEIL_CLIENT_SECONDS.
"""

import json
import math
import os
import random
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
from tests.series_bundles import quarter
from wattveil.bundle.series_verify import verify_chain
from wattveil.errors import ServerRefusalError
from wattveil.server.client_transport import Transport
from wattveil.server.ledger.amounts import MEASURES, Amounts
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_tables import entry, release
from wattveil.server.ledger.reserved_series import series_of

SERVER_KILLS = int(os.environ.get("WATTVEIL_SERVER_KILLS", "4"))
DATABASE_KILLS = int(os.environ.get("WATTVEIL_DATABASE_KILLS", "1"))
CLIENT_SECONDS = float(os.environ.get("WATTVEIL_CLIENT_SECONDS", "0"))
CLIENTS = 32
EPSILON = 0.05

DATABASES = ["sqlite", "postgresql"] if SERVER_KILLS > 4 else ["sqlite"]
"""In `make test` PostgreSQL is killed itself, and its clients are in `test_ledger_crashes.py`."""

SERIES = {
    "epsilon": EPSILON,
    "delta": 1e-6,
    "periods": 4,
    "first": "2026-Q1",
    "timezone": "Europe/London",
}
WHERE = "/v1/admin/datasets/homes/series"
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
"""Its multiples, modulo 1, are spread evenly however many there are."""

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


def amounts_of(said: dict[str, Any]) -> Amounts:
    """Return the price of an order or of a series."""
    return Amounts(**{measure: int(said["price"][measure]) for measure in MEASURES})


def word_of(client: Transport, release_id: str) -> str:
    """Wait for a release, and return what it says."""
    word: str = manifest_of(client, release_id)["word"]
    return word


def manifest_of(client: Transport, release_id: str, pause_seconds: float = 0.005) -> dict[str, Any]:
    """Wait for a release, and return its manifest."""
    while client.get(f"/v1/releases/{release_id}")["state"] == "computing":
        time.sleep(pause_seconds)
    return client.get(f"/v1/releases/{release_id}/manifest")


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


def check_whole(ledger: Ledger, ids: dict[str, str], words: set[str], periods: int = 0) -> None:
    """Compare what clients were told with what the ledger holds: no more, no less, none twice."""
    charged = select(entry.c.request_key, entry.c.journal_id, entry.c.seq).where(
        entry.c.kind == "charge"
    )
    with ledger.reading() as connection:
        found = {key: f"{journal}-{seq}" for key, journal, seq in connection.execute(charged)}
        states = connection.execute(select(release.c.state)).scalars().all()
    assert found == ids
    assert states == ["ok"] * (len(ids) + periods)
    assert len(words) == len(ids) + periods
    assert broken(ledger) == []


class Orders:
    """Orders of releases, and what they said."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.ids: dict[str, str] = {}
        self.words: dict[str, str] = {}
        self.price: dict[str, Amounts] = {}

    def do(self, number: int) -> None:
        """Order and read; what was once read must come again."""
        key = f"key-{number}"
        said = send(self._site.as_("ann"), key, number)
        found, self.price[key] = said["id"], amounts_of(said)
        assert self.ids.setdefault(key, found) == found
        word = word_of(self._site.as_("ann"), found)
        assert self.words.setdefault(key, word) == word


class Series:
    """Series of two periods, one after the other: opened, computed, closed, and what they said."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.price: dict[str, Amounts] = {}
        self.periods: dict[tuple[str, str], str] = {}
        self.manifests: dict[str, str] = {}
        self.closed: set[str] = set()

    def do(self, place: int) -> None:
        """Do the next step of a series; what was once read must come again."""
        name, step = f"series-{place // 4}", place % 4
        if step == 0:
            self._open(name)
        elif step == 3:
            self._close(name)
        else:
            self._add(name, f"2026-Q{step}", f"q{step}.parquet")

    def _open(self, name: str) -> None:
        body = {**SERIES, "name": name}
        price = amounts_of(self._site.as_("owner").post(WHERE, body))
        assert self.price.setdefault(name, price) == price

    def _add(self, name: str, label: str, file: str) -> None:
        """Add a period, unless a request that died with a server did."""
        owner = self._site.as_("owner")
        try:
            body = {"period": label, "file": file}
            found = owner.post(f"{WHERE}/{name}/periods", body)["release"]
        except ServerRefusalError as error:
            if error.code != "invalid_request":
                raise
            found = self.listed(name)[label]
        assert self.periods.setdefault((name, label), found) == found
        # A period takes some 0.3 s: few of the steps are those of waiting.
        manifest = json.dumps(manifest_of(self._site.as_("ann"), found, pause_seconds=0.1))
        assert self.manifests.setdefault(found, manifest) == manifest

    def _close(self, name: str) -> None:
        ended = self._site.as_("owner").post(f"{WHERE}/{name}/close", {"reason": "over"})
        assert ended["closed"] == "over"
        self.closed.add(name)

    def listed(self, name: str) -> dict[str, str]:
        """Return the releases of a series by period, as an analyst sees them."""
        found = self._site.as_("ann").get("/v1/datasets/homes/series")["series"]
        (own,) = (one for one in found if one["name"] == name)
        return {one["period"]: one["release"] for one in own["periods"]}

    def check(self, ledger: Ledger, folder: Path) -> None:
        """Compare what clients were told with the ledger and the folder of series."""
        with ledger.reading() as connection:
            known = {one.name: one for one in series_of(connection, "homes")}
            rows = connection.execute(select(release.c.seq, release.c.payload_ref))
            stored = {seq: str(payload) for seq, payload in rows}  # there is one journal
        assert {name: one.price for name, one in known.items()} == self.price
        assert {name for name, one in known.items() if one.ended} == self.closed
        assert self.periods == {
            (name, period.label): period.id for name, one in known.items() for period in one.periods
        }
        for name, one in known.items():
            bundles = [folder / "releases" / stored[period.charge.seq] for period in one.periods]
            home = folder / "series" / one.id
            closing = home / "series" / "closed.json" if name in self.closed else None
            assert not bundles or verify_chain(bundles, closing=closing).accepted
            assert (home / "secrets").exists() == (bool(bundles) and name not in self.closed)


@pytest.mark.parametrize("place", DATABASES, indirect=True)
def test_a_killed_server_leaves_no_answer_unpaid_and_none_twice(
    place: Place, servers: Tell
) -> None:
    """Killed at each step of an operation in turn, and started again: one charge, the same word.

    Orders of releases take turns with the steps of series: open, two periods, close.
    """
    where = "SQLite" if place.database is None else "PostgreSQL"
    with opened(servers, place, epsilon=8.0) as site:
        for number in (1, 2):
            put_profiles(place.folder, f"q{number}.parquet", quarter(number, customers=24))
        orders, series = Orders(site), Series(site)

        def do(number: int) -> None:
            """Do an operation: an order, or the next step of a series."""
            (series if number % 2 else orders).do(number // 2)

        def do_until_killed(number: int) -> None:
            """Repeat an operation; now and then it is done before the kill."""
            while True:
                do(number)

        # Every kind of operation once, to count its steps.
        kinds = 8
        steps: list[int] = []
        for number in range(kinds):
            site.as_("ann").get("/steps/0")
            do(number)
            steps.append(site.as_("ann").get("/steps/0")["taken"])
        assert min(steps[1:]) > 10
        kills: Counter[int] = Counter()
        first = random.random()  # noqa: S311 - not a secret
        for number in range(kinds, kinds + SERVER_KILLS):
            kind = number % kinds
            kills[kind] += 1
            # Spread over all steps; with more kills than steps every one has its turns.
            at = 1 + int((first + kills[kind] * GOLDEN) % 1.0 * steps[kind])
            site.as_("ann").get(f"/steps/{at}")
            with pytest.raises(ServerRefusalError, match="unreachable"):
                do_until_killed(number)
            assert site.wait() == -signal.SIGKILL
            site.start()
            do(number)
            if kills.total() % 10 == 0:
                print(f"{where}: {kills.total()} kills", flush=True)  # noqa: T201 - of `make soak`
        assert site.stop() == 0
    with place.open() as ledger:
        said = {*orders.words.values(), *series.manifests.values()}
        check_whole(ledger, orders.ids, said, periods=len(series.periods))
        series.check(ledger, place.folder)
        assert whole(ledger).spent == sum((orders.price | series.price).values(), start=Amounts())
    done = f"{len(orders.ids)} releases, {len(series.price)} series, {len(series.periods)} periods"
    print(f"{where}: {kills.total()} kills, 0 violations; {done}")  # noqa: T201 - of `make soak`


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
