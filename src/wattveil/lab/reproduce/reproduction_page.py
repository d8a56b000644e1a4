"""Page of all reproduced figures, and their numbers as a file."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from wattveil.lab.reproduce.figure import Outcome, Reproduction
from wattveil.lab.reproduce.study import Study
from wattveil.web.pages import write_internal_page

PAGE, NUMBERS = "index.html", "numbers.json"
TITLE = "Reproduction of the paper's figures"


class Run(NamedTuple):
    """A figure that was drawn."""

    figure: Reproduction
    outcome: Outcome
    seconds: float


def to_json(study: Study, runs: Sequence[Run]) -> dict[str, object]:
    """Return all numbers with their texts; values that are not finite become null."""
    return {
        "customers": study.customers.description,
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
    customers = study.customers
    write_internal_page(
        folder / PAGE,
        "reproduction",
        title=TITLE,
        facts=[
            (str(len(runs)), "figures"),
            (f"{len(customers.profiles):,}", "customers"),
            (f"{sum(run.seconds for run in runs):.0f} s", "computing time"),
        ],
        simulated=not customers.private,
        customers=customers.description,
        runs=[_section(run) for run in runs],
    )


def _section(run: Run) -> dict[str, object]:
    outcome = run.outcome
    return {
        "name": run.figure.name,
        "title": run.figure.title,
        "paper": run.figure.paper,
        "found": outcome.found,
        "differs": outcome.differs,
        "figures": outcome.panels,
        "tables": outcome.tables,
        "numbers": json.dumps(_plain(outcome.numbers), indent=1, ensure_ascii=False),
    }


def _plain(value: object) -> object:
    """Return a value that JSON can hold: without NaN and infinity."""
    if isinstance(value, Mapping):
        return {str(name): _plain(own) for name, own in value.items()}
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return [_plain(own) for own in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
