"""Connections that say nothing, or read nothing: they would take the places of others."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

_MOST_SECONDS = 10.0
"""For the head of a request to arrive, from the opening or from the last answer."""
_MOST_UNREAD_SECONDS = 60.0
"""For a piece of an answer to be read."""


class Connection(H11Protocol):
    """uvicorn's own, with time limits for heads (one letter ends uvicorn's) and for readers."""

    _clock: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def on_response_complete(self) -> None:
        """Wait for the next one."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        self._forget_unread()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for what was sent to be read."""
        super().pause_writing()
        self._forget_unread()
        self._unread = self.loop.call_later(_MOST_UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: it was."""
        self._forget_unread()
        super().resume_writing()

    def _wait(self) -> None:
        self._stop_waiting()
        self._clock = self.loop.call_later(_MOST_SECONDS, self._close_if_idle)

    def _stop_waiting(self) -> None:
        if self._clock is not None:
            self._clock.cancel()

    def _forget_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()

    def _close_if_idle(self) -> None:
        """Close, unless a request is being answered: the guard limits the time for its body."""
        if getattr(self.cycle, "response_complete", True):  # before the first there is none
            self.transport.close()
