"""Compute anew the released numbers that follow from other released numbers.

Counts and their stated noise give standard errors and shares; labels and their channel give sizes;
the model gives the synthetic customers. What was filtered from noisy sums that are not published
cannot be computed anew.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import ArrayLike, NDArray

from wattveil.clustering.calendar import public_calendar
from wattveil.clustering.debias import debiased_counts
from wattveil.clustering.group_table import consistent_shares
from wattveil.clustering.label_channel import checked_clusters
from wattveil.errors import InvalidFileError
from wattveil.privacy.guarantee import Tier
from wattveil.publish import columns
from wattveil.publish.findings import Finding, gathered
from wattveil.publish.load import duration_kw
from wattveil.publish.parts import Choice
from wattveil.publish.synthetic import MODEL, first_set, model_text, read_model
from wattveil.publish.tables import Layout, Table
from wattveil.publish.verify_tables import Tables

_PSEUDONYM = re.compile("[0-9a-f]{32}")


def number_findings(
    bundle: Path,
    manifest: dict[str, Any],
    tables: Tables,
    layouts: Mapping[str, Layout],
    choice: Choice,
) -> Iterator[Finding]:
    """Check everything that can be computed anew; tables that are broken are passed over."""
    parts = {part["name"]: part for part in manifest["parts"]}
    yield gathered(
        "draws are of as many numbers as there are cells",
        (problem for part in parts.values() for problem in _dimensions(part, choice)),
        "clusters by groups, groups by slots",
    )
    if "cluster_shares" in tables:
        yield gathered(
            "shares follow from counts, errors from the noise",
            _shares(tables["cluster_shares"], parts["shares"], choice),
            "computed anew",
        )
    if choice.request.tier is Tier.INSTANCE and {"labels", "cluster_sizes"} <= set(tables):
        labels = _column(tables["labels"], "label")
        counted = np.bincount(labels, minlength=choice.request.n_clusters)
        same = _same(_column(tables["cluster_sizes"], "customers"), counted)
        yield Finding("sizes are counted labels", same, "counted anew")
    if {"labels", "label_sizes", "cluster_sizes", "centroids"} <= set(tables):
        yield gathered(
            "sizes follow from the labels and their channel",
            _label_sizes(tables, parts["labels"]["channel"], choice),
            "computed anew",
        )
    if "labels" in tables:
        yield gathered(
            "labels are of one customer each",
            _label_names(tables["labels"].data["customer"].to_pylist(), choice),
            "under their own names" if choice.request.real_ids else "under pseudonyms",
        )
    if {"load_duration", "load_shapes", "groups"} <= set(tables):
        means = _column(tables["load_shapes"], "load_kw").reshape(-1, choice.grid.cells)
        due = duration_kw(means, _column(tables["groups"], "customers")).ravel()
        same = _same(_column(tables["load_duration"], "load_kw"), due)
        yield Finding("load duration is the mean load sorted", same, "times the customers")
    if "synthesis" in parts and {"synthetic", "centroids"} <= set(tables):
        yield gathered(
            "the synthetic customers come from the model",
            _synthetic(bundle, tables, layouts["centroids"]),
            "drawn anew with the public seed, around the released curves",
        )


def _dimensions(part: dict[str, Any], choice: Choice) -> Iterator[str]:
    """Compare how many numbers were drawn with how many it takes."""
    request, grid = choice.request, choice.grid
    groups = max(len(request.levels), 1)
    # Of long rows not every coordinate is asked for: how many depends on how many customers.
    fewest = public_calendar(grid.cells, n_days=grid.cells // grid.slots, signal=0.0).colour.size
    due = {
        "clusters by group": groups * request.n_clusters,
        "customers by group": groups,
        "sums of load": groups * fewest,
        "customers by cluster and export": request.n_clusters,
    }
    for run in part["runs"]:
        for mechanism in run["mechanisms"]:
            numbers = mechanism.get("gaussian", {}).get("numbers", 0)
            least = due.get(mechanism["tag"], 0)
            if numbers < least:
                yield f"{mechanism['tag']}: {numbers} numbers, at least {least} are needed"


def _shares(table: Table, part: dict[str, Any], choice: Choice) -> Iterator[str]:
    shape = (-1, choice.request.n_clusters)
    std = _noise_std(part["runs"][0]["mechanisms"][0]["gaussian"])
    if not _same(_column(table, "count_std"), np.full(table.data.num_rows, std)):
        yield f"count_std is not the noise that is stated, {std:.6g}"
    anew = consistent_shares(_column(table, "count").reshape(shape), std=std, totals=None)
    if not _same(_column(table, "share").reshape(shape), anew.shares):
        yield "share does not follow from count"
    if not _same(_column(table, "share_std").reshape(shape), anew.shares_std):
        yield "share_std does not follow from count"


def _label_names(names: list[str], choice: Choice) -> Iterator[str]:
    """Refuse names that say more: a pseudonym has no room for a message, nor has the order."""
    if len(set(names)) < len(names):
        yield "one stands twice"
    if names != sorted(names):
        yield "they are not in the order of their names"
    if not choice.request.real_ids and not all(map(_PSEUDONYM.fullmatch, names)):
        yield "one has another name than a pseudonym"


def _noise_std(gaussian: dict[str, Any]) -> float:
    return float(gaussian["noise_scale_steps"]) * float(gaussian["grid_step"])


def _label_sizes(tables: Tables, stated: list[list[str]], choice: Choice) -> Iterator[str]:
    n_clusters = choice.request.n_clusters
    curves, _ = columns.curve_names(tables["centroids"])
    centroids = _column(tables["centroids"], curves).reshape(n_clusters, -1)
    _, weights = checked_clusters(centroids, _column(tables["cluster_sizes"], "customers"))
    parts = np.array([[int(chance) for chance in row] for row in stated[:-1]], dtype=np.float64)
    observed = np.bincount(_column(tables["labels"], "label"), minlength=n_clusters)
    channel = parts / parts.sum(axis=1, keepdims=True)
    sizes, std = debiased_counts(observed.astype(np.float64), channel, prior=weights)
    if not _same(_column(tables["label_sizes"], "customers"), sizes):
        yield "customers does not follow from the labels"
    if not _same(_column(tables["label_sizes"], "customers_std"), np.where(std < np.inf, std, 0.0)):
        yield "customers_std does not follow from the labels"


def _synthetic(bundle: Path, tables: Tables, curves_of: Layout) -> Iterator[str]:
    try:
        model = read_model(bundle)
        clusters, load_kw = first_set(model)
    except (InvalidFileError, LookupError, ValueError, LinAlgError) as error:
        yield f"they cannot be drawn: {type(error).__name__}"
        return
    if (bundle / MODEL).read_text("utf-8") != model_text(model):
        yield "the model's file has more in it than the model"
    table, curves = tables["synthetic"], _column(tables["centroids"], "load_kw")
    if not _same(curves_of.within(model.centroids).ravel(), curves):
        yield "the model stands around other curves"
    drawn = (("load_kw", load_kw), ("cluster", clusters))
    if not all(_same(_column(table, name), values) for name, values in drawn):
        yield "another set is drawn from it"


def _column(table: Table, name: str) -> NDArray[Any]:
    """Return a column as an array; an empty cell is 0."""
    values: NDArray[Any] = table.data[name].fill_null(0).to_numpy()
    return values


def _same(found: ArrayLike, due: ArrayLike) -> bool:
    """Whether two arrays agree: the arithmetic of another machine may differ in the last digits."""
    return np.shape(found) == np.shape(due) and np.allclose(found, due, rtol=1e-6, atol=1e-6)
