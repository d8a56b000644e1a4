"""Start and stop: one process, until it is told to end."""

import asyncio
import ipaddress
import logging
import os
import resource
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from wattveil.errors import InvalidParameterError
from wattveil.serve.app import make_app
from wattveil.serve.connections import Connection
from wattveil.serve.house import House
from wattveil.serve.people import FIRST_ADMIN

_ENDINGS = (signal.SIGINT, signal.SIGTERM)

_GRACE_SECONDS = 10
"""For requests that are under way when the server is told to end."""
_MOST_CONNECTIONS = 500
_MOST_HEADER_BYTES = 32 * 1024


def run(
    data: Path,
    database: str | None,
    *,
    host: str,
    port: int,
    tls: tuple[Path | None, Path | None],
    behind_proxy: str | None,
    say: Callable[[str], None],
) -> None:
    """Serve a data folder. Returns when the server was told to end and has let go of everything."""
    way = transport(tls, behind_proxy)
    check_host(host, protected=tls != (None, None) or behind_proxy is not None)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)  # its steps would bury the first token
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump of memory would hold tokens
    os.umask(0o077)  # whoever made the folder: what is written there is for its owner alone
    data.mkdir(mode=0o700, exist_ok=True)
    for told in _ENDINGS:
        signal.signal(told, _end)
    with _listening(host, port) as listener, House.open(data, database) as house:
        if house.first_token is not None:
            say(f"Token of {FIRST_ADMIN}, shown this once: {house.first_token}")
        scheme = "http" if tls == (None, None) else "https"
        say(f"Serving {data} at {scheme}://{host}:{listener.getsockname()[1]}")
        config = configured(make_app(house), **way)
        asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


def transport(tls: tuple[Path | None, Path | None], behind_proxy: str | None) -> dict[str, Any]:
    """Return uvicorn's options for certificate and key, and for a proxy that is believed."""
    certificate, key = tls
    if (certificate is None) != (key is None):
        rule = "given together"
        raise InvalidParameterError("tls_certificate, tls_key", rule, "one of them")
    return {
        "proxy_headers": behind_proxy is not None,
        "forwarded_allow_ips": behind_proxy,
        "ssl_certfile": certificate,
        "ssl_keyfile": key,
    }


def check_host(host: str, *, protected: bool) -> None:
    """Refuse plain HTTP where others could listen: tokens would be read on the way."""
    if not protected and host != "localhost":
        try:
            here = ipaddress.ip_address(host).is_loopback
        except ValueError:  # a name: who knows where it leads
            here = False
        if not here:
            without = "without --tls-certificate and without --behind-proxy"
            rule = f"of the loopback, as 127.0.0.1 is, {without}"
            raise InvalidParameterError("host", rule, host)


def configured(app: ASGIApp, **way: Any) -> uvicorn.Config:  # noqa: ANN401 - uvicorn's own
    """Return how uvicorn serves us: it says and writes down nothing by itself."""
    return uvicorn.Config(
        app,
        http=Connection,
        access_log=False,  # addresses as they were sent; the guard writes its own lines
        log_config=None,
        log_level="error",
        server_header=False,
        lifespan="off",
        limit_concurrency=_MOST_CONNECTIONS,
        h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        **way,
    )


def _end(_: int, __: FrameType | None) -> None:
    """Leave by the way that closes everything; uvicorn has sent what was under way before.

    Whoever is impatient and says it again must not break off the closing.
    """
    for told in _ENDINGS:
        signal.signal(told, signal.SIG_IGN)
    raise SystemExit(0)


def _listening(host: str, port: int) -> socket.socket:
    """Take the address before anything else: a second server must not touch the ledger."""
    try:
        return socket.create_server((host, port), backlog=128)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or "out of range"
        raise InvalidParameterError("host, port", f"free to listen on ({reason})", port) from None
