"""Check all of a ledger anew: the chain, every sum, every cap at its time, every release.

Nothing that is kept for speed is believed: totals and caps are replayed from the entries.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Select, and_, exists, func, or_, select, text

from wattveil.errors import InvalidFileError
from wattveil.publish.findings import Finding, gathered
from wattveil.serve.ledger.accounts import CAPS, SPENT
from wattveil.serve.ledger.answer import Shelf, folder_sha256
from wattveil.serve.ledger.chain import Head
from wattveil.serve.ledger.charges import State
from wattveil.serve.ledger.journal import Kind
from wattveil.serve.ledger.replay import COLUMNS, Payers, Replay, replay
from wattveil.serve.ledger.tables import account, book, entry, release
from wattveil.serve.ledger.witness import Witness

_ROWS_AT_ONCE = 10_000
_LOOKED_UP_AT_ONCE = 500


def audit_ledger(
    engine: Engine, *, shelf: Shelf | None = None, witness: Witness | None = None
) -> list[Finding]:
    """Check a ledger as it stands at one instant; it may be in use meanwhile."""
    with ThreadPoolExecutor(1) as aside, at_one_instant(engine) as connection:
        file_is_sound = aside.submit(_soundness, engine)  # SQLite looks at its file meanwhile
        findings = [*audit_connection(connection), *file_is_sound.result()]
        if witness is not None:
            lost = [str(error) for error in witness.behind(connection).values()]
            findings.append(gathered("nothing that was seen is lost", lost, "the file of heads"))
        if shelf is not None:
            findings.append(_payloads(connection, shelf))
    return findings


def audit_connection(connection: Connection) -> list[Finding]:
    """Check what a connection sees."""
    found = replay(entries(connection))
    return [
        *found.findings(),
        _sums(connection, found),
        _heads(connection, found),
        _payers(connection, found),
        _releases(connection, found),
    ]


def audit_export(path: Path) -> list[Finding]:
    """Check what `export_ledger` wrote, without the database."""
    try:
        with path.open() as file:
            heads = json.loads(file.readline())["heads"]
            lines = (json.loads(line) for line in file)
            found = replay(tuple(line[name] for name in COLUMNS) for line in lines)
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
            file.write(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n")
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
    columns = [entry.c[name] for name in COLUMNS]
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
            yield from rows
            seq = rows[-1][1]


def _sums(connection: Connection, found: Replay) -> Finding:
    columns = (account.c[name] for name in ("id", *CAPS, *SPENT))
    rows = map(tuple, connection.execute(select(*columns)))
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


def _payers(connection: Connection, found: Replay) -> Finding:
    """Look for charges on the wrong accounts: of another book, tier or principal, or on none."""
    columns = (account.c.id, account.c.book_id, account.c.principal_id, account.c.tier)
    known = {row.id: row for row in connection.execute(select(*columns))}

    def wrong(payers: Payers) -> bool:
        whole, own = (known.get(key) for key in (payers.account_id, payers.own_account_id))
        missing = (payers.account_id is not None and whole is None) or (
            payers.own_account_id is not None and own is None
        )
        return (
            missing
            or any(one is not None and one.book_id != payers.book_id for one in (whole, own))
            or (whole is not None and whole.principal_id is not None)
            or (own is not None and own.principal_id != payers.principal_id)
            or (whole is not None and own is not None and whole.tier != own.tier)
        )

    problems = [
        f"book {key.book_id}, entry {seq}" for key, seq in found.payers.items() if wrong(key)
    ]
    earlier = entry.alias("earlier")
    paid_before = exists().where(
        earlier.c.book_id == entry.c.book_id,
        earlier.c.request_sha256 == entry.c.request_sha256,
        earlier.c.principal_id == entry.c.principal_id,
        earlier.c.own_account_id.is_not(None),
        earlier.c.seq < entry.c.seq,
    )
    unpaid = select(entry.c.seq).where(entry.c.own_account_id.is_(None), ~paid_before)
    problems += _among_resting(connection, found, unpaid)
    return gathered("everybody pays from the right accounts, tiers apart", problems, "every charge")


def _releases(connection: Connection, found: Replay) -> Finding:
    """Look for releases without a charge, and for charges answered by another request."""
    unpaid = (
        select(release.c.book_id, release.c.seq)
        .join(entry, and_(entry.c.book_id == release.c.book_id, entry.c.seq == release.c.seq))
        .where(or_(entry.c.kind != Kind.CHARGE.value, entry.c.source_seq.is_not(None)))
    )
    problems = [f"book {book_id}, entry {seq}" for book_id, seq in connection.execute(unpaid)]
    source = entry.alias("source")
    answered = and_(source.c.book_id == entry.c.book_id, source.c.seq == entry.c.source_seq)
    strange = (
        select(entry.c.seq)
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
    problems += _among_resting(connection, found, strange)
    count = connection.execute(select(func.count()).select_from(release)).scalar_one()
    return gathered("every release belongs to a charge", problems, f"{count:,} releases")


def _among_resting(connection: Connection, found: Replay, wrong: Select[tuple[int]]) -> list[str]:
    """Return those of the charges that rest on an earlier one for which a query says so."""
    return [
        f"book {book_id}, entry {seq}"
        for book_id, resting in found.resting.items()
        for begin in range(0, len(resting), _LOOKED_UP_AT_ONCE)
        for seq in connection.execute(
            wrong.where(
                entry.c.book_id == book_id,
                entry.c.seq.in_(resting[begin : begin + _LOOKED_UP_AT_ONCE]),
            )
        ).scalars()
    ]


def _soundness(engine: Engine) -> list[Finding]:
    """Let SQLite look at every page and index of its file; other databases have no such word."""
    if engine.dialect.name != "sqlite":
        return []
    with engine.connect() as connection:
        said = connection.execute(text("PRAGMA integrity_check")).scalars().all()
    return [Finding("the file is sound", said == ["ok"], "; ".join(said[:5]))]


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
