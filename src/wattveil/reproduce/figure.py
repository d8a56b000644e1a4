"""What each reproduction is: a name, what the paper shows, and a run that says what we get."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wattveil.profiles.page import Shown
from wattveil.reproduce.study import Study


class Table(NamedTuple):
    """Numbers that are read rather than looked at."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What a run gives.

    Attributes
    ----------
    numbers : mapping
        As JSON has them, by name.
    panels : sequence of Shown
        The pictures, each with its titles.
    found : str
        What we get.
    differs : str
        Where that differs from the paper, and why.
    """

    numbers: Mapping[str, Any]
    panels: Sequence[Shown]
    found: str
    differs: str
    tables: Sequence[Table] = field(default=())


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """One figure of the paper.

    Attributes
    ----------
    name : str
        As the command line has it.
    paper : str
        What the paper shows.
    run : callable
        Draws it anew for a study.
    """

    name: str
    title: str
    paper: str
    run: Callable[[Study], Outcome]
