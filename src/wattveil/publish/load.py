"""The part `load`: the mean load of each group and its duration curve, by one set of asks."""

from dataclasses import replace

import numpy as np

from wattveil import planning
from wattveil.clustering.group_sizes import EVERYBODY
from wattveil.publish import columns
from wattveil.publish.parts import Allotment, Ask, Expectation, Part, ReleasedPart, Run, Work
from wattveil.publish.request import ReleaseRequest
from wattveil.publish.tables import Column, Table
from wattveil.release.duration import LoadDuration, load_duration_curve
from wattveil.release.shapes import LoadShapes


class Load(Part):
    """Mean load by group. Sorting it gives the duration curve at no further cost."""

    name = "load"

    def wanted(self, request: ReleaseRequest) -> bool:
        """Whether the load has a share of the budget."""
        return request.weight(self.name) > 0.0

    def expected(self, ask: Ask) -> tuple[Expectation, ...]:
        """Walk through the release with what is expected."""
        groups = max(len(ask.request.levels), 1)
        plan = planning.plan_load_shapes(
            epsilon=ask.allotment.guarantee.epsilon,
            delta=ask.allotment.guarantee.delta,
            customers=[max(ask.request.customers // groups, 1)] * groups,
            typical_kw=ask.request.typical_kw,
            n_slots=ask.grid.cells,
        )
        return (Expectation("error of a mean load", float(plan.error_kw.max()), "kW"),)

    def release(self, work: Work, allotment: Allotment) -> ReleasedPart:
        """Release the mean load of each group, and sort it."""
        grid, request = work.profiles.grid, work.request
        released = load_duration_curve(
            work.rows[:, : grid.cells],  # a closing midnight repeats the first column
            groups=None if request.by is None else work.groups,
            levels=request.levels or EVERYBODY,
            epsilon=allotment.guarantee.epsilon,
            delta=allotment.guarantee.delta,
            plausible_kw=request.plausible_kw,
            slots_per_day=grid.slots,
        )
        done = ["mean load: noisy sums filtered with the known noise, over noisy counts"]
        done += ["load duration: the mean load of a group sorted, times its noisy count"]
        if request.clip_kw is not None:
            done += [columns.CLIPPED]
        times = grid.labels[: grid.cells]
        return ReleasedPart(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=released.spends),),
            tables=(
                _shapes(released.shapes, times, request.clip_kw),
                _groups(released.shapes),
                _duration(released),
            ),
            postprocessing=tuple(done),
        )


def _shapes(shapes: LoadShapes, times: tuple[str, ...], clip_kw: float | None) -> Table:
    groups, slots = columns.crossed([str(level) for level in shapes.levels], len(times))
    return Table.of(
        "load_shapes",
        "Mean load of a customer of each group.",
        {
            columns.GROUP: groups,
            columns.SLOT: slots,
            columns.TIME: np.array(times)[slots],
            columns.LOAD_KW: columns.within(shapes.mean_kw, clip_kw).ravel(),
            columns.STD_KW: shapes.std_kw.ravel(),
        },
    )


def _groups(shapes: LoadShapes) -> Table:
    bound = Column(
        name="clip_kw", text="size above which customers were scaled back", unit="kW", least=0.0
    )
    above = Column(
        name="clipped_share", text="share of the customers above it", least=0.0, most=1.0
    )
    return Table.of(
        "groups",
        "How many customers each group has, and how many were scaled back in its mean.",
        {
            columns.GROUP: [str(level) for level in shapes.levels],
            columns.CUSTOMERS: shapes.customers,
            columns.CUSTOMERS_STD: shapes.customers_std,
            bound: shapes.clip_kw,
            above: shapes.clipped_share,
        },
    )


def _duration(released: LoadDuration) -> Table:
    levels = [str(level) for level in released.levels]
    groups, ranks = columns.crossed(levels, released.load_kw.shape[1])
    return Table.of(
        "load_duration",
        "Load of all customers of a group together, in descending order.",
        {
            columns.GROUP: groups,
            Column(name="rank", text="0 is the highest", least=0.0): ranks,
            replace(columns.LOAD_KW, text="load of the whole group"): released.load_kw.ravel(),
            columns.STD_KW: released.std_kw.ravel(),
        },
    )
