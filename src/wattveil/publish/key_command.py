"""The verb `admin key`."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wattveil.publish import keys
from wattveil.terminal import plain, refusals

EPILOG = "Example: wattveil admin key --out utility.key"


def key(
    *,
    out: Annotated[Path, typer.Option(help="New file for the private key.")] = Path("utility.key"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as JSON.")
    ] = False,
) -> None:
    """Make a key to sign releases with, and the public half for those who check them."""
    with refusals():
        public = keys.write_key(out)
        name = keys.fingerprint(keys.read_public_key(public))
    if as_json:
        typer.echo(json.dumps({"private": str(out), "public": str(public), "name": name}, indent=2))
        return
    console = Console(soft_wrap=True)
    console.print(f"[bold]Private key[/] {plain(str(out))}: keep it. Who has it signs for you.")
    console.print(f"[bold]Public key[/]  {plain(str(public))}: publish it, with its name {name}.")
