"""Inputs of a release: conversion of the caller's arrays to private rows."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from wattveil import checks
from wattveil.engines.local import LocalRows
from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.privacy.private_rows import FloatArray, Rows, Texts

Column = TypeVar("Column")

Load = ArrayLike | Rows[FloatArray]
"""One row per customer: a matrix, or the rows of an engine."""
Values = Sequence[Hashable] | NDArray[Any] | Rows[Texts]
"""Values of an attribute: one per customer, or a column of an engine."""


def as_rows(data: object | Rows[Column], read: Callable[[Any], Column]) -> Rows[Column]:
    """Return private rows: an engine's rows unchanged, other data read into memory."""
    return data if isinstance(data, Rows) else LocalRows(read(data))


def load_rows(load_kw: Load) -> Rows[FloatArray]:
    """Accept a matrix of real numbers, or the rows of an engine."""
    return as_rows(load_kw, partial(checks.matrix, "load_kw"))


def listed_rows(
    load_kw: FloatArray, ids: Sequence[str], *, customer_list: Sequence[str]
) -> Rows[FloatArray]:
    """Return a row for each customer on a public list, NaN for one without a row of its own."""
    place = {name: row for row, name in enumerate(ids)}
    nothing = np.full((1, load_kw.shape[1]), np.nan)
    return LocalRows(np.vstack([load_kw, nothing])[[place.get(name, -1) for name in customer_list]])


def value_rows(values: Values) -> Rows[Texts]:
    """Accept one value per customer of any hashable type, or a column of an engine."""
    return as_rows(values, value_column)


def value_column(values: Iterable[Hashable]) -> Texts:
    """Return values as a column of objects; a tuple is one value."""
    return np.fromiter(values, dtype=np.object_)


def text_column(values: Iterable[object]) -> Texts:
    """Return values as a column of strings."""
    return np.fromiter(map(str, values), dtype=np.object_)


def estimator_rows(estimator: object, X: ArrayLike, **options: Any) -> FloatArray:  # noqa: ANN401, N803 - scikit-learn's
    """Return the matrix given to an estimator; refuse anything else without quoting it.

    scikit-learn quotes rows and NumPy quotes cells, also as the context of an error of ours, which
    is raised afterwards. Of a matrix of real numbers they say nothing but its shape and names.
    """
    checks.unmasked("X", X)
    if getattr(X, "shape", (1,))[1:] == (0,):  # scikit-learn's words, without the number of rows
        rule = "a matrix: 0 feature(s) (shape=(, 0)) while a minimum of 1 is required."
        raise InvalidParameterError("X", rule, "no column")
    try:
        rows: FloatArray = validate_data(estimator, X, dtype=np.float64, **options)
    except (ValueError, OverflowError) as error:
        refusal = error
    else:
        return rows
    if "Complex data" in str(refusal):
        rule = "X is an array of real numbers. Complex data not supported"  # scikit-learn's words
        raise InvalidDataError(rule, [])
    axes = checks.numbers("X", X).ndim
    if axes != 2:  # noqa: PLR2004 - a matrix has two
        rule = "a matrix with one row per customer. Reshape your data"  # in scikit-learn's words
        raise InvalidParameterError("X", rule, f"{axes} axes")
    raise refusal
