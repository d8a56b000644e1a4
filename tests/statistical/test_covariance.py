"""The noise of an answer has the whole covariance that is stated with it.

To draw many vectors at once, copies of a 4 x 4 factor W are the blocks of a block-diagonal
matrix: each block of the released vector is one sample of the noise.
"""

import numpy as np
import pytest
from scipy.linalg import block_diag

from tests.statistical.harness import (
    MARGIN,
    accepts,
    covariance_p,
    draws,
    independence_p,
    refuses,
    s_of,
)
from tests.statistical.releases import instance_guarantee, noisy_answer
from wattveil.privacy.guarantee import Budget
from wattveil.privacy.mechanisms.gaussian_answer import Ellipsoid, NoisyAnswer

# Sheared and stretched, so that W W', W' W and a multiple of the identity are far apart.
FACTOR = np.array(
    [[2.0, 0.0, 0.0, 0.0], [1.5, 1.0, 0.0, 0.0], [0.0, -0.4, 0.5, 0.0], [0.3, 0.0, 0.2, 0.1]]
)
COPIES = 64
ROUNDS = draws(640)
ELLIPSOID = Ellipsoid(shape=block_diag(*[FACTOR] * COPIES))

pytestmark = pytest.mark.usefixtures("cached_constants")


def answer_of_zeros(budget: Budget) -> NoisyAnswer:
    """Release an answer of zeros, so that what is released is the noise."""
    return noisy_answer(np.zeros(4 * COPIES), ELLIPSOID, budget)


def test_noise_of_an_answer_has_its_covariance() -> None:
    """W W' / s^2 is accepted; another matrix of equal trace, a transposed factor and one axis that
    is 5 % too short or too long are refused, on the same sample.
    """
    budget = Budget(instance_guarantee())
    released = [answer_of_zeros(budget) for _ in range(ROUNDS)]
    sample = np.array([answer.value for answer in released]).reshape(-1, 4)
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


def test_whitened_coordinates_are_independent() -> None:
    """The released integers are uncorrelated, within a release and across releases."""
    budget = Budget(instance_guarantee())
    steps = np.array([answer_of_zeros(budget).steps for _ in range(draws(160))], dtype=np.float64)
    accepts(independence_p(steps[:, 1:].ravel(), steps[:, :-1].ravel()))
    accepts(independence_p(steps[1:].ravel(), steps[:-1].ravel()))
