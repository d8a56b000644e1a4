"""Decision rules of the tests of this folder: a sample, an expected law, `accepts` or `refuses`.

Every draw comes from the system's generator; there is no seed, so every run is a new experiment.

False alarms: `accepts` fails on a right law with probability `ALPHA` = 1e-6 (a little more or less
where the law of the test statistic is asymptotic), and so does `keeps_claim` of an audit. A run
makes under 200 such decisions: 2e-4. `refuses` and `exceeds_claim` fail when a planted fault
happens to look right. The sample sizes put each planted fault five standard deviations or more
beyond the point of decision (below 1e-6; most are beyond 7), under 300 decisions: 3e-4. So a run
of the whole folder raises a false alarm with probability below 1e-3.

WATTVEIL_SOAK=n multiplies every sample by n and divides `MARGIN` by sqrt(n): the same power, finer
faults.
"""

import math
import os
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from wattveil.arrays import Floats, Ints
from wattveil.privacy.accounting import RHO_UNITS
from wattveil.privacy.guarantee import Budget, Guarantee, Neighbours, Tier, Unit

ALPHA = 1e-6
SOAK = int(os.environ.get("WATTVEIL_SOAK", "1"))
MARGIN = 0.05 / math.sqrt(SOAK)
"""The relative error of a scale or a probability that must be refused on either side."""

_FEWEST_EXPECTED = 100.0  # in a cell, for the chi-square law to hold as far out as ALPHA


def draws(size: int) -> int:
    """Return a sample size, longer in a soak."""
    return size * SOAK


def accepts(p_value: float) -> None:
    """The sample is compatible with the law."""
    assert p_value >= ALPHA, f"a right law is refused: p = {p_value:.2g}"


def refuses(p_value: float) -> None:
    """The sample shows that the law is wrong."""
    assert p_value < ALPHA, f"a wrong law is accepted: p = {p_value:.2g}"


def tells(p_value: Callable[[float], float], *, margin: float = MARGIN) -> None:
    """On one sample, the factor 1 is accepted, a little less and a little more are both refused."""
    accepts(p_value(1.0))
    refuses(p_value(1.0 - margin))
    refuses(p_value(1.0 + margin))


# --- p-values ---------------------------------------------------------------------------------


def normal_p(z: float) -> float:
    """Return the two-sided p-value of a standard normal number."""
    return 2.0 * float(stats.norm.sf(abs(z)))


def variance_p(sample: Floats, scale: float) -> float:
    """Return the p-value of "independent N(0, scale^2)": chi-square of the second moment."""
    statistic = float(np.square(sample / scale).sum())
    law = stats.chi2(sample.size)
    return min(1.0, 2.0 * float(min(law.cdf(statistic), law.sf(statistic))))


def centre_p(sample: Floats, scale: float) -> float:
    """Return the p-value of "the mean is 0" for noise of this scale."""
    return normal_p(float(sample.mean()) / scale * math.sqrt(sample.size))


def shape_p(sample: Floats, cdf: Callable[[Floats], Floats]) -> float:
    """Return the p-value of a continuous law: Kolmogorov-Smirnov."""
    return float(stats.kstest(cdf(sample), "uniform").pvalue)


def counts_p(counts: Sequence[int] | Ints, probabilities: Sequence[float]) -> float:
    """Return the p-value of a multinomial law: chi-square, rare cells joined to their neighbour."""
    assert math.isclose(sum(probabilities), 1.0, rel_tol=1e-9)
    n = int(np.sum(counts))
    cells, filled = [[0.0, 0.0]], 0.0
    for count, probability in zip(counts, probabilities, strict=True):
        if cells[-1][1] >= _FEWEST_EXPECTED and filled < n - _FEWEST_EXPECTED:
            cells.append([0.0, 0.0])
        cells[-1][0] += count
        cells[-1][1] += n * probability
        filled += n * probability
    observed, expected = np.array(cells).T
    statistic = float((np.square(observed - expected) / expected).sum())
    return float(stats.chi2.sf(statistic, expected.size - 1))


