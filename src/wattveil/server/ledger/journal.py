"""Journals: chains of entries, appended under a lock, each sealed by the hash of the one before.

A journal belongs to one group of people. Its sums at the time of a charge are computed from its
entries, never from the accounts: those move on, and a manifest must still agree with the ledger
when it is read years later.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, insert, select, update

from wattveil.errors import LedgerBehindError
from wattveil.server.ledger.amounts import MEASURES, Amounts
from wattveil.server.ledger.ledger_tables import entry, journal

START = "0" * 64
"""Previous hash of the first entry of a journal."""

SEALED = tuple(column.name for column in entry.columns if column.name != "row_sha256")
"""Columns covered by the hash of an entry: all, and the hash of the entry before."""


class Head(NamedTuple):
    """The last entry of a journal."""

    seq: int
    sha256: str


def seal(values: tuple[object, ...]) -> str:
    """Return the hash of an entry, from its values in the order of `SEALED`.

    No value contains a line break: they are numbers, hashes, checked names and keys, and JSON. So
    lines separate them. A missing value is written None, which is no number; and a key is missing
    in exactly those kinds of entries that never have one.
    """
    return hashlib.sha256((_LINES % values).encode()).hexdigest()


def seals(rows: list[tuple[object, ...]]) -> list[str]:
    """Return the hashes of many entries; the last value of a row, its stored hash, is left out."""
    return [hashlib.sha256((_LINES_OF_ROW % row).encode()).hexdigest() for row in rows]


_LINES = "\n".join(["%s"] * len(SEALED))
_LINES_OF_ROW = f"{_LINES}%.0s"  # without the last value


class EntryKind(StrEnum):
    """Kind of an entry."""

    OPEN = "open"
    """A data set was registered."""
    CAP = "cap"
    """The cap of an account was set; the first one opens it."""
    CLOSE = "close"
    """A data set was closed."""
    CHARGE = "charge"
    """A release was charged."""
    SERIES = "series"
    """The whole budget of a series of periods was charged."""
    PERIOD = "period"
    """A period of a series is released, from the budget of its series."""
    END = "end"
    """A series was closed: it has no further period."""
    LOST = "lost"
    """Entries may have been lost: the remaining amounts count as spent."""


@dataclass(frozen=True)
class LedgerTransaction:
    """Write transaction."""

    connection: Connection
    seen: Mapping[int, Head] = field(default_factory=dict)
    """Heads that were durable before: no journal may have fewer entries."""
    seen_stored: Mapping[int, int] = field(default_factory=dict)
    """Numbers of releases that were durable before: no journal may have fewer."""
    known_datasets: Mapping[str, str] = field(default_factory=dict)
    """Names by fingerprint of data sets whose registration was durable before."""
    heads: dict[int, Head] = field(default_factory=dict)
    """Current heads of the journals that are locked."""
    found: dict[int, Head] = field(default_factory=dict)
    """Their heads when they were locked."""
    stored: Counter[int] = field(default_factory=Counter)
    """Number of all releases of the journals that are locked, this transaction included."""
    registered: dict[str, str] = field(default_factory=dict)
    """Names of the data sets registered in this transaction, by fingerprint."""

    def lock(self, journal_id: int) -> Head:
        """Lock a journal until the transaction ends, and return its head.

        Everything about a journal is decided after this, in statements of their own: under READ
        COMMITTED they see what the previous holder of the lock has committed. A journal that lacks
        durable entries is refused, and so is one that lacks releases: storing one adds no entry, so
        that its head agrees all the same. Whatever is written would hide the loss.
        """
        if journal_id not in self.heads:
            *found, stored = self.connection.execute(_LOCK, {"number": journal_id}).one()
            head = Head(*found)
            seen = self.seen.get(journal_id, head)
            if head.seq < seen.seq or (head.seq == seen.seq and head != seen):
                raise LedgerBehindError(journal_id, seen.seq, head.seq)
            if stored < (due := self.seen_stored.get(journal_id, 0)):
                raise LedgerBehindError(journal_id, due, stored, what="releases")
            self.heads[journal_id] = self.found[journal_id] = head
            self.stored[journal_id] = stored
        return self.heads[journal_id]

    def entry(
        self,
        journal_id: int,
        kind: EntryKind,
        *,
        principal_id: int,
        amounts: Amounts = Amounts(),  # noqa: B008 - it is frozen
        detail: str = "{}",
        **fields: int | str | None,
    ) -> dict[str, Any]:
        """Make the next entry of a locked journal; `write` it, by itself or with others."""
        head = self.heads[journal_id]
        values: dict[str, Any] = {
            **_EMPTY,
            "journal_id": journal_id,
            "seq": head.seq + 1,
            "at": now(),
            "kind": kind.value,
            "principal_id": principal_id,
            **dict(zip(MEASURES, amounts.values, strict=True)),
            "detail": detail,
            "prev_sha256": head.sha256,
            **fields,
        }
        values["row_sha256"] = seal(tuple([values[name] for name in SEALED]))
        self.heads[journal_id] = Head(head.seq + 1, values["row_sha256"])
        return values

    def write(self, entries: list[dict[str, Any]]) -> None:
        """Write entries, in their order."""
        self.connection.execute(_APPEND, entries)

    def append(self, journal_id: int, kind: EntryKind, **fields: Any) -> None:  # noqa: ANN401 - of `entry`
        """Lock a journal, and make and write its next entry."""
        self.lock(journal_id)
        self.write([self.entry(journal_id, kind, **fields)])

    def write_heads(self) -> None:
        """Write the new heads; the last thing before the commit."""
        for journal_id, head in self.heads.items():
            if head != self.found[journal_id]:
                values = {"number": journal_id, "seq": head.seq, "sha256": head.sha256}
                self.connection.execute(_WRITE_HEAD, values)


def now() -> str:
    """Return the time, for people; order is defined by `seq`."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


_LOCK = (
    select(journal.c.head_seq, journal.c.head_sha256, journal.c.stored)
    .where(journal.c.id == bindparam("number"))
    .with_for_update()
)
_APPEND = insert(entry)
_WRITE_HEAD = (
    update(journal)
    .where(journal.c.id == bindparam("number"))
    .values(head_seq=bindparam("seq"), head_sha256=bindparam("sha256"))
)
_EMPTY: dict[str, Any] = dict.fromkeys(SEALED)
