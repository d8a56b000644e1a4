"""Counts and sums with Gaussian noise: exact without it, the right scale of it, on the grid."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.single_queries import gaussian_histogram, given_cells, sum_of
from wattveil.engines.local import LocalRows
from wattveil.errors import BudgetExceededError, InvalidParameterError
from wattveil.privacy import noise
from wattveil.privacy.guarantee import Budget, Neighbours, Spend
from wattveil.privacy.mechanisms.contributions import BlockSums, BoundedTotals, Query
from wattveil.privacy.mechanisms.gaussian import (
    NoisyTotals,
    charge_gaussian,
    release_sums,
)
from wattveil.privacy.noise import NoiseSource
from wattveil.privacy.private_data import row_function

Ample = Callable[..., Budget]
Draws = list[tuple[str, float, int]]
RHO = 10**16  # 0.01


def simulated_rows() -> NDArray[np.float64]:
    """Return rows inside the unit ball."""
    return np.random.default_rng(7).uniform(-0.4, 0.4, size=(200, 2))


def test_sum_without_noise_is_the_sum(ample: Ample, silent: NoiseSource) -> None:
    """The value is the exact sum but for one grid step per customer."""
    rows = simulated_rows()
    with noise.simulate(silent):
        released = sum_of(rows, rho_units=RHO, budget=ample())
    assert released.value.shape == (1, 2)
    assert released.value.value == pytest.approx(rows.sum(axis=0)[None], abs=200 * 2.0**-25)


def test_long_rows_count_with_length_one(ample: Ample, silent: NoiseSource) -> None:
    """A customer of a thousand units counts as one of length 1."""
    rows = np.array([[1000.0, 0.0], [0.25, 0.0], [3e9, 0.0], [math.nan, 9.0]])
    with noise.simulate(silent):
        released = sum_of(rows, rho_units=RHO, budget=ample())
    assert released.value.value.tolist() == [[2.25, 0.0]]
    assert released.value.steps.tolist() == [9 * 2**23, 0]


def test_sums_by_cell_without_noise(ample: Ample, silent: NoiseSource) -> None:
    """Each cell has the sum of its customers; a customer without data is in none."""
    rows = np.array([[0.5, 0.0], [0.25, -0.5], [0.5, 0.5], [1.0, 0.0]])
    with noise.simulate(silent):
        released = sum_of(
            rows, cells=np.array([2, 0, 2, -1]), n_cells=3, rho_units=RHO, budget=ample()
        )
    assert released.value.value.tolist() == [[0.25, -0.5], [0.0, 0.0], [1.0, 0.5]]


def test_histogram_without_noise_counts(ample: Ample, silent: NoiseSource) -> None:
    """Counts are exact; a customer without data is in no cell; an empty cell counts 0."""
    cells = np.array([0, 2, 2, -1, 2, 0, -1])
    with noise.simulate(silent):
        released = gaussian_histogram(cells, n_cells=4, rho_units=RHO, budget=ample())
    assert released.value.value.tolist() == [2.0, 0.0, 3.0, 0.0]
    assert released.value.steps.tolist() == [2 * 2**25, 0, 3 * 2**25, 0]


@row_function
def two_queries(features: NDArray[np.float64]) -> tuple[NDArray[Any], ...]:
    """Return a cell for a count, then a cell and features for a sum."""
    ones = np.ones(len(features), dtype=np.int64)
    return ones, 0 * ones, features


def test_queries_of_one_pass_are_released_in_order(
    ample: Ample, silent: NoiseSource, recorded: Draws
) -> None:
    """Each has its own price, shape and noise; the noise of the first is drawn first."""
    queries = [
        Query(tag="n", rho_units=RHO, n_cells=3),
        Query(tag="x", rho_units=4 * RHO, n_cells=1, n_features=2),
    ]
    budget = ample()
    with noise.simulate(silent):
        count, total = release_sums(
            LocalRows(np.full((5, 2), 0.25)), two_queries.bind(), queries, budget
        )
    assert count.value.value.tolist() == [0.0, 5.0, 0.0]
    assert total.value.value.tolist() == [[1.25, 1.25]]
    assert (*count.spends, *total.spends) == budget.spends
    assert [(spend.tag, spend.mechanism, spend.rho_units) for spend in budget.spends] == [
        ("n", "gaussian_histogram", RHO),
        ("x", "gaussian_cell_sums", 4 * RHO),
    ]
    assert [(size, scale) for _, scale, size in recorded] == [
        (3, count.value.noise_scale),
        (2, total.value.noise_scale),
    ]
    assert count.value.noise_scale == pytest.approx(2.0 * total.value.noise_scale, rel=1e-15)


class Borrowing(LocalRows[NDArray[np.int64]]):  # type: ignore[misc]  # final, and wrong on purpose
    """An engine that returns totals which other sums computed."""

    def add_up(self, work: BlockSums) -> BoundedTotals:
        """Compute with sums of the same queries and functions, but not with ``work``."""
        assert isinstance(work, BlockSums)
        return super().add_up(BlockSums(work._queries, work._work))


def test_totals_that_an_engine_brings_along_are_refused(ample: Ample) -> None:
    """`release_sums` accepts what its own sums computed, and nothing else."""
    query = Query(tag="n", rho_units=RHO, n_cells=3)
    with pytest.raises(TypeError, match="not computed by this query"):
        release_sums(Borrowing(np.zeros(4, dtype=np.int64)), given_cells.bind(), [query], ample())


class Tripling(LocalRows[NDArray[np.int64]]):  # type: ignore[misc]  # final, and wrong on purpose
    """An engine that adds the totals of its rows three times."""

    def add_up(self, work: BlockSums) -> BoundedTotals:
        """Return three times what each customer contributes."""
        totals = super().add_up(work)
        return work.total([totals, totals, totals])


def test_an_engine_cannot_add_the_same_totals_twice(ample: Ample) -> None:
    """Each customer would contribute three times: nothing is released."""
    query = Query(tag="n", rho_units=RHO, n_cells=3)
    with pytest.raises(TypeError, match="were used before"):
        release_sums(Tripling(np.zeros(4, dtype=np.int64)), given_cells.bind(), [query], ample())


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("rho", [10**5, 10**13, 28014427209506479 // 3, 10**18])
def test_noise_scale_is_sensitivity_over_root_two_rho(
    ample: Ample, silent: NoiseSource, recorded: Draws, neighbours: Neighbours, rho: int
) -> None:
    """The scale is the smallest float with sensitivity^2 <= 2 rho sigma^2, by hand."""
    replace = neighbours is Neighbours.REPLACE_ONE
    budget = ample(neighbours)
    with noise.simulate(silent):
        sum_of(simulated_rows(), rho_units=rho, budget=budget)
        for n_cells in (1, 4):
            cells = np.zeros(3, dtype=np.int64)
            gaussian_histogram(cells, n_cells=n_cells, rho_units=rho, budget=budget)
    # A customer moves a count in one cell by one, in several by one in each of two.
    expected = [4**25 * (4 if replace else 1), 4**25, 4**25 * (2 if replace else 1)]
    assert [(kind, size) for kind, _, size in recorded] == [
        ("gaussian", size) for size in (2, 1, 4)
    ]
    for squared, (_, sigma, _), spend in zip(expected, recorded, budget.spends, strict=True):
        paid = 2 * Fraction(rho, 10**18)
        assert squared <= paid * Fraction(sigma) ** 2
        assert squared > paid * Fraction(math.nextafter(sigma, 0.0)) ** 2
        assert (spend.drawn["squared"], spend.drawn["scale"]) == (squared, sigma)


def test_a_count_has_the_noise_of_one_customer(ample: Ample) -> None:
    """One customer is one: the standard deviation of a count is 1 / sqrt(2 rho), not twice that."""
    counted = gaussian_histogram(np.array([0, 1]), n_cells=2, rho_units=10**15, budget=ample())
    assert counted.value.std == pytest.approx(1.0 / math.sqrt(2.0 * 1e-3), rel=1e-12)


@pytest.mark.parametrize("neighbours", Neighbours)
def test_every_released_number_is_on_the_grid(ample: Ample, neighbours: Neighbours) -> None:
    """With real noise: whole steps, and values that are exact multiples of the step."""
    budget = ample(neighbours)
    for released in (
        sum_of(simulated_rows(), rho_units=RHO, budget=budget),
        gaussian_histogram(np.arange(6), n_cells=6, rho_units=RHO, budget=budget),
    ):
        totals = released.publish()
        assert totals.steps.dtype == np.int64
        assert (totals.value.ravel() / 2.0**-25 == totals.steps).all()
        assert not totals.steps.flags.writeable


def test_values_are_steps_in_the_shape_of_the_query() -> None:
    """Value and standard deviation are in units of the contribution, not in steps."""
    totals = NoisyTotals(steps=np.arange(6) * 2**24, noise_scale=2.0**26, shape=(3, 2))
    assert totals.value.tolist() == [[0.0, 0.5], [1.0, 1.5], [2.0, 2.5]]
    assert totals.value.dtype == np.float64
    assert totals.std == 2.0
    assert NoisyTotals(steps=np.arange(3), noise_scale=1.0, shape=(3,)).value.shape == (3,)


@pytest.mark.parametrize("customers", [0, 1])
def test_an_empty_data_set_gets_the_same_kind_of_answer(ample: Ample, customers: int) -> None:
    """No customers are a valid data set: noise around zero, same shape, same price."""
    budget = ample()
    total = sum_of(np.zeros((customers, 3)), rho_units=RHO, budget=budget)
    cells = np.zeros(customers, dtype=np.int64)
    count = gaussian_histogram(cells, n_cells=2, rho_units=RHO, budget=budget)
    assert total.publish().value.shape == (1, 3)
    assert count.publish().value.shape == (2,)
    assert (total.value.steps != 0).any()
    assert [spend.rho_units for spend in budget.spends] == [RHO, RHO]


def test_spends_name_the_query_and_its_price(ample: Ample) -> None:
    """Tag, mechanism, units, eta and what was drawn are recorded with each charge."""
    budget = ample()
    released = sum_of(np.zeros((4, 9)), rho_units=RHO, budget=budget, tag="load")
    (spend,) = released.spends
    assert (spend.tag, spend.mechanism, spend.rho_units) == ("load", "gaussian_cell_sums", RHO)
    assert (spend.response_epsilon, spend.response_delta) == (0.0, 0.0)
    # D = 9 draws of sigma = 2^25 / sqrt(0.02): (9 + (3 + 40 + 0.1414)^2) / (24 sigma^2)
    expected = (9 + (43 + math.sqrt(0.02)) ** 2) / (24 * 4**25 / 0.02)
    assert spend.eta == pytest.approx(expected, rel=1e-9, abs=0.0)  # 1e-15: no absolute slack
    assert spend.drawn == {
        "numbers": 9,
        "squared": 4**25,
        "scale": released.value.noise_scale,
        "step": 2.0**-25,
    }
    counted = gaussian_histogram(np.arange(4), n_cells=4, rho_units=RHO, budget=budget)
    assert counted.spends[0].drawn["numbers"] == 4


def test_noise_is_added_to_the_exact_integers(ample: Ample) -> None:
    """Released minus exact is noise of the stated scale: above zero, below nine sigma."""
    exact = np.array([2**40, -(2**40), 0])
    noisy = noise.add_discrete_gaussian(exact, scale=2.0**20)
    assert exact.tolist() == [2**40, -(2**40), 0]
    assert (np.abs(noisy - exact) < 9 * 2**20).all()
    assert (noisy != exact).any()
    assert not noisy.flags.writeable
    assert ample().spends == ()


def test_the_noisy_sum_wraps_like_int64(silent: NoiseSource) -> None:
    """At the end of int64 nothing is raised: the result is the noisy sum modulo 2^64."""

    class One(NoiseSource):
        def discrete_gaussian(self, scale: float, size: int) -> NDArray[np.int64]:
            assert scale == 3.0
            return np.ones(size, dtype=np.int64)

    with noise.simulate(One()):
        wrapped = noise.add_discrete_gaussian(np.array([2**63 - 1, 5]), scale=3.0)
    assert wrapped.tolist() == [-(2**63), 6]
    with noise.simulate(silent):
        largest = noise.add_discrete_gaussian(np.array([2**63 - 1]), scale=3.0)
    assert largest.tolist() == [2**63 - 1]


@pytest.mark.parametrize("bad", [0, -1, 1.0, True, "1", None])
def test_bad_rho_is_named(ample: Ample, bad: object) -> None:
    """The price is a whole number of units, at least one; nothing is recorded."""
    budget = ample()
    with pytest.raises(InvalidParameterError, match="rho_units must be a whole number") as caught:
        sum_of(np.zeros((2, 2)), rho_units=bad, budget=budget)  # type: ignore[arg-type]
    assert caught.value.value is bad
    assert budget.spends == ()


def test_too_little_noise_is_refused(ample: Ample) -> None:
    """Below 1,024 steps of noise the proof about the grid does not hold; nothing is charged."""
    budget = ample()
    with pytest.raises(InvalidParameterError, match="noise of 1024 grid steps") as caught:
        sum_of(np.zeros((2, 2)), rho_units=10**27, budget=budget)
    assert (caught.value.field, caught.value.value) == ("rho_units", 10**27)
    assert budget.spends == ()


def test_exactly_enough_noise_is_limited_by_the_budget_alone(ample: Ample) -> None:
    """2^25 steps at rho = 2^29 get noise of 1,024 steps: accepted, but above the grant."""
    budget = ample()
    with pytest.raises(BudgetExceededError):
        sum_of(np.zeros((2, 2)), rho_units=2**29 * 10**18, budget=budget)
    assert budget.spends == ()


def test_too_much_noise_is_refused(ample: Ample) -> None:
    """A scale above 2^48 steps could meet the end of int64; nothing is charged."""
    budget = ample()
    with pytest.raises(InvalidParameterError, match="scale must be above 0 and at most"):
        sum_of(np.zeros((2, 2)), rho_units=1, budget=budget)
    assert budget.spends == ()


def test_charge_keeps_the_fields_of_the_spend(ample: Ample) -> None:
    """The charge has the tag, mechanism and units of the spend, and the noise that they buy."""
    budget = ample()
    requested = Spend(tag="own", mechanism="test", rho_units=RHO)
    scale, spend = charge_gaussian(requested, budget, squared_sensitivity=10**12, numbers=4)
    assert budget.spends == (spend,)
    assert (spend.tag, spend.mechanism, spend.rho_units) == ("own", "test", RHO)
    assert scale == spend.drawn["scale"] == pytest.approx(10**6 / math.sqrt(0.02), rel=1e-15)
    # D = 4, s = sqrt(2 rho) = sqrt(0.02), sigma^2 = 10^12 / 0.02
    expected = (4 + (42 + math.sqrt(0.02)) ** 2) / (24 * 10**12 / 0.02)
    assert spend.eta == pytest.approx(expected, rel=1e-9, abs=0.0)
