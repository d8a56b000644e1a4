"""Groups of customers as charts, reports and messages name them.

A value such as ``True`` or ``8001`` says nothing without its attribute: it is shown as
``has_ev: yes`` or ``zip: 8001``. Words such as ``home`` are shown as they are. Released tables and
options have the value itself, so that they can be joined and filtered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from wattveil.numerics.groups.aggregation_rule import ALL_TOGETHER, cell_names
from wattveil.products.request import NO_RULE
from wattveil.products.tables import Table

_TRUTH = {"true": "yes", "false": "no"}
_ANSWERS = {*_TRUTH, "yes", "no", "y", "n", "t", "f"}


def value_text(value: str) -> str:
    """Return a value of an attribute in words.

    >>> value_text("True"), value_text("false + other"), value_text("home")
    ('yes', 'no + other', 'home')
    """
    return " + ".join(_TRUTH.get(one.casefold(), one) for one in value.split(" + "))


def group_labels(by: str | None, levels: Sequence[str], rule: str = NO_RULE) -> dict[str, str]:
    """Return the label of each group: of all with the attribute, or of none.

    >>> group_labels("has_ev", ["True", "False"])
    {'True': 'has_ev: yes', 'False': 'has_ev: no'}
    >>> group_labels("class", ["home", "shop"])
    {'home': 'home', 'shop': 'shop'}

    Parameters
    ----------
    by, levels, rule
        As in `ReleaseRequest`; under a rule, groups may be published together.
    """
    groups = cell_names(levels) if levels and rule != NO_RULE else levels
    if by is None or not any(map(_needs_attribute, levels)):
        return {group: group for group in groups}
    return {
        group: group if group == ALL_TOGETHER else f"{by}: {value_text(group)}" for group in groups
    }


def request_labels(request: Mapping[str, object]) -> dict[str, str]:
    """Return the labels of the groups of a request in a manifest."""
    by, levels = request.get("by"), request.get("levels")
    groups = [str(level) for level in levels] if isinstance(levels, Sequence) else []
    return group_labels(None if by is None else str(by), groups, str(request.get("rule", NO_RULE)))


def labelled(table: Table, labels: Mapping[str, str]) -> Table:
    """Return a table with labels instead of the values in its column ``group``, if it has one."""
    if "group" not in table.data.column_names or all(key == text for key, text in labels.items()):
        return table
    names = [labels.get(group, group) for group in table.data["group"].to_pylist()]
    place = table.data.column_names.index("group")
    return replace(table, data=table.data.set_column(place, "group", pa.array(names, pa.string())))


def _needs_attribute(value: str) -> bool:
    """Whether a value is an answer or a number, and no word."""
    return value.casefold() in _ANSWERS or not any(map(str.isalpha, value))
