"""Types that keep private and releasable values apart.

`Secret` holds one private value; `private_rows.Rows` holds private rows, one per customer. Both are
a `PrivateValue`: they cannot be printed, compared, pickled or copied by accident, and neither has a
method that returns its content. `privacy.opening.reveal` returns the value of a `Secret`; an import
contract lists the modules that may use it. `Released` holds the output of a mechanism with its
charges; only the kernel makes one.

Python has no access control, and code can circumvent these types on purpose. They turn a mistake
into a type error or a broken contract instead of a leak.
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
    """One private value; only `wattveil.privacy.opening.reveal` returns it."""

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
