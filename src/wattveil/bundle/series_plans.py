"""What a series will cost and show, from public numbers: it uses no data and costs nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wattveil.bundle.series_request import SeriesRequest
from wattveil.errors import InvalidParameterError
from wattveil.numerics.series.planning import plan_load
from wattveil.privacy.accounting import RHO_UNITS
from wattveil.release.load_series import LOAD, ReleasedSeries, day_calendar
from wattveil.release.segment_series import found_in
from wattveil.web.results import Result, ResultTable

_PLANNED_SLOTS = 24


@dataclass(frozen=True, kw_only=True, eq=False)
class SeriesPlan(Result):
    """Expected accuracy of a series, from public numbers. It uses no data and costs nothing."""

    customers: tuple[int, ...]
    level_error: tuple[float, ...]
    """Relative error of the mean day of a group of so many customers, in the last period."""
    visible_kw_per_year: tuple[float, ...]
    """Change per year that would be found in 80 % of all series; infinite below two years."""

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        columns = {
            "customers": self.customers,
            "level_error": self.level_error,
            "visible_kw_per_year": self.visible_kw_per_year,
        }
        return {"plan": lambda: ResultTable(columns, ("customers",))}


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentPrices(Result):
    """What the segments of the next period cost, followed or found anew. It costs nothing."""

    period: str
    decisions: tuple[str, ...]
    """Find the clusters, as planned; or follow them, or recluster: find them anew."""
    planned: tuple[str, ...]
    """Periods in which clusters were found, or will be by the plan if no period is skipped."""
    share: tuple[float, ...]
    """Of the budget of the segments that the period spends."""
    left: tuple[float, ...]
    """Of that budget, for the periods after it."""
    steps: tuple[int, ...]
    """Refining steps in each later period; 0 keeps the clusters and counts their customers."""
    again: tuple[int, ...]
    """So many periods later the plan finds the clusters again; 0 for never."""
    signal: tuple[float, ...]
    """Customers of a cluster over the noise of a count that spends a later period's part."""

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        names = ("share", "left", "steps", "again", "signal")
        columns = {
            "period": [self.period] * len(self.decisions),
            "decision": self.decisions,
            **{name: getattr(self, name) for name in names},
        }
        return {"segment_prices": lambda: ResultTable(columns, ("period", "decision"))}


def plan_series(request: SeriesRequest, *customers: int) -> SeriesPlan:
    """Return the expected accuracy of a series for groups of so many customers."""
    design = request.design
    groups = customers or (max(request.customers // len(design.groups), 1),)
    found = [
        plan_load(
            strategy=design.loads,
            periods_per_year=design.periods_per_year,
            rho=design.rho_units[LOAD] / RHO_UNITS,
            customers=one,
            typical_kw=request.typical_kw,
            calendar=day_calendar(_PLANNED_SLOTS),
        )
        for one in groups
    ]
    return SeriesPlan(
        customers=groups,
        level_error=tuple(float(one.level_error[-1]) for one in found),
        visible_kw_per_year=tuple(one.smallest_visible_kw for one in found),
    )


def segment_prices(request: SeriesRequest, past: ReleasedSeries | None) -> SegmentPrices:
    """Return what the segments of the next period cost, after what was released."""
    segments = () if past is None else past.segments
    place = 0 if past is None else past.released[-1] + 1
    request.check_period(place, released=() if past is None else past.released)
    design = request.design.segments
    if design is None:
        raise InvalidParameterError("segments", "given at `wattveil series init`", 0)
    begun = found_in(segments)
    anew = (*begun, place)
    is_due = design.is_due(place, begun)
    ways = {"find": anew} if is_due else {"follow": begun, "recluster": anew}
    spent = design.schedule(segments[-1].period, begun).accrued if segments else 0
    found = [design.schedule(place, way) for way in ways.values()]
    return SegmentPrices(
        period=request.label(place),
        decisions=tuple(ways),
        planned=tuple(
            request.label(at) for at in design.planned(anew if is_due else begun, place + 1)
        ),
        share=tuple((one.accrued - spent) / design.rho_units for one in found),
        left=tuple(1.0 - one.accrued / design.rho_units for one in found),
        steps=tuple(one.plan.steps for one in found),
        again=tuple(one.plan.again or 0 for one in found),
        signal=tuple(one.plan.signal for one in found),
    )
