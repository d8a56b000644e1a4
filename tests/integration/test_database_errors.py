"""A database that cannot be used: the operator reads the cause and the address, nobody a secret."""

import socket
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError
from typer.testing import CliRunner

from tests.postgres import postgres_server, require_postgres
from wattveil.cli import app
from wattveil.errors import LedgerUnavailableError
from wattveil.server.ledger.database_errors import cause_of, shown_address
from wattveil.server.ledger.ledger import Ledger

SECRET = "hunter2"  # noqa: S105 - of no database


def test_a_database_that_cannot_be_reached_is_explained(tmp_path: Path) -> None:
    """Wrong port, unknown host, no socket: by libpq's own errors, with host, port and name."""
    pytest.importorskip("psycopg", reason="the extra 'postgres' is not installed")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for address, words in (
        (f"postgresql://a:{SECRET}@127.0.0.1:{port}/town", ("connection refused", str(port))),
        ("postgresql://a@host.invalid/town", ("host unknown", "host.invalid", "5432")),
        (f"postgresql://a@/town?host={tmp_path}&port=77", ("no socket", str(tmp_path), "77")),
    ):
        with pytest.raises(LedgerUnavailableError) as refused:
            Ledger.open(tmp_path, address)
        for word in (*words, "database town", "no result was returned"):
            assert word in str(refused.value)
        assert SECRET not in str(refused.value)


def test_a_database_that_refuses_is_explained(tmp_path: Path) -> None:
    """No such database, no such role, and a server that was stopped: at the start of a server."""
    require_postgres()
    with postgres_server() as server:
        given = [
            (server.address.replace("/postgres?", "/missing?"), "no such database", "missing"),
            (server.address.replace("tester@", "nobody@"), "the role is unknown", "postgres"),
        ]
        for address, cause, name in given:
            data = ["serve", "--data", str(tmp_path), "--database", address, "--port", "0"]
            result = CliRunner().invoke(app, data)
            assert result.exit_code == 1
            assert cause in result.stderr
            assert f"database {name}" in result.stderr
        with Ledger.open(tmp_path, server.address) as ledger, server.down():
            for _ in range(2):  # a connection of before, and a new one
                with pytest.raises(LedgerUnavailableError) as refused, ledger.reading() as reading:
                    reading.exec_driver_sql("SELECT 1")
                assert "the database failed" not in refused.value.cause


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ('FATAL:  password authentication failed for user "a"', "authentication failed"),
        ("fe_sendauth: no password supplied", "authentication failed"),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1"', "pg_hba.conf"),
        ("FATAL:  sorry, too many clients already", "max_connections"),
        ("FATAL:  the database system is starting up", "starting or stopping"),
        ("connection timeout expired", "no response in time"),
        ("SSL error: certificate verify failed", "TLS failed"),
        ("something new about customer 17", "the database failed (Exception)"),
    ],
)
def test_messages_of_libpq_have_causes(said: str, cause: str) -> None:
    """The text itself is not repeated."""
    url = make_url(f"postgresql+psycopg://a:{SECRET}@db.town:6000/ledger")
    found = cause_of(OperationalError("SELECT 1", {}, Exception(said)), url)
    assert cause in found
    assert found.endswith("(host db.town, port 6000, database ledger)")
    assert "customer 17" not in found


def test_addresses_are_found_as_libpq_finds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """From variables if the address has none; a service is named."""
    for name in ("PGHOST", "PGPORT", "PGDATABASE", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    assert shown_address(make_url("postgresql:///x")) == "host local socket, port 5432, database x"
    monkeypatch.setenv("PGHOST", "db")
    monkeypatch.setenv("PGPORT", "7")
    assert shown_address(make_url("postgresql://")).startswith("host db, port 7, database of")
    assert "service town" in shown_address(make_url("postgresql://?service=town"))
    assert shown_address(make_url("sqlite:////a/b.sqlite")) == "/a/b.sqlite"
