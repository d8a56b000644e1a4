"""The command `serve`: start the server."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wattveil.cli.admin import Database, ledger_refusals
from wattveil.terminal import plain

EPILOGS = {"serve": "Example: wattveil serve --data server"}

_TLS = "TLS and proxies"
_HOST_HELP = "Address to listen on; other than loopback only with TLS or behind a proxy."


def serve(
    context: typer.Context,
    *,
    data: Annotated[Path, typer.Option(help="Folder of the server; private.")],
    database: Database = None,
    host: Annotated[str, typer.Option(help=_HOST_HELP)] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8400,
    compute_processes: Annotated[
        int, typer.Option(min=1, max=64, help="Releases that are computed at the same time.")
    ] = 1,
    tls_certificate: Annotated[
        Path | None,
        typer.Option(help="TLS certificate in PEM format; enables HTTPS.", rich_help_panel=_TLS),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(help="Private key of the certificate, in PEM format.", rich_help_panel=_TLS),
    ] = None,
    behind_proxy: Annotated[
        str | None,
        typer.Option(
            help="Address of a proxy whose X-Forwarded headers are trusted.", rich_help_panel=_TLS
        ),
    ] = None,
) -> None:
    """Serve releases to analysts, within budgets, until Ctrl-C. The first start prints a token."""
    console = Console(soft_wrap=True)
    with ledger_refusals(context):
        from wattveil.server.run import run  # noqa: PLC0415 - needs the extra

        run(
            data,
            database,
            host=host,
            port=port,
            tls=(tls_certificate, tls_key),
            behind_proxy=behind_proxy,
            compute_processes=compute_processes,
            echo=lambda text: console.print(plain(text), highlight=False),
        )
