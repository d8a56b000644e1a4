"""Fulfilment of an order: charge, compute, store, and only then send, whatever crashes.

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
import logging
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

from wattveil.errors import LedgerUnavailableError
from wattveil.server.ledger.accounts import Charge, Release, ReleaseState
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.order import Order

_LOG = logging.getLogger(__name__)

BUNDLES_FOLDER = "releases"
"""Folder of the bundles, in the data folder of a server."""

ARCHIVE = ".zip"

Compute = Callable[[Charge, Path], str | None]
"""Computes the release of a charge, and writes a folder durably, as `write_bundle` does.

Returns the fingerprint of the profiles of a period."""


class BundleStore:
    """Folder of computed bundles. A bundle may be read only if the ledger names it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)

    def draft(self, charge: Charge) -> Path:
        """Return a new path: two workers on one charge must not share it."""
        return self.folder / f"{charge.journal_id}-{charge.drawn_seq}-{uuid.uuid4().hex}"

    def find(self, stored: Release) -> Path | None:
        """Return the folder of a release; None if it failed."""
        return None if stored.payload_ref is None else self.folder / stored.payload_ref

    def clear_drafts(self, charge: Charge) -> None:
        """Remove what was computed for a charge and could not be stored.

        Only by the one worker that has the charge, after `Ledger.confirm`, and while the charge has
        no release: a commit that seemed to fail may have succeeded.
        """
        for path in self.folder.glob(f"{charge.journal_id}-{charge.drawn_seq}-*"):
            _remove(path)

    def clear(self, named: set[str]) -> None:
        """Remove every bundle that the ledger does not name; only while no worker runs."""
        for path in self.folder.iterdir():
            if path.name.removesuffix(ARCHIVE) not in named:
                _remove(path)


def answer(ledger: Ledger, bundles: BundleStore, order: Order, compute: Compute) -> Release:
    """Return the release of an order: the stored one, or one that is computed now."""
    charge = ledger.charge(order)
    stored = ledger.release_of(charge)
    return finish(ledger, bundles, charge, compute) if stored is None else stored


def finish(ledger: Ledger, bundles: BundleStore, charge: Charge, compute: Compute) -> Release:
    """Compute and store the release of a charge; if another worker was faster, discard it.

    A computation that fails is stored as failed, and stays charged. The error may depend on rows,
    and is discarded.
    """
    ledger.confirm(charge)
    if (stored := ledger.release_of(charge)) is not None:
        return stored  # it was stored, but perhaps not recorded in the high-water mark
    draft = bundles.draft(charge)
    try:
        fingerprint = compute(charge, draft)
        outcome = Release(
            state=ReleaseState.OK,
            payload_ref=draft.name,
            payload_sha256=folder_sha256(draft),
            fingerprint=fingerprint,
        )
    except LedgerUnavailableError:
        raise  # the charge stays pending
    except Exception as error:  # noqa: BLE001 - it may quote rows
        place = f"{charge.journal_id}-{charge.drawn_seq}"
        _LOG.error("release %s is stored as failed: %s", place, type(error).__name__)
        outcome = Release(state=ReleaseState.FAILED)
    stored = ledger.store(charge, outcome)
    if stored.payload_ref != draft.name:
        remove_bundle(draft)
    return stored


def archive_of(bundle: Path) -> Path:
    """Return the place of the archive of a bundle: beside it, since a bundle never changes."""
    return bundle.with_name(bundle.name + ARCHIVE)


def remove_bundle(bundle: Path) -> None:
    """Remove a bundle and its archive, as far as they are there."""
    _remove(bundle)
    _remove(archive_of(bundle))


def _remove(path: Path) -> None:
    """Remove a folder or a file, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def resume(ledger: Ledger, bundles: BundleStore, compute: Compute) -> int:
    """Compute pending charges after a crash; at the start of a server, before any worker runs."""
    bundles.clear(ledger.payloads())
    pending = ledger.pending()
    for charge in pending:
        finish(ledger, bundles, charge, compute)
    return len(pending)


def folder_sha256(folder: Path) -> str:
    """Return a hash of all files of a folder, with their names."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
