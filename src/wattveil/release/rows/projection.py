"""Coordinates and sizes of rows of load in public bases."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattveil.compiled import compiled
from wattveil.errors import InvalidParameterError
from wattveil.privacy.mechanisms.contributions import NO_DATA
from wattveil.privacy.private_rows import FloatArray, IntArray, Mask, row_function

Curves = tuple[FloatArray, FloatArray, IntArray, FloatArray]
"""Public curves over days and over slots, their indices for each coordinate, and its scale."""

_LARGEST = 1e9
"""Values saturate here, in kW: no customer can overflow a sum of squares."""


@row_function
def project_rows(
    load_kw: FloatArray, *, basis: FloatArray, normalise: bool, longest: float
) -> tuple[FloatArray, Mask]:
    """Return the basis coordinates of each row, and whether it has any.

    A row with NaN or infinity and, with ``normalise``, one of length 0 has no coordinates. With
    ``normalise`` rows are scaled to length 1; otherwise longer ones are clipped to ``longest``.
    """
    rows = np.clip(load_kw, -_LARGEST, _LARGEST)
    lengths = row_lengths(rows)
    has_data = np.isfinite(load_kw).all(axis=1) & ((lengths > 0.0) | (not normalise))
    target = 1.0 if normalise else longest
    scale = np.where(normalise | (lengths > longest), target / lengths, 1.0)
    return scale[:, None] * products(rows, basis), has_data


@row_function
def comparable_rows(load_kw: FloatArray, *, normalise: bool, longest: float) -> tuple[FloatArray]:
    """Return every row as `project_rows` takes it, in its own coordinates; without data as NaN."""
    basis = np.eye(load_kw.shape[1])
    rows, has_data = project_rows(load_kw, basis=basis, normalise=normalise, longest=longest)
    rows[~has_data] = math.nan
    return (rows,)


@row_function
def first_columns(rows: FloatArray, *, columns: int) -> tuple[FloatArray]:
    """Return the first columns of each row."""
    return (rows[:, :columns].copy(),)


@row_function
def first_coordinates(rows: FloatArray, *, columns: int) -> tuple[FloatArray, Mask]:
    """Return the first coordinates of each row; keep every customer."""
    return rows[:, :columns].copy(), np.ones(len(rows), dtype=np.bool_)


@row_function
def one_cell(rows: FloatArray) -> tuple[IntArray]:
    """Return cell 0 for every customer."""
    return (np.zeros(len(rows), dtype=np.int64),)


@row_function
def size_cells(
    rows: FloatArray, *others: IntArray, edges: FloatArray, coordinates: int
) -> tuple[IntArray]:
    """Return the histogram cell of the length of each row's first coordinates."""
    del others
    lengths = row_lengths(rows[:, :coordinates])
    cells = np.searchsorted(edges, lengths, side="right")
    return (np.where(np.isnan(lengths), NO_DATA, cells),)


@row_function
def group_cells(load_kw: FloatArray, places: IntArray) -> tuple[IntArray]:
    """Return the group of each customer, or `NO_DATA`."""
    del load_kw
    return (places,)


@row_function
def any_group_cell(load_kw: FloatArray, places: IntArray) -> tuple[IntArray]:
    """Return cell 0 for every customer in a group, `NO_DATA` for others."""
    del load_kw
    return (np.minimum(places, 0),)


@row_function
def group_size_cells(
    load_kw: FloatArray, places: IntArray, *, edges: FloatArray, curves: Curves
) -> tuple[IntArray]:
    """Return the cell of each customer by group and size, or `NO_DATA`."""
    sizes = calendar_coordinates(load_kw, curves)[1]
    cells = places * (edges.size + 1) + np.searchsorted(edges, sizes, side="right")
    return (np.where(places < 0, places, cells),)


@row_function
def group_coordinates(
    load_kw: FloatArray, places: IntArray, *, radii: FloatArray, curves: Curves
) -> tuple[IntArray, FloatArray]:
    """Return each customer's group, and its coordinates in units of the group's radius."""
    coordinates = calendar_coordinates(load_kw, curves)[0]
    own = np.clip(places, 0, radii.size - 1)  # `NO_DATA` adds nothing, whatever its radius
    return places, coordinates / radii[own, None]


