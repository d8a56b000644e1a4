"""The dossier as a document: a page to print and sign, Markdown to edit, JSON to process.

Questions that only a person can answer, and what is missing in the files, are blanks. They are also
written to a TOML file, one for all standards: answers that are filled in there stand in the next
dossier.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from wattveil.bundle.keys import canonical, sign
from wattveil.dossier.clauses import (
    ANSWERS_FILE,
    Answer,
    AnsweredClause,
    Block,
    Standard,
    answer_clauses,
    known_questions,
    read_standard,
)
from wattveil.dossier.conflicts import Conflict, find_conflicts, keys_agree
from wattveil.dossier.evidence import Evidence
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.release.weak_guarantees import REAL_IDS
from wattveil.web.formatting import escape_markdown
from wattveil.web.pages import PageTable, render_file

FILES = ("dossier.html", "dossier.md", "dossier.json")
DOSSIER_VERSION = "3"
BLANK = "______________________________"


@dataclass(frozen=True, kw_only=True)
class Dossier:
    """Every clause of a standard with its answers, and what is wrong with the files."""

    standard: Standard
    evidence: Evidence
    clauses: Sequence[AnsweredClause]
    conflicts: Sequence[Conflict]
    made_at: datetime

    @property
    def has_conflicts(self) -> bool:
        """Whether there is more than warnings."""
        return not all(one.is_warning for one in self.conflicts)

    @property
    def from_files(self) -> tuple[int, int]:
        """How many clauses that files can answer are filled, and how many there are."""
        answerable = [one for one in self.clauses if one.clause.answers]
        return sum(one.is_filled for one in answerable), len(answerable)

    @property
    def open_questions(self) -> tuple[str, ...]:
        """Questions that a person has not answered yet, those of missing fields included."""
        open_ones = (
            name for one in self.clauses for name, said in one.all_said.items() if not said
        )
        return tuple(dict.fromkeys(open_ones))

    @property
    def internal_because(self) -> tuple[str, ...]:
        """Why it is not for publication; empty if it may be published.

        What is not surely public is internal: only a public record of simulated homes, signed by
        the key of the release, may be quoted to everybody.
        """
        audit, reasons = self.evidence.audit, []
        if audit is not None:
            if audit["customers"] != "simulated":
                reasons += ["quotes an audit of real customers"]
            elif audit["visibility"] != "public":
                reasons += ["quotes an audit that is not marked public"]
            elif not keys_agree(self.evidence.manifest, audit):
                reasons += ["quotes an audit that the key of the release did not sign"]
        if self.evidence.ledger is not None:
            reasons += ["states caps and entries of a ledger"]
        return tuple(reasons)

    @property
    def is_internal(self) -> bool:
        """Whether it is not for publication."""
        return bool(self.internal_because)

    @property
    def banners(self) -> tuple[str, ...]:
        """The lines that mark an internal dossier, and a release under real ids; often none."""
        because = "; ".join(self.internal_because)
        return (
            *((f"INTERNAL, not for publication: {because}.",) if because else ()),
            *((REAL_IDS,) if self.evidence.has_real_ids else ()),
        )

    def to_json(self) -> dict[str, object]:
        """Return the dossier as JSON values."""
        filled, answerable = self.from_files
        return {
            "dossier_version": DOSSIER_VERSION,
            "standard": self.standard.id,
            "title": self.standard.title,
            "edition": self.standard.edition,
            "source": self.standard.source,
            "release_id": self.evidence.manifest["release_id"],
            "manifest_sha256": manifest_digest(self.evidence.manifest),
            "made_at": self.made_at.isoformat(timespec="seconds"),
            "visibility": "internal" if self.is_internal else "public",
            "internal_because": list(self.internal_because),
            "software": f"wattveil {version('wattveil')}",
            "real_ids": self.evidence.has_real_ids,
            "tier": self.evidence.manifest["guarantee"]["tier"],
            "clauses_filled_from_files": filled,
            "clauses_answerable_from_files": answerable,
            "open_questions": len(self.open_questions),
            "conflicts": [
                {"kind": one.kind, "text": one.text, "files": one.files} for one in self.conflicts
            ],
            "clauses": [_clause_json(one) for one in self.clauses],
        }


def manifest_digest(manifest: Mapping[str, object]) -> str:
    """Return the SHA-256 of a manifest, however its file is formatted."""
    return hashlib.sha256(canonical(manifest)).hexdigest()


def make_dossier(
    evidence: Evidence,
    standard: str,
    *,
    answers: Mapping[str, str],
    inconclusive_reason: str | None = None,
    real_ids_approved_by: str | None = None,
    now: datetime | None = None,
) -> Dossier:
    """Answer the clauses of a standard from the evidence and a person's answers.

    ``inconclusive_reason`` is why an audit that is missing or had no power to refute a claim is
    accepted; it is stated beside each. ``real_ids_approved_by`` is who approved labels under real
    ids, which conflict with a standard about anonymity otherwise.
    """
    made_at = datetime.now(UTC) if now is None else now
    chosen = read_standard(standard)
    if unknown := {name for name, said in answers.items() if said} - known_questions(evidence):
        raise InvalidParameterError("answers", "given for questions of a standard", min(unknown))
    if real_ids_approved_by is not None and not evidence.has_real_ids:
        rule = "omitted: the release has no real ids"
        raise InvalidParameterError("real_ids_approved_by", rule, real_ids_approved_by)
    conflicts = find_conflicts(
        evidence,
        made_at.date(),
        chosen,
        said=answers,
        real_ids_approved_by=real_ids_approved_by,
    )
    if inconclusive_reason is not None:
        stated = f"Accepted by the signatory, because: {inconclusive_reason}"
        conflicts = tuple(
            replace(one, text=f"{one.text} {stated}", is_untested=False) if one.is_untested else one
            for one in conflicts
        )
    return Dossier(
        standard=chosen,
        evidence=evidence,
        clauses=answer_clauses(chosen, evidence, answers),
        conflicts=conflicts,
        made_at=made_at,
    )


def read_answers(path: Path) -> dict[str, str]:
    """Read a person's answers: questions and texts; an empty text is an open question."""
    try:
        record = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        remedy = (
            'Write \\" for a quotation mark inside an answer, and keep each answer on one line'
            " between quotation marks"
        )
        raise InvalidFileError(path, "content", "TOML", str(error), remedy=remedy) from error
    for question, said in record.items():
        if not isinstance(said, str):
            raise InvalidFileError(path, question, "a text", type(said).__name__)
    return record


