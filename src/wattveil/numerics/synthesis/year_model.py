"""Model of synthetic customers over years: persistent typical days, and days around them.

A customer has typical days for every part of the year, drawn once from the model of typical days
and scaled to the released sizes (`figure_maps`); a base load; spreads d_1, d_0 of the shapes and
levels of its days; and habits: how rough its days are, how much of their shape lasts, and how large
a step has to be to count. `customer_traits` draws these, `year_paths` its slots. All customers
share the level of each day (`day_levels`), each with a loading: a home whose load rises more than
others' in winter also rises more on a cold day. Last, load close to the largest load of the year is
stretched, so that peaks follow the released ones.
"""

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.compiled import over_spans
from wattveil.errors import InvalidParameterError
from wattveil.numerics.synthesis import synthesis_tuning
from wattveil.numerics.synthesis.customer_traits import (
    draw_bases,
    draw_habits,
    draw_spreads,
    draw_unevenness,
    exporting_share,
    floored,
    low_loads,
    lowest_loads,
    rank_points,
    rank_scores,
)
from wattveil.numerics.synthesis.day_deviations import (
    DayToDay,
    YearCalendar,
    lost_shares,
    read_days,
    slow_levels,
)
from wattveil.numerics.synthesis.day_levels import (
    levels_of,
    noisy_levels,
    read_levels,
    split_levels,
)
from wattveil.numerics.synthesis.figure_maps import (
    customer_sizes,
    figure_map,
    mapped_sizes,
    size_map,
)
from wattveil.numerics.synthesis.noisy_moments import expected_sizes
from wattveil.numerics.synthesis.population_model import SyntheticModel, known_random_state
from wattveil.numerics.synthesis.synthetic_customers import (
    SyntheticCustomers,
    model_chart,
    model_tables,
)
from wattveil.numerics.synthesis.temperature_levels import (
    TemperatureResponse,
    known_temperatures,
    temperature_response,
)
from wattveil.numerics.synthesis.year_paths import draw_span, fit_peaks, score_tables
from wattveil.profiles.time_grid import Split
from wattveil.web.curves import Chart
from wattveil.web.results import ChartedResult, ResultTable

