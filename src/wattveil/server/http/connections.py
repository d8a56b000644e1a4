"""Connections: how many are open, which one gives way, and how long each may take.

An event loop accepts connections up to a limit below that of the descriptors of the process. At the
limit a new connection takes the place of one that the server does not work for: a connection that
has not sent its request, is in the handshake of TLS, sends a body, does not read its response, or
is refused as busy after a pause. So idle connections, however many, do not keep others out. If the
server works for all of them, the next one that is answered is closed: connections that send request
after request do not keep others out either. A new connection has a moment to send its first
request: among busy ones it would else be the one that gives way. Places are taken from the address
that has most of them. One client address has at most half of the places; the addresses of a network
of IPv6 (/64) count as one. On Linux, connections that send nothing are kept by the kernel for a
second, so that those that send a request are accepted before them.
"""

import asyncio
import ipaddress
import logging
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from wattveil.server.client_addresses import counted_source

_MAX_CONNECTIONS = 1000
_RESERVED_DESCRIPTORS = 256
"""For the ledger, files that are sent, and compute processes."""
_RESERVE = 16
"""One place in so many is kept free, by closing others, so that a new connection need not wait."""
PAUSED = "wattveil.paused"
"""Key of a scope whose request is refused as busy, after a pause."""
_MAX_HANDSHAKE_SECONDS = 5.0
"""Time limit of the handshake of TLS; asyncio's own is a minute."""
_FIRST_SECONDS = 1.0
"""Time in which a new connection does not give way to others unless it has sent a request."""
_MAX_HEAD_SECONDS = 10.0
"""Time limit of a request head, from the connection or the last response."""
_MAX_UNREAD_SECONDS = 60.0
"""Time limit for the client to read a piece of a response."""
_BATCH = 64
"""Connections that are accepted in one turn of the event loop."""
_EVICTION_SECONDS = 0.05
"""Time between two evictions."""
_EVICTED = 20
"""One place in so many is vacated by an eviction: as many as wait are accepted in a fraction of a
second, and a client that connects again whenever it is closed occupies a fraction of a core."""
_DEFERRED_SECONDS = 1
"""Time for which Linux itself keeps a connection that sends nothing, before it is accepted."""
_PAUSE_SECONDS = 0.1
"""Pause after an accept that failed for lack of descriptors or memory."""

_LOG = logging.getLogger("wattveil.server")


