"""The product `years`: a model of load over years, and a first sample of synthetic years from it.

It needs profiles that keep every slot of consecutive days beside the average (`wattveil profiles
--first-day --days`). The model is a document of the bundle; tables have the level of each day that
all customers share, the mean load of a sample in every slot, and two weeks of single customers.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray
from pydantic import Field

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.declaration import Declaration
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.numerics.synthesis.day_deviations import YearCalendar, day_width
from wattveil.numerics.synthesis.year_model import YearModel
from wattveil.products.clusters import Clusters, simulation_of
from wattveil.products.findings import Finding, gathered, same_numbers
from wattveil.products.product import (
    DAYS_NEEDED,
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
from wattveil.products.tables import TIME, Column, Table, TableLayout
from wattveil.products.year_figures import year_figures, year_headline
from wattveil.profiles.time_grid import Split, TimeGrid
from wattveil.release.synthetic import YearSynthesizer
from wattveil.simulate import DEFAULT_MIX, LONDON_MIX, simulate_kwh
from wattveil.web.charts import ReportFigure
from wattveil.web.results import Result, ResultTable, records_table

YEAR_MODEL = "year_model.json"
YEARS_SAMPLED, FIRST_SEED = 500, 1
"""Number of customers sampled for the tables, and the public seed: the sample is reproducible."""
_SHOWN = 12
"""Customers of the sample whose weeks are in the bundle."""
_SIMULATED, _SIMULATED_DAYS = 400, 366
"""Of a plan. A simulated population has at most so many customers, with less noise instead. With
100, single homes are a large part of the coincident peak, and hide errors of its seasons."""
_MIXES = (LONDON_MIX, DEFAULT_MIX)
"""Homes alone, and homes with shops, offices and panels: the peak of the latter is lower."""
_RELEASES = 2
"""Simulated releases of each mix."""
_VERY_LARGE = 20.0
"""Of the median load: larger customers are not compared, as in `wattveil evaluate`."""
_PEAK_BIAS = "synthetic minus real coincident peak in simulated releases"
_ENERGY_BIAS = "synthetic minus real energy over the released days in simulated releases"
_NOT_KNOWN = "not known without the data (the data holder can run wattveil evaluate)"

_DAY = Column(name="day", text="local day", type="string")
_CUSTOMER = Column(
    name="customer", text="number of the synthetic customer", type="int64", minimum=0.0
)
_LEVEL = Column(
    name="level", text="level of the day that all customers share, relative to their typical days"
)
_ENERGY = Column(name="energy_kwh", text="mean energy of a synthetic customer", unit="kWh")
_PEAK = Column(
    name="peak_kw", text="largest mean load of the synthetic customers in a slot", unit="kW"
)


class YearOptions(Declaration):
    """Options of synthetic years."""

    split: Annotated[Split, Field(strict=False)] = Split.SEASON_WEEKDAY_WEEKEND
    """Parts of the year, each with its own typical day. Each must occur in the days of the
    profiles: for less than a year, choose weekday-weekend, week or day."""


class Years(Product):
    """A model of the customers' load over years: `YearSynthesizer`."""

    name = "years"
    title = "Synthetic years"
    default_weight = 0.0  # opt-in: most profiles keep no days
    named_weight = 6.0  # as much as all products by default: its queries are many
    choices = ("n_clusters",)
    needs = DAYS_NEEDED
    needs_days = True
    Options: ClassVar[type[Declaration] | None] = YearOptions
    documents = (YEAR_MODEL,)
    postprocessing = (
        "model of years: noisy moments and histograms shrunk towards public priors",
        "levels of days: drawn from their distribution given the noisy ones",
        "synthetic years: sampled from the released model",
    )

    def layouts(self, choice: Choice) -> tuple[TableLayout, ...]:
        """Return levels of days, mean load of all slots, and weeks of single customers."""
        calendar = year_calendar(choice)
        days, times = _days(calendar), _times(choice.grid)
        shown = np.repeat(_shown_days(calendar), len(times))
        each = len(shown)
        levels = TableLayout(
            name="year_days",
            text="Level of each day that all customers share, from the released model; and energy"
            f" and peak of {YEARS_SAMPLED} synthetic customers, none of them real.",
            keys={_DAY: days},
            values=(_LEVEL, _ENERGY, _PEAK),
        )
        mean = TableLayout(
            name="year_load",
            text=f"Mean load of {YEARS_SAMPLED} synthetic customers in every slot of the year.",
            keys={_DAY: np.repeat(days, len(times)), TIME: np.tile(times, calendar.n_days)},
            values=(Column(name="load_kw", text="mean load", unit="kW"),),
        )
        weeks = TableLayout(
            name="year_weeks",
            text="Two weeks of some synthetic customers; none is a real customer.",
            keys={
                _CUSTOMER: np.repeat(_shown_customers(), each),
                _DAY: np.tile(days[shown], _SHOWN),
                TIME: np.tile(times, _SHOWN * each // len(times)),
            },
            values=(Column(name="load_kw", text="load", unit="kW"),),
        )
        return levels, mean, weeks

    def draws(self, tags: Sequence[str], choice: Choice) -> Mapping[str, int]:
        """Return the draws of clusters of typical days, of their model, and of days."""
        calendar, request = year_calendar(choice), choice.request
        plain = Choice(request=request.replace(normalise=False), grid=choice.grid)
        return {
            **Clusters().draws(tags, plain),
            "customers by cluster and export": request.n_clusters,
            **dict.fromkeys(("lengths", "moments", "margins", "sizes of customers"), 0),
            "days": day_width(calendar.n_slots),
            "levels of days": calendar.n_days,
            **dict.fromkeys(("spreads of shapes", "spreads of levels", "base loads", "peaks"), 0),
        }

    def expected(self, choice: Choice, allotment: Allotment) -> tuple[Expectation, ...]:
        """Simulate the release on simulated homes."""
        plan = plan_years(
            _synthesizer(choice, allotment),
            n_customers=choice.request.customers,
            n_days=choice.grid.n_days,
            typical_kw=choice.request.typical_kw,
        )
        found = ((_PEAK_BIAS, plan.peak_bias), (_ENERGY_BIAS, plan.energy_bias))
        return tuple(
            Expectation(name, 100.0 * middle, "%", 100.0 * low, 100.0 * high)
            for name, (middle, low, high) in found
        )

    def released_errors(self, tables: Mapping[str, Table]) -> Mapping[str, str]:
        """Return why the difference from real customers is not stated: it would need their data."""
        del tables
        return dict.fromkeys((_PEAK_BIAS, _ENERGY_BIAS), _NOT_KNOWN)

    def query(self, work: Work, allotment: Allotment) -> YearSynthesizer:
        """Release a model of the days of the customers."""
        budget = allotment.guarantee
        asked = _synthesizer(work.choice, allotment)
        asked.set_params(epsilon=budget.epsilon, delta=budget.delta)  # those of the allotment
        return asked.fit(work.days_kw)

    def tabulate(
        self, released: YearSynthesizer, choice: Choice, allotment: Allotment
    ) -> ReleasedProduct:
        """Return the model, and what a sample from it shows."""
        values = _sampled(released.year_model_)
        tables = zip(self.layouts(choice), values, strict=True)
        return ReleasedProduct(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=released.spends_),),
            tables=tuple(layout.filled(*columns) for layout, columns in tables),
            documents={YEAR_MODEL: _model_text(released.year_model_)},
        )

    def recompute(self, contents: Contents) -> Iterator[Finding]:
        """Sample the years again from the model."""
        if {layout.name for layout in self.layouts(contents.choice)} <= set(contents.tables):
            yield gathered(
                "the synthetic years come from the model",
                self._problems(contents),
                "sampled again with the public seed, on the days of the profiles",
            )

    def _problems(self, contents: Contents) -> Iterator[str]:
        """Compare the tables of a bundle with a sample from its model."""
        try:
            model = read_year_model(contents.folder)
            if model.calendar != year_calendar(contents.choice):
                yield "the model is of other days"
                return
            values = _sampled(model)
        except (InvalidFileError, LookupError, ValueError, LinAlgError) as error:
            yield f"they cannot be sampled: {type(error).__name__}"
            return
        if (contents.folder / YEAR_MODEL).read_text("utf-8") != _model_text(model):
            yield "the file of the model contains more than the model"
        for layout, columns in zip(self.layouts(contents.choice), values, strict=True):
            table = contents.tables[layout.name]
            for column, due in zip(layout.values, columns, strict=True):
                if not same_numbers(table.column(column.name), due):
                    yield f"{layout.name}: another {column.name} follows from it"

    def headline(self, tables: Mapping[str, Table], choice: Choice) -> Headline:
        """Return the coincident peak of synthetic customers, and its time."""
        del choice
        if not {"year_days", "year_load"} <= set(tables):
            return Headline()
        return year_headline(tables["year_days"], tables["year_load"])

    def figures(self, tables: Mapping[str, Table], choice: Choice) -> Iterator[ReportFigure]:
        """Return weeks of customers, the year of all of them, and the common level of days."""
        del choice
        if {"year_days", "year_load", "year_weeks"} <= set(tables):
            yield from year_figures(tables)


