"""Typical days of customers, and features of their days, against direct computations in NumPy."""

import datetime as dt
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.synthesis import synthesis_tuning
from wattveil.numerics.synthesis.day_deviations import (
    YearCalendar,
    base_edges,
    day_axes,
    day_gains,
    day_width,
    spread_edges,
)
from wattveil.privacy.mechanisms.contributions import NO_DATA
from wattveil.profiles import Split
from wattveil.release.rows.day_features import (
    base_loads,
    daily_levels,
    day_features,
    day_moments,
    typical_days,
    whole_days,
)
from wattveil.release.rows.load_features import row_lengths, size_cells

SLOTS = 4
EDGES = (spread_edges(), spread_edges(), base_edges(), np.array([0.5, 1.0, 2.0, 5.0]))


def calendar_of(n_days: int) -> YearCalendar:
    """Return weekdays and weekends from New Year's Day 2013, a Tuesday."""
    new_year = dt.date(2013, 1, 1)
    split = Split.WEEKDAY_WEEKEND
    return YearCalendar(first_day=new_year, n_days=n_days, n_slots=SLOTS, split=split)


def parts_of(calendar: YearCalendar) -> dict[str, Any]:
    """Return the public parameters of typical days."""
    return {"parts": calendar.parts, "n_parts": calendar.n_parts}


def typical(rows: Floats, calendar: YearCalendar) -> Floats:
    """Return the typical days of customers."""
    return typical_days(rows, **parts_of(calendar))[0]


def moments(rows: Floats, typical_kw: Floats, calendar: YearCalendar) -> tuple[Floats, Floats]:
    """Return features and spreads of the days of customers."""
    days_kw, whole = whole_days(rows, calendar.n_days)
    sizes = row_lengths(typical_kw) / math.sqrt(typical_kw.shape[1])
    return day_moments(
        days_kw,
        whole,
        (base_loads(days_kw, whole), np.maximum(sizes, 1e-9)),
        **parts_of(calendar),
        bases=calendar.day_bases,
        gains=day_gains(SLOTS, calendar.n_days),
    )


def varied_days(customers: int, n_days: int) -> Floats:
    """Return customers whose days differ in level and in shape."""
    generator = np.random.default_rng(1)
    level = 0.3 * generator.normal(size=(customers, n_days, 1))
    shape = 0.4 * generator.normal(size=(customers, n_days, SLOTS))
    rows: Floats = np.array([0.3, 0.5, 0.4, 0.9]) * np.exp(level + shape)
    return rows.reshape(customers, -1)


