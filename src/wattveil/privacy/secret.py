"""Types that keep private and releasable values apart.

`Secret` holds one private value; `wattveil.privacy.rows.Rows` holds private rows, one per customer.
Both are a `PrivateValue`: they cannot be printed, compared, pickled or copied by accident, and
neither has a method that returns its content. A `Secret` is opened by `privacy.opening.reveal`,
which an import contract permits to the modules that it names. `Released` holds what a mechanism
returned, with the charges that paid for it; only the kernel makes one.

Python has no access control: code that wants to get around these types can. They make a mistake a
type error or a broken contract instead of a leak.
"""

from dataclasses import dataclass
from typing import Generic, NoReturn, TypeVar, final

from wattveil.errors import RehearsalError
from wattveil.privacy.budget import Spend

T = TypeVar("T")


class PrivateValue:
    """A value that depends on private rows."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the type alone: neither the value nor its size."""
        return f"{type(self).__name__}(…)"

    def __eq__(self, other: object) -> NoReturn:
        """Refuse: the result would be one exact bit about the data."""
        raise TypeError("a private value cannot be compared")

    def __bool__(self) -> NoReturn:
        """Refuse: a truth value would be one exact bit about the data."""
        raise TypeError("a private value has no truth value")

    __hash__ = None  # type: ignore[assignment]  # a hash of private data is private data

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse pickling and copying: a private value must not reach a disk, cache or queue."""
        raise TypeError("a private value cannot be pickled or copied")


@final
class Secret(PrivateValue, Generic[T]):
    """One private value, opened by `wattveil.privacy.opening.reveal` alone."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value


@final
@dataclass(frozen=True, kw_only=True)
class Released(Generic[T]):
    """The output of a mechanism and what was charged for it.

    ``rehearsal`` is true when any of its noise came from an injected test source. Such a value can
    be inspected, never published: `publish` refuses it.
    """

    value: T
    spends: tuple[Spend, ...]
    rehearsal: bool

    def publish(self) -> T:
        """Return the value for a file, a table or a response; refuse a rehearsal."""
        if self.rehearsal:
            raise RehearsalError("drawn from an injected test source: it cannot be published")
        return self.value
