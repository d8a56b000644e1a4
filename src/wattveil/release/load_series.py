"""Load by group, numbers of customers and of those with a property, period after period.

A series has one budget for all its periods. Period 1 also releases a first estimate of each group's
mean, and a histogram of how far customers are from it, which fix the radii of the series. In every
period the sums of the customers' offsets from a predicted centre are released, and the numbers of
members by group; each customer has one allowance for all periods
(`privacy.mechanisms.period_sums`). On request a part of the budget is for segments
(`segment_series`). `release_load_period` is the only function here that receives private rows.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np

from wattveil import checks
from wattveil.arrays import Bools, Floats, Names
from wattveil.engines.local import Load, Values, load_rows, value_rows
from wattveil.engines.series_folder import AGAIN
from wattveil.engines.series_rows import NamedPeriodRows, PeriodState
from wattveil.errors import InvalidParameterError, SeriesStateError, WattveilError, wrong_width
from wattveil.numerics.groups.group_sizes import ALL_CUSTOMERS
from wattveil.numerics.load_basis import Calendar, row_basis
from wattveil.numerics.series.centres import LENGTH_EDGES, SeriesRadii, choose_radii
from wattveil.numerics.series.period_filter import Posterior
from wattveil.numerics.series.smoothing import (
    FirstEstimate,
    SeriesCounts,
    SeriesSums,
    smooth_counts,
    smooth_means,
)
from wattveil.numerics.series.strategy import Strategy, design_membership_strategy, design_strategy
from wattveil.privacy.guarantee import Budget, Guarantee, Spend
from wattveil.privacy.mechanisms.contributions import UNIT, Query
from wattveil.privacy.mechanisms.gaussian import Noisy, PrivateTable
from wattveil.privacy.mechanisms.period_sums import PeriodQuery, PrivatePeriod
from wattveil.release.group_load import means_within
from wattveil.release.queries import GroupLoadQueries, KMeansQueries
from wattveil.release.rows import series_features
from wattveil.release.segment_series import SegmentDesign, SegmentPeriod, release_segments

FIRST_SHARE, LENGTHS_SHARE = 0.15, 0.02
"""Of the whole budget: for the first estimate of the means, and for the lengths of offsets."""
MEMBERS_SHARE, PROPERTY_SHARE = 0.06, 0.10
"""Of the rest: for numbers of customers, and for each property; what is left is for the load."""
SEGMENTS_SHARE = 0.4
"""Of the rest, for segments if there are any."""
MAX_PROPERTIES, MAX_SEGMENTS = 5, 20
LOAD, MEMBERS, SEGMENTS, LENGTHS = "load", "customers", "segments", "lengths of offsets"
_LIMITS = (None, None, (0.04, 40.0))
_SMALLEST_KW = 0.05
_Table = PrivateTable[Any, *tuple[Any, ...]]
_NOBODY: Names = np.zeros(0, dtype="S32")


@dataclass(frozen=True, kw_only=True, eq=False)
class SeriesDesign:
    """Public choices of a series: what is released in every period, and at which cost."""

    horizon: int
    periods_per_year: int
    guarantee: Guarantee
    levels: Mapping[str, tuple[Hashable, ...]] = field(default_factory=dict)
    """Groups: name and public levels of at most one attribute; none for all customers."""
    properties: tuple[tuple[str, Hashable], ...] = ()
    """Attribute and value of each property whose customers are counted by group."""
    n_segments: int = 0
    """Clusters of daily shapes that are found and followed; 0 for none."""
    customers: int = 1000
    """Public estimate, by which the budget of the segments is divided over the periods."""
    midsummer: int = 0
    """First period that contains midsummer, in which segments with little signal are found."""

    def __post_init__(self) -> None:
        """Check the choices."""
        checks.integer("horizon", self.horizon, minimum=2, maximum=240)
        checks.integer("n_segments", self.n_segments, minimum=0, maximum=MAX_SEGMENTS)
        if len(self.levels) > 1:
            raise InvalidParameterError("levels", "of one attribute", tuple(self.levels))
        if len(self.properties) > MAX_PROPERTIES or len(set(self.properties)) != len(
            self.properties
        ):
            rule = f"at most {MAX_PROPERTIES} pairs of attribute and value, each once"
            raise InvalidParameterError("properties", rule, self.properties)

    @property
    def groups(self) -> tuple[Hashable, ...]:
        """The levels of the groups."""
        return next(iter(self.levels.values()), ALL_CUSTOMERS)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Attributes of customers that are read, each once."""
        return tuple(dict.fromkeys([*self.levels, *(name for name, _ in self.properties)]))

    def levels_of(self, name: str) -> tuple[tuple[int, str, tuple[Hashable, ...]], ...]:
        """Return place, name and levels of the attributes of one kind of sums.

        A property has one level, its value: customers with another are in no group.
        """
        own = [(one, (value,)) for one, value in self.properties if name == f"{one}={value}"]
        used = [*self.levels.items(), *own]
        return tuple((self.attributes.index(one), one, listed) for one, listed in used)

    @cached_property
    def loads(self) -> Strategy:
        """Strategy of the sums of load."""
        return design_strategy(horizon=self.horizon, periods_per_year=self.periods_per_year)

    @cached_property
    def members(self) -> Strategy:
        """Strategy of numbers of customers."""
        return design_membership_strategy(
            horizon=self.horizon, periods_per_year=self.periods_per_year
        )

    @cached_property
    def rho_units(self) -> dict[str, int]:
        """Cost of each kind of sums over all periods, and of the two queries of period 1."""
        whole = Budget(self.guarantee).rho_units
        first, lengths = (int(Fraction(part) * whole) for part in (FIRST_SHARE, LENGTHS_SHARE))
        left = whole - first - lengths
        counted = {MEMBERS: int(Fraction(MEMBERS_SHARE) * left)}
        for attribute, value in self.properties:
            counted[f"{attribute}={value}"] = int(Fraction(PROPERTY_SHARE) * left)
        apart = {SEGMENTS: int(Fraction(SEGMENTS_SHARE) * left)} if self.n_segments else {}
        sums = left - sum(counted.values()) - sum(apart.values())
        return {"first": first, "lengths": lengths, LOAD: sums, **counted, **apart}

    @property
    def counted(self) -> tuple[str, ...]:
        """Names of the sums that count customers."""
        return (MEMBERS, *(f"{attribute}={value}" for attribute, value in self.properties))

    @property
    def segments(self) -> SegmentDesign | None:
        """Design of the segments, if there are any."""
        if not self.n_segments:
            return None
        return SegmentDesign(
            n_clusters=self.n_segments,
            customers=self.customers,
            horizon=self.horizon,
            periods_per_year=self.periods_per_year,
            rho_units=self.rho_units[SEGMENTS],
            midsummer=self.midsummer,
        )

    def strategy(self, name: str) -> Strategy:
        """Return the strategy of one kind of sums."""
        return self.loads if name == LOAD else self.members

    def accrued_units(self, period: int, found_in: tuple[int, ...] = ()) -> int:
        """Return the cost of everything up to a period, in units of rho.

        ``found_in`` has the periods up to it in which segments were found.
        """
        fixed = self.rho_units["first"] + self.rho_units["lengths"]
        if self.segments is not None:
            fixed += self.segments.schedule(period, found_in).accrued
        kinds = (LOAD, *self.counted)
        return fixed + sum(self.query(name, period, released=()).accrued_units() for name in kinds)

    def query(
        self, name: str, period: int, *, released: Sequence[int], n_features: int = 1
    ) -> PeriodQuery:
        """Return the query of one kind of sums in a period, after those that were released."""
        strategy = self.strategy(name)
        return PeriodQuery(
            tag=name,
            rho_units=self.rho_units[name],
            allowances=tuple(int(Fraction(part) * UNIT**2) for part in strategy.allowances),
            period=period,
            feedback=strategy.feedback[period, [*released, period]],
            n_cells=len(self.groups),
            n_features=n_features,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class FirstRelease:
    """What period 1 releases beside its sums: first estimate, lengths of offsets, and radii."""

    estimate: FirstEstimate
    n_slots: int
    lengths: Floats
    lengths_std: float
    radii: SeriesRadii

    @property
    def calendar(self) -> Calendar:
        """Public coordinates: all of one day."""
        return day_calendar(self.n_slots)


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadPeriod:
    """What one period released. Everything in it may be published."""

    period: int
    centres: Floats
    """(G, r): in kW and colour."""
    sums: Floats
    """(G, r): noisy innovations, in radii."""
    sums_std: float
    members: Mapping[str, Floats]
    """(G,): noisy innovations of numbers of customers, by name."""
    members_std: Mapping[str, float]
    guarantee: Guarantee
    spends: tuple[Spend, ...]
    segments: SegmentPeriod | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleasedSeries:
    """Everything that a series has released so far."""

    design: SeriesDesign
    first: FirstRelease | None = None
    periods: tuple[LoadPeriod, ...] = ()

    @property
    def released(self) -> tuple[int, ...]:
        """Periods that were released, counted from 0."""
        return tuple(one.period for one in self.periods)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the whole series."""
        return self.design.guarantee

    @property
    def spends(self) -> tuple[Spend, ...]:
        """All charges so far."""
        return tuple(spend for one in self.periods for spend in one.spends)

    def counts(self, name: str, *, ahead: int = 0) -> Posterior:
        """Return the filtered numbers of customers by group over periods; post-processing."""
        first = self.begun()
        prior, prior_std = first.estimate.customers, first.estimate.customers_std
        if name != MEMBERS:  # of a property nothing is known in advance
            prior, prior_std = 0.1 * prior, 0.3 * prior
        steps = np.array([one.members[name] for one in self.periods])
        sums = SeriesCounts(
            strategy=self.design.members,
            periods_per_year=self.design.periods_per_year,
            released=self.mask,
            sums=self._spread(steps),
            sums_std=self.periods[-1].members_std[name],
        )
        return smooth_counts(sums, first=prior, first_std=prior_std, ahead=ahead)

    def sums(self) -> SeriesSums:
        """Return the released sums of load in the form that the filter takes."""
        return SeriesSums(
            strategy=self.design.loads,
            periods_per_year=self.design.periods_per_year,
            released=self.mask,
            sums=self._spread(np.array([one.sums for one in self.periods])),
            sums_std=self.periods[-1].sums_std,
            centres=self._spread(np.array([one.centres for one in self.periods])),
            radii_kw=self.begun().radii.radii_kw,
        )

    def means(self, *, ahead: int = 0) -> Posterior:
        """Return the filtered means of all groups and coordinates over periods."""
        first = self.begun()
        customers = self.counts(MEMBERS, ahead=ahead).mean
        return smooth_means(
            self.sums(), first.estimate, customers=customers, calendar=first.calendar, ahead=ahead
        )

    @property
    def mask(self) -> Bools:
        """Which of the periods up to the last one were released."""
        return np.isin(np.arange(self.released[-1] + 1), self.released)

    def next_centres(self, period: int) -> Floats:
        """Return the predicted mean of each group in a later period, in colour."""
        ahead = period - self.released[-1]
        width = self.periods[-1].centres.shape
        return np.ascontiguousarray(self.means(ahead=ahead).mean[:, -1].reshape(width))

    @property
    def segments(self) -> tuple[SegmentPeriod, ...]:
        """What the periods released of the segments."""
        return tuple(one.segments for one in self.periods if one.segments is not None)

    def _spread(self, values: Floats) -> Floats:
        """Return the values of each period, with zeros where a period was skipped."""
        found = np.zeros((self.mask.size, *values.shape[1:]))
        found[self.mask] = values
        return found

    def begun(self) -> FirstRelease:
        """Return what period 1 released; refuse a series without one."""
        if self.first is None:
            raise InvalidParameterError("series", "one with at least one released period", "none")
        return self.first


def release_load_period(
    load_kw: Load,
    *,
    groups: Mapping[str, Values],
    customer_ids: Values,
    past: ReleasedSeries,
    period: int,
    state: PeriodState,
    recluster: bool = False,
    erased: Names = _NOBODY,
) -> ReleasedSeries:
    """Release one period of a series; return everything released so far, this period included.

    Parameters
    ----------
    load_kw : (customers, slots of the day)
        One row per customer of this period, in kW. A row with NaN or infinity is absent.
    groups : values by name of attribute
        Those that the design names: one value per customer.
    customer_ids : one per customer
        Texts, stable over all periods.
    past : ReleasedSeries
        What was released before, with the public design.
    period : int
        Counted from 0, later than the last released one; periods between are skipped.
    state : PeriodState
        The private state that the last released period left; it keeps the new one.
    recluster : bool
        Find the segments anew in this period: a public decision.
    erased : names of customers
        Their rows are left out.

    Formal guarantee
    ----------------
    The caller ensures what docs/proofs/series.md requires of state and past. Then everything
    released up to this period, and the whole series, is (epsilon, delta)-DP for zero-out of one
    customer in all periods, with the guarantee of the design. Proof: docs/proofs/series.md.
    """
    design = past.design
    if recluster and not (design.n_segments and past.periods):
        rule = "for a series with segments, after its first period"
        raise InvalidParameterError("recluster", rule, recluster)
    budget = Budget(design.guarantee)
    for spend in past.spends:
        budget.charge(spend)
    if missing := sorted({*design.attributes} - groups.keys()):
        rule = f"those that the series was declared with (missing: {', '.join(missing)})"
        raise InvalidParameterError("attributes", rule, sorted(groups))
    columns: Any = load_rows(load_kw)
    for name in design.attributes:
        columns = columns.beside(value_rows(groups[name]), field=name)
    columns = columns.beside(value_rows(customer_ids), field="customer_ids")
    named = series_features.named_customers.bind(key=state.names_key, erased=erased)
    columns = columns.select(named)
    rows = NamedPeriodRows(columns, state, series_features.customers_within.bind)
    table = PrivateTable(columns, budget)
    try:
        found = _released_period(table, PrivatePeriod(rows, budget), budget, past, period)
        return _with_segments(table, budget, found, anew=recluster)
    except WattveilError as error:
        if len(budget.spends) == len(past.spends) or isinstance(error, SeriesStateError):
            raise
        # Charges were made, so noise may have been drawn from these rows.
        problem = f"period {period + 1} was begun and failed: {error}"
        raise SeriesStateError(problem, AGAIN) from error


def _released_period(
    table: _Table,
    rows: PrivatePeriod,
    budget: Budget,
    past: ReleasedSeries,
    period: int,
) -> ReleasedSeries:
    """Make the queries of a period; all between them is post-processing."""
    before = len(past.spends)
    first = _first_release(table, budget, past.design) if past.first is None else past.first
    if table.width != first.n_slots:
        raise wrong_width("load_kw", first.n_slots, table.width)
    centres = past.next_centres(period) if past.periods else first.estimate.mean
    found = _period_sums(rows, past, first, centres=centres, period=period)
    counted = past.design.counted
    released = LoadPeriod(
        period=period,
        centres=centres,
        sums=found[LOAD][0],
        sums_std=found[LOAD][1],
        members={name: found[name][0][:, 0] for name in counted},
        members_std={name: found[name][1] for name in counted},
        guarantee=past.design.guarantee,
        spends=budget.spends[before:],
    )
    return replace(past, first=first, periods=(*past.periods, released))


def _with_segments(
    table: _Table, budget: Budget, released: ReleasedSeries, *, anew: bool
) -> ReleasedSeries:
    """Release the segments of the last period, if the design has any."""
    design, before, last = released.design.segments, len(released.spends), released.periods[-1]
    if design is None:
        return released
    found = release_segments(
        KMeansQueries(table, basis=row_basis(table.width, 1), normalise=True, longest=math.inf),
        budget,
        design,
        released.segments,
        n_slots=table.width,
        period=last.period,
        anew=anew,
    )
    last = replace(last, segments=found, spends=(*last.spends, *budget.spends[before:]))
    return replace(released, periods=(*released.periods[:-1], last))


def _period_sums(
    rows: PrivatePeriod, past: ReleasedSeries, first: FirstRelease, *, centres: Floats, period: int
) -> dict[str, Noisy]:
    """Release the sums of load and the numbers of members of a period."""
    design = past.design
    public = {"centres": centres, "radii": first.radii.radii_kw, "curves": first.calendar.curves}
    work = {
        LOAD: series_features.group_offsets.bind(levels=design.levels_of(LOAD), **public),
        **{
            name: series_features.group_members.bind(levels=design.levels_of(name))
            for name in design.counted
        },
    }
    widths = {LOAD: centres.shape[1]}
    query = partial(design.query, period=period, released=past.released)
    return {
        name: rows.release(one, query(name, n_features=widths.get(name, 1)))
        for name, one in work.items()
    }


def _first_release(table: _Table, budget: Budget, design: SeriesDesign) -> FirstRelease:
    """Release the first estimate of each group's mean and the lengths of offsets from it."""
    levels, n_slots = design.levels_of(LOAD), table.width
    by_group = table.select(series_features.series_groups.bind(levels=levels))
    shapes, means, calendar = means_within(
        GroupLoadQueries(by_group),
        budget,
        rho_units=design.rho_units["first"],
        levels=design.groups,
        limits=_LIMITS,
        shape=(n_slots, 1),
    )
    shared = np.square(np.hypot(means.counted, means.missed))[:, None] * np.square(means.mean)
    estimate = FirstEstimate(
        mean=means.mean / calendar.colour,
        variance=(means.variance + shared) / np.square(calendar.colour),
        typical_kw=np.maximum(shapes.mean_kw.mean(axis=1), _SMALLEST_KW),
        customers=shapes.customers,
        customers_std=shapes.customers_std,
    )
    work = series_features.offset_length_cells.bind(
        levels=levels,
        centres=estimate.mean,
        radii=estimate.typical_kw,
        curves=day_calendar(n_slots).curves,
        edges=LENGTH_EDGES,
    )
    units, n_cells = design.rho_units["lengths"], LENGTH_EDGES.size + 1
    query = Query(tag=LENGTHS, rho_units=units, n_cells=n_cells)
    lengths, lengths_std = table.release(work, query)[0]
    return FirstRelease(
        estimate=estimate,
        n_slots=n_slots,
        lengths=lengths,
        lengths_std=lengths_std,
        radii=first_radii(design, estimate, (lengths, lengths_std)),
    )


def first_radii(
    design: SeriesDesign, estimate: FirstEstimate, lengths: tuple[Floats, float]
) -> SeriesRadii:
    """Return the radii that follow from the first estimate and the lengths of offsets."""
    rho = design.rho_units[LOAD] / 10**18
    feedback = design.loads.feedback
    level_std = float(np.sqrt(0.5 / rho * np.square(feedback).sum(axis=1).mean()))
    return choose_radii(
        lengths[0],
        lengths_std=lengths[1],
        typical_kw=estimate.typical_kw,
        customers=estimate.customers,
        level_std=level_std,
    )


def day_calendar(n_slots: int) -> Calendar:
    """Return all public coordinates of one day."""
    return Calendar(n_days=1, n_slots=n_slots, n_coordinates=n_slots)
