"""One page with every figure, and its numbers as a file."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from wattveil.profiles.page import figure_html, private_page, public_page
from wattveil.reproduce.figure import Outcome, Reproduction, Table
from wattveil.reproduce.study import Study

PAGE, NUMBERS = "index.html", "numbers.json"
TITLE = "The paper's figures, redrawn"


class Run(NamedTuple):
    """A figure that was drawn."""

    figure: Reproduction
    outcome: Outcome
    seconds: float


def to_json(study: Study, runs: Sequence[Run]) -> dict[str, object]:
    """Return all numbers with their words; what is not finite is null."""
    return {
        "customers": study.customers.words,
        "private": study.customers.private,
        "fast": study.fast,
        "seed": study.seed,
        "figures": {
            run.figure.name: {
                "title": run.figure.title,
                "seconds": round(run.seconds, 1),
                "numbers": _plain(run.outcome.numbers),
                "paper": run.figure.paper,
                "found": run.outcome.found,
                "differs": run.outcome.differs,
            }
            for run in runs
        },
    }


def write_figures(study: Study, runs: Sequence[Run], folder: Path) -> None:
    """Write the page and the numbers into a folder."""
    numbers = json.dumps(to_json(study, runs), indent=2, ensure_ascii=False)
    (folder / NUMBERS).write_text(numbers + "\n", encoding="utf-8")
    (folder / PAGE).write_text(_page(study, runs), encoding="utf-8")


def _page(study: Study, runs: Sequence[Run]) -> str:
    customers = study.customers
    facts = [
        (str(len(runs)), "figures"),
        (f"{len(customers.profiles):,}", "customers"),
        (f"{sum(run.seconds for run in runs):.0f} s", "to draw them"),
    ]
    links = "".join(
        f'<li><a href="#{run.figure.name}">{escape(run.figure.title)}</a></li>' for run in runs
    )
    who = f"<p>Customers of the AMI figures: {escape(customers.words)}.</p>"
    body = f"{who}<ol>{links}</ol>{''.join(map(_section, runs))}"
    if customers.private:
        return private_page(TITLE, facts, body)
    band = "Simulated customers: nobody is in these figures, so they may be shown to anybody."
    return public_page(TITLE, facts, body, band=band)


def _section(run: Run) -> str:
    outcome = run.outcome
    words = "".join(
        f"<p><b>{name}</b> {_words(text)}</p>"
        for name, text in (
            ("The paper.", run.figure.paper),
            ("What we get.", outcome.found),
            ("Where they differ, and why.", outcome.differs),
        )
    )
    panels = "".join(map(figure_html, outcome.panels))
    tables = "".join(map(_table, outcome.tables))
    numbers = escape(json.dumps(_plain(outcome.numbers), indent=1, ensure_ascii=False))
    return (
        f'<h2 id="{run.figure.name}" style="font-size: 1.3rem; margin-top: 2.5rem">'
        f"{escape(run.figure.title)}</h2>{words}"
        f'<div class="grid">{panels}</div>{tables}'
        f"<details><summary>All numbers</summary><pre>{numbers}</pre></details>"
    )


def _words(text: str) -> str:
    """Return text as HTML, with the paper's subscripts."""
    return re.sub(r"(?<=[εδΔxn])_(\w)", r"<sub>\1</sub>", escape(text))


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.head)
    rows = "".join(
        f"<tr><td>{escape(row[0])}</td>"
        + "".join(f'<td style="white-space: nowrap">{escape(cell)}</td>' for cell in row[1:])
        + "</tr>"
        for row in table.rows
    )
    return (
        f"<h2>{escape(table.title)}</h2><div class='scroll'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _plain(value: object) -> object:
    """Return what JSON has: no NaN, no infinity."""
    if isinstance(value, Mapping):
        return {str(name): _plain(own) for name, own in value.items()}
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return [_plain(own) for own in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
