"""Coloured noise has the covariance that is stated with it, all of it.

To draw many vectors at once, copies of a 4 x 4 factor W stand side by side in a block-diagonal
matrix: each block of the released vector is one sample of the coloured noise.
"""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.linalg import block_diag

from tests.statistical.harness import (
    MARGIN,
    accepts,
    covariance_p,
    draws,
    independence_p,
    promise,
    refuses,
    renew,
    s_of,
)
from wattveil.privacy.budget import Budget
from wattveil.privacy.mechanisms.gaussian import NoisyVector, gaussian_answer, gaussian_sum
from wattveil.privacy.secret import Secret
from wattveil.privacy.sensitivity import Ellipsoid

# Sheared and stretched, so that W W', W' W and a multiple of the identity are far apart.
FACTOR = np.array(
    [[2.0, 0.0, 0.0, 0.0], [1.5, 1.0, 0.0, 0.0], [0.0, -0.4, 0.5, 0.0], [0.3, 0.0, 0.2, 0.1]]
)
COPIES = 64
ROUNDS = draws(640)
REGION = Ellipsoid(shape=block_diag(*[FACTOR] * COPIES))


def of_sum(budget: Budget) -> NoisyVector:
    """Release the sum of one row of zeros."""
    return gaussian_sum(
        Secret(np.zeros((1, 4 * COPIES))),
        region=REGION,
        rho_units=budget.rho_units,
        budget=renew(budget),
        tag="sum",
    ).value


def of_answer(budget: Budget) -> NoisyVector:
    """Release an answer of zeros."""
    return gaussian_answer(
        Secret(np.zeros(4 * COPIES)),
        differences=REGION,
        rho_units=budget.rho_units,
        budget=renew(budget),
        tag="answer",
    ).value


@pytest.mark.usefixtures("constants_once")
@pytest.mark.parametrize("release", [of_sum, of_answer])
def test_coloured_noise_has_its_covariance(release: Callable[[Budget], NoisyVector]) -> None:
    """W W' / s^2 is accepted; another colour of equal trace, a transposed factor and one axis that
    is 5 % too short or too long are refused, on the same sample.
    """
    budget = Budget(promise())
    released = [release(budget) for _ in range(ROUNDS)]
    sample = np.array([vector.value for vector in released]).reshape(-1, 4)
    s = s_of(budget.rho_units)
    covariance = FACTOR @ FACTOR.T / s**2
    accepts(covariance_p(sample, covariance))

    white = np.eye(4) * np.trace(covariance) / 4.0
    refuses(covariance_p(sample, white))
    refuses(covariance_p(sample, FACTOR.T @ FACTOR / s**2))
    refuses(covariance_p(sample, np.diag(np.diag(covariance))))
    sizes, axes = np.linalg.eigh(covariance)
    for axis in range(4):
        for factor in (1.0 - MARGIN, 1.0 + MARGIN):
            wrong = sizes * np.where(np.arange(4) == axis, factor**2, 1.0)
            refuses(covariance_p(sample, (axes * wrong) @ axes.T))

    stated = released[0].covariance
    blocks = stated.reshape(COPIES, 4, COPIES, 4)
    same = np.arange(COPIES)
    assert blocks[same, :, same, :] == pytest.approx(np.stack([covariance] * COPIES), rel=1e-5)
    assert np.count_nonzero(blocks) == COPIES * np.count_nonzero(covariance)
    assert released[0].std == pytest.approx(np.sqrt(np.diag(stated)), rel=1e-12)


def test_whitened_coordinates_are_independent() -> None:
    """The released integers have no colour at all, within a release and across releases."""
    budget = Budget(promise())
    steps = np.array([of_sum(budget).steps for _ in range(draws(160))], dtype=np.float64)
    accepts(independence_p(steps[:, 1:].ravel(), steps[:, :-1].ravel()))
    accepts(independence_p(steps[1:].ravel(), steps[:-1].ravel()))
