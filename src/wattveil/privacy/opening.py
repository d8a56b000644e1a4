"""The only function that reveals the value of a `Secret`.

The import contract "Opening" lists the modules that may import this one: the mechanisms, which use
it after their charge, and the internal tools that compare released with exact values.
"""

from typing import TypeVar

from wattveil.privacy.private_data import Secret

T = TypeVar("T")


def reveal(secret: Secret[T]) -> T:
    """Return the private value."""
    return secret._value  # noqa: SLF001 - here and nowhere else