def test_typical_days_are_means_over_whole_days() -> None:
    """NumPy's means of the days without a missing slot; without any day of a part, NaN."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(5, 14 * SLOTS))
    rows[1, 3] = np.nan
    rows[2, SLOTS] = np.inf
    rows[3, 4 * SLOTS :: 7 * SLOTS] = np.nan  # two Saturdays; Sundays stay
    rows[4, 4 * SLOTS : 6 * SLOTS] = np.nan  # and here the first weekend
    calendar = calendar_of(14)
    found = typical(rows, calendar)
    cube = rows.reshape(5, 14, SLOTS)
    for own, by_day in zip(found, cube, strict=True):
        whole = np.isfinite(by_day).all(axis=1)
        means = [by_day[whole & (calendar.parts == part)].mean(axis=0) for part in (0, 1)]
        assert np.allclose(own, np.concatenate(means))
    rows[0, 4::SLOTS] = np.nan
    assert np.isnan(typical(rows, calendar)[0]).all()


def test_size_cells_by_digitize() -> None:
    """The root-mean-square typical load, between the bounds that NumPy finds."""
    calendar = calendar_of(14)
    rows = varied_days(200, 14) * np.geomspace(0.1, 10.0, 200)[:, None]
    rows[7] = np.nan
    edges = np.array([0.2, 0.5, 1.0, 3.0])
    days = typical(rows, calendar)
    width = days.shape[1]
    (cells,) = size_cells(days, edges=edges * math.sqrt(width), coordinates=width)
    sizes = np.sqrt(np.square(days).mean(axis=1))
    expected = np.where(np.isnan(sizes), NO_DATA, np.digitize(sizes, edges))
    assert cells.tolist() == expected.tolist()
    assert cells.dtype == np.int64
    assert cells[7] == NO_DATA


def test_day_moments_by_numpy() -> None:
    """Covariance, products and spreads as NumPy computes them, days with gaps left out."""
    calendar = calendar_of(60)
    rows = varied_days(3, 60)
    rows[1, 5 * SLOTS] = np.nan
    typical_kw = typical(rows, calendar)
    features, spreads = moments(rows, typical_kw, calendar)
    assert features.shape == (3, day_width(SLOTS))
    values, vectors = day_axes(SLOTS)
    means = typical_kw.reshape(3, 2, SLOTS)
    for row, own, mean, spread in zip(rows, features, means, spreads, strict=True):
        by_day = row.reshape(60, SLOTS).copy()
        whole = np.isfinite(by_day).all(axis=1)
        by_day[~whole] = np.nan
        known = np.sort(by_day[whole].ravel())
        base = known[int(synthesis_tuning.BASE_CHANCE * known.size)]
        above = np.cbrt(np.maximum(by_day - base, 0.0) / np.sqrt(np.square(mean).mean()))
        below = np.minimum(by_day - base, 0.0) / (synthesis_tuning.BELOW_BASE * base)
        y = above + np.maximum(below, -synthesis_tuning.LOWEST_ROOT)
        for part in (0, 1):
            y[calendar.parts == part] -= np.nanmean(y[calendar.parts == part], axis=0)
        z = y @ (vectors / np.sqrt(values)[:, None]).T
        size = np.sqrt(np.nanmean(z**2, axis=0))
        shape = np.sqrt(np.square(size[1:]).mean())
        assert spread[0] == pytest.approx(shape * np.sqrt(whole.sum() / (whole.sum() - 2)))
        assert spread[1] == pytest.approx(size[0] / shape)
        z /= np.array([size[0]] + [shape] * (SLOTS - 1))
        seconds = z[whole].T @ z[whole] / whole.sum()
        products = [np.nanmean(z[lag:] * z[:-lag], axis=0) for lag in (1, 7)]
        weights = np.where(np.eye(SLOTS), 1.0, np.sqrt(2.0))[np.triu_indices(SLOTS)]
        expected = [seconds[np.triu_indices(SLOTS)] * weights, np.concatenate(products)]
        for which, (first, last) in enumerate([(0, 10), (10, 18)]):
            scaled = own[first:last] / np.linalg.norm(own[first:last])
            assert np.allclose(scaled, expected[which] / np.linalg.norm(expected[which]))


def test_day_features_are_moments_and_cells_of_spreads() -> None:
    """Features of customers with data, and between which bounds their two spreads lie."""
    calendar = calendar_of(28)
    rows = varied_days(40, 28)
    rows[3] = np.nan
    rows[5] = 0.0  # days that are all alike: spread 0
    rows[6] -= 0.6  # export
    cells, features, again, common, shapes, levels, base, peaks = day_features(
        rows,
        **parts_of(calendar),
        bases=calendar.day_bases,
        gains=day_gains(SLOTS, 28),
        edges=EDGES,
    )
    assert cells.tolist() == [NO_DATA if place == 3 else 0 for place in range(40)]
    with_data = cells == 0
    kept = rows[with_data]
    expected, spreads = moments(kept, typical(kept, calendar), calendar)
    assert features[with_data].tobytes() == expected.tobytes()
    for found, spread in zip((shapes, levels), spreads.T, strict=True):
        assert found[with_data].tolist() == np.digitize(spread, EDGES[0]).tolist()
        assert found[3] == NO_DATA
        assert found[5] == 0
        assert found.dtype == np.int64
    assert peaks[with_data].tolist() == np.digitize(kept.max(axis=1), EDGES[3]).tolist()
    means = typical(kept, calendar)
    exports = kept.min(axis=1) < 0.0
    low = np.sort(kept, axis=1)[:, int(0.1 * kept.shape[1])]
    relative = np.where(exports, kept.min(axis=1), low) / np.maximum(
        np.sqrt(np.square(means).mean(axis=1)), 1e-9
    )
    assert base[with_data].tolist() == np.digitize(relative, EDGES[2]).tolist()
    assert (base[3], peaks[3]) == (NO_DATA, NO_DATA)
    assert exports.sum() == 1
    assert again.tolist() == cells.tolist()
    days_kw, whole = whole_days(kept, 28)
    usual = means.sum(axis=1, keepdims=True) / 2.0
    gain = day_gains(SLOTS, 28)[3]
    assert np.allclose(common[with_data], daily_levels(days_kw, whole, usual, gain=gain))


def test_daily_levels_by_numpy() -> None:
    """Energy of a day over the mean of typical days, less 1; limited, clipped, 0 without a day."""
    calendar = calendar_of(28)
    rows = varied_days(4, 28)
    rows[1, 3 * SLOTS] = np.nan
    rows[2, : 2 * SLOTS] *= 100.0
    rows[3] -= 5.0  # the mean is negative: no level
    days_kw, whole = whole_days(rows, 28)
    usual_kw = typical(rows, calendar).sum(axis=1, keepdims=True) / 2.0
    levels = daily_levels(days_kw, whole, usual_kw, gain=0.5)
    for place in (0, 1, 2):
        days = rows[place].reshape(28, SLOTS).sum(axis=1)
        usual = np.mean([np.nanmean(days[calendar.parts == part]) for part in (0, 1)])
        own = np.nan_to_num(days / usual - 1.0)
        own = np.clip(own, -synthesis_tuning.LEVEL_LIMIT, synthesis_tuning.LEVEL_LIMIT) / 2.0
        assert np.allclose(levels[place], own / max(np.linalg.norm(own), 1.0))
    assert np.linalg.norm(levels[2]) == pytest.approx(1.0)
    assert levels[1, 3] == 0.0
    assert not levels[3].any()


@settings(max_examples=25, deadline=None)
@given(
    arrays(
        np.float64,
        (2, 14 * SLOTS),
        elements=st.one_of(
            st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0.0, 1e-300, 1e300])
        ),
    )
)
def test_day_moments_have_length_1_at_most_and_depend_on_their_own_row(rows: Floats) -> None:
    """Whatever the readings are, and whatever rows are in the block, to the last bit."""
    calendar = calendar_of(14)
    typical_kw = typical(rows, calendar)
    kept = np.isfinite(typical_kw).all(axis=1)
    rows, typical_kw = rows[kept], typical_kw[kept]
    features, spreads = moments(rows, typical_kw, calendar)
    assert (np.linalg.norm(features, axis=1) <= 1.0 + 1e-9).all()
    for i in range(len(rows)):
        alone, own_spread = moments(rows[i : i + 1], typical_kw[i : i + 1], calendar)
        assert alone.tobytes() == features[i : i + 1].tobytes()
        assert own_spread.tobytes() == spreads[i : i + 1].tobytes()


def test_bases_of_a_day_are_sent_with_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound function has its bases: the process that receives it computes no eigenvectors."""
    calendar = calendar_of(14)
    rows = np.random.default_rng(5).lognormal(size=(2, 14 * SLOTS))
    public = {**parts_of(calendar), "bases": calendar.day_bases, "gains": day_gains(SLOTS, 14)}
    work = day_features.bind(**public, edges=EDGES)
    sent = pickle.loads(pickle.dumps(work))  # noqa: S301 - our own
    monkeypatch.setattr(np.linalg, "eigh", None)
    found = sent(rows)
    monkeypatch.undo()
    for one, other in zip(found, work(rows), strict=True):
        assert one.tobytes() == other.tobytes()


def test_days_of_small_and_large_customers_have_equal_features() -> None:
    """A customer ten times as large has the same features and spreads."""
    calendar = calendar_of(60)
    rows = varied_days(4, 60)
    small = moments(rows, typical(rows, calendar), calendar)
    large = moments(10 * rows, typical(10 * rows, calendar), calendar)
    for one, other in zip(small, large, strict=True):
        assert np.allclose(one, other, atol=1e-9)


def test_rows_of_another_width_are_refused() -> None:
    """Rows that are not whole days: compiled loops check no bounds."""
    with pytest.raises(InvalidParameterError, match="load_kw must be an array with 56 columns"):
        typical(np.ones((1, 14 * SLOTS + 1)), calendar_of(14))
