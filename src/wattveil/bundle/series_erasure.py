"""Receipts of erasures from a series, by which erased customers are kept out of later periods.

The file is in the private folder of the series and ends with it. It has dated records of customers
who were erased, and of those of whom the data holder states that they returned: keyed hashes, no
ids. What is returned here is private: it tells who is a customer.
"""

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from wattveil.engines.series_folder import SeriesFolder
from wattveil.errors import InvalidFileError
from wattveil.privacy.mechanisms.period_sums import Names

RECEIPTS = "erasures.json"
"""Name of the file, in the private folder."""


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """How many of the listed ids were erased now, erased earlier, or never in the series."""

    erased: int
    already_erased: int
    not_found: int
    receipt: Path


def erasure_record(folder: SeriesFolder, listed: Names) -> dict[str, Any]:
    """Return the receipt of an erasure that is about to be made.

    An id is *already erased* if an earlier receipt names it and nothing of it came back since.
    """
    names = _texts(listed)
    known: set[str] = set()
    held: set[str] = set()
    for kind in folder.head.files:
        for block in folder.state(kind):
            known |= names & _texts(block.names)
            held |= names & _texts(block.names[block.owners])
    already = (names & _erased(folder.root)) - held
    return {
        "erased": sorted(known - already),
        "already_erased": len(already),
        "not_found": len(names - known - already),
    }


def write_receipt(folder: SeriesFolder, record: dict[str, Any]) -> Erasure:
    """Add the receipt of an erasure that was made; return its counts."""
    _add(folder.root, record)
    return Erasure(**{**record, "erased": len(record["erased"])}, receipt=_path(folder.root))


def note_return(folder: SeriesFolder, listed: Names) -> None:
    """Record which of these customers were erased and are stated to have returned."""
    if back := _texts(listed) & _erased(folder.root):
        _add(folder.root, {"returned": sorted(back)})


def still_erased(root: Path) -> Names:
    """Return the hashes of erased customers who have not returned."""
    return np.array(sorted(_erased(root)), dtype="S32")


def _texts(names: Names) -> set[str]:
    return {str(one, "ascii") for one in names}


def _erased(root: Path) -> set[str]:
    """Return the hashes of customers who were erased and did not return."""
    gone: set[str] = set()
    for one in _records(root):
        gone = (gone | {*one.get("erased", ())}) - {*one.get("returned", ())}
    return gone


def _path(root: Path) -> Path:
    return root / "private" / RECEIPTS


def _records(root: Path) -> list[dict[str, Any]]:
    path = _path(root)
    if not path.exists():
        return []
    try:
        found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
        for one in found:
            one["returned" if "returned" in one else "erased"]
    except (ValueError, TypeError, LookupError) as error:
        raise InvalidFileError(path, "content", "receipts of erasures", None) from error
    return found


def _add(root: Path, record: dict[str, Any]) -> None:
    """Replace the file in one step, durably, readable by its owner alone."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    records = [*_records(root), {"at": at, **record}]
    path = _path(root)
    new = path.with_suffix(".new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(json.dumps(records, indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # a confirmed erasure is still enforced after a power failure
    finally:
        os.close(folder)
