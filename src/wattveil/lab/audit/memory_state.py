"""Private state of a series in the memory of this process, for simulations and audits."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

from wattveil.engines.series_rows import Keep, PeriodState
from wattveil.privacy.mechanisms.period_sums import CustomerState


@final
class MemoryState(PeriodState):
    """State in the memory of this process, for simulations and audits: it is lost with it."""

    def __init__(self, *, names_key: bytes) -> None:
        self._key = names_key
        self._blocks: dict[str, list[CustomerState]] = {}

    @property
    def names_key(self) -> bytes:
        """The key of customer names."""
        return self._key

    def blocks(self, name: str) -> Iterator[CustomerState]:
        """Return the blocks that the last released period left."""
        return iter(self._blocks.get(name, ()))

    @contextmanager
    def keeping(self, name: str) -> Iterator[Keep]:
        """Return a function that keeps the new blocks, in order."""
        kept: list[CustomerState] = []
        yield kept.append
        self._blocks[name] = kept
