"""Check all of a ledger anew: the chain, every sum, every cap at its time, every release.

Nothing that is kept for speed is believed: totals and caps are replayed from the entries.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, and_, exists, func, or_, select, text

from wattveil.errors import InvalidFileError
from wattveil.publish.findings import Finding, gathered
from wattveil.serve.ledger.accounts import CAPS, SPENT
from wattveil.serve.ledger.amounts import MEASURES
from wattveil.serve.ledger.answer import Shelf, folder_sha256
from wattveil.serve.ledger.chain import SEALED, START, Head, seal
from wattveil.serve.ledger.charges import State
from wattveil.serve.ledger.journal import Kind
from wattveil.serve.ledger.tables import account, book, entry, release
from wattveil.serve.ledger.witness import Witness

_COLUMNS = (*SEALED, "row_sha256")
_AMOUNTS = slice(SEALED.index(MEASURES[0]), SEALED.index(MEASURES[-1]) + 1)
_SOURCE = SEALED.index("source_seq")
_BEGINNING = Head(0, START)
_NOTHING = [0, 0, 0, 0]
_ROWS_AT_ONCE = 10_000


@dataclass
class Replay:
    """What the entries add up to."""

    entries: int = 0
    heads: dict[int, Head] = field(default_factory=dict)
    caps: dict[int, list[int]] = field(default_factory=dict)
    spent: dict[int, list[int]] = field(default_factory=dict)
    broken_chain: list[str] = field(default_factory=list)
    overspent: list[str] = field(default_factory=list)
    uncharged: list[str] = field(default_factory=list)

    def add(self, row: tuple[Any, ...]) -> None:
        """Take the next entry, its values in the order of `_COLUMNS`."""
        book_id, seq, _, kind, _, _, account_id, own_id = row[:8]
        self.entries += 1
        last = self.heads.get(book_id, _BEGINNING)
        if (seq, row[-2]) != (last.seq + 1, last.sha256) or seal(row[:-1]) != row[-1]:
            self.broken_chain.append(f"book {book_id}, entry {seq}")
        self.heads[book_id] = Head(seq, row[-1])
        amounts = row[_AMOUNTS]
        if kind == Kind.CAP:
            self.caps[account_id] = list(amounts)
            amounts = (0, 0, 0, 0)
        elif account_id is None and kind == Kind.CHARGE and row[_SOURCE] is None:
            self.uncharged.append(f"book {book_id}, entry {seq}")
        for paying in (account_id, own_id):
            if paying is not None and not self._spend(paying, amounts):
                self.overspent.append(f"account {paying} at book {book_id}, entry {seq}")

    def _spend(self, paying: int, amounts: tuple[int, ...]) -> bool:
        """Add to what an account has spent; whether its caps of that moment cover it."""
        caps = self.caps.get(paying, _NOTHING)
        before = self.spent.get(paying, _NOTHING)
        after = self.spent[paying] = [
            before[0] + amounts[0],
            before[1] + amounts[1],
            before[2] + amounts[2],
            before[3] + amounts[3],
        ]
        return (
            after[0] <= caps[0]
            and after[1] <= caps[1]
            and after[2] <= caps[2]
            and after[3] <= caps[3]
        )

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


def replay(rows: Iterable[tuple[Any, ...]]) -> Replay:
    """Replay entries, book by book and in order."""
    found = Replay()
    for row in rows:
        found.add(row)
    return found


def audit_ledger(
    engine: Engine, *, shelf: Shelf | None = None, witness: Witness | None = None
) -> list[Finding]:
    """Check a ledger as it stands at one instant; it may be in use meanwhile."""
    with at_one_instant(engine) as connection:
        findings = audit_connection(connection)
        if witness is not None:
            lost = [str(error) for error in witness.behind(connection).values()]
            findings.append(gathered("nothing that was seen is lost", lost, "the file of heads"))
        if shelf is not None:
            findings.append(_payloads(connection, shelf))
    return findings


def audit_connection(connection: Connection) -> list[Finding]:
    """Check what a connection sees."""
    found = replay(entries(connection))
    findings = [
        *found.findings(),
        _sums(connection, found),
        _heads(connection, found),
        _payers(connection),
        _releases(connection),
    ]
    if connection.dialect.name == "sqlite":
        said = connection.execute(text("PRAGMA integrity_check")).scalars().all()
        findings.append(Finding("the file is sound", said == ["ok"], "; ".join(said[:5])))
    return findings


def audit_export(path: Path) -> list[Finding]:
    """Check what `export_ledger` wrote, without the database."""
    try:
        with path.open() as file:
            heads = json.loads(file.readline())["heads"]
            lines = (json.loads(line) for line in file)
            found = replay(tuple(line[name] for name in _COLUMNS) for line in lines)
        named = {int(book_id): Head(*place) for book_id, place in heads.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        expected = "an export of a ledger, a line of JSON an entry"
        raise InvalidFileError(path, "content", expected, type(error).__name__) from None
    last = Finding("the export is whole", named == found.heads, f"{found.entries:,} entries")
    return [*found.findings(), last]


def export_ledger(engine: Engine, out: Path) -> int:
    """Write every entry as a line of JSON, after one with the heads; return how many."""
    count = 0
    with at_one_instant(engine) as connection, out.open("x") as file:
        columns = (book.c.id, book.c.head_seq, book.c.head_sha256)
        heads = {key: [seq, sha] for key, seq, sha in connection.execute(select(*columns))}
        file.write(json.dumps({"heads": heads}) + "\n")
        for row in entries(connection):
            file.write(json.dumps(dict(zip(_COLUMNS, row, strict=True))) + "\n")
            count += 1
    return count


def at_one_instant(engine: Engine) -> Connection:
    """Return a connection whose statements all see the same instant; SQLite's do anyway."""
    if engine.dialect.name == "postgresql":
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    return engine.connect()


