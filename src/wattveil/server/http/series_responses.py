"""Response models of series in the HTTP API."""

from typing import Any, Literal

from wattveil.server.http.responses import Amounts, ResponseModel


class SeriesPeriod(ResponseModel):
    """Period of a series."""

    period: str
    """Its name, such as 2026-Q3."""
    release: str
    """Identifier of its release."""
    state: Literal["computing", "ok", "failed"]
    """A period that failed is not released: it can be added again."""
    missing_file: str = ""
    """To administrators: the file that it waits for, if that is not in the folder of profiles."""


class Series(ResponseModel):
    """Series of periods under one budget."""

    dataset: str
    """Name of the data set that was charged."""
    name: str
    """Name of the series."""
    request: dict[str, Any]
    """Every choice, defaults filled in."""
    price: Amounts
    """What was charged for all periods."""
    opened_at: str
    """Time of the charge, in UTC."""
    opened_by: str
    """Administrator who opened it."""
    closed: str | None
    """Why it was closed; null while it is open."""
    periods: list[SeriesPeriod]
    """Those that were begun, in order."""


class SeriesGroupPlan(ResponseModel):
    """Expected accuracy for a group of so many customers."""

    customers: int
    """Public number of customers."""
    level_error: float
    """Standard error of an hour of the mean day in the last period, relative to typical load."""
    visible_kw_per_year: float | None
    """Change per year that would be found in 80 % of all series; null below two years."""


class SeriesPlan(ResponseModel):
    """What a series would cost, and what it would show: computed from public numbers."""

    price: Amounts
    """What opening it charges to the data set, for all periods."""
    groups: list[SeriesGroupPlan]
    """One for each number of customers."""


class SeriesErasure(ResponseModel):
    """Answer to an erasure; how many of the ids were customers is private."""

    erased: bool
    """Always true: the state holds no contributions of these ids any more."""
    excluded: bool
    """Whether later periods exclude them; false as long as the series has no private state."""


class SeriesList(ResponseModel):
    """Series of a data set."""

    series: list[Series]
    """In the order in which they were opened."""
