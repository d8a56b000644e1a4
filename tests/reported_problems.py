"""Recorder for the problems that a reader of meter files reports."""

from collections import Counter
from collections.abc import Mapping

from wattveil.readings.batches import NOTE


class ReportedProblems:
    """Counts lost readings and notes by reason, and keeps the rows of lost readings."""

    def __init__(self) -> None:
        self.lost: Counter[str] = Counter()
        self.notes: Counter[str] = Counter()
        self.rows: list[tuple[str, Mapping[str, object]]] = []

    def count(self, reason: str, where: str, row: Mapping[str, object] | None = None) -> None:
        """Record a lost reading, or a note if there is no row."""
        assert reason
        assert where
        if row is None:
            assert reason.startswith(NOTE)
            self.notes[reason.removeprefix(NOTE)] += 1
        else:
            self.lost[reason] += 1
            self.rows.append((where, row))