def year_calendar(choice: Choice) -> YearCalendar:
    """Return the public calendar of the days of the profiles; every part must occur."""
    grid, options = choice.grid, choice.request.options["years"]
    if grid.first_day is None:
        raise InvalidParameterError("profiles", f"made with {DAYS_NEEDED}", "others")
    calendar = YearCalendar(
        first_day=grid.first_day, n_days=grid.n_days, n_slots=grid.slots, split=options.split
    )
    if np.unique(calendar.parts).size < calendar.n_parts:
        rule = f"one whose parts all occur in {grid.n_days} days from {grid.first_day}"
        raise InvalidParameterError("years_split", rule, options.split.value)
    return calendar


def read_year_model(bundle: Path) -> YearModel:
    """Read the model of years of a bundle."""
    path = bundle / YEAR_MODEL
    try:
        return YearModel.from_dict(json.loads(path.read_text("utf-8")))
    except OSError as error:
        raise InvalidFileError(
            path, "file", "a bundle that was released with years (--share years=6)", None
        ) from error
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise InvalidFileError(path, "content", "a model of years", str(error)) from error


def _model_text(model: YearModel) -> str:
    return json.dumps(model.to_dict(), separators=(",", ":"))


def _synthesizer(choice: Choice, allotment: Allotment) -> YearSynthesizer:
    """Return the estimator to be fitted."""
    calendar, request = year_calendar(choice), choice.request
    return YearSynthesizer(
        first_day=calendar.first_day,
        n_clusters=request.n_clusters,
        epsilon=allotment.guarantee.epsilon,
        delta=allotment.guarantee.delta,
        clip_kw=request.clip_kw,
        plausible_kw=request.plausible_kw,
        slots_per_day=calendar.n_slots,
        split=calendar.split,
    )