def write_dossiers(
    dossiers: Sequence[Dossier],
    out: Path,
    *,
    answers: Mapping[str, str],
    key: Ed25519PrivateKey | None = None,
    words: Sequence[bytes] = (),
) -> None:
    """Write dossiers of one release to a new folder, for its owner alone if one is internal.

    Parameters
    ----------
    out
        Several dossiers have a folder in it each, by standard; the answers are in one file.
    answers
        A person's answers so far: those to other standards are kept.
    key
        Signs the JSON files, which state the digests of the other files; None leaves drafts.
    words
        The documents for Word, if there are any.
    """
    if out.exists():
        raise InvalidParameterError("out", "a new folder", str(out))
    contents = {ANSWERS_FILE: answers_text(dossiers, answers).encode()}
    for number, one in enumerate(dossiers):
        texts = [dossier_page(one), dossier_markdown(one)]
        digests = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        record = {**one.to_json(), "files": dict(zip(FILES[:-1], digests, strict=True))}
        if key is not None:
            record["signature"] = sign(record, key)
        texts.append(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        inside = f"{one.standard.id}/" if len(dossiers) > 1 else ""
        for name, written in zip(FILES, texts, strict=True):
            contents[f"{inside}{name}"] = written.encode()
        if words:
            contents[f"{inside}dossier.docx"] = words[number]
    is_internal = any(one.is_internal for one in dossiers)
    for name, content in contents.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600 if is_internal else 0o666)
        path.write_bytes(content)


def dossier_page(dossier: Dossier) -> str:
    """Return the page: standalone, to be filled in, printed and signed."""
    return render_file("dossier.html", **_shown(dossier))


def dossier_markdown(dossier: Dossier) -> str:
    """Return the dossier as Markdown, for any editor; what files and people say is escaped."""
    shown = _shown(dossier)
    lines = [
        f"# {escape_markdown(str(shown['title']))}",
        "",
        escape_markdown(str(shown["byline"])),
        "",
    ]
    for line in dossier.banners:
        lines += [f"**{line}**", ""]
    lines += ["## Conflicts and warnings", ""]
    lines += [
        f"* **{one.kind.upper()}**: {escape_markdown(one.text)} ({one.files})"
        for one in dossier.conflicts
    ] or ["None."]
    for one in dossier.clauses:
        lines += ["", f"## {one.clause.heading}", ""]
        for answer in one.answers:
            for block in answer.blocks:
                lines += _block_lines(block)
            if answer.blocks:
                lines += [f"*Source: {cited(answer)}.*", ""]
            lines += [
                f"* **Missing** ({gap.remedy}): {gap.question} {BLANK}"
                for gap in one.missing(answer)
            ]
            lines += [""] if one.missing(answer) else []
        lines += [
            f"* {question} {escape_markdown(said) or BLANK}" for question, said in one.said.items()
        ]
    lines += ["", "## Sign-off", ""]
    lines += [f"* {name}: {BLANK}" for name in SIGN_OFF]
    lines += ["", VERIFICATION, "", f"{shown['wording']} {dossier.standard.source}", ""]
    return "\n".join(lines)


