"""The command `serve`: start the server."""

import difflib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wattveil.cli.admin import Database, ledger_refusals
from wattveil.errors import InvalidParameterError
from wattveil.terminal import Console, plain

if TYPE_CHECKING:
    from wattveil.server.auth.identity_provider import OpenIdSettings

EPILOGS = {"serve": "Example: wattveil serve --data server"}
VARIABLES = {"serve": "WATTVEIL_SERVE"}
"""Prefix of the environment variables from which the options of a command are read."""

_TLS = "TLS and proxies"
_OIDC = "Sign-in by an OpenID Connect provider"
_HOST_HELP = "Address to listen on; other than loopback only with TLS or behind a proxy."


def serve(
    context: typer.Context,
    *,
    data: Annotated[Path, typer.Option(help="Folder of the server; private.")],
    database: Database = None,
    host: Annotated[str, typer.Option(help=_HOST_HELP)] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8400,
    processes: Annotated[
        int,
        typer.Option(min=1, max=64, help="API processes; several need a PostgreSQL database."),
    ] = 1,
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
        list[str] | None,
        typer.Option(
            help="IP address or network (CIDR) of a proxy whose X-Forwarded headers are trusted;"
            " may be repeated.",
            rich_help_panel=_TLS,
        ),
    ] = None,
    oidc_issuer: Annotated[
        str | None,
        typer.Option(help="Issuer URL, as in the metadata of the provider.", rich_help_panel=_OIDC),
    ] = None,
    oidc_client_id: Annotated[
        str | None,
        typer.Option(help="Client ID of this server at the provider.", rich_help_panel=_OIDC),
    ] = None,
    oidc_client_secret_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the secret of the client; none for a public client.",
            rich_help_panel=_OIDC,
        ),
    ] = None,
    oidc_audience: Annotated[
        str | None,
        typer.Option(
            help="Audience of JWTs that the API accepts in addition to tokens; none by default.",
            rich_help_panel=_OIDC,
        ),
    ] = None,
    oidc_groups_claim: Annotated[
        str, typer.Option(help="Claim that lists the groups.", rich_help_panel=_OIDC)
    ] = "groups",
    oidc_admin_group: Annotated[
        list[str] | None,
        typer.Option(help="Group of administrators; may be repeated.", rich_help_panel=_OIDC),
    ] = None,
    oidc_analyst_group: Annotated[
        list[str] | None,
        typer.Option(help="Group of analysts; may be repeated.", rich_help_panel=_OIDC),
    ] = None,
) -> None:
    """Serve releases to analysts, within budgets, until Ctrl-C. The first start prints a token.

    The token is printed to a terminal only. Elsewhere, `wattveil admin token` issues one.
    Every option can be given as an environment variable instead, --tls-key as
    WATTVEIL_SERVE_TLS_KEY; values of a repeated one are separated by spaces.
    """
    console = Console(soft_wrap=True)
    with ledger_refusals(context):
        _check_variables(context)
        from wattveil.server.observe.lifecycle_logs import logged_stop  # noqa: PLC0415 - the extra
        from wattveil.server.run import run  # noqa: PLC0415

        logged_stop(data)(run)(
            data,
            database,
            host=host,
            port=port,
            tls=(tls_certificate, tls_key),
            behind_proxy=tuple(behind_proxy or ()),
            processes=processes,
            compute_processes=compute_processes,
            echo=lambda text: console.print(plain(text), highlight=False),
            shows_token=sys.stdout.isatty(),
            openid=_openid(
                oidc_issuer,
                oidc_client_id,
                secret_file=oidc_client_secret_file,
                audience=oidc_audience,
                groups_claim=oidc_groups_claim,
                admin_groups=oidc_admin_group or [],
                analyst_groups=oidc_analyst_group or [],
            ),
        )


def _check_variables(context: typer.Context) -> None:
    """Refuse a variable that sets no option: it may be a misspelled protection of the server."""
    prefix = f"{VARIABLES['serve']}_"
    known = [f"{prefix}{one.name.upper()}" for one in context.command.params if one.name != "help"]
    for name in sorted(os.environ):
        if name.startswith(prefix) and name not in known:
            rule = "unset: `wattveil serve` has no option of this name"
            if near := difflib.get_close_matches(name, known, n=1):
                rule += f"; did you mean {near[0]}?"
            raise InvalidParameterError(name, rule, None)


def _openid(
    issuer: str | None,
    client_id: str | None,
    *,
    secret_file: Path | None,
    audience: str | None,
    groups_claim: str,
    admin_groups: list[str],
    analyst_groups: list[str],
) -> "OpenIdSettings | None":
    """Return the settings of the provider; None without one."""
    from wattveil.server.auth.identity_provider import OpenIdSettings  # noqa: PLC0415 - the extra

    if issuer is None or client_id is None:
        if any((issuer, client_id, secret_file, audience, admin_groups, analyst_groups)):
            rule = "given: both are required when any OIDC option is set"
            raise InvalidParameterError("oidc_issuer, oidc_client_id", rule, issuer or client_id)
        return None
    if secret_file is not None and not secret_file.is_file():
        raise InvalidParameterError("oidc_client_secret_file", "a file", str(secret_file))
    return OpenIdSettings(
        issuer=issuer,
        client_id=client_id,
        client_secret=None if secret_file is None else secret_file.read_text().strip(),
        audience=audience,
        groups_claim=groups_claim,
        admin_groups=frozenset(admin_groups),
        analyst_groups=frozenset(analyst_groups),
    )
