"""What a release is given: the load of customers, and the place of each one's group."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from wattveil import checks
from wattveil.clustering.geometry import Floats
from wattveil.clustering.group_table import UNLISTED
from wattveil.engines.local import LocalRows, as_rows
from wattveil.engines.rows import Rows, Texts
from wattveil.errors import InvalidDataError, InvalidParameterError

Load = ArrayLike | Rows[Floats]
"""One row a customer: a matrix, or what an engine keeps."""
Places = NDArray[np.int64]
Values = Sequence[Hashable] | NDArray[Any] | Rows[Texts]
"""What customers have of an attribute: one value each, or a column that an engine keeps."""


def load_rows(load_kw: Load) -> Rows[Floats]:
    """Accept a matrix of real numbers, or what an engine keeps."""
    return as_rows(load_kw, partial(checks.matrix, "load_kw"))


def estimator_rows(estimator: object, X: ArrayLike, **options: Any) -> Floats:  # noqa: ANN401, N803 - scikit-learn's
    """Return the matrix that an estimator is given; what is none is refused without quoting it.

    scikit-learn quotes rows and NumPy quotes cells, also as the context of an error of ours, which
    is raised afterwards. Of a matrix of real numbers they say nothing but its shape and names.
    """
    checks.unmasked("X", X)
    try:
        rows: Floats = validate_data(estimator, X, dtype=np.float64, **options)
    except (ValueError, OverflowError) as error:
        refusal = error
    else:
        return rows
    if "Complex data" in str(refusal):
        rule = "X is an array of real numbers. Complex data not supported"  # scikit-learn's words
        raise InvalidDataError(rule, [])
    axes = checks.numbers("X", X).ndim
    if axes != 2:  # noqa: PLR2004 - a matrix has two
        rule = "a matrix with one row a customer. Reshape your data"  # in scikit-learn's words
        raise InvalidParameterError("X", rule, f"{axes} axes")
    raise refusal


def with_places(
    load_kw: Rows[Floats],
    groups: Mapping[str, Values],
    find: Callable[[Any, int], Places],
) -> Rows[Floats, Places]:
    """Return the load of customers with the place of each one's group, or `UNLISTED`.

    ``find`` tells the places from the values of each attribute and the number of customers; the
    place of a customer must depend on that customer's own values alone. A customer whose load has
    NaN or infinity has no data, and no place.
    """

    def placed(rows: Floats, values: Mapping[str, Any]) -> tuple[Floats, Places]:
        has_data = np.isfinite(rows).all(axis=1)
        return rows, np.where(has_data, find(values, len(rows)), UNLISTED)

    if isinstance(load_kw, LocalRows):
        if any(isinstance(values, Rows) for values in groups.values()):
            raise InvalidParameterError("groups", "in memory, as load_kw is", "elsewhere")
        (rows,) = load_kw.columns
        return LocalRows(*placed(rows, groups))
    names = list(groups)
    table: Any = load_kw
    for values in groups.values():
        if not isinstance(values, Rows):
            rule = "columns of the engine that keeps load_kw"
            raise InvalidParameterError("groups", rule, type(values).__name__)
        table = table.beside(values, field="groups")
    mapped: Rows[Floats, Places] = table.map(
        lambda rows, *values: placed(rows, dict(zip(names, values, strict=True)))
    )
    return mapped
