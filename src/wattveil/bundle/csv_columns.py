"""Columns of the CSV tables that planners write by hand: buses, branches, temperatures."""

import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from wattveil.errors import IgnoredColumnsWarning, InvalidFileError

_NO_MEANING: Mapping[str, str] = {}


def check_columns(
    path: object,
    columns: Sequence[str],
    *,
    needed: Collection[str],
    optional: Collection[str] = (),
    meaning: Mapping[str, str] = _NO_MEANING,
) -> None:
    """Refuse a header with all its problems at once; warn of columns that are not used.

    Parameters
    ----------
    path
        File, for the message.
    columns
        Header of the file.
    needed, optional
        Columns that must be there, and those that may be.
    meaning
        What to add to the name of a missing column in the message.
    """
    problems = [f"a column {name}{meaning.get(name, '')}" for name in needed if name not in columns]
    twice = [name for name, times in Counter(columns).items() if times > 1]
    problems += [f"a single column {name}" for name in twice]
    if problems:
        raise InvalidFileError(path, "header", "; ".join(problems), list(columns))
    if unused := [name for name in columns if name not in needed and name not in optional]:
        known = ", ".join((*needed, *optional))
        text = f"{path}: columns not used: {', '.join(unused)}. Those that are: {known}."
        warnings.warn(text, IgnoredColumnsWarning, stacklevel=2)
