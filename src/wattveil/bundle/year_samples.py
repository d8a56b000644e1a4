"""Samples of years from a bundle: their days, their weather and their group.

Post-processing of a released model, at no privacy cost.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from wattveil import checks
from wattveil.bundle.bundle_files import read_manifest
from wattveil.bundle.drawn_customers import Batches, Drawn
from wattveil.bundle.group_level import DrawnMean, group_level
from wattveil.bundle.group_years import group_mix, year_mix
from wattveil.bundle.released_groups import group_warnings
from wattveil.numerics.synthesis.temperature_levels import Extrapolation, TemperatureResponse
from wattveil.numerics.synthesis.year_model import YearModel
from wattveil.products.years import read_year_model
from wattveil.profiles import TimeGrid

_MAX_DAYS = 10 * 366


class YearSample(NamedTuple):
    """The days of a sample of years, and their weather; None takes those of the data."""

    first_day: date | None = None
    n_days: int | None = None
    temperatures_c: Mapping[date, float] | None = None
    """Public daily mean temperatures, of the days of the data and of the sample."""
    temperature_file: str | None = None
    """Name of the file of temperatures, which the origin of the customers states."""

    def weather(self, model: YearModel) -> tuple[TemperatureResponse, Extrapolation] | None:
        """Return the response of load to temperature, and how far it is extrapolated.

        None without temperatures.
        """
        if self.temperatures_c is None:
            return None
        response, own = model.temperature_response(self.temperatures_c), model.calendar
        calendar = replace(own, first_day=self._days(model)[0], n_days=self._days(model)[1])
        return response, response.extrapolation(self.temperatures_c, calendar, own=own)

    def _days(self, model: YearModel) -> tuple[date, int]:
        """Return the first day and the number of days of the sample."""
        own = model.calendar
        n_days = own.n_days if self.n_days is None else self.n_days
        checks.integer("days", n_days, minimum=1, maximum=_MAX_DAYS)
        return (own.first_day if self.first_day is None else self.first_day), n_days

    def drawn(
        self, bundle: Path, customers: int, seed: int, group: str | None, loads: Mapping[str, Any]
    ) -> Drawn:
        """Return customers that are drawn from the model of years of a bundle."""
        model, (grid, timezone) = read_year_model(bundle), clock(bundle)
        by, level, warned = None, None, {}
        if group is not None:
            by = year_mix(bundle, group_mix(bundle, group), model)
            level = group_level(bundle, group, by, model)
            warned = group_warnings(bundle, group, level)
        drawn = None if level is None else DrawnMean(level=level, comparable=self == YearSample())
        first, n_days = self._days(model)
        origin = {
            **loads["origin"],
            **warned,
            "years": True,
            "first_day": first.isoformat(),
            "days": n_days,
            "timezone": timezone,
        }
        if (weather := self.weather(model)) is not None:
            response, extrapolation = weather
            origin["temperature_file"] = self.temperature_file
            origin["temperature_response"] = response.statement
            origin["extrapolation"] = extrapolation.to_json()

        def batches() -> Batches:
            place = 0
            for own_kw, clusters in model.batches(
                customers,
                random_state=seed,
                by=by,
                first_day=first,
                n_days=n_days,
                temperatures_c=self.temperatures_c,
                random_mix=loads["buses"] is not None,
            ):
                names = [f"S{number:09}" for number in range(place, place + len(own_kw))]
                load_kw = own_kw
                if drawn is not None:
                    load_kw = drawn.level.apply(own_kw, first)
                    drawn.add(load_kw, first)
                yield names, clusters, load_kw
                place += len(names)

        return Drawn(
            batches=batches(),
            customers=customers,
            grid=grid,
            timezone=timezone,
            days=(first, n_days),
            group_mean=drawn,
            **{**loads, "origin": origin},
        )


def clock(bundle: Path) -> tuple[TimeGrid, str]:
    """Return the grid and the time zone of the profiles of a release."""
    public = read_manifest(bundle)["profiles"]
    return TimeGrid.from_json(public["grid"]), public["timezone"]
