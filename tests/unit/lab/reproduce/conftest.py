"""What the tests of the reproduction share: one fast study, each figure drawn once a process."""

from collections.abc import Callable
from functools import cache

import pytest

from wattveil.lab.reproduce import FIGURES, Outcome, Study

Drawn = Callable[[str], Outcome]


@pytest.fixture(scope="session")
def study() -> Study:
    """Return the run that `wattveil reproduce --fast` makes."""
    return Study(fast=True)


@pytest.fixture(scope="session")
def drawn(study: Study) -> Drawn:
    """Return a function that draws a figure, or gives it again."""
    return cache(lambda name: FIGURES[name].run(study))