def _days(calendar: YearCalendar) -> NDArray[np.str_]:
    """Return the days as texts."""
    first = np.datetime64(calendar.first_day)
    return np.array([str(first + number) for number in range(calendar.n_days)])


def _times(grid: TimeGrid) -> list[str]:
    """Return the start of each slot of a day."""
    return [f"{minute // 60:02}:{minute % 60:02}" for minute in range(0, 1440, grid.minutes)]


def _shown_customers() -> Ints:
    """Return customers that are spread over the sample, which is in order of clusters."""
    return np.arange(_SHOWN) * YEARS_SAMPLED // _SHOWN


def _shown_days(calendar: YearCalendar) -> Ints:
    """Return the days of two weeks, from Monday on: the first, and one in the middle."""
    first = -calendar.first_day.weekday() % 7
    weeks = (calendar.n_days - first) // 7
    starts = first + 7 * np.unique([0, weeks // 2])
    return np.asarray((starts[:, None] + np.arange(7)).ravel())


def _sampled(model: YearModel) -> tuple[tuple[Floats, ...], ...]:
    """Return the values of the three tables, from one sample with the public seed."""
    calendar, customers = model.calendar, _shown_customers()
    total = np.zeros(calendar.n_days * calendar.n_slots)
    shown, first = [], 0
    for load_kw, _ in model.batches(YEARS_SAMPLED, random_state=FIRST_SEED):
        total += load_kw.sum(axis=0)
        here = customers[(customers >= first) & (customers < first + len(load_kw))]
        shown.append(load_kw[here - first])
        first += len(load_kw)
    mean_kw = (total / YEARS_SAMPLED).reshape(calendar.n_days, calendar.n_slots)
    days = np.vstack(shown).reshape(_SHOWN, calendar.n_days, calendar.n_slots)
    energy_kwh = mean_kw.mean(axis=1) * 24.0
    levels = (model.levels, energy_kwh, mean_kw.max(axis=1))
    return levels, (mean_kw.ravel(),), (days[:, _shown_days(calendar)].ravel(),)


@dataclass(frozen=True, kw_only=True)
class YearPlan(Result):
    """Expected accuracy of a model of years, from public parameters and simulated homes."""

    peak_bias: tuple[float, float, float]
    """Relative difference of the coincident peak of synthetic from that of real customers: median
    over the simulated releases, lowest and highest."""
    energy_bias: tuple[float, float, float]
    """The same of the mean energy over the released days."""

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        names = ("median", "lowest", "highest")
        found = (
            ("coincident peak", self.peak_bias),
            ("energy over the released days", self.energy_bias),
        )
        records = [
            {"quantity": name, **dict(zip(names, value, strict=True))} for name, value in found
        ]
        return {"plan": lambda: records_table(records, "quantity")}


def plan_years(
    estimator: YearSynthesizer, *, n_customers: int, n_days: int, typical_kw: float | None = None
) -> YearPlan:
    """Simulate the release on simulated homes, as `plan_kmeans` does.

    Parameters
    ----------
    estimator
        Estimator to be fitted.
    n_customers, typical_kw
        As for `plan_kmeans`.
    n_days
        Number of days of the data; of more than a year, the first year is simulated.
    """
    checks.integer("n_customers", n_customers, minimum=1)
    checks.integer("n_days", n_days, minimum=1)
    simulation, n_simulated = simulation_of(estimator, n_customers, most=_SIMULATED)
    peaks, energies = [], []
    for seed, mix in enumerate(_MIXES * _RELEASES):
        rows = simulate_kwh(
            customers=n_simulated,
            days=min(n_days, _SIMULATED_DAYS),
            start=estimator.first_day,
            timezone="UTC",
            minutes=1440 // estimator.slots_per_day,
            mix=mix,
            seed=seed,
        ) * (estimator.slots_per_day / 24.0)
        if typical_kw is not None:
            sizes = np.sqrt(np.square(rows).mean(axis=1))
            rows *= checks.positive("typical_kw", typical_kw) / np.median(sizes)
        model = simulation.fit(rows).year_model_
        max_kw = _VERY_LARGE * np.median(np.abs(rows).mean(axis=1))
        sampled = model.sample(n_simulated, random_state=seed)[0]
        real, other = (without_very_large(each, max_kw) for each in (rows, sampled))
        peaks.append(float(other.mean(axis=0).max() / real.mean(axis=0).max()) - 1.0)
        energies.append(float(other.mean() / real.mean()) - 1.0)
    return YearPlan(peak_bias=_range(peaks), energy_bias=_range(energies))


def without_very_large(rows: Floats, max_kw: float) -> Floats:
    """Return the customers up to a mean load; all of them if each one is above it.

    With very much noise that happens, and the plan has to state what such customers amount to.
    """
    kept: Floats = rows[np.abs(rows).mean(axis=1) <= max_kw]
    return kept if len(kept) else rows


def _range(found: Sequence[float]) -> tuple[float, float, float]:
    """Return median, lowest and highest."""
    return float(np.median(found)), min(found), max(found)