def calendar_coordinates(load_kw: FloatArray, curves: Curves) -> tuple[FloatArray, FloatArray]:
    """Return the weighted coordinates z / a of rows of load, and their length in kW.

    The mean of all slots is coordinate 0. A row with NaN or infinity gets zeros.
    """
    day_curves, slot_curves, places, scale = curves
    n_days, n_slots = len(day_curves), len(slot_curves)
    check_width(load_kw, n_days * n_slots)
    used = np.minimum(places, (n_days - 1, n_slots - 1))
    check_shapes(
        (day_curves, (n_days,) * 2), (slot_curves, (n_slots,) * 2), (scale, used.shape[:1])
    )
    coordinates = np.zeros((len(load_kw), len(places)))
    sizes = np.zeros(len(load_kw))
    shaped = (day_curves, slot_curves, np.maximum(used, 0), scale)
    _project_days(np.ascontiguousarray(load_kw), shaped, (coordinates, sizes))
    return coordinates, sizes


def row_lengths(rows: FloatArray) -> FloatArray:
    """Return the length of each row; a running sum has one order of additions."""
    return np.asarray(np.sqrt(np.cumsum(np.square(rows), axis=1)[:, -1]))


def products(rows: FloatArray, weights: FloatArray) -> FloatArray:
    """Return ``rows @ weights.T``, each sum added in the order of the columns."""
    check_width(rows, weights.shape[1])
    found = np.zeros((len(rows), len(weights)))
    _fill_products(np.ascontiguousarray(rows), np.ascontiguousarray(weights.T), found)
    return found


def check_shapes(*pairs: tuple[NDArray[Any], tuple[int, ...]]) -> None:
    """Refuse parameters of another shape: compiled loops would read beyond a row."""
    for array, shape in pairs:
        if array.shape != shape:
            raise InvalidParameterError("parameter of a row function", f"of {shape}", array.shape)


def check_width(rows: FloatArray, columns: int) -> None:
    """Refuse rows of another width: compiled loops do not check it."""
    if rows.shape[1] != columns:
        raise InvalidParameterError("load_kw", f"of {columns} columns", rows.shape[1])


@compiled
def _fill_products(rows: FloatArray, by_column: FloatArray, found: FloatArray) -> None:
    """Add w_jh x_h to entry j of each row, in the order of h."""
    for i in range(rows.shape[0]):
        for h in range(by_column.shape[0]):
            for j in range(by_column.shape[1]):
                found[i, j] += by_column[h, j] * rows[i, h]


@compiled
def _project_days(
    rows: FloatArray,
    curves: Curves,
    found: tuple[FloatArray, FloatArray],
) -> None:
    """Fill coordinates, first over the slots of each day, then over the days, in a fixed order."""
    day_curves, slot_curves, places, scale = curves
    coordinates, sizes = found
    n_days, n_slots = day_curves.shape[0], slot_curves.shape[0]
    used = 0
    for c in range(places.shape[0]):
        used = max(used, places[c, 1] + 1)
    by_day = np.empty((used, n_days))
    for i in range(rows.shape[0]):
        finite = True
        for h in range(rows.shape[1]):
            finite = finite and math.isfinite(rows[i, h])
        if not finite:
            continue
        for j in range(used):
            for day in range(n_days):
                total = 0.0
                for h in range(n_slots):
                    value = min(max(rows[i, day * n_slots + h], -_LARGEST), _LARGEST)
                    total += slot_curves[j, h] * value
                by_day[j, day] = total
        squares = 0.0
        for c in range(places.shape[0]):
            total = 0.0
            for day in range(n_days):
                total += day_curves[places[c, 0], day] * by_day[places[c, 1], day]
            coordinates[i, c] = total * scale[c]
            squares += coordinates[i, c] * coordinates[i, c]
        sizes[i] = math.sqrt(squares)
