"""The group of each customer, from the customer's own public attributes."""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from wattveil.errors import InvalidParameterError
from wattveil.privacy.mechanisms.contributions import NO_DATA
from wattveil.privacy.private_rows import FloatArray, IntArray, Mask, Texts, row_function


@row_function
def with_places(
    load_kw: FloatArray, *values: Texts, levels: Mapping[str, Sequence[Hashable]]
) -> tuple[FloatArray, IntArray, Mask]:
    """Return the load, and the place of each customer's group among all combinations of levels.

    ``values`` has a column for each attribute of ``levels``; without any, every place is 0. A
    customer with a value that is not listed, or with NaN or infinity in the load, is in no group.
    """
    places = np.zeros(len(load_kw), dtype=np.int64)
    listed = np.isfinite(load_kw).all(axis=1)
    for (name, known), column in zip(levels.items(), values, strict=True):
        own = places_among(column, known, field=name)
        places = places * len(known) + own
        listed &= own != NO_DATA
    return load_kw, np.where(listed, places, NO_DATA), np.ones(len(load_kw), dtype=np.bool_)


@row_function
def of_group(load_kw: FloatArray, places: IntArray, *, place: int) -> tuple[FloatArray, Mask]:
    """Return the load of the customers of one group."""
    return load_kw, places == place


def places_among(values: Texts, levels: Sequence[Hashable], *, field: str) -> IntArray:
    """Return the place of each value in a public list, or `NO_DATA`.

    A dictionary returns one place for a value, or none: a customer is never in two groups, whatever
    NumPy's == treats as equal.
    """
    places = {level: place for place, level in enumerate(levels)}
    if not places or len(places) != len(levels):
        rule = "a list of at least one value, without repetition"
        raise InvalidParameterError(field, rule, tuple(levels))

    def place_of(value: Hashable) -> int:
        try:
            return places.get(value, NO_DATA)
        except TypeError:  # a list, or a tuple with one: it has no hash and is on no list
            return NO_DATA

    return np.array([place_of(value) for value in values.tolist()], dtype=np.int64)
