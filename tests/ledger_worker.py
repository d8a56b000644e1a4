"""Workers that are killed: a process that forks one for each task it reads, and tells its end.

    {"folder": ..., "database": ..., "key": ..., "kill_at": 17}

A worker opens the ledger, answers one order, and kills itself with SIGKILL at the given step: every
statement, commit and connection handed back is a step, before and after, and so are the parts of
the computation and the sending. Its result has what it sent until then, and how it ended.

    {"folder": ..., "database": ..., "worker": 1, "clients": 8, "seconds": 5, "price": [...]}

A worker whose clients send requests without pause, a third of them with a key that was used before;
it tells which keys were accepted, and as which entry.
"""

import json
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.pool import Pool

from tests.sample_ledgers import order, write_payload
from wattveil.errors import ChargeRefusedError
from wattveil.server.ledger.accounts import Charge
from wattveil.server.ledger.amounts import Amounts
from wattveil.server.ledger.fulfilment import BundleStore, answer
from wattveil.server.ledger.ledger import Ledger

Say = Callable[[dict[str, Any]], None]


class Steps:
    """Counts steps, and ends the process at one of them."""

    def __init__(self, kill_at: int | None) -> None:
        self.kill_at = kill_at
        self.names: list[str] = []

    def reach(self, name: str) -> None:
        """Reach a step."""
        self.names.append(name)
        if len(self.names) == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        """Make steps of all that happens to a database."""
        event.listen(Engine, "begin", lambda _: self.reach("begin"))
        event.listen(Engine, "commit", lambda _: self.reach("commit"))
        event.listen(Pool, "checkin", lambda *_: self.reach("handed back"))
        for when in ("before", "after"):
            event.listen(
                Engine,
                f"{when}_cursor_execute",
                lambda _, __, statement, *___, when=when: self.reach(f"{when} {statement[:20]}"),
            )


def answer_one(task: dict[str, Any], say: Say) -> None:
    """Answer an order, perhaps not to the end."""
    steps = Steps(task["kill_at"])

    def draw(_: Charge, path: Path) -> None:
        steps.reach("compute")
        write_payload(path, uuid.uuid4().hex)
        steps.reach("computed")

    folder = Path(task["folder"])
    with Ledger.open(folder, task["database"]) as ledger:
        steps.watch()
        bundles = BundleStore(folder / "releases")
        stored = answer(ledger, bundles, order(task["key"], price=Amounts(rho=1000)), draw)
        steps.reach("send")
        found = bundles.find(stored)
        say({"sent": None if found is None else (found / "table.csv").read_text()})
        steps.reach("sent")
    say({"steps": len(steps.names)})


def ask_much(task: dict[str, Any], say: Say) -> None:
    """Send requests from many concurrent clients, until the time is over."""
    price, worker = Amounts(*task["price"]), task["worker"]
    accepted: list[tuple[str, int]] = []
    refused = [0]

    def submit(client: int) -> None:
        tries = 0
        while time.monotonic() < until or not refused[0]:  # at a tight cap, also on a busy machine
            # Two tries in three have a new key; the third repeats the one before.
            tries += 1
            key = f"{worker}.{client}.{tries - (tries % 3 == 0)}"
            try:
                accepted.append((key, ledger.charge(order(key, price=price)).seq))
            except ChargeRefusedError:
                refused[0] += 1
                time.sleep(0.05)

    with Ledger.open(Path(task["folder"]), task["database"]) as ledger:
        until = time.monotonic() + task["seconds"]
        clients = [threading.Thread(target=submit, args=(n,)) for n in range(task["clients"])]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
    say({"accepted": accepted, "refused": refused[0]})


def start(task: dict[str, Any]) -> tuple[int, int]:
    """Run a task in a process of its own; return its number, and where to read what it says."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading

    def say(words: dict[str, Any]) -> None:
        os.write(writing, (json.dumps(words) + "\n").encode())

    status = 1
    try:
        (ask_much if "clients" in task else answer_one)(task, say)
        status = 0
    finally:
        os._exit(status)  # nothing of the parent's is cleaned up twice


def finish(child: int, reading: int) -> dict[str, Any]:
    """Wait for a process; return what it said and how it ended."""
    said: dict[str, Any] = {}
    with os.fdopen(reading) as pipe:
        for line in pipe:
            said |= json.loads(line)
    _, ended = os.waitpid(child, 0)
    return {**said, "ended": os.waitstatus_to_exitcode(ended)}


def main() -> None:
    """Run the tasks of each line, all at once."""
    for line in sys.stdin:
        started = [start(task) for task in json.loads(line)]
        sys.stdout.write(json.dumps([finish(*one) for one in started]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
