"""Coordinates and sizes of rows of load in public bases."""

import math

import numpy as np

from wattveil.clustering._kernels import BLOCK
from wattveil.compiled import compiled
from wattveil.errors import InvalidParameterError
from wattveil.privacy.rows import FloatArray, IntArray, Mask, row_function

Curves = tuple[FloatArray, FloatArray, IntArray, FloatArray]
"""Public curves over days and over slots, their indices for each coordinate, and its scale."""

_LARGEST = 1e9
"""Values saturate here, in kW: no customer can overflow a sum of squares."""


@row_function
def project_rows(
    load_kw: FloatArray, *, basis: FloatArray, normalise: bool, longest: float
) -> tuple[FloatArray, Mask]:
    """Return the basis coordinates of each row, and whether it has any.

    A row with NaN or infinity has no coordinates; nor has, with ``normalise``, a row of zeros. With
    ``normalise`` rows are scaled to unit L2 norm; otherwise they are clipped to norm ``longest``.
    """
    check_width(load_kw, basis.shape[1])
    coordinates = np.empty((len(load_kw), len(basis)))
    has_data = np.zeros(len(load_kw), dtype=np.bool_)
    rule = (normalise, longest)
    _project_block(load_kw, np.ascontiguousarray(basis), rule, coordinates, has_data)
    return coordinates, has_data


@row_function
def comparable_rows(load_kw: FloatArray, *, normalise: bool, longest: float) -> tuple[FloatArray]:
    """Return every row, scaled or clipped as in `project_rows`, in slots; NaN without data."""
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
    return (np.searchsorted(edges, lengths, side="right").astype(np.int64),)


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
    return places, coordinates / radii[places, None]  # `NO_DATA` adds nothing


def calendar_coordinates(load_kw: FloatArray, curves: Curves) -> tuple[FloatArray, FloatArray]:
    """Return the weighted coordinates z / a of rows of load, and their length in kW.

    The mean of all slots is coordinate 0. A row with NaN or infinity gets zeros.
    """
    day_curves, slot_curves, places, _ = curves
    check_width(load_kw, len(day_curves) * len(slot_curves))
    coordinates = np.zeros((len(load_kw), len(places)))
    sizes = np.zeros(len(load_kw))
    _project_days(np.ascontiguousarray(load_kw), curves, (coordinates, sizes))
    return coordinates, sizes


def row_lengths(rows: FloatArray) -> FloatArray:
    """Return the L2 norm of each row; columns are added in the same order for every row."""
    squares = np.zeros(len(rows))
    for column in rows.T:
        squares += column * column
    return np.sqrt(squares)


def check_width(rows: FloatArray, columns: int) -> None:
    """Refuse rows of another width: compiled loops do not check it."""
    if rows.shape[1] != columns:
        raise InvalidParameterError("load_kw", f"of {columns} columns", rows.shape[1])


@compiled
def _project_block(
    rows: FloatArray,
    basis: FloatArray,
    rule: tuple[bool, float],
    coordinates: FloatArray,
    has_data: Mask,
) -> None:
    """Fill the coordinates z_j = scale sum_h B_jh x_h, added in the order of h."""
    normalise, longest = rule
    r, d = basis.shape
    columns = np.zeros((d, BLOCK))
    totals = np.empty(BLOCK)
    scale = np.empty(BLOCK)
    for begin in range(0, rows.shape[0], BLOCK):
        end = min(begin + BLOCK, rows.shape[0])
        for i in range(begin, end):
            squares = 0.0
            finite = True
            for h in range(d):
                finite = finite and math.isfinite(rows[i, h])
                value = min(max(rows[i, h], -_LARGEST), _LARGEST)
                columns[h, i - begin] = value
                squares += value * value
            length = math.sqrt(squares)
            has_data[i] = finite and (length > 0.0 or not normalise)
            scale[i - begin] = 1.0
            if normalise and has_data[i]:
                scale[i - begin] = 1.0 / length
            elif length > longest:
                scale[i - begin] = longest / length
        for j in range(r):
            totals[:] = 0.0
            for h in range(d):
                weight = basis[j, h]
                for b in range(BLOCK):
                    totals[b] += weight * columns[h, b]
            for b in range(end - begin):
                coordinates[begin + b, j] = scale[b] * totals[b]


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
