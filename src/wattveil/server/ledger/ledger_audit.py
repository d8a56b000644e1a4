"""Audit of a ledger: the chain, every sum, every cap at its time, every release.

Nothing that is stored for speed is trusted: totals and caps are recomputed from the entries.
"""

import gc
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Select, and_, exists, func, or_, select, text

from wattveil.errors import InvalidFileError
from wattveil.products.findings import Finding, gathered
from wattveil.server.ledger.accounts import CAPS, RELEASED_KINDS, SPENT, ReleaseState
from wattveil.server.ledger.amounts import MEASURES
from wattveil.server.ledger.database import existing_database
from wattveil.server.ledger.fulfilment import BUNDLES_FOLDER, BundleStore, folder_sha256
from wattveil.server.ledger.high_water_mark import HighWaterMark, count_stored, stated_counts
from wattveil.server.ledger.journal import SEALED, START, EntryKind, Head, seals
from wattveil.server.ledger.ledger_tables import account, entry, journal, release
from wattveil.web.formatting import format_count

COLUMNS = (*SEALED, "row_sha256")
"""Columns of an entry, in the order of a row."""

Row = tuple[Any, ...]

_JOURNAL, _SEQ, _KIND, _PRINCIPAL, _ACCOUNT, _OWN, _REQUEST, _SOURCE, _PREVIOUS, _SHA256 = map(
    COLUMNS.index,
    (
        *("journal_id", "seq", "kind", "principal_id", "account_id", "own_account_id"),
        *("request_sha256", "source_seq", "prev_sha256", "row_sha256"),
    ),
)
_AMOUNTS = slice(COLUMNS.index(MEASURES[0]), COLUMNS.index(MEASURES[-1]) + 1)
_BEGINNING = Head(0, START)
_NOTHING = (0, 0, 0, 0)
_PAGE = 1000


class Payers(NamedTuple):
    """Principal and accounts of a charge."""

    journal_id: int
    principal_id: int
    account_id: int | None
    own_account_id: int | None