_BATCH = 512
"""Customers that share a random stream: the sample does not depend on how it is taken."""
_YEARS, _PATTERNS, _DAYS = 1024, 2000, 10_000
"""Customers drawn to compare peaks with the released ones, and for the mean pattern of a year; days
drawn for the distribution of scores."""
_MAX_LOADING = 3.0
_MAX_SEASON = 2.0
"""Largest factor of a part of the year, and the inverse of the smallest."""
_LEAST_PART = 0.2
"""Lowest typical load of a part of the year over that of the year, for responses to temperature."""
_LEAST_SLOPE = 0.2
"""Lowest mean slope by which loadings are corrected."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class YearModel(ChartedResult):
    """A released model of the load of years. Everything in it may be published."""

    typical: SyntheticModel
    """Of typical days, side by side: one for every part of the year."""
    seasons: Floats
    """(parts,): factors of typical load, by which the energies of parts are those of the levels."""
    sizes: Floats
    """(2, points): root-mean-square loads of its customers before and after the size correction."""
    days: DayToDay
    levels: Floats
    """(n_days,): the level of each day that all customers share, relative to their typical days."""
    noisy_levels: Floats
    """(2, n_days): the noisy level of each day as released, and its standard deviation around the
    level, which is one of those that agree with it."""
    peaks: Floats
    """(2, points): largest loads of its customers before and after the correction of peaks."""
    exporting: Floats
    """(1,): share of all customers whose base load is below 0."""
    calendar: YearCalendar
    """Of the data, and of a sample for which no other is named."""

    def sample(
        self,
        n_customers: int,
        *,
        random_state: int | None = None,
        by: Sequence[float] | None = None,
        first_day: dt.date | None = None,
        n_days: int | None = None,
        temperatures_c: Mapping[dt.date, float] | None = None,
        random_mix: bool = False,
    ) -> SyntheticCustomers:
        """Draw customers; return their load in kW, one row of all slots each, and their clusters.

        Parameters
        ----------
        n_customers, random_state, by, random_mix
            As in `SyntheticModel.sample`.
        first_day, n_days
            The calendar of the sample; None takes that of the data.
        temperatures_c
            Public daily mean temperatures in degrees Celsius, of all days of the data and of the
            sample: the sample is one of a year with this weather. None takes that of the data.
        """
        calendar = self._calendar(first_day, n_days)
        seed = known_random_state(random_state)
        checks.integer("n_customers", n_customers, minimum=0)
        load_kw = np.empty((n_customers, calendar.n_days * calendar.n_slots))
        clusters = np.empty(n_customers, dtype=np.int64)
        first = 0
        for load, cluster in self.batches(
            n_customers,
            random_state=seed,
            by=by,
            first_day=first_day,
            n_days=n_days,
            temperatures_c=temperatures_c,
            random_mix=random_mix,
        ):
            load_kw[first : first + len(load)] = load
            clusters[first : first + len(load)] = cluster
            first += len(load)
        return SyntheticCustomers(load_kw, clusters, slots_per_day=calendar.n_slots)

    def batches(
        self,
        n_customers: int,
        *,
        random_state: int,
        by: Sequence[float] | None = None,
        first_day: dt.date | None = None,
        n_days: int | None = None,
        temperatures_c: Mapping[dt.date, float] | None = None,
        random_mix: bool = False,
    ) -> Iterator[tuple[Floats, Ints]]:
        """Yield what `sample` returns in parts, in memory that does not grow with customers."""
        calendar = self._calendar(first_day, n_days)
        levels = self._levels(calendar, temperatures_c)
        batch = 0
        for drawn_kw, clusters in self.typical.batches(
            n_customers, random_state=random_state, by=by, random_mix=random_mix
        ):
            typical_kw = drawn_kw * self._columns
            typical_kw *= mapped_sizes(customer_sizes(typical_kw), self.sizes)[:, None]
            for first in range(0, len(clusters), _BATCH):
                own = slice(first, first + _BATCH)
                stream = np.random.SeedSequence(random_state, spawn_key=(batch, 1))
                generator = np.random.Generator(np.random.SFC64(stream))
                yield (
                    self._draw(typical_kw[own], clusters[own], (calendar, levels), generator),
                    clusters[own],
                )
                batch += 1

    def temperature_response(self, temperatures_c: Mapping[dt.date, float]) -> TemperatureResponse:
        """Return the response of load to temperature, from public temperatures of the data's days.

        Parameters
        ----------
        temperatures_c
            As in `sample`.
        """
        return temperature_response(
            self.noisy_levels,
            known_temperatures(temperatures_c, self.calendar),
            calendar=self.calendar,
            sizes=np.maximum(1.0 + self._pattern, _LEAST_PART),
            fresh=_fresh(self.calendar),
        )

    def _levels(
        self, calendar: YearCalendar, temperatures_c: Mapping[dt.date, float] | None
    ) -> Floats:
        """Return the levels of a calendar, of the weather of the data or of another."""
        if temperatures_c is not None:
            response = self.temperature_response(temperatures_c)
            new = known_temperatures(temperatures_c, calendar)
            return response.levels(new, calendar, own=self.calendar)
        return levels_of(
            self.levels,
            self.calendar.first_day,
            first_day=calendar.first_day,
            n_days=calendar.n_days,
        )

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        model = self.typical
        return model_tables(model.centroids, model.customers, model.exports)

    def _statement(self) -> str:
        return "A released model of years: sample() draws synthetic customers without privacy cost."

    def _chart(self) -> Chart:
        return model_chart(self.typical.centroids, self.calendar.n_slots)

    def to_dict(self) -> dict[str, Any]:
        """Return the model as JSON values."""
        days = {field.name: getattr(self.days, field.name).tolist() for field in fields(DayToDay)}
        return {
            "typical": self.typical.to_dict(),
            "seasons": self.seasons.tolist(),
            "sizes": self.sizes.tolist(),
            "days": days,
            "levels": self.levels.tolist(),
            "noisy_levels": self.noisy_levels.tolist(),
            "peaks": self.peaks.tolist(),
            "exporting": self.exporting.tolist(),
            "calendar": {
                "first_day": self.calendar.first_day.isoformat(),
                "n_days": self.calendar.n_days,
                "n_slots": self.calendar.n_slots,
                "split": self.calendar.split.value,
            },
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Return the model of a `to_dict` record; reject an invalid one."""
        names = {field.name for field in fields(cls)}
        if set(found) != names:
            odd = sorted(names.symmetric_difference(found))
            raise InvalidParameterError(
                "model", f"an object with the fields {', '.join(sorted(names))}", odd
            )
        calendar = YearCalendar(
            first_day=dt.date.fromisoformat(found["calendar"]["first_day"]),
            n_days=found["calendar"]["n_days"],
            n_slots=found["calendar"]["n_slots"],
            split=checks.enum_value("split", found["calendar"]["split"], Split),
        )
        days = {name: checks.numbers(name, value) for name, value in found["days"].items()}
        arrays = ("seasons", "sizes", "levels", "noisy_levels", "peaks", "exporting")
        maps = {name: checks.numbers(name, found[name]) for name in arrays}
        typical = SyntheticModel.from_dict(found["typical"])
        n_slots, points = calendar.n_slots, days["base"].shape[-1]
        shapes = {
            "factors": (2, n_slots, n_slots),
            "slow": (n_slots,),
            "decay": (n_slots,),
            "margins": expected_sizes(n_slots).shape,
            "spreads": (2, 2),
            "base": (2, max(points, 2)),
            "levels": (calendar.n_days,),
            "noisy_levels": (2, calendar.n_days),
            "exporting": (1,),
            "seasons": (calendar.n_parts,),
            **{name: (2, max(maps[name].shape[-1], 1)) for name in ("sizes", "peaks")},
        }
        for name, shape in shapes.items():  # compiled loops do not check them
            value = {**days, **maps}[name]
            if value.shape != shape or not np.isfinite(value).all():
                rule = f"finite numbers of shape {shape}"
                raise InvalidParameterError(name, rule, f"shape {value.shape}")
        limits = {"slow": (0.0, 1.0), "decay": (0.0, 1.0), "spreads": (-20.0, 20.0)}
        limits["exporting"] = (0.0, 1.0)
        limits["seasons"] = (1.0 / _MAX_SEASON, _MAX_SEASON)
        limits |= dict.fromkeys(("sizes", "peaks"), (1e-12, 1e12))
        limits |= dict.fromkeys(("factors", "noisy_levels"), (-1e6, 1e6))
        for name, (least, most) in limits.items():
            value = {**days, **maps}[name]
            if value.min() < least or value.max() > most:
                rule = f"from {least:g} to {most:g}"
                raise InvalidParameterError(name, rule, f"{value.min():g} to {value.max():g}")
        if typical.n_columns != calendar.n_parts * n_slots or typical.n_days != calendar.n_parts:
            rule = f"of {calendar.n_parts} days of {n_slots} slots"
            raise InvalidParameterError("typical", rule, f"{typical.n_columns} columns")
        return cls(typical=typical, days=DayToDay(**days), calendar=calendar, **maps)

    def _calendar(self, first_day: dt.date | None, n_days: int | None) -> YearCalendar:
        own = self.calendar
        return replace(
            own,
            first_day=own.first_day if first_day is None else first_day,
            n_days=own.n_days if n_days is None else n_days,
        )

    @property
    def _columns(self) -> Floats:
        """Factors of typical load, one for each slot of each part of the year."""
        return np.repeat(self.seasons, self.calendar.n_slots)

    @cached_property
    def _tables(self) -> tuple[Floats, Floats]:
        """What `draw_span` reads between points."""
        generator = np.random.default_rng(0)  # of a released model: any number would do
        return score_tables(self.days, generator.standard_normal((2, _DAYS, self.calendar.n_slots)))

    def _draw(
        self,
        typical_kw: Floats,
        clusters: Ints,
        days: tuple[YearCalendar, Floats],
        generator: np.random.Generator,
    ) -> Floats:
        """Draw the days of one batch: those of a calendar, with these levels."""
        calendar, levels = days
        n_customers, n_slots = len(clusters), calendar.n_slots
        exports = self._exports(typical_kw, clusters)
        typical_kw = floored(typical_kw, exports)
        size_points, low_points, _ = self._ranks
        size_scores = rank_scores(customer_sizes(typical_kw), size_points)
        shapes, ratios = draw_spreads(self.days, size_scores, generator)
        slow = slow_levels(ratios, self.days.fast_level)
        low_scores = rank_scores(low_loads(typical_kw, n_slots), low_points)
        typical_kw, base_kw = draw_bases(typical_kw, exports, self.days.base, low_scores, generator)
        sizes = np.maximum(customer_sizes(typical_kw), 1e-9)
        roughness, habit, holding, forms = draw_habits(n_customers, generator)
        spreads = np.column_stack(
            [
                shapes,
                shapes * ratios,
                np.sqrt(slow),
                base_kw,
                sizes,
                self._loadings(typical_kw, base_kw),
                roughness,
                habit,
                holding * sizes,
                forms,
            ]
        )
        uneven = draw_unevenness(n_customers, n_slots, generator)
        normal = generator.standard_normal((n_customers, calendar.n_days, 2, n_slots))
        load_kw = np.empty((n_customers, calendar.n_days * n_slots))
        whole = calendar.n_days >= self.calendar.n_days  # a shorter sample keeps its own means
        lost = lost_shares(self.days.decay, calendar.parts) if whole else np.zeros(n_slots)
        process = (np.sqrt(self.days.slow), self.days.decay, lost)
        data = (typical_kw, spreads, uneven, normal, exports)
        model = (self.days.factors, process, self._tables)
        max_kw = self.typical.max_kw
        over_spans(
            n_customers,
            lambda _, *span: draw_span(
                data, (span, calendar.parts, levels), model, max_kw, load_kw
            ),
        )
        peaks = load_kw.max(axis=1)
        targets = np.minimum(peaks * mapped_sizes(peaks, self.peaks), max_kw)
        over_spans(n_customers, lambda _, *span: fit_peaks(load_kw, peaks, targets, span))
        return load_kw

    def _exports(self, typical_kw: Floats, clusters: Ints) -> Ints:
        """Return 1 for customers that export: those of such clusters with the lowest typical load.

        A cluster with some customers that export has others too, whose load is never below 0.
        """
        lowest = lowest_loads(typical_kw) <= self._highest_export
        return np.asarray(self.typical.exports[clusters] * lowest)

    @cached_property
    def _highest_export(self) -> float:
        """Lowest typical load in root-mean-square loads up to which a customer exports."""
        drawn, clusters = self.typical.sample(_PATTERNS, random_state=0)
        among = self.typical.exports[clusters] == 1
        share = float(self.exporting[0]) / max(float(among.mean()), 1e-9)
        if share >= 1.0 or not among.any():
            return math.inf
        return float(np.quantile(lowest_loads(drawn[among] * self._columns), share))

    def _loadings(self, typical_kw: Floats, base_kw: Floats) -> Floats:
        """Return how strongly the load above the base load follows the common level of days."""
        mean = typical_kw.mean(axis=1)
        raised = np.clip(mean / np.maximum(mean - base_kw, 1e-9), 1.0, _MAX_LOADING)
        return np.asarray(raised * self._ranks[2] * self._slopes(typical_kw))

    @cached_property
    def _ranks(self) -> tuple[Floats, Floats, float]:
        """Quantiles of sizes and lowest loads of the model's customers, and the unit of loadings.

        Noise in typical days hides that large customers respond more: half of the difference (of
        logs) between the mean slope, weighted by energy, and the public one is corrected.
        """
        drawn, clusters = self.typical.sample(_PATTERNS, random_state=0)
        drawn = drawn * self._columns
        drawn *= mapped_sizes(customer_sizes(drawn), self.sizes)[:, None]
        drawn = floored(drawn, self._exports(drawn, clusters))
        weights = np.maximum(drawn.mean(axis=1), 1e-9)
        mean = max(float(np.average(self._slopes(drawn), weights=weights)), _LEAST_SLOPE)
        return (
            rank_points(customer_sizes(drawn)),
            rank_points(low_loads(drawn, self.calendar.n_slots)),
            math.sqrt(synthesis_tuning.ENERGY_LOADING / mean),
        )

    def _slopes(self, typical_kw: Floats) -> Floats:
        """Return the slopes of customers' typical energies on those of all; 1 on average.

        A home that needs more in winter than others also needs more on a cold day.
        """
        parts = typical_kw.reshape(len(typical_kw), -1, self.calendar.n_slots).mean(axis=2)
        means = np.maximum(parts.mean(axis=1, keepdims=True), 1e-9)
        pattern = self._pattern
        steady = synthesis_tuning.STEADY_PATTERN**2 * pattern.size
        slope = ((parts / means - 1.0) @ pattern + steady) / (pattern @ pattern + steady)
        return np.asarray(np.clip(slope, 0.0, _MAX_LOADING))

    @cached_property
    def _pattern(self) -> Floats:
        """(parts,): mean over customers of typical energies over their mean, less 1."""
        drawn = self.typical.sample(_PATTERNS, random_state=0)[0]
        return pattern_of(drawn * self._columns, self.calendar.n_slots)