def _block_lines(block: Block) -> list[str]:
    """Return a part of an answer as Markdown."""
    if block.rows:
        rows = [block.head, ["---"] * len(block.head), *block.cells()]
        cells = ([escape_markdown(cell) for cell in row] for row in rows)
        return [*(f"| {' | '.join(row)} |" for row in cells), ""]
    if block.items:
        return [*(f"* {escape_markdown(item)}" for item in block.items), ""]
    return [escape_markdown(block.text), ""]


VERIFICATION = (
    "If the dossier is signed, wattveil verify on its folder checks the signature of dossier.json"
    " and that this document is the one that was signed."
)
SIGN_OFF = ("Name and role", "Decision", "Date", "Signature")


def heading(dossier: Dossier) -> tuple[str, str]:
    """Return the title of the document and the line below it."""
    manifest = dossier.evidence.manifest
    what = "Release" if dossier.evidence.series is None else f"Series, up to {manifest['label']},"
    byline = (
        f"{dossier.standard.title} ({dossier.standard.edition}). {what}"
        f" {manifest['release_id']} of {manifest['published_at'][:10]}. Made on"
        f" {dossier.made_at.date()} with Wattveil {version('wattveil')}."
    )
    return f"Dossier: {manifest['title']}", byline


def _shown(dossier: Dossier) -> dict[str, object]:
    """Return the values of the page."""
    (title, byline), (filled, answerable) = heading(dossier), dossier.from_files
    grave = sum(not one.is_warning for one in dossier.conflicts)
    return {
        "title": title,
        "byline": byline,
        "banners": dossier.banners,
        "facts": [
            (f"{filled} of {answerable}", "clauses answered from files"),
            (str(len(dossier.open_questions)), "open questions"),
            (
                "yes" if dossier.evidence.has_real_ids else "no",
                f"real customer ids ({dossier.evidence.manifest['guarantee']['tier']} tier)",
            ),
            (str(grave), "conflicts"),
            (str(len(dossier.conflicts) - grave), "warnings"),
        ],
        "conflicts": dossier.conflicts,
        "clauses": [
            {
                "heading": one.clause.heading,
                "answers": [
                    {
                        "blocks": [
                            (block, PageTable("", block.head, block.cells(), range(9)))
                            for block in answer.blocks
                        ],
                        "cited": cited(answer),
                        "missing": one.missing(answer),
                    }
                    for answer in one.answers
                ],
                "questions": list(one.said.items()),
            }
            for one in dossier.clauses
        ],
        "sign_off": SIGN_OFF,
        "verification": VERIFICATION,
        "wording": dossier.standard.wording,
        "source": dossier.standard.source,
    }


def cited(answer: Answer) -> str:
    """Return files, each with the fields that were used; and that a person stated the rest."""
    by_file: dict[str, list[str]] = {}
    for one in answer.fields:
        by_file.setdefault(one.file, []).append(one.cited)
    found = [f"{file}, {', '.join(dict.fromkeys(names))}" for file, names in by_file.items()]
    return "; ".join([*found, *([f"{ANSWERS_FILE}, stated by a person"] if answer.stated else [])])


def _clause_json(one: AnsweredClause) -> dict[str, object]:
    return {
        "place": one.clause.place,
        "name": one.clause.name,
        "filled": one.is_filled if one.clause.answers else None,
        "answers": [
            {
                "text": answer.text,
                "sources": [
                    {"file": field.file, "field": field.cited, "value": field.value}
                    for field in answer.fields
                ],
                "missing": [gap.remedy for gap in answer.missing],
                "stated": {question: answer.said[question] for question in answer.stated},
            }
            for answer in one.answers
        ],
        "questions": one.all_said,
    }


def answers_text(dossiers: Sequence[Dossier], answers: Mapping[str, str]) -> str:
    """Return the questions of dossiers as TOML, each once, with the answers so far."""
    lines = [
        "# What only a person can answer, and what is missing from the files of the release.",
        "# Fill it in, and pass this file to the next dossier with --answers. It serves all",
        "# standards: each question appears once.",
    ]
    written: set[str] = set()
    for dossier in dossiers:
        lines += ["", f"# ---- {dossier.standard.title}"]
        for one in dossier.clauses:
            new = {name: said for name, said in one.all_said.items() if name not in written}
            if new:
                lines += ["", f"# {one.clause.heading}"]
            lines += _toml(new)
            written |= set(new)
    rest = {name: said for name, said in answers.items() if said and name not in written}
    if rest:
        lines += ["", "# ---- Answers to questions that these dossiers do not ask", *_toml(rest)]
    return "\n".join(lines) + "\n"


def _toml(said: Mapping[str, str]) -> list[str]:
    """Return questions and answers; JSON strings are valid keys and values of TOML."""
    return [f"{_quoted(question)} = {_quoted(text)}" for question, text in said.items()]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