@dataclass
class Replay:
    """State recomputed from the entries."""

    entries: int = 0
    heads: dict[int, Head] = field(default_factory=dict)
    caps: dict[int, tuple[int, ...]] = field(default_factory=dict)
    spent: dict[int, tuple[int, ...]] = field(default_factory=dict)
    payers: dict[Payers, int] = field(default_factory=dict)
    """Payers of charges, with the first entry of each."""
    referring: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By journal, the charges that refer to an earlier one: paid before, or released before."""
    broken_chain: list[str] = field(default_factory=list)
    overspent: list[str] = field(default_factory=list)
    uncharged: list[str] = field(default_factory=list)
    series: set[tuple[int, str]] = field(default_factory=set)
    """Journal and hash of each series whose budget was charged and that was not closed."""

    def add(self, rows: list[Row]) -> None:
        """Process the next entries."""
        self.entries += len(rows)
        sealed = seals(rows)
        if not self._take_plain(rows, sealed):
            for row, sha256 in zip(rows, sealed, strict=True):
                self._take(row, sha256)
        for row in rows:
            if (row[_OWN] is None or row[_SOURCE] is not None) and row[_KIND] == EntryKind.CHARGE:
                self.referring[row[_JOURNAL]].append(row[_SEQ])

    def _take_plain(self, rows: list[Row], sealed: list[str]) -> bool:
        """Process a page at once if it has no fault; return whether it has none."""
        columns = list(zip(*rows, strict=True))
        journal_id = columns[_JOURNAL][0]
        last = self.heads.get(journal_id, _BEGINNING)
        whole = (
            set(columns[_JOURNAL]) == {journal_id}
            and set(columns[_KIND]) == {EntryKind.CHARGE.value}
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
            self.payers.setdefault(Payers(journal_id, *payers), members[0][_SEQ])
        self.spent, self.heads[journal_id] = spent, Head(rows[-1][_SEQ], sealed[-1])
        return True

    def _take(self, row: Row, sha256: str) -> None:
        """Process one entry, and record its faults."""
        journal_id, seq, kind, amounts = row[_JOURNAL], row[_SEQ], row[_KIND], row[_AMOUNTS]
        place = f"journal {journal_id}, entry {seq}"
        last = self.heads.get(journal_id, _BEGINNING)
        if (seq, row[_PREVIOUS]) != (last.seq + 1, last.sha256) or sha256 != row[_SHA256]:
            self.broken_chain.append(place)
        self.heads[journal_id] = Head(seq, row[_SHA256])
        if kind == EntryKind.CAP:
            self.caps[row[_ACCOUNT]] = amounts
            amounts = _NOTHING
        elif kind == EntryKind.CHARGE:
            payers = Payers(journal_id, row[_PRINCIPAL], row[_ACCOUNT], row[_OWN])
            self.payers.setdefault(payers, seq)
            if row[_ACCOUNT] is None and row[_SOURCE] is None:
                self.uncharged.append(place)
        else:
            self._take_series(row, place)
        for account_id in (row[_ACCOUNT], row[_OWN]):
            if account_id is not None:
                after = _sum(self.spent.get(account_id, _NOTHING), amounts)
                self.spent[account_id] = after
                if not _fits(after, self.caps.get(account_id, _NOTHING)):
                    self.overspent.append(f"account {account_id} at {place}")

    def _take_series(self, row: Row, place: str) -> None:
        """Process an entry of a series: periods need one that was charged and is open."""
        own = (row[_JOURNAL], row[_REQUEST])
        if row[_KIND] == EntryKind.SERIES and row[_ACCOUNT] is not None:
            self.series.add(own)
        elif row[_KIND] == EntryKind.END:
            self.series.discard(own)
        elif row[_KIND] in {EntryKind.SERIES, EntryKind.PERIOD} and own not in self.series:
            self.uncharged.append(place)

    def findings(self) -> Iterator[Finding]:
        """Yield the findings that follow from the entries alone."""
        yield gathered(
            "the chain of every journal is whole",
            self.broken_chain,
            f"{format_count(self.entries, 'entry')} in {format_count(len(self.heads), 'journal')}",
        )
        yield gathered(
            "no account was ever above its cap",
            self.overspent,
            format_count(len(self.caps), "account"),
        )
        yield gathered(
            "every release was charged", self.uncharged, "each by the data set's account"
        )


def replay(rows: Iterable[Row]) -> Replay:
    """Replay entries, journal by journal and in order."""
    found, coming = Replay(), iter(rows)
    collecting = gc.isenabled()
    gc.disable()  # searching cycles among a million rows takes a tenth of the time
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


_ROWS_AT_ONCE = 10_000
_LOOKED_UP_AT_ONCE = 500


def audit_ledger(
    engine: Engine,
    *,
    bundles: BundleStore | None = None,
    high_water_mark: HighWaterMark | None = None,
) -> list[Finding]:
    """Check a ledger at one instant; it may be in use."""
    with ThreadPoolExecutor(1) as aside, at_one_instant(engine) as connection:
        file_is_sound = aside.submit(_soundness, engine)  # SQLite checks its file at the same time
        findings = [*audit_connection(connection), *file_is_sound.result()]
        if high_water_mark is not None:
            lost = [str(error) for error in high_water_mark.behind(connection).values()]
            findings.append(gathered("no recorded entry is lost", lost, "the high-water mark"))
        if bundles is not None:
            findings.append(_payloads(connection, bundles))
    return findings


def audit_connection(connection: Connection) -> list[Finding]:
    """Check the tables of a connection."""
    found = replay(entries(connection))
    return [
        *found.findings(),
        _sums(connection, found),
        _heads(connection, found),
        _counts(connection),
        _payers(connection, found),
        _releases(connection, found),
    ]


def audit_export(path: Path) -> list[Finding]:
    """Check an export of `export_ledger`, without the database."""
    try:
        with path.open() as file:
            heads = json.loads(file.readline())["heads"]
            lines = (json.loads(line) for line in file)
            found = replay(tuple(line[name] for name in COLUMNS) for line in lines)
        named = {int(journal_id): Head(*place) for journal_id, place in heads.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        expected = "an export of a ledger, one line of JSON per entry"
        raise InvalidFileError(path, "content", expected, type(error).__name__) from None
    entries = format_count(found.entries, "entry")
    last = Finding("the export is whole", named == found.heads, entries)
    return [*found.findings(), last]


def export_ledger(engine: Engine, out: Path) -> int:
    """Write every entry as a line of JSON, after one with the heads; return how many."""
    count = 0
    with at_one_instant(engine) as connection, out.open("x") as file:
        columns = (journal.c.id, journal.c.head_seq, journal.c.head_sha256)
        heads = {key: [seq, sha] for key, seq, sha in connection.execute(select(*columns))}
        file.write(json.dumps({"heads": heads}) + "\n")
        for row in entries(connection):
            file.write(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n")
            count += 1
    return count


def at_one_instant(engine: Engine) -> Connection:
    """Return a connection with snapshot isolation; SQLite has it anyway."""
    if engine.dialect.name == "postgresql":
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    return engine.connect()


def entries(connection: Connection) -> Iterator[tuple[Any, ...]]:
    """Yield all entries, journal by journal and in order, a few thousand in memory at a time.

    Rows are read through the driver's cursor: that takes half the time.
    """
    columns = [entry.c[name] for name in COLUMNS]
    for journal_id in connection.execute(select(entry.c.journal_id).distinct()).scalars().all():
        seq = 0
        while True:
            page = (
                select(*columns)
                .where(entry.c.journal_id == journal_id, entry.c.seq > seq)
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
        "accounts hold what the entries add up to",
        sorted(differ),
        format_count(len(kept), "account"),
    )


def _heads(connection: Connection, found: Replay) -> Finding:
    columns = (journal.c.id, journal.c.head_seq, journal.c.head_sha256)
    kept = {row[0]: Head(*row[1:]) for row in map(tuple, connection.execute(select(*columns)))}
    differ = [
        f"journal {key}"
        for key in kept.keys() | found.heads
        if kept.get(key) != found.heads.get(key)
    ]
    journals = format_count(len(kept), "journal")
    return gathered("no entry is missing at the end", sorted(differ), journals)


def _counts(connection: Connection) -> Finding:
    kept, counted = stated_counts(connection), count_stored(connection)
    differ = [f"journal {key}" for key in kept if kept[key] != counted.get(key, 0)]
    return gathered(
        "journals state the number of their releases",
        sorted(differ),
        format_count(sum(counted.values()), "release"),
    )


def _payers(connection: Connection, found: Replay) -> Finding:
    """Find charges to wrong accounts: of another journal, tier or principal, or to none."""
    columns = (account.c.id, account.c.journal_id, account.c.principal_id, account.c.tier)
    known = {row.id: row for row in connection.execute(select(*columns))}

    def wrong(payers: Payers) -> bool:
        whole, own = (known.get(key) for key in (payers.account_id, payers.own_account_id))
        missing = (payers.account_id is not None and whole is None) or (
            payers.own_account_id is not None and own is None
        )
        return (
            missing
            or any(one is not None and one.journal_id != payers.journal_id for one in (whole, own))
            or (whole is not None and whole.principal_id is not None)
            or (own is not None and own.principal_id != payers.principal_id)
            or (whole is not None and own is not None and whole.tier != own.tier)
        )

    problems = [
        f"journal {key.journal_id}, entry {seq}" for key, seq in found.payers.items() if wrong(key)
    ]
    earlier = entry.alias("earlier")
    paid_before = exists().where(
        earlier.c.journal_id == entry.c.journal_id,
        earlier.c.request_sha256 == entry.c.request_sha256,
        earlier.c.principal_id == entry.c.principal_id,
        earlier.c.own_account_id.is_not(None),
        earlier.c.seq < entry.c.seq,
    )
    unpaid = select(entry.c.seq).where(entry.c.own_account_id.is_(None), ~paid_before)
    problems += _among_referring(connection, found, unpaid)
    return gathered(
        "every charge is on the right accounts, tiers separate", problems, "every charge"
    )


def _releases(connection: Connection, found: Replay) -> Finding:
    """Find releases without a charge, and charges with the release of another request."""
    unpaid = (
        select(release.c.journal_id, release.c.seq)
        .join(entry, and_(entry.c.journal_id == release.c.journal_id, entry.c.seq == release.c.seq))
        .where(or_(entry.c.kind.not_in(RELEASED_KINDS), entry.c.source_seq.is_not(None)))
    )
    problems = [
        f"journal {journal_id}, entry {seq}" for journal_id, seq in connection.execute(unpaid)
    ]
    source = entry.alias("source")
    answered = and_(source.c.journal_id == entry.c.journal_id, source.c.seq == entry.c.source_seq)
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
    problems += _among_referring(connection, found, strange)
    count = connection.execute(select(func.count()).select_from(release)).scalar_one()
    return gathered("every release belongs to a charge", problems, format_count(count, "release"))


def _among_referring(connection: Connection, found: Replay, wrong: Select[tuple[int]]) -> list[str]:
    """Return the charges that refer to an earlier one and match a query."""
    return [
        f"journal {journal_id}, entry {seq}"
        for journal_id, referring in found.referring.items()
        for begin in range(0, len(referring), _LOOKED_UP_AT_ONCE)
        for seq in connection.execute(
            wrong.where(
                entry.c.journal_id == journal_id,
                entry.c.seq.in_(referring[begin : begin + _LOOKED_UP_AT_ONCE]),
            )
        ).scalars()
    ]


def _soundness(engine: Engine) -> list[Finding]:
    """Have SQLite check every page and index of its file; other databases have no such check."""
    if engine.dialect.name != "sqlite":
        return []
    with engine.connect() as connection:
        result = connection.execute(text("PRAGMA integrity_check")).scalars().all()
    return [Finding("the file is sound", result == ["ok"], "; ".join(result[:5]))]


def _payloads(connection: Connection, bundles: BundleStore) -> Finding:
    """Compare bundles with their stored hashes."""
    columns = (release.c.payload_ref, release.c.payload_sha256)
    rows = connection.execute(
        select(*columns).where(release.c.state == ReleaseState.OK.value)
    ).all()
    problems = [
        ref
        for ref, sha256 in rows
        if not (bundles.folder / ref).is_dir() or folder_sha256(bundles.folder / ref) != sha256
    ]
    return gathered("every bundle has its stored hash", problems, f"{len(rows):,}")


def audit_folder(folder: Path, database: str | None) -> list[Finding]:
    """Check the ledger of a data folder, its bundles and its high-water mark."""
    bundles = folder / BUNDLES_FOLDER
    with existing_database(folder, database) as engine:
        return audit_ledger(
            engine,
            bundles=BundleStore(bundles) if bundles.is_dir() else None,
            high_water_mark=HighWaterMark(folder),
        )


def export_folder(folder: Path, database: str | None, out: Path) -> int:
    """Write every entry of the ledger of a data folder to a new file; return how many."""
    with existing_database(folder, database) as engine:
        return export_ledger(engine, out)
