"""Erasure from a series: what was found, a dated private receipt, and erased ids that return.

Receipts are in the private folder of the series and end with it. They hold keyed hashes, no ids.
What is returned here is private: it tells who is a customer.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wattveil.bundle.published_series import LoadSeries
from wattveil.engines.series_folder import SeriesFolder
from wattveil.engines.series_rows import customer_names
from wattveil.errors import InvalidFileError

RECEIPTS = "erasures.json"
"""Receipts of all erasures, in the private folder."""


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """How many of the listed ids were erased now, erased earlier, or never in the series."""

    erased: int
    already_erased: int
    not_found: int
    receipt: Path


def erase_customers(series: LoadSeries, customer_ids: Iterable[str]) -> Erasure:
    """Erase customers, count what was found, and write a receipt.

    An id is *already erased* if an earlier receipt names it and nothing of it came back since.
    """
    listed = [*dict.fromkeys(one.strip() for one in customer_ids)]
    with SeriesFolder.open(series.folder, series.secrets) as folder:
        names = {str(one, "ascii") for one in customer_names(listed, key=folder.key.names)}
        known: set[str] = set()
        held: set[str] = set()
        for kind in folder.head.files:
            for block in folder.state(kind):
                known |= names & {str(one, "ascii") for one in block.names}
                held |= names & {str(one, "ascii") for one in block.names[block.owners]}
    earlier = names & _erased(series)
    already = earlier - held
    erased = known - already
    series.erase(listed)
    record = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "erased": sorted(erased),
        "already_erased": len(already),
        "not_found": len(names - known - already),
    }
    _write(series, [*_receipts(series), record])
    return Erasure(
        erased=len(erased),
        already_erased=len(already),
        not_found=len(names - known - already),
        receipt=_path(series),
    )


def erased_among(series: LoadSeries, customer_ids: Iterable[str]) -> int:
    """Return how many of these ids were erased from the series at some time."""
    if not (gone := _erased(series)):
        return 0
    with SeriesFolder.open(series.folder, series.secrets) as folder:
        names = customer_names(customer_ids, key=folder.key.names)
    return len(gone & {str(one, "ascii") for one in names})


def _erased(series: LoadSeries) -> set[str]:
    return {name for one in _receipts(series) for name in one["erased"]}


def _receipts(series: LoadSeries) -> list[dict[str, Any]]:
    path = _path(series)
    if not path.exists():
        return []
    try:
        found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
        for one in found:
            one["erased"]
    except (ValueError, TypeError, LookupError) as error:
        raise InvalidFileError(path, "content", "receipts of erasures", None) from error
    return found


def _path(series: LoadSeries) -> Path:
    return series.folder / "private" / RECEIPTS


def _write(series: LoadSeries, receipts: list[dict[str, Any]]) -> None:
    """Replace the file in one step, readable by its owner alone."""
    path = _path(series)
    new = path.with_suffix(".new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(json.dumps(receipts, indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
