"""The load duration curve of the aggregate: its hours in descending order, for a day or a year."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from wattveil.clustering.calendar import Calendar, whole_days
from wattveil.clustering.duration_curves import sort_curves
from wattveil.clustering.geometry import Floats
from wattveil.clustering.group_means import GroupMeans
from wattveil.clustering.group_sizes import EVERYBODY
from wattveil.engines.inputs import Load, Values, load_rows
from wattveil.privacy.budget import Spend
from wattveil.privacy.guarantee import Guarantee
from wattveil.release.shapes import LoadShapes, release_means


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadDuration:
    """Released duration curves, one row a level. Everything in it may be published."""

    levels: tuple[Hashable, ...]
    load_kw: Floats
    """Load of the whole group, never rising along a row."""
    std_kw: Floats
    """Standard error at each rank."""
    shapes: LoadShapes
    """The mean load in each slot, released by the same asks: at no further cost."""
    guarantee: Guarantee
    spends: tuple[Spend, ...]


def load_duration_curve(
    load_kw: Load,
    *,
    groups: Values | None = None,
    levels: Sequence[Hashable] = EVERYBODY,
    epsilon: float,
    delta: float,
    slots_per_day: int = 24,
    clip_kw: float | None = None,
    most_clip_kw: float | None = None,
    plausible_kw: tuple[float, float] = (0.04, 40.0),
) -> LoadDuration:
    """Release the load duration curve of each group of customers.

    Parameters
    ----------
    load_kw : (customers, slots)
        One row a customer, one column a slot of one or more whole days, in order: 24 for a day,
        8,760 for a year.
    slots_per_day : int
        So many columns are a day.
    groups, levels, epsilon, delta, clip_kw, most_clip_kw, plausible_kw
        As in `load_shapes`.

    Formal guarantee
    ----------------
    That of `load_shapes`: the same asks; sorting is post-processing.
    """
    rows = load_rows(load_kw)
    n_days = whole_days(rows.width, slots_per_day)
    promise, limits = (epsilon, delta), (clip_kw, most_clip_kw, plausible_kw)
    return _sorted(
        *release_means(rows, groups, levels, promise=promise, limits=limits, n_days=n_days)
    )


def _sorted(shapes: LoadShapes, means: GroupMeans, calendar: Calendar) -> LoadDuration:
    """Return the duration curves of released means: post-processing."""
    curves, errors = sort_curves(means, calendar)
    return LoadDuration(
        levels=shapes.levels,
        load_kw=curves * shapes.customers[:, None],
        std_kw=errors * shapes.customers[:, None],
        shapes=shapes,
        guarantee=shapes.guarantee,
        spends=shapes.spends,
    )
