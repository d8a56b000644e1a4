"""Every mechanism of the kernel on two neighbouring data sets, each on its worst pair."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from tests.series_periods import Series, even_allowances, remembering
from tests.statistical.harness import guarantee, one_hot
from tests.statistical.releases import (
    instance_guarantee,
    label_budget,
    noisy_answer,
    noisy_counts,
    noisy_modulo,
    noisy_sums,
    randomised_response,
)
from tests.statistical.transcripts import shape_transcript
from wattveil.arrays import Floats, Ints
from wattveil.lab.audit.epsilon_bounds import PairedRelease
from wattveil.privacy.guarantee import Budget, Neighbours
from wattveil.privacy.mechanisms.contributions import NO_DATA
from wattveil.privacy.mechanisms.gaussian_answer import Ellipsoid

ZERO_OUT, REPLACE_ONE = Neighbours.ZERO_OUT, Neighbours.REPLACE_ONE
SHEAR = np.array([[1.0, 3.0], [0.0, 1.0]])
K = 4


def of_sum(
    x: ArrayLike, y: ArrayLike, neighbours: Neighbours, *, cells: tuple[int, int] = (0, 0)
) -> PairedRelease:
    """Rows ``x`` in one cell against rows ``y`` in another, of two; no rows are data too."""
    claim = guarantee(neighbours=neighbours)
    budget = Budget(claim)
    rows = (np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    n_cells = max(cells) + 1

    def run(neighbour: bool) -> Floats:  # noqa: FBT001 - X or X'
        own = np.full(len(rows[neighbour]), cells[neighbour])
        return noisy_sums(rows[neighbour], budget, cells=own, n_cells=n_cells).value.ravel()

    return PairedRelease(name=f"sum, {neighbours}", claim=claim, run=run)


def of_cells(
    mechanism: Callable[[Ints, Budget], Floats],
    y: list[int],
    neighbours: Neighbours,
    delta: float,
    *,
    x: tuple[int, ...] = (0, 0, 1),
) -> PairedRelease:
    """Three customers in the cells, or with the labels, ``x`` against ``y``."""
    claim = guarantee(delta=delta, neighbours=neighbours)
    budget = Budget(claim, response_epsilon=0.0 if delta else claim.epsilon)
    cells = (np.array(x), np.array(y))
    return PairedRelease(
        name=f"{mechanism.__name__}, {neighbours}",
        claim=claim,
        run=lambda neighbour: mechanism(cells[neighbour], budget),
        runs=4_000 if delta else 6_000,
    )


def histogram(cells: Ints, budget: Budget) -> Floats:
    """Gaussian counts."""
    return noisy_counts(cells, 2, budget).value


def response(labels: Ints, budget: Budget) -> Floats:
    """The label of customer 0, alone and together with that of the known customer 1."""
    released = randomised_response(labels, K, budget)
    return one_hot([released[0], (released[0] - released[1]) % K], K)


def of_answer() -> PairedRelease:
    """An answer and another, at the largest distance that the ellipsoid permits."""
    claim = instance_guarantee()
    budget = Budget(claim)
    # The direction that W'^-1 stretches most: it shows a transposed factor.
    worst = np.linalg.svd(np.linalg.inv(SHEAR.T) @ SHEAR)[2][0]
    ellipsoid = Ellipsoid(shape=SHEAR)
    answers = (np.array([5.0, -7.0]), np.array([5.0, -7.0]) + SHEAR @ worst)
    return PairedRelease(
        name="answer",
        claim=claim,
        run=lambda neighbour: noisy_answer(answers[neighbour], ellipsoid, budget).value,
    )


def of_modulo() -> PairedRelease:
    """Five unstable labels, all of them changed by one removal; one stable."""
    claim = instance_guarantee(epsilon=1.0, delta=0.1)
    budget = label_budget(claim)
    labels = (np.array([0, 1, 2, 3, 0, 0]), np.array([1, 2, 3, 0, 1, 0]))

    def run(neighbour: bool) -> Floats:  # noqa: FBT001 - X or X'
        released = noisy_modulo(
            labels[neighbour], np.arange(5), changed=5, n_labels=K, budget=budget
        )
        return one_hot(released, K)

    return PairedRelease(name="modulo labels", claim=claim, run=run)


def of_shape(load_kw: float) -> PairedRelease:
    """Sixty customers of 0.2 kW and one of ``load_kw``, against the sixty alone; clip 1 kW."""
    claim = guarantee()
    alone = np.full((60, 2), 0.2)
    loads = (np.vstack((alone, np.full(2, load_kw))), alone)

    def run(neighbour: bool) -> Floats:  # noqa: FBT001 - X or X'
        recorded = shape_transcript(
            loads[neighbour],
            epsilon=claim.epsilon,
            delta=claim.delta,
            clip_kw=1.0,
            plausible_kw=(0.1, 1.6),
        )
        return np.concatenate([totals.value.ravel() for totals in recorded])

    return PairedRelease(name=f"mean load shape, {load_kw:g} kW", claim=claim, run=run, runs=1_000)


def of_series(*loads: float) -> PairedRelease:
    """One customer with these features over the periods of a series, against none of it.

    A second customer is in both. All periods are observed.
    """
    claim = guarantee()
    periods = len(loads)

    def run(neighbour: bool) -> Floats:  # noqa: FBT001 - X or X'
        series = Series(
            budget=Budget(claim),
            allowances=even_allowances(periods),
            feedback=remembering(periods),
            n_features=1,
        )
        found = []
        for period, load in enumerate(loads):
            present: dict[str, tuple[int, list[float]]] = {"known": (0, [0.3])}
            if not neighbour:
                present["target"] = (0, [load])
            found.append(series.add(period, present).publish().value.ravel())
        return np.concatenate(found)

    return PairedRelease(name=f"series of {periods}", claim=claim, run=run, runs=900)


NO_ROWS = np.zeros((0, 2))

CASES: dict[str, Callable[[], PairedRelease]] = {
    "sum": lambda: of_sum([[0.6, 0.8]], NO_ROWS, ZERO_OUT),
    "sum, far": lambda: of_sum([[6e8, 8e8]], NO_ROWS, ZERO_OUT),
    "sum, replaced": lambda: of_sum([[6e8, 8e8]], [[-0.6, -0.8]], REPLACE_ONE),
    "sum by cells": lambda: of_sum([[0.6, 0.8]], NO_ROWS, ZERO_OUT, cells=(1, 1)),
    "sum by cells, far": lambda: of_sum([[-6e8, 8e8]], NO_ROWS, ZERO_OUT, cells=(1, 1)),
    "histogram": lambda: of_cells(histogram, [NO_DATA, 0, 1], ZERO_OUT, 0.5),
    "histogram, replaced": lambda: of_cells(histogram, [1, 0, 1], REPLACE_ONE, 0.5),
    "response": lambda: of_cells(response, [NO_DATA, 0, 1], ZERO_OUT, 0.0),
    "response, replaced": lambda: of_cells(response, [1, 0, 1], REPLACE_ONE, 0.0),
    "answer": of_answer,
    "modulo": of_modulo,
    "series": lambda: of_series(1e9, -1e9, 1e9),
    "mean load shape": lambda: of_shape(1.0),
    "mean load shape, far": lambda: of_shape(1e9),
}
