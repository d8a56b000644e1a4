"""Clauses of a standard, and their answers: texts with fields of files, each cited.

A standard is a file of `standards/`. An answer is a text in which ``{manifest.guarantee.epsilon}``
stands for a field; ``[]`` stands for every entry of a list. An answer is *filled* if each of its
fields is in the files that were given; what is missing is marked in it, and becomes a question. A
question is for a person: the answer is in no file. One question has one answer, in all standards.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from wattveil.dossier.evidence import Evidence, Field, Gap
from wattveil.errors import InvalidParameterError, one_of

_FIELD = re.compile(r"\{([a-z]+)\.([a-z0-9_.\[\]]+)\}")
_MAX_INLINE = 100
"""Characters of a list that is part of a sentence; a longer one is set apart."""
ANSWERS_FILE = "answers.toml"
_TOTAL = "{total.summary}."


@dataclass(frozen=True, kw_only=True)
class Clause:
    """One clause: where it stands, what it is about, and how it is answered."""

    place: str
    """Where it stands in the standard."""
    name: str
    answers: Sequence[str] = ()
    """Texts with fields; none if only a person can answer."""
    questions: Sequence[str] = ()

    @property
    def heading(self) -> str:
        """Place and name, for documents."""
        return f"{self.place} – {self.name}"


@dataclass(frozen=True, kw_only=True)
class Standard:
    """A standard, guidance or rule."""

    id: str
    title: str
    edition: str
    source: str
    """Address of the text, or of the publisher's page about it."""
    needs_rule: bool = False
    """Whether it is about aggregation rules, which a release has with ``--rule`` only."""
    is_about_anonymity: bool = False
    """Whether it is about anonymous information, which labels under real ids are not."""
    wording: str
    """What the names of the clauses were taken from, and what is left to the reader."""
    clauses: Sequence[Clause]
    series_clauses: Sequence[Clause] = ()
    """Further clauses of a dossier about a series."""
    total_clauses: Sequence[Clause] = ()
    """Further clauses where other releases are named."""
    real_ids_clauses: Sequence[Clause] = ()
    """Further clauses of a dossier about a release under real ids."""

    @property
    def questions(self) -> tuple[str, ...]:
        """Questions that are in no file, whatever files are given."""
        return tuple(question for one in self.clauses for question in one.questions)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of an answer: a paragraph, a list or a table."""

    text: str = ""
    items: Sequence[str] = ()
    rows: Sequence[Mapping[str, str]] = ()
    """Rows of a table, by column."""

    def __post_init__(self) -> None:
        """Leave out the backticks of texts that were written for Markdown or a terminal."""
        rows = [{_plain(name): _plain(cell) for name, cell in row.items()} for row in self.rows]
        object.__setattr__(self, "text", _plain(self.text))
        object.__setattr__(self, "items", tuple(map(_plain, self.items)))
        object.__setattr__(self, "rows", tuple(rows))

    @property
    def head(self) -> tuple[str, ...]:
        """Columns of the table."""
        return tuple(self.rows[0]) if self.rows else ()

    def cells(self) -> list[tuple[str, ...]]:
        """Return the cells of each row."""
        return [tuple(row.get(name, "") for name in self.head) for row in self.rows]


def _plain(text: str) -> str:
    return text.replace("`", "")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A text with its fields filled in."""

    blocks: Sequence[Block]
    """Empty if no field is known and nobody has stated one."""
    fields: Sequence[Field]
    """Every field that was used, with its file."""
    gaps: Sequence[Gap] = ()
    """Fields that are in no file that was given."""
    said: Mapping[str, str]
    """A person's answer to the question of each gap; empty where it is still open."""

    @property
    def text(self) -> str:
        """The whole answer in one line."""
        parts = []
        for one in self.blocks:
            rows = [
                ", ".join(f"{name} {cell}" for name, cell in row.items() if cell)
                for row in one.rows
            ]
            parts.append(one.text or "; ".join([*one.items, *rows]) + ".")
        return " ".join(parts)

    @property
    def missing(self) -> tuple[Gap, ...]:
        """Gaps that are still open."""
        return tuple(gap for gap in self.gaps if not self.said[gap.question])

    @property
    def stated(self) -> tuple[str, ...]:
        """Questions of gaps that a person has answered."""
        return tuple(question for question, said in self.said.items() if said)


@dataclass(frozen=True, kw_only=True)
class AnsweredClause:
    """A clause with its answers, and the answers of a person so far."""

    clause: Clause
    answers: Sequence[Answer]
    said: Mapping[str, str]
    """The person's answer to each question; empty where it is still open."""

    @property
    def is_filled(self) -> bool:
        """Whether every answer is complete from files alone."""
        return not any(answer.gaps for answer in self.answers)

    def missing(self, answer: Answer) -> tuple[Gap, ...]:
        """Return the open gaps of an answer that no earlier answer of the clause has."""
        place = next(at for at, one in enumerate(self.answers) if one is answer)
        earlier = {gap for one in self.answers[:place] for gap in one.missing}
        return tuple(gap for gap in answer.missing if gap not in earlier)

    @property
    def all_said(self) -> dict[str, str]:
        """Every question of the clause, those of its gaps included, with the answer so far."""
        gaps = {name: said for one in self.answers for name, said in one.said.items()}
        return {**self.said, **gaps}


