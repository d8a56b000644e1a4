"""Two boxes that keep private and releasable values apart for the type checker and the reader.

``Secret[T]`` holds what must not leave: it cannot be printed, compared, pickled or copied by
accident. ``Released[T]`` holds what a mechanism gave out, with the spends that paid for it. mypy
refuses one where the other is due.

Neither is a wall: Python lets a determined caller through. The walls are the import contracts
(only ``privacy`` and ``release`` may import this module) and the reader.
"""

from dataclasses import dataclass
from typing import Generic, NoReturn, TypeVar, final

from wattveil.errors import RehearsalError
from wattveil.privacy.budget import Spend

T = TypeVar("T")


@final
class Secret(Generic[T]):
    """A private value. Only the kernel opens it."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def reveal(self) -> T:
        """Return the private value; every call site is a line the auditor reads."""
        return self._value

    def __repr__(self) -> str:
        """Say nothing: not the value, its type or its shape."""
        return "Secret(…)"

    def __eq__(self, other: object) -> NoReturn:
        """Refuse: an answer would be one exact bit about the data."""
        raise TypeError("a Secret cannot be compared")

    def __bool__(self) -> NoReturn:
        """Refuse: truth would be one exact bit about the data."""
        raise TypeError("a Secret has no truth value")

    __hash__ = None  # type: ignore[assignment]  # a hash of private data is private data

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse pickling and copying: a Secret must not reach a disk, a cache or a queue."""
        raise TypeError("a Secret cannot be pickled or copied")


@final
@dataclass(frozen=True, kw_only=True)
class Released(Generic[T]):
    """What a mechanism gave out, and what was charged for it.

    ``rehearsal`` is true when any of its noise came from an injected test source. Such a value can
    be looked at, never published: `publish` refuses it.
    """

    value: T
    spends: tuple[Spend, ...]
    rehearsal: bool

    def publish(self) -> T:
        """Return the value for a file, a table or an answer; refuse a rehearsal."""
        if self.rehearsal:
            raise RehearsalError("drawn from an injected test source: it cannot be published")
        return self.value
