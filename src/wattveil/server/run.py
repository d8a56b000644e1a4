"""Start and stop of the server process."""

import errno
import gc
import ipaddress
import os
import resource
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from wattveil.errors import InvalidParameterError, MissingExtraError
from wattveil.server.auth.identity_provider import IdentityProvider, OpenIdSettings
from wattveil.server.auth.principals import DEFAULT_TOKEN_DAYS, FIRST_ADMIN
from wattveil.server.http.app import make_app
from wattveil.server.http.connections import ServerLoop, TimeoutProtocol, raise_descriptor_limit
from wattveil.server.http.middleware import MAX_HEADER_BYTES
from wattveil.server.ledger.database import check_no_password, database_url
from wattveil.server.observe.json_logs import set_up_logs
from wattveil.server.observe.lifecycle_logs import log_keys, log_permissions, log_start
from wattveil.server.observe.tracing import RequestTracer
from wattveil.server.processes.server_health import WORKER, ServerHealth
from wattveil.server.processes.supervisor import ENDINGS, Supervisor, end, process_context
from wattveil.server.processes.worker_process import run_worker
from wattveil.server.server_state import TICK_SECONDS, ServerState, prepared_folder
from wattveil.server.tls_files import check_pair, log_expiry

_GRACE_SECONDS = 10
"""Time for open requests when the server is stopped."""
_BACKLOG = 2048
"""Connections that wait to be accepted: the system drops what exceeds it, and clients try again
only after 200 ms."""

_MIN_PREFIX = {4: 8, 6: 16}
"""Of the network of a trusted proxy: 10.0.0.0/8 is the largest private one."""
_IPV4_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
METRICS_FOLDER = "metrics"
"""Folder of the counters of several processes, in the data folder; new at each start."""


@dataclass(frozen=True)
class _Settings:
    """What every process of a server needs to know."""

    data: Path
    database: str | None
    way: dict[str, Any]
    openid: OpenIdSettings | None
    compute_processes: int


def run(
    data: Path,
    database: str | None,
    *,
    host: str,
    port: int,
    tls: tuple[Path | None, Path | None],
    behind_proxy: Sequence[str],
    processes: int = 1,
    compute_processes: int = 1,
    echo: Callable[[str], None],
    shows_token: bool = True,
    openid: OpenIdSettings | None = None,
) -> None:
    """Serve a data folder. Returns when the server was stopped and has closed everything.

    The first token is shown only to a terminal: journals and logs of pods are kept and copied.
    """
    check_no_password(database)
    way = transport(tls, behind_proxy)
    check_host(host, protected=tls != (None, None) or bool(behind_proxy))
    check_processes(processes, data, database)
    # Refused now, rather than by the processes that use it.
    provider = None if openid is None else _provider(openid)
    settings = _Settings(data.absolute(), database, way, openid, compute_processes)
    set_up_logs()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a memory dump would contain tokens
    raise_descriptor_limit()
    os.umask(0o077)  # files are readable by their owner alone
    data.mkdir(mode=0o700, exist_ok=True)
    for told in ENDINGS:
        signal.signal(told, end)

    def announce(first_admin_token: str | None) -> None:
        if first_admin_token is not None and shows_token:
            valid = f"valid for {DEFAULT_TOKEN_DAYS} days"
            echo(f"Token of {FIRST_ADMIN}, {valid}, shown only once: {first_admin_token}")
        elif first_admin_token is not None:
            named = "" if database is None else f" --database {database}"
            command = f"wattveil admin token --data {data}{named} --name {FIRST_ADMIN} --role admin"
            shown = "The token is printed only to a terminal. To issue one, run in a terminal"
            echo(f"{shown}: {command}")
        scheme = "http" if tls == (None, None) else "https"
        url = f"{scheme}://{host}:{listener.getsockname()[1]}"
        echo(f"Serving {data} at {url}")
        log_start(url, data, database)
        log_keys(data)
        log_permissions(data)
        if tls[0] is not None:
            log_expiry(tls[0])
        if provider is not None:  # it may take seconds, and tokens work without it
            threading.Thread(target=provider.check, daemon=True).start()

    with _listening(host, port) as listener:
        if processes > 1:
            _run_processes(settings, processes, listener, announce)
            return
        opened = ServerState.open(settings.data, database, compute_processes=compute_processes)
        with opened as state:
            announce(state.first_admin_token)
            _answer_requests(state, settings, listener)


def _run_processes(
    settings: _Settings,
    processes: int,
    listener: socket.socket,
    announce: Callable[[str | None], None],
) -> None:
    """Serve with several API processes and a worker process, until this one is terminated."""
    names = tuple(f"api-{number}" for number in range(1, processes + 1))
    context = process_context(__name__)
    health = ServerHealth(context, (WORKER, *names))
    worker = partial(_run_worker, settings, health)
    apis = {name: partial(_run_api, settings, health, name, listener) for name in names}
    with prepared_folder(settings.data, settings.database) as prepared:
        counters = settings.data / METRICS_FOLDER
        shutil.rmtree(counters, ignore_errors=True)
        counters.mkdir(mode=0o700)
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(counters)  # for the children
        supervisor = Supervisor(context, {WORKER: worker, **apis}, health)
        try:
            supervisor.start()
            announce(prepared.first_admin_token)
            supervisor.run(prepared.lease)
        finally:
            supervisor.stop()
            shutil.rmtree(counters, ignore_errors=True)


def _run_worker(settings: _Settings, health: ServerHealth) -> None:
    set_up_logs()
    run_worker(
        settings.data,
        settings.database,
        health,
        tick_seconds=TICK_SECONDS,
        processes=settings.compute_processes,
    )


