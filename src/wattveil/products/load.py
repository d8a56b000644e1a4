"""The product `load`: mean load by group and its duration curve, from one set of queries.

A plan goes through the release with the expected customers, sizes and curves, so it makes the same
choices of radius, coordinates and filter. It uses no data and costs nothing.

>>> plan = plan_load_shapes(customers=[1000], epsilon=1.0, delta=1e-6, typical_kw=0.5)
>>> bool(0.005 < plan.error_kw[0] < 0.05)
True
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.groups.aggregation_rule import cell_names
from wattveil.numerics.groups.group_means import GroupMeans, expected_means, sort_curves
from wattveil.numerics.groups.group_sizes import (
    ALL_CUSTOMERS,
    checked_limits,
    expected_counts,
    read_sizes,
)
from wattveil.numerics.load_basis import Calendar, public_calendar, whole_days
from wattveil.privacy.guarantee import global_guarantee
from wattveil.products.curve_figures import (
    clipping_text,
    curve_table,
    curve_words,
    group_curves_figure,
    group_flags,
    load_caption,
)
from wattveil.products.findings import Finding, same_numbers
from wattveil.products.mean_load import load_headline
from wattveil.products.plan_calibration import mean_load_range
from wattveil.products.product import (
    Allotment,
    Choice,
    Contents,
    Expectation,
    Headline,
    Product,
    ReleasedProduct,
    Run,
    Work,
)
from wattveil.products.request import ReleaseRequest
from wattveil.products.ruled_load import (
    RULE_COLUMNS,
    emptiable,
    published,
    rule_cells,
    rule_findings,
    rule_of,
    rule_steps,
)
from wattveil.products.segments import curves
from wattveil.products.tables import (
    CUSTOMERS,
    CUSTOMERS_STD,
    GROUP,
    LOAD_KW,
    SLOT,
    STD_KW,
    TIME,
    Column,
    Table,
    TableLayout,
    crossed,
)
from wattveil.release.group_load import (
    COUNT_SHARE,
    SIZE_SHARE,
    SUMS_SHARE,
    LoadDuration,
    load_duration_curve,
)
from wattveil.release.rows.load_features import first_columns
from wattveil.web.charts import TWO_SIDED_95, ReportFigure
from wattveil.web.formatting import format_number
from wattveil.web.results import Result, ResultTable

if TYPE_CHECKING:
    from wattveil.web.pages import PageTable

MEAN_LOAD_ERROR = "standard error of a mean load"
"""Expected and released: root mean square over slots, of the group in which it is largest."""
_SIZE = "root-mean-square load, in which fast changes have more weight"
_BOUND = Column(
    name="clip_kw",
    text=f"size ({_SIZE}) above which customers were clipped",
    unit="kW",
    minimum=0.0,
)
_ABOVE = Column(
    name="clipped_share", text="share of customers above clip_kw", minimum=0.0, maximum=1.0
)
_ABOVE_STD = Column(name="clipped_share_std", text="its standard error", minimum=0.0)
_BIAS = Column(
    name="max_clipping_bias_kw",
    text="upper bound (97.5 %) on the bias of a mean from clipping, beyond its band",
    unit="kW",
    minimum=0.0,
)
_CLIPPING = (_ABOVE, _ABOVE_STD, _BIAS)
_RANK = Column(name="rank", text="0 is the highest", type="int64", minimum=0.0)
_LOG_STD = 0.6
_STEP, _MAX_STEPS, _FALLEN = 1.25, 40, 2 / 3
"""Ratio of the epsilons at which a plan is computed, how many (up to 7,500 times epsilon), and the
share of the maximum at which they end."""


class Load(Product):
    """Mean load by group. Sorting it gives the duration curve at no further cost."""

    name = "load"
    title = "Load"
    is_first_in_report = True
    default_weight = 1.0
    choices = ("by",)
    applies_rule = True
    postprocessing = (
        "mean load: noisy sums, filtered with the known noise, divided by noisy counts",
        "the bias of a mean load from clipping is corrected as far as the noisy sizes permit",
        "load duration: the sorted mean load of a group, multiplied by its noisy count",
    )

    def is_of_listed_groups(self, request: ReleaseRequest) -> bool:
        """Whether there are groups."""
        return bool(request.levels)

    def layouts(self, choice: Choice) -> tuple[TableLayout, ...]:
        """Return shapes, groups and duration curves."""
        grid, levels = choice.grid, choice.request.levels or ALL_CUSTOMERS
        curve: tuple[Column, ...] = (LOAD_KW, STD_KW)
        of_groups: tuple[Column, ...] = (CUSTOMERS, CUSTOMERS_STD, _BOUND, *_CLIPPING)
        if rule_of(choice.request) is not None:
            levels, curve = cell_names(levels), emptiable(curve)
            of_groups = (*emptiable(of_groups), *RULE_COLUMNS)
        groups, slots = crossed(levels, grid.cells)
        shapes = TableLayout(
            name="load_shapes",
            text="Mean load per customer, by group.",
            keys={
                GROUP: groups,
                SLOT: slots,
                TIME: np.array(grid.labels)[slots],
            },
            values=curve,
        )
        sizes = TableLayout(
            name="groups",
            text="Number of customers per group, and share of clipped customers.",
            keys={GROUP: list(levels)},
            values=of_groups,
        )
        duration = TableLayout(
            name="load_duration",
            text="Load of all customers of a group together, in descending order.",
            keys={GROUP: groups, _RANK: slots},
            values=(replace(curve[0], text="load of the whole group"), curve[1]),
        )
        return shapes, sizes, duration

    def draws(self, tags: Sequence[str], choice: Choice) -> Mapping[str, int]:
        """Return three histograms and one sum by group."""
        del tags
        grid, groups = choice.grid, max(len(choice.request.levels), 1)
        # Of long rows not every coordinate is queried: how many depends on the noisy count.
        n_days = grid.cells // grid.slots
        fewest = public_calendar(grid.cells, n_days=n_days, signal=0.0).colour.size
        return {
            "number of customers": 0,
            "sizes": 0,
            "customers by group": groups,
            "sums of load": groups * fewest,
        }

    def expected(self, choice: Choice, allotment: Allotment) -> tuple[Expectation, ...]:
        """Return the largest expected error of a group."""
        request = choice.request
        groups = max(len(request.levels), 1)
        plan = plan_load_shapes(
            epsilon=allotment.guarantee.epsilon,
            delta=allotment.guarantee.delta,
            customers=[request.customers_per_group] * groups,
            typical_kw=request.typical_kw,
            n_slots=choice.grid.cells,
            max_clip_kw=request.clip_kw,
            plausible_kw=request.plausible_kw,
        )
        value, limits = mean_load_range(float(plan.error_kw.max()), groups)
        warning = ""
        if (reach := TWO_SIDED_95 * value) > request.typical_kw:
            warning = (
                f"load: the planned 95 % interval of ± {format_number(reach, 2)} kW is wider than"
                f" the typical load of {request.typical_kw:g} kW: the result will mostly show"
                " noise."
            )
        return (Expectation(MEAN_LOAD_ERROR, value, "kW", *limits, warning),)

    def query(self, work: Work, allotment: Allotment) -> LoadDuration:
        """Release the mean load of each group, and sort it.

        Rows are not clipped beforehand: no customer would be counted above the bound.
        """
        grid, request = work.choice.grid, work.request
        rows = work.load_kw
        if grid.closing_midnight:  # it repeats the first column
            rows = rows.map(first_columns.bind(columns=grid.cells))
        return load_duration_curve(
            rows,
            groups=None if request.by is None else work.groups,
            levels=request.levels or ALL_CUSTOMERS,
            epsilon=allotment.guarantee.epsilon,
            delta=allotment.guarantee.delta,
            max_clip_kw=request.clip_kw,
            plausible_kw=request.plausible_kw,
            slots_per_day=grid.slots,
        )

    def tabulate(
        self, released: LoadDuration, choice: Choice, allotment: Allotment
    ) -> ReleasedProduct:
        """Return mean load, groups and duration curves; under a rule, of cells that it permits."""
        load, groups, duration = self.layouts(choice)
        rule, shapes = rule_of(choice.request), released.shapes
        cells = None if rule is None else rule_cells(released, rule)
        found = shapes if cells is None else cells
        more = () if cells is None else cells.rule_values
        sorted_std = released.std_kw if cells is None else cells.duration_std_kw
        return ReleasedProduct(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=released.spends),),
            tables=(
                load.filled(found.mean_kw.ravel(), found.std_kw.ravel()),
                groups.filled(
                    found.customers,
                    found.customers_std,
                    found.clip_kw,
                    found.clipped_share,
                    found.clipped_share_std,
                    found.max_clipping_bias_kw,
                    *more,
                ),
                duration.filled(
                    duration_kw(found.mean_kw, found.customers).ravel(), sorted_std.ravel()
                ),
            ),
        )

    def all_postprocessing(self, choice: Choice) -> tuple[str, ...]:
        """Return the steps, with those of an aggregation rule."""
        rule = rule_of(choice.request)
        return (*super().all_postprocessing(choice), *(() if rule is None else rule_steps(rule)))

    def recompute(self, contents: Contents) -> Iterator[Finding]:
        """Sort the mean load again."""
        tables = contents.tables
        if {"load_duration", "load_shapes", "groups"} <= set(tables):
            means = tables["load_shapes"].column("load_kw").reshape(-1, contents.choice.grid.cells)
            due = duration_kw(means, tables["groups"].column("customers")).ravel()
            same = same_numbers(tables["load_duration"].column("load_kw"), due)
            check = "the load duration curve is the sorted mean load times the number of customers"
            yield Finding(check, same, f"{due.size:,} values")
            if (rule := rule_of(contents.choice.request)) is not None:
                yield from rule_findings(contents, rule)

    def headline(self, tables: Mapping[str, Table], choice: Choice) -> Headline:
        """Return the mean load of all customers: level, clipping, highest and lowest hours."""
        return load_headline(tables, choice)

    def figures(self, tables: Mapping[str, Table], choice: Choice) -> Iterator[ReportFigure]:
        """Return mean load and duration curves of all groups."""
        if not {"load_duration", "load_shapes", "groups"} <= set(tables):
            return
        if rule_of(choice.request) is not None:
            tables = published(tables)
        if not tables["groups"].data.num_rows:
            return
        shapes, duration = tables["load_shapes"], tables["load_duration"]
        drawn = curves(shapes)
        flags = group_flags(tables["groups"], drawn)
        caption = load_caption(tables["groups"], has_flags=bool(flags))
        yield ReportFigure(
            "Mean load per customer",
            group_curves_figure(shapes, unit="kW per customer"),
            caption,
            alt="Mean load per customer: "
            + "; ".join(f"{curve.name}: {curve_words(curve, 'kW')}" for curve in drawn),
            flags=flags,
            table=curve_table("Mean load per customer (kW)", drawn, along="time"),
        )
        sorted_loads = curves(duration)
        unit = "kW, all customers together" if len(drawn) == 1 else "kW, all customers of a group"
        title = "Load duration of the average day" if _is_one_day(choice) else "Load duration"
        yield ReportFigure(
            title,
            group_curves_figure(duration, unit=unit, falling=True),
            caption,
            alt="Load of all customers together, in descending order: "
            + "; ".join(
                f"{curve.name}: from {format_number(curve.load[0])} kW"
                f" to {format_number(curve.load[-1])} kW"
                for curve in sorted_loads
            ),
            table=curve_table(f"{title} (kW)", sorted_loads, along="rank"),
        )

    def report_text(
        self, record: Mapping[str, Any], tables: Mapping[str, Table]
    ) -> "tuple[str, PageTable | None]":
        """Return what bands do not cover; nothing if an aggregation rule suppresses every group."""
        del record
        shown = published(tables)
        if not {"load_duration", "load_shapes", "groups"} <= set(shown):
            return "", None
        groups = shown["groups"]
        return (clipping_text(groups) if groups.data.num_rows else ""), None


def _is_one_day(choice: Choice) -> bool:
    return choice.grid.cells == choice.grid.slots


def duration_kw(mean_kw: Floats, customers: Floats) -> Floats:
    """Return the load of each group in descending order: its mean load times its customers."""
    return -np.sort(-mean_kw, axis=1) * customers[:, None]


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadPlan(Result):
    """Expected error and clipping bound of each group."""

    error_kw: Floats
    """Expected root-mean-square error over the slots; of a duration curve, over the ranks."""
    clip_kw: Floats
    """The size above which customers will be clipped."""

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"plan": self._groups}

    def _groups(self) -> ResultTable:
        groups = np.arange(self.error_kw.size)
        columns = {"group": groups, "error_kw": self.error_kw, "clip_kw": self.clip_kw}
        return ResultTable(columns, ("group",))


def plan_load_shapes(
    *,
    customers: Sequence[int],
    epsilon: float,
    delta: float,
    typical_kw: float,
    log_std: float = _LOG_STD,
    n_slots: int = 24,
    clip_kw: float | None = None,
    max_clip_kw: float | None = None,
    plausible_kw: tuple[float, float] = (0.04, 40.0),
) -> LoadPlan:
    """Return the expected error of `load_shapes`, which does not rise with epsilon.

    It is the largest of this and all larger epsilons. At a small epsilon a release clips lower:
    that removes noise and adds a bias, which the standard error does not contain.

    Parameters
    ----------
    customers
        Public numbers or estimates, one per group.
    epsilon, delta, clip_kw, max_clip_kw, plausible_kw
        As in `load_shapes`.
    typical_kw, log_std
        Median size of a customer, and standard deviation of the logarithm of sizes.
    n_slots
        Slots of the day.
    """
    sizes, limits = (typical_kw, log_std), (clip_kw, max_clip_kw, plausible_kw)
    _, _, clip = _expected_means(customers, (epsilon, delta), sizes, limits, (n_slots, 1))

    def error_kw(at: float) -> Floats:
        return _slot_error(_expected_means(customers, (at, delta), sizes, limits, (n_slots, 1))[0])

    return LoadPlan(error_kw=_falling(error_kw, epsilon), clip_kw=clip)


def plan_load_duration(
    *,
    customers: Sequence[int],
    epsilon: float,
    delta: float,
    typical_kw: float,
    log_std: float = _LOG_STD,
    n_slots: int = 24,
    slots_per_day: int = 24,
    clip_kw: float | None = None,
    max_clip_kw: float | None = None,
    plausible_kw: tuple[float, float] = (0.04, 40.0),
) -> LoadPlan:
    """Return the expected error of `load_duration_curve`, in kW of the whole group.

    ``n_slots`` is the length of the curve, 8,760 for a year; the rest as in `plan_load_shapes`.
    """
    n_days = whole_days(checks.integer("n_slots", n_slots, minimum=1), slots_per_day)
    sizes, limits = (typical_kw, log_std), (clip_kw, max_clip_kw, plausible_kw)
    length = (n_slots, n_days)
    _, _, clip = _expected_means(customers, (epsilon, delta), sizes, limits, length)

    def error_kw(at: float) -> Floats:
        means, calendar, _ = _expected_means(customers, (at, delta), sizes, limits, length)
        _, errors = sort_curves(means, calendar)
        error: Floats = np.sqrt(np.square(errors).mean(axis=1)) * np.array(customers)
        return error

    return LoadPlan(error_kw=_falling(error_kw, epsilon), clip_kw=clip)


def _falling(error_kw: Callable[[float], Floats], epsilon: float) -> Floats:
    """Return the largest error at this or a larger epsilon, so that it does not rise with epsilon.

    Errors are computed at the powers of a step only, and are power laws in between. A search ends
    where the error has fallen by a third from its maximum: it has one peak, apart from jumps of a
    few percent where another clipping level is chosen.
    """
    known: dict[int, Floats] = {}

    def largest(first: int) -> Floats:
        """Return the largest error at this and all larger powers."""
        place, found = first, np.zeros(1)
        while place <= first + _MAX_STEPS:
            if place not in known:
                at = min(max(_STEP**place, checks.MIN_EPSILON), checks.MAX_EPSILON)
                known[place] = error_kw(at)
            found = np.maximum(found, known[place])
            if (known[place] < _FALLEN * found).all():
                break
            place += 1
        return found

    above = math.log(epsilon) / math.log(_STEP)
    place = math.floor(above)
    lower, upper = largest(place), largest(place + 1)
    found: Floats = upper * (lower / upper) ** (1.0 + place - above)
    return found


def _expected_means(
    customers: Sequence[int],
    guarantee: tuple[float, float],
    size_prior: tuple[float, float],
    limits: tuple[float | None, float | None, tuple[float, float]],
    length: tuple[int, int],
) -> tuple[GroupMeans, Calendar, Floats]:
    """Return the expected outcome of a release: curves with errors, coordinates, radii."""
    if not len(customers):
        raise InvalidParameterError("customers", "one number per group, at least one", customers)
    number = np.array([checks.integer("customers", n, minimum=1) for n in customers], dtype=float)
    typical, log_std = (checks.positive("typical_kw, log_std", x) for x in size_prior)
    within, edges = checked_limits(*limits)
    n_slots, n_days = checks.integer("n_slots", length[0], minimum=1), length[1]
    epsilon = checks.positive_epsilon("epsilon", guarantee[0])
    delta = checks.probability("delta", guarantee[1])
    count_std = Allotment.of(global_guarantee(epsilon=epsilon, delta=delta)).count_std
    calendar = public_calendar(n_slots, n_days=n_days, signal=float(number.sum()) / count_std)
    counts = expected_counts(number, edges, typical_kw=typical, log_std=log_std)
    std, counted_std, sums_std = (
        count_std / math.sqrt(share) for share in (SIZE_SHARE, COUNT_SHARE, SUMS_SHARE)
    )
    sizes = read_sizes(
        (counts, std), (number, counted_std), edges, sums_std=sums_std, within=within
    )
    means = expected_means(sums_std, sizes=sizes, calendar=calendar)
    return means, calendar, sizes.radii


def _slot_error(means: GroupMeans) -> Floats:
    """Return the root-mean-square over slots: the coordinates are orthonormal in it."""
    relative = np.square(means.counted) + np.square(means.missed)
    shared = relative * np.square(means.mean).sum(axis=1)
    error: Floats = np.sqrt(means.variance.sum(axis=1) + shared)
    return error
