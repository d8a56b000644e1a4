"""Tokens that were found valid a moment ago."""

import threading
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from wattveil.errors import LedgerUnavailableError
from wattveil.server.auth import known_tokens, principals
from wattveil.server.auth.known_tokens import KnownTokens
from wattveil.server.auth.principals import Principal
from wattveil.server.ledger.administration import PrincipalKind

ANN = Principal("ann", PrincipalKind.ANALYST, 1, datetime.now(UTC) + timedelta(days=1))


class Database:
    """What a ledger reads: the hashes of valid tokens; it counts queries, and may wait or fail."""

    writes = 0

    def __init__(self, *valid: str) -> None:
        self.valid = {principals.sha256(text) for text in valid}
        self.queries = 0
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.is_down = False

    def reading(self) -> nullcontext[None]:
        """Return a connection."""
        return nullcontext()

    def principal_of(self, _: object, given: str) -> Principal | None:
        """Return the principal of a hash."""
        self.queries += 1
        self.may_answer.wait()
        if self.is_down:
            raise LedgerUnavailableError("down")
        return ANN if given in self.valid else None


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    """Return a database with one token, `valid`."""
    found = Database("valid")
    monkeypatch.setattr(principals, "principal_of_token_hash", found.principal_of)
    return found


def known(database: Database) -> KnownTokens:
    """Return tokens that have found the valid one."""
    ledger: Any = database
    tokens = KnownTokens(ledger)
    assert tokens.find("valid") == ANN
    return tokens


def test_requests_after_a_pause_share_a_reading(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One query for all that come while it lasts; then the token is known again."""
    monkeypatch.setattr(known_tokens, "CACHED_SECONDS", -1.0)  # known for no time
    tokens = known(database)
    assert tokens.recent("valid") is None
    monkeypatch.setattr(known_tokens, "CACHED_SECONDS", 1e6)
    database.may_answer.clear()
    readings = [tokens.reading("valid") for _ in range(50)]
    database.may_answer.set()
    assert len({id(one) for one in readings}) == 1
    assert readings[0] is not None
    readings[0].result()
    assert database.queries == 2
    assert tokens.recent("valid") == ANN
    assert tokens.reading("valid") is None


def test_tokens_that_were_never_valid_are_not_read_in_the_background(database: Database) -> None:
    """Nor those that are known; strangers cannot occupy the reader."""
    tokens = known(database)
    assert tokens.find("made up") is None
    queries = database.queries
    assert tokens.reading("made up") is None
    assert tokens.reading("valid") is None
    assert database.queries == queries


def test_a_revoked_token_is_not_known_after_its_reading(database: Database) -> None:
    """A write of this process ends what is known; the reading finds that it is invalid."""
    tokens = known(database)
    database.valid.clear()
    database.writes += 1
    assert tokens.recent("valid") is None
    reading = tokens.reading("valid")
    assert reading is not None
    reading.result()
    assert tokens.recent("valid") is None
    assert tokens.reading("valid") is None


def test_a_reading_that_fails_is_tried_again(database: Database) -> None:
    """A database that is down leaves nothing behind that would prevent the next reading."""
    tokens = known(database)
    database.writes += 1
    database.is_down = True
    reading = tokens.reading("valid")
    assert reading is not None
    assert reading.result() is None
    assert tokens.recent("valid") is None
    database.is_down = False
    again = tokens.reading("valid")
    assert again is not None
    again.result()
    assert tokens.recent("valid") == ANN
