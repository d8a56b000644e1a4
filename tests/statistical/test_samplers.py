"""The samplers of privacy/noise.py have the laws that their docstrings state."""

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
    table_p,
    tells,
    variance_p,
)
from wattveil.arrays import Floats, Ints
from wattveil.privacy import noise

AS_USED = 2.0**26.3  # grid steps, the order of magnitude of every mechanism


def drawn(scale: float, size: int) -> Ints:
    """Return the noise that is added to exact integers, which are all different."""
    exact = 2**40 + 3 * np.arange(size)
    return noise.add_discrete_gaussian(exact, scale=scale) - exact


def test_discrete_gaussian_as_used_has_its_scale_and_shape() -> None:
    """At the scales in use the law is N(0, scale^2), centred, and every draw a fresh one."""
    sample = drawn(AS_USED, draws(120_000)).astype(np.float64)
    tells(lambda factor: variance_p(sample, factor * AS_USED))
    tells(lambda factor: shape_p(sample, normal_cdf(factor * AS_USED)))
    refuses(shape_p(sample, laplace_cdf(AS_USED / math.sqrt(2.0))))  # equal variance
    accepts(centre_p(sample, AS_USED))
    refuses(centre_p(sample + MARGIN * AS_USED, AS_USED))
    accepts(independence_p(sample[1:], sample[:-1]))


@pytest.mark.parametrize("scale", [0.8, 2.5, 7.0])
def test_discrete_gaussian_of_small_scale_has_its_weights(scale: float) -> None:
    """P[k] is proportional to exp(-k^2 / (2 scale^2)), not to a rounded Gaussian's."""
    sample = drawn(scale, draws(60_000))
    tells(lambda factor: integer_law_p(sample, gaussian_weight(factor * scale)))
    refuses(integer_law_p(sample, laplace_weight(scale / math.sqrt(2.0))))


def test_discrete_gaussian_is_not_the_rounded_one() -> None:
    """At scale 0.8 the two differ by 6 % in variance: the test detects which one is drawn."""
    sample = drawn(0.8, draws(60_000))

    def rounded(k: Floats) -> Floats:
        upper, lower = stats.norm.cdf((k + 0.5) / 0.8), stats.norm.cdf((k - 0.5) / 0.8)
        return np.asarray(upper - lower, dtype=np.float64)

    accepts(integer_law_p(sample, gaussian_weight(0.8)))
    refuses(integer_law_p(sample, rounded))


@pytest.mark.parametrize("bound", [2, 3, 6, 7, 1000])
def test_uniform_below_a_small_bound_is_uniform(bound: int) -> None:
    """All values are equally likely; one half that is 5 % more likely is detected."""
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


@pytest.mark.parametrize("bound", [2, 2**20, 2**62])
def test_keyed_below_is_uniform_for_names_and_keys(bound: int) -> None:
    """Under a fresh key each name has a uniform number, independent of other names and keys.

    Names differ in a few digits. The same key gives the same numbers, which is refused as a second
    sample.
    """
    names = [f"customer {i}" for i in range(draws(100_000))]
    first, second = (noise.fresh_bytes(64) for _ in range(2))
    n_parts = min(bound, 64)

    def parts(key: bytes) -> Ints:
        return noise.keyed_below(names, key=key, bound=bound) // (bound // n_parts)

    own = parts(first)
    counts = np.bincount(own, minlength=n_parts)
    tilted = np.repeat([1.0 + MARGIN, 1.0 - MARGIN], n_parts // 2) / n_parts
    accepts(counts_p(counts, [1.0 / n_parts] * n_parts))
    refuses(counts_p(counts, tilted.tolist()))
    refuses(counts_p(counts, tilted[::-1].tolist()))
    low = noise.keyed_below(names, key=first, bound=bound) % n_parts
    accepts(counts_p(np.bincount(low, minlength=n_parts), [1.0 / n_parts] * n_parts))
    accepts(table_p(own[1:] % 8, own[:-1] % 8))
    accepts(table_p(own % 8, parts(second) % 8))
    refuses(table_p(own % 8, parts(first) % 8))


@pytest.mark.parametrize(
    "probability", [Fraction(1, 3), Fraction(1, 50), Fraction(2**62 // 7, 2**62)]
)
def test_bernoulli_has_its_probability(probability: Fraction) -> None:
    """Draws are true with the rational probability requested, independently of each other."""
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
