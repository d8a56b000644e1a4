"""What a check says."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One check: what was looked at, whether it holds, and what was seen."""

    check: str
    holds: bool
    seen: str


@dataclass(frozen=True)
class Absent:
    """What a bundle may have and this one does not: nothing to check, so no check that passed."""

    check: str
    seen: str


def gathered(check: str, problems: Iterable[str], fine: str) -> Finding:
    """Return one finding for many things: what is wrong with some, or that all are fine."""
    found = list(problems)
    return Finding(check, not found, "; ".join(found[:5]) if found else fine)
