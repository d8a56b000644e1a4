"""Functions of private rows: coordinates, sizes, nearest centroids and groups of customers."""

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattveil.arrays import Bools, Floats, Ints, Texts
from wattveil.compiled import compiled
from wattveil.errors import InvalidParameterError, wrong_width
from wattveil.numerics.kmeans.kernels import BLOCK, block_distances
from wattveil.privacy.mechanisms.contributions import NO_DATA
from wattveil.privacy.private_data import row_function

Curves = tuple[Floats, Floats, Ints, Floats]
"""Public curves over days and over slots, their indices for each coordinate, and its scale."""

_LARGEST = 1e9
"""Values saturate here, in kW: no customer can overflow a sum of squares."""


@row_function
def project_rows(
    load_kw: Floats, *_others: Texts, basis: Floats, normalise: bool, longest: float
) -> tuple[Floats, Bools]:
    """Return the basis coordinates of each row, and whether it has any; of the load alone.

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
def comparable_rows(load_kw: Floats, *, normalise: bool, longest: float) -> tuple[Floats]:
    """Return every row as `project_rows` takes it, in its own coordinates; without data as NaN."""
    basis = np.eye(load_kw.shape[1])
    rows, has_data = project_rows(load_kw, basis=basis, normalise=normalise, longest=longest)
    rows[~has_data] = math.nan
    return (rows,)


@row_function
def first_columns(rows: Floats, *, columns: int) -> tuple[Floats]:
    """Return the first columns of each row."""
    return (rows[:, :columns].copy(),)


@row_function
def first_coordinates(rows: Floats, *, columns: int) -> tuple[Floats, Bools]:
    """Return the first coordinates of each row; keep every customer."""
    return rows[:, :columns].copy(), np.ones(len(rows), dtype=np.bool_)


@row_function
def one_cell(rows: Floats) -> tuple[Ints]:
    """Return cell 0 for every customer."""
    return (np.zeros(len(rows), dtype=np.int64),)


@row_function
def size_cells(rows: Floats, *others: Ints, edges: Floats, coordinates: int) -> tuple[Ints]:
    """Return the histogram cell of the length of each row's first coordinates."""
    del others
    lengths = row_lengths(rows[:, :coordinates])
    cells = np.searchsorted(edges, lengths, side="right")
    return (np.where(np.isnan(lengths), NO_DATA, cells),)


@row_function
def group_cells(load_kw: Floats, places: Ints) -> tuple[Ints]:
    """Return the group of each customer, or `NO_DATA`."""
    del load_kw
    return (places,)


@row_function
def any_group_cell(load_kw: Floats, places: Ints) -> tuple[Ints]:
    """Return cell 0 for every customer in a group, `NO_DATA` for others."""
    del load_kw
    return (np.minimum(places, 0),)


@row_function
def group_size_cells(
    load_kw: Floats, places: Ints, *, edges: Floats, curves: Curves
) -> tuple[Ints]:
    """Return the cell of each customer by group and size, or `NO_DATA`."""
    sizes = calendar_coordinates(load_kw, curves)[1]
    cells = places * (edges.size + 1) + np.searchsorted(edges, sizes, side="right")
    return (np.where(places < 0, places, cells),)


@row_function
def group_coordinates(
    load_kw: Floats, places: Ints, *, radii: Floats, curves: Curves
) -> tuple[Ints, Floats]:
    """Return each customer's group, and its coordinates in units of the group's radius."""
    coordinates = calendar_coordinates(load_kw, curves)[0]
    own = np.clip(places, 0, radii.size - 1)  # `NO_DATA` adds nothing, whatever its radius
    return places, coordinates / radii[own, None]


def calendar_coordinates(load_kw: Floats, curves: Curves) -> tuple[Floats, Floats]:
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


def row_lengths(rows: Floats) -> Floats:
    """Return the length of each row; a running sum has one order of additions."""
    return np.asarray(np.sqrt(np.cumsum(np.square(rows), axis=1)[:, -1]))


def products(rows: Floats, weights: Floats) -> Floats:
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


def check_width(rows: Floats, columns: int) -> None:
    """Refuse rows of another width: compiled loops do not check it."""
    if rows.shape[1] != columns:
        raise wrong_width("load_kw", columns, rows.shape[1])


@compiled
def _fill_products(rows: Floats, by_column: Floats, found: Floats) -> None:
    """Add w_jh x_h to entry j of each row, in the order of h."""
    for i in range(rows.shape[0]):
        for h in range(by_column.shape[0]):
            for j in range(by_column.shape[1]):
                found[i, j] += by_column[h, j] * rows[i, h]


