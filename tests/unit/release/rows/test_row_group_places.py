"""The group of each customer: places among all combinations of public levels."""

import math
from collections.abc import Hashable

import numpy as np
import pytest

from wattveil.engines.local import value_column
from wattveil.errors import InvalidParameterError
from wattveil.privacy.mechanisms.contributions import NO_DATA
from wattveil.release.rows.load_features import of_group, places_among, with_places

LEVELS = [("area", ["north", "south"]), ("class", ["home", "shop", "farm"])]


def test_places_count_through_all_combinations() -> None:
    """Area by area, class by class; with a value that is not listed there is no place."""
    area = value_column(["north", "north", "south", "south", "south", "west"])
    kind = value_column(["home", "farm", "home", "shop", "barn", "home"])
    load = np.ones((6, 2))
    same, places, stays = with_places(load, area, kind, levels=LEVELS)
    assert places.tolist() == [0, 2, 3, 4, NO_DATA, NO_DATA]
    assert places.dtype == np.int64
    assert same.tolist() == load.tolist()
    assert stays.all()


def test_without_attributes_there_is_one_group() -> None:
    """All customers with data are in place 0."""
    load = np.array([[1.0, 2.0], [math.nan, 1.0], [1.0, -math.inf], [0.0, 0.0]])
    _, places, stays = with_places(load, levels=[])
    assert places.tolist() == [0, NO_DATA, NO_DATA, 0]
    assert stays.all()


def test_as_many_columns_as_attributes() -> None:
    """A missing or an additional column of values is refused."""
    values = value_column(["north"])
    for columns in ((values,), (values, values, values)):
        with pytest.raises(ValueError, match="zip"):
            with_places(np.ones((1, 2)), *columns, levels=LEVELS)


@pytest.mark.parametrize("levels", [[], ["a", "a"], ["a", "b", "a"]])
def test_bad_levels_are_named(levels: list[Hashable]) -> None:
    """A list of different values, at least one."""
    with pytest.raises(InvalidParameterError, match="tariff must be a list of at least one value"):
        places_among(value_column(["a"]), levels, field="tariff")


@pytest.mark.parametrize(
    ("values", "levels", "expected"),
    [
        ([2**53, float(2**53)], [2**53, 2**53 + 1], [0, 0]),
        ([0.1, float(np.float32(0.1))], [float(np.float32(0.1)), 0.1], [1, 0]),
        (["a", "a\0", None], ["a", "a\0"], [0, 1, NO_DATA]),
        ([("a", 1), ("a", 2)], [("a", 2)], [NO_DATA, 0]),
        ([("a", []), "a"], ["a"], [NO_DATA, 0]),
        ([], ["a"], []),
    ],
)
def test_a_value_has_one_place_or_none(
    values: list[Hashable], levels: list[Hashable], expected: list[int]
) -> None:
    """By the equality of Python's dictionaries, also where NumPy takes levels for equal."""
    assert places_among(value_column(values), levels, field="levels").tolist() == expected


def test_customers_of_one_group() -> None:
    """The load of all, and a mask of the customers of the group."""
    load, places = np.arange(8.0).reshape(4, 2), np.array([1, 0, NO_DATA, 1])
    same, inside = of_group(load, places, place=1)
    assert same.tolist() == load.tolist()
    assert inside.tolist() == [True, False, False, True]
