"""Entries of a book, appended under its lock."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from wattveil.errors import LedgerBehindError
from wattveil.serve.ledger.amounts import MEASURES, Amounts
from wattveil.serve.ledger.chain import SEALED, Head, seal
from wattveil.serve.ledger.tables import book, entry


class Kind(StrEnum):
    """What an entry says."""

    OPEN = "open"
    """A data set was registered."""
    CAP = "cap"
    """An account has this cap from now on; the first one opens it."""
    CLOSE = "close"
    """A data set takes no further charge."""
    CHARGE = "charge"
    """Somebody may have a release, and paid for it."""
    LOST = "lost"
    """Entries may have been lost: what was left is counted as spent."""


@dataclass(frozen=True)
class Session:
    """One transaction that writes."""

    connection: Connection
    seen: Mapping[int, Head] = field(default_factory=dict)
    """The heads that were durable before: no book may have fewer entries."""
    heads: dict[int, Head] = field(default_factory=dict)
    """The books that are locked here, and their heads by now."""
    found: dict[int, Head] = field(default_factory=dict)
    """Their heads when they were locked."""
    stored: Counter[int] = field(default_factory=Counter)
    """How many releases were stored here, by book."""

    def lock(self, book_id: int) -> Head:
        """Lock a book until the transaction ends, and return its head.

        Everything about a book is decided after this, in statements of their own: under READ
        COMMITTED they see what the holder before has committed.
        """
        if book_id not in self.heads:
            head = Head(*self.connection.execute(_LOCK, {"number": book_id}).one())
            seen = self.seen.get(book_id, head)
            if head.seq < seen.seq or (head.seq == seen.seq and head != seen):
                raise LedgerBehindError(book_id, seen.seq, head.seq)
            self.heads[book_id] = self.found[book_id] = head
        return self.heads[book_id]

    def entry(
        self,
        book_id: int,
        kind: Kind,
        *,
        principal_id: int,
        amounts: Amounts = Amounts(),  # noqa: B008 - it is frozen
        detail: str = "{}",
        **fields: int | str | None,
    ) -> dict[str, Any]:
        """Make the next entry of a locked book; `write` it, by itself or with others."""
        head = self.heads[book_id]
        values: dict[str, Any] = {
            **_EMPTY,
            "book_id": book_id,
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
        self.heads[book_id] = Head(head.seq + 1, values["row_sha256"])
        return values

    def write(self, entries: list[dict[str, Any]]) -> None:
        """Write entries, in their order."""
        self.connection.execute(_APPEND, entries)

    def append(self, book_id: int, kind: Kind, **fields: Any) -> None:  # noqa: ANN401 - of `entry`
        """Lock a book, and make and write its next entry."""
        self.lock(book_id)
        self.write([self.entry(book_id, kind, **fields)])

    def write_heads(self) -> None:
        """Write the new heads; the last thing before the commit."""
        for book_id, head in self.heads.items():
            if head != self.found[book_id]:
                values = {"number": book_id, "seq": head.seq, "sha256": head.sha256}
                self.connection.execute(_WRITE_HEAD, values)


def now() -> str:
    """Return the time; for people, never for an order: that is what `seq` is for."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


_LOCK = (
    select(book.c.head_seq, book.c.head_sha256)
    .where(book.c.id == bindparam("number"))
    .with_for_update()
)
_APPEND = insert(entry)
_WRITE_HEAD = (
    update(book)
    .where(book.c.id == bindparam("number"))
    .values(head_seq=bindparam("seq"), head_sha256=bindparam("sha256"))
)
_EMPTY: dict[str, Any] = dict.fromkeys(SEALED)
