"""Released customer segments: curve, size and support of each, from released tables alone."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wattveil.numerics.segment_support import differing_pairs, segment_support
from wattveil.products.product import Achievement
from wattveil.products.tables import Table, curve_names
from wattveil.web.curves import Curve

MAX_DRAWN = 24
"""Maximum number of segments that a report draws: the largest ones."""
DISTINGUISHABLE = "distinguishable segments"
"""Expected and achieved number: the same measure, under the same name."""
SUPPORTED = "supported segments"
"""Both: distinguishable, and a size above 2 standard errors."""
SIZED = "segments with size above 2 standard errors"


class Segment(NamedTuple):
    """A released segment."""

    curve: Curve
    customers: float | None
    """Released number; None if sizes were not released."""
    customers_std: float | None
    distinguishable: bool | None
    """Whether the curve differs from those of the other segments of its group by more than noise;
    None if standard errors were not released."""
    sized: bool | None
    """Whether the number of customers exceeds 2 standard errors; None as above."""

    @property
    def group(self) -> str:
        """Group of customers that was clustered, ``all`` if there is one."""
        return self.curve.group

    @property
    def is_supported(self) -> bool:
        """False if a flag says that noise may explain the segment."""
        return self.distinguishable is not False and self.sized is not False


def curves(table: Table) -> list[Curve]:
    """Return the curve of each cluster, of each group, or of each cluster of each group.

    Groups that an aggregation rule suppresses have no numbers, and hence no curve.
    """
    data = table.data.to_pydict()
    groups, clusters = data["group"], data.get("cluster")
    names = groups if clusters is None else cluster_names(groups, clusters)
    place = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    numbers = [place[group] for group in groups] if clusters is None else clusters
    along = data.get("time") or [str(rank) for rank in data["rank"]]
    load, std = curve_names(table)
    errors = data.get(std)
    rows_of: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        if data[load][row] is not None:
            rows_of.setdefault(name, []).append(row)
    return [
        Curve(
            name=name,
            number=numbers[rows[0]],
            along=[along[row] for row in rows],
            load=np.array([data[load][row] for row in rows]),
            std=None if errors is None else np.array([errors[row] for row in rows]),
            group=groups[rows[0]],
        )
        for name, rows in rows_of.items()
    ]


def cluster_names(groups: Sequence[str], clusters: Sequence[int]) -> list[str]:
    """Return the number of each cluster, with its group where there are several groups."""
    several = len(set(groups)) > 1
    pairs = zip(groups, clusters, strict=True)
    return [f"{cluster} ({group})" if several else str(cluster) for group, cluster in pairs]


def segments(centroids: Table, sizes: Table | None) -> list[Segment]:
    """Return the segments: of each group the supported ones first, then by size.

    Groups are in the order of the tables.

    Parameters
    ----------
    centroids
        Table of load curves.
    sizes
        Table of cluster sizes, in the same order; None if there is none.
    """
    found = curves(centroids)
    data = {} if sizes is None else sizes.data.to_pydict()
    counts = data.get("customers", [None] * len(found))
    errors = data.get("customers_std", [None] * len(found))
    released = [
        Segment(curve, count, error, None, None)
        for curve, count, error in zip(found, counts, errors, strict=True)
    ]
    by_group: dict[str, list[Segment]] = {}
    for one in released:
        by_group.setdefault(one.group, []).append(one)
    return [one for group in by_group.values() for one in _by_size(_with_support(group))]


def largest_segments(found: Sequence[Segment]) -> tuple[list[Segment], str]:
    """Return those that a report draws, in order, and a sentence about the others, if any."""
    sizes = sorted(((one.customers or 0.0) for one in found), reverse=True)
    if len(found) <= MAX_DRAWN:
        return list(found), ""
    drawn = [one for one in found if (one.customers or 0.0) >= sizes[MAX_DRAWN - 1]][:MAX_DRAWN]
    return (
        drawn,
        f" Only the {MAX_DRAWN} largest of {len(found)} are drawn; the tables folder has all.",
    )


def _by_size(found: list[Segment]) -> list[Segment]:
    return sorted(found, key=lambda one: (not one.is_supported, -(one.customers or 0.0)))


def _with_support(found: list[Segment]) -> list[Segment]:
    """Set the flags of the segments of one group, if all standard errors were released."""
    std = [one.curve.std for one in found if one.curve.std is not None]
    counts = [one.customers for one in found if one.customers is not None]
    errors = [one.customers_std for one in found if one.customers_std is not None]
    if not len(std) == len(counts) == len(errors) == len(found):
        return found
    load = np.array([one.curve.load for one in found])
    flags = segment_support(
        load,
        np.array(std),
        np.array(counts),
        np.array(errors),
    )
    # One curve is always counted, as that of a cluster; if no two differ, none is distinguishable.
    variance = np.square(std).sum(axis=1)
    differ = len(found) == 1 or differing_pairs(load, variance).any()
    return [
        one._replace(distinguishable=bool(curve and differ), sized=bool(size))
        for one, curve, size in zip(found, flags.curve, flags.size, strict=True)
    ]


def achieved_support(centroids: Table, sizes: Table) -> tuple[Achievement, ...]:
    """Return how many segments of each group have each flag; nothing without standard errors."""
    by_group: dict[str, list[Segment]] = {}
    for one in segments(centroids, sizes):
        by_group.setdefault(one.group, []).append(one)
    return tuple(
        Achievement(quantity=quantity, group=group, count=flags.count(True), of=len(flags))
        for group, found in by_group.items()
        for quantity, flags in (
            (SUPPORTED, [one.distinguishable and one.sized for one in found]),
            (DISTINGUISHABLE, [one.distinguishable for one in found]),
            (SIZED, [one.sized for one in found]),
        )
        if None not in flags
    )
