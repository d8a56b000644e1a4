"""The command `dossier`: what a regulator asks, answered from the files of a release."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from wattveil.bundle import keys
from wattveil.cli.option_groups import EXECUTION
from wattveil.dossier.clauses import ANSWERS_FILE, standard_names
from wattveil.dossier.dossier_document import (
    FILES,
    Dossier,
    make_dossier,
    read_answers,
    write_dossiers,
)
from wattveil.dossier.dossier_docx import dossier_docx
from wattveil.dossier.evidence import Evidence
from wattveil.errors import InvalidParameterError
from wattveil.terminal import Console, InvalidOption, plain, refusals, working
from wattveil.web.formatting import format_count

EPILOGS = {
    "dossier": (
        "Example: wattveil dossier bundle --standard nist-800-226 --standard ofgem --ledger"
        " ledger.jsonl --audit audit.json --key utility.key.pub --out dossier"
    )
}


def dossier(
    context: typer.Context,
    bundle: Annotated[
        Path,
        typer.Argument(help="Folder of `wattveil release`, or of a series."),
    ],
    *,
    standard: Annotated[
        list[str],
        typer.Option(
            help=f"One of {', '.join(standard_names())}. May be repeated: a document for each.",
            metavar="<standard>",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(help="New folder for the documents; several standards have a folder each."),
    ] = Path("dossier"),
    ledger: Annotated[
        Path | None, typer.Option(help="Export of `wattveil admin ledger export`.")
    ] = None,
    others: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            help="Another release or series about the same customers, for the total. May be"
            " repeated.",
            metavar="<folder>",
        ),
    ] = None,
    audit: Annotated[Path | None, typer.Option(help="Record of `wattveil audit --record`.")] = None,
    answers: Annotated[
        Path | None,
        typer.Option(help="Your answers: answers.toml of any earlier dossier, filled in."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Public key that must have signed the release.")
    ] = None,
    docx: Annotated[
        bool, typer.Option("--docx", help="Write dossier.docx too, for Word (extra `word`).")
    ] = False,
    sign: Annotated[
        Path | None,
        typer.Option(
            help="Private key that signs dossier.json; refused while files conflict, questions are"
            " open, or an audit is missing or inconclusive without a reason.",
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    inconclusive_reason: Annotated[
        str | None,
        typer.Option(
            help="With --sign: why a missing or inconclusive audit is accepted; stated in the"
            " dossier.",
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    real_ids_approved_by: Annotated[
        str | None,
        typer.Option(
            help="For labels under real ids: who approved their publication; stated in the"
            " dossier. Without it, real ids are a conflict under gdpr and ico.",
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the dossier as JSON.", rich_help_panel=EXECUTION)
    ] = False,
) -> None:
    """Write the dossier of a release for each standard; exit with 1 if its files conflict."""
    with refusals(context), working(Console(stderr=True)) as started:
        if inconclusive_reason is not None and (sign is None or not inconclusive_reason.strip()):
            rule = "a text, given with --sign"
            raise InvalidParameterError("inconclusive_reason", rule, inconclusive_reason)
        if real_ids_approved_by is not None and not real_ids_approved_by.strip():
            rule = "the name of a person"
            raise InvalidParameterError("real_ids_approved_by", rule, real_ids_approved_by)
        if out.exists() or not out.absolute().parent.is_dir():
            raise InvalidParameterError("out", "a new folder in one that exists", str(out))
        said = {} if answers is None else read_answers(answers)
        trusted = None if key is None else keys.read_public_key(key)
        signing = None if sign is None else keys.read_key(sign)
        started("reading")
        evidence = Evidence.read(
            bundle, ledger=ledger, audit=audit, trusted=trusted, others=others or ()
        )
        names = dict.fromkeys(standard)
        made = [
            make_dossier(
                evidence,
                name,
                answers=said,
                inconclusive_reason=inconclusive_reason,
                real_ids_approved_by=real_ids_approved_by,
            )
            for name in names
        ]
        if sign is not None:
            _check_complete(context, Console(stderr=True, soft_wrap=True), made)
        words = [dossier_docx(one) for one in made] if docx else []
        write_dossiers(made, out, answers=said, key=signing, words=words)
    if as_json:
        records = [one.to_json() for one in made]
        typer.echo(json.dumps(records if len(records) > 1 else records[0], indent=2))
    else:
        _show(Console(), made, out)
        if signing is not None:
            name = keys.fingerprint(signing.public_key())
            Console(soft_wrap=True).print(
                f"Signed by key {name}. To verify it: wattveil verify {plain(str(out))} --key"
                f" <public key> --bundle {plain(str(bundle))}",
                highlight=False,
            )
    if any(one.has_conflicts for one in made):
        raise typer.Exit(1)


def _check_complete(context: typer.Context, console: Console, made: Sequence[Dossier]) -> None:
    """Refuse, before anything is written, to sign what a signature must not stand under.

    All obstacles are named at once, one per line.
    """
    obstacles = []
    if conflicts := {found for one in made for found in one.conflicts if not found.is_warning}:
        obstacles += [f"Conflict: {text}" for text in sorted({found.text for found in conflicts})]
    if untested := {found for one in made for found in one.conflicts if found.is_untested}:
        obstacles += sorted({found.text for found in untested})
        obstacles[-1] += " If this is accepted, --inconclusive-reason must state the reason."
    if asked := _open_questions(made):
        verb = "is" if len(asked) == 1 else "are"
        remedy = f"Answer {'it' if len(asked) == 1 else 'them'} in {ANSWERS_FILE}."
        obstacles.append(f"{format_count(len(asked), 'question')} {verb} open. {remedy}")
    if obstacles:
        if len(obstacles) > 1:
            for obstacle in obstacles:
                console.print(f"- {plain(obstacle)}", highlight=False)
            obstacles = [f"{len(obstacles)} obstacles, listed above."]
        raise InvalidOption(f"Cannot sign: {obstacles[0]}", context)


def _open_questions(made: Sequence[Dossier]) -> set[str]:
    """Return the open questions of all standards; one that they share is one."""
    return {question for one in made for question in one.open_questions}


def _show(console: Console, made: Sequence[Dossier], out: Path) -> None:
    pages = []
    for one in made:
        filled, answerable = one.from_files
        console.print(
            f"{one.standard.id}: Answered from files: {filled} of"
            f" {format_count(answerable, 'clause')}. Questions left for you:"
            f" {len(one.open_questions)}.",
            highlight=False,
        )
        pages.append(out / one.standard.id / FILES[0] if len(made) > 1 else out / FILES[0])
    for found in dict.fromkeys(found for one in made for found in one.conflicts):
        colour = "yellow" if found.is_warning else "red"
        text = plain(f"{found.text} ({found.files})")
        console.print(f"[{colour}]{found.kind}[/] {text}", highlight=False)
    asked = _open_questions(made)
    if any(one.has_conflicts for one in made):
        console.print("The files conflict: not to be signed.", highlight=False)
    elif asked:
        console.print(
            f"{format_count(len(asked), 'question')} open: draft, not signed.", highlight=False
        )
    is_final = not asked and not any(one.has_conflicts for one in made)
    for page in pages:
        use = "read, print, sign" if is_final else "read             "
        console.print(f"  {use}  {plain(str(page))}", highlight=False)
    if asked:
        answers = plain(str(out / ANSWERS_FILE))
        console.print(
            f"  fill in            {answers}, then repeat the command with --answers",
            highlight=False,
        )
