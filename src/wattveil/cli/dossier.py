"""The command `dossier`: what a regulator asks, answered from the files of a release."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wattveil.bundle import keys
from wattveil.cli.option_groups import EXECUTION
from wattveil.dossier.clauses import standard_names
from wattveil.dossier.dossier_document import Dossier, make_dossier, read_answers, write_dossier
from wattveil.dossier.dossier_docx import dossier_docx
from wattveil.dossier.evidence import Evidence
from wattveil.errors import InvalidParameterError
from wattveil.terminal import plain, refusals, working

EPILOGS = {
    "dossier": (
        "Example: wattveil dossier bundle --standard nist-800-226 --ledger ledger.jsonl"
        " --audit audit.json --key utility.key.pub --out dossier"
    )
}


def dossier(
    context: typer.Context,
    bundle: Annotated[Path, typer.Argument(help="Folder that `wattveil release` wrote.")],
    *,
    standard: Annotated[str, typer.Option(help=f"One of {', '.join(standard_names())}.")],
    out: Annotated[Path, typer.Option(help="New folder for the documents.")] = Path("dossier"),
    ledger: Annotated[
        Path | None, typer.Option(help="Export of `wattveil admin ledger export`.")
    ] = None,
    audit: Annotated[Path | None, typer.Option(help="Record of `wattveil audit --record`.")] = None,
    answers: Annotated[
        Path | None,
        typer.Option(help="Your answers: answers.toml of an earlier dossier, filled in."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Public key that must have signed the release.")
    ] = None,
    docx: Annotated[
        bool, typer.Option("--docx", help="Write dossier.docx too, for Word (extra `word`).")
    ] = False,
    sign: Annotated[
        Path | None,
        typer.Option(help="Private key that signs dossier.json.", rich_help_panel=EXECUTION),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the dossier as JSON.", rich_help_panel=EXECUTION)
    ] = False,
) -> None:
    """Write the dossier of a release for a standard; exit with 1 if its files conflict."""
    with refusals(context), working(Console(stderr=True)) as started:
        if out.exists() or not out.absolute().parent.is_dir():
            raise InvalidParameterError("out", "a new folder in one that exists", str(out))
        said = {} if answers is None else read_answers(answers)
        trusted = None if key is None else keys.read_public_key(key)
        signing = None if sign is None else keys.read_key(sign)
        started("reading")
        evidence = Evidence.read(bundle, ledger=ledger, audit=audit, trusted=trusted)
        made = make_dossier(evidence, standard, answers=said)
        word = dossier_docx(made) if docx else None
        write_dossier(made, out, key=signing, word=word)
    if as_json:
        typer.echo(json.dumps(made.to_json(), indent=2))
    else:
        _show(Console(), made, out)
    if made.has_conflicts:
        raise typer.Exit(1)


def _show(console: Console, made: Dossier, out: Path) -> None:
    filled, answerable = made.from_files
    console.print(
        f"{filled} of the {answerable} clauses that files can answer are answered;"
        f" {len(made.open_questions)} questions for a person.",
        highlight=False,
    )
    for one in made.conflicts:
        colour = "yellow" if one.is_warning else "red"
        text = plain(f"{one.text} ({one.files})")
        console.print(f"[{colour}]{one.kind}[/] {text}", highlight=False)
    console.print(f"  read, print, sign  {plain(str(out / 'dossier.html'))}", highlight=False)
    console.print(f"  fill in            {plain(str(out / 'answers.toml'))}", highlight=False)
