"""Charge, compute, store, and only then send: the steps of an answer, whatever crashes.

======================  ======  =======  ==========================================
a worker is killed      charge  release  the same order again, or `resume`
======================  ======  =======  ==========================================
before the charge       no      no       charges, computes, stores
after the charge        yes     no       finds the charge, computes, stores
after the computation   yes     no       finds the charge, draws anew, stores: the
                                         first draw never left, and is cleared away
after the release       yes     yes      finds what is stored
======================  ======  =======  ==========================================
"""

import hashlib
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

from wattveil.errors import LedgerUnavailableError
from wattveil.serve.ledger.charges import Charge, Release, State
from wattveil.serve.ledger.ledger import Ledger
from wattveil.serve.ledger.order import Order

SHELF = "releases"
"""The folder of the shelf, in the data folder of a server."""

Compute = Callable[[Charge, Path], None]
"""Draws for a charge, and leaves a folder at the path, forced to disk as `write_bundle` does."""


class Shelf:
    """Where drawn releases lie. Nothing on it may be read unless the ledger names it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)

    def draft(self, paid: Charge) -> Path:
        """Return a new place: two workers on one charge must not meet."""
        return self.folder / f"{paid.book_id}-{paid.drawn_seq}-{uuid.uuid4().hex}"

    def find(self, stored: Release) -> Path | None:
        """Return where a release lies; None for one that failed."""
        return None if stored.payload_ref is None else self.folder / stored.payload_ref

    def clear(self, named: set[str]) -> None:
        """Remove every draw that the ledger does not name; only while no worker runs."""
        for path in self.folder.iterdir():
            if path.name not in named:
                shutil.rmtree(path)


def answer(ledger: Ledger, shelf: Shelf, order: Order, compute: Compute) -> Release:
    """Return the release of an order: what is stored for it, or else what is drawn for it now."""
    paid = ledger.charge(order)
    stored = ledger.release_of(paid)
    return finish(ledger, shelf, paid, compute) if stored is None else stored


def finish(ledger: Ledger, shelf: Shelf, paid: Charge, compute: Compute) -> Release:
    """Draw for a charge and store it; if another worker was faster, discard the draw.

    A computation that fails is stored as failed, and stays paid. Why it failed may depend on rows,
    so the error ends here.
    """
    draft = shelf.draft(paid)
    try:
        compute(paid, draft)
        outcome = Release(
            state=State.OK, payload_ref=draft.name, payload_sha256=folder_sha256(draft)
        )
    except LedgerUnavailableError:
        raise  # nothing is known of the draw: it stays to be done
    except Exception:  # noqa: BLE001 - whatever it is, it may quote rows
        outcome = Release(state=State.FAILED)
    stored = ledger.store(paid, outcome)
    if stored.payload_ref != draft.name:
        shutil.rmtree(draft, ignore_errors=True)
    return stored


def resume(ledger: Ledger, shelf: Shelf, compute: Compute) -> int:
    """Finish what a crash left behind; at the start of a server, before any worker runs."""
    shelf.clear(ledger.payloads())
    pending = ledger.pending()
    for paid in pending:
        finish(ledger, shelf, paid, compute)
    return len(pending)


def folder_sha256(folder: Path) -> str:
    """Return a hash of all files of a folder, with their names."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
