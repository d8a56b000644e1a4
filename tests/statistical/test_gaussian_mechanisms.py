"""The noise that Gaussian mechanisms add has the scale that their promise needs, neither 5 % less
nor 5 % more, and the scale they report is that scale.
"""

import math

import numpy as np
import pytest
from scipy import stats

from tests.counting import gaussian_histogram
from tests.statistical.harness import (
    MARGIN,
    accepts,
    centre_p,
    counts_p,
    draws,
    independence_p,
    normal_cdf,
    promise,
    refuses,
    renew,
    s_of,
    shape_p,
    tells,
    variance_p,
)
from tests.statistical.transcripts import shape_transcript
from wattveil.privacy.budget import Budget
from wattveil.privacy.guarantee import Neighbours
from wattveil.privacy.mechanisms import quantile
from wattveil.privacy.mechanisms.gaussian import (
    NoisyVector,
    gaussian_answer,
    gaussian_sum,
)
from wattveil.privacy.mechanisms.moments import gaussian_second_moment
from wattveil.privacy.mechanisms.quantile import noisy_quantile
from wattveil.privacy.secret import Released, Secret
from wattveil.privacy.sensitivity import Ball, Box, Ellipsoid, FloatArray, Region
from wattveil.release import shapes

WIDE = draws(40_000)
ZERO_OUT, REPLACE_ONE = Neighbours.ZERO_OUT, Neighbours.REPLACE_ONE


def tells_scale(noise: FloatArray, scale: float, *, margin: float = MARGIN) -> None:
    """The noise is N(0, scale^2) and its scale is told from 5 % less and 5 % more."""
    tells(lambda factor: variance_p(noise, factor * scale), margin=margin)
    accepts(centre_p(noise, scale))
    accepts(shape_p(noise, normal_cdf(scale)))


def noise_of_sum(region: Region, row: FloatArray, neighbours: Neighbours) -> NoisyVector:
    """Release one row of no length, so that what is released is the noise."""
    budget = Budget(promise(neighbours=neighbours))
    return gaussian_sum(
        Secret(np.atleast_2d(row)),
        region=region,
        rho_units=budget.rho_units,
        budget=budget,
        tag="sum",
    ).value


@pytest.mark.parametrize(("neighbours", "sensitivity"), [(ZERO_OUT, 3.0), (REPLACE_ONE, 6.0)])
def test_sum_in_a_ball(neighbours: Neighbours, sensitivity: float) -> None:
    """Noise scale r / s when a row may go, 2 r / s when it may be replaced."""
    scale = sensitivity / s_of(Budget(promise(neighbours=neighbours)).rho_units)
    released = noise_of_sum(Ball(radius=3.0), np.zeros(WIDE), neighbours)
    tells_scale(released.value, scale)
    assert released.noise_scale * released.region.step == pytest.approx(scale, rel=1e-6)


def test_sum_of_rows_is_the_clipped_sum_and_noise() -> None:
    """Around the exact sum of clipped rows the noise is the same as around nothing."""
    rows = np.zeros((3, WIDE))
    rows[0, :9] = 1.0  # length 3: inside
    rows[1, 9:18] = 1e9  # clipped to 1 each
    clipped = (np.arange(WIDE) < 18).astype(np.float64)
    budget = Budget(promise())
    released = gaussian_sum(
        Secret(rows), region=Ball(radius=3.0), rho_units=budget.rho_units, budget=budget, tag="sum"
    ).value
    scale = 3.0 / s_of(budget.rho_units)
    tells_scale(released.value - clipped, scale)
    # The sum itself is under the noise: seen here where it is known, over a million customers.
    many = np.repeat([[0.6, 0.8]], 1_000_000, axis=0)
    total = gaussian_sum(
        Secret(many),
        region=Ball(radius=1.0),
        rho_units=budget.rho_units,
        budget=renew(budget),
        tag="sum",
    ).value
    assert total.value == pytest.approx([0.6e6, 0.8e6], abs=100.0)


