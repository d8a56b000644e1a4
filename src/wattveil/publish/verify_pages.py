"""Write the words, the card and the page of a release anew, and compare.

They follow from statement and tables, so a page that says more than the numbers is found out. Only
the same version of the software writes the same words: of another, nothing is compared.
"""

import base64
import html
import json
import math
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from wattveil.publish.card import card_text
from wattveil.publish.findings import Finding, gathered
from wattveil.publish.manifest import fixed_words
from wattveil.publish.report import report_page
from wattveil.publish.verify_tables import Tables

_WRITERS = ("wattveil", "plotly")
_FIGURE = re.compile(r'data-figure="([^"]*)"')


def is_same_software(manifest: dict[str, Any]) -> bool:
    """Whether words and pages were written by what is installed here."""
    software = manifest.get("implementation", {}).get("software", {})
    return all(software.get(name) == version(name) for name in _WRITERS)


def page_findings(bundle: Path, manifest: dict[str, Any], tables: Tables) -> Iterator[Finding]:
    """Compare words, card and page with what they have to be."""
    if not is_same_software(manifest):
        return
    names = [part["name"] for part in manifest["parts"]]
    counted = not isinstance(manifest["cumulative"], str)
    due = fixed_words(manifest["public_inputs"], names, counted=counted)
    made = manifest["implementation"]
    stated = {**manifest, "implementation": {name: made[name] for name in due["implementation"]}}
    yield gathered(
        "the words of the statement are those of the software",
        (field for field, words in due.items() if stated[field] != words),
        f"{len(due)} fields",
    )
    card, page = _text(bundle / "CARD.md"), _text(bundle / "report.html")
    same = card == card_text(manifest)
    yield Finding("the card says what the statement says", same, "written anew")
    yield gathered(
        "the page shows what the tables say",
        _page_problems(page, report_page(manifest, tables)),
        "words by the letter, pictures by their numbers",
    )


def _page_problems(page: str, due: str) -> Iterator[str]:
    if _FIGURE.sub("figure", page) != _FIGURE.sub("figure", due):
        yield "it has other words"
    elif not all(map(_same_figure, _FIGURE.findall(page), _FIGURE.findall(due))):
        yield "a picture shows other numbers"


def _same_figure(shown: str, due: str) -> bool:
    try:
        return _same(json.loads(html.unescape(shown)), json.loads(html.unescape(due)))
    except ValueError:
        return False


def _same(shown: object, due: object) -> bool:
    """Whether two JSON values agree, numbers to six digits: machines differ in the last ones."""
    match shown, due:
        case dict(), dict() if "bdata" in due:
            return _same_array(shown, due)
        case dict(), dict():
            same_keys = shown.keys() == due.keys()
            return same_keys and all(_same(shown[key], due[key]) for key in due)
        case list(), list():
            return len(shown) == len(due) and all(map(_same, shown, due))
        case float() | int(), float() | int():
            return math.isclose(shown, due, rel_tol=1e-6, abs_tol=1e-6)
        case _:
            return shown == due


def _same_array(shown: dict[str, Any], due: dict[str, Any]) -> bool:
    """Compare arrays in the form that Plotly gives them: base64 of their bytes."""
    if {**shown, "bdata": ""} != {**due, "bdata": ""}:
        return False
    found, right = (
        np.frombuffer(base64.b64decode(array["bdata"]), dtype=due["dtype"])
        for array in (shown, due)
    )
    return found.shape == right.shape and np.allclose(found, right, rtol=1e-6, atol=1e-6)


def _text(path: Path) -> str:
    """Read a page that may be missing or no text: then it is none."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
