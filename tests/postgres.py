"""A real PostgreSQL server, started in a folder of its own and stopped again."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROGRAMS = ("initdb", "pg_ctl")
_TRIES, _PAUSE_SECONDS = 40, 0.25


def missing_programs() -> list[str]:
    """Return what is not on the path."""
    return [name for name in _PROGRAMS if shutil.which(name) is None]


class PostgresServer:
    """A server that listens on a socket in a new folder, and on nothing else."""

    def __init__(self, folder: Path, *, durable: bool) -> None:
        self._folder = folder
        # PostgreSQL refuses to run as root.
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(folder, self._user)
        self._options = f"-c listen_addresses='' -k {folder}{'' if durable else ' -F'}"
        self._run("initdb", "-D", self._data, "-U", "tester", "-A", "trust", "--no-sync")
        self.start()

    @property
    def address(self) -> str:
        """Where it is."""
        return f"postgresql://tester@/postgres?host={self._folder}"

    @property
    def variables(self) -> dict[str, str]:
        """Where its own programs look for it."""
        return {"PGHOST": str(self._folder), "PGUSER": "tester"}

    @property
    def _data(self) -> str:
        return f"{self._folder}/data"

    def start(self) -> None:
        """Start; what a kill left may need a moment to notice that it is an orphan."""
        starting = ("pg_ctl", "-D", self._data, "-o", self._options, "-w", "start")
        for _ in range(_TRIES):
            try:
                self._run(*starting, "-l", f"{self._folder}/log")
            except subprocess.CalledProcessError:
                time.sleep(_PAUSE_SECONDS)
            else:
                return
        raise RuntimeError("PostgreSQL does not start again")

    def kill(self) -> None:
        """End the whole server at once, with SIGKILL."""
        line = Path(self._data, "postmaster.pid").read_text().splitlines()[0]
        os.kill(int(line), signal.SIGKILL)

    def stop(self) -> None:
        """End it for good."""
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "stop")

    def _run(self, *command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, user=self._user, cwd=self._folder)


@contextmanager
def postgres_server(*, durable: bool = False) -> Iterator[PostgresServer]:
    """Yield a server, and stop it at the end.

    ``durable`` forces commits to disk: what is measured needs it, what survives a killed client
    does not.
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
