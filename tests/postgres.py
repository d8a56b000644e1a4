"""A real PostgreSQL server, started in a folder of its own and stopped again."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.process_guard import guard, unguard

_PROGRAMS = ("initdb", "postgres", "pg_isready")
_DEBIAN = Path("/usr/lib/postgresql")
"""Where Debian installs the programs of a server, by version and outside the path."""
_PAUSE_SECONDS = 0.05
_PATIENCE_SECONDS = 600.0


def require_postgres() -> None:
    """Skip a test that needs PostgreSQL where it is not installed."""
    pytest.importorskip("psycopg", reason="the extra 'postgres' is not installed")
    if missing := [name for name in _PROGRAMS if find_program(name) is None]:
        pytest.skip(f"PostgreSQL is not installed: {missing}")


def find_program(name: str) -> str | None:
    """Return the path of a program of PostgreSQL, of the newest version that Debian installed."""
    folders = [folder for folder in _DEBIAN.glob("*/bin") if folder.parent.name.isdigit()]
    newest_first = sorted(folders, key=lambda folder: -int(folder.parent.name))
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(map(str, newest_first)))


class PostgresServer:
    """A server that listens on a socket in a new folder, and on nothing else."""

    def __init__(self, folder: Path, *, durable: bool) -> None:
        self._folder = folder
        # PostgreSQL refuses to run as root.
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(folder, self._user)
        self._durable = durable
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", self._data, "-U", "tester", "-A", "trust", "--no-sync")
        self.start()

    @property
    def address(self) -> str:
        """URL of the server."""
        return f"postgresql://tester@/postgres?host={self._folder}"

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables from which PostgreSQL's own programs find the server."""
        return {"PGHOST": str(self._folder), "PGUSER": "tester"}

    @property
    def _data(self) -> str:
        return f"{self._folder}/data"

    def start(self) -> None:
        """Start, and wait until connections are accepted.

        Processes that a kill left behind may hold the shared memory for a moment: a start that
        fails is repeated.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        self._launch()
        while not self._is_ready():
            if time.monotonic() > deadline:
                raise RuntimeError(Path(self._folder, "log").read_text())
            time.sleep(_PAUSE_SECONDS)
            if self._process is not None and self._process.poll() is not None:
                unguard(self._process.pid)
                self._launch()

    def kill(self) -> None:
        """End the server's main process with SIGKILL."""
        self._end(signal.SIGKILL)

    @contextmanager
    def hung(self) -> Iterator[None]:
        """Suspend the server and its backends: they accept connections and never answer."""
        assert self._process is not None
        own = f"PPid:\t{self._process.pid}\n"
        status = [path for path in Path("/proc").glob("[0-9]*/status") if own in _text(path)]
        processes = [self._process.pid, *(int(path.parent.name) for path in status)]
        for one in processes:
            os.kill(one, signal.SIGSTOP)
        try:
            yield
        finally:
            for one in processes:
                with suppress(ProcessLookupError):
                    os.kill(one, signal.SIGCONT)

    @contextmanager
    def down(self) -> Iterator[None]:
        """Stop the server, and start it again at the end."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def stop(self) -> None:
        """Shut down immediately, without a checkpoint."""
        self._end(signal.SIGQUIT)

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait()
        unguard(self._process.pid)

    def _launch(self) -> None:
        options = ["-c", "listen_addresses=", "-k", str(self._folder)]
        if not self._durable:
            options.append("-F")
        with Path(self._folder, "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._path("postgres"), "-D", self._data, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user,
                cwd=self._folder,
                start_new_session=True,  # Ctrl-C is for the tests, which then stop the server
            )
        guard(self._process.pid, signal.SIGQUIT)

    def _is_ready(self) -> bool:
        command = [self._path("pg_isready"), "--quiet", "-h", str(self._folder), "-d", "postgres"]
        return subprocess.run(command, check=False, cwd=self._folder).returncode == 0

    def _run(self, name: str, *arguments: str) -> None:
        command = [self._path(name), *arguments]
        subprocess.run(command, check=True, capture_output=True, user=self._user, cwd=self._folder)

    @staticmethod
    def _path(name: str) -> str:
        path = find_program(name)
        assert path is not None, f"{name} is not installed"
        return path


def _text(path: Path) -> str:
    """Return the content of a file of a process; empty if the process has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


@contextmanager
def postgres_server(*, durable: bool = False) -> Iterator[PostgresServer]:
    """Yield a server, and stop it at the end, or when this process is killed.

    ``durable`` forces commits to disk: a measurement needs it, survival of a killed client does
    not.
    """
    folder = Path(tempfile.mkdtemp(prefix="wattveil-pg-"))
    try:
        server = PostgresServer(folder, durable=durable)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)
