"""The four samplers of privacy/noise.py have the laws their docstrings state."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from tests.statistical.harness import (
    MARGIN,
    accepts,
    centre_p,
    counts_p,
    draws,
    gaussian_weight,
    independence_p,
    integer_law_p,
    laplace_cdf,
    laplace_weight,
    normal_cdf,
    normal_p,
    refuses,
    shape_p,
    tells,
    variance_p,
)
from wattveil.privacy import noise
from wattveil.privacy.sensitivity import FloatArray

AS_USED = 2.0**26.3  # grid steps, the order of magnitude of every mechanism


def test_discrete_gaussian_as_used_has_its_scale_and_shape() -> None:
    """At the scales in use the law is N(0, scale^2), centred, and every draw a fresh one."""
    sample = noise.discrete_gaussian(scale=AS_USED, size=draws(120_000)).astype(np.float64)
    tells(lambda factor: variance_p(sample, factor * AS_USED))
    tells(lambda factor: shape_p(sample, normal_cdf(factor * AS_USED)))
    refuses(shape_p(sample, laplace_cdf(AS_USED / math.sqrt(2.0))))  # equal variance
    accepts(centre_p(sample, AS_USED))
    refuses(centre_p(sample + MARGIN * AS_USED, AS_USED))
    accepts(independence_p(sample[1:], sample[:-1]))


@pytest.mark.parametrize("scale", [0.8, 2.5, 7.0])
def test_discrete_gaussian_of_small_scale_has_its_weights(scale: float) -> None:
    """P[k] is proportional to exp(-k^2 / (2 scale^2)), not to a rounded Gaussian's."""
    sample = noise.discrete_gaussian(scale=scale, size=draws(60_000))
    tells(lambda factor: integer_law_p(sample, gaussian_weight(factor * scale)))
    refuses(integer_law_p(sample, laplace_weight(scale / math.sqrt(2.0))))


def test_discrete_gaussian_is_not_the_rounded_one() -> None:
    """At scale 0.8 the two differ by 6 % in variance: the test sees which one is drawn."""
    sample = noise.discrete_gaussian(scale=0.8, size=draws(60_000))

    def rounded(k: FloatArray) -> FloatArray:
        upper, lower = stats.norm.cdf((k + 0.5) / 0.8), stats.norm.cdf((k - 0.5) / 0.8)
        return np.asarray(upper - lower, dtype=np.float64)

    accepts(integer_law_p(sample, gaussian_weight(0.8)))
    refuses(integer_law_p(sample, rounded))


@pytest.mark.parametrize("scale", [0.5, 2.0, 2.0**26.3])
def test_discrete_laplace_has_its_scale(scale: float) -> None:
    """P[k] is proportional to exp(-|k| / scale): the mean size has the expectation of that law."""
    sizes = np.abs(noise.discrete_laplace(scale=scale, size=draws(60_000))).astype(np.float64)
    tells(lambda factor: laplace_size_p(sizes, factor * scale))


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_discrete_laplace_of_small_scale_has_its_weights(scale: float) -> None:
    """Each integer has its probability, the negative ones as the positive ones."""
    sample = noise.discrete_laplace(scale=scale, size=draws(60_000))
    accepts(integer_law_p(sample, laplace_weight(scale)))
    refuses(integer_law_p(sample, laplace_weight(1.1 * scale)))
    refuses(integer_law_p(sample, laplace_weight(0.9 * scale)))
    refuses(integer_law_p(np.abs(sample), laplace_weight(scale)))
    refuses(integer_law_p(sample, gaussian_weight(scale * math.sqrt(2.0))))


def test_discrete_laplace_of_large_scale_has_its_shape() -> None:
    """At large scales the law is the continuous Laplace."""
    sample = noise.discrete_laplace(scale=AS_USED, size=draws(200_000)).astype(np.float64)
    tells(lambda factor: shape_p(sample, laplace_cdf(factor * AS_USED)))
    refuses(shape_p(sample, normal_cdf(AS_USED * math.sqrt(2.0))))
    accepts(independence_p(sample[1:], sample[:-1]))


