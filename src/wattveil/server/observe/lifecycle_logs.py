"""Log lines about the start and the stop of a server."""

import logging
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from wattveil.bundle import keys
from wattveil.errors import WattveilError
from wattveil.server.ledger import high_water_mark
from wattveil.server.ledger.database import database_url
from wattveil.server.ledger.database_record import FILE
from wattveil.server.server_state import FINGERPRINT_KEY, SIGNING_KEY

_LOG = logging.getLogger("wattveil.server")


def log_start(url: str, data: Path, database: str | None) -> None:
    """Log that the server accepts requests: version, address, data folder, kind of database."""
    fields = {
        "version": version("wattveil"),
        "url": url,
        "data": str(data.absolute()),
        "database": database_url(data, database).get_backend_name(),
    }
    _LOG.info("server started", extra={"fields": fields})


def log_keys(data: Path) -> None:
    """Log keys that cannot be read: nothing is released until they can."""
    for name, read in ((SIGNING_KEY, keys.read_key), (FINGERPRINT_KEY, Path.read_bytes)):
        try:
            read(data / name)
        except (OSError, ValueError, WattveilError) as error:
            fields = {"file": str((data / name).absolute()), "error": type(error).__name__}
            _LOG.error("a key cannot be read: no release is computed", extra={"fields": fields})


def log_permissions(data: Path) -> None:
    """Log private files of a data folder that other users of the machine may open.

    The group may, if the folder has the set-group-ID bit, as volumes of Kubernetes have.
    """
    others = stat.S_IRWXO if data.stat().st_mode & stat.S_ISGID else stat.S_IRWXO | stat.S_IRWXG
    for name in ("", FILE, high_water_mark.FILE, SIGNING_KEY, FINGERPRINT_KEY):
        path = data / name
        if path.exists() and path.stat().st_mode & others:
            fields = {"file": str(path.absolute())}
            _LOG.warning("other users of the machine may open it", extra={"fields": fields})


@contextmanager
def logged_stop(data: Path) -> Iterator[None]:
    """Log that the server was stopped and has closed everything; an error has its own message."""
    ended: SystemExit | None = None
    try:
        yield
    except SystemExit as signalled:  # after SIGINT or SIGTERM
        ended = signalled
    _LOG.info("server stopped", extra={"fields": {"data": str(data.absolute())}})
    if ended is not None:
        raise ended
