"""The hash chain: each entry seals the one before it, so nothing in the past can change unseen."""

import hashlib
from typing import NamedTuple

from wattveil.serve.ledger.tables import entry

START = "0" * 64
"""What the first entry of a book seals."""

SEALED = tuple(column.name for column in entry.columns if column.name != "row_sha256")
"""What the hash of an entry covers: all of it, and the hash of the entry before."""


class Head(NamedTuple):
    """The last entry of a book."""

    seq: int
    sha256: str


def seal(values: tuple[object, ...]) -> str:
    """Return the hash of an entry, from its values in the order of `SEALED`.

    No value holds a line break: they are numbers, hashes, checked names and keys, and JSON. So
    lines tell them apart. What is missing is written None, which is no number; and a key is missing
    in just those kinds of entries that never have one.
    """
    return hashlib.sha256((_LINES % values).encode()).hexdigest()


def seals(rows: list[tuple[object, ...]]) -> list[str]:
    """Return the hashes of many entries, each followed by the hash that it claims to have."""
    return [hashlib.sha256((_LINES_OF_ROW % row).encode()).hexdigest() for row in rows]


_LINES = "\n".join(["%s"] * len(SEALED))
_LINES_OF_ROW = f"{_LINES}%.0s"  # nothing of the last value
