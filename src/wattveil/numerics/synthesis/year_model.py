"""Model of synthetic customers over years: persistent typical days, and days around them.

A customer has typical days for every part of the year, drawn once from the model of typical days,
and spreads d_1, d_0 of the shapes and levels of its days. On a day, slot h has load
``x = s sinh(b + sigma_h u_h(z_h))``: z has the released correlations within a day and sigma the
spreads, and of each coordinate of a day a share persists over days and decays::

    coordinate on day t = sqrt(p) g_t + sqrt(1 - p) w_t,    g_t = phi g_(t-1) + sqrt(1 - phi^2) w'_t

b is such that the mean over days is the typical load m, with M+- = E exp(+-sigma u):
E sinh(b + sigma u) = (e^b M+ - e^-b M-) / 2 = m / s gives
e^b = (m / s + sqrt((m / s)^2 + M+ M-)) / M+.

Sizes: the model of typical days has the spread of sizes only as accurately as its clusters. A
histogram of the root-mean-square load of the customers is a low-noise query; synthetic customers
are scaled so that their sizes follow it. Where counts are noisy, the prior estimate is the mean of
a log-normal curve and the distribution of the model.
"""

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import ndtr

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.compiled import compiled, over_spans
from wattveil.errors import InvalidParameterError
from wattveil.numerics.size_distribution import fit_log_normal
from wattveil.numerics.synthesis import synthesis_tuning
from wattveil.numerics.synthesis.day_deviations import (
    DayToDay,
    YearCalendar,
    read_days,
    slot_scale,
    slow_levels,
)
from wattveil.numerics.synthesis.noisy_moments import quantile_maps
from wattveil.numerics.synthesis.population_model import SyntheticModel, known_random_state
from wattveil.numerics.synthesis.synthetic_customers import (
    SyntheticCustomers,
    model_chart,
    model_tables,
)
from wattveil.profiles.time_grid import Split
from wattveil.web.curves import Chart
from wattveil.web.results import ChartedResult, ResultTable

_BATCH = 512
"""Customers that share a random stream: the sample does not depend on how it is taken."""
_POINTS = 1401
_MAX_SPREAD, _SPREAD_POINTS = 3.0, 121
"""M+ and M- are tabulated for sigma up to 3; a larger one is held there."""
_MAX_SPREAD_SCORE = 2.5
"""Log spreads of customers are clipped at this many standard deviations."""


