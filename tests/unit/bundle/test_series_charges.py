"""Charges of a chain: each kind of draw has its own part of the budget, period by period."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.series_bundles import CHOICES, drawn_spend, quarter, with_further_draw
from wattveil.bundle.series_charges import charge_problems
from wattveil.bundle.series_request import SeriesRequest
from wattveil.lab.audit.memory_state import MemoryState
from wattveil.numerics.kmeans.kmeans_stages import Cells
from wattveil.privacy.accounting import Composition
from wattveil.privacy.guarantee import Spend
from wattveil.privacy.mechanisms.period_sums import MECHANISM
from wattveil.release.load_series import (
    LENGTHS,
    LOAD,
    LoadPeriod,
    ReleasedSeries,
    release_load_period,
)


def released_series(**changed: Any) -> ReleasedSeries:  # noqa: ANN401 - choices
    """Return a series of three periods in memory, a period skipped; the last finds segments."""
    design = SeriesRequest.parse({**CHOICES, **changed}).design
    state, released = MemoryState(names_key=bytes(32)), ReleasedSeries(design=design)
    for place in (0, 1, 3):
        profiles = quarter(place, customers=60)
        released = release_load_period(
            profiles.load_kw,
            groups=profiles.attributes,
            customer_ids=profiles.customer_ids,
            past=released,
            period=place,
            state=state,
            recluster=place == 3 and design.n_segments > 0,
        )
    return released


@pytest.fixture(scope="module")
def plain() -> ReleasedSeries:
    """Return a series without segments."""
    return released_series()


@pytest.fixture(scope="module")
def segmented() -> ReleasedSeries:
    """Return a series with segments: found, followed, found anew."""
    return released_series(segments=2, customers=200)


def problems(released: ReleasedSeries, *periods: LoadPeriod) -> str:
    """Return what is found in a series whose first periods are replaced."""
    changed = (*periods, *released.periods[len(periods) :])
    return "; ".join(charge_problems(replace(released, periods=changed)))


def respent(one: LoadPeriod, tag: str, change: Callable[[Spend], Spend]) -> LoadPeriod:
    """Return a period with another charge of a name."""
    spends = tuple(change(spend) if spend.tag == tag else spend for spend in one.spends)
    return replace(one, spends=spends)


def test_what_the_kernel_charges_is_accepted(
    plain: ReleasedSeries, segmented: ReleasedSeries
) -> None:
    """With segments or without."""
    assert not problems(plain)
    assert not problems(segmented)


def test_a_draw_cannot_be_paid_with_the_charge_of_sums(plain: ReleasedSeries) -> None:
    """The forged charges add up to what was stated before; their noise costs far more."""
    forged = tuple(map(with_further_draw, plain.periods))
    stated = sum(spend.rho_units for one in forged for spend in one.spends)
    assert stated == sum(spend.rho_units for spend in plain.spends)
    drawn = [spend for one in forged for spend in one.spends if spend.mechanism != MECHANISM]
    design, last = plain.design, plain.released[-1]
    kinds = (LOAD, *design.counted)
    sums = [design.query(name, last, released=()).accrued_units() for name in kinds]
    true = Composition(rho_units=sum(sums) + sum(spend.rho_units for spend in drawn))
    stated_epsilon = Composition(rho_units=stated).epsilon(design.guarantee.delta)
    assert true.epsilon(design.guarantee.delta) > 1.05 * stated_epsilon
    found = problems(plain, *forged)
    assert "load is charged another amount" in found
    assert "further sums: not of this series" in found


@pytest.mark.parametrize(
    ("place", "tag", "expected"),
    [
        (0, "sizes", "first estimate: charged another amount"),
        (0, LENGTHS, "lengths of offsets: charged another amount"),
        (0, "coarse step 1: offsets", "segments: charged another amount"),
        (1, "customers", "customers is charged another amount"),
        (1, "segments, period 2, sizes", "segments: charged another amount"),
    ],
)
def test_each_part_has_its_own_amount(
    segmented: ReleasedSeries, place: int, tag: str, expected: str
) -> None:
    """One unit more or less, in any part."""
    own = segmented.periods[place]
    for more in (1, -1):
        spends = tuple(
            replace(spend, rho_units=spend.rho_units + more * (spend.tag == tag))
            for spend in own.spends
        )
        one = replace(own, spends=spends)
        assert expected in problems(segmented, *segmented.periods[:place], one)


def test_draws_that_the_design_does_not_have_are_found(
    plain: ReleasedSeries, segmented: ReleasedSeries
) -> None:
    """Before the sums, between them and after them, in the first period and later."""
    further = drawn_spend("further sums", rho_units=10**12, numbers=1)
    again = drawn_spend("sizes", rho_units=10**12, numbers=1)
    for series, place, at, spend, expected in (
        (plain, 0, 0, further, "further sums: not of this series"),
        (plain, 0, 0, again, "first estimate: two draws of one name"),
        (plain, 1, 0, again, "draws of a first estimate"),
        (plain, 1, 1, further, "other draws between the sums"),
        (plain, 1, 3, further, "further sums: not of this series"),
        (segmented, 1, 3, again, "sizes: not of this series"),
    ):
        one = series.periods[place]
        one = replace(one, spends=(*one.spends[:at], spend, *one.spends[at:]))
        assert expected in problems(series, *series.periods[:place], one)


def test_segments_that_the_plan_finds_and_their_numbers_are_checked(
    segmented: ReleasedSeries,
) -> None:
    """A period that follows where the plan finds; found clusters in another order."""
    assert segmented.design.midsummer == 2
    other = replace(segmented, design=replace(segmented.design, midsummer=1))
    assert "period 2: segments: followed, but the plan finds them" in problems(other)
    first, second, third = segmented.periods
    first, third = apart(first), apart(third)  # noise may leave one cluster where the other is
    assert "not numbered" not in problems(segmented, first, second, third)
    turned = apart(third, turn=True)
    expected = "period 4: segments: not numbered by those before"
    assert expected in problems(segmented, first, second, turned)


def apart(one: LoadPeriod, *, turn: bool = False) -> LoadPeriod:
    """Return a period whose found clusters are far from each other, or in another order."""
    assert one.segments is not None
    cells = one.segments.first
    assert cells is not None
    if turn:
        cells = Cells(**{name: part[::-1] for name, part in vars(cells).items()})
    else:
        cells = replace(cells, centres=cells.centres + 100.0 * np.arange(2)[:, None])
    return replace(one, segments=replace(one.segments, first=cells))


def test_noise_of_sums_is_the_same_in_all_periods(plain: ReleasedSeries) -> None:
    """Tables are computed with the noise of the last period."""
    one = respent(
        plain.periods[1],
        LOAD,
        lambda spend: replace(spend, drawn=spend.drawn | {"scale": 2 * spend.drawn["scale"]}),
    )
    assert "load has other noise than before" in problems(plain, plain.periods[0], one)


def test_more_eta_than_the_guarantee_has_is_found(plain: ReleasedSeries) -> None:
    """The budget has a share for the grid."""
    one = respent(plain.periods[0], LOAD, lambda spend: replace(spend, eta=0.1))
    assert problems(plain, one) == "more eta than the guarantee has"


def test_published_numbers_are_those_that_were_drawn(segmented: ReleasedSeries) -> None:
    """As many as stated, and on the grid of the kernel."""
    first, second = segmented.periods[:2]
    fewer = respent(
        first, LENGTHS, lambda spend: replace(spend, drawn=spend.drawn | {"numbers": 1})
    )
    assert problems(segmented, fewer) == (
        "period 1: lengths of offsets: other numbers than are published"
    )
    members = {name: values + 1e-9 for name, values in first.members.items()}
    assert "customers: numbers that are not on the grid" in problems(
        segmented, replace(first, members=members)
    )
    assert second.segments is not None
    assert second.segments.sizes is not None
    sizes = second.segments.sizes._replace(sizes=np.full(2, 1.0 / 3.0))
    off = replace(second, segments=replace(second.segments, sizes=sizes))
    assert problems(segmented, first, off) == (
        "period 2: segments, period 2, sizes: numbers that are not on the grid"
    )
