"""Log lines about the start and the stop of a server."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from wattveil.server.ledger.database import database_url

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