@dataclass(frozen=True, kw_only=True, eq=False)
class YearModel(ChartedResult):
    """A released model of the load of years. Everything in it may be published."""

    typical: SyntheticModel
    """Of typical days, side by side: one for every part of the year."""
    sizes: Floats
    """(2, points): root-mean-square loads of its customers before and after the size correction."""
    days: DayToDay
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
    ) -> SyntheticCustomers:
        """Draw customers; return their load in kW, one row of all slots each, and their clusters.

        Parameters
        ----------
        n_customers, random_state, by
            As in `SyntheticModel.sample`.
        first_day, n_days
            The calendar of the sample; None takes that of the data.
        """
        calendar = self._calendar(first_day, n_days)
        seed = known_random_state(random_state)
        checks.integer("n_customers", n_customers, minimum=0)
        load_kw = np.empty((n_customers, calendar.n_days * calendar.n_slots))
        clusters = np.empty(n_customers, dtype=np.int64)
        first = 0
        for load, cluster in self.batches(
            n_customers, random_state=seed, by=by, first_day=first_day, n_days=n_days
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
    ) -> Iterator[tuple[Floats, Ints]]:
        """Yield what `sample` returns in parts, in memory that does not grow with customers."""
        calendar = self._calendar(first_day, n_days)
        batch = 0
        for drawn_kw, clusters in self.typical.batches(
            n_customers, random_state=random_state, by=by
        ):
            typical_kw = drawn_kw * mapped_sizes(customer_sizes(drawn_kw), self.sizes)[:, None]
            for first in range(0, len(clusters), _BATCH):
                own = slice(first, first + _BATCH)
                stream = np.random.SeedSequence(random_state, spawn_key=(batch, 1))
                generator = np.random.Generator(np.random.SFC64(stream))
                yield (
                    self._draw(typical_kw[own], clusters[own], calendar, generator),
                    clusters[own],
                )
                batch += 1

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
            "sizes": self.sizes.tolist(),
            "days": days,
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
            raise InvalidParameterError("model", f"with the fields {sorted(names)}", odd)
        calendar = YearCalendar(
            first_day=dt.date.fromisoformat(found["calendar"]["first_day"]),
            n_days=found["calendar"]["n_days"],
            n_slots=found["calendar"]["n_slots"],
            split=checks.enum_value("split", found["calendar"]["split"], Split),
        )
        days = DayToDay(**{name: np.array(value) for name, value in found["days"].items()})
        n_slots = calendar.n_slots
        if days.factors.shape != (2, n_slots, n_slots):
            rule = f"of shape {(2, n_slots, n_slots)}"
            raise InvalidParameterError("days.factors", rule, days.factors.shape)
        typical = SyntheticModel.from_dict(found["typical"])
        return cls(typical=typical, sizes=np.array(found["sizes"]), days=days, calendar=calendar)

    def _calendar(self, first_day: dt.date | None, n_days: int | None) -> YearCalendar:
        own = self.calendar
        return replace(
            own,
            first_day=own.first_day if first_day is None else first_day,
            n_days=own.n_days if n_days is None else n_days,
        )

    @cached_property
    def _tables(self) -> tuple[Floats, Floats]:
        """Where scores go, (slots, points); M+ and M-, (2, slots, points)."""
        farthest = synthesis_tuning.DAY_FARTHEST
        z = np.linspace(-farthest, farthest, _POINTS)
        weight = np.exp(-0.5 * z**2)
        weight /= weight.sum()
        maps = quantile_maps(self.days.margins, self.calendar.n_slots, z)
        maps -= (maps @ weight)[:, None]
        maps /= np.sqrt(np.square(maps) @ weight)[:, None]
        spreads = np.linspace(0.0, _MAX_SPREAD, _SPREAD_POINTS)
        means = np.empty((2, len(maps), _SPREAD_POINTS))
        for which, sign in enumerate((1.0, -1.0)):
            for slot, values in enumerate(maps):
                means[which, slot] = np.exp(sign * np.outer(spreads, values)) @ weight
        return maps, means

    def _draw(
        self,
        typical_kw: Floats,
        clusters: Ints,
        calendar: YearCalendar,
        generator: np.random.Generator,
    ) -> Floats:
        """Draw the days of one batch."""
        n_customers, n_slots = len(clusters), calendar.n_slots
        shapes, ratios = self._spreads(n_customers, generator)
        slow = slow_levels(ratios, self.days.fast_level)
        spreads = np.column_stack([shapes, shapes * ratios, np.sqrt(slow), np.sqrt(1.0 - slow)])
        exports = self.typical.exports[clusters]
        min_kw = synthesis_tuning.TYPICAL_FLOOR * customer_sizes(typical_kw)
        floor = np.where(exports, -np.inf, min_kw)
        typical_kw = np.maximum(typical_kw, floor[:, None])
        normal = generator.standard_normal((n_customers, calendar.n_days, 2, n_slots))
        load_kw = np.empty((n_customers, calendar.n_days * n_slots))
        process = (np.sqrt(self.days.slow), np.sqrt(1.0 - self.days.slow), self.days.decay)
        data = (typical_kw, spreads, normal, exports)
        model = (self.days.factors, process, self._tables)
        limits = (synthesis_tuning.DAY_FARTHEST, _MAX_SPREAD, self.typical.max_kw)
        how = (limits, (synthesis_tuning.DAY_SCALE, synthesis_tuning.DAY_FLOOR))
        over_spans(
            n_customers,
            lambda _, *span: _draw_span(data, (span, calendar.parts), model, how, load_kw),
        )
        return load_kw

    def _spreads(self, n: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw d_1 and d_0 / d_1 of ``n`` customers."""
        shape, other = generator.standard_normal((2, n)).clip(-_MAX_SPREAD_SCORE, _MAX_SPREAD_SCORE)
        link = synthesis_tuning.SPREAD_LINK
        ratio = link * shape + math.sqrt(1.0 - link**2) * other
        (mean, deviation), (mean_ratio, deviation_ratio) = self.days.spreads
        return np.exp(mean + deviation * shape), np.exp(mean_ratio + deviation_ratio * ratio)


def make_year_model(
    typical: SyntheticModel,
    calendar: YearCalendar,
    *,
    sizes: tuple[Floats, float, Floats],
    moments: tuple[Floats, float],
    spreads: Sequence[tuple[Floats, float]],
) -> YearModel:
    """Return the model of years from that of typical days and noisy answers.

    ``sizes`` are counts, their standard deviation and the bounds of their cells; ``moments`` the
    sums of `days.day_features`; ``spreads`` the two histograms of the spreads of days.
    """
    customers = float(typical.customers.sum())
    return YearModel(
        typical=typical,
        sizes=size_map(sizes[:2], sizes[2], typical),
        days=read_days(moments, spreads, customers=customers, n_slots=calendar.n_slots),
        calendar=calendar,
    )


@compiled
def _draw_span(
    data: tuple[Floats, Floats, Floats, Ints],
    where: tuple[tuple[int, int], Ints],
    model: tuple[Floats, tuple[Floats, Floats, Floats], tuple[Floats, Floats]],
    how: tuple[tuple[float, float, float], tuple[float, float]],
    load_kw: Floats,
) -> None:
    """Fill the load of the customers of a span, day by day."""
    typical_kw, spreads, normal, exports = data
    span, parts = where
    factors, process, (maps, means) = model
    (farthest, max_spread, max_kw), scale = how
    n_slots = maps.shape[0]
    steps = (maps.shape[1] - 1) / (2.0 * farthest)
    lasting, coordinates = np.empty(n_slots), np.empty(n_slots)
    factor, sigma = np.empty((n_slots, n_slots)), np.empty(n_slots)
    scales, bases = np.empty(typical_kw.shape[1]), np.empty(typical_kw.shape[1])
    for i in range(span[0], span[1]):
        _own_factor(factors, spreads[i], max_spread, factor, sigma)
        _own_bases(typical_kw[i], sigma, (means, max_spread), scale, (scales, bases))
        min_kw = -max_kw if exports[i] else 0.0
        for t in range(parts.size):
            _next_day(normal[i, t], t, process[2], lasting)
            _coordinates(normal[i, t], process, spreads[i], lasting, coordinates)
            for h in range(n_slots):
                z = 0.0
                for j in range(n_slots):
                    z += factor[h, j] * coordinates[j]
                place = (min(max(z, -farthest), farthest) + farthest) * steps
                column = parts[t] * n_slots + h
                away = sigma[h] * _between(maps[h], place)
                load = scales[column] * math.sinh(bases[column] + away)
                load_kw[i, t * n_slots + h] = min(max(load, min_kw), max_kw)


@compiled
def _between(table: Floats, place: float) -> float:
    """Read a table between two of its points."""
    cell = min(int(place), table.size - 2)
    share = place - cell
    return float((1.0 - share) * table[cell] + share * table[cell + 1])


@compiled
def _own_factor(
    factors: Floats, spreads: Floats, max_spread: float, factor: Floats, sigma: Floats
) -> None:
    """Fill a customer's sigma, and the factor from coordinates to its normal scores z."""
    for h in range(sigma.size):
        variance = 0.0
        for j in range(sigma.size):
            factor[h, j] = spreads[0] * factors[0, h, j] + spreads[1] * factors[1, h, j]
            variance += factor[h, j] * factor[h, j]
        for j in range(sigma.size):
            factor[h, j] /= math.sqrt(variance)
        sigma[h] = min(math.sqrt(variance), max_spread)


@compiled
def _own_bases(
    typical_kw: Floats,
    sigma: Floats,
    table: tuple[Floats, float],
    scale: tuple[float, float],
    found: tuple[Floats, Floats],
) -> None:
    """Fill a customer's scales s and bases b."""
    means, max_spread = table
    scales, bases = found
    squares = 0.0
    for column in range(typical_kw.size):
        squares += typical_kw[column] * typical_kw[column]
    floor = scale[1] * math.sqrt(squares / typical_kw.size)
    for column in range(typical_kw.size):
        h = column % sigma.size
        place = sigma[h] / max_spread * (means.shape[2] - 1)
        up, down = _between(means[0, h], place), _between(means[1, h], place)
        scales[column] = slot_scale(typical_kw[column], scale[0], floor)
        mean = typical_kw[column] / scales[column]
        root = math.sqrt(mean * mean + up * down)
        # The same number twice; the second way does not cancel where the mean is negative.
        bases[column] = math.log((mean + root) / up if mean >= 0.0 else down / (root - mean))


@compiled
def _coordinates(
    normal: Floats,
    process: tuple[Floats, Floats, Floats],
    spreads: Floats,
    lasting: Floats,
    coordinates: Floats,
) -> None:
    """Fill the coordinates of a day; of the level the customer's own share lasts."""
    slow, fast, _ = process
    coordinates[0] = spreads[2] * lasting[0] + spreads[3] * normal[1, 0]
    for j in range(1, lasting.size):
        coordinates[j] = slow[j] * lasting[j] + fast[j] * normal[1, j]


@compiled
def _next_day(normal: Floats, day: int, decay: Floats, lasting: Floats) -> None:
    """Advance the persistent part of each coordinate by one day."""
    for j in range(lasting.size):
        if day == 0:
            lasting[j] = normal[0, j]
        else:
            renewed = math.sqrt(1.0 - decay[j] * decay[j])
            lasting[j] = decay[j] * lasting[j] + renewed * normal[0, j]


_RATIO = 1.25
_SAMPLE = 20_000
_CHANCES = np.concatenate([[1e-3, 3e-3], np.linspace(0.01, 0.99, 99), [0.997, 0.999]])


def year_size_edges(plausible_kw: tuple[float, float]) -> Floats:
    """Return the bounds of the cells in which customers' root-mean-square loads are counted."""
    min_kw, max_kw = plausible_kw
    return np.asarray(np.exp(np.arange(math.log(min_kw), math.log(max_kw), math.log(_RATIO))))


def customer_sizes(typical_kw: Floats) -> Floats:
    """Return the root-mean-square load of each synthetic customer."""
    return np.asarray(np.sqrt(np.square(typical_kw).mean(axis=1)))


def size_map(counts: tuple[Floats, float], edges: Floats, model: SyntheticModel) -> Floats:
    """Return (2, points): sizes of the model's customers before and after the correction."""
    drawn = model.sample(_SAMPLE, random_state=0)[0]
    sizes = np.maximum(customer_sizes(drawn), 1e-9)
    cells = np.searchsorted(edges, sizes, side="right")
    own_shares = np.bincount(cells, minlength=edges.size + 1) / _SAMPLE
    shares = _shares(*counts, edges, own_shares)
    return np.array([np.quantile(sizes, _CHANCES), _quantiles(shares, edges, _CHANCES)])


def mapped_sizes(sizes: Floats, table: Floats) -> Floats:
    """Return the factors that bring customers of these sizes to their new ones."""
    own, target = np.log(table)
    logs = np.log(np.maximum(sizes, 1e-9))
    return np.asarray(np.exp(np.interp(logs, own, target - own)))


def _shares(counts: Floats, std: float, edges: Floats, own_shares: Floats) -> Floats:
    """Return the share of each cell: the count, shrunk towards its prior estimate by the noise."""
    median, spread, total = fit_log_normal(counts, np.log(edges), std)
    below = ndtr((np.log(edges) - median) / spread)
    curve = np.diff(below, prepend=0.0, append=1.0)
    prior = 0.5 * total * (curve + own_shares)
    expected = np.square(synthesis_tuning.SIZE_GUESS_ERROR * prior)
    weight = expected / (expected + std**2 + prior + 1e-12)
    shares = np.maximum(weight * counts + (1.0 - weight) * prior, 1e-9 * total)
    return np.asarray(shares / shares.sum())


def _quantiles(shares: Floats, edges: Floats, chances: Floats) -> Floats:
    """Return quantiles of a histogram; sizes are log-uniform within a cell."""
    logs = np.log(edges)
    step = math.log(_RATIO)
    ends = np.concatenate([[logs[0] - step], logs, [logs[-1] + step]])
    below = np.concatenate([[0.0], np.cumsum(shares)])
    return np.asarray(np.exp(np.interp(chances, below, ends)))
