"""High-water mark: a file beside the database that records how far the ledger had come.

A database that is restored from an old backup lacks charges: their budget could be spent a second
time. One that lacks releases alone would draw noise for their charges a second time. One that lacks
the registration of a data set would accept it as new, with a whole budget. So after every commit
the heads of the journals, their numbers of releases, and the fingerprints and names of all data
sets, and of periods of series, are written to this file, which is no part of the database or its
backups, and a ledger that has fallen behind it does not start. Fingerprints are never removed:
after a second restore of the same backup they are still known. Nor is the number of erasures from
each series, without which a restored private state would admit customers who were erased since.

The file is forced to disk each time, after the database: it never states more than was durable, and
a charge is confirmed, and a release is sent, when both have it (`has_release`): one that only the
database had could be lost with it, and be drawn again. What could not be written is due, and is
written as soon as that is possible. Several processes of a server append to it, one at a time,
and each reads what the others have appended before it changes a journal: a database that was
replaced by an older one is refused by all (`LedgerTransaction.lock`). The number of releases of a
journal is compared as well: storing one adds no entry, so the heads would not show that one is
lost. The file is shortened when the last process ends.
"""

import fcntl
import os
import re
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TextIO

from sqlalchemy import Connection, and_, func, select

from wattveil.errors import HighWaterMarkMissingError, LedgerBehindError, LedgerUnavailableError
from wattveil.server.ledger.journal import Head
from wattveil.server.ledger.ledger_tables import (
    OF_PERIOD,
    dataset,
    entry,
    journal,
    lost_dataset,
    release,
)

FILE = "ledger.heads"

_START_BYTES = 40
"""Of the first line of a file that was shortened, which no other file has."""
_LOCK_SECONDS = 5.0
"""Time for others to release the file: they hold it while they write a few lines."""
_READER_SECONDS = 0.1
_LOCK_PAUSE_SECONDS = 0.002
_LINE = re.compile(r"^([0-9]+) ([0-9]+) ([0-9a-f]{64})$", re.MULTILINE)
_REGISTERED = re.compile(r"^dataset ([!-~]{1,128}) (\S{1,63})$", re.MULTILINE)
_STORED = re.compile(r"^([0-9]+) stored ([0-9]+)$", re.MULTILINE)
_ERASURES = re.compile(r"^series ([0-9a-f]{32}) erasures ([0-9]+)$", re.MULTILINE)


