"""What the integration tests share: a PostgreSQL server, and ledgers on both databases."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.live_server import computing_here
from tests.postgres import postgres_server, require_postgres
from tests.process_guard import guarded
from tests.sample_ledgers import populate
from wattveil.server.ledger.ledger import Ledger

Workers = Callable[..., list[dict[str, Any]]]
"""Runs tasks in processes of their own, all at once, and returns what they said."""

_REPOSITORY = Path(__file__).parents[2]


class Place(NamedTuple):
    """Where a ledger is kept: a folder, and a database unless it is in the folder."""

    folder: Path
    database: str | None

    def open(self) -> Ledger:
        """Open the ledger."""
        return Ledger.open(self.folder, self.database)


NewPlace = Callable[[], Place]
"""Returns another place on the same kind of database."""


@pytest.fixture(scope="session")
def database() -> Iterator[str]:
    """Address of a PostgreSQL server, one for all tests of a process."""
    require_postgres()
    with postgres_server() as server:
        yield server.address


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return an empty place for a ledger, on each of the databases in turn."""
    if request.param == "sqlite":
        return Place(tmp_path, None)
    return Place(tmp_path, _new_schema(request.getfixturevalue("database")))


mostly_sqlite = pytest.mark.parametrize(
    "place", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)], indirect=True
)
"""Of rules that do not depend on the database, beside one whole test on both: `make soak`."""


@pytest.fixture
def elsewhere(place: Place, tmp_path: Path, request: pytest.FixtureRequest) -> NewPlace:
    """Return new, empty places on the database of the test; the folder is still to be made."""

    def make() -> Place:
        folder = tmp_path / f"new-{uuid.uuid4().hex}"
        if place.database is None:
            return Place(folder, None)
        return Place(folder, _new_schema(request.getfixturevalue("database")))

    return make


def _new_schema(address: str) -> str:
    """Return the address of a new, empty schema of a PostgreSQL server."""
    import psycopg  # noqa: PLC0415 - the fixture of the server skips where it is missing

    schema = f"ledger_{uuid.uuid4().hex}"
    with psycopg.connect(address) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"{address}&options=-csearch_path%3D{schema}"


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    """Return an open ledger with an owner, two analysts and a data set."""
    with place.open() as opened:
        populate(opened)
        yield opened


@pytest.fixture(name="computing_here")
def _computing_here() -> Iterator[None]:
    """Have the servers of a test compute in this process: others take seconds to start."""
    with computing_here():
        yield


@pytest.fixture(scope="session")
def workers() -> Iterator[Workers]:
    """Start a process that forks workers: `tests/ledger_worker.py`."""
    with talking_to("ledger_worker.py") as tell:
        yield lambda *tasks: tell(tasks)


@pytest.fixture(scope="session")
def servers() -> Iterator[Callable[[object], Any]]:
    """Start a process that forks servers: `tests/server_worker.py`."""
    with talking_to("server_worker.py") as tell:
        yield tell


@contextmanager
def talking_to(script: str) -> Iterator[Callable[[object], Any]]:
    """Run a script of the tests; yield what sends it a line of JSON and returns its answer."""
    command = [sys.executable, str(_REPOSITORY / "tests" / script)]
    path = os.pathsep.join([str(_REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
    with (
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        ) as process,
        guarded(process),
    ):
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def tell(task: object) -> Any:  # noqa: ANN401 - whatever the script says
            stdin.write(json.dumps(task) + "\n")
            stdin.flush()
            return json.loads(stdout.readline())

        yield tell
        stdin.close()
