"""Text of SQL statements: quoted names and values, lists and choices."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path


def ident(name: str) -> str:
    """Quote a column or table name."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote a text."""
    return "'" + text.replace("'", "''") + "'"


def literals(texts: list[str]) -> str:
    """Write a list of texts."""
    return "[" + ", ".join(literal(text) for text in texts) + "]"


def paths(files: Sequence[Path]) -> str:
    """Write a list of files; DuckDB would take some signs in their names for wildcards."""
    return literals([re.sub(r"[*?[]", r"[\g<0>]", str(path)) for path in files])


def choose(value: str, codes: Mapping[str, int], otherwise: str) -> str:
    """Write the CASE expression that maps a text to its code."""
    whens = " ".join(f"WHEN {literal(text)} THEN {code}" for text, code in codes.items())
    return f"CASE {value} {whens} ELSE {otherwise} END"


def one_of(value: str, choices: Sequence[int]) -> str:
    """Write the test for a few numbers; of IN, DuckDB makes a join of all rows."""
    return "(" + " OR ".join(f"{value} = {choice}" for choice in choices) + ")"