def make_year_model(
    typical: SyntheticModel,
    calendar: YearCalendar,
    *,
    sizes: tuple[Floats, float, Floats],
    levels: tuple[Floats, float],
    moments: tuple[Floats, float],
    figures: Sequence[tuple[Floats, float]],
    peaks: tuple[Floats, float, Floats],
) -> YearModel:
    """Return the model of years from that of typical days and noisy answers.

    ``sizes`` and ``peaks`` are counts, their standard deviation and the bounds of their cells;
    ``moments`` and ``levels`` the sums of `day_features`; ``figures`` histograms of the spreads of
    shapes and of levels, and of base loads.
    """
    customers = float(typical.customers.sum())
    noisy, means = split_levels(noisy_levels(*levels, customers=customers), calendar.parts)
    seasons = season_factors(typical, means, calendar)
    model = YearModel(
        typical=typical,
        seasons=seasons,
        sizes=size_map(sizes[:2], sizes[2], typical, np.repeat(seasons, calendar.n_slots)),
        days=read_days(moments, figures, customers=customers, calendar=calendar),
        levels=read_levels(noisy, parts=calendar.parts, fresh=_fresh(calendar)),
        noisy_levels=noisy,
        peaks=np.ones((2, 1)),
        exporting=exporting_share(figures[2][0]),
        calendar=calendar,
    )
    drawn = model.sample(_YEARS, random_state=0)[0]
    own = np.maximum(drawn.max(axis=1), 1e-9)
    return replace(model, peaks=figure_map(peaks[:2], peaks[2], own, trust=0.0))


