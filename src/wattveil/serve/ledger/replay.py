"""What the entries of a ledger add up to, taken in order; nothing kept for speed is believed.

There may be millions, so plain ones are taken a page at a time: charges of one book whose chain is
whole and whose sums fit. No amount is negative there, so sums only grow, and what fits after the
page fitted after each of its entries. Every other page is taken entry by entry.
"""

import gc
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from wattveil.publish.findings import Finding, gathered
from wattveil.serve.ledger.amounts import MEASURES
from wattveil.serve.ledger.chain import SEALED, START, Head, seals
from wattveil.serve.ledger.journal import Kind

COLUMNS = (*SEALED, "row_sha256")
"""Of an entry, in the order in which a row holds them."""

Row = tuple[Any, ...]

_BOOK, _SEQ, _KIND, _PRINCIPAL, _ACCOUNT, _OWN, _SOURCE, _PREVIOUS, _SHA256 = map(
    COLUMNS.index,
    (
        *("book_id", "seq", "kind", "principal_id", "account_id", "own_account_id"),
        *("source_seq", "prev_sha256", "row_sha256"),
    ),
)
_AMOUNTS = slice(COLUMNS.index(MEASURES[0]), COLUMNS.index(MEASURES[-1]) + 1)
_BEGINNING = Head(0, START)
_NOTHING = (0, 0, 0, 0)
_PAGE = 1000


class Payers(NamedTuple):
    """Whose charge it is and who pays for it, by number."""

    book_id: int
    principal_id: int
    account_id: int | None
    own_account_id: int | None


@dataclass
class Replay:
    """What the entries add up to."""

    entries: int = 0
    heads: dict[int, Head] = field(default_factory=dict)
    caps: dict[int, tuple[int, ...]] = field(default_factory=dict)
    spent: dict[int, tuple[int, ...]] = field(default_factory=dict)
    payers: dict[Payers, int] = field(default_factory=dict)
    """All that pay for charges, and the first entry of each."""
    resting: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By book, the charges that rest on an earlier one: it was paid for, or it answers them."""
    broken_chain: list[str] = field(default_factory=list)
    overspent: list[str] = field(default_factory=list)
    uncharged: list[str] = field(default_factory=list)

    def add(self, rows: list[Row]) -> None:
        """Take the next entries."""
        self.entries += len(rows)
        sealed = seals(rows)
        if not self._take_plain(rows, sealed):
            for row, sha256 in zip(rows, sealed, strict=True):
                self._take(row, sha256)
        for row in rows:
            if (row[_OWN] is None or row[_SOURCE] is not None) and row[_KIND] == Kind.CHARGE:
                self.resting[row[_BOOK]].append(row[_SEQ])

    def _take_plain(self, rows: list[Row], sealed: list[str]) -> bool:
        """Take a page at once if nothing about it is to be said; whether that was so."""
        columns = list(zip(*rows, strict=True))
        book_id = columns[_BOOK][0]
        last = self.heads.get(book_id, _BEGINNING)
        whole = (
            set(columns[_BOOK]) == {book_id}
            and set(columns[_KIND]) == {Kind.CHARGE.value}
            and columns[_SEQ] == tuple(range(last.seq + 1, last.seq + 1 + len(rows)))
            and columns[_PREVIOUS] == (last.sha256, *columns[_SHA256][:-1])
            and columns[_SHA256] == tuple(sealed)
            and min(map(min, columns[_AMOUNTS])) >= 0
        )
        if not whole or (None, None) in zip(columns[_ACCOUNT], columns[_SOURCE], strict=True):
            return False
        groups: dict[tuple[int, int | None, int | None], list[Row]] = defaultdict(list)
        for row in rows:
            groups[row[_PRINCIPAL], row[_ACCOUNT], row[_OWN]].append(row)
        spent = dict(self.spent)
        for (_, *paying), members in groups.items():
            amounts = tuple(map(sum, zip(*(row[_AMOUNTS] for row in members), strict=True)))
            for account_id in paying:
                if account_id is not None:
                    spent[account_id] = _sum(spent.get(account_id, _NOTHING), amounts)
                    if not _fits(spent[account_id], self.caps.get(account_id, _NOTHING)):
                        return False
        for payers, members in groups.items():
            self.payers.setdefault(Payers(book_id, *payers), members[0][_SEQ])
        self.spent, self.heads[book_id] = spent, Head(rows[-1][_SEQ], sealed[-1])
        return True

    def _take(self, row: Row, sha256: str) -> None:
        """Take an entry by itself, and write down what is wrong with it."""
        book_id, seq, kind, amounts = row[_BOOK], row[_SEQ], row[_KIND], row[_AMOUNTS]
        place = f"book {book_id}, entry {seq}"
        last = self.heads.get(book_id, _BEGINNING)
        if (seq, row[_PREVIOUS]) != (last.seq + 1, last.sha256) or sha256 != row[_SHA256]:
            self.broken_chain.append(place)
        self.heads[book_id] = Head(seq, row[_SHA256])
        if kind == Kind.CAP:
            self.caps[row[_ACCOUNT]] = amounts
            amounts = _NOTHING
        elif kind == Kind.CHARGE:
            payers = Payers(book_id, row[_PRINCIPAL], row[_ACCOUNT], row[_OWN])
            self.payers.setdefault(payers, seq)
            if row[_ACCOUNT] is None and row[_SOURCE] is None:
                self.uncharged.append(place)
        for account_id in (row[_ACCOUNT], row[_OWN]):
            if account_id is not None:
                after = _sum(self.spent.get(account_id, _NOTHING), amounts)
                self.spent[account_id] = after
                if not _fits(after, self.caps.get(account_id, _NOTHING)):
                    self.overspent.append(f"account {account_id} at {place}")

    def findings(self) -> Iterator[Finding]:
        """Say what the entries prove by themselves."""
        yield gathered(
            "the chain of every book is whole",
            self.broken_chain,
            f"{self.entries:,} entries in {len(self.heads)} books",
        )
        yield gathered(
            "no account was ever above its cap", self.overspent, f"{len(self.caps)} accounts"
        )
        yield gathered("every draw was paid for", self.uncharged, "each by the data set's account")


def replay(rows: Iterable[Row]) -> Replay:
    """Replay entries, book by book and in order."""
    found, coming = Replay(), iter(rows)
    collecting = gc.isenabled()
    gc.disable()  # to look for cycles among a million rows takes a tenth of the time
    try:
        while page := list(islice(coming, _PAGE)):
            found.add(page)
    finally:
        if collecting:
            gc.enable()
    return found


def _sum(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(int.__add__, one, other))


def _fits(amounts: tuple[int, ...], caps: tuple[int, ...]) -> bool:
    return all(map(int.__le__, amounts, caps))
