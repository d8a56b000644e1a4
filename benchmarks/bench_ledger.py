"""Durable charges per second against a bare loop of commits, and the audit of a long ledger.

    python benchmarks/bench_ledger.py --charges 6000 --entries 1000000

The bare loop does what one charge must do and nothing else, one commit each: raise a sum, add a
row of the same size, commit. The ledger has 32 clients on one data set and one analyst: the worst
case, since all of them update the same rows. Both run alternately on the same disk, and the better
of the repeats counts. The ledger checks, hashes and records each charge; its throughput must be at
least half that of the loop even where a commit takes a fraction of a millisecond.
"""

import argparse
import hashlib
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for tests/

import psycopg
from sqlalchemy import insert, update

from tests.postgres import find_program, postgres_server
from tests.sample_ledgers import order, populate, whole
from wattveil.products.request import ReleaseRequest
from wattveil.server.ledger.amounts import Allowance, Amounts
from wattveil.server.ledger.database import writing
from wattveil.server.ledger.database_record import FILE
from wattveil.server.ledger.journal import SEALED, Head, seal
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_audit import audit_ledger
from wattveil.server.ledger.ledger_tables import account, entry, journal
from wattveil.server.ledger.pricing import canonical_request

CLIENTS = 32
REPEATS = 3
MIN_GAIN = 0.5
PRICE = Amounts(rho=10, eta=1)
REQUEST = canonical_request(ReleaseRequest(epsilon=0.1, delta=1e-6))


