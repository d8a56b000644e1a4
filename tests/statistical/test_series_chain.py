"""What an attacker with the bundles of all periods learns about one customer: the whole chain.

The exact answers of every query of every period, with a hostile customer and without, are compared
in units of the noise. The sum of their squares is what distinguishes the two: at most what has
accrued, after each period, however the customer behaves. Load, numbers of customers and segments
are released together, and segments are found anew once.
"""

from functools import partial

import numpy as np
import pytest

from tests.release_transcripts import Draws, record, replay, squared_signal
from tests.statistical import faults
from tests.statistical.harness import accepts, refuses, variance_p
from wattveil.lab.audit.memory_state import MemoryState
from wattveil.numerics.kmeans import cluster_merge
from wattveil.privacy.accounting import RHO_UNITS
from wattveil.privacy.guarantee import global_guarantee
from wattveil.release.load_series import LOAD, ReleasedSeries, SeriesDesign, release_load_period
from wattveil.simulate import simulate_load_kw

HORIZON, ANEW = 4, 2
DESIGN = SeriesDesign(
    horizon=HORIZON,
    periods_per_year=1,
    guarantee=global_guarantee(epsilon=1.0, delta=0.2),
    levels={"class": ("a", "b")},
    n_segments=2,
    customers=1000,  # refining steps in every period
)
HOMES = np.array(simulate_load_kw(customers=30, seed=9))
HOSTILE = {
    "far in every period": (1e6, 1e6, 1e6, 1e6),
    "alternating": (1e6, -1e6, 1e6, -1e6),
    "a burst at the end": (0.4, 0.4, 0.4, 1e6),
    "absent, then far": (np.nan, np.nan, 1e6, -1e6),
}
"""Load of the hostile customer in each period, in kW; it also changes its group."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, cached_constants: None) -> None:  # noqa: ARG001 - used
    """Skip what no loss depends on: restarts depend on released numbers only."""
    monkeypatch.setattr(cluster_merge, "_RESTARTS", 1)


def chain(loads_kw: tuple[float, ...] | None) -> ReleasedSeries:
    """Release all periods, with a hostile customer of these loads or without it."""
    found = ReleasedSeries(design=DESIGN)
    state = MemoryState(names_key=bytes(32))
    for period in range(HORIZON):
        load = HOMES * (1.0 + 0.1 * period)
        groups = ["ab"[row % 2] for row in range(len(load))]
        if loads_kw is not None:
            load = np.vstack([load, np.full((1, 24), loads_kw[period])])
            groups = [*groups, "ab"[period % 2]]
        found = release_load_period(
            load,
            groups={"class": groups},
            customer_ids=[f"customer {row}" for row in range(len(load))],
            past=found,
            period=period,
            state=state,
            recluster=period == ANEW,
        )
    return found


def seen_both_ways(loads_kw: tuple[float, ...]) -> tuple[Draws, Draws, ReleasedSeries]:
    """Return the draws with the customer, those without, and what was released."""
    kept: list[ReleasedSeries] = []
    seen = record(lambda: kept.append(chain(loads_kw)))
    return seen, replay(partial(chain, None), seen), kept[0]


@pytest.mark.parametrize("name", HOSTILE)
def test_all_periods_together_show_no_more_than_has_accrued(name: str) -> None:
    """After each period; at the end the sums of load are used up by who is far in all of them."""
    seen, without, released = seen_both_ways(HOSTILE[name])
    spends = released.spends
    assert len(seen) == len(spends)
    last = 0
    for place, one in enumerate(released.periods):
        last += len(one.spends)
        begun = (0, ANEW) if place >= ANEW else (0,)
        due = DESIGN.accrued_units(place, begun)
        assert sum(spend.rho_units for spend in spends[:last]) == due
        assert squared_signal(seen[:last], without[:last]) <= 2.0 * due / RHO_UNITS
    sums = [place for place, spend in enumerate(spends) if spend.tag == LOAD]
    used = squared_signal([seen[i] for i in sums], [without[i] for i in sums])
    share = used / (2.0 * DESIGN.rho_units[LOAD] / RHO_UNITS)
    assert share <= 1.0
    if name != "a burst at the end":  # the last period's room is all that is left
        assert share == pytest.approx(1.0, abs=1e-4)
    noise = np.concatenate([(draw.noisy - draw.exact) / draw.scale for draw in seen])
    accepts(variance_p(noise, 1.0))


def test_a_budget_for_each_period_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allowances that begin afresh in every period: more than the whole series was granted."""
    faults.fresh_allowances(monkeypatch)
    seen, without, _ = seen_both_ways(HOSTILE["alternating"])
    granted = 2.0 * sum(DESIGN.rho_units.values()) / RHO_UNITS
    assert squared_signal(seen, without) > 1.5 * granted


def test_half_the_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same draws do not have the stated scale."""
    faults.weaker_noise(monkeypatch)
    seen = record(partial(chain, HOSTILE["alternating"]))
    noise = np.concatenate([(draw.noisy - draw.exact) / draw.scale for draw in seen])
    refuses(variance_p(noise, 1.0))