def integer_law_p(sample: Ints, weight: Callable[[Floats], Floats]) -> float:
    """Return the p-value of an integer law given by its unnormalised weights."""
    reach = int(np.abs(sample).max()) + 60
    weights = weight(np.arange(-reach, reach + 1, dtype=np.float64))
    counts = np.bincount(sample + reach, minlength=2 * reach + 1)
    return counts_p(counts, (weights / weights.sum()).tolist())


def covariance_p(sample: Floats, covariance: Floats) -> float:
    """Return the p-value of "rows are N(0, covariance)": the likelihood-ratio test.

    n (tr A - log det A - d) with A the whitened sample covariance has a chi-square law with
    d (d + 1) / 2 degrees of freedom (Anderson 2003, section 10.8).
    """
    n, d = sample.shape
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), sample.T)
    ratio = whitened @ whitened.T / n
    statistic = n * (float(np.trace(ratio)) - float(np.linalg.slogdet(ratio)[1]) - d)
    return float(stats.chi2.sf(statistic, d * (d + 1) // 2))


def independence_p(first: Floats, second: Floats) -> float:
    """Return the p-value of "pairs are independent": correlation of the values and of the sizes."""
    scores = []
    for a, b in ((first, second), (np.abs(first), np.abs(second))):
        correlation = float(np.corrcoef(a, b)[0, 1])
        scores.append(normal_p(correlation * math.sqrt(a.size)))
    return min(1.0, 2.0 * min(scores))


def table_p(first: Ints, second: Ints) -> float:
    """Return the p-value of "two labels are independent": chi-square of their table."""
    table = np.zeros((int(first.max()) + 1, int(second.max()) + 1))
    np.add.at(table, (first, second), 1.0)
    return float(stats.chi2_contingency(table).pvalue)


# --- laws -------------------------------------------------------------------------------------


def normal_cdf(scale: float) -> Callable[[Floats], Floats]:
    """Return the distribution function of N(0, scale^2)."""
    return lambda x: np.asarray(stats.norm.cdf(x / scale), dtype=np.float64)


def laplace_cdf(scale: float) -> Callable[[Floats], Floats]:
    """Return the distribution function of the Laplace law."""
    return lambda x: np.asarray(stats.laplace.cdf(x / scale), dtype=np.float64)


def gaussian_weight(scale: float) -> Callable[[Floats], Floats]:
    """Return exp(-k^2 / (2 scale^2)), the weight of the discrete Gaussian."""
    return lambda k: np.exp(-np.square(k) / (2.0 * scale * scale))


def laplace_weight(scale: float) -> Callable[[Floats], Floats]:
    """Return exp(-|k| / scale), the weight of the discrete Laplace."""
    return lambda k: np.exp(-np.abs(k) / scale)


def label_law(keep: float, n_labels: int) -> list[float]:
    """Return the law of (released - true) modulo K: kept, or any other label equally likely."""
    return [keep] + [(1.0 - keep) / (n_labels - 1)] * (n_labels - 1)


# --- budgets ----------------------------------------------------------------------------------


def guarantee(
    *,
    epsilon: float = 1.0,
    delta: float = 0.5,
    tier: Tier = Tier.GLOBAL,
    neighbours: Neighbours = Neighbours.ZERO_OUT,
) -> Guarantee:
    """Return a claim; by default one so weak that an audit detects violations best."""
    return Guarantee(
        epsilon=epsilon, delta=delta, tier=tier, neighbours=neighbours, unit=Unit.CUSTOMER
    )


def renew(budget: Budget) -> Budget:
    """Return the budget with nothing spent: a new run of the same experiment."""
    budget._spends.clear()
    return budget


def s_of(rho_units: int) -> float:
    """Return s = sqrt(2 rho): sensitivity over noise scale."""
    return math.sqrt(2.0 * rho_units / RHO_UNITS)


def one_hot(labels: Sequence[int] | NDArray[np.int64], n_labels: int) -> Floats:
    """Return labels as indicator numbers, one block of K per label."""
    return np.asarray(np.eye(n_labels)[np.asarray(labels)].ravel(), dtype=np.float64)
