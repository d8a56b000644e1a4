"""Check the tables of a bundle: against the public choices, and against each other."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import compute

from wattveil.errors import InvalidFileError
from wattveil.publish.bundle import read_footer, read_table
from wattveil.publish.findings import Finding, gathered
from wattveil.publish.manifest import part_words
from wattveil.publish.parts import Choice, Part
from wattveil.publish.tables import Column, Layout, Table

_ROUNDING = 1.0 + 1e-9
_KEYS = ("group", "cluster")

Tables = dict[str, Table]


def part_findings(
    manifest: dict[str, Any], parts: Sequence[Part], choice: Choice
) -> Iterator[Finding]:
    """Compare what the statement says of its tables with what such a release has."""
    for part, stated in zip(parts, manifest["parts"], strict=True):
        words = part_words(part, choice)
        problems = [
            f"{field} is not what such a release has"
            for field in ("postprocessing", "documents")
            if stated.get(field) != words.get(field)
        ]
        tables = [{**table, "rows": None} for table in stated["tables"]]
        layouts = part.layouts(choice)
        due = [
            {
                "name": layout.name,
                "text": layout.text,
                "rows": None,
                "columns": [column.to_json() for column in layout.columns],
            }
            for layout in layouts
        ]
        if tables != due:
            problems += ["tables, columns or their limits are not those of such a release"]
        names = ", ".join(layout.name for layout in layouts)
        yield gathered(f"part {part.name}: what it has to have", problems, names)


def table_findings(
    bundle: Path, manifest: dict[str, Any], layouts: Iterable[Layout]
) -> tuple[list[Finding], Tables]:
    """Check every table: shape, keys, ranges, grid, both formats; return those that can be read."""
    findings, tables = [], {}
    rows = {table["name"]: table["rows"] for part in manifest["parts"] for table in part["tables"]}
    for layout in layouts:
        found, data = _checked(bundle, layout, rows.get(layout.name))
        findings += [found]
        if data is not None:
            tables[layout.name] = Table(
                name=layout.name, text=layout.text, columns=layout.columns, data=data
            )
    return findings, tables


def _checked(bundle: Path, layout: Layout, rows: int | None) -> tuple[Finding, pa.Table | None]:
    """Check one table; return it too if nothing is wrong with it."""
    check = f"table {layout.name}"
    try:
        unread = list(_footer_problems(layout, read_footer(bundle, layout.name), rows))
        if unread:
            return gathered(check, unread, "none"), None
        data = read_table(bundle, layout.name)
        text = read_table(bundle, layout.name, csv_types=layout.schema)
    except InvalidFileError as error:
        return Finding(check, holds=False, seen=f"cannot be read: {error.where}"), None
    fine = f"{data.num_rows} rows of {data.num_columns} columns, within range, both formats"
    found = gathered(check, _problems(layout, data, text, rows), fine)
    return found, data if found.holds else None


def _footer_problems(layout: Layout, footer: pq.FileMetaData, rows: int | None) -> Iterator[str]:
    """Look at what a file says of itself. Its values may have thousands of times as many bytes."""
    if not footer.schema.to_arrow_schema().equals(layout.schema, check_metadata=True):
        yield "columns are not those of such a release"  # nothing rides along
        return
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    said = {sum(group.num_rows for group in groups)} | {
        sum(group.column(place).num_values for group in groups)
        for place in range(footer.num_columns)
    }
    if footer.num_rows != rows:
        yield f"{footer.num_rows} rows, and {rows} in the statement"
    elif said != {rows}:
        yield f"{rows} rows, and other numbers of values"


def _problems(layout: Layout, data: pa.Table, text: pa.Table, rows: int | None) -> Iterator[str]:
    if data.num_rows != rows:
        yield "other rows than the file says it has"
    if not text.equals(data):
        yield "CSV and Parquet differ"
    if layout.keys and not data.select([column.name for column in layout.keys]).equals(
        layout.known
    ):
        yield "rows are not those of the clusters, groups and slots that were asked for"
        return
    for column in layout.columns:
        yield from _column_problems(data[column.name], column)
    if layout.most_rms is not None:
        yield from _rms_problems(data, layout.most_rms)


def _column_problems(values: pa.ChunkedArray, column: Column) -> Iterator[str]:
    if values.null_count and not column.may_be_empty:
        yield f"{column.name} has empty cells"
    if column.type == "string":
        return
    numbers = values.drop_null().to_numpy()
    if not np.isfinite(numbers).all():
        yield f"{column.name} is not finite"
        return
    least = -np.inf if column.least is None else column.least
    most = np.inf if column.most is None else column.most
    if numbers.size and (numbers.min() < least or numbers.max() > most):
        yield f"{column.name} is out of its range"
    if column.grid_step is not None and np.mod(numbers, column.grid_step).any():
        yield f"{column.name} is off its grid"


def _rms_problems(data: pa.Table, most: float) -> Iterator[str]:
    """Compare the curves of clusters or groups with the bound on customers."""
    keys = [data[name].cast(pa.string()) for name in _KEYS if name in data.column_names]
    curve = compute.binary_join_element_wise(*keys, " ").to_numpy(zero_copy_only=False)
    squares = np.square(data["load_kw"].to_numpy())
    _, place, times = np.unique(curve.astype(str), return_inverse=True, return_counts=True)
    rms = np.sqrt(np.bincount(place, weights=squares) / times)
    if (rms > most * _ROUNDING).any():
        yield f"a mean load is beyond the bound of {most:g} kW on customers"
