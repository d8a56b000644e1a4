"""A data folder and its database belong together: commands refuse any other database."""

import stat
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from tests.integration.conftest import NewPlace, Place
from tests.integration.test_server_commands import run
from tests.sample_ledgers import ALLOWANCE, open_dataset
from wattveil.errors import (
    HighWaterMarkMissingError,
    InvalidFileError,
    InvalidParameterError,
    LedgerBehindError,
    LedgerUnavailableError,
)
from wattveil.privacy.guarantee import Tier
from wattveil.server.ledger import server_lease
from wattveil.server.ledger.database import connect, database_url, is_empty, writing
from wattveil.server.ledger.database_record import (
    RECORD,
    check_database,
    has_identity,
    record_database,
)
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_tables import ledger_identity
from wattveil.server.server_state import ServerState

ACCEPT = ("ledger", "accept", "--by", "owner", "--reason", "lost")


def used(place: Place) -> Place:
    """Return a place with a server that has charged something."""
    with ServerState.open(place.folder, place.database) as state:
        open_dataset(state.ledger, "homes", allowance=ALLOWANCE)
    return place


def named(place: Place) -> tuple[str, ...]:
    """Return the options of a command that names the database of a place."""
    return () if place.database is None else ("--database", place.database)


def test_a_forgotten_database_is_named_and_no_loss_is_recommended(
    place: Place, tmp_path: Path
) -> None:
    """Each command on the folder; nothing is created there, and the server starts afterwards."""
    used(place)
    folder = ("--data", str(place.folder))
    other = () if place.database is not None else ("--database", "postgresql:///elsewhere")
    before = {one.name for one in place.folder.iterdir()}
    for command in (
        ACCEPT,
        ("ledger", "audit"),
        ("ledger", "export", "--out", str(tmp_path / "out.jsonl")),
        ("token", "--name", "owner", "--role", "admin"),
        ("backup", "--out", str(tmp_path.with_name("backup"))),
    ):
        code, said = run(*command, *folder, *other)
        assert code != 0
        assert "count as spent" not in said
        assert RECORD in said
        expected = "omitted" if place.database is None else place.database.partition("?")[0]
        assert expected in said.replace(" ", "")
        assert not (tmp_path / "backup.partial").exists()
    assert {one.name for one in place.folder.iterdir()} == before
    assert run("ledger", "audit", *folder, *named(place))[0] == 0
    place.open().close()


def test_another_database_of_the_same_kind_is_refused(place: Place, elsewhere: NewPlace) -> None:
    """Unless the record is deleted: then its lack of entries is stated."""
    other = elsewhere()
    if place.database is None:
        other = Place(place.folder, f"sqlite:///{place.folder / 'named.sqlite'}")
    used(place)
    with pytest.raises(InvalidParameterError, match=RECORD):
        Ledger.open(place.folder, other.database)
    (place.folder / RECORD).unlink()
    with pytest.raises(LedgerBehindError, match="accept"):
        Ledger.open(place.folder, other.database)


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_another_address_is_accepted_only_with_all_entries(place: Place) -> None:
    """After a failover the host differs; a replica that lags is not the recorded database."""
    folder, database = used(place)
    assert database is not None
    spelled = database.replace("?host=", "?application_name=other&host=")
    Ledger.open(folder, spelled).close()
    assert make_url((folder / RECORD).read_text().split()[0]) == make_url(spelled)
    heads = folder / "ledger.heads"
    heads.write_text(heads.read_text() + f"\n1 1000 {'0' * 64}\n")
    with pytest.raises(LedgerBehindError):
        Ledger.open(folder, spelled)
    for refused in (Ledger.open, lambda *given: Ledger.accept(*given, by="owner", reason="x")):
        with pytest.raises(InvalidParameterError, match=RECORD):
            refused(folder, database)


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_a_folder_of_an_earlier_version_shows_that_its_database_is_another(place: Place) -> None:
    """It has a mark and no database file: none is created."""
    folder, _ = used(place)
    (folder / RECORD).unlink()
    with pytest.raises(InvalidParameterError, match="has a high-water mark, but no"):
        Ledger.open(folder)
    assert not (folder / "ledger.sqlite").exists()


def test_the_record_is_private_and_moves_with_its_folder(tmp_path: Path) -> None:
    """It has no path of the folder; one that is damaged is stated."""
    (tmp_path / "first").mkdir()
    first = used(Place(tmp_path / "first", None))
    assert stat.S_IMODE((first.folder / RECORD).stat().st_mode) == 0o600
    moved = first.folder.rename(tmp_path / "moved")
    Ledger.open(moved).close()
    Ledger.open(moved, f"sqlite:///{moved / 'ledger.sqlite'}").close()
    (moved / RECORD).write_text("?\n")
    with pytest.raises(InvalidFileError, match="the address of a database"):
        Ledger.open(moved)


