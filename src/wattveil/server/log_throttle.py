"""Repeated log lines: the first few of each kind are written, the others counted.

A fault that repeats with every connection would otherwise fill the disk of the log.
"""

import logging
import time
from dataclasses import dataclass

from wattveil.server.client_addresses import counted_source
from wattveil.server.observe.request_record import SECURITY_LOGGER, current_record

_KEPT = 5
_WINDOW_SECONDS = 10.0
_REMEMBERED = 1000
THROTTLED = "throttled"
"""Attribute of a log record: the kind of a line below a warning of which few are written."""


@dataclass
class _Repeats:
    since: float
    seen: int = 0


class LogThrottle(logging.Filter):
    """Writes at most five warnings or errors of a kind in ten seconds.

    A kind is a logger with a message before its values are filled in; for security events also the
    address of the client, so that the noise of one address hides no event of another. The first
    line of the next period states how many were left out. Lines below a warning are written in any
    case, unless they name their kind (`THROTTLED`): those of requests that anybody can send without
    a limit of rate, namely requests without a principal and requests that are refused.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[tuple[str, str, str], _Repeats] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written."""
        named = getattr(record, THROTTLED, None)
        if record.levelno < logging.WARNING and named is None:
            return True
        now, kind = time.monotonic(), (record.name, named or str(record.msg), _address(record))
        if len(self._kinds) > _REMEMBERED:
            self._kinds.clear()
        repeats = self._kinds.setdefault(kind, _Repeats(now))
        if now - repeats.since > _WINDOW_SECONDS:
            left_out = repeats.seen - _KEPT
            if left_out > 0:
                record.msg = f"{record.getMessage()} ({left_out} such lines were left out)"
                record.args = ()
            repeats.since, repeats.seen = now, 0
        repeats.seen += 1
        return repeats.seen <= _KEPT


def _address(record: logging.LogRecord) -> str:
    request = current_record() if record.name == SECURITY_LOGGER else None
    return "" if request is None else counted_source(request.address)
