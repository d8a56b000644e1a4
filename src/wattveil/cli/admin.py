"""The commands `admin` and `admin ledger`: administration of a server and of its ledger.

Commands that change data sets, budgets and principals send requests to a running server. The others
work on its data folder: they need file access and no token.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wattveil.errors import InvalidParameterError, MissingExtraError
from wattveil.terminal import Console, plain, private_files, refusals
from wattveil.web.formatting import format_count

if TYPE_CHECKING:
    from wattveil.server.client_transport import Transport

EPILOGS = {
    "token": "Example: wattveil admin token --data server --name owner --role admin",
    "profiles": "Example: wattveil admin profiles regions/ --data server --name homes",
    "analyst": "Example: wattveil admin analyst --name ann",
    "tokens": "Example: wattveil admin tokens --name ann",
    "revoke": "Example: wattveil admin revoke --name ann",
    "disable": "Example: wattveil admin disable --name ann",
    "close": "Example: wattveil admin close --dataset homes --reason 'replaced by homes-2025'",
    "key": "Example: wattveil admin key --out utility.key",
    "audit": "Example: wattveil admin ledger audit --data server",
    "export": "Example: wattveil admin ledger export --data server --out ledger.jsonl",
    "accept": (
        "Example: wattveil admin ledger accept --data server --by owner"
        " --reason 'disk lost on 3 May, backup of 2 May restored'"
    ),
}

TOKEN_VARIABLE = "WATTVEIL_TOKEN"  # noqa: S105 - the name of a variable
LOCAL_SERVER = "http://127.0.0.1:8400"
_DEFAULT_TOKEN_DAYS = 90

Data = Annotated[Path, typer.Option(help="Data folder of the server.")]
Database = Annotated[
    str | None,
    typer.Option(
        help="postgresql://host/name; the password is read from the file that PGPASSFILE names."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Url = Annotated[
    str,
    typer.Option(
        envvar="WATTVEIL_URL",
        help=f"Address of the server; the token is read from {TOKEN_VARIABLE}.",
    ),
]
Reason = Annotated[str, typer.Option(help="Reason, recorded in the ledger.")]


# --- commands that send requests to a server ------------------------------------------------------


def close(
    *,
    dataset: Annotated[str, typer.Option(help="Name of the data set.")],
    reason: Reason,
    url: Url = LOCAL_SERVER,
    as_json: AsJson = False,
) -> None:
    """Close a data set permanently; its releases stay readable."""
    response = post(url, ("datasets", dataset, "close"), {"reason": reason})
    print_result(response, f"{dataset} is closed.", as_json=as_json)


def analyst(
    *,
    name: Annotated[str, typer.Option(help="Name of the analyst.")],
    days: Annotated[int, typer.Option(help="Validity of the token.")] = _DEFAULT_TOKEN_DAYS,
    url: Url = LOCAL_SERVER,
    as_json: AsJson = False,
) -> None:
    """Create an analyst, and print the token, once."""
    created = post(url, ("principals",), {"name": name, "token_days": days})
    text = f"Token of {name}, valid for {days} days, shown only once: {created['token']}"
    print_result(created, text, as_json=as_json)


def revoke(
    *,
    name: Annotated[str, typer.Option(help="Name of the principal.")],
    number: Annotated[
        int | None, typer.Option(help="Number of one token, as `tokens` lists it; default: all.")
    ] = None,
    url: Url = LOCAL_SERVER,
    as_json: AsJson = False,
) -> None:
    """Revoke every token of a principal, or one of them, and end their sessions."""
    one = () if number is None else ("tokens", str(number))
    response = post(url, ("principals", name, *one, "revoke"), {})
    text = f"{name} has no valid token." if number is None else f"Token {number} is revoked."
    print_result(response, text, as_json=as_json)


def tokens(
    *,
    name: Annotated[str, typer.Option(help="Name of the principal.")],
    url: Url = LOCAL_SERVER,
    as_json: AsJson = False,
) -> None:
    """List the valid tokens of a principal by number; their texts are not stored."""
    with refusals():
        found = _transport(url).get(_address("principals", name, "tokens"))
    lines = [
        f"{one['id']}: issued {one['made_at'][:19]}, valid until {one['expires_at'][:19]}"
        for one in found["tokens"]
    ]
    print_result(found, "\n".join(lines) or f"{name} has no valid token.", as_json=as_json)


def disable(
    *,
    name: Annotated[str, typer.Option(help="Name of the principal.")],
    url: Url = LOCAL_SERVER,
    as_json: AsJson = False,
) -> None:
    """Disable a principal permanently; its charges stay in the ledger."""
    response = post(url, ("principals", name, "disable"), {})
    print_result(response, f"{name} is disabled.", as_json=as_json)


def post(url: str, path: tuple[str, ...], body: Mapping[str, Any]) -> dict[str, Any]:
    """Send a request of an administrator; a refusal is printed, and ends the command."""
    with refusals():
        return _transport(url).post(_address(*path), body)


def get(url: str, path: tuple[str, ...]) -> dict[str, Any]:
    """Send a request that changes nothing, below `/v1`; a refusal is printed."""
    with refusals():
        return _transport(url).get(_address(*path, below="/v1/"))


def _transport(url: str) -> "Transport":
    """Return the connection of an administrator to a server."""
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token:  # other processes can read secrets on a command line
        rule = "set to the token of an administrator: `wattveil admin token` issues one"
        raise InvalidParameterError(TOKEN_VARIABLE, rule, None)
    from wattveil.server.client_transport import Transport  # noqa: PLC0415 - with the network

    return Transport(url, token)


def _address(*path: str, below: str = "/v1/admin/") -> str:
    from wattveil.server.client_transport import Transport  # noqa: PLC0415 - with the network

    return below + "/".join(Transport.quoted(part) for part in path)


def print_result(result: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Print the result of a command, as JSON or as text."""
    typer.echo(json.dumps(result) if as_json else text)


