"""Released numbers of customers by group, and warnings that follow from them.

All of it is post-processing: noisy counts of a bundle and public estimates, no rows.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from wattveil.bundle.bundle_files import read_table, table_path
from wattveil.bundle.group_level import GroupLevel

_MIN_CUSTOMERS, _MIN_ERRORS = 20, 5
"""Released customers of a group below which a sample is warned of; standard errors likewise."""
_MIN_LISTED = 0.2
"""Share of the public estimate below which listed groups are warned of. An estimate is rounded by a
factor of 1.6 at most, so that groups with a third of all customers are above it before noise."""
_DISTINGUISHABLE = 2.0
"""Standard errors from which the size of a group is distinguishable from zero."""


def size_warning(bundle: Path, group: str) -> str:
    """Return a warning of a group with few customers in the release, by its noisy count.

    Parameters
    ----------
    bundle
        Folder of a release with shares.
    group
        A group of the release.
    """
    counted = released_size(bundle, group)
    if counted is None or counted[0] >= max(_MIN_CUSTOMERS, _MIN_ERRORS * counted[1]):
        return ""
    customers, std = counted
    return (
        f"the release has {customers:,.0f} ± {std:,.0f} customers in the group {group} (± one"
        f" standard error), fewer than {_MIN_CUSTOMERS} or than {_MIN_ERRORS} standard errors: its"
        " shares of segments and its mean load may be noise only."
    )


def group_warnings(bundle: Path, group: str, level: GroupLevel | None) -> dict[str, list[str]]:
    """Return the warnings of a group that follow from the release alone, for an origin.

    Parameters
    ----------
    bundle, group
        As in `size_warning`.
    level
        Released mean load of the group; None if there is none.
    """
    found = (size_warning(bundle, group), "" if level is None else level.warning)
    return {"warnings": list(filter(None, found))} if any(found) else {}


def released_size(bundle: Path, group: str) -> tuple[float, float] | None:
    """Return the released number of customers of a group and its standard error, if any."""
    return _sizes(bundle).get(group)


def spelling_warnings(bundle: Path, levels: Sequence[str], customers: int) -> list[str]:
    """Return warnings of listed groups that have few customers, or none that can be seen.

    Parameters
    ----------
    bundle
        Folder of a release by group.
    levels
        The listed groups.
    customers
        Public estimate of the number of all customers.
    """
    sizes = {name: one for name, one in _sizes(bundle).items() if name in levels}
    if not sizes:
        return []
    total = max(0.0, sum(size for size, _ in sizes.values()))
    error = math.sqrt(sum(std**2 for _, std in sizes.values()))
    if total < _MIN_LISTED * customers:
        listed = f"the listed groups have {total:,.0f} ± {error:,.0f} of about {customers:,}"
        return [f"{listed} customers (± one standard error); check the spelling of --levels"]
    unseen = [name for name, (size, std) in sizes.items() if size < _DISTINGUISHABLE * std]
    if not unseen:
        return []
    names = ", ".join(unseen)
    return [f"size not distinguishable from zero: {names}. Check the spelling of --levels"]


def _sizes(bundle: Path) -> dict[str, tuple[float, float]]:
    """Return released numbers of customers and their standard errors, by group."""
    if not (bundle / table_path("groups", "parquet")).exists():
        return {}
    return {
        row["group"]: (float(row["customers"]), float(row["customers_std"]))
        for row in read_table(bundle, "groups").to_pylist()
        if row["customers"] is not None
    }
