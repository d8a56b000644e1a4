"""Load by group under an aggregation rule, such as 15/15: cells, columns, checks and texts.

Post-processing of the released load: groups that may not be published are published together with
their neighbours in the public list, or not at all. Cells that are not published have empty numbers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import ArrayLike

from wattveil.arrays import Floats
from wattveil.numerics.groups.aggregation_rule import (
    ALPHA,
    Z_COUNT,
    AggregationRule,
    CellLimits,
    CellStatus,
    cell_names,
    cells_of,
    decide,
    max_shares,
)
from wattveil.products.findings import Finding, gathered, same_numbers
from wattveil.products.product import Contents
from wattveil.products.request import NO_RULE, ReleaseRequest
from wattveil.products.tables import COUNT, COUNT_STD, Column, Table
from wattveil.release.group_load import LoadDuration
from wattveil.web.formatting import format_count, format_share

MAX_SHARE = Column(
    name="max_share",
    text="upper bound on the share of one customer in the published load, at confidence 99.9 %",
    minimum=0.0,
    maximum=1.0,
)
STATUS = Column(name="status", text="published, or the reason for suppression", type="string")
_COUNTED = "customers by group"
"""Tag of the draw that the rule is applied to."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RuledCells:
    """Values of every cell, one row or entry each; NaN where it is not published."""

    mean_kw: Floats
    std_kw: Floats
    customers: Floats
    customers_std: Floats
    clip_kw: Floats
    clipped_share: Floats
    clipped_share_std: Floats
    max_clipping_bias_kw: Floats
    duration_std_kw: Floats
    count: Floats
    count_std: Floats
    max_share: Floats
    status: tuple[CellStatus, ...]

    @property
    def rule_values(self) -> tuple[ArrayLike, ...]:
        """Values of `RULE_COLUMNS`."""
        return self.count, self.count_std, self.max_share, self.status


def rule_of(request: ReleaseRequest) -> AggregationRule | None:
    """Return the rule of a request, if it has one."""
    return None if request.rule == NO_RULE else AggregationRule.parse(request.rule)


