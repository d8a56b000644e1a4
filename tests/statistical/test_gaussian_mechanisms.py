"""The noise of the Gaussian mechanisms has the scale that the guarantee needs, neither 5 % less nor
5 % more, and the scale they report is that scale.
"""

import math

import numpy as np
import pytest

from tests.series_periods import Series, even_allowances, remembering
from tests.statistical.harness import (
    MARGIN,
    accepts,
    centre_p,
    draws,
    guarantee,
    independence_p,
    normal_cdf,
    s_of,
    shape_p,
    tells,
    variance_p,
)
from tests.statistical.releases import instance_guarantee, noisy_answer, noisy_counts, noisy_sums
from tests.statistical.transcripts import shape_transcript
from wattveil.arrays import Floats
from wattveil.privacy.guarantee import Budget, Neighbours
from wattveil.privacy.mechanisms.contributions import NO_DATA
from wattveil.privacy.mechanisms.gaussian_answer import Ellipsoid
from wattveil.release import group_load

WIDE = draws(40_000)
ZERO_OUT, REPLACE_ONE = Neighbours.ZERO_OUT, Neighbours.REPLACE_ONE


def tells_scale(noise: Floats, scale: float, *, margin: float = MARGIN) -> None:
    """The noise is N(0, scale^2), and a scale 5 % smaller or 5 % larger is refused."""
    tells(lambda factor: variance_p(noise, factor * scale), margin=margin)
    accepts(centre_p(noise, scale))
    accepts(shape_p(noise, normal_cdf(scale)))


@pytest.mark.parametrize(("neighbours", "sensitivity"), [(ZERO_OUT, 1.0), (REPLACE_ONE, 2.0)])
def test_sum(neighbours: Neighbours, sensitivity: float) -> None:
    """Noise scale 1 / s when a customer may be removed, 2 / s when it may be replaced.

    The only customer has features of length 0, so that what is released is the noise.
    """
    budget = Budget(guarantee(neighbours=neighbours))
    scale = sensitivity / s_of(budget.rho_units)
    released = noisy_sums(np.zeros((1, WIDE)), budget)
    tells_scale(released.value.ravel(), scale)
    assert released.std == pytest.approx(scale, rel=1e-6)


def test_sum_of_rows_is_the_clipped_sum_and_noise() -> None:
    """The noise around the exact sum of clipped rows is the same as around zero."""
    rows = np.zeros((3, WIDE))
    rows[0, :9] = 1.0 / 3.0  # length 1: inside
    rows[1, 9:18] = 1e9  # clipped to 1/3 each
    clipped = (np.arange(WIDE) < 18) / 3.0
    budget = Budget(guarantee())
    tells_scale(noisy_sums(rows, budget).value.ravel() - clipped, 1.0 / s_of(budget.rho_units))
    # One sum is below the noise; the sum of a million customers is far above it.
    many = np.repeat([[0.6, 0.8]], 1_000_000, axis=0)
    assert noisy_sums(many, budget).value == pytest.approx(np.array([[0.6e6, 0.8e6]]), abs=100.0)


@pytest.mark.parametrize(("neighbours", "sensitivity"), [(ZERO_OUT, 1.0), (REPLACE_ONE, 2.0)])
def test_sum_by_cells(neighbours: Neighbours, sensitivity: float) -> None:
    """All cells have the noise of one sum: a customer is in one cell, before and after."""
    budget = Budget(guarantee(neighbours=neighbours))
    n_cells, n_features = 200, WIDE // 200
    cells = np.repeat([0, 7, NO_DATA], 2)
    rows = np.zeros((cells.size, n_features))
    rows[:, 3] = [0.25, 1e9, -0.5, -1.0, 1.0, math.nan]
    exact = np.zeros((n_cells, n_features))
    exact[0, 3], exact[7, 3] = 1.25, -1.5
    released = noisy_sums(rows, budget, cells=cells, n_cells=n_cells)
    scale = sensitivity / s_of(budget.rho_units)
    tells_scale((released.value - exact).ravel(), scale)
    assert released.std == pytest.approx(scale, rel=1e-6)
    # Each customer is added to its own cell: visible with 1,000 copies of each.
    many = noisy_sums(
        np.repeat(rows, 1_000, axis=0), budget, cells=np.repeat(cells, 1_000), n_cells=n_cells
    )
    assert many.value == pytest.approx(1e3 * exact, abs=100.0)


