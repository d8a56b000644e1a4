"""Readiness: whether database, disk, worker, key and high-water mark can serve a request now.

The checks run in a thread of their own with a time limit: a hung database must not occupy the
threads that answer requests, and the report must arrive although it hangs.
"""

import asyncio
import errno
import logging
import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum

from sqlalchemy import text

from wattveil.bundle import keys
from wattveil.errors import LedgerUnavailableError
from wattveil.server.server_state import FINGERPRINT_KEY, SIGNING_KEY, ServerState

_LOG = logging.getLogger(__name__)

_MAX_SECONDS = 3.0
"""Time limit of one check."""
_RECORD_SECONDS = 1.0
"""Time that a release may take from the database to the high-water mark."""
_KEPT_SECONDS = 1.0
"""A report is used again for this time: strangers may ask often."""
MIN_FREE_BYTES = 64 * 1024 * 1024
"""Free space below which no bundle can be expected to fit."""


class Component(StrEnum):
    """What a server needs to serve requests."""

    DATABASE = "database"
    DISK = "disk"
    QUEUE = "queue"
    KEY = "key"
    HIGH_WATER_MARK = "high_water_mark"


REQUIRED = {Component.DATABASE, Component.KEY}
"""Without the database no request is served, and without the keys none may be. While another one
fails, stored releases can be read: a proxy that withdrew the only server would take them away."""


class Readiness:
    """Checks of a server, by component."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._checks = {
            Component.DATABASE: self._check_database,
            Component.DISK: self._check_disk,
            Component.QUEUE: self._check_queue,
            Component.KEY: self._check_key,
            Component.HIGH_WATER_MARK: self._check_mark,
        }
        # One thread per component: one that hangs occupies its own, and no others are started.
        self._threads = {
            one: ThreadPoolExecutor(1, thread_name_prefix=f"ready-{one}") for one in Component
        }
        self._last: tuple[float, tuple[Component, ...]] | None = None
        self._lock = asyncio.Lock()

    async def failing(self) -> tuple[Component, ...]:
        """Return the components that fail; their errors are in the log, by type."""
        async with self._lock:
            if self._last is not None and time.monotonic() - self._last[0] < _KEPT_SECONDS:
                return self._last[1]
            # The mark is compared with the database: while that fails, nothing is known of it.
            others = [one for one in Component if one is not Component.HIGH_WATER_MARK]
            results = await asyncio.gather(*(self._passes(one) for one in others))
            found: list[Component] = [
                one for one, passes in zip(others, results, strict=True) if not passes
            ]
            mark = Component.HIGH_WATER_MARK
            if Component.DATABASE not in found and not await self._passes(mark):
                found.append(mark)
            self._last = time.monotonic(), tuple(found)
            return self._last[1]

    @property
    def last_failing(self) -> tuple[Component, ...]:
        """The components that failed at the last check, for the metrics."""
        return () if self._last is None else self._last[1]

    async def _passes(self, component: Component) -> bool:
        loop = asyncio.get_running_loop()
        check = loop.run_in_executor(self._threads[component], self._checks[component])
        try:
            await asyncio.wait_for(check, _MAX_SECONDS)
        except Exception as error:  # noqa: BLE001 - any failure means not ready
            fields = {"component": component.value, "error": type(error).__name__}
            if isinstance(error, LedgerUnavailableError):
                fields["cause"] = error.cause  # of a fixed list
            elif isinstance(error, OSError) and (name := errno.errorcode.get(error.errno or 0)):
                fields["cause"] = name
            _LOG.error("not ready", extra={"fields": fields})
            return False
        return True

    def _check_database(self) -> None:
        with self._state.ledger.reading() as connection:
            connection.execute(text("SELECT 1"))

    def _check_disk(self) -> None:
        folder = self._state.bundles.folder
        if shutil.disk_usage(folder).free < MIN_FREE_BYTES:
            raise OSError(errno.ENOSPC, "too little free space")
        with tempfile.TemporaryFile(dir=self._state.folder) as file:  # has no name: none is left
            file.write(b"0")
            file.flush()
            os.fsync(file.fileno())

    def _check_queue(self) -> None:
        """Check that the worker runs. A full queue is no failure: what is stored can be read."""
        if not self._state.worker.is_healthy:
            raise RuntimeError("the worker has ended")

    def _check_mark(self) -> None:
        """Check that the mark can be written and has every release: others are not sent."""
        self._state.ledger.check_recorded(grace_seconds=_RECORD_SECONDS)

    def _check_key(self) -> None:
        keys.read_key(self._state.folder / SIGNING_KEY)
        (self._state.folder / FINGERPRINT_KEY).read_bytes()
