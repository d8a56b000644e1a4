"""Everything a server holds, opened from its data folder and closed in order.

::

    DIR/ledger.sqlite    the ledger, unless another database is named
    DIR/ledger.heads     how far it had come
    DIR/profiles/        files of profiles, put there by the owner; private
    DIR/releases/        bundles that were drawn
    DIR/release.key      signs releases; release.key.pub is for everybody
    DIR/fingerprint.key  tells whether data are registered already
    DIR/server.lock      held by the one server of the folder
"""

import fcntl
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from wattveil.errors import InvalidParameterError
from wattveil.publish import keys
from wattveil.publish.private_file import Description
from wattveil.publish.request import ReleaseRequest
from wattveil.serve import people, tokens
from wattveil.serve.datasets import FOLDER, find_dataset
from wattveil.serve.helpers import HelperBusyError, HelperDiedError
from wattveil.serve.ledger.answer import SHELF, Shelf
from wattveil.serve.ledger.charges import Charge
from wattveil.serve.ledger.ledger import Ledger
from wattveil.serve.ledger.pricing import canonical_request
from wattveil.serve.ledger.totals import counted_with
from wattveil.serve.planner import Planner
from wattveil.serve.problems import Code, Problem, invalid
from wattveil.serve.releases import find_paid
from wattveil.serve.worker import Worker

SIGNING_KEY = "release.key"
FINGERPRINT_KEY = "fingerprint.key"
LOCK = "server.lock"

TICK_SECONDS = 5.0
"""Of the clock on which releases appear."""


@dataclass(frozen=True, kw_only=True)
class House(AbstractContextManager["House"]):
    """A server's ledger, shelf, worker and planner. Open it with `House.open`."""

    folder: Path
    ledger: Ledger
    shelf: Shelf
    worker: Worker
    planner: Planner
    first_token: str | None
    """The token of the first administrator; None but at the very first start."""
    _opened: ExitStack
    """What is let go of at the end: the ledger, then the folder."""

    @classmethod
    def open(
        cls, folder: Path, database: str | None = None, *, tick_seconds: float = TICK_SECONDS
    ) -> Self:
        """Open the data folder of a server; a new one gets its keys and an administrator."""
        if not folder.is_dir():
            raise InvalidParameterError("data", "a folder that exists", str(folder))
        folder = folder.absolute()
        with ExitStack() as undo:
            undo.enter_context(_held(folder))
            (folder / FOLDER).mkdir(mode=0o700, exist_ok=True)
            if not (folder / SIGNING_KEY).exists():
                keys.write_key(folder / SIGNING_KEY)
            tokens.ensure_key(folder / FINGERPRINT_KEY)
            ledger = undo.enter_context(Ledger.open(folder, database))
            first_token = ledger.write(people.first_token)
            shelf = Shelf(folder / SHELF)
            task = partial(_release_task, folder, ledger)
            worker = Worker(ledger, shelf, task, tick_seconds=tick_seconds)
            worker.start()
            return cls(
                folder=folder,
                ledger=ledger,
                shelf=shelf,
                worker=worker,
                planner=Planner(),
                first_token=first_token,
                _opened=undo.pop_all(),
            )

    def look(self, file: Path, request: ReleaseRequest) -> Description:
        """Return what may be known of a file of profiles; the process that computes reads it."""
        task = {
            "do": "describe",
            "profiles": str(file),
            "fingerprint_key": str(self.folder / FINGERPRINT_KEY),
            "request": canonical_request(request),
        }
        try:
            said = self.worker.ask(task)
        except (HelperBusyError, HelperDiedError):
            raise Problem(Code.BUSY) from None
        if not said["done"]:
            raise Problem(Code.INTERNAL)
        if said["broken"] is not None:
            field, rule = said["broken"]
            raise invalid((field, rule))
        return Description(**said["description"])

    def close(self) -> None:
        """Stop computing, finish writing, let go of the database."""
        self.planner.stop()
        self.worker.stop()
        self._opened.close()

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold a folder, until the process ends at the latest.

    A second server would clear away what the first one computes.
    """
    with (folder / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            rule = "a folder that no other server serves"
            raise InvalidParameterError("data", rule, str(folder)) from None
        yield


def _release_task(folder: Path, ledger: Ledger, paid: Charge, draft: Path) -> dict[str, object]:
    """Return what the helper needs to draw for a charge; it reads the rows, this process never."""
    with ledger.reading() as connection:
        drawn = find_paid(connection, f"{paid.book_id}-{paid.drawn_seq}")
        source = None if drawn is None else find_dataset(connection, drawn.dataset)
        counted = counted_with(connection, paid)
    if drawn is None or source is None:
        raise RuntimeError("a charge without a data set of this server")
    listed = source.customer_list_file
    return {
        "do": "release",
        "profiles": str(folder / FOLDER / source.profiles_file),
        "customer_list": None if listed is None else str(folder / FOLDER / listed),
        "fingerprint": source.fingerprint,
        "fingerprint_key": str(folder / FINGERPRINT_KEY),
        "signing_key": str(folder / SIGNING_KEY),
        "request": drawn.request,
        "price": drawn.charge.price.values,
        "cumulative": counted.to_json(),
        "out": str(draft),
    }