def bare_sqlite(folder: Path, charges: int) -> float:
    """Return commits per second of a loop on SQLite with the same settings."""
    with closing(sqlite3.connect(folder / "bare.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, spent INTEGER)")
        connection.execute("CREATE TABLE entry (seq INTEGER PRIMARY KEY, detail TEXT)")
        connection.execute("INSERT INTO account VALUES (1, 0)")
        begin = time.perf_counter()
        for number in range(charges):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE account SET spent = spent + 10")
            connection.execute("INSERT INTO entry VALUES (?, ?)", (number, f"{REQUEST}"))
            connection.execute("COMMIT")
        return charges / (time.perf_counter() - begin)


def bare_postgresql(address: str, charges: int) -> float:
    """Return commits per second of a loop on PostgreSQL."""
    with psycopg.connect(address) as connection:
        connection.execute("CREATE TEMP TABLE sums (id int PRIMARY KEY, spent bigint)")
        connection.execute("DROP TABLE IF EXISTS bare_account, bare_entry")
        connection.execute("CREATE TABLE bare_account (id int PRIMARY KEY, spent bigint)")
        connection.execute("CREATE TABLE bare_entry (seq bigint PRIMARY KEY, detail text)")
        connection.execute("INSERT INTO bare_account VALUES (1, 0)")
        connection.commit()
        begin = time.perf_counter()
        for number in range(charges):
            connection.execute("UPDATE bare_account SET spent = spent + 10")
            row = (number, f"{REQUEST}")
            connection.execute("INSERT INTO bare_entry VALUES (%s, %s)", row)
            connection.commit()
        return charges / (time.perf_counter() - begin)


def charged(ledger: Ledger, charges: int, *, run: int) -> tuple[float, list[float]]:
    """Return charges per second of 32 clients, and how long each waited."""
    waits: list[float] = []

    def submit(client: int) -> None:
        for number in range(client, charges, CLIENTS):
            key = f"{run}.{number}"
            placed = order(key, request={**REQUEST, "n": key}, price=PRICE)
            begin = time.perf_counter()
            ledger.charge(placed)
            waits.append(time.perf_counter() - begin)

    clients = [threading.Thread(target=submit, args=(number,)) for number in range(CLIENTS)]
    begin = time.perf_counter()
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return charges / (time.perf_counter() - begin), waits


def compare(name: str, ledger: Ledger, bare: Callable[[], float], charges: int) -> bool:
    """Print the figures of one database; return whether the ledger is fast enough."""
    populate(ledger, Allowance(epsilon=5.0, delta=1e-6))
    rates, bares, waits = [], [], []
    cpu = time.process_time()
    for run in range(REPEATS):
        bares.append(bare())
        rate, waited = charged(ledger, charges, run=run)
        rates.append(rate)
        waits += waited
    cpu = (time.process_time() - cpu) / (REPEATS * charges)
    assert whole(ledger).spent.rho == REPEATS * charges * PRICE.rho
    percentiles = statistics.quantiles(waits, n=100)
    gain = max(rates) / max(bares)
    sys.stdout.write(
        f"{name}: {max(rates):,.0f} durable charges/s, bare loop {max(bares):,.0f} commits/s,"
        f" ratio {gain:.2f}; waited p50 {percentiles[49] * 1e3:.0f} ms,"
        f" p99 {percentiles[98] * 1e3:.0f} ms; {cpu * 1e6:.0f} us of CPU a charge\n"
    )
    return gain >= MIN_GAIN


def fill(ledger: Ledger, entries: int) -> None:
    """Add charges with a valid hash chain in bulk, so that only the audit is measured."""
    populate(ledger, Allowance(epsilon=5.0, delta=1e-6))
    text = order("x", request=REQUEST).request_text

    def rows(head: Head) -> Iterator[dict[str, Any]]:
        for number in range(entries):
            row: dict[str, Any] = {
                **dict.fromkeys(SEALED),
                "journal_id": 1,
                "seq": head.seq + 1,
                "at": "2024-01-01T00:00:00.000000+00:00",
                "kind": "charge",
                "principal_id": 2,
                "dataset_id": 1,
                "account_id": 1,
                "own_account_id": 2,
                "rho": PRICE.rho,
                "epsilon": 0,
                "delta": 0,
                "eta": PRICE.eta,
                "request_key": str(number),
                "request_sha256": hashlib.sha256(str(number).encode()).hexdigest(),
                "detail": text,
                "prev_sha256": head.sha256,
            }
            row["row_sha256"] = seal(tuple(row[name] for name in SEALED))
            head = Head(head.seq + 1, row["row_sha256"])
            yield row
        last.append(head)

    last: list[Head] = []
    with writing(ledger.engine).begin() as connection:
        made = rows(Head(*connection.execute(journal.select()).one()[3:5]))
        while batch := list(islice(made, 10_000)):
            connection.execute(insert(entry), batch)
        spent = {"rho_spent": PRICE.rho * entries, "eta_spent": PRICE.eta * entries}
        connection.execute(update(account).where(account.c.id <= 2).values(**spent))  # noqa: PLR2004
        connection.execute(update(journal).values(head_seq=last[0].seq, head_sha256=last[0].sha256))


def main() -> int:
    """Run everything; fail if the ledger is too slow or the audit finds anything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--charges", type=int, default=6_000)
    parser.add_argument("--bare", type=int, default=500)
    parser.add_argument("--entries", type=int, default=1_000_000)
    options = parser.parse_args()
    holds = []
    for part in ("sqlite", "postgresql", "audit"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if part == "sqlite":
                with Ledger.open(folder) as ledger:

                    def bare() -> float:
                        with tempfile.TemporaryDirectory() as own:
                            return bare_sqlite(Path(own), options.bare)

                    holds.append(compare(part, ledger, bare, options.charges))
            elif part == "audit":
                with Ledger.open(folder) as ledger:
                    fill(ledger, options.entries)
                    begin = time.perf_counter(), time.process_time()
                    holds.append(all(finding.holds for finding in audit_ledger(ledger.engine)))
                    wall, cpu = time.perf_counter() - begin[0], time.process_time() - begin[1]
                size = (folder / FILE).stat().st_size / 1e6
                sys.stdout.write(
                    f"audit of {options.entries:,} charges ({size:,.0f} MB): {wall:.1f} s,"
                    f" {cpu:.1f} s of CPU\n"
                )
            elif find_program("postgres") is not None:
                with (
                    postgres_server(durable=True) as server,
                    Ledger.open(folder, server.address) as ledger,
                ):
                    done = compare(
                        part,
                        ledger,
                        lambda: bare_postgresql(server.address, options.bare),
                        options.charges,
                    )
                    holds.append(done)
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
