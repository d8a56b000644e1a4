"""Logs as lines of JSON, each with the identifier of its request.

A line never contains an address as sent, a header, a body, a row or a text of an error: only route
templates, statuses, types of errors, causes of a fixed list with the address of the database, and
in security events principals and client addresses.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import IO

from wattveil.server.log_throttle import LogThrottle
from wattveil.server.observe.request_record import SECURITY_LOGGER, current_record


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, request, further fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line. The trace of an exception is left out: it may quote private values."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.processName not in (None, "MainProcess"):  # one of several
            line["process"] = record.processName
        if (request := current_record()) is not None:
            line["request_id"] = request.id
            if record.name == SECURITY_LOGGER:
                line["address"] = request.address
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
        line.update(getattr(record, "fields", {}))
        return json.dumps(line, ensure_ascii=True)


def set_up_logs(stream: IO[str] | None = None) -> None:
    """Write all logs of this process as JSON to standard error."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(LogThrottle())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    # No line contains the place of its call or a thread: they are not looked up.
    logging._srcfile = None  # noqa: SLF001 - as the documentation of logging advises
    logging.logThreads = logging.logProcesses = False
    logging.getLogger("alembic").setLevel(logging.WARNING)  # its lines would hide the first token
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
