"""Synthetic customers of one group, from released shares of clusters by group.

The model of years has clusters of its own, of typical days by season; shares by group are released
for the clusters of profiles. Customers drawn from the model of years have profiles too, and each
profile is nearest to one released centroid. With n_jk the number of drawn customers of cluster j of
years and cluster k of profiles, the mix of a group is::

    mix_j = sum_k share_k n_jk / sum_j n_jk

This is post-processing: customers of a group differ from others by what clusters distinguish, and
by the mean load of the group (`group_level`).
"""

from pathlib import Path

import numpy as np

from wattveil.arrays import Floats
from wattveil.bundle.bundle_files import read_manifest, read_table
from wattveil.bundle.group_level import day_columns
from wattveil.bundle.released_groups import released_size
from wattveil.errors import InvalidParameterError, one_of
from wattveil.numerics.kmeans.lloyd import assign
from wattveil.numerics.synthesis.day_deviations import YearCalendar
from wattveil.numerics.synthesis.figure_maps import customer_sizes, mapped_sizes
from wattveil.numerics.synthesis.year_model import YearModel
from wattveil.profiles import TimeGrid

_DRAWN = 20_000


def group_mix(bundle: Path, group: str) -> list[float]:
    """Return the released share of each cluster in a group, for ``by`` of a sample.

    Parameters
    ----------
    bundle
        Folder of a release with the product shares.
    group
        Value of the attribute by which the customers were grouped.
    """
    if read_manifest(bundle)["request"]["by"] is None:
        raise InvalidParameterError(
            "group", "omitted: this bundle has no groups; release with --by", group
        )
    shares = read_table(bundle, "cluster_shares").to_pydict()
    rows = [row for row, name in enumerate(shares["group"]) if name == group]
    if not rows:
        raise InvalidParameterError("group", one_of(dict.fromkeys(shares["group"])), group)
    rows.sort(key=lambda row: shares["cluster"][row])
    return [shares["share"][row] for row in rows]


def year_mix(bundle: Path, shares: list[float], model: YearModel) -> list[float]:
    """Return the share of each cluster of years in a group, for ``by`` of a sample.

    Parameters
    ----------
    bundle
        Folder of a release with clusters, shares and years.
    shares
        Released share of each cluster of profiles in the group.
    model
        Model of years of the bundle.
    """
    manifest = read_manifest(bundle)
    grid = TimeGrid.from_json(manifest["profiles"]["grid"])
    centroids = _centroids(bundle, len(shares))
    drawn, own = model.typical.sample(_DRAWN, random_state=0)
    drawn = drawn * mapped_sizes(customer_sizes(drawn), model.sizes)[:, None]
    profiles = profiles_of(drawn, model.calendar, grid)
    if manifest["request"]["normalise"]:
        profiles /= np.maximum(np.linalg.norm(profiles, axis=1, keepdims=True), 1e-12)
    n_own = model.typical.customers.size
    places = own * len(centroids) + assign(profiles, centroids)
    together = np.bincount(places, minlength=n_own * len(centroids)).astype(np.float64)
    together = together.reshape(n_own, len(centroids))
    empty = together.sum(axis=0) == 0.0  # no drawn customer is near: as all customers
    together[:, empty] = together.sum(axis=1, keepdims=True)
    return [float(one) for one in together / together.sum(axis=0) @ np.array(shares)]


def group_note(bundle: Path, group: str, *, years: bool, scaled: bool = False) -> str:
    """Return what a sample of a group takes from it, and its released number of customers.

    Parameters
    ----------
    bundle
        Folder of a release with clusters and shares.
    group
        A group of the release.
    years
        Whether the sample is one of years.
    scaled
        Whether load was scaled to the released mean load of the group.
    """
    size, counted = "its number of customers was not released", released_size(bundle, group)
    if counted is not None:
        customers, std = counted
        size = f"{customers:,.0f} customers in the release (standard error {std:,.0f})"
    kept = "sizes, days and weather" if years else "sizes and shapes"
    verb = "are"
    differ = "their mix of segments only"
    if scaled:
        kept, verb = ("variation and weather", "are") if years else ("variation", "is")
        differ = "their mix of segments and their mean load only"
    used = "shares of segments and mean load are" if scaled else "shares of segments are"
    return (
        f"Group {group}: {size}. Its released {used} used; {kept} within a segment"
        f" {verb} taken from all customers, so groups differ by {differ}."
    )


def profiles_of(typical_kw: Floats, calendar: YearCalendar, grid: TimeGrid) -> Floats:
    """Return the profiles of customers on a grid: means of their typical days over its days."""
    columns = day_columns(grid, calendar.first_day, calendar.n_days)
    days = np.zeros((grid.cells // grid.slots, calendar.n_parts))
    np.add.at(days, (columns, calendar.parts), 1.0)
    days /= np.maximum(days.sum(axis=1, keepdims=True), 1.0)
    by_part = typical_kw.reshape(len(typical_kw), calendar.n_parts, calendar.n_slots)
    found = np.einsum("qp,nps->nqs", days, by_part).reshape(len(typical_kw), grid.cells)
    return np.hstack([found, found[:, :1]]) if grid.closing_midnight else found


def _centroids(bundle: Path, n_clusters: int) -> Floats:
    """Return the released centroids, (clusters, columns)."""
    table = read_table(bundle, "centroids")
    order = np.lexsort([table["slot"].to_numpy(), table["cluster"].to_numpy()])
    values = table["load_kw" if "load_kw" in table.column_names else "shape"].to_numpy()
    return np.ascontiguousarray(values[order].reshape(n_clusters, -1), dtype=np.float64)
