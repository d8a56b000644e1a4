"""A second road to the same epsilon: privacy loss distributions, by Google's dp-accounting.

`calibration` has closed forms; this composes numerically discretised distributions. The two share
no code, so agreement says something. It also prices many separate pure-epsilon parts more tightly
than their plain sum. It is slow and never decides whether a charge is admitted.
"""

from collections import Counter
from collections.abc import Sequence

from dp_accounting.pld import common, privacy_loss_distribution
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from wattveil import checks


def composed_epsilon(
    *, gaussian_s: Sequence[float] = (), pure_epsilons: Sequence[float] = (), delta: float
) -> float:
    """Return an epsilon for Gaussian and pure-epsilon releases on the same people together."""
    checks.probability("delta", delta)
    whole = loss_distribution(gaussian_s=gaussian_s, pure_epsilons=pure_epsilons)
    return float(whole.get_epsilon_for_delta(delta))


def loss_distribution(
    *, gaussian_s: Sequence[float] = (), pure_epsilons: Sequence[float] = ()
) -> PrivacyLossDistribution:
    """Return the distribution of the privacy loss of such releases together; it composes on."""
    for s in gaussian_s:
        checks.positive("gaussian_s", s)
    for epsilon in pure_epsilons:
        checks.positive("pure_epsilons", epsilon)
    whole = privacy_loss_distribution.identity()
    for s, times in Counter(gaussian_s).items():
        one = privacy_loss_distribution.from_gaussian_mechanism(standard_deviation=1.0 / s)
        whole = whole.compose(one.self_compose(times))
    for epsilon, times in Counter(pure_epsilons).items():
        price = common.DifferentialPrivacyParameters(epsilon)
        one = privacy_loss_distribution.from_privacy_parameters(price)
        whole = whole.compose(one.self_compose(times))
    return whole
