"""Public choices of a series of periods, declared once."""

import datetime as dt
import hashlib
import re
from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from wattveil import checks
from wattveil.bundle.keys import canonical
from wattveil.declaration import CommandLine, Declaration, Rule, to_plain
from wattveil.engines.series_folder import KIND, KIND_RULE
from wattveil.errors import AlreadyExistsError, InvalidParameterError
from wattveil.privacy.guarantee import global_guarantee
from wattveil.products.public_estimate import rounded_customers, rounded_kw
from wattveil.products.request import (
    NOT_STATED,
    Delta,
    Epsilon,
    GroupName,
    Line,
    ReleaseRequest,
)
from wattveil.profiles.time_grid import Split, TimeGrid
from wattveil.release.load_series import MAX_PROPERTIES, MAX_SEGMENTS, SeriesDesign

_PROPERTY = re.compile(r"[^=]+=.+")
_GROUPS = CommandLine(group="Groups and counts")
_ESTIMATES = CommandLine(group="Public estimates")


class Calendar(StrEnum):
    """Length of a period."""

    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"

    @property
    def periods_per_year(self) -> int:
        """Number of periods in a year."""
        return {"month": 12, "quarter": 4, "year": 1}[self.value]


class Midsummer(StrEnum):
    """Month of midsummer, or none if it does not matter."""

    JULY = "july"
    JANUARY = "january"
    NONE = "none"

    @property
    def month(self) -> int | None:
        """Number of the month."""
        return {"july": 7, "january": 1, "none": None}[self.value]


def _property(text: str) -> str:
    if not (_PROPERTY.fullmatch(text) and KIND.fullmatch(text)):
        raise ValueError(text)
    return text


