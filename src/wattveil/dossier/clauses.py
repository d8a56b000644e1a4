"""Clauses of a standard, and their answers: texts with fields of files, each cited.

A standard is a file of `standards/`. An answer is a text in which ``{manifest.guarantee.epsilon}``
stands for a field; ``[]`` stands for every entry of a list. An answer is *filled* if each of its
fields is in the files that were given. A question is for a person: the answer is in no file.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from wattveil.dossier.evidence import Evidence, Field
from wattveil.errors import InvalidParameterError, one_of

_FIELD = re.compile(r"\{([a-z]+)\.([a-z0-9_.\[\]]+)\}")


@dataclass(frozen=True, kw_only=True)
class Clause:
    """One clause: where it stands, what it is about, and how it is answered."""

    place: str
    """Where it stands in the standard."""
    name: str
    answers: Sequence[str] = ()
    """Texts with fields; none if only a person can answer."""
    questions: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Standard:
    """A standard, guidance or rule."""

    id: str
    title: str
    edition: str
    source: str
    """Address of the publisher's page."""
    wording: str
    """What the names of the clauses were taken from, and what is left to the reader."""
    clauses: Sequence[Clause]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A text with its fields filled in."""

    text: str
    fields: Sequence[Field]
    """Every field that was used, with its file."""
    missing: Sequence[str] = ()
    """Fields that are in no file that was given, each with what to do; then the text is empty."""


@dataclass(frozen=True, kw_only=True)
class AnsweredClause:
    """A clause with its answers, and the answers of a person so far."""

    clause: Clause
    answers: Sequence[Answer]
    said: Mapping[str, str]
    """The person's answer to each question; empty where it is still open."""

    @property
    def is_filled(self) -> bool:
        """Whether every answer from files is complete."""
        return not any(answer.missing for answer in self.answers)


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
    return Standard(id=name, clauses=clauses, **record)


def fields_in(text: str) -> list[tuple[str, str]]:
    """Return the fields that a text names: source and path of each."""
    return _FIELD.findall(text)


def answer_clauses(
    standard: Standard, evidence: Evidence, said: Mapping[str, str]
) -> tuple[AnsweredClause, ...]:
    """Answer every clause from the evidence; ``said`` has a person's answers, by question."""
    unknown = set(said) - {question for one in standard.clauses for question in one.questions}
    if unknown:
        rule = f"given for questions of {standard.title}"
        raise InvalidParameterError("answers", rule, min(unknown))
    return tuple(
        AnsweredClause(
            clause=clause,
            answers=tuple(_answer(text, evidence) for text in clause.answers),
            said={question: said.get(question, "") for question in clause.questions},
        )
        for clause in standard.clauses
    )


def _answer(text: str, evidence: Evidence) -> Answer:
    """Fill in one text."""
    fields, missing = [], []
    for source, path in dict.fromkeys(fields_in(text)):
        found = evidence.field(source, path)
        if isinstance(found, Field):
            fields.append(found)
        else:
            missing.append(found)
    if missing:
        return Answer(text="", fields=fields, missing=tuple(dict.fromkeys(missing)))
    values = {(one.source, one.path): one.text for one in fields}
    filled = _FIELD.sub(lambda found: values[found[1], found[2]], text)
    return Answer(text=filled, fields=fields)
