"""Start and stop of the server process."""

import ipaddress
import os
import resource
import signal
import socket
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from wattveil.errors import InvalidParameterError, MissingExtraError
from wattveil.server.auth.identity_provider import IdentityProvider, OpenIdSettings
from wattveil.server.auth.principals import FIRST_ADMIN
from wattveil.server.http.app import make_app
from wattveil.server.http.connections import ServerLoop, TimeoutProtocol, raise_descriptor_limit
from wattveil.server.http.middleware import MAX_HEADER_BYTES
from wattveil.server.observe.json_logs import set_up_logs
from wattveil.server.observe.lifecycle_logs import log_start
from wattveil.server.observe.tracing import RequestTracer
from wattveil.server.server_state import ServerState

_ENDINGS = (signal.SIGINT, signal.SIGTERM)

_GRACE_SECONDS = 10
"""Time for open requests when the server is stopped."""


def run(
    data: Path,
    database: str | None,
    *,
    host: str,
    port: int,
    tls: tuple[Path | None, Path | None],
    behind_proxy: str | None,
    compute_processes: int = 1,
    echo: Callable[[str], None],
    openid: OpenIdSettings | None = None,
) -> None:
    """Serve a data folder. Returns when the server was stopped and has closed everything."""
    way = transport(tls, behind_proxy)
    check_host(host, protected=tls != (None, None) or behind_proxy is not None)
    provider = None if openid is None else _provider(openid)
    set_up_logs()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a memory dump would contain tokens
    raise_descriptor_limit()
    os.umask(0o077)  # files are readable by their owner alone
    data.mkdir(mode=0o700, exist_ok=True)
    for told in _ENDINGS:
        signal.signal(told, _end)
    with (
        RequestTracer.from_environment() or nullcontext() as tracer,
        _listening(host, port) as listener,
        ServerState.open(data, database, compute_processes=compute_processes) as state,
    ):
        if state.first_admin_token is not None:
            echo(f"Token of {FIRST_ADMIN}, shown this once: {state.first_admin_token}")
        scheme = "http" if tls == (None, None) else "https"
        url = f"{scheme}://{host}:{listener.getsockname()[1]}"
        echo(f"Serving {data} at {url}")
        log_start(url, data, database)
        config = configured(make_app(state, tracer=tracer, provider=provider), **way)
        uvicorn.Server(config).run(sockets=[listener])


def _provider(settings: OpenIdSettings) -> IdentityProvider:
    try:
        from wattveil.server.auth.openid import OpenIdProvider  # noqa: PLC0415 - needs the extra
    except ModuleNotFoundError as error:
        raise MissingExtraError("sign-in by OpenID Connect", "oidc") from error
    return OpenIdProvider(settings)


def transport(tls: tuple[Path | None, Path | None], behind_proxy: str | None) -> dict[str, Any]:
    """Return uvicorn's options for certificate and key, and for a trusted proxy."""
    certificate, key = tls
    if (certificate is None) != (key is None):
        rule = "given together"
        raise InvalidParameterError("tls_certificate, tls_key", rule, "one of them")
    for option, file in (("tls_certificate", certificate), ("tls_key", key)):
        if file is not None and not file.is_file():
            raise InvalidParameterError(option, "a file that exists, in PEM format", str(file))
    return {
        "proxy_headers": behind_proxy is not None,
        "forwarded_allow_ips": behind_proxy,
        "ssl_certfile": certificate,
        "ssl_keyfile": key,
    }


def check_host(host: str, *, protected: bool) -> None:
    """Refuse plain HTTP beyond the loopback: tokens could be read in transit."""
    if not protected and host != "localhost":
        try:
            here = ipaddress.ip_address(host).is_loopback
        except ValueError:  # a name, of unknown address
            here = False
        if not here:
            without = "without --tls-certificate and without --behind-proxy"
            rule = f"of the loopback, as 127.0.0.1 is, {without}"
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


def _end(_: int, __: FrameType | None) -> None:
    """Exit through the context managers; uvicorn has finished open requests before.

    A second signal must not interrupt the closing.
    """
    for told in _ENDINGS:
        signal.signal(told, signal.SIG_IGN)
    raise SystemExit(0)


def _listening(host: str, port: int) -> socket.socket:
    """Listen before anything else: a second server must not touch the ledger."""
    try:
        return socket.create_server((host, port), backlog=128)
    except (OSError, OverflowError) as error:
        code = getattr(error, "errno", None)
        reason = "out of range" if code is None else os.strerror(code).lower()
        raise InvalidParameterError("host, port", f"free to listen on ({reason})", port) from None
