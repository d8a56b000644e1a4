"""Models of years: how the noisy sums of days are read, and what is sampled."""

import datetime as dt
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.synthesis import day_deviations, synthesis_tuning
from wattveil.numerics.synthesis.customer_traits import exporting_share
from wattveil.numerics.synthesis.day_deviations import (
    DayToDay,
    YearCalendar,
    base_edges,
    day_axes,
    fitting_calendar,
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
    peak_edges,
    size_map,
    year_size_edges,
)
from wattveil.numerics.synthesis.noisy_moments import waves
from wattveil.numerics.synthesis.population_model import SyntheticModel
from wattveil.numerics.synthesis.year_model import (
    YearModel,
    pattern_of,
    season_factors,
)
from wattveil.profiles import Split
from wattveil.release.rows.day_features import (
    base_loads,
    day_moments,
    typical_days,
    whole_days,
)

SLOTS = 4
NEW_YEAR = dt.date(2013, 1, 1)


def calendar_of(n_days: int, split: Split = Split.WEEKDAY_WEEKEND) -> YearCalendar:
    """Return a calendar from New Year's Day 2013, a Tuesday."""
    return YearCalendar(first_day=NEW_YEAR, n_days=n_days, n_slots=SLOTS, split=split)


def year_model(
    *, slow: float = 0.5, decay: float = 0.9, spread: float = -1.0, split: Split = Split.DAY
) -> YearModel:
    """Return a model with two clusters, made by hand; customers of the second export."""
    calendar = calendar_of(365, split)
    row = np.tile([0.3, 0.5, 0.4, 0.9], calendar.n_parts)
    d = row.size
    typical = SyntheticModel(
        transform="asinh",
        alpha_kw=15.0,
        n_days=calendar.n_parts,
        centroids=np.array([row, row - 0.6]),
        means=np.arcsinh(np.array([row, row - 0.6]) / 0.4),
        covariances=np.tile(0.05 * np.eye(d) + 0.2, (2, 1, 1)),
        margins=np.zeros((synthesis_tuning.COSINES, len(waves(SLOTS)))),
        customers=np.array([300.0, 100.0]),
        exports=np.array([0, 1]),
        max_kw=20.0,
    )
    values, vectors = day_axes(SLOTS)
    curves = np.sqrt(values)[:, None] * vectors
    shape, level = curves.copy(), np.zeros_like(curves)
    shape[0], level[0] = 0.0, curves[0]
    return YearModel(
        typical=typical,
        seasons=np.ones(calendar.n_parts),
        sizes=np.array([[1e-3, 1e3], [1e-3, 1e3]]),
        days=DayToDay(
            factors=np.array([shape.T, level.T]),
            slow=np.full(SLOTS, slow),
            decay=np.full(SLOTS, decay),
            margins=np.zeros((synthesis_tuning.COSINES, len(waves(SLOTS)))),
            spreads=np.array([[spread, 0.1], [0.0, 0.1]]),
            base=np.array([[0.1, 0.3], [-2.0, -1.0]]),
        ),
        levels=np.zeros(calendar.n_days),
        noisy_levels=np.tile([[0.0], [0.01]], calendar.n_days),
        peaks=np.ones((2, 1)),
        exporting=np.array([1.0]),
        calendar=calendar,
    )


def typical(rows: Floats, calendar: YearCalendar) -> Floats:
    """Return the typical days of customers."""
    return typical_days(rows, parts=calendar.parts, n_parts=calendar.n_parts)[0]


