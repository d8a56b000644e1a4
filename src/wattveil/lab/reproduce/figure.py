"""Reproductions: the name of a figure, the content of the paper's, and the run that redraws it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wattveil.lab.reproduce.study import Study
from wattveil.web.charts import ReportFigure
from wattveil.web.pages import PageTable


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """Result of a run.

    Attributes
    ----------
    numbers
        As JSON has them, by name.
    panels
        The pictures, each with its titles.
    found
        Result of Wattveil, as text.
    differs
        Where that differs from the paper, and why.
    """

    numbers: Mapping[str, Any]
    panels: Sequence[ReportFigure]
    found: str
    differs: str
    tables: Sequence[PageTable] = field(default=())


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """One figure of the paper.

    Attributes
    ----------
    name
        As the command line has it.
    paper
        What the paper shows.
    run
        Draws it anew for a study.
    """

    name: str
    title: str
    paper: str
    run: Callable[[Study], Outcome]
