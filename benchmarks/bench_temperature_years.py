"""Synthetic years under another weather, compared with the same homes simulated under it.

Run: ``python benchmarks/bench_temperature_years.py [customers] [epsilon] [releases] [weathers]``,
by default 10,000, 1, 5 and 2. Simulated homes live through a year of one weather, and the same
homes, with other random days, through a year of another one. The years of the first weather are
released; from the model and the daily mean temperatures of both years, years of the second weather
are drawn. All figures are of all homes together:

* response: the load that a degree below 15.5 degrees Celsius adds, by least squares within the
  parts of the year, of drawn years over real ones, both under the second weather;
* days: root-mean-square error of the daily energy over its mean, and of a sample that does not know
  the second weather;
* energy: annual energy, drawn over real.

The last line has the share of 95 % bands of the heating response that contain the response of the
simulated levels without privacy noise; it is of few releases of the same homes.
"""

import sys
from dataclasses import replace
from datetime import date, timedelta

import numpy as np

from wattveil import YearSynthesizer
from wattveil.arrays import Floats
from wattveil.numerics.synthesis.day_deviations import YearCalendar
from wattveil.numerics.synthesis.temperature_levels import HEATING_BASE_C
from wattveil.profiles import Split
from wattveil.simulate import LONDON_MIX
from wattveil.simulate.parameters import TEMPERATE
from wattveil.simulate.population import BLOCK, draw_customers, simulate_block, weather_stream
from wattveil.simulate.simulated_readings import checked_clock, checked_mix
from wattveil.simulate.weather import LEAD_SLOTS, SLOTS_PER_DAY, simulate_weather

FIRST, DAYS, SLOTS = date(2013, 1, 1), 365, 24
OTHER = date(2014, 1, 1)
OWN = YearCalendar(first_day=FIRST, n_days=DAYS, n_slots=SLOTS, split=Split.SEASON_WEEKDAY_WEEKEND)
SAMPLED = 2000
HOMES_SEED = 5
NO_NOISE = 1e6


def main(
    customers: int = 10_000, epsilon: float = 1.0, releases: int = 5, weathers: int = 2
) -> None:
    """Print a line for each release and pair of weathers, then medians."""
    first_kw, first_c = homes(customers, FIRST, weather=1)
    exact = fitted(first_kw, NO_NOISE)
    others = [homes(customers, OTHER, weather=2 + which) for which in range(weathers)]
    others_kw = [daily(load_kw) for load_kw, _ in others]
    found, covered = [], []
    for release in range(releases):
        model = fitted(first_kw, epsilon)
        for (_, other_c), real in zip(others, others_kw, strict=True):
            series = series_of(FIRST, first_c) | series_of(OTHER, other_c)
            mean, error = model.temperature_response(series).heating
            covered.append(abs(mean - exact.temperature_response(series).heating[0]) < 1.96 * error)
            calendar = {"first_day": OTHER, "n_days": DAYS, "random_state": release}
            told = daily(model.sample(SAMPLED, temperatures_c=series, **calendar)[0])
            untold = daily(model.sample(SAMPLED, **calendar)[0])
            figures = (
                response(told, other_c) / response(real, other_c),
                response(untold, other_c) / response(real, other_c),
                day_error(told, real),
                day_error(untold, real),
                told.mean() / real.mean(),
            )
            found.append(figures)
            say(f"release {release}: heating {mean:.4f} ± {error:.4f};", figures)
    say("medians:", tuple(np.median(found, axis=0)))
    errors = np.abs(np.array(found)[:, 0] - 1.0)
    print(f"error of the response: median {np.median(errors):.1%}, largest {errors.max():.1%}")  # noqa: T201
    print(f"bands that contain the response without privacy noise: {np.mean(covered):.0%}")  # noqa: T201


def homes(customers: int, first: date, *, weather: int) -> tuple[Floats, Floats]:
    """Return a year of homes in kW under a weather, and its daily mean temperatures."""
    clock = checked_clock(days=DAYS, start=first, timezone="UTC", minutes=60)
    sky = simulate_weather(clock, TEMPERATE, weather_stream(weather))
    load_kw = np.empty((customers, DAYS * SLOTS))
    for block in range(-(-customers // BLOCK)):
        own = slice(block * BLOCK, min((block + 1) * BLOCK, customers))
        people = draw_customers(block, checked_mix(LONDON_MIX), HOMES_SEED)
        wh = simulate_block(block, people, clock, sky, HOMES_SEED)
        load_kw[own] = (wh.reshape(BLOCK, -1, 4).sum(axis=2) / 1000.0)[: own.stop - own.start]
    days = sky.temperature_c[LEAD_SLOTS:][: DAYS * SLOTS_PER_DAY]
    return load_kw, days.reshape(DAYS, SLOTS_PER_DAY).mean(axis=1)


def fitted(load_kw: Floats, epsilon: float):  # noqa: ANN201 - YearModel
    """Return a released model."""
    return YearSynthesizer(first_day=FIRST, epsilon=epsilon).fit(load_kw).year_model_


def series_of(first: date, temperature_c: Floats) -> dict[date, float]:
    """Return temperatures by day."""
    return {first + timedelta(days=day): value for day, value in enumerate(temperature_c)}


def daily(load_kw: Floats) -> Floats:
    """Return the mean load of all homes on each day."""
    return np.asarray(load_kw.mean(axis=0).reshape(DAYS, SLOTS).mean(axis=1))


def response(daily_kw: Floats, temperature_c: Floats) -> float:
    """Return the load in kW that a degree below the base temperature adds, within parts."""
    parts = replace(OWN, first_day=OTHER).parts
    cold = np.maximum(HEATING_BASE_C - temperature_c, 0.0)
    columns = np.column_stack([cold, *(parts == part for part in range(parts.max() + 1))])
    return float(np.linalg.lstsq(columns, daily_kw, rcond=None)[0][0])


def day_error(one: Floats, real: Floats) -> float:
    """Return the relative root-mean-square difference of daily energies over their means."""
    return float(np.sqrt(np.mean(np.square(one / one.mean() - real / real.mean()))))


def say(name: str, figures: tuple[float, ...]) -> None:
    """Print figures."""
    told, untold, days, days_untold, energy = figures
    print(  # noqa: T201
        f"{name} response {told:.3f} (without temperatures {untold:.3f}),"
        f" days {days:.3f} ({days_untold:.3f}), energy {energy:.3f}",
        flush=True,
    )


if __name__ == "__main__":
    main(*(kind(text) for kind, text in zip((int, float, int, int), sys.argv[1:])))  # noqa: B905