@compiled
def _project_days(
    rows: Floats,
    curves: Curves,
    found: tuple[Floats, Floats],
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


@row_function
def nearest_centroid(load_kw: Floats, *, centroids: Floats) -> tuple[Ints]:
    """Return the nearest centroid of each row, or `NO_DATA`; the first one in case of a tie."""
    has_data = np.asarray(np.isfinite(load_kw).all(axis=1))
    # Loads saturate where the distances to two centroids can still be distinguished.
    reach = min(1e6 * (1.0 + float(np.abs(centroids).max())), 1e100)
    filled = np.clip(np.where(has_data[:, None], load_kw, 0.0), -reach, reach)
    return (np.where(has_data, nearest(filled, centroids)[0], NO_DATA),)


@row_function
def with_nearest(load_kw: Floats, *, centroids: Floats) -> tuple[Floats, Ints, Bools]:
    """Return the rows with data, and the nearest centroid of each."""
    (labels,) = nearest_centroid(load_kw, centroids=centroids)
    return load_kw, labels, labels != NO_DATA


@row_function
def nearest_cells(load_kw: Floats, places: Ints, *, centroids: Floats) -> tuple[Ints]:
    """Return the cell of each customer among groups and nearest centroids, or `NO_DATA`."""
    (labels,) = nearest_centroid(load_kw, centroids=centroids)
    inside = (labels != NO_DATA) & (places != NO_DATA)
    return (np.where(inside, places * len(centroids) + labels, NO_DATA),)


@row_function
def nearest_offsets(
    rows: Floats,
    *,
    centres: Floats,
    radii: Floats,
    colour: Floats,
    shells: Floats,
) -> tuple[Ints, Floats, Ints]:
    """Return the nearest cell, the offset ``(z - c) / (rho a)``, and the cell-and-shell index."""
    labels, _ = nearest(rows, centres)
    check_shapes((radii, centres.shape[:1]), (colour, centres.shape[1:]))
    offsets, lengths = np.empty(rows.shape), np.empty(len(rows))
    _fill_offsets((rows, labels), centres, 1.0 / (radii[:, None] * colour), offsets, lengths)
    shell_of = np.searchsorted(shells, lengths, side="right")
    return labels, offsets, labels * (shells.size + 1) + shell_of


@row_function
def cost_features(rows: Floats, *, centroids: Floats, features: Floats) -> tuple[Ints, Floats]:
    """Return cell 0 and features of the costs d_m = min_k |z - c_mk|^2 under M sets of centroids.

    ``sum_m (d_m - d_1) features_mq``, added in the order of m. ``centroids`` is (M, K, r).
    """
    found = np.zeros((len(rows), features.shape[1]))
    costs = [nearest(rows, one)[1] for one in centroids]
    for cost, weights in zip(costs[1:], features[1:], strict=True):
        found += (cost - costs[0])[:, None] * weights
    return np.zeros(len(rows), dtype=np.int64), found


def nearest(rows: Floats, centroids: Floats) -> tuple[Ints, Floats]:
    """Return the nearest centroid of each row, and the squared distance to it."""
    check_width(rows, centroids.shape[1])
    labels, distances = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
    whole = np.ascontiguousarray(rows), np.ascontiguousarray(centroids)
    _fill_nearest(*whole, labels, distances)
    return labels, distances


@compiled
def _fill_nearest(rows: Floats, centroids: Floats, labels: Ints, smallest: Floats) -> None:
    """Fill the label of each row, the first at the minimum distance, and that squared distance."""
    n_clusters, d = centroids.shape
    columns = np.zeros((d, BLOCK))
    distances = np.empty((n_clusters, BLOCK))
    least = np.empty(BLOCK)
    label = np.empty(BLOCK, np.int64)
    for begin in range(0, rows.shape[0], BLOCK):
        end = min(begin + BLOCK, rows.shape[0])
        block_distances(rows, (begin, end), centroids, columns, distances)
        least[:] = np.inf
        label[:] = 0
        for k in range(n_clusters):
            for b in range(BLOCK):
                closer = distances[k, b] < least[b]
                least[b] = distances[k, b] if closer else least[b]
                label[b] = k if closer else label[b]
        labels[begin:end] = label[: end - begin]
        smallest[begin:end] = least[: end - begin]


@compiled
def _fill_offsets(
    assigned: tuple[Floats, Ints],
    centres: Floats,
    scale: Floats,
    offsets: Floats,
    lengths: Floats,
) -> None:
    """Fill the scaled offset of each row from the centre of its cell, and its length."""
    rows, labels = assigned
    for i in range(rows.shape[0]):
        squares = 0.0
        for j in range(rows.shape[1]):
            offset = (rows[i, j] - centres[labels[i], j]) * scale[labels[i], j]
            offsets[i, j] = offset
            squares += offset * offset
        lengths[i] = math.sqrt(squares)


@row_function
def with_places(
    load_kw: Floats, *values: Texts, levels: Sequence[tuple[str, Sequence[Hashable]]]
) -> tuple[Floats, Ints, Bools]:
    """Return the load, and the place of each customer's group among all combinations of levels.

    ``levels`` has the name and the levels of each attribute, and ``values`` its column; without
    any, every place is 0. A customer with a value that is not listed, or with NaN or infinity in
    the load, is in no group.
    """
    places = np.zeros(len(load_kw), dtype=np.int64)
    listed = np.isfinite(load_kw).all(axis=1)
    for (name, known), column in zip(levels, values, strict=True):
        own = places_among(column, known, field=name)
        places = places * len(known) + own
        listed &= own != NO_DATA
    return load_kw, np.where(listed, places, NO_DATA), np.ones(len(load_kw), dtype=np.bool_)


@row_function
def of_group(load_kw: Floats, places: Ints, *, place: int) -> tuple[Floats, Bools]:
    """Return the load of the customers of one group."""
    return load_kw, places == place


def places_among(values: Texts, levels: Sequence[Hashable], *, field: str) -> Ints:
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