# --- commands that work on files ------------------------------------------------------------------


@contextmanager
def ledger_refusals(context: typer.Context | None = None) -> Iterator[None]:
    """Turn refusals and a missing extra into a message; what is written is for its owner alone."""
    with private_files(), refusals(context):
        try:
            yield
        except ModuleNotFoundError as error:
            raise MissingExtraError("the ledger", "serve") from error


def token(
    context: typer.Context,
    *,
    name: Annotated[str, typer.Option(help="Name of the principal; created if it is new.")],
    role: Annotated[str, typer.Option(help="admin, analyst, or monitor for metrics alone.")],
    days: Annotated[int, typer.Option(help="Validity of the token.")] = _DEFAULT_TOKEN_DAYS,
    data: Data = Path(),
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Print a new token of a principal, once; needs file access, also while the server runs."""
    with ledger_refusals(context):
        from wattveil import checks  # noqa: PLC0415 - loads NumPy
        from wattveil.server.auth import principals  # noqa: PLC0415 - needs the extra
        from wattveil.server.ledger.administration import PrincipalKind  # noqa: PLC0415

        kind = checks.enum_value("role", role, PrincipalKind)
        text = principals.issue_token_locally(data, database, name, role=kind, days=days)
    until = (datetime.now(UTC) + timedelta(days=days)).date().isoformat()
    result = {"name": name, "role": role, "token": text, "valid_until": until}
    shown = f"Token of {name}, valid until {until}, shown only once: {text}"
    print_result(result, shown, as_json=as_json)


def profiles(
    context: typer.Context,
    source: Annotated[
        list[str],
        typer.Argument(
            help="Files of `wattveil profiles`, or folders of them; with --sql, one database."
        ),
    ],
    *,
    name: Annotated[str, typer.Option(help="Name of the file, without .parquet.")],
    sql: Annotated[
        str | None,
        typer.Option(
            help="Query for customer_id, kw_1, kw_2, ... and attributes, one row per customer."
        ),
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="With --sql: IANA zone of the profile's hours.")
    ] = None,
    grid_minutes: Annotated[int, typer.Option(help="With --sql: length of an interval.")] = 60,
    split: Annotated[str, typer.Option(help="With --sql: as for `wattveil profiles`.")] = "day",
    data: Data = Path(),
    as_json: AsJson = False,
) -> None:
    """Write profiles from several files or from a query to one file of a server.

    The source is read once: later changes do not reach the server. Readings are no profiles yet:
    use `wattveil profiles`, which reads queries too.
    """
    with ledger_refusals(context):
        from wattveil.bundle import registered_profiles  # noqa: PLC0415 - needs the extra
        from wattveil.server.datasets import FOLDER  # noqa: PLC0415
        from wattveil.server.ledger.order import check_name  # noqa: PLC0415

        folder = data / FOLDER
        out = folder / f"{check_name('name', name)}.parquet"
        if not data.is_dir():
            raise InvalidParameterError("data", "a folder that exists", str(data))
        folder.mkdir(mode=0o700, exist_ok=True)
        if sql is None:
            found = registered_profiles.gather_profiles([Path(one) for one in source])
        elif timezone is None or len(source) > 1:
            rule = "one database, with --timezone, when --sql is given"
            raise InvalidParameterError("source, timezone", rule, timezone)
        else:
            found = registered_profiles.query_profiles(
                source[0], sql, timezone=timezone, minutes=grid_minutes, split=split
            )
        registered_profiles.keep_profiles(found, out)
    text = (
        f"{out} is written. Private: exact values without protection; do not publish. Register it"
        f" with --file {out.name}."
    )
    print_result({"private": True, "out": str(out)}, text, as_json=as_json)


def key(
    context: typer.Context,
    *,
    out: Annotated[Path, typer.Option(help="New file for the private key.")] = Path("utility.key"),
    as_json: AsJson = False,
) -> None:
    """Create a key pair for signing releases."""
    from wattveil.bundle import keys  # noqa: PLC0415 - loaded when it is used

    with refusals(context):
        public = keys.write_key(out)
        name = keys.fingerprint(keys.read_public_key(public))
    if as_json:
        typer.echo(json.dumps({"private": str(out), "public": str(public), "name": name}, indent=2))
        return
    console = Console(soft_wrap=True)
    console.print(
        f"[bold]Private key[/] {plain(str(out))}: keep it secret; anyone who has it can sign"
        " releases."
    )
    console.print(f"[bold]Public key[/]  {plain(str(public))}: publish it; fingerprint {name}.")


# --- commands of `admin ledger` -------------------------------------------------------------------


def audit(
    context: typer.Context,
    *,
    data: Data = Path(),
    database: Database = None,
    exported: Annotated[
        Path | None, typer.Option("--export", help="Check this export instead of a database.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute and check a ledger: chain, sums, caps, payers, releases."""
    with ledger_refusals(context):
        from wattveil.server.ledger import ledger_audit  # noqa: PLC0415 - needs the extra

        if exported is None:
            findings = ledger_audit.audit_folder(data, database)
        else:
            findings = ledger_audit.audit_export(exported)
    sound = all(finding.holds for finding in findings)
    if as_json:
        result = {"sound": sound, "findings": [vars(finding) for finding in findings]}
        typer.echo(json.dumps(result, indent=2))
    else:
        console = Console()
        for finding in findings:
            mark = "[green]holds[/]" if finding.holds else "[red]BROKEN[/]"
            console.print(f"{mark}  {finding.check}: {plain(finding.seen)}", highlight=False)
    if not sound:
        raise typer.Exit(1)


def export(
    context: typer.Context,
    *,
    out: Annotated[Path, typer.Option(help="New file: one line of JSON per entry.")],
    data: Data = Path(),
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Write every entry of a ledger to a file that can be checked without the database."""
    with ledger_refusals(context):
        from wattveil.server.ledger import ledger_audit  # noqa: PLC0415 - needs the extra

        count = ledger_audit.export_folder(data, database, out)
    result = {"out": str(out), "entries": count}
    print_result(result, f"{format_count(count, 'entry')} in {out}", as_json=as_json)


def accept(
    context: typer.Context,
    *,
    by: Annotated[str, typer.Option(help="The administrator who decides.")],
    reason: Annotated[str, typer.Option(help="What happened; recorded in the ledger.")],
    data: Data = Path(),
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Accept a database that has lost entries; all remaining budget counts as spent."""
    with ledger_refusals(context):
        from wattveil.server.ledger.database import check_no_password  # noqa: PLC0415 - the extra
        from wattveil.server.ledger.ledger import Ledger  # noqa: PLC0415
        from wattveil.server.server_state import held  # noqa: PLC0415

        check_no_password(database)
        if not data.is_dir():
            raise InvalidParameterError("data", "a folder that exists", str(data))
        with held(data):
            journals = Ledger.accept(data, database, by=by, reason=reason)
    number = format_count(journals, "journal")
    text = f"Accepted: {number}, whose remaining budget counts as spent"
    print_result({"journals": journals}, text, as_json=as_json)
