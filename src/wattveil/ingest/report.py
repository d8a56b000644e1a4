"""What became of every row: counted by reason, printed, and kept as JSON."""

import csv
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from wattveil.ingest.batches import NOTE
from wattveil.terminal import plain


@dataclass(frozen=True, kw_only=True)
class IngestReport:
    """The account of one reading.

    Always ``rows_in == rows_out + sum(dropped) + sum(merged)``; making a report that does not
    balance raises. A row is one reading: a wide row of 48 slots counts 48 times.

    Attributes
    ----------
    dropped, merged
        Rows that are not in the table, and rows that became part of another, by reason.
    notes
        Rows that stayed, but needed an assumption or a repair, by kind.
    guesses
        What was not given and was inferred from the data, in words.
    options
        The rules as given.
    """

    files: tuple[str, ...]
    rows_in: int
    rows_out: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    merged: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)
    guesses: tuple[str, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse an account that does not balance."""
        accounted = self.rows_out + sum(self.dropped.values()) + sum(self.merged.values())
        if accounted != self.rows_in:
            raise AssertionError(f"{self.rows_in} rows came in, {accounted} are accounted for")

    def plus(self, other: "IngestReport") -> "IngestReport":
        """Return the account of both readings, as one of the source that this one names."""
        return replace(
            self,
            rows_in=self.rows_in + other.rows_in,
            rows_out=self.rows_out + other.rows_out,
            dropped=dict(Counter(self.dropped) + Counter(other.dropped)),
            merged=dict(Counter(self.merged) + Counter(other.merged)),
            notes=dict(Counter(self.notes) + Counter(other.notes)),
        )

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON values. Counts are exact: it stays in house."""
        return {
            "files": list(self.files),
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "dropped": dict(self.dropped),
            "merged": dict(self.merged),
            "notes": dict(self.notes),
            "guesses": list(self.guesses),
            "options": dict(self.options),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "IngestReport":
        """Read a report from its JSON values."""
        files, guesses = tuple(record["files"]), tuple(record["guesses"])
        return cls(**{**record, "files": files, "guesses": guesses})

    def lines(self) -> list[tuple[str, int]]:
        """Return the report in words, the rows read first."""
        found = [("read", self.rows_in)]
        for kind, counts in (("dropped", self.dropped), ("merged", self.merged)):
            ordered = sorted(counts.items(), key=lambda item: -item[1])
            found += [(f"{kind}: {reason}", rows) for reason, rows in ordered]
        found.append(("kept", self.rows_out))
        return found + [(f"of these: {reason}", rows) for reason, rows in self.notes.items()]

    def table(self) -> Table:
        """Return the report as a table for the screen."""
        table = Table("", "rows", "share", title="Readings", title_justify="left")
        table.columns[1].justify = table.columns[2].justify = "right"
        for label, rows in self.lines():
            table.add_row(plain(label), f"{rows:,}", f"{rows / max(self.rows_in, 1):.2%}")
        return table


class ProblemLog:
    """Takes what the streaming readers (Green Button, NEM12) leave out.

    ``count`` is called once a problem: with the row that was left out, or without one for a remark
    about the file. Rows go to a file at once, so that a bad file does not fill the memory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.dropped: Counter[str] = Counter()
        self.notes: Counter[str] = Counter()
        self._file = path.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file)
        self._writer.writerow(("reason", "source_row", "written"))

    def count(self, reason: str, where: str, row: Mapping[str, object] | None = None) -> None:
        """Count one problem."""
        if row is None:
            self.notes[reason.removeprefix(NOTE)] += 1
            return
        self.dropped[reason] += 1
        self._writer.writerow((reason, where, ", ".join(str(value) for value in row.values())))

    def close(self) -> None:
        """Finish the file."""
        self._file.close()
