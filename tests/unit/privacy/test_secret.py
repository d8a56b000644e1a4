"""Private and released values: what `Secret` refuses. `test_lint_rules.py` has the type checker."""

import copy
import dataclasses
import operator
import pickle
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from tests.single_queries import public_names
from wattveil.privacy.opening import reveal
from wattveil.privacy.private_data import PrivateValue, Released, Rows, Secret


def test_reveal_opens_a_secret() -> None:
    """`reveal` returns the very value."""
    value = np.ones(3)
    assert reveal(Secret(value)) is value


def test_no_public_attribute_returns_the_value() -> None:
    """A `Secret` has no public attribute or method at all."""
    assert public_names(Secret(42)) == set()
    assert not hasattr(Secret(42), "reveal")


def test_private_values_are_secrets_and_rows() -> None:
    """Both refuse the same: neither has a method of its own for it."""
    refused = ("__repr__", "__eq__", "__bool__", "__hash__", "__reduce_ex__")
    for kind in (Secret, Rows):
        assert issubclass(kind, PrivateValue)
        assert not set(refused) & set(vars(kind)) - {"__hash__"}
        assert all(getattr(kind, name) is getattr(PrivateValue, name) for name in refused)


@pytest.mark.parametrize("show", [repr, str, format, ascii])
@pytest.mark.parametrize("value", [123456789, "987-meter", np.full(3, 777.0), None])
def test_shows_nothing(show: Callable[[object], str], value: object) -> None:
    """The text is the same whatever is inside, alone and inside a container."""
    assert show(Secret(value)) == show(Secret("anything else"))
    assert repr(Secret(value)) == "Secret(…)"
    assert "Secret(…)" in repr([Secret(value)])


@pytest.mark.parametrize(
    "leave",
    [copy.copy, copy.deepcopy, *(partial(pickle.dumps, protocol=p) for p in range(6))],
    ids=["copy", "deepcopy", *(f"protocol {p}" for p in range(6))],
)
def test_cannot_be_pickled_or_copied(leave: Callable[[object], object]) -> None:
    """It does not reach a disk, a cache or a queue, by any protocol or inside anything."""
    with pytest.raises(TypeError, match=r"^a private value cannot be pickled or copied$"):
        leave(Secret(1.0))
    if leave is not copy.copy:
        with pytest.raises(TypeError, match=r"^a private value cannot be pickled or copied$"):
            leave({"inside": [Secret(1.0)]})


@pytest.mark.parametrize("compare", [operator.eq, operator.ne])
def test_cannot_be_compared(compare: Callable[[object, object], object]) -> None:
    """Equality would be one exact bit, also against itself and from the other side."""
    secret = Secret(1.0)
    for left, right in ((secret, 1.0), (1.0, secret), (secret, secret), (secret, Secret(1.0))):
        with pytest.raises(TypeError, match=r"^a private value cannot be compared$"):
            compare(left, right)


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge])
def test_cannot_be_ordered(compare: Callable[[object, object], object]) -> None:
    """Secrets have no order."""
    with pytest.raises(TypeError):
        compare(Secret(1.0), Secret(2.0))


def test_has_no_truth_value_and_no_hash() -> None:
    """Neither a branch nor a dictionary can learn from it."""
    with pytest.raises(TypeError, match=r"^a private value has no truth value$"):
        bool(Secret(0))
    with pytest.raises(TypeError, match="unhashable"):
        hash(Secret(0))


def test_has_no_dictionary() -> None:
    """`vars` shows nothing and no attribute can be added."""
    with pytest.raises(TypeError):
        vars(Secret(1.0))
    with pytest.raises(AttributeError):
        Secret(1.0).note = "x"  # type: ignore[attr-defined]  # that is the point


def test_released_is_frozen() -> None:
    """What was released cannot be swapped for something else under the same spends."""
    released = Released(value=1.0, spends=(), simulated=False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        released.value = 2.0  # type: ignore[misc]  # that is the point
    assert released.publish() == 1.0
