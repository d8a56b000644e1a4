"""Every mechanism of the kernel in two worlds, each on its worst pair."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from tests.counting import gaussian_histogram
from tests.responding import randomised_response
from tests.statistical.harness import one_hot, promise, renew
from tests.statistical.transcripts import shape_transcript
from wattveil.evaluation.audit_two_worlds import TwoWorlds
from wattveil.privacy.budget import Budget
from wattveil.privacy.guarantee import Neighbours, Tier
from wattveil.privacy.mechanisms.cells import NO_DATA
from wattveil.privacy.mechanisms.gaussian import (
    gaussian_answer,
    gaussian_sum,
)
from wattveil.privacy.mechanisms.modulo import modulo_labels
from wattveil.privacy.mechanisms.moments import gaussian_second_moment
from wattveil.privacy.mechanisms.quantile import noisy_quantile
from wattveil.privacy.secret import Secret
from wattveil.privacy.sensitivity import Ball, Box, Ellipsoid, FloatArray, IntArray, Region

ZERO_OUT, REPLACE_ONE = Neighbours.ZERO_OUT, Neighbours.REPLACE_ONE
SHEAR = np.array([[1.0, 3.0], [0.0, 1.0]])
K = 4


def of_sum(region: Region, x: ArrayLike, y: ArrayLike, neighbours: Neighbours) -> TwoWorlds:
    """Rows ``x`` against rows ``y``; no rows are data too."""
    claim = promise(neighbours=neighbours)
    budget = Budget(claim)
    rows = (Secret(np.asarray(x, dtype=np.float64)), Secret(np.asarray(y, dtype=np.float64)))

    def run(neighbour: bool) -> FloatArray:  # noqa: FBT001 - X or X'
        released = gaussian_sum(
            rows[neighbour],
            region=region,
            rho_units=budget.rho_units,
            budget=renew(budget),
            tag="sum",
        )
        return released.value.value

    return TwoWorlds(name=f"sum, {type(region).__name__}, {neighbours}", claim=claim, run=run)


def of_moment(x: ArrayLike, y: ArrayLike, neighbours: Neighbours) -> TwoWorlds:
    """Second moments within radius 2."""
    claim = promise(neighbours=neighbours)
    budget = Budget(claim)
    rows = (Secret(np.asarray(x, dtype=np.float64)), Secret(np.asarray(y, dtype=np.float64)))
    upper = np.triu_indices(2)

    def run(neighbour: bool) -> FloatArray:  # noqa: FBT001 - X or X'
        released = gaussian_second_moment(
            rows[neighbour],
            radius=2.0,
            rho_units=budget.rho_units,
            budget=renew(budget),
            tag="second moment",
        )
        return released.value.value[upper]

    return TwoWorlds(name=f"second moment, {neighbours}", claim=claim, run=run)


def of_cells(
    mechanism: Callable[[IntArray, Budget], FloatArray],
    y: list[int],
    neighbours: Neighbours,
    delta: float,
    *,
    x: tuple[int, ...] = (0, 0, 1),
) -> TwoWorlds:
    """Three customers in the cells, or with the labels, ``x`` against ``y``."""
    claim = promise(delta=delta, neighbours=neighbours)
    budget = Budget(claim, response_epsilon=0.0 if delta else claim.epsilon)
    cells = (np.array(x), np.array(y))
    return TwoWorlds(
        name=f"{mechanism.__name__}, {neighbours}",
        claim=claim,
        run=lambda neighbour: mechanism(cells[neighbour], renew(budget)),
        runs=4_000 if delta else 6_000,
    )


def histogram(cells: IntArray, budget: Budget) -> FloatArray:
    """Gaussian counts."""
    released = gaussian_histogram(
        Secret(cells), n_cells=2, rho_units=budget.rho_units, budget=budget, tag="cells"
    )
    return released.value.value


def response(labels: IntArray, budget: Budget) -> FloatArray:
    """The label of customer 0, alone and beside the known customer 1."""
    released = randomised_response(
        Secret(labels), n_labels=K, epsilon=budget.guarantee.epsilon, budget=budget, tag="labels"
    ).value
    return one_hot([released[0], (released[0] - released[1]) % K], K)


def of_answer() -> TwoWorlds:
    """An answer and another, as far away as the ellipsoid lets it be."""
    claim = promise()
    budget = Budget(claim)
    # The direction that W'^-1 stretches most: a transposed factor would show there.
    worst = np.linalg.svd(np.linalg.inv(SHEAR.T) @ SHEAR)[2][0]
    region = Ellipsoid(shape=SHEAR)
    answers = (np.array([5.0, -7.0]), np.array([5.0, -7.0]) + SHEAR @ worst)

    def run(neighbour: bool) -> FloatArray:  # noqa: FBT001 - X or X'
        released = gaussian_answer(
            Secret(answers[neighbour]),
            differences=region,
            rho_units=budget.rho_units,
            budget=renew(budget),
            tag="answer",
        )
        return released.value.value

    return TwoWorlds(name="answer", claim=claim, run=run)


def of_modulo() -> TwoWorlds:
    """Five unstable labels, all of them changed by one removal; one stable."""
    claim = promise(epsilon=1.0, delta=0.1, tier=Tier.INSTANCE)
    budget = Budget(claim, response_epsilon=1.0, response_delta=0.1)
    labels = (np.array([0, 1, 2, 3, 0, 0]), np.array([1, 2, 3, 0, 1, 0]))

    def run(neighbour: bool) -> FloatArray:  # noqa: FBT001 - X or X'
        released = modulo_labels(
            Secret(labels[neighbour]),
            unstable=Secret(np.arange(5)),
            changed=5,
            n_labels=K,
            epsilon=1.0,
            delta=0.1,
            budget=renew(budget),
            tag="labels",
        )
        return one_hot(released.value, K)

    return TwoWorlds(name="modulo labels", claim=claim, run=run)


def of_quantile() -> TwoWorlds:
    """The only customer, at the upper end, against nobody: every step leans the same way.

    The steps show signs alone, less than the noise allows: the claim is one where that is enough.
    """
    claim = promise(epsilon=0.5, delta=0.2)
    budget = Budget(claim)
    values = (np.array([1.0]), np.array([]))

    def run(neighbour: bool) -> FloatArray:  # noqa: FBT001 - X or X'
        released = noisy_quantile(
            Secret(values[neighbour]),
            quantile=0.5,
            interval=(0.0, 1.0),
            n_steps=3,
            rho_units=budget.rho_units,
            budget=renew(budget),
            tag="quantile",
        )
        return one_hot([int(released.value * 8)], 8)

    return TwoWorlds(name="quantile", claim=claim, run=run, runs=6_000)


def of_shape(load_kw: float) -> TwoWorlds:
    """Sixty customers of 0.2 kW and one of ``load_kw``, against the sixty alone; clip 1 kW."""
    claim = promise()
    alone = np.full((60, 2), 0.2)
    loads = (np.vstack((alone, np.full(2, load_kw))), alone)

    def run(neighbour: bool) -> FloatArray:  # noqa: FBT001 - X or X'
        heard = shape_transcript(
            loads[neighbour],
            epsilon=claim.epsilon,
            delta=claim.delta,
            clip_kw=1.0,
            plausible_kw=(0.1, 1.6),
        )
        return np.concatenate([vector.value for vector in heard])

    return TwoWorlds(name=f"mean load shape, {load_kw:g} kW", claim=claim, run=run, runs=1_000)


BALL = Ball(radius=1.0)
BOX = Box(low=(-1.0, -3.0), high=(2.0, 1.0))
NOBODY = np.zeros((0, 2))

CASES: dict[str, Callable[[], TwoWorlds]] = {
    "ball": lambda: of_sum(BALL, [[0.6, 0.8]], NOBODY, ZERO_OUT),
    "ball, far": lambda: of_sum(BALL, [[6e8, 8e8]], NOBODY, ZERO_OUT),
    "ball, replaced": lambda: of_sum(BALL, [[6e8, 8e8]], [[-0.6, -0.8]], REPLACE_ONE),
    "box": lambda: of_sum(BOX, [[2.0, -3.0]], NOBODY, ZERO_OUT),
    "box, replaced": lambda: of_sum(BOX, [[1e9, -1e9]], [[-1e9, 1e9]], REPLACE_ONE),
    "ellipsoid": lambda: of_sum(Ellipsoid(shape=SHEAR), [[4e6, 1e6]], NOBODY, ZERO_OUT),
    "second moment": lambda: of_moment([[120.0, 160.0]], NOBODY, ZERO_OUT),
    "second moment, replaced": lambda: of_moment([[2.0, 0.0]], [[0.0, 2.0]], REPLACE_ONE),
    "histogram": lambda: of_cells(histogram, [NO_DATA, 0, 1], ZERO_OUT, 0.5),
    "histogram, replaced": lambda: of_cells(histogram, [1, 0, 1], REPLACE_ONE, 0.5),
    "response": lambda: of_cells(response, [NO_DATA, 0, 1], ZERO_OUT, 0.0),
    "response, replaced": lambda: of_cells(response, [1, 0, 1], REPLACE_ONE, 0.0),
    "answer": of_answer,
    "modulo": of_modulo,
    "quantile": of_quantile,
    "mean load shape": lambda: of_shape(1.0),
    "mean load shape, far": lambda: of_shape(1e9),
}