class HighWaterMark:
    """Durable heads and numbers of releases, on disk and in memory."""

    def __init__(self, folder: Path, *, name: str = FILE) -> None:
        self.path = folder / name
        self.heads: dict[int, Head] = {}
        self.stored: dict[int, int] = {}
        self.datasets: dict[str, str] = {}
        self._erasures: dict[str, int] = {}
        self._due_heads: dict[int, Head] = {}
        self._due_stored: dict[int, int] = {}
        self._due_datasets: dict[str, str] = {}
        self._read_bytes = 0
        self._start = b""
        self._turn = threading.RLock()
        self.refresh()

    def refresh(self) -> None:
        """Read what was appended since the last time, by this process and by others.

        Lines that another process has written and not yet forced to disk are waited for.
        """
        with self._turn:
            self._read(fcntl.LOCK_SH)

    def _read(self, lock: int, wait_seconds: float | None = None) -> None:
        try:
            with self.path.open("rb") as file:
                _lock(file, lock, wait_seconds)  # released at its end
                if self._start != (start := file.read(_START_BYTES)):
                    self._start, self._read_bytes = start, 0  # another file: all of it is new
                file.seek(self._read_bytes)
                content = file.read()
        except FileNotFoundError:
            return  # of a new server
        # A line that was cut short, by a crash or a full disk, is ignored. One that is just being
        # written is read again the next time.
        self._read_bytes += content.rfind(b"\n") + 1
        text = content.decode("utf-8", "replace")
        for key, seq, sha in _LINE.findall(text):
            if int(seq) >= self.heads.get(int(key), Head(0, "")).seq:
                self.heads[int(key)] = Head(int(seq), sha)
        for key, count in _STORED.findall(text):
            self.stored[int(key)] = max(int(count), self.stored.get(int(key), 0))
        self.datasets.update(_REGISTERED.findall(text))
        for series, count in _ERASURES.findall(text):
            self._erasures[series] = max(int(count), self._erasures.get(series, 0))

    def behind(self, connection: Connection) -> dict[int, LedgerBehindError]:
        """Return the journals that lack recorded entries or releases; 0: data sets are lost."""
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
            if self.is_new:  # and the database is not
                lost[journal_id] = HighWaterMarkMissingError(journal_id, entries)
        datasets = [one for one in self.datasets if not one.startswith(OF_PERIOD)]
        if missing := len(self.lost_datasets(connection).keys() & datasets):
            known = len(datasets)
            lost[0] = LedgerBehindError(None, known, known - missing, what="data sets")
        return lost

    def has_release(self, journal_id: int, number: int) -> bool:
        """Whether the release of this number of a journal is recorded: only then it may be sent."""
        if self.stored.get(journal_id, 0) < number:
            # As long as it cannot be read, nothing more is known. Many readers wait one after the
            # other, and the writer behind them: each one for a moment.
            with suppress(OSError), self._turn:
                self._read(fcntl.LOCK_SH, _READER_SECONDS)
        return self.stored.get(journal_id, 0) >= number

    def check_releases(self, counts: Mapping[int, int], *, grace_seconds: float) -> None:
        """Raise an error if releases up to these numbers are missing for longer than a time."""
        for seconds in (grace_seconds, 0.0):
            if all(self.has_release(*one) for one in counts.items()):
                return
            time.sleep(seconds)  # it may just be written
        raise LedgerUnavailableError("the high-water mark cannot be written")

    @property
    def is_due(self) -> bool:
        """Whether something durable could not be written yet."""
        return bool(self._due_heads or self._due_stored or self._due_datasets)

    def check_writable(self) -> None:
        """Raise an error of the operating system unless the file can be opened and locked."""
        if self.path.exists() or not self.is_new:
            with self.path.open("r+b") as file:
                _lock(file, fcntl.LOCK_EX)

    @property
    def is_new(self) -> bool:
        """Whether the file has recorded nothing: what the database has lost is unknown."""
        return not self.heads

    def lost_datasets(self, connection: Connection) -> dict[str, str]:
        """Return names by fingerprint of data sets whose registration the database lacks.

        Periods that it lacks are among them, with the name of their data set.
        """
        known = {
            *_periods(connection),
            *connection.execute(select(dataset.c.fingerprint)).scalars(),
            *connection.execute(select(lost_dataset.c.fingerprint)).scalars(),
        }
        return {sha: name for sha, name in self.datasets.items() if sha not in known}

    def catch_up(self, connection: Connection) -> None:
        """Record the state of a database that is not behind: a crash may have kept it out.

        Releases too: one that was stored and is not recorded could be drawn again after a restore.
        """
        rows = connection.execute(select(journal.c.id, journal.c.head_seq, journal.c.head_sha256))
        heads = {int(journal_id): Head(int(seq), sha) for journal_id, seq, sha in rows}
        registered = {
            str(sha): str(name)
            for table in (dataset, lost_dataset)
            for sha, name in connection.execute(select(table.c.fingerprint, table.c.name))
        }
        self.record(heads, count_stored(connection), {**_periods(connection), **registered})

    def record(
        self, heads: Mapping[int, Head], stored: Mapping[int, int], registered: Mapping[str, str]
    ) -> None:
        """Record durable heads, numbers of releases, and data sets.

        A number is that of all releases of a journal. After an error all of it is due, and is
        written by the next call.
        """
        with self._turn:
            none = Head(0, "")
            for key, head in heads.items():
                if head.seq >= self._due_heads.get(key, none).seq:
                    self._due_heads[key] = head
            for key, count in stored.items():
                self._due_stored[key] = max(count, self._due_stored.get(key, 0))
            self._due_datasets.update(registered)
            # Another process may have recorded more meanwhile.
            changed = {
                key: head
                for key, head in self._due_heads.items()
                if head.seq >= (known := self.heads.get(key, none)).seq and head != known
            }
            counts = {
                key: count
                for key, count in self._due_stored.items()
                if count > self.stored.get(key, 0)
            }
            added = {
                sha: name for sha, name in self._due_datasets.items() if sha not in self.datasets
            }
            if changed or counts or added:
                _append(self.path, _lines(changed, counts, added))
                self.heads.update(changed)
                self.stored.update(counts)
                self.datasets.update(added)
            for due in (self._due_heads, self._due_stored, self._due_datasets):
                due.clear()

    def erasures_of(self, series: str) -> int:
        """Return how many erasures from a series were recorded, by any process."""
        self.refresh()
        return self._erasures.get(series, 0)

    def record_erasures(self, series: str, count: int) -> None:
        """Record how many erasures there were from a series, before the last one is confirmed."""
        with self._turn:
            if count > self._erasures.get(series, 0):
                _append(self.path, f"\nseries {series} erasures {count}\n")
                self._erasures[series] = count

    def close(self) -> None:
        """Write the last state of each journal, forced to disk."""
        with self._turn, _locked(self.path):
            self._read(fcntl.LOCK_UN)  # it is locked above
            short = self.path.with_suffix(".new")
            with _open_for_owner(short, os.O_TRUNC) as file:
                # Processes that read the long file find a start that they do not know.
                file.write(f"\nshortened {uuid.uuid4().hex}\n")
                file.write(_lines(self.heads, self.stored, self.datasets))
                counted = self._erasures.items()
                file.writelines(f"\nseries {one} erasures {count}\n" for one, count in counted)
                file.flush()
                os.fsync(file.fileno())
            short.replace(self.path)
            _force_to_disk(self.path.parent)


