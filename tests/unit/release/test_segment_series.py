"""Segments of a series: costs, sizes at the published centroids, clusters found anew, refusals."""

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError, SeriesStateError
from wattveil.lab.audit.memory_state import MemoryState
from wattveil.numerics.load_basis import checked_library, row_basis
from wattveil.numerics.series.warm_clusters import predicted_cells
from wattveil.privacy import noise
from wattveil.privacy.guarantee import global_guarantee
from wattveil.release import kmeans, load_series
from wattveil.release.load_series import (
    LENGTHS,
    SEGMENTS,
    ReleasedSeries,
    SeriesDesign,
    release_load_period,
)
from wattveil.release.segment_series import (
    SegmentDesign,
    all_segments,
    follow_segments,
    found_in,
)
from wattveil.release.series_noise import LARGEST_SCALE, LEAST_PART, check_noise
from wattveil.simulate import simulate_load_kw

CUSTOMERS = 600
LOADS = np.array(simulate_load_kw(customers=CUSTOMERS))
IDS = [f"customer {row}" for row in range(CUSTOMERS)]
PERIODS = (0, 1, 3, 4, 5)
"""Period 2 is skipped; in period 4 clusters are found anew."""


def load_of(period: int) -> Floats:
    """Return the customers of a period: loads move an hour later in half of them; one is absent."""
    load = LOADS * (1.0 + 0.02 * period)
    load[::2] = np.roll(load[::2], period // 3, axis=1)
    load[period] = np.nan
    return load


def released(periods: tuple[int, ...] = PERIODS, **changed: Any) -> ReleasedSeries:  # noqa: ANN401 - fields
    """Release some periods with much budget."""
    fields: dict[str, Any] = {
        "horizon": 6,
        "periods_per_year": 4,
        "guarantee": global_guarantee(epsilon=100.0, delta=1e-6),
        "n_segments": 3,
        "customers": 100,
    }
    found = ReleasedSeries(design=SeriesDesign(**{**fields, **changed}))
    state = MemoryState(names_key=bytes(32))
    for period in periods:
        found = release_load_period(
            load_of(period),
            groups={},
            customer_ids=IDS,
            past=found,
            period=period,
            state=state,
            recluster=period == 4,
        )
    return found


@pytest.fixture(scope="module")
def made() -> ReleasedSeries:
    """Return all periods of a series."""
    return released()


def segments_of(series: ReleasedSeries) -> SegmentDesign:
    """Return the design of the segments."""
    assert series.design.segments is not None
    return series.design.segments


def exact_sizes(period: int, centroids: Floats) -> Floats:
    """Return the customers whose shape is nearest to each centroid, by plain NumPy."""
    load = load_of(period)
    load = load[np.isfinite(load).all(axis=1)]
    shapes = load / np.linalg.norm(load, axis=1, keepdims=True)
    apart = np.square(shapes[:, None] - centroids[None]).sum(axis=2)
    return np.bincount(apart.argmin(axis=1), minlength=len(centroids)).astype(np.float64)


def test_charges_are_what_has_accrued(made: ReleasedSeries) -> None:
    """After each period, a skipped one and one with new clusters included; at the end all."""
    spent = 0
    for place, one in enumerate(made.periods):
        spent += sum(spend.rho_units for spend in one.spends)
        begun = found_in(made.segments[: place + 1])
        assert spent == made.design.accrued_units(one.period, begun)
    assert spent == sum(made.design.rho_units.values())
    assert found_in(made.segments) == (0, 4)
    segments = segments_of(made)
    assert segments.schedule(5, (0, 4)).accrued == made.design.rho_units[SEGMENTS]
    before = segments.schedule(3, (0,)).accrued
    left = segments.rho_units - before
    plan = segments.schedule(4, (0, 4)).plan
    assert segments.schedule(4, (0, 4)).accrued - before == pytest.approx(plan.first_share * left)


def test_sizes_are_counted_at_the_centroids_that_follow(made: ReleasedSeries) -> None:
    """Centroids recomputed from the answers are those at which customers were counted."""
    basis = row_basis(24, 1)
    early = made.segments[:3]
    followed = follow_segments(segments_of(made), early)
    assert [period for period, _ in followed.published] == [0, 1, 3]
    assert followed.clusters.places == (1, 3)
    for (period, cells), one in zip(followed.published, early, strict=True):
        if one.sizes is not None:
            used = cells.centres @ basis[: cells.centres.shape[1]]
            error = one.sizes.sizes - exact_sizes(period, used)
            assert np.abs(error).max() < 6.0 * one.sizes.std


def test_clusters_that_are_found_anew_begin_a_new_series(made: ReleasedSeries) -> None:
    """The newest ones count from their own first period."""
    followed = follow_segments(segments_of(made), made.segments)
    assert followed.since == 4
    assert [period for period, _ in followed.published] == [4, 5]
    assert followed.clusters.places == (1,)


@pytest.mark.parametrize(
    ("periods", "found"), [((0, 1, 2, 3), (0, 2)), ((0, 1, 3, 5), (0, 3)), ((2, 3), (2,))]
)
def test_the_plan_finds_clusters_in_midsummer(
    periods: tuple[int, ...], found: tuple[int, ...]
) -> None:
    """Or in the next period that is released; with the numbers that they had before."""
    series = released(periods, customers=5, midsummer=2)
    segments = segments_of(series)
    assert segments.planned() == (0, 2)
    assert found_in(series.segments) == found
    if found == (2,):
        return
    spent = sum(spend.rho_units for spend in series.spends)
    assert spent == series.design.accrued_units(periods[-1], found)
    before, after = all_segments(segments, series.segments)
    assert [one.since for one in (before, after)] == [*found]
    at = [period for one in (before, after) for period, _ in one.published]
    assert at == [*periods]
    old = predicted_cells(before.clusters, found[1]).centres
    new = after.published[0][1].centres
    width = max(old.shape[1], new.shape[1])
    old, new = (np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in (old, new))
    apart = np.square(old[:, None] - new[None]).sum(axis=2)
    kept = np.trace(apart)
    others = [apart[range(3), order].sum() for order in permutations(range(3))]
    assert kept == pytest.approx(min(others))


@pytest.mark.parametrize(("customers", "is_known"), [(5, True), (10**6, False)])
def test_with_little_signal_clusters_are_found_from_those_before(
    monkeypatch: pytest.MonkeyPatch, customers: int, *, is_known: bool
) -> None:
    """K-means begins also at the predicted shapes, the largest first; the first time at none."""
    begun_at: list[Floats | None] = []

    def recorded(library: Floats | None, n_slots: int) -> Floats:
        begun_at.append(library)
        return checked_library(library, n_slots)

    monkeypatch.setattr(kmeans, "checked_library", recorded)
    series = released((0, 1, 2), customers=customers, midsummer=2)
    assert begun_at[0] is None
    if not is_known:
        assert begun_at == [None, None, None]
        return
    before = follow_segments(segments_of(series), series.segments[:2])
    cells = predicted_cells(before.clusters, 2)
    shapes = cells.centres @ row_basis(24, 1)[: cells.centres.shape[1]]
    (used,) = begun_at[1:]
    assert used == pytest.approx(shapes[np.argsort(-cells.counts)])


def test_a_long_series_finds_clusters_in_two_midsummers() -> None:
    """With little signal; the plan of a short one has one of them."""
    design = released((), horizon=20, customers=5, midsummer=2).design.segments
    assert design is not None
    assert design.planned() == (0, 2, 10)
    assert design.planned((0, 3), 4) == (0, 3, 10)  # period 2 was skipped
    assert design.schedule(19, (0, 2, 10)).accrued == design.rho_units


def test_much_signal_finds_clusters_in_each_period() -> None:
    """Even parts, as independent releases; a skipped one adds to the next."""
    series = released((0, 1, 3), customers=10**6)
    assert segments_of(series).planned() == (0, 1, 2, 3, 4, 5)
    assert found_in(series.segments) == (0, 1, 3)
    units = [segments_of(series).schedule(at, (0, 1, 3)).accrued for at in range(4)]
    assert np.diff([0, *units]) / series.design.rho_units[SEGMENTS] == pytest.approx(1.0 / 6.0)


def test_clusters_with_little_signal_are_kept() -> None:
    """A public estimate of few customers: no refining steps, and sizes alone."""
    series = released((0, 1), customers=1, guarantee=global_guarantee(epsilon=1.0, delta=1e-6))
    assert series.segments[1].steps == ()
    (_, first), (_, later) = follow_segments(segments_of(series), series.segments).published
    assert later.centres == pytest.approx(first.centres)


def test_bad_requests_are_refused(made: ReleasedSeries) -> None:
    """Before anything is charged."""
    for series in (ReleasedSeries(design=made.design), released((0,), n_segments=0)):
        with pytest.raises(InvalidParameterError, match="recluster"):
            release_load_period(
                LOADS,
                groups={},
                customer_ids=IDS,
                past=series,
                period=1,
                state=MemoryState(names_key=bytes(32)),
                recluster=True,
            )
    with pytest.raises(InvalidParameterError, match="found"):
        follow_segments(segments_of(made), ())
    with pytest.raises(InvalidParameterError, match="sizes"):
        follow_segments(
            segments_of(made), (made.segments[0], replace(made.segments[1], sizes=None))
        )
    with pytest.raises(InvalidParameterError, match="n_segments"):
        replace(made.design, n_segments=21)


def test_a_failure_after_charges_is_said_to_be_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of load were drawn when the segments fail."""

    def refused(*_: object, **__: object) -> None:
        raise InvalidParameterError("scale", "smaller", 1.0)

    monkeypatch.setattr(load_series, "release_segments", refused)
    with pytest.raises(SeriesStateError, match="period 1 was begun and failed: scale must"):
        released((0,))


@pytest.mark.parametrize(("epsilon", "n_segments"), [(0.5, 1), (0.5, 6), (4.0, 20)])
def test_no_query_gets_less_than_the_part_that_is_checked(epsilon: float, n_segments: int) -> None:
    """Scales are checked for one in 2,000 of the units of a part, before the first charge."""
    guarantee = global_guarantee(epsilon=epsilon, delta=1e-6)
    made = released((0, 1), guarantee=guarantee, n_segments=n_segments)
    parts = made.design.rho_units
    for period, one in enumerate(made.periods):
        own = [spend for spend in one.spends if spend.mechanism != "series_sums"]
        if period == 0:
            place = [spend.tag for spend in own].index(LENGTHS)
            assert min(spend.rho_units for spend in own[:place]) >= parts["first"] / LEAST_PART
            own = own[place + 1 :]
        assert min(spend.rho_units for spend in own) >= sum(s.rho_units for s in own) / LEAST_PART


def test_periods_without_drawable_noise_are_refused(made: ReleasedSeries) -> None:
    """By public numbers: this period, those after it, and other parts; nothing is charged."""
    before = replace(made, periods=made.periods[:-1])
    check_noise(before, period=5, recluster=False)
    assert LARGEST_SCALE == noise.LARGEST_SCALE
    little = replace(made.design, guarantee=global_guarantee(epsilon=1e-5, delta=1e-6))
    with pytest.raises(InvalidParameterError, match="epsilon must be such that noise can be drawn"):
        check_noise(ReleasedSeries(design=little), period=0, recluster=False)
    some = replace(made.design, guarantee=global_guarantee(epsilon=1e-3, delta=1e-6))
    begun = ReleasedSeries(design=some, periods=made.periods[:1], first=made.first)
    check_noise(begun, period=1, recluster=False)
    long = replace(begun, design=replace(some, horizon=200, customers=1))
    with pytest.raises(InvalidParameterError, match=r"recluster must be .* later periods"):
        check_noise(long, period=1, recluster=True)
