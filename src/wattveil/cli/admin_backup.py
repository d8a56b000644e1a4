"""The commands `admin backup` and `admin restore`."""

from pathlib import Path
from typing import Annotated

import typer

from wattveil.cli.admin import AsJson, Data, Database, ledger_refusals, print_result
from wattveil.errors import InvalidParameterError
from wattveil.web.formatting import format_count

EPILOGS = {
    "backup": "Example: wattveil admin backup --data server --out backup-monday",
    "restore": "Example: wattveil admin restore backup-monday --data server",
}


def backup(
    context: typer.Context,
    *,
    out: Annotated[Path, typer.Option(help="New folder; private, as it contains the keys.")],
    keep: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Remove the oldest backups of this server beside --out, so that this many remain.",
        ),
    ] = None,
    data: Data = Path(),
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Back up ledger, bundles and keys, also while the server runs. Profiles are not included.

    Exits with 1 if a bundle that the ledger names is missing or changed, or the private state of a
    series is missing; the rest is backed up.
    """
    with ledger_refusals(context):
        from wattveil.server.backup.write_backup import write_backup  # noqa: PLC0415 - needs the extra

        done = write_backup(data, database, out, keep=keep)
    result = {
        "out": str(done.out),
        "entries": done.entries,
        "bundles": done.bundles,
        "damaged": list(done.damaged),
        "without_state": list(done.without_state),
        "removed": list(done.removed),
    }
    found = f"{format_count(done.entries, 'entry')} and {format_count(done.bundles, 'bundle')}"
    text = f"{found} in {out}. Private: it contains the keys. Store it encrypted, elsewhere."
    if done.removed:
        text += f" Removed: {', '.join(done.removed)}."
    print_result(result, text, as_json=as_json)
    if done.damaged:
        typer.echo(f"Missing or changed bundles: {', '.join(done.damaged)}", err=True)
    if done.without_state:
        lacking = f"Series without their private state: {', '.join(done.without_state)}"
        typer.echo(f"{lacking}. Is the folder `series` mounted?", err=True)
    if done.damaged or done.without_state:
        raise typer.Exit(1)


def restore(
    context: typer.Context,
    backup: Annotated[Path, typer.Argument(help="Folder of `wattveil admin backup`.")],
    *,
    data: Data = Path(),
    database: Database = None,
    high_water_mark: Annotated[
        Path | None,
        typer.Option(
            help="ledger.heads of the lost server as it was at its end, if --data has none."
        ),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="The administrator who accepts that charges are lost.")
    ] = None,
    reason: Annotated[
        str | None, typer.Option(help="What happened; recorded in the ledger.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Restore a backup into a data folder without a ledger. No charge is forgotten.

    A backup that lacks charges or data sets of the high-water mark is refused, and so is any backup
    without a mark. With --by and --reason it is restored, and all remaining budget that may have
    been spent counts as spent. All tokens are revoked: issue new ones with `admin token`.
    """
    with ledger_refusals(context):
        from wattveil.server.backup.restore_backup import (  # noqa: PLC0415 - needs the extra
            AcceptedLoss,
            restore_backup,
        )

        if (by is None) != (reason is None):
            raise InvalidParameterError("by, reason", "given together", by or reason)
        loss = None if by is None or reason is None else AcceptedLoss(by=by, reason=reason)
        done = restore_backup(backup, data, database, mark=high_water_mark, loss=loss)
    result = {
        "made_at": done.made_at,
        "journals_lost": done.journals_lost,
        "tokens_revoked": done.tokens_revoked,
        "missing_profiles": list(done.missing_profiles),
        "missing_bundles": list(done.missing_bundles),
    }
    lines = [f"The backup of {done.made_at} is restored."]
    if loss is not None:
        number = format_count(done.journals_lost, "journal")
        lines.append(f"Remaining budget of {number} counts as spent.")
    number = format_count(done.tokens_revoked, "token")
    were = "was" if done.tokens_revoked == 1 else "were"
    lines.append(f"{number} {were} revoked; issue new ones with `wattveil admin token`.")
    lines.append(
        "Repeat each erasure from a series after the backup (`wattveil admin series erase`):"
        " periods of the series fail until then."
    )
    if done.missing_profiles:
        lines.append(f"Put back into profiles/: {', '.join(done.missing_profiles)}")
    if done.missing_bundles:
        lines.append(f"Bundles that the backup lacks: {', '.join(done.missing_bundles)}")
    print_result(result, "\n".join(lines), as_json=as_json)
