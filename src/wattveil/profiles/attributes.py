"""Tables of attributes: read, looked up by customer id, and compared with the readings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from wattveil.errors import InvalidFileError
from wattveil.readings.schema import SPACES
from wattveil.readings.sources import read_texts
from wattveil.readings.sql_text import ident
from wattveil.web.formatting import format_count, format_share

_MAX_UNMATCHED = 0.05  # share of customers without a warning
_MAX_VALUES = 10  # listed for each attribute


def attribute_table(path: Path) -> pa.Table:
    """Read a table of attributes: texts, the customer first, each of them once."""
    table = read_texts(path)
    key = next((name for name in ("customer_id", "meter_id") if name in table.column_names), None)
    if key is None:
        expected = "a column customer_id or meter_id"
        told = (path, "header", expected, table.column_names)
        raise InvalidFileError(*told, remedy="Rename the column of customers")
    names = [str(name).strip(SPACES) for name in table[key].to_pylist()]
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InvalidFileError(path, f"column {ident(key)}", "each customer once", twice)
    texts = {"customer_id": pa.array(names, pa.string())}
    for column in table.column_names:
        if column != key:
            values = (None if value is None else str(value) for value in table[column].to_pylist())
            texts[column] = pa.array(values, pa.string())
    return pa.table(texts)


def look_up(table: pa.Table, customer_ids: tuple[str, ...]) -> dict[str, tuple[str | None, ...]]:
    """Look every customer up in the table of attributes."""
    row_of = {name: row for row, name in enumerate(table[0].to_pylist())}
    rows = pa.array([row_of.get(name) for name in customer_ids], pa.int64())
    return {
        column: tuple(table[column].take(rows).to_pylist()) for column in table.column_names[1:]
    }


def listed_values(
    attributes: Mapping[str, Sequence[str | None]],
) -> dict[str, tuple[dict[str, int], int]]:
    """Return the most frequent values of each attribute with exact counts: for the data holder.

    The second number is that of values that are not listed. Groups of a release must be spelled
    like these values.
    """
    found = {}
    for name, column in attributes.items():
        counts = Counter(value for value in column if value is not None)
        listed = sorted(counts, key=lambda value: (-counts[value], value))[:_MAX_VALUES]
        found[name] = ({value: counts[value] for value in listed}, len(counts) - len(listed))
    return found


def unmatched_ids(table: pa.Table, customer_ids: Sequence[str], path: Path) -> str:
    """Return a warning with one id of each side if many customers are not in the table.

    It names customers and has exact counts: for the data holder only.
    """
    listed = table[0].to_pylist()
    known, read = set(listed), set(customer_ids)
    missing = [name for name in customer_ids if name not in known]
    spare = next((name for name in listed if name not in read), None)
    example = f" (for example {missing[0]} and {spare})" if missing and spare else ""
    return unmatched_warning(len(missing), len(customer_ids), path, example)


def unmatched_warning(missing: int, customers: int, path: Path, example: str = "") -> str:
    """Return the warning that customers are not in the table; empty if they are few."""
    if missing <= _MAX_UNMATCHED * customers:
        return ""
    advice = f"compare the ids{example}"
    if missing == customers:
        return f"no customer of the readings is in {path.name}; {advice}"
    share, are = format_share(missing / customers, 0), "is" if missing == 1 else "are"
    return f"{format_count(missing, 'customer')} ({share}) {are} not in {path.name}; {advice}"