def entries(connection: Connection) -> Iterator[tuple[Any, ...]]:
    """Return all entries, book by book and in order, a few thousand in memory at a time.

    A million rows are read as the driver hands them out: that takes half the time.
    """
    columns = [entry.c[name] for name in _COLUMNS]
    for book_id in connection.execute(select(entry.c.book_id).distinct()).scalars().all():
        seq = 0
        while True:
            page = (
                select(*columns)
                .where(entry.c.book_id == book_id, entry.c.seq > seq)
                .order_by(entry.c.seq)
                .limit(_ROWS_AT_ONCE)
            )
            cursor = connection.connection.cursor()
            plain = page.compile(connection, compile_kwargs={"literal_binds": True})
            cursor.execute(str(plain))
            rows = cursor.fetchall()
            cursor.close()
            if not rows:
                break
            yield from map(tuple, rows)
            seq = rows[-1][1]


def _sums(connection: Connection, found: Replay) -> Finding:
    columns = (account.c[name] for name in ("id", *CAPS, *SPENT))
    rows = map(list, connection.execute(select(*columns)))
    kept = {row[0]: (row[1:5], row[5:]) for row in rows}
    replayed = {key: (caps, found.spent[key]) for key, caps in found.caps.items()}
    differ = [
        f"account {key}" for key in kept.keys() | replayed if kept.get(key) != replayed.get(key)
    ]
    return gathered(
        "accounts hold what the entries add up to", sorted(differ), f"{len(kept)} accounts"
    )


def _heads(connection: Connection, found: Replay) -> Finding:
    columns = (book.c.id, book.c.head_seq, book.c.head_sha256)
    kept = {row[0]: Head(*row[1:]) for row in map(tuple, connection.execute(select(*columns)))}
    differ = [
        f"book {key}" for key in kept.keys() | found.heads if kept.get(key) != found.heads.get(key)
    ]
    return gathered("no entry is missing at the end", sorted(differ), f"{len(kept)} books")


def _payers(connection: Connection) -> Finding:
    """Look for charges on the wrong accounts: of another book, tier or principal, or on none."""
    whole, own, earlier = account.alias("whole"), account.alias("own"), entry.alias("earlier")
    paid_before = exists().where(
        earlier.c.book_id == entry.c.book_id,
        earlier.c.request_sha256 == entry.c.request_sha256,
        earlier.c.principal_id == entry.c.principal_id,
        earlier.c.own_account_id.is_not(None),
        earlier.c.seq < entry.c.seq,
    )
    wrong = or_(
        and_(entry.c.own_account_id.is_(None), ~paid_before),
        own.c.principal_id != entry.c.principal_id,
        own.c.book_id != entry.c.book_id,
        whole.c.principal_id.is_not(None),
        whole.c.book_id != entry.c.book_id,
        whole.c.tier != own.c.tier,
    )
    joined = entry.outerjoin(whole, whole.c.id == entry.c.account_id).outerjoin(
        own, own.c.id == entry.c.own_account_id
    )
    rows = (
        select(entry.c.book_id, entry.c.seq)
        .select_from(joined)
        .where(entry.c.kind == Kind.CHARGE.value, wrong)
    )
    problems = [f"book {book_id}, entry {seq}" for book_id, seq in connection.execute(rows)]
    return gathered("everybody pays from the right accounts, tiers apart", problems, "every charge")


def _releases(connection: Connection) -> Finding:
    """Look for releases without a charge, and for charges answered by another request."""
    source = entry.alias("source")
    unpaid = (
        select(release.c.book_id, release.c.seq)
        .join(entry, and_(entry.c.book_id == release.c.book_id, entry.c.seq == release.c.seq))
        .where(or_(entry.c.kind != Kind.CHARGE.value, entry.c.source_seq.is_not(None)))
    )
    answered = and_(source.c.book_id == entry.c.book_id, source.c.seq == entry.c.source_seq)
    strange = (
        select(entry.c.book_id, entry.c.seq)
        .outerjoin(source, answered)
        .where(
            entry.c.source_seq.is_not(None),
            or_(
                source.c.seq.is_(None),
                source.c.source_seq.is_not(None),
                source.c.seq >= entry.c.seq,
                source.c.request_sha256.is_distinct_from(entry.c.request_sha256),
            ),
        )
    )
    problems = [
        f"book {book_id}, entry {seq}"
        for rows in (unpaid, strange)
        for book_id, seq in connection.execute(rows)
    ]
    count = connection.execute(select(func.count()).select_from(release)).scalar_one()
    return gathered("every release belongs to a charge", problems, f"{count:,} releases")


def _payloads(connection: Connection, shelf: Shelf) -> Finding:
    """Compare what lies on the shelf with the hashes that were stored."""
    columns = (release.c.payload_ref, release.c.payload_sha256)
    rows = connection.execute(select(*columns).where(release.c.state == State.OK.value)).all()
    problems = [
        ref
        for ref, sha256 in rows
        if not (shelf.folder / ref).is_dir() or folder_sha256(shelf.folder / ref) != sha256
    ]
    return gathered("every release lies on the shelf as it was stored", problems, f"{len(rows):,}")