def standard_names() -> tuple[str, ...]:
    """Return the names of the standards that are known."""
    folder = files("wattveil.dossier").joinpath("standards")
    return tuple(sorted(one.name.removesuffix(".toml") for one in folder.iterdir()))


@cache
def read_standard(name: str) -> Standard:
    """Read the clauses of a standard."""
    if name not in standard_names():
        raise InvalidParameterError("standard", one_of(standard_names()), name)
    text = files("wattveil.dossier").joinpath("standards", f"{name}.toml").read_text("utf-8")
    record: dict[str, Any] = tomllib.loads(text)
    clauses = tuple(Clause(**one) for one in record.pop("clause"))
    return Standard(
        id=name,
        clauses=(*_shared_clauses("clause"), *clauses),
        series_clauses=_shared_clauses("series_clause"),
        total_clauses=_shared_clauses("total_clause"),
        real_ids_clauses=_shared_clauses("real_ids_clause"),
        **record,
    )


@cache
def _shared_clauses(kind: str) -> tuple[Clause, ...]:
    """Return the clauses of every standard: for all dossiers, for series, or for real ids."""
    text = files("wattveil.dossier").joinpath("shared_clauses.toml").read_text("utf-8")
    return tuple(Clause(**one) for one in tomllib.loads(text)[kind])


def fields_in(text: str) -> list[tuple[str, str]]:
    """Return the fields that a text names: source and path of each."""
    return _FIELD.findall(text)


def answer_clauses(
    standard: Standard, evidence: Evidence, said: Mapping[str, str]
) -> tuple[AnsweredClause, ...]:
    """Answer every clause from the evidence; ``said`` has a person's answers, by question."""
    return tuple(
        AnsweredClause(
            clause=clause,
            answers=tuple(_answer(text, evidence, said) for text in _texts(clause, evidence)),
            said={question: said.get(question, "") for question in clause.questions},
        )
        for clause in (
            *standard.clauses,
            *(standard.total_clauses if evidence.total else ()),
            *(standard.real_ids_clauses if evidence.has_real_ids else ()),
            *(standard.series_clauses if evidence.series else ()),
        )
    )


def _texts(clause: Clause, evidence: Evidence) -> tuple[str, ...]:
    """Return the answers of a clause; without a ledger, the total of named releases replaces it."""
    if evidence.ledger is not None or evidence.total is None:
        return tuple(clause.answers)
    return tuple(
        dict.fromkeys(
            _TOTAL if any(source == "ledger" for source, _ in fields_in(text)) else text
            for text in clause.answers
        )
    )


def known_questions(evidence: Evidence) -> set[str]:
    """Return every question of every standard, and those of fields that the files could lack."""
    standards = [read_standard(name) for name in standard_names()]
    clauses = [
        clause
        for one in standards
        for clause in (*one.clauses, *one.series_clauses, *one.real_ids_clauses)
    ]
    texts = [text for clause in clauses for text in clause.answers]
    gaps = {evidence.gap(source, path) for text in texts for source, path in fields_in(text)}
    absent = {evidence.absent(source) for source in ("ledger", "audit")}
    questions = {question for clause in clauses for question in clause.questions}
    return questions | {gap.question for gap in gaps | absent}


def _answer(text: str, evidence: Evidence, said: Mapping[str, str]) -> Answer:
    """Fill in one text: known fields, a person's answers, and marks where both are missing."""
    found = {place: evidence.field(*place) for place in dict.fromkeys(fields_in(text))}
    fields = [one for one in found.values() if isinstance(one, Field)]
    gaps = tuple(dict.fromkeys(one for one in found.values() if isinstance(one, Gap)))
    answers = {gap.question: said.get(gap.question, "") for gap in gaps}
    blocks: Sequence[Block]
    if found and not fields:  # nothing to put into the sentence: what a person says stands alone
        blocks = [Block(text=one) for one in answers.values() if one]
    else:
        blocks = _blocks(text, found, answers)
    return Answer(blocks=blocks, fields=fields, gaps=gaps, said=answers)


def _blocks(
    text: str, found: Mapping[tuple[str, str], Field | Gap], said: Mapping[str, str]
) -> list[Block]:
    """Divide a text at its long lists and tables; everything else is part of a sentence."""
    blocks, sentence, end = [], "", 0
    for one in _FIELD.finditer(text):
        sentence += text[end : one.start()]
        end, field = one.end(), found[one[1], one[2]]
        if isinstance(field, Gap):
            stated = said[field.question] or f"[missing: {field.name}]"
            # What a person states may end with the mark that the sentence has after it.
            sentence += stated.rstrip().removesuffix(".") if text[end:].startswith(".") else stated
        elif not field.rows and (len(field.items) < 2 or len(field.text) <= _MAX_INLINE):  # noqa: PLR2004 - a list of one is no list
            sentence += field.text
        else:
            blocks += _paragraph(sentence)
            blocks.append(Block(items=() if field.rows else field.items, rows=field.rows))
            sentence = ""
    return blocks + _paragraph(sentence + text[end:])


def _paragraph(sentence: str) -> list[Block]:
    """Return a paragraph, without the marks that end the list before it."""
    shown = sentence.strip().lstrip(".;, ")
    return [Block(text=shown[0].upper() + shown[1:])] if shown else []
