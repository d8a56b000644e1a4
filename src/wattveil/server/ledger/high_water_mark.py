"""High-water mark: a file beside the database that records how far the ledger had come.

A database that is restored from an old backup lacks charges: their budget could be spent a second
time. One that lacks releases alone would draw noise for their charges a second time. So
after every commit the heads of the journals and their numbers of releases are written to this file,
which is no part of the database or its backups, and a ledger that has fallen behind it does not
start.

The file is not forced to disk each time. A power failure may remove its last lines; it never states
more than was durable.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from sqlalchemy import Connection, func, select

from wattveil.errors import LedgerBehindError
from wattveil.server.ledger.journal import Head
from wattveil.server.ledger.ledger_tables import entry, journal, release

FILE = "ledger.heads"

_LINE = re.compile(r"^([0-9]+) ([0-9]+) ([0-9a-f]{64})$", re.MULTILINE)
_STORED = re.compile(r"^([0-9]+) stored ([0-9]+)$", re.MULTILINE)


class HighWaterMark:
    """Durable heads and numbers of releases, on disk and in memory."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        # A line that was cut short, by a crash or a full disk, is ignored.
        text = self.path.read_text() if self.path.exists() else ""
        self.heads = {int(key): Head(int(seq), sha) for key, seq, sha in _LINE.findall(text)}
        self.stored = {int(key): int(count) for key, count in _STORED.findall(text)}

    def behind(self, connection: Connection) -> dict[int, LedgerBehindError]:
        """Return the journals that lack recorded entries or releases."""
        lost = {}
        rows = connection.execute(select(journal.c.id, journal.c.head_seq))
        journals = {int(journal_id): int(head_seq) for journal_id, head_seq in rows}
        for journal_id, seen in self.heads.items():
            place = (entry.c.journal_id == journal_id, entry.c.seq == seen.seq)
            found = connection.execute(select(entry.c.row_sha256).where(*place)).scalar()
            if found != seen.sha256:
                lost[journal_id] = LedgerBehindError(
                    journal_id, seen.seq, journals.get(journal_id, 0)
                )
        stored = count_stored(connection)
        for journal_id, count in self.stored.items():
            if (found := stored.get(journal_id, 0)) < count and journal_id not in lost:
                lost[journal_id] = LedgerBehindError(journal_id, count, found, what="releases")
        for journal_id, entries in journals.items():
            if not self.heads:  # the file is new, the database is not
                lost[journal_id] = LedgerBehindError(journal_id, 0, entries)
        return lost

    def record(self, heads: Mapping[int, Head], stored: Mapping[int, int]) -> None:
        """Record durable heads, and the number of further releases."""
        changed = {key: head for key, head in heads.items() if self.heads.get(key) != head}
        counts = {key: self.stored.get(key, 0) + more for key, more in stored.items()}
        if changed or counts:
            with _open_for_owner(self.path, os.O_APPEND) as file:
                file.write(_lines(changed, counts))
            self.heads.update(changed)
            self.stored.update(counts)

    def close(self) -> None:
        """Write the last state of each journal, forced to disk."""
        short = self.path.with_suffix(".new")
        with _open_for_owner(short, os.O_TRUNC) as file:
            file.write(_lines(self.heads, self.stored))
            file.flush()
            os.fsync(file.fileno())
        short.replace(self.path)


def count_stored(connection: Connection) -> dict[int, int]:
    """Return how many releases each journal has."""
    rows = select(release.c.journal_id, func.count()).group_by(release.c.journal_id)
    return {int(journal_id): int(count) for journal_id, count in connection.execute(rows)}


def _open_for_owner(path: Path, how: int) -> TextIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600), "w")


def _lines(heads: Mapping[int, Head], stored: Mapping[int, int]) -> str:
    """Begin on a new line: the last one may have been cut short."""
    last = [f"\n{key} {head.seq} {head.sha256}\n" for key, head in heads.items()]
    return "".join([*last, *(f"\n{key} stored {count}\n" for key, count in stored.items())])