def _run_api(settings: _Settings, health: ServerHealth, name: str, listener: socket.socket) -> None:
    set_up_logs()
    with ServerState.open_api(settings.data, settings.database, health) as state:
        _answer_requests(state, settings, listener, lambda: health.report_ready(name))


def _answer_requests(
    state: ServerState,
    settings: _Settings,
    listener: socket.socket,
    started: Callable[[], None] = lambda: None,
) -> None:
    """Answer requests until this process is terminated."""
    provider = None if settings.openid is None else _provider(settings.openid)
    with RequestTracer.from_environment() or nullcontext() as tracer:
        certificate = settings.way["ssl_certfile"]
        app = make_app(state, tracer=tracer, provider=provider, certificate=certificate)
        # What exists now exists until the end. To search it for unreachable cycles, as a full
        # collection does, would delay every request by a tenth of a second.
        gc.collect()
        gc.freeze()
        HttpServer(configured(app, **settings.way), state, started).run(sockets=[listener])


class HttpServer(uvicorn.Server):
    """Tells when it has started, and ends computations before it waits for open requests."""

    def __init__(
        self, config: uvicorn.Config, state: ServerState, tell: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(config)
        self._state, self._tell = state, tell

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections."""
        await super().startup(sockets)
        self._tell()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish open requests; those that wait for a computation are refused at once."""
        stop = self._state.stop_computing  # it waits, and is called again by `ServerState.close`
        threading.Thread(target=stop, name="stop-computing", daemon=True).start()
        await super().shutdown(sockets)


def check_processes(processes: int, data: Path, database: str | None) -> None:
    """Refuse several processes on SQLite, which has one writer."""
    if processes > 1 and database_url(data, database).get_backend_name() == "sqlite":
        rule = "1 with SQLite; several API processes need --database, of PostgreSQL"
        raise InvalidParameterError("processes", rule, processes)


def _provider(settings: OpenIdSettings) -> IdentityProvider:
    try:
        from wattveil.server.auth.openid import OpenIdProvider  # noqa: PLC0415 - needs the extra
    except ModuleNotFoundError as error:
        raise MissingExtraError("sign-in by OpenID Connect", "oidc") from error
    return OpenIdProvider(settings)


def transport(tls: tuple[Path | None, Path | None], behind_proxy: Sequence[str]) -> dict[str, Any]:
    """Return uvicorn's options for certificate and key, and for trusted proxies."""
    certificate, key = tls
    if (certificate is None) != (key is None):
        rule = "given together"
        raise InvalidParameterError("tls_certificate, tls_key", rule, "one of them")
    if certificate is not None and key is not None:
        check_pair(certificate, key)
    return {
        "proxy_headers": bool(behind_proxy),
        "forwarded_allow_ips": [_trusted_proxy(one) for one in behind_proxy],
        "ssl_certfile": certificate,
        "ssl_keyfile": key,
    }


def _trusted_proxy(text: str) -> str:
    """Return the address or network of a proxy in its usual form.

    uvicorn would take a host name or a misspelled address for a literal that no client has, and
    count all clients as one; a network of very many addresses would let every client state its own.
    """
    rule = "an IP address or a network in CIDR notation, such as 10.0.0.1 or 10.0.0.0/24"
    try:
        if "/" not in text:
            return str(ipaddress.ip_address(text))
        given = ipaddress.ip_interface(text)
    except ValueError:
        raise InvalidParameterError("behind_proxy", rule, text) from None
    network = given.network
    least = _MIN_PREFIX[network.version]
    if isinstance(network, ipaddress.IPv6Network) and network.overlaps(_IPV4_MAPPED):
        least = _IPV4_MAPPED.prefixlen + _MIN_PREFIX[4]
    if network.prefixlen < least:
        rule = (
            f"the network of a proxy, with a prefix of /{least} at least: headers of clients in a"
            " larger one could be forged"
        )
        raise InvalidParameterError("behind_proxy", rule, text)
    if given.ip != network.network_address:
        rule += f"; the network of this address is {network}"
        raise InvalidParameterError("behind_proxy", rule, text)
    return str(network)


def check_host(host: str, *, protected: bool) -> None:
    """Refuse plain HTTP beyond the loopback: tokens could be read in transit."""
    if not protected and host != "localhost":
        try:
            here = ipaddress.ip_address(host).is_loopback
        except ValueError:  # a name, of unknown address
            here = False
        if not here:
            without = "without --tls-certificate and without --behind-proxy"
            rule = f"a loopback address such as 127.0.0.1, {without}"
            raise InvalidParameterError("host", rule, host)


def configured(app: ASGIApp, **way: Any) -> uvicorn.Config:  # noqa: ANN401 - uvicorn's own
    """Return the configuration of uvicorn, without its own logs and headers."""
    return uvicorn.Config(
        app,
        http=TimeoutProtocol,
        loop=f"{ServerLoop.__module__}:{ServerLoop.__name__}",  # it limits connections
        access_log=False,  # it contains addresses as sent; the middleware logs route templates
        log_config=None,
        log_level="error",
        server_header=False,
        lifespan="off",
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        **way,
    )


def _listening(host: str, port: int) -> socket.socket:
    """Listen before anything else: a second server must not touch the ledger."""
    try:
        return socket.create_server((host, port), backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        code = getattr(error, "errno", None)
        if code == errno.EADDRINUSE:
            rule = f"a free one: port {port} is already in use"
            raise InvalidParameterError("port", rule, None) from None
        reason = "out of range" if code is None else os.strerror(code).lower()
        raise InvalidParameterError("host, port", f"free to listen on ({reason})", port) from None