def test_a_loss_is_not_accepted_while_the_server_runs(place: Place) -> None:
    """It could charge at the same time."""
    with ServerState.open(place.folder, place.database):
        code, said = run(*ACCEPT, "--data", str(place.folder), *named(place))
    assert code != 0
    assert "stop the server" in said
    code, said = run(*ACCEPT, "--data", str(place.folder / "none"))
    assert "a folder that exists" in said


def test_a_running_server_keeps_its_budget_whatever_folder_is_named(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new folder with its database: the message names the folder, and no loss is accepted."""
    monkeypatch.setattr(server_lease, "_PATIENCE_SECONDS", 0.5)
    new, own = tmp_path / "new", tmp_path / "own"
    new.mkdir()
    own.mkdir()
    database = place.database or f"sqlite:///{own / 'named.sqlite'}"
    given = ("--data", str(new), "--database", database)
    with ServerState.open(own, database) as state:
        open_dataset(state.ledger, "homes", allowance=ALLOWANCE)
        before = state.ledger.accounts("homes", "owner", Tier.GLOBAL)
        with pytest.raises(HighWaterMarkMissingError, match="belongs to another data folder") as no:
            ServerState.open(new, database)
        assert "ledger accept" not in str(no.value)
        code, said = run(*ACCEPT, *given)
        assert (code, "no other server uses: stop the server" in said) == (2, True), said
        assert state.ledger.accounts("homes", "owner", Tier.GLOBAL) == before
    assert run(*ACCEPT, *given)[0] == 0  # the operator's decision, once no server runs


def test_no_tables_are_created_in_an_empty_database_that_should_have_entries(
    place: Place, elsewhere: NewPlace
) -> None:
    """A server that is started again and again must not prevent the restore into it."""
    used(place)
    empty = elsewhere().database
    (place.folder / RECORD).unlink()
    if place.database is None:
        empty = f"sqlite:///{place.folder / 'empty.sqlite'}"
    for _ in range(2):
        with pytest.raises(LedgerBehindError, match="holds 0 of them"):
            Ledger.open(place.folder, empty)
    assert not (place.folder / "empty.sqlite").exists()
    engine = connect(database_url(place.folder, empty))
    assert is_empty(engine)
    engine.dispose()


def test_no_secret_of_an_address_is_recorded_or_quoted(tmp_path: Path) -> None:
    """Neither a password, nor one in the query; what an earlier version recorded is removed."""
    given = "postgresql://me:hunter2@host/name?password=hunter2&sslpassword=hunter2&passfile=kept"
    recorded = "postgresql://me@host/name?passfile=kept"
    (tmp_path / "own").mkdir()
    ledger = Ledger.open(tmp_path / "own")
    for before in (None, f"{given}\n"):
        if before is not None:
            (tmp_path / RECORD).write_text(before)
            with pytest.raises(InvalidParameterError) as refusal:
                check_database(tmp_path, database_url(tmp_path, None))
            assert "hunter2" not in str(refusal.value)
        with ledger.reading() as connection:
            record_database(tmp_path, database_url(tmp_path, given), connection)
        assert (tmp_path / RECORD).read_text().split()[:-1] == [recorded]
    ledger.close()
    with pytest.raises(InvalidParameterError) as refusal:
        check_database(tmp_path, database_url(tmp_path, given.replace("name", "other")))
    assert "hunter2" not in str(refusal.value)


def test_another_ledger_at_the_same_address_is_not_adopted(
    place: Place,
) -> None:
    """With no entry fewer, only its identity differs; the record stays, until it is deleted."""
    Ledger.open(place.folder, place.database).close()
    record = place.folder / RECORD
    before = record.read_text()

    def identify(text: str | None) -> None:
        engine = connect(database_url(place.folder, place.database))
        with writing(engine).begin() as connection:
            connection.execute(ledger_identity.delete())
            if text is not None:
                connection.execute(ledger_identity.insert().values(identity=text))
        engine.dispose()

    identify("another")
    for is_shared in (False, True):
        with pytest.raises(InvalidParameterError, match="another identity"):
            Ledger.open(place.folder, place.database, is_shared=is_shared)
    assert record.read_text() == before
    identify(None)
    with pytest.raises(LedgerUnavailableError, match="identity is empty"):
        Ledger.open(place.folder, place.database)
    identify("another")
    record.unlink()
    Ledger.open(place.folder, place.database).close()
    assert record.read_text() != before


def test_tables_of_another_ledger_are_not_migrated(place: Place) -> None:
    """One of an earlier version has no identity, and is refused as it is."""
    Ledger.open(place.folder, place.database).close()
    engine = connect(database_url(place.folder, place.database))
    with writing(engine).begin() as connection:
        ledger_identity.drop(connection)
        version = text("UPDATE alembic_version SET version_num = 'v2_0010'")
        connection.execute(version)
    with pytest.raises(InvalidParameterError, match="another identity"):
        Ledger.open(place.folder, place.database)
    with engine.connect() as connection:
        assert not has_identity(connection)
    (place.folder / RECORD).unlink()
    Ledger.open(place.folder, place.database).close()
    with engine.connect() as connection:
        assert has_identity(connection)
    engine.dispose()
