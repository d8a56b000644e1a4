"""A real PostgreSQL server, started in a folder of its own and stopped again."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROGRAMS = ("initdb", "pg_ctl")


def missing_programs() -> list[str]:
    """Return what is not on the path."""
    return [name for name in _PROGRAMS if shutil.which(name) is None]


@contextmanager
def postgres_server(*, durable: bool = False) -> Iterator[str]:
    """Yield the address of a server that listens on a socket in a new folder, and on nothing else.

    ``durable`` forces commits to disk: what is measured needs it, what survives a killed client
    does not.
    """
    folder = Path(tempfile.mkdtemp(prefix="wattveil-pg-"))
    # PostgreSQL refuses to run as root.
    user = "nobody" if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)

    def run(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, user=user, cwd=folder)

    try:
        run("initdb", "-D", f"{folder}/data", "-U", "tester", "-A", "trust", "--no-sync")
        options = f"-c listen_addresses='' -k {folder}{'' if durable else ' -F'}"
        run("pg_ctl", "-D", f"{folder}/data", "-o", options, "-l", f"{folder}/log", "-w", "start")
        try:
            yield f"postgresql://tester@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)