@pytest.mark.parametrize(("neighbours", "corner"), [(ZERO_OUT, 2.0), (REPLACE_ONE, 3.0)])
def test_sum_in_a_box(neighbours: Neighbours, corner: float) -> None:
    """Noise scale = longest corner / s, or diagonal / s; here sqrt(d) times one coordinate's."""
    region = Box(low=(-1.0,) * WIDE, high=(2.0,) * WIDE)
    scale = corner * math.sqrt(WIDE) / s_of(Budget(promise(neighbours=neighbours)).rho_units)
    released = noise_of_sum(region, np.zeros(WIDE), neighbours)
    tells_scale(released.value, scale)
    assert released.noise_scale * released.region.step == pytest.approx(scale, rel=1e-6)


@pytest.mark.parametrize(
    ("neighbours", "n_cells", "squared"),
    [(ZERO_OUT, WIDE, 1.0), (REPLACE_ONE, WIDE, 2.0)],
)
def test_histogram(neighbours: Neighbours, n_cells: int, squared: float) -> None:
    """Noise scale 1 / s customers, sqrt 2 / s when one may move to another cell."""
    budget = Budget(promise(neighbours=neighbours))
    cells = np.arange(n_cells) // 2  # two customers in each cell of the lower half
    released = gaussian_histogram(
        Secret(cells), n_cells=n_cells, rho_units=budget.rho_units, budget=budget, tag="cells"
    ).value
    counts = 2.0 * (np.arange(n_cells) < n_cells // 2)
    tells_scale(released.value - counts, math.sqrt(squared) / s_of(budget.rho_units))


@pytest.mark.usefixtures("many_runs")
def test_count_is_a_histogram_of_one_cell() -> None:
    """One cell cannot be left for another: the noise scale is 1 / s under replace-one too."""
    budget = Budget(promise(neighbours=REPLACE_ONE))
    noise = [
        gaussian_histogram(
            Secret(np.zeros(9, dtype=np.int64)),
            n_cells=1,
            rho_units=budget.rho_units,
            budget=renew(budget),
            tag="count",
        ).value.value[0]
        - 9.0
        for _ in range(draws(24_000))
    ]
    tells_scale(np.array(noise), 1.0 / s_of(budget.rho_units))


@pytest.mark.usefixtures("constants_once")
def test_answer() -> None:
    """In whitened coordinates the noise scale is 1 / s; rounding the answer adds under 1e-6."""
    budget = Budget(promise())
    diagonal = np.geomspace(0.1, 10.0, 200)
    region = Ellipsoid(shape=np.diag(diagonal))
    answer = np.linspace(-5.0, 5.0, 200)
    noise = [
        gaussian_answer(
            Secret(answer),
            differences=region,
            rho_units=budget.rho_units,
            budget=renew(budget),
            tag="answer",
        ).value.value
        - answer
        for _ in range(WIDE // 200)
    ]
    tells_scale((np.array(noise) / diagonal).ravel(), 1.0 / s_of(budget.rho_units))


@pytest.mark.usefixtures("many_runs")
@pytest.mark.parametrize(
    ("neighbours", "sensitivity"), [(ZERO_OUT, 4.0), (REPLACE_ONE, math.sqrt(2.0) * 4.0)]
)
def test_second_moment(neighbours: Neighbours, sensitivity: float) -> None:
    """Noise r^2 / s on the diagonal (sqrt 2 r^2 / s), sqrt 2 less off it, and symmetric."""
    budget = Budget(promise(neighbours=neighbours))
    columns, runs = 6, draws(2_000)
    diagonal = np.eye(columns, dtype=np.bool_)
    released = [
        gaussian_second_moment(
            Secret(np.zeros((1, columns))),
            radius=2.0,
            rho_units=budget.rho_units,
            budget=renew(budget),
            tag="second moment",
        ).value
        for _ in range(runs)
    ]
    noise = np.array([matrix.value for matrix in released])
    scale = sensitivity / s_of(budget.rho_units)
    expected = np.where(diagonal, scale, scale / math.sqrt(2.0))
    assert (noise == noise.transpose(0, 2, 1)).all()
    tells_scale((noise / expected)[:, np.triu(np.ones_like(diagonal))].ravel(), 1.0)
    on, off = noise[:, diagonal].ravel(), noise[:, np.triu(~diagonal)].ravel()
    accepts(variance_p(on, scale))
    refuses(variance_p(on, scale / math.sqrt(2.0)))
    accepts(variance_p(off, scale / math.sqrt(2.0)))
    refuses(variance_p(off, scale))
    assert released[0].std == pytest.approx(
        expected, rel=2e-4
    )  # the grid's part of the sensitivity


@pytest.mark.usefixtures("many_runs")
def test_quantile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step compares with noise max(q, 1-q) sqrt(steps) / s; where it ends follows from that.

    The noise of every step is told from 5 % less and more; the 8 ends, from 15 %.
    """
    budget = Budget(promise())
    values, q = np.array([0.1, 0.2, 0.3, 0.6] * 2), 0.9
    noises: list[float] = []

    def listening(
        rows: Secret[FloatArray], *, region: Region, rho_units: int, budget: Budget, tag: str
    ) -> Released[NoisyVector]:
        answer = gaussian_sum(rows, region=region, rho_units=rho_units, budget=budget, tag=tag)
        noises.append(float(answer.value.value[0] - rows.reveal().sum()))
        return answer

    monkeypatch.setattr(quantile, "gaussian_sum", listening)
    ends = np.zeros(8, dtype=np.int64)
    for _ in range(draws(8_000)):
        released = noisy_quantile(
            Secret(values),
            quantile=q,
            interval=(0.0, 1.0),
            n_steps=3,
            rho_units=budget.rho_units,
            budget=renew(budget),
            tag="quantile",
        )
        ends[int(released.value * 8)] += 1
    scale = max(q, 1.0 - q) * math.sqrt(3.0) / s_of(budget.rho_units)
    tells_scale(np.array(noises), scale)

    def law(factor: float) -> list[float]:
        chances = {0.5: 1.0}  # of being at a middle, from the first to the ends
        for width in (0.5, 0.25, 0.125):
            step: dict[float, float] = {}
            for middle, chance in chances.items():
                short = q * values.size - np.count_nonzero(values <= middle)
                up = float(stats.norm.cdf(short / (factor * scale)))
                step |= {middle - width / 2: chance * (1.0 - up), middle + width / 2: chance * up}
            chances = step
        return list(chances.values())

    tells(lambda factor: counts_p(ends, law(factor)), margin=3.0 * MARGIN)


@pytest.mark.usefixtures("many_runs")
def test_load_shapes() -> None:
    """Each ask carries the noise of its share of the grant, and of no other's."""
    claim = promise()
    s = s_of(Budget(claim).rho_units)
    load_kw = np.zeros((60, 12))  # so that what is released of the sums is the noise
    options = {"clip_kw": 1.0, "plausible_kw": (0.1, 1.6)}
    heard = [
        shape_transcript(load_kw, epsilon=claim.epsilon, delta=claim.delta, **options)
        for _ in range(draws(2_000))
    ]
    total, sizes, counts, sums = (np.array([run[k].value for run in heard]) for k in range(4))
    shares = (shapes.TOTAL_SHARE, shapes.SIZE_SHARE, shapes.COUNT_SHARE, shapes.SUMS_SHARE)
    exact = (60.0, 60.0 * (np.arange(sizes.shape[1]) == 0), 60.0, 0.0)
    for k, released in enumerate((total, sizes, counts, sums)):
        wide = 3.0 if released.shape[1] == 1 else 1.0
        scale = 1.0 / (s * math.sqrt(shares[k]))
        tells_scale((released - exact[k]).ravel(), scale, margin=wide * MARGIN)
    accepts(independence_p(total[:, 0], counts[:, 0]))
    accepts(independence_p(counts[:, 0], sums[:, 0]))
    accepts(independence_p(sums[:, 0], sums[:, 3]))