class SeriesRequest(Declaration):
    """What a series publishes in every period, and its privacy budget for all of them."""

    epsilon: Epsilon
    """Privacy loss of a customer over all periods together."""
    delta: Delta = ReleaseRequest.model_fields["delta"].default
    """Slack added to every probability, over all periods together; far below 1/customers."""
    periods: Annotated[int, Field(ge=2, le=240)]
    """Number of periods of the horizon, T; it cannot be changed later."""
    every: Calendar = Calendar.QUARTER
    """Length of a period: month, quarter or year."""
    first: str
    """First period: 2026-Q1 for a quarter, 2026-01 for --every month, 2026 for --every year."""
    timezone: Line = "UTC"
    """Time zone of the profiles of all periods, such as Europe/London: `wattveil profiles
    --timezone`."""
    by: Annotated[Line | None, _GROUPS] = None
    """Public attribute that divides customers into groups; if omitted, one group."""
    levels: Annotated[tuple[GroupName, ...], _GROUPS] = ()
    """Public list of the groups to publish."""
    counts: Annotated[
        tuple[
            Annotated[
                Line,
                AfterValidator(_property),
                Rule(f"attribute=value, such as car=yes, in {KIND_RULE}"),
            ],
            ...,
        ],
        Field(max_length=MAX_PROPERTIES),
        _GROUPS,
    ] = ()
    """Properties, as attribute=value, whose customers are counted by group in every period."""
    segments: Annotated[int, Field(ge=0, le=MAX_SEGMENTS), _GROUPS] = 0
    """Number of segments (clusters) of daily shapes that are found in few periods and followed in
    all others; 0 publishes none."""
    midsummer: Annotated[Midsummer, _GROUPS] = Midsummer.JULY
    """Month of midsummer: july, or january in the southern hemisphere. With few customers for the
    budget, segments are found again in the first period that contains it; none: they are not."""
    customers: Annotated[
        int, Field(ge=1, le=10**12), AfterValidator(rounded_customers), _ESTIMATES
    ] = 1000
    """Public estimate of the number of customers, for the plan and the budget of segments; it is
    rounded."""
    typical_kw: Annotated[float, Field(gt=0.0, le=1e6), AfterValidator(rounded_kw), _ESTIMATES] = (
        0.5
    )
    """Public estimate of the mean load of a customer in kW, for the plan; it is rounded."""
    title: Annotated[Line, CommandLine(group="Texts")] = "Load by group over time"
    """Title of the series."""
    curator: Annotated[Line, CommandLine(group="Texts")] = NOT_STATED
    """Organisation that holds the data and publishes the series."""
    region: Annotated[Line, CommandLine(group="Texts")] = NOT_STATED
    """Region of the customers."""
    contact: Annotated[Line, CommandLine(group="Texts")] = NOT_STATED
    """Contact for questions."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Check the rules between fields."""
        pattern = {"month": r"\d{4}-(0[1-9]|1[0-2])", "quarter": r"\d{4}-Q[1-4]", "year": r"\d{4}"}
        if not re.fullmatch(pattern[self.every], self.first):
            form = {"month": "2026-01", "quarter": "2026-Q1", "year": "2026"}[self.every]
            rule = f"a {self.every} such as {form}, because --every is {self.every}"
            raise InvalidParameterError("first", rule, self.first)
        if (self.by is None) != (not self.levels) or len(set(self.levels)) < len(self.levels):
            rule = "given together with by, each level once"
            raise InvalidParameterError("levels", rule, self.levels)
        if len(set(self.counts)) < len(self.counts):
            raise InvalidParameterError("counts", "given once each", self.counts)
        return self

    @property
    def design(self) -> SeriesDesign:
        """The design of the series that follows from the choices."""
        pairs = (text.partition("=") for text in self.counts)
        return SeriesDesign(
            horizon=self.periods,
            periods_per_year=self.every.periods_per_year,
            guarantee=global_guarantee(epsilon=self.epsilon, delta=self.delta),
            levels={} if self.by is None else {self.by: self.levels},
            properties=tuple((attribute, value) for attribute, _, value in pairs),
            n_segments=self.segments,
            customers=self.customers,
            midsummer=self._midsummer_period,
        )

    @property
    def _midsummer_period(self) -> int:
        """First period that contains midsummer, counted from 0; 0 if it does not matter."""
        if self.midsummer.month is None:
            return 0
        months = 12 // self.every.periods_per_year
        return (self.midsummer.month - self.days(0)[0].month) % 12 // months

    @property
    def sha256(self) -> str:
        """Hash of all choices."""
        return hashlib.sha256(canonical(to_plain(self))).hexdigest()

    def label(self, period: int) -> str:
        """Return the name of a period, counted from 0, such as 2026-Q1."""
        per_year = self.every.periods_per_year
        year, within = int(self.first[:4]), self.first[5:].removeprefix("Q")
        place = year * per_year + (int(within) - 1 if within else 0) + period
        year, part = divmod(place, per_year)
        form = {"month": f"-{part + 1:02}", "quarter": f"-Q{part + 1}", "year": ""}[self.every]
        return f"{year:04}{form}"

    def period_of(self, label: str) -> int:
        """Return the period with this name."""
        names = [self.label(period) for period in range(self.periods)]
        if label not in names:
            rule = f"a period of the series, {names[0]} to {names[-1]}"
            raise InvalidParameterError("period", rule, label)
        return names.index(label)

    def check_profiles(self, grid: TimeGrid, timezone: str) -> None:
        """Accept profiles of one average day in the time zone of the series: public facts."""
        if grid.split is not Split.DAY or grid.closing_midnight:
            raise InvalidParameterError("profiles", "of one average day", grid.split.value)
        if timezone != self.timezone:
            rule = f"in the time zone of the series, {self.timezone}"
            raise InvalidParameterError("profiles", rule, timezone)

    def days(self, period: int) -> tuple[dt.date, dt.date]:
        """Return the first day of a period, and the day after its last."""
        months = 12 // self.every.periods_per_year
        year, within = int(self.first[:4]), self.first[5:].removeprefix("Q")
        before = ((int(within) - 1 if within else 0) + period) * months
        first, end = (dt.date(year + at // 12, at % 12 + 1, 1) for at in (before, before + months))
        return first, end

    def next_period(
        self,
        label: str | None,
        *,
        released: Collection[int],
        days: tuple[dt.date, dt.date] | None,
    ) -> int:
        """Return the place of a period that may be released now; None is the one after the last."""
        place = max(released, default=-1) + 1 if label is None else self.period_of(label)
        return self.check_period(place, released=released, days=days)

    def check_period(
        self,
        period: int,
        *,
        released: Collection[int],
        days: tuple[dt.date, dt.date] | None = None,
    ) -> int:
        """Accept a period within the horizon, later than the last released one.

        ``days`` are the first day of the profiles and the day after the last, if they are stated:
        profiles of other days than those of the period are refused.
        """
        if period >= self.periods:
            rule = f"within the horizon, which ended with {self.label(self.periods - 1)}"
            raise InvalidParameterError("period", rule, self.label(period))
        after = max(released, default=-1)
        if period <= after:
            rule = f"after {self.label(after)}, the last one that was released"
            if period not in released:
                rule += f"; {self.label(period)} was skipped and cannot be added"
            kind = AlreadyExistsError if period == after else InvalidParameterError
            raise kind("period", rule, self.label(period))
        first, end = self.days(period)
        if days is not None and not first <= days[0] < days[1] <= end:
            rule = (
                f"of {self.label(period)} ({first} to {end - dt.timedelta(days=1)}); `wattveil"
                " profiles --period` stated other days"
            )
            found = f"{days[0]} to {days[1] - dt.timedelta(days=1)}"
            raise InvalidParameterError("profiles", rule, found)
        return checks.integer("period", period, minimum=0)