@pytest.mark.parametrize("bound", [2, 3, 6, 7, 1000])
def test_uniform_below_a_small_bound_is_uniform(bound: int) -> None:
    """Every value is alike; one that is 5 % more likely than the others is seen."""
    sample = noise.uniform_below(bound=bound, size=draws(2_000_000))
    counts = np.bincount(sample, minlength=bound)
    uniform = np.full(bound, 1.0 / bound)
    tilted = uniform.copy()
    tilted[: (bound + 1) // 2] *= 1.0 + MARGIN  # the lower half
    assert sample.min() >= 0
    assert sample.max() < bound
    accepts(counts_p(counts, uniform.tolist()))
    refuses(counts_p(counts, (tilted / tilted.sum()).tolist()))
    refuses(counts_p(counts, (tilted[::-1] / tilted.sum()).tolist()))


@pytest.mark.parametrize("bound", [2**62, 3 * 2**61, 2**63 - 25, 5 * 10**18])
def test_uniform_below_a_large_bound_is_uniform(bound: int) -> None:
    """The highest and the lowest digits are uniform."""
    sample = noise.uniform_below(bound=bound, size=draws(1_000_000))
    assert sample.min() >= 0
    assert sample.max() < bound
    accepts(counts_p(np.bincount(sample // -(-bound // 64), minlength=64), [1.0 / 64] * 64))
    accepts(counts_p(np.bincount(sample % 64, minlength=64), [1.0 / 64] * 64))


@pytest.mark.parametrize("bound", [3 * 2**61, 5 * 10**18])
def test_uniform_below_draws_unfair_words_again(bound: int) -> None:
    """The law of plain ``word % bound``, where small values come once more, is refused."""
    sample = noise.uniform_below(bound=bound, size=draws(100_000))
    whole, rest = divmod(2**64, bound)
    edges = [bound * block // 64 for block in range(65)]
    biased = [((b - a) * whole + min(b, rest) - min(a, rest)) / 2**64 for a, b in pairwise(edges)]
    refuses(counts_p(np.bincount(sample // -(-bound // 64), minlength=64), biased))


@pytest.mark.parametrize(
    "probability", [Fraction(1, 3), Fraction(1, 50), Fraction(2**62 // 7, 2**62)]
)
def test_bernoulli_has_its_probability(probability: Fraction) -> None:
    """Coins come up with the rational probability asked for, each by itself."""
    coins = noise.bernoulli(probability=probability, size=draws(2_000_000))
    n, hits = coins.size, int(coins.sum())

    def p_value(factor: float) -> float:
        p = factor * float(probability)
        return normal_p((hits - n * p) / math.sqrt(n * p * (1.0 - p)))

    tells(p_value)
    accepts(independence_p(coins[1:].astype(np.float64), coins[:-1].astype(np.float64)))


@pytest.mark.parametrize(("probability", "always"), [(Fraction(0), False), (Fraction(1), True)])
def test_bernoulli_at_its_ends_is_certain(probability: Fraction, *, always: bool) -> None:
    """Probability 0 never comes up and 1 always does."""
    assert (noise.bernoulli(probability=probability, size=10_000) == always).all()


def laplace_size_p(sizes: FloatArray, scale: float) -> float:
    """Return the p-value of the mean of |k| under the discrete Laplace of this scale.

    With t = e^(-1/scale): E|k| = 2t / (1 - t^2) and E k^2 = 2t / (1 - t)^2.
    """
    t = math.exp(-1.0 / scale)
    mean, square = 2.0 * t / ((1.0 - t) * (1.0 + t)), 2.0 * t / (1.0 - t) ** 2
    deviation = math.sqrt((square - mean * mean) / sizes.size)
    return normal_p((float(sizes.mean()) - mean) / deviation)
