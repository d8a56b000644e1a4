"""Check the tables of a bundle against what the statement says of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.linalg import LinAlgError
from pyarrow import compute

from wattveil.errors import InvalidFileError
from wattveil.profiles.grid import Grid
from wattveil.publish.bundle import read_table
from wattveil.publish.findings import Finding, gathered
from wattveil.publish.synthetic import FIRST_SET, MODEL, is_from_model, read_model

_ROUNDING = 1.0 + 1e-9
_KEYS = ("group", "cluster")
_BOUNDED = {False: ("centroids", "load_shapes"), True: ("load_shapes",)}
"""Tables of mean load in kW, with and without ``normalise``: no mean is beyond ``clip_kw``."""


def table_findings(bundle: Path, manifest: dict[str, Any]) -> Iterator[Finding]:
    """Check every table: shape, types, ranges, grid; and that Parquet and CSV say the same."""
    tables = [table for part in manifest["parts"] for table in part["tables"]]
    for table in tables:
        rows, columns = table["rows"], len(table["columns"])
        yield gathered(
            f"table {table['name']}",
            _problems(bundle, table, manifest["public_inputs"]),
            f"{rows} rows of {columns} columns, within range, in both formats",
        )


def synthetic_findings(bundle: Path, manifest: dict[str, Any]) -> Iterator[Finding]:
    """Draw the synthetic customers anew from the model, if there is one."""
    if not any(MODEL in part.get("documents", []) for part in manifest["parts"]):
        return
    check = "the synthetic customers come from the model"
    try:
        drawn = is_from_model(read_model(bundle), read_table(bundle, "synthetic")["load_kw"])
        seen = "drawn anew with the public seed" if drawn else "another set is drawn from it"
        yield Finding(check, drawn, seen)
    except (InvalidFileError, LookupError, LinAlgError) as error:
        yield Finding(check, holds=False, seen=f"cannot be drawn: {type(error).__name__}")


def _problems(bundle: Path, table: dict[str, Any], public: dict[str, Any]) -> Iterator[str]:
    try:
        data = read_table(bundle, table["name"])
        types = pa.schema([(column["name"], column["type"]) for column in table["columns"]])
        if not data.schema.equals(types):
            yield "columns are not those of the statement"
            return
        if data.num_rows != table["rows"] or data.num_rows != _rows_due(table, public):
            yield f"{data.num_rows} rows"
        if not read_table(bundle, table["name"], csv_types=types).equals(data):
            yield "CSV and Parquet differ"
    except InvalidFileError as error:
        yield f"cannot be read: {error.where}"
        return
    for column in table["columns"]:
        yield from _column_problems(data[column["name"]], column)
    bound = public["clip_kw"]
    if bound is not None and table["name"] in _BOUNDED[public["normalise"]]:
        yield from _rms_problems(data, bound)


def _rows_due(table: dict[str, Any], public: dict[str, Any]) -> int:
    """Return how many rows the public choices ask for, where they decide it."""
    grid = Grid.from_json(public["grid"])
    clusters, groups = public["n_clusters"], max(len(public["levels"]), 1)
    clustered = groups if public["clusters_by_group"] else 1
    due = {
        "centroids": clustered * clusters * grid.columns,
        "cluster_sizes": clustered * clusters,
        "load_shapes": groups * grid.cells,
        "load_duration": groups * grid.cells,
        "groups": groups,
        "cluster_shares": groups * clusters,
        "label_sizes": clusters,
        "synthetic": FIRST_SET * grid.columns,
    }
    rows: int = due.get(table["name"], table["rows"])
    return rows


def _column_problems(values: pa.ChunkedArray, column: dict[str, Any]) -> Iterator[str]:
    name = column["name"]
    if values.null_count and not column.get("may_be_empty"):
        yield f"{name} has empty cells"
    if column["type"] == "string":
        return
    numbers = values.drop_null().to_numpy()
    if not np.isfinite(numbers).all():
        yield f"{name} is not finite"
        return
    if numbers.size and (
        numbers.min() < column.get("least", -np.inf) or numbers.max() > column.get("most", np.inf)
    ):
        yield f"{name} is out of its range"
    if "grid_step" in column and np.mod(numbers, column["grid_step"]).any():
        yield f"{name} is off its grid"


def _rms_problems(data: pa.Table, most: float) -> Iterator[str]:
    """Compare the curves of clusters or groups with the bound on customers."""
    keys = [data[name].cast(pa.string()) for name in _KEYS if name in data.column_names]
    curve = compute.binary_join_element_wise(*keys, " ").to_numpy(zero_copy_only=False)
    squares = np.square(data["load_kw"].to_numpy())
    _, place, times = np.unique(curve.astype(str), return_inverse=True, return_counts=True)
    rms = np.sqrt(np.bincount(place, weights=squares) / times)
    if (rms > most * _ROUNDING).any():
        yield f"a mean load is beyond the bound of {most:g} kW on customers"
