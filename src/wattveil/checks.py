"""Validation of public arguments.

Each rule returns the accepted value or raises `InvalidParameterError` with the field, the rule and
the value. Comparisons are written so that NaN fails them. Values come from callers, so their types
are checked at run time, whatever the annotation.
"""

import math
import re
from collections.abc import Callable
from enum import StrEnum
from numbers import Integral, Real
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattveil.errors import InvalidDataError, InvalidParameterError, not_numbers, one_of

E = TypeVar("E", bound=StrEnum)

MIN_EPSILON, MAX_EPSILON = 1e-12, 1e6


def positive(field: str, value: object) -> float:
    """Accept a finite number above 0."""
    return _number(field, value, "a finite number above 0", lambda x: 0.0 < x < math.inf)


def non_negative(field: str, value: object) -> float:
    """Accept a finite number of at least 0."""
    return _number(field, value, "a finite number of at least 0", lambda x: 0.0 <= x < math.inf)


def epsilon(field: str, value: object) -> float:
    """Accept a privacy loss of at least 0; one beyond 1e6 protects nothing and is a mistake."""
    return _number(field, value, "at least 0 and at most 1e6", lambda x: 0.0 <= x <= MAX_EPSILON)


def positive_epsilon(field: str, value: object) -> float:
    """Accept an epsilon that a mechanism can provide; one below 1e-12 is a mistake as well."""
    rule = f"at least {MIN_EPSILON:g} and at most {MAX_EPSILON:g}"
    return _number(field, value, rule, lambda x: MIN_EPSILON <= x <= MAX_EPSILON)


def finite(field: str, value: object) -> float:
    """Accept a finite number."""
    return _number(field, value, "a finite number", math.isfinite)


def probability(field: str, value: object) -> float:
    """Accept a probability strictly between 0 and 1."""
    return _number(field, value, "above 0 and below 1", lambda x: 0.0 < x < 1.0)


def probability_or_zero(field: str, value: object) -> float:
    """Accept a probability of at least 0 and below 1."""
    return _number(field, value, "at least 0 and below 1", lambda x: 0.0 <= x < 1.0)


def integer(field: str, value: object, *, minimum: int, maximum: int | None = None) -> int:
    """Accept an integer within its limits; a bool is refused."""
    if not isinstance(value, bool) and isinstance(value, Integral):
        whole = int(value)
        if whole >= minimum and (maximum is None or whole <= maximum):
            return whole
    limit = "" if maximum is None else f" and at most {maximum:,}"
    raise InvalidParameterError(field, f"a whole number of at least {minimum}{limit}", value)


def numbers(field: str, value: ArrayLike) -> NDArray[np.float64]:
    """Accept an array of real numbers; refuse anything else without quoting its content.

    NumPy's own error would quote a cell, also as the context of ours, so that is raised afterwards.
    """
    unmasked(field, value)
    try:
        array = None if np.iscomplexobj(value) else np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        array = None
    if array is None:
        raise not_numbers(field, getattr(value, "dtypes", getattr(value, "schema", type(value))))
    return array


def unmasked(field: str, value: object) -> None:
    """Refuse a masked array: NumPy drops masks on conversion, so masked rows would be included."""
    parts = [value, *value] if isinstance(value, list | tuple) else [value]
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        rule = f"{field} is no masked array: leave rows out or fill them with NaN"
        raise InvalidDataError(rule, [])


def columns(field: str, matrix: NDArray[np.float64]) -> int:
    """Accept a matrix and return its number of columns, a public fact."""
    if matrix.ndim != 2 or matrix.shape[1] == 0:  # noqa: PLR2004 - a matrix has two axes
        rule = "a matrix with one row per customer and at least one column"
        raise InvalidParameterError(field, rule, f"{matrix.ndim} axes")
    return int(matrix.shape[1])


def matrix(field: str, value: ArrayLike) -> NDArray[np.float64]:
    """Accept a matrix of real numbers with one row per customer."""
    array = numbers(field, value)
    columns(field, array)
    return array


def member(field: str, value: object, kind: type[E]) -> E:
    """Accept a member of the enum itself, so that a typo in a string cannot choose a tier."""
    if not isinstance(value, kind):
        raise InvalidParameterError(field, f"a {kind.__name__}", value)
    return value


def enum_value(field: str, value: object, kind: type[E]) -> E:
    """Read an enum member from its text."""
    for choice in kind:
        if value == choice.value:
            return choice
    raise InvalidParameterError(field, one_of(choice.value for choice in kind), value)


def decimal(field: str, text: object) -> float:
    """Read a float from exactly the text that ``repr`` writes."""
    try:
        value = float(str(text))
    except ValueError:
        value = math.nan
    if repr(value) != text or not math.isfinite(value):
        raise InvalidParameterError(field, "a finite decimal number as written by repr", text)
    return value


def is_address(path: object) -> bool:
    """Whether a path names a file system: ``s3a://…``, ``file:/…``; drives have one letter."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(path)) is not None


def local_path(field: str, path: Path) -> None:
    """Refuse an address: as a path it would name a folder such as ``s3a:`` on this machine."""
    if is_address(path):
        raise InvalidParameterError(field, "a path on this machine, not an address", str(path))


def _number(field: str, value: object, rule: str, accepts: Callable[[float], bool]) -> float:
    """Accept a real number, not a bool and not a string, that meets the rule."""
    if not isinstance(value, bool) and isinstance(value, Real):
        try:
            number = float(value)
        except OverflowError:  # an integer beyond all floats
            number = math.nan
        if accepts(number):
            return number
    raise InvalidParameterError(field, rule, value)