def emptiable(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return columns whose cells may be empty."""
    return tuple(replace(column, may_be_empty=True) for column in columns)


RULE_COLUMNS = (*emptiable((COUNT, COUNT_STD, MAX_SHARE)), STATUS)


def rule_cells(released: LoadDuration, rule: AggregationRule) -> RuledCells:
    """Join groups to cells, and empty those that the rule does not permit.

    Errors of groups are added as if they were fully correlated: the filter shares information
    between groups, and a sum of correlated errors is at most this.
    """
    shapes = released.shapes
    cells = cells_of(len(shapes.levels))
    within = np.array([np.isin(np.arange(len(shapes.levels)), cell.members) for cell in cells])
    customers = within @ shapes.customers
    weights = within * shapes.customers / customers[:, None]
    mean_kw, std_kw = weights @ shapes.mean_kw, weights @ shapes.std_kw
    clip_kw = np.where(within, shapes.clip_kw, 0.0).max(axis=1)
    limits = CellLimits.of(
        cells,
        shapes.count,
        shapes.count_std,
        mean_kw=mean_kw.mean(axis=1),
        std_kw=std_kw.mean(axis=1),
        clip_kw=clip_kw,
    )
    status = decide(rule, cells, limits)
    shown = np.array([one is CellStatus.PUBLISHED for one in status])

    def kept(values: Floats) -> Floats:
        rows = shown.reshape(-1, *[1] * (values.ndim - 1))
        return np.where(rows, values, np.nan)

    return RuledCells(
        mean_kw=kept(mean_kw),
        std_kw=kept(std_kw),
        customers=kept(customers),
        customers_std=kept(np.sqrt(within @ np.square(shapes.customers_std))),
        clip_kw=kept(clip_kw),
        clipped_share=kept(weights @ shapes.clipped_share),
        clipped_share_std=kept(weights @ shapes.clipped_share_std),
        max_clipping_bias_kw=kept(weights @ shapes.max_clipping_bias_kw),
        duration_std_kw=kept(within @ released.std_kw),
        count=kept(limits.counts),
        count_std=kept(limits.counts_std),
        max_share=kept(limits.max_share),
        status=status,
    )


def rule_findings(contents: Contents, rule: AggregationRule) -> Iterator[Finding]:
    """Apply the rule again to the published cells, with the stated noise."""
    groups, shapes = contents.tables["groups"], contents.tables["load_shapes"]
    cells = cells_of(max(len(contents.choice.request.levels), 1))
    status = groups.data["status"].to_pylist()
    shown = [place for place, one in enumerate(status) if one == CellStatus.PUBLISHED]
    members = [member for place in shown for member in cells[place].members]
    names = groups.data["group"].to_pylist()
    count, count_std = groups.column("count"), groups.column("count_std")
    slots = contents.choice.grid.cells
    shares = max_shares(
        count,
        count_std,
        mean_kw=shapes.column("load_kw").reshape(-1, slots).mean(axis=1),
        std_kw=shapes.column("std_kw").reshape(-1, slots).mean(axis=1),
        clip_kw=groups.column("clip_kw"),
    )
    noise = contents.drawn_std(_COUNTED)
    due = [noise * len(cells[place].members) ** 0.5 for place in shown]
    filled = {
        name: {
            place // (table.data.num_rows // len(cells))
            for column in table.columns
            if column.may_be_empty
            for place in np.flatnonzero(table.data[column.name].is_valid().to_numpy())
        }
        for name in ("groups", "load_shapes", "load_duration")
        for table in [contents.tables[name]]
    }
    problems = [
        *(f"{names[at]} has too few" for at in shown if count[at] < rule.min_count(count_std[at])),
        *(
            f"{names[at]}: one customer may have {format_share(shares[at])}"
            for at in shown
            if shares[at] * 100.0 > rule.max_share_percent
        ),
        *([] if len(set(members)) == len(members) else ["a group is published twice"]),
        *([] if same_numbers(count_std[shown], due) else ["count_std is not that of the noise"]),
        *([] if same_numbers(groups.column("max_share")[shown], shares[shown]) else ["max_share"]),
        *(
            f"{names[place]} is not empty in {name}"
            for name, places in filled.items()
            for place in sorted(places - set(shown))
        ),
    ]
    seen = f"{format_count(len(shown), 'cell')} of {rule}, no group in two of them"
    yield gathered("every published cell meets the aggregation rule", problems, seen)


def published(tables: Mapping[str, Table]) -> dict[str, Table]:
    """Return the tables without cells that are not published."""
    return {
        name: replace(table, data=table.data.filter(pc.is_valid(table.data[column])))
        for name, column in (
            ("load_shapes", "load_kw"),
            ("groups", "customers"),
            ("load_duration", "load_kw"),
        )
        if name in tables
        for table in [tables[name]]
    }


def no_group_meets(rule: object) -> str:
    """Return that a rule suppresses every group, as the beginning of a sentence."""
    return f"No group meets the rule {rule}"


def rule_steps(rule: AggregationRule) -> tuple[str, ...]:
    """Return how the rule was applied, for the manifest."""
    tested = (
        f"aggregation rule {rule}: a cell is published if its noisy count shows at least"
        f" {rule.min_customers} customers, and its released load that no customer contributes more"
        f" than {rule.max_share_percent:g} % of it, over all slots together; the load of a customer"
        " is clipped, so one above the clipping bound may have a larger share of the true load;"
        f" each cell that breaks a limit is published with probability at most {ALPHA:g}"
    )
    joined = (
        "aggregation rule: a suppressed group is merged with its neighbours in the public list"
        " if the merged cell meets the rule; published cells have no group in common. This holds"
        " within one release: other lists or orders of groups in another release may be differenced"
    )
    return tested, joined


def rule_plan(request: ReleaseRequest) -> str:
    """Return what the rule of a request may do to its groups, for its plan; empty without one."""
    if (rule := rule_of(request)) is None:
        return ""
    coarser = ", ".join(cell_names(request.levels)[len(request.levels) :])
    merged = f" is merged with its neighbours in the list ({coarser}) or" if coarser else ""
    return (
        f"Rule {rule}: a group is published if its noisy count is at least {rule.min_customers - 1}"
        f" plus {Z_COUNT:.2f} standard deviations of its noise, and its load shows that no customer"
        f" has more than {rule.max_share_percent:g} % of it. Any other group{merged} is suppressed."
        " This holds within one release: use the same list in every release about these customers."
    )


def rule_warnings(request: ReleaseRequest, earlier: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a warning if an earlier release under a rule had another list of groups.

    The same list is no proof that the rule holds over releases: noise decides which cells are
    joined or suppressed, in each release anew.

    Parameters
    ----------
    earlier
        Requests of releases about the same customers, as JSON values. They are public choices.
    """
    own = request.by, [*request.levels]
    if request.rule == NO_RULE or all(
        one.get("rule", NO_RULE) == NO_RULE or (one.get("by"), one.get("levels")) == own
        for one in earlier
    ):
        return ()
    warning = (
        "An earlier release applied an aggregation rule to another list of groups. If it is about"
        " the same customers, the difference of two cells may be about fewer customers than the"
        " rule permits; it is still protected by differential privacy. Use the same list, in the"
        " same order. The rule itself holds within one release only."
    )
    return (warning,)


def rule_sentence(rule: AggregationRule, groups: Table) -> str:
    """Return that both protections hold, for the report."""
    status = groups.data["status"].to_pylist()
    shown = status.count(CellStatus.PUBLISHED)
    return (
        f"Both protections hold: the numbers are differentially private, and each of the {shown}"
        f" published cells meets the rule {rule} (at least {rule.min_customers} customers, none"
        f" with more than {rule.max_share_percent:g} % of the published, clipped load over all"
        f" slots; each cell that does not is published with probability at most {ALPHA:g}). Cells"
        " are selected by their noisy counts, so intervals of cells near the limit cover less than"
        " stated."
    )