def max_connections() -> int:
    """Return the number of connections for which the process has descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    return max(1, min(_MAX_CONNECTIONS, soft - _RESERVED_DESCRIPTORS))


def raise_descriptor_limit() -> None:
    """Raise the limit of descriptors as far as the process may, and as this server needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_CONNECTIONS + _RESERVED_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class TimeoutProtocol(H11Protocol):
    """uvicorn's protocol, with time limits for request heads and for slow readers.

    uvicorn's own limit ends with the first byte of a head.
    """

    _clock: asyncio.TimerHandle | None = None
    _waiting_since = 0.0
    _unread: asyncio.TimerHandle | None = None
    _released: Callable[[], None] | None = None
    _is_last: Callable[[], bool] | None = None

    @property
    def is_evictable(self) -> bool:
        """Whether the server does not work for the connection: it waits for its client or pauses.

        Otherwise the client waits for the server.
        """
        if getattr(self.cycle, "response_complete", True):  # None before the first request
            return True
        return bool(self.cycle.more_body or self.flow.write_paused or PAUSED in self.cycle.scope)

    def attach(self, released: Callable[[], None], is_last: Callable[[], bool]) -> None:
        """Set what is called at the end of the connection, and whether a response is its last."""
        self._released, self._is_last = released, is_last

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Start the time limit of the first request."""
        super().connection_made(transport)
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            # A response is several small writes; Nagle's algorithm would delay the last by 40 ms.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._wait()

    def on_response_complete(self) -> None:
        """Close the connection if others wait for its place; else await the next request.

        Before uvicorn's own: a request that is here already would be begun, and the next one after
        it.
        """
        if self._is_last is not None and self._is_last():
            self.transport.close()
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all time limits."""
        self._stop_waiting()
        self._forget_unread()
        super().connection_lost(exc)
        if self._released is not None:
            self._released()

    def pause_writing(self) -> None:
        """Start the time limit of a slow reader."""
        super().pause_writing()
        self._forget_unread()
        self._unread = self.loop.call_later(_MAX_UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Cancel the time limit of a slow reader."""
        self._forget_unread()
        super().resume_writing()

    def _wait(self) -> None:
        """Note since when a request is awaited; a clock that runs is not set anew each time."""
        self._waiting_since = self.loop.time()
        if self._clock is None:
            self._clock = self.loop.call_later(_MAX_HEAD_SECONDS, self._close_if_idle)

    def _stop_waiting(self) -> None:
        if self._clock is not None:
            self._clock.cancel()

    def _forget_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()

    def _close_if_idle(self) -> None:
        """Close, unless a request is being handled: the middleware limits the time of its body."""
        self._clock = None
        if not getattr(self.cycle, "response_complete", True):  # None before the first request
            return  # its end sets the clock
        left = self._waiting_since + _MAX_HEAD_SECONDS - self.loop.time()
        if left > 0:
            self._clock = self.loop.call_later(left, self._close_if_idle)
        else:
            self.transport.close()


class _Slot:
    """Place of one connection, from its acceptance to its end."""

    def __init__(self, address: str, accepted_at: float) -> None:
        self.address, self._accepted_at = address, accepted_at
        self.is_new = True
        """Whether its task has not begun."""
        self.handshake: asyncio.Task[None] | None = None
        self.protocol: TimeoutProtocol | None = None

    def is_evictable(self, now: float) -> bool:
        """Whether the server does not work for the connection, and it had time for a request."""
        if self.protocol is None or self.protocol.cycle is None:
            return not self.is_new and now >= self._accepted_at + _FIRST_SECONDS
        return self.protocol.is_evictable

    @property
    def is_silent(self) -> bool:
        """Whether the connection has not sent a request yet."""
        return self.protocol is None or self.protocol.cycle is None

    def evict(self) -> None:
        """Close the connection at once."""
        if self.protocol is not None and self.protocol.transport is not None:
            self.protocol.transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()


class Acceptor:
    """Accepts the connections of one listening socket, as many as there are places."""

    def __init__(
        self,
        make_protocol: Callable[[], TimeoutProtocol],
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        is_proxy: Callable[[str], bool],
    ) -> None:
        self._make_protocol, self._listener, self._tls = make_protocol, listener, tls
        self._is_proxy = is_proxy
        self._max = max_connections()
        self._reserve = max(1, self._max // _RESERVE)
        self._slots: dict[_Slot, None] = {}  # the oldest first
        self._addresses: Counter[str] = Counter()
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._is_full = False
        self._next_eviction = 0.0
        listener.settimeout(0.0)  # as asyncio needs it
        is_tcp = listener.family in (socket.AF_INET, socket.AF_INET6)
        if is_tcp and hasattr(socket, "TCP_DEFER_ACCEPT"):  # Linux: connections that send go first
            with suppress(OSError):  # a sandbox may not have it
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, _DEFERRED_SECONDS)
        self._listen()

    def close(self) -> None:
        """Accept no further connection."""
        self._is_closed = True
        self._loop.remove_reader(self._listener)

    async def wait_closed(self) -> None:
        """Return at once: nothing is accepted any more."""

    def _listen(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        """Accept connections that wait, a batch of them: then others take their turn."""
        for _ in range(_BATCH):
            if len(self._slots) >= self._max - self._reserve and not self._make_place():
                return
            try:
                connected, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # the machine is out of descriptors or memory
                _LOG.error("a connection cannot be accepted: %s", type(error).__name__)
                self._pause(_PAUSE_SECONDS)
                return
            source = str(address[0]) if isinstance(address, tuple) else ""
            slot = _Slot(counted_source(source), self._loop.time())
            if self._has_most(slot.address) and not self._is_exempt(source):
                connected.close()
                continue
            connected.settimeout(0.0)
            self._slots[slot] = None
            self._addresses[slot.address] += 1
            slot.handshake = self._loop.create_task(self._connect(slot, connected))

    def _pause(self, seconds: float) -> None:
        """Accept nothing for some time."""
        self._loop.remove_reader(self._listener)
        self._loop.call_later(seconds, self._listen)

    def _has_most(self, address: str) -> bool:
        """Whether an address, or a network of IPv6, has half of the places."""
        return self._addresses[address] >= max(1, self._max // 2)

    def _is_exempt(self, address: str) -> bool:
        """Whether many clients share an address, so that it may have all places."""
        return self._is_proxy(address) or _is_local(address)

    def _make_place(self) -> bool:
        """Close connections that the server does not work for; return whether a place is free.

        Not more often than a few times per second: a client that connects again whenever it is
        closed would otherwise occupy the server.
        """
        is_full = len(self._slots) >= self._max
        wait = self._next_eviction - self._loop.time()
        if wait > 0:
            if is_full:
                self._pause(wait)
            return not is_full
        evicted = self._evictable()
        for slot in evicted:
            slot.evict()
            self._release(slot)
        if evicted:
            self._next_eviction = self._loop.time() + _EVICTION_SECONDS
        elif not any(slot.is_new for slot in self._slots):
            self._is_full = True  # until one ends: the next that is answered
            if is_full:
                self._pause(_EVICTION_SECONDS)
        return evicted != [] or not is_full

    def _evictable(self) -> list[_Slot]:
        """Return the oldest connections to close, of the address that has most of them.

        If none of these may be closed yet because most are new and without a request, the older
        half of the new ones, before any connection of another address: a burst of new connections
        closes those of nobody else. Many at a time: they are found by looking at all.
        """
        now = self._loop.time()
        most = max(self._addresses.values(), default=0)
        crowd = [slot for slot in self._slots if self._addresses[slot.address] == most]
        found = [slot for slot in crowd if slot.is_evictable(now)]
        if not found:
            others = [slot for slot in self._slots if slot.is_evictable(now)]
            share = max((self._addresses[slot.address] for slot in others), default=0)
            found = [slot for slot in others if self._addresses[slot.address] == share]
            silent = [slot for slot in crowd if slot.is_silent]
            # Of a crowd alone: a few new connections of one client among many of others stay.
            if found and len(silent) > max(len(crowd), self._max // 2) // 2:
                begun = [slot for slot in silent if not slot.is_new]
                found = begun[: len(silent) // 2]
        return found[: max(1, self._max // _EVICTED)]

    async def _connect(self, slot: _Slot, connected: socket.socket) -> None:
        """Make the protocol of a connection, after the handshake of TLS if there is one."""
        slot.is_new = False
        protocol = self._make_protocol()
        protocol.attach(lambda: self._release(slot), lambda: self._is_full)
        limit: dict[str, Any] = {}
        if self._tls is not None:
            limit["ssl_handshake_timeout"] = _MAX_HANDSHAKE_SECONDS
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol, connected, ssl=self._tls, **limit
            )
            slot.protocol = protocol
        except (OSError, asyncio.CancelledError):  # also what TLS refuses
            connected.close()
            self._release(slot)

    def _release(self, slot: _Slot) -> None:
        if slot in self._slots:
            del self._slots[slot]
            self._addresses[slot.address] -= 1
            if not self._addresses[slot.address]:
                del self._addresses[slot.address]
            if self._is_full:
                self._is_full = False
                self._listen()


def _is_local(address: str) -> bool:
    """Whether an address is of this machine: a proxy or a tunnel on it may carry many clients."""
    return address == "" or ipaddress.ip_address(address).is_loopback


class ServerLoop(asyncio.SelectorEventLoop):
    """Event loop whose servers limit their connections."""

    async def create_server(self, protocol_factory: Any, *_: Any, **options: Any) -> Any:  # noqa: ANN401 - asyncio's own
        """Accept connections of a socket that listens; uvicorn gives no other."""
        app = protocol_factory().config.loaded_app

        def is_proxy(address: str) -> bool:
            return isinstance(app, ProxyHeadersMiddleware) and address in app.trusted_hosts

        return Acceptor(protocol_factory, options["sock"], options["ssl"], is_proxy)