def season_factors(typical: SyntheticModel, means: Floats, calendar: YearCalendar) -> Floats:
    """Return factors of typical load by which its parts have released energies.

    ``means`` are those of `split_levels`. Noise hides more of the seasons in the model of typical
    days, which has many more numbers; it is the prior estimate.
    """
    drawn = typical.sample(_PATTERNS, random_state=0)[0]
    pattern = np.maximum(pattern_of(drawn, calendar.n_slots), _LEAST_PART - 1.0)
    expected = synthesis_tuning.SEASON_GUESS_ERROR**2
    weight = expected / (expected + np.square(means[1]))
    wanted = pattern + weight * (means[0] - pattern)
    factors = (1.0 + wanted) / (1.0 + pattern)
    return np.asarray(np.clip(factors, 1.0 / _MAX_SEASON, _MAX_SEASON))


def pattern_of(typical_kw: Floats, n_slots: int) -> Floats:
    """Return the mean over customers of the energies of parts over their mean, less 1."""
    parts = typical_kw.reshape(len(typical_kw), -1, n_slots).mean(axis=2)
    means = parts.mean(axis=1, keepdims=True)
    usual = means[:, 0] > 0.1 * np.abs(means).mean()
    if not usual.any():  # all export more than they use
        return np.zeros(parts.shape[1])
    return np.asarray((parts[usual] / means[usual]).mean(axis=0) - 1.0)


def _fresh(calendar: YearCalendar) -> Floats:
    """Return normal numbers by which levels are drawn given noisy ones: always the same."""
    return np.random.default_rng(0).standard_normal(calendar.n_days)