def test_sums_of_a_series() -> None:
    """Noise scale 1 / s in every period: what a customer may add is divided, not the noise."""
    budget = Budget(guarantee())
    series = Series(
        budget=budget,
        allowances=even_allowances(3),
        feedback=remembering(3),
        n_features=WIDE // 2,
    )
    noise = []
    for period in (0, 2):
        released = series.add(period, {"one": (0, [0.0] * (WIDE // 2))}).publish()
        noise.append(released.value.ravel())
        assert released.std == pytest.approx(1.0 / s_of(budget.rho_units), rel=1e-6)
    tells_scale(np.concatenate(noise), 1.0 / s_of(budget.rho_units))


@pytest.mark.parametrize(("neighbours", "squared"), [(ZERO_OUT, 1.0), (REPLACE_ONE, 2.0)])
def test_histogram(neighbours: Neighbours, squared: float) -> None:
    """Noise scale 1 / s customers, sqrt 2 / s when one may move to another cell."""
    budget = Budget(guarantee(neighbours=neighbours))
    cells = np.arange(WIDE) // 2  # two customers in each cell of the lower half
    released = noisy_counts(cells, WIDE, budget)
    counts = 2.0 * (np.arange(WIDE) < WIDE // 2)
    scale = math.sqrt(squared) / s_of(budget.rho_units)
    tells_scale(released.value - counts, scale)
    assert released.std == pytest.approx(scale, rel=1e-6)


@pytest.mark.usefixtures("repeated_runs")
@pytest.mark.parametrize(
    "neighbours", [pytest.param(ZERO_OUT, marks=pytest.mark.long), REPLACE_ONE]
)
def test_count_is_a_histogram_of_one_cell(neighbours: Neighbours) -> None:
    """A count of all customers has noise scale 1 / s: who is replaced has no other cell to go."""
    budget = Budget(guarantee(neighbours=neighbours))
    customers = np.zeros(9, dtype=np.int64)
    noise = [noisy_counts(customers, 1, budget).value[0] - 9.0 for _ in range(draws(24_000))]
    tells_scale(np.array(noise), 1.0 / s_of(budget.rho_units))


@pytest.mark.usefixtures("cached_constants")
def test_answer() -> None:
    """In whitened coordinates the noise scale is 1 / s; rounding the answer adds under 1e-6."""
    budget = Budget(instance_guarantee())
    diagonal = np.geomspace(0.1, 10.0, 200)
    ellipsoid = Ellipsoid(shape=np.diag(diagonal))
    answer = np.linspace(-5.0, 5.0, 200)
    noise = [noisy_answer(answer, ellipsoid, budget).value - answer for _ in range(WIDE // 200)]
    tells_scale((np.array(noise) / diagonal).ravel(), 1.0 / s_of(budget.rho_units))


@pytest.mark.usefixtures("repeated_runs")
def test_load_shapes() -> None:
    """Each query has the noise of its own share of the grant."""
    claim = guarantee()
    s = s_of(Budget(claim).rho_units)
    load_kw = np.zeros((60, 12))  # so that what is released of the sums is the noise
    options = {"clip_kw": 1.0, "plausible_kw": (0.1, 1.6)}
    recorded = [
        shape_transcript(load_kw, epsilon=claim.epsilon, delta=claim.delta, **options)
        for _ in range(draws(2_000))
    ]
    total, sizes, counts, sums = (
        np.array([run[k].value.ravel() for run in recorded]) for k in range(4)
    )
    shares = (
        group_load.TOTAL_SHARE,
        group_load.SIZE_SHARE,
        group_load.COUNT_SHARE,
        group_load.SUMS_SHARE,
    )
    exact = (60.0, 60.0 * (np.arange(sizes.shape[1]) == 0), 60.0, 0.0)
    for k, released in enumerate((total, sizes, counts, sums)):
        wide = 3.0 if released.shape[1] == 1 else 1.0
        scale = 1.0 / (s * math.sqrt(shares[k]))
        tells_scale((released - exact[k]).ravel(), scale, margin=wide * MARGIN)
    accepts(independence_p(total[:, 0], counts[:, 0]))
    accepts(independence_p(counts[:, 0], sums[:, 0]))
    accepts(independence_p(sums[:, 0], sums[:, 3]))