def _periods(connection: Connection) -> dict[str, str]:
    """Return names of data sets by the fingerprints of the periods of their series."""
    of_entry = and_(release.c.journal_id == entry.c.journal_id, release.c.seq == entry.c.seq)
    rows = (
        select(release.c.fingerprint, dataset.c.name)
        .select_from(
            release.join(entry, of_entry).join(dataset, dataset.c.id == entry.c.dataset_id)
        )
        .where(release.c.fingerprint.is_not(None))
    )
    return {f"{OF_PERIOD}{sha}": str(name) for sha, name in connection.execute(rows)}


def count_stored(connection: Connection) -> dict[int, int]:
    """Return how many releases each journal has."""
    rows = select(release.c.journal_id, func.count()).group_by(release.c.journal_id)
    return {int(journal_id): int(count) for journal_id, count in connection.execute(rows)}


def stated_counts(connection: Connection) -> dict[int, int]:
    """Return how many releases each journal states; triggers keep the numbers."""
    rows = select(journal.c.id, journal.c.stored)
    return {int(journal_id): int(count) for journal_id, count in connection.execute(rows)}


def _append(path: Path, lines: str) -> None:
    """Append lines, forced to disk before the charge is confirmed; after an error, none of them."""
    with _locked(path) as file:
        before, left = os.fstat(file.fileno()).st_size, lines.encode()
        try:
            while left:  # not through its buffer, which would be written again when it is closed
                left = left[os.write(file.fileno(), left) :]
            os.fsync(file.fileno())
            if before == 0:  # the file may be new
                _force_to_disk(path.parent)
        except OSError:
            with suppress(OSError):  # others would take what was written for durable
                os.ftruncate(file.fileno(), before)
            raise


@contextmanager
def _locked(path: Path) -> Iterator[TextIO]:
    """Open the file for appending, alone; one that was replaced meanwhile is opened again."""
    while True:
        with _open_for_owner(path, os.O_APPEND) as file:
            _lock(file, fcntl.LOCK_EX)  # released at its end
            if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
                yield file
                return


def _lock(file: IO[Any], how: int, wait_seconds: float | None = None) -> None:
    """Lock the file; raise EAGAIN if another process, such as one that is stopped, holds it."""
    until = time.monotonic() + (_LOCK_SECONDS if wait_seconds is None else wait_seconds)
    while True:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(_LOCK_PAUSE_SECONDS)
        else:
            return


def _force_to_disk(folder: Path) -> None:
    """Force the entries of a folder to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _open_for_owner(path: Path, how: int) -> TextIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600), "w")


def _lines(
    heads: Mapping[int, Head], stored: Mapping[int, int], datasets: Mapping[str, str]
) -> str:
    """Begin on a new line: the last one may have been cut short."""
    lines = [
        *(f"dataset {sha} {name}" for sha, name in datasets.items()),
        *(f"{key} {head.seq} {head.sha256}" for key, head in heads.items()),
        *(f"{key} stored {count}" for key, count in stored.items()),
    ]
    return "".join(f"\n{line}\n" for line in lines)
