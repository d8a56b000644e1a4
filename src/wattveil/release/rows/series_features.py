"""Functions of private rows: names of customers in a series, offsets from its centres."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattveil.arrays import Bools, Floats, Ints, Names, Texts
from wattveil.privacy.private_data import row_function
from wattveil.privacy.pseudonyms import customer_names
from wattveil.release.rows.load_features import (
    Curves,
    calendar_coordinates,
    check_shapes,
    row_lengths,
    with_places,
)

Columns = tuple[NDArray[Any], ...]
Levels = Sequence[tuple[int, str, Sequence[Hashable]]]
"""Place among the columns, name and public levels of each attribute that is used."""


@row_function
def named_customers(load_kw: Floats, *own: Texts, key: bytes, erased: Names) -> Columns:
    """Return the columns with the name of each customer for its id; leave out erased names."""
    *values, ids = own
    names = customer_names(ids, key=key)
    return load_kw, *values, names, ~np.isin(names, erased)


@row_function
def customers_within(load_kw: Floats, *own: NDArray[Any], begin: bytes, end: bytes) -> Columns:
    """Return names, load and values of the customers whose name is in [begin, end)."""
    *values, names = own
    return names, load_kw, *values, (names >= begin) & (names < end)


@row_function
def offset_length_cells(
    load_kw: Floats,
    *values: Texts,
    levels: Levels,
    centres: Floats,
    radii: Floats,
    curves: Curves,
    edges: Floats,
) -> tuple[Ints]:
    """Return the histogram cell of the length of each customer's offset, or `NO_DATA`."""
    places, offsets = _offsets(load_kw, values, levels, (centres, radii, curves))
    cells = np.searchsorted(edges, row_lengths(offsets), side="right")
    return (np.where(places < 0, places, cells),)


@row_function
def group_offsets(
    load_kw: Floats,
    *values: Texts,
    levels: Levels,
    centres: Floats,
    radii: Floats,
    curves: Curves,
) -> tuple[Ints, Floats]:
    """Return each customer's group, and its offset from the group's centre in radii."""
    return _offsets(load_kw, values, levels, (centres, radii, curves))


@row_function
def group_members(load_kw: Floats, *values: Texts, levels: Levels) -> tuple[Ints, Floats]:
    """Return each customer's group, and 1: a customer with data and listed values is a member."""
    places = _places(load_kw, values, levels)
    return places, np.ones((len(places), 1))


@row_function
def series_groups(load_kw: Floats, *values: Texts, levels: Levels) -> tuple[Floats, Ints, Bools]:
    """Return the load and the group of each customer; keep every customer."""
    return load_kw, _places(load_kw, values, levels), np.ones(len(load_kw), dtype=np.bool_)


def _offsets(
    load_kw: Floats,
    values: Sequence[Texts],
    levels: Levels,
    public: tuple[Floats, Floats, Curves],
) -> tuple[Ints, Floats]:
    """Return the group and (z - c) / R of each customer, with z in colour."""
    centres, radii, curves = public
    places = _places(load_kw, values, levels)
    coordinates = calendar_coordinates(load_kw, curves)[0]
    check_shapes((centres, (radii.size, coordinates.shape[1])))
    own = np.clip(places, 0, radii.size - 1)  # `NO_DATA` adds nothing, whatever its centre
    return places, (coordinates - centres[own]) / radii[own, None]


def _places(load_kw: Floats, values: Sequence[Texts], levels: Levels) -> Ints:
    """Return the place of each customer's values among the levels, or `NO_DATA`."""
    own = [values[place] for place, _, _ in levels]
    known = [(name, listed) for _, name, listed in levels]
    return with_places(load_kw, *own, levels=known)[1]
