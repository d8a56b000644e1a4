"""What a metric is: distances of a set of customers from real ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wattveil.evaluation.sample import Layout, Sample

NEEDS_YEARS = "needs hourly years"

Measure = Callable[[Sample, Sample], Sequence[float]]


def nothing_missing(_layout: Layout, _customers: int) -> str:
    """Say that a metric needs nothing beyond profiles."""
    return ""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric, with a row of the table for each of its figures.

    Attributes
    ----------
    figures : tuple of (name, unit)
        What `measure` returns, in order.
    measure : function of (real, other)
        The distances of other customers from real ones: 0 is the same. One that is a difference of
        two errors may fall below 0 by chance.
    missing : function of (layout, customers)
        Why it cannot be measured on such data; empty if it can.
    """

    figures: tuple[tuple[str, str], ...]
    measure: Measure
    missing: Callable[[Layout, int], str] = nothing_missing

    @property
    def number(self) -> tuple[str, int]:
        """Where it stands in the table: F before U, by number."""
        code = self.figures[0][0].split()[0]
        return code[0], int(code[1:])
