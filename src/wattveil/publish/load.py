"""The part `load`: the mean load of each group and its duration curve, by one set of asks."""

from dataclasses import replace

import numpy as np

from wattveil import planning
from wattveil.clustering.geometry import Floats
from wattveil.clustering.group_sizes import EVERYBODY
from wattveil.publish import columns
from wattveil.publish.parts import (
    Allotment,
    Ask,
    Choice,
    Expectation,
    Part,
    ReleasedPart,
    Run,
    Work,
)
from wattveil.publish.request import ReleaseRequest
from wattveil.publish.tables import Column, Layout
from wattveil.release.duration import LoadDuration, load_duration_curve
from wattveil.release.rows.projection import first_columns

_SIZE = "root-mean-square load, with quick changes counted more"
_BOUND = Column(
    name="clip_kw",
    text=f"size ({_SIZE}) above which customers were scaled back",
    unit="kW",
    least=0.0,
)
_ABOVE = Column(name="clipped_share", text="share of the customers above it", least=0.0, most=1.0)
_ABOVE_STD = Column(name="clipped_share_std", text="its standard error", least=0.0)
_HIDDEN = Column(
    name="hidden_kw",
    text="what customers above it may add to a mean beyond its band, at most (97.5 %)",
    unit="kW",
    least=0.0,
)
_RANK = Column(name="rank", text="0 is the highest", type="int64", least=0.0)


class Load(Part):
    """Mean load by group. Sorting it gives the duration curve at no further cost."""

    name = "load"
    postprocessing = (
        "mean load: noisy sums filtered with the known noise, over noisy counts",
        "what scaling customers back takes from a mean load is put back as far as noisy sizes tell",
        "load duration: the mean load of a group sorted, times its noisy count",
    )

    def wanted(self, request: ReleaseRequest) -> bool:
        """Whether the load has a share of the budget."""
        return request.weight(self.name) > 0.0

    def layouts(self, choice: Choice) -> tuple[Layout, ...]:
        """Return shapes, groups and duration curves."""
        grid, levels = choice.grid, choice.request.levels or EVERYBODY
        groups, slots = columns.crossed(levels, grid.cells)
        shapes = Layout(
            name="load_shapes",
            text="Mean load of a customer of each group.",
            keys={
                columns.GROUP: groups,
                columns.SLOT: slots,
                columns.TIME: np.array(grid.labels)[slots],
            },
            values=(columns.LOAD_KW, columns.STD_KW),
        )
        sizes = Layout(
            name="groups",
            text="How many customers each group has, and how many were scaled back in its mean.",
            keys={columns.GROUP: list(levels)},
            values=(columns.CUSTOMERS, columns.CUSTOMERS_STD, _BOUND, _ABOVE, _ABOVE_STD, _HIDDEN),
        )
        duration = Layout(
            name="load_duration",
            text="Load of all customers of a group together, in descending order.",
            keys={columns.GROUP: groups, _RANK: slots},
            values=(replace(columns.LOAD_KW, text="load of the whole group"), columns.STD_KW),
        )
        return shapes, sizes, duration

    def expected(self, ask: Ask) -> tuple[Expectation, ...]:
        """Walk through the release with what is expected."""
        groups = max(len(ask.request.levels), 1)
        plan = planning.plan_load_shapes(
            epsilon=ask.allotment.guarantee.epsilon,
            delta=ask.allotment.guarantee.delta,
            customers=[max(ask.request.customers // groups, 1)] * groups,
            typical_kw=ask.request.typical_kw,
            n_slots=ask.grid.cells,
            most_clip_kw=ask.request.clip_kw,
            plausible_kw=ask.request.plausible_kw,
        )
        return (Expectation("error of a mean load", float(plan.error_kw.max()), "kW"),)

    def query(self, work: Work, allotment: Allotment) -> LoadDuration:
        """Release the mean load of each group, and sort it.

        Customers come as they are: clipped beforehand, none would be counted above the bound.
        """
        grid, request = work.choice.grid, work.request
        rows = work.load_kw
        if grid.closing_midnight:  # it repeats the first column
            rows = rows.map(first_columns.bind(columns=grid.cells))
        return load_duration_curve(
            rows,
            groups=None if request.by is None else work.groups,
            levels=request.levels or EVERYBODY,
            epsilon=allotment.guarantee.epsilon,
            delta=allotment.guarantee.delta,
            most_clip_kw=request.clip_kw,
            plausible_kw=request.plausible_kw,
            slots_per_day=grid.slots,
        )

    def tabulate(
        self, released: LoadDuration, choice: Choice, allotment: Allotment
    ) -> ReleasedPart:
        """Return mean load, groups and duration curves."""
        shapes, (load, groups, duration) = released.shapes, self.layouts(choice)
        return ReleasedPart(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=released.spends),),
            tables=(
                load.filled(shapes.mean_kw.ravel(), shapes.std_kw.ravel()),
                groups.filled(
                    shapes.customers,
                    shapes.customers_std,
                    shapes.clip_kw,
                    shapes.clipped_share,
                    shapes.clipped_share_std,
                    shapes.hidden_kw,
                ),
                duration.filled(
                    duration_kw(shapes.mean_kw, shapes.customers).ravel(), released.std_kw.ravel()
                ),
            ),
        )


def duration_kw(mean_kw: Floats, customers: Floats) -> Floats:
    """Return the load of each group in descending order: its mean load times its customers."""
    return -np.sort(-mean_kw, axis=1) * customers[:, None]
