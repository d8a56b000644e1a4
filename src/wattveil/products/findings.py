"""Findings: outcomes of the checks of `verify` and of the ledger audit."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Finding:
    """Outcome of one check: what was checked, whether it holds, and what was found."""

    check: str
    holds: bool
    seen: str


@dataclass(frozen=True)
class NotRun:
    """Check that was not run: neither passed nor failed."""

    check: str
    reason: str
    """Why it was not run."""
    remedy: str
    """What the reader can do to have it run, or that nothing is wrong."""


def gathered(check: str, problems: Iterable[str], fine: str) -> Finding:
    """Return one finding for several conditions: the first problems, or ``fine`` if none."""
    found = list(problems)
    return Finding(check, not found, "; ".join(found[:5]) if found else fine)


def same_numbers(found: ArrayLike, due: ArrayLike) -> bool:
    """Whether two arrays agree to six digits: machines differ in the last ones."""
    return np.shape(found) == np.shape(due) and np.allclose(found, due, rtol=1e-6, atol=1e-6)
