"""The command `metadata`: records by which catalogues and registries find a release."""

import json
from pathlib import Path
from typing import Annotated

import typer

from wattveil.bundle.bundle_files import read_complete_manifest
from wattveil.bundle.catalogue_records import catalogue_records
from wattveil.bundle.verify.verify_bundle import verify_bundle
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.terminal import Console, plain, refusals

EPILOGS = {
    "metadata": (
        "Example: wattveil metadata bundle --url https://data.example/releases/1 --out metadata"
    )
}


def metadata(
    context: typer.Context,
    bundle: Annotated[Path, typer.Argument(help="Folder that `wattveil release` wrote.")],
    *,
    url: Annotated[str, typer.Option(help="Address at which the bundle is published.")],
    out: Annotated[Path, typer.Option(help="New folder for the records.")] = Path("metadata"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the files as JSON.")] = False,
) -> None:
    """Write Croissant, DCAT-AP, a dataset card, a citation file and a registry record.

    The bundle is verified first. If a check fails, no records are written.
    """
    with refusals(context):
        if not url.startswith(("https://", "http://")) or not url.isprintable() or " " in url:
            raise InvalidParameterError("url", "an address that begins with https://", url)
        if out.exists() or not out.absolute().parent.is_dir():
            raise InvalidParameterError("out", "a new folder in one that exists", str(out))
        _check(bundle)
        records = catalogue_records(read_complete_manifest(bundle), url.rstrip("/"))
        out.mkdir()
        for name, text in records.items():
            (out / name).write_text(text, encoding="utf-8")
    if as_json:
        typer.echo(json.dumps({"out": str(out), "files": [*records]}, indent=2))
    else:
        Console().print(f"{', '.join(records)} in {plain(str(out))}", highlight=False)


def _check(bundle: Path) -> None:
    """Refuse a bundle that fails a check: the records repeat what its manifest claims."""
    failed = [one.check for one in verify_bundle(bundle).findings if not one.holds]
    if failed:
        rule = "a bundle that `wattveil verify` accepts"
        raise InvalidFileError(bundle, "bundle", rule, f"failed check: {failed[0]}")
