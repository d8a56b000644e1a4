"""Receipts of erasures from a series, by which erased customers are kept out of later periods.

The file is in the private folder of the series and ends with it. It has dated records of customers
who were erased, and of those of whom the data holder states that they returned: keyed hashes, no
ids. The secrets of the series hold its SHA-256, so that a private folder without the receipts, or
with old ones, is refused. What is returned here is private: it tells who is a customer.
"""

import hashlib
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from wattveil.arrays import Names
from wattveil.engines.series_folder import SeriesFolder
from wattveil.errors import InvalidFileError

RECEIPTS = "erasures.json"
"""Name of the file, in the private folder."""
_DIGESTS = "series.erasures"
"""Name of the file of digests, in the folder of secrets: two while the receipts are replaced."""


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """How many of the listed ids were erased now, erased earlier, or never in the series."""

    erased: int
    already_erased: int
    not_found: int
    receipt: Path


def add_receipt(folder: SeriesFolder, secrets: Path, listed: Names) -> Erasure:
    """Write the receipt of an erasure, before it is made; return its counts.

    All listed ids are kept out of later periods, also those that were not found: a file that waits
    to be read may contain them. An id is *already erased* if an earlier receipt names it and the
    state holds nothing of it.
    """
    names = _texts(listed)
    known: set[str] = set()
    held: set[str] = set()
    for kind in folder.head.files:
        for block in folder.state(kind):
            known |= names & _texts(block.names)
            held |= names & _texts(block.names[block.owners])
    gone = (names & _erased(folder.root, secrets)) - held
    _add(folder.root, secrets, {"erased": sorted(names - gone)})
    return Erasure(
        erased=len(known - gone),
        already_erased=len(known & gone),
        not_found=len(names - known),
        receipt=folder.root / "private" / RECEIPTS,
    )


def note_return(root: Path, secrets: Path, listed: Names) -> None:
    """Record which of these customers were erased and are stated to have returned."""
    if back := _texts(listed) & _erased(root, secrets):
        _add(root, secrets, {"returned": sorted(back)})


def still_erased(root: Path, secrets: Path) -> Names:
    """Return the hashes of erased customers who have not returned."""
    return np.array(sorted(_erased(root, secrets)), dtype="S32")


def _texts(names: Names) -> set[str]:
    return {str(one, "ascii") for one in names}


def _erased(root: Path, secrets: Path) -> set[str]:
    """Return the hashes of customers who were erased and did not return."""
    path = root / "private" / RECEIPTS
    text = _text(path)
    digests = _text(secrets / _DIGESTS).split()
    if digests and _digest(text) not in digests:
        raise InvalidFileError(path, "content", "the receipts that the last erasure left", None)
    gone: set[str] = set()
    try:
        for one in json.loads(text or "[]"):
            if "returned" in one:
                gone -= {*one["returned"]}
            else:
                gone |= {*one["erased"]}
    except (ValueError, TypeError, LookupError) as error:
        raise InvalidFileError(path, "content", "receipts of erasures", None) from error
    return gone


def _add(root: Path, secrets: Path, record: dict[str, Any]) -> None:
    """Replace the receipts, and the digest of those that are valid."""
    path, digests = root / "private" / RECEIPTS, secrets / _DIGESTS
    before = _text(path)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    after = json.dumps([*json.loads(before or "[]"), {"at": at, **record}], indent=1) + "\n"
    _replace(digests, f"{_digest(before)}\n{_digest(after)}\n")  # valid whenever a crash comes
    _replace(path, after)
    _replace(digests, f"{_digest(after)}\n")


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _replace(path: Path, text: str) -> None:
    """Write a file in one step, durably, readable by its owner alone."""
    new = path.with_suffix(".new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # a confirmed erasure is still enforced after a power failure
    finally:
        os.close(folder)
