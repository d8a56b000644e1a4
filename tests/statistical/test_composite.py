"""The parts of a composite release spend what the release declares, by two independent sums.

The transcript (what each mechanism was charged) and the noise (what each draw reveals) are added up
separately. A planted double spend shows in the first, in the second, or is refused.
"""

from collections import deque
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.single_queries import given_cells
from tests.statistical import faults
from tests.statistical.harness import guarantee
from wattveil.arrays import Ints
from wattveil.engines.local import LocalRows
from wattveil.errors import BudgetExceededError
from wattveil.numerics.kmeans import kmeans_stages
from wattveil.numerics.kmeans.kmeans_stages import Cells, Steps
from wattveil.privacy import accounting, noise
from wattveil.privacy.accounting import RHO_UNITS, Composition
from wattveil.privacy.guarantee import Budget, Spend
from wattveil.privacy.mechanisms.contributions import Query
from wattveil.privacy.mechanisms.gaussian import Noisy, PrivateTable, release_sums
from wattveil.release.group_load import LoadShapes, load_shapes
from wattveil.release.kmeans import PrivateKMeans
from wattveil.release.queries import GroupLoadQueries
from wattveil.simulate import simulate_load_kw

LOAD_KW = simulate_load_kw(customers=40, seed=9)


class Meter:
    """Records requested scales and drawn noise, and adds up sensitivity^2 / (2 scale^2).

    Queries draw in the order in which they were charged.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.rho = Fraction(0)
        self.draws = 0
        self._squared: deque[int] = deque()
        scale, draw = accounting.noise_scale, noise.add_discrete_gaussian

        def requested(*, squared_sensitivity: int, rho_units: int) -> float:
            self._squared.append(squared_sensitivity)
            return scale(squared_sensitivity=squared_sensitivity, rho_units=rho_units)

        def drawn(exact: Ints, *, scale: float) -> Ints:
            self.rho += Fraction(self._squared.popleft()) / (2 * Fraction(scale) ** 2)
            self.draws += 1
            return draw(exact, scale=scale)

        patch.setattr(accounting, "noise_scale", requested)
        patch.setattr(noise, "add_discrete_gaussian", drawn)


def total(spends: tuple[Spend, ...]) -> Composition:
    """Add up a transcript."""
    return Composition(
        rho_units=sum(spend.rho_units for spend in spends),
        response_epsilon=sum(spend.response_epsilon for spend in spends),
        response_delta=sum(spend.response_delta for spend in spends),
        eta=sum(spend.eta for spend in spends),
    )


def shape() -> LoadShapes:
    """Release a load shape."""
    return load_shapes(np.full((60, 24), 0.5), clip_kw=1.0, epsilon=1.0, delta=0.5)


def run_clusters(budget: Budget, share: float) -> tuple[Spend, ...]:
    """Release clusters with a share of a budget and return what was charged."""
    table = PrivateTable(LocalRows(LOAD_KW), budget)
    PrivateKMeans(n_clusters=2)._release(table, budget, share=share)
    return budget.spends


def test_a_load_shape_spends_what_it_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transcript = grant, to the unit; the noise reveals no more; the guarantee follows."""
    meter = Meter(monkeypatch)
    released = shape()
    spent = total(released.spends)
    assert [spend.tag for spend in released.spends] == [
        "number of customers",
        "sizes",
        "customers by group",
        "sums of load",
    ]
    assert spent.rho_units == Budget(guarantee()).rho_units
    assert spent.delta(released.guarantee.epsilon) <= released.guarantee.delta
    assert meter.draws == len(released.spends)
    assert meter.rho * RHO_UNITS <= spent.rho_units
    assert meter.rho * RHO_UNITS >= spent.rho_units * (1 - Fraction(1, 10**12))  # nothing wasted


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_clusters_spend_what_they_declare(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The charges of all stages add up to the units declared, and the noise reveals no more."""
    meter = Meter(monkeypatch)
    budget = Budget(guarantee())
    spends = run_clusters(budget, share)
    assert len(spends) == meter.draws > 4
    assert total(spends).rho_units == budget.share(share)
    assert meter.rho * RHO_UNITS <= budget.share(share)
    assert meter.rho * RHO_UNITS >= budget.share(share) * (1 - Fraction(1, 10**12))
    assert total(spends).delta(1.0) <= 0.5


def test_a_double_spend_of_clusters_shows_in_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage that takes twice its units: the transcript is that much above the declaration."""
    meter = Meter(monkeypatch)
    own_units = plant_double_stage(monkeypatch)
    budget = Budget(guarantee())
    declared = budget.share(0.3)
    spent = total(run_clusters(budget, 0.3)).rho_units
    assert spent == declared + own_units[0] > declared
    assert meter.rho * RHO_UNITS > declared


def test_a_double_spend_beyond_the_grant_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The charge that exceeds the grant is refused before its noise is drawn."""
    meter = Meter(monkeypatch)
    plant_double_stage(monkeypatch)
    budget = Budget(guarantee())
    with pytest.raises(BudgetExceededError, match="rho_units"):
        run_clusters(budget, 1.0)
    # Of the two queries of a step the first may have been charged: neither has drawn.
    assert len(budget.spends) - 1 <= meter.draws <= len(budget.spends)
    assert total(budget.spends).rho_units <= budget.rho_units
    assert meter.rho * RHO_UNITS <= budget.rho_units


def test_queries_beyond_the_grant_draw_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven queries of twice their share: three charges fit, the fourth is refused, none draws."""
    meter = Meter(monkeypatch)
    budget = Budget(guarantee())
    units = 2 * budget.rho_units // 7
    queries = [Query(tag=f"query {i}", rho_units=units, n_cells=3) for i in range(7)]
    with pytest.raises(BudgetExceededError, match="rho_units"):
        release_sums(LocalRows(np.zeros(9, dtype=np.int64)), given_cells.bind(), queries, budget)
    assert (meter.draws, len(budget.spends)) == (0, 3)


def test_a_load_shape_that_forgets_its_first_charge_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sum requests the whole grant after the count has spent its share."""
    sums = GroupLoadQueries.sums

    def greedy(queries: GroupLoadQueries, *given: Any, rho_units: int) -> Noisy:  # noqa: ANN401, ARG001 - passed on; the fault
        return sums(queries, *given, rho_units=Budget(guarantee()).rho_units)

    monkeypatch.setattr(GroupLoadQueries, "sums", greedy)
    with pytest.raises(BudgetExceededError, match="rho_units"):
        shape()


def test_an_unrecorded_spend_shows_in_the_transcript(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count that is drawn and not charged: fewer charges than draws, and too much revealed."""
    meter = Meter(monkeypatch)
    charge = Budget.charge

    def forgetful(budget: Budget, spend: Spend) -> Spend:
        return spend if spend.tag == "number of customers" else charge(budget, spend)

    monkeypatch.setattr(Budget, "charge", forgetful)
    released = shape()
    assert len(released.spends) < meter.draws
    assert meter.rho * RHO_UNITS > total(released.spends).rho_units


def test_an_exchanged_share_shows_in_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charges that add up over noise that does not: the noise amounts to 1.44 times the grant."""
    faults.exchanged_share(monkeypatch)
    meter = Meter(monkeypatch)
    spent = total(shape().spends).rho_units
    assert spent == Budget(guarantee()).rho_units
    assert float(meter.rho * RHO_UNITS / spent) == pytest.approx(1.44, rel=1e-6)


def plant_double_stage(patch: pytest.MonkeyPatch) -> list[int]:
    """Let the last stage of clustering take twice its units; return the list of what it is due."""
    stage, due = kmeans_stages.refining_stage, list[int]()

    def doubled(*given: Any, units: int, **options: Any) -> tuple[Cells, Steps]:  # noqa: ANN401 - passed on
        due.append(units)
        return stage(*given, units=2 * units, **options)

    patch.setattr(kmeans_stages, "refining_stage", doubled)
    return due