def test_parts_of_a_year_by_hand() -> None:
    """A day has the season of its month, winter first, and tells the weekend from weekdays."""
    parts = calendar_of(365, Split.SEASON_WEEKDAY_WEEKEND).parts
    for number, part in enumerate(parts.tolist()):
        day = NEW_YEAR + dt.timedelta(days=number)
        assert part == 2 * (day.month % 12 // 3) + (day.weekday() >= 5)


def test_calendars_that_do_not_fit_are_refused() -> None:
    """Rows are whole days, and every part of the year occurs."""
    fine: dict[str, Any] = {"first_day": NEW_YEAR, "n_slots": SLOTS, "split": Split.WEEKDAY_WEEKEND}
    with pytest.raises(InvalidParameterError, match="whole days of 4 slots"):
        fitting_calendar(30, **fine)
    with pytest.raises(InvalidParameterError, match="parts all occur in 4 days"):
        fitting_calendar(4 * SLOTS, **fine)
    with pytest.raises(InvalidParameterError, match="first_day"):
        fitting_calendar(40, **fine | {"first_day": "2013-01-01"})
    with pytest.raises(InvalidParameterError, match="slots_per_day"):
        fitting_calendar(200, **fine | {"n_slots": 97})


def expected_next_day(model: YearModel) -> float:
    """Return the correlation of the level with that of the next day, by matrices.

    With e = sigma (F g + L v), L L' = F (1 - slow) F': what lasts, of the skewed level, and the
    first v of a day, of which a share follows from the last hour of the day before.
    """
    days, k = model.days, synthesis_tuning.LEVEL_SKEWNESS
    whole = np.exp(days.spreads[0, 0]) * days.factors.sum(axis=0)
    level = model.calendar.day_bases[0][0] @ whole  # weights of the coordinates in the level
    lasting = days.decay.copy()
    lasting[0] = (lasting[0] + 2.0 * k**2 * lasting[0] ** 2) / (1.0 + 2.0 * k**2)
    sigma = np.sqrt(np.square(whole).sum(axis=1))
    factor = whole / sigma[:, None]
    lower = np.linalg.cholesky((factor * (1.0 - days.slow)) @ factor.T)
    link = lower[1, 0] / np.linalg.norm(lower[1]) / np.linalg.norm(lower[-1])
    seen = (model.calendar.day_bases[0][0] * sigma) @ lower
    linked = seen[0] * link * (lower[-1] @ seen)
    return float((np.square(level) @ (days.slow * lasting) + linked) / (level @ level))


@pytest.mark.parametrize(("slow", "decay"), [(0.3, 0.7), (0.4, 0.9)])
def test_what_was_planted_is_read(
    slow: float, decay: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Days sampled from a model, summed without noise and read, give the model again.

    Of customers with equal habits, who hold no step.
    """
    for name in ("ROUGHNESS", "ROUGHNESS_SPREAD", "HABIT", "HABIT_SPREAD"):
        monkeypatch.setattr(synthesis_tuning, name, 0.0)
    monkeypatch.setattr(synthesis_tuning, "HOLDING", -np.inf)
    model = year_model(slow=slow, decay=decay)
    rows = model.sample(400, random_state=2, by=[1, 0])[0]
    calendar = model.calendar
    days_kw, whole = whole_days(rows, calendar.n_days)
    sizes = np.sqrt(np.square(typical(rows, calendar)).mean(axis=1))
    features, spreads = day_moments(
        days_kw,
        whole,
        (base_loads(days_kw, whole), sizes),
        parts=calendar.parts,
        n_parts=calendar.n_parts,
        bases=calendar.day_bases,
        gains=day_deviations.day_gains(SLOTS, calendar.n_days),
    )
    edges = day_deviations.spread_edges()
    counts = [
        (np.bincount(np.searchsorted(edges, one), minlength=edges.size + 1).astype(float), 1.0)
        for one in spreads.T
    ]
    base = (np.ones(day_deviations.base_edges().size + 1), 1.0)
    found = day_deviations.read_days(
        (features.sum(axis=0), 1e-6), [*counts, base], customers=400.0, calendar=calendar
    )
    next_day, next_week = found.slow * found.decay, found.slow * found.decay**7
    assert next_day[1:] == pytest.approx(np.full(SLOTS - 1, slow * decay), abs=0.08)
    assert next_week == pytest.approx(np.full(SLOTS, slow * decay**7), abs=0.08)
    assert next_day[0] == pytest.approx(expected_next_day(model), abs=0.08)
    planted, read = (
        np.sqrt(np.square(one.factors.sum(axis=0)).sum(axis=1)) for one in (model.days, found)
    )
    assert read == pytest.approx(planted, rel=0.1)
    assert found.spreads[:, 0] == pytest.approx([-1.0, 0.0], abs=0.1)


@pytest.mark.parametrize("slow", [0.0, 0.01, 0.5, 0.97, 0.98, 0.99, 1.0])
def test_every_released_share_has_a_level_that_does_not_last(slow: float) -> None:
    """Shares at or beyond the bounds of a customer's share give the bound; no solver fails."""
    days = year_model(slow=slow).days
    mean, deviation = days.spreads[1]
    ratios = np.exp(mean + deviation * np.random.default_rng(0).normal(size=100_000))
    share = day_deviations.slow_levels(ratios, days.fast_level).mean()
    assert share == pytest.approx(min(max(slow, 0.05), 0.98), abs=0.002)


def test_only_the_released_share_of_customers_exports() -> None:
    """A quarter is in the cluster with export; of them as many export as base loads below 0 say."""
    model = year_model()
    for share, expected in ((1.0, 0.25), (0.1, 0.1), (0.0, 0.0)):
        drawn = replace(model, exporting=np.array([share])).sample(400, random_state=3)
        below = np.less(drawn.load_kw.min(axis=1), 0.0)
        assert below.mean() == pytest.approx(expected, abs=0.03)
        assert not below[drawn.clusters == 0].any()


def test_the_share_that_exports_is_that_of_base_loads_below_0() -> None:
    """The cells below 0 over all; noise below 0, or of nobody, is a share of 0."""
    edges = base_edges()
    counts = np.histogram([-3.0, -0.2, -0.05, 0.01, 0.2, 0.3, 0.9, 5.0], [-99, *edges, 99])[0]
    assert exporting_share(counts.astype(float)) == pytest.approx([3.0 / 8.0])
    assert exporting_share(np.where(np.arange(counts.size) < 13, -1.0, 5.0)) == [0.0]
    assert exporting_share(np.zeros(counts.size)) == [0.0]


def test_customers_that_all_export_have_valid_years() -> None:
    """No customer's mean is positive, so there is no pattern of the year to follow."""
    model = year_model(split=Split.WEEKDAY_WEEKEND)
    typical = replace(
        model.typical,
        centroids=model.typical.centroids - 5.0,
        means=np.full_like(model.typical.means, -3.0),
        exports=np.array([1, 1]),
    )
    load_kw = replace(model, typical=typical).sample(20, random_state=0)[0]
    assert np.isfinite(load_kw).all()
    assert load_kw.mean() < 0.0


def test_noise_alone_reads_as_a_valid_model() -> None:
    """With no customer behind the sums, what is read can still be sampled."""
    generator = np.random.default_rng(5)
    sums = 1e3 * generator.normal(size=day_deviations.day_width(SLOTS))
    counts = [(1e3 * generator.normal(size=day_deviations.spread_edges().size + 1), 1e3)] * 2
    counts += [(1e3 * generator.normal(size=day_deviations.base_edges().size + 1), 1e3)]
    model = year_model()
    found = day_deviations.read_days((sums, 1e3), counts, customers=-50.0, calendar=model.calendar)
    noisy = noisy_levels(1e3 * generator.normal(size=365), 1e3, customers=-50.0)
    levels = read_levels(noisy, parts=model.calendar.parts, fresh=generator.normal(size=365))
    load_kw = replace(model, days=found, levels=levels).sample(20, random_state=0)[0]
    assert np.isfinite(load_kw).all()
    assert np.abs(load_kw).max() <= 20.0


def test_the_mean_of_days_is_the_typical_day() -> None:
    """Day-to-day variation adds no energy: the mean over ten years is what was drawn once."""
    model = year_model(slow=0.0, split=Split.WEEKDAY_WEEKEND, spread=-0.7)
    load_kw = model.sample(50, random_state=3, by=[1, 0], n_days=3600)[0]
    typical_kw = np.concatenate(
        [load for load, _ in model.typical.batches(50, random_state=3, by=[1, 0])]
    )
    found = typical(load_kw, replace(model.calendar, n_days=3600))
    usual = typical_kw > synthesis_tuning.TYPICAL_FLOOR * customer_sizes(typical_kw)[:, None]
    ratios = found[usual] / typical_kw[usual]
    assert ratios.mean() == pytest.approx(1.0, abs=0.01)
    assert np.abs(ratios - 1.0).max() < 0.2


def test_small_steps_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The median step is smaller, large steps stay, and so does the mean."""
    held = year_model(spread=-0.7).sample(200, random_state=6, by=[1, 0])[0]
    monkeypatch.setattr(synthesis_tuning, "HOLDING", -np.inf)
    free = year_model(spread=-0.7).sample(200, random_state=6, by=[1, 0])[0]
    steps = [np.quantile(np.abs(np.diff(load)), [0.5, 0.999]) for load in (held, free)]
    ratios = steps[0] / steps[1]
    assert ratios[0] < 0.85
    assert ratios[1] == pytest.approx(1.0, abs=0.1)
    assert held.mean() == pytest.approx(free.mean(), rel=0.02)


def test_customers_are_valid_and_repeat() -> None:
    """Number as requested, finite, within the public bound, below 0 only where export was found."""
    model = year_model()
    load_kw, clusters = model.sample(700, random_state=4, n_days=30)
    assert load_kw.shape == (700, 30 * SLOTS)
    assert np.isfinite(load_kw).all()
    assert np.abs(load_kw).max() <= 20.0
    assert load_kw[clusters == 0].min() >= 0.0
    assert load_kw[clusters == 1].min() < 0.0
    assert np.bincount(clusters).tolist() == [525, 175]
    parts = [load for load, _ in model.batches(700, random_state=4, n_days=30)]
    assert len(parts) > 1
    assert np.array_equal(np.concatenate(parts), load_kw)
    assert not np.array_equal(model.sample(700, random_state=5, n_days=30)[0], load_kw)
    assert len(model.sample(0, random_state=0)[0]) == 0


def test_a_sample_may_have_another_calendar() -> None:
    """A year that begins on a weekend has its weekend first."""
    model = year_model(split=Split.WEEKDAY_WEEKEND, spread=-4.0)
    table = np.array(model.typical.means)
    table[:, SLOTS:] += 1.0
    model = replace(model, typical=replace(model.typical, means=table))
    load_kw = model.sample(100, random_state=0, by=[1, 0], first_day=dt.date(2022, 1, 1), n_days=7)[
        0
    ]
    weekend = load_kw.reshape(100, 7, SLOTS).mean(axis=2).mean(axis=0) > 0.9
    assert weekend.tolist() == [True, True, False, False, False, False, False]


def test_the_model_survives_json() -> None:
    """A model read from its text samples the same customers; what is none is refused."""
    model = year_model()
    text = json.dumps(model.to_dict())
    again = YearModel.from_dict(json.loads(text))
    assert np.array_equal(again.sample(5, random_state=1)[0], model.sample(5, random_state=1)[0])
    with pytest.raises(InvalidParameterError, match="sizes"):
        YearModel.from_dict(
            {key: value for key, value in model.to_dict().items() if key != "sizes"}
        )
    broken = json.loads(text)
    broken["days"]["factors"] = broken["days"]["factors"][0]
    with pytest.raises(InvalidParameterError, match="factors"):
        YearModel.from_dict(broken)


def test_sizes_follow_the_counts() -> None:
    """With counts of customers twice as large as the model's, sampled customers double."""
    typical = year_model().typical
    sizes = customer_sizes(typical.sample(20_000, random_state=9)[0])
    edges = year_size_edges((0.04, 40.0))
    counts = np.bincount(np.searchsorted(edges, 2.0 * sizes), minlength=edges.size + 1)
    table = size_map((counts.astype(float), 1.0), edges, typical, np.ones(typical.n_columns))
    ratios = mapped_sizes(sizes, table)
    assert np.median(ratios) == pytest.approx(2.0, rel=0.03)
    assert np.quantile(ratios, [0.02, 0.98]) == pytest.approx([2.0, 2.0], rel=0.15)


def test_peaks_follow_the_counts() -> None:
    """With counts of peaks twice as large as the model's, peaks double, and energy stays."""
    model = year_model()
    before = model.sample(400, random_state=9, by=[1, 0])[0]
    edges = peak_edges((0.04, 40.0))
    counts = np.bincount(np.searchsorted(edges, 2.0 * before.max(axis=1)), minlength=edges.size + 1)
    peaks = figure_map((counts.astype(float), 0.5), edges, before.max(axis=1), trust=0.0)
    after = replace(model, peaks=peaks).sample(400, random_state=9, by=[1, 0])[0]
    assert np.median(after.max(axis=1) / before.max(axis=1)) == pytest.approx(2.0, rel=0.05)
    assert before.mean() < after.mean() < 1.1 * before.mean()
    low = before < 0.5 * before.max(axis=1, keepdims=True)
    assert np.array_equal(after[low], before[low])


def test_peaks_of_a_second_group_are_kept() -> None:
    """Of 240 customers a third has large peaks; noise of their number is not taken for them."""
    edges = peak_edges((0.04, 40.0))
    generator = np.random.default_rng(4)
    peaks = np.where(np.arange(240) % 3 == 0, 3.0, 0.7) * np.exp(0.05 * generator.normal(size=240))
    counts = np.bincount(np.searchsorted(edges, peaks), minlength=edges.size + 1).astype(float)
    drawn = np.exp(0.5 * generator.normal(size=2000))
    found = figure_map((counts, 0.5), edges, drawn, trust=0.0)[1]
    assert np.interp([0.4, 0.9], np.linspace(0, 1, found.size), found) == pytest.approx(
        [0.7, 3.0], rel=0.15
    )
    noise = 20.0 * generator.normal(size=counts.size)
    noise[-1] = 30.0  # 1.5 standard deviations
    noisy = figure_map((1e3 * (counts > counts.max() - 1) + noise, 20.0), edges, drawn, trust=0.0)
    assert noisy[1].max() < 10.0


def days_in_common(n_days: int) -> Floats:
    """Return levels as of weather: they last for some days."""
    generator = np.random.default_rng(2)
    levels = np.zeros(n_days)
    for day in range(1, n_days):
        levels[day] = 0.9 * levels[day - 1] + 0.03 * generator.normal()
    return levels


@pytest.mark.parametrize("std", [1.0, 60.0])
def test_common_levels_are_read(std: float) -> None:
    """With little noise the planted levels; with more than the levels themselves, their size."""
    parts = calendar_of(364, Split.DAY).parts
    planted = days_in_common(364)
    planted -= planted.mean()
    generator = np.random.default_rng(3)
    radius = synthesis_tuning.LEVEL_RADIUS * np.sqrt(364.0)
    sums = 1000.0 * planted / synthesis_tuning.LEVEL_LOADING + std * generator.normal(size=364)
    fresh = generator.normal(size=364)
    noisy = noisy_levels(sums / radius, std / radius, customers=1000.0)
    assert noisy[0] == pytest.approx(synthesis_tuning.LEVEL_LOADING * sums / 1000.0)
    found = read_levels(noisy, parts=parts, fresh=fresh)
    assert found.std() == pytest.approx(planted.std(), rel=0.25)
    assert found.mean() == pytest.approx(0.0, abs=1e-12)
    assert np.corrcoef(found, planted)[0, 1] > (0.95 if std == 1.0 else 0.5)
    if std > 1.0:  # the noisy levels themselves vary more
        assert (sums / 1000.0).std() > 1.2 * planted.std()


def test_levels_are_split_into_parts_of_the_year_and_days() -> None:
    """Parts of 1.2 and 0.8 of the mean, days of 1.1 and 0.9 of their part; noise of means falls."""
    parts = np.repeat([0, 1], 50)
    days = np.tile([1.1, 0.9], 50)
    noisy = np.array([np.where(parts == 0, 1.2, 0.8) * days - 1.0, np.full(100, 0.1)])
    within, means = split_levels(noisy, parts)
    assert within[0] == pytest.approx(days - 1.0)
    assert within[1].tolist() == noisy[1].tolist()
    assert means[0] == pytest.approx([0.2, -0.2])
    assert means[1] == pytest.approx(np.full(2, 0.1 / np.sqrt(50.0)))


def test_typical_days_follow_the_released_seasons() -> None:
    """Factors of the parts multiply the energy of their days, whatever the noise of means says."""
    model = year_model(spread=-1.5, split=Split.WEEKDAY_WEEKEND)
    wanted = np.array([[0.25, -0.25], [1e-4, 1e-4]])
    seasons = season_factors(model.typical, wanted, model.calendar)
    raised = replace(model, seasons=seasons)
    drawn = model.typical.sample(2000, random_state=0)[0] * np.repeat(seasons, SLOTS)
    assert pattern_of(drawn, SLOTS) == pytest.approx(wanted[0], abs=0.02)
    unknown = season_factors(model.typical, np.array([wanted[0], [1e3, 1e3]]), model.calendar)
    assert unknown == pytest.approx(np.ones(2), abs=1e-6)
    usual, more = (
        one.sample(200, random_state=1, by=[1, 0])[0].reshape(200, 365, SLOTS).sum(axis=(0, 2))
        for one in (model, raised)
    )
    for part in (0, 1):
        own = model.calendar.parts == part
        assert more[own].sum() / usual[own].sum() == pytest.approx(seasons[part], rel=0.02)


def test_customers_share_the_level_of_a_day() -> None:
    """On a day of level 0.3 all need 30 % more; a calendar of another year has the same days."""
    model = year_model(spread=-1.5, split=Split.WEEKDAY_WEEKEND)
    levels = np.zeros(365)
    levels[100:110] = 0.3
    raised = replace(model, levels=levels)
    usual, more = (
        one.sample(400, random_state=1, by=[1, 0])[0].reshape(400, 365, SLOTS).sum(axis=(0, 2))
        for one in (model, raised)
    )
    ratio = more / usual
    assert ratio[100:110] == pytest.approx(np.full(10, 1.3), abs=0.05)
    assert np.delete(ratio, range(100, 110)) == pytest.approx(np.ones(355), abs=5e-3)
    next_year = levels_of(levels, NEW_YEAR, first_day=dt.date(2013, 12, 31), n_days=200)
    assert next_year[0] == 0.0
    assert np.flatnonzero(next_year).tolist() == list(range(100, 110))
    short = levels_of(levels[:20], NEW_YEAR, first_day=NEW_YEAR, n_days=40)
    assert short.tolist() == [0.0] * 40


def test_midnight_is_an_hour_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last slot of a day is more like the first of the next day than that of other days.

    Of customers with equally smooth days.
    """
    monkeypatch.setattr(synthesis_tuning, "ROUGHNESS", -0.15)
    monkeypatch.setattr(synthesis_tuning, "ROUGHNESS_SPREAD", 0.0)
    model = year_model(spread=-1.0, slow=0.1)
    roots = np.cbrt(model.sample(300, random_state=5, by=[1, 0])[0]).reshape(300, 365, SLOTS)
    roots = (roots - roots.mean(axis=1, keepdims=True)) / roots.std(axis=1, keepdims=True)
    next_day = (roots[:, :-1, -1] * roots[:, 1:, 0]).mean()
    day_after = (roots[:, :-2, -1] * roots[:, 2:, 0]).mean()
    assert next_day > day_after + 0.1
