"""A second road to the same epsilon: privacy loss distributions, by Google's dp-accounting.

`calibration` has closed forms; this composes numerically discretised distributions. The two share
no code, so agreement says something. It also prices many separate pure-epsilon parts more tightly
than their plain sum. It is slow and never decides whether a charge is admitted.
"""

import math
import warnings
from collections.abc import Sequence

from wattveil import calibration, checks
from wattveil.errors import WeakGuaranteeWarning
from wattveil.privacy import rounding


def composed_epsilon(
    *, gaussian_s: Sequence[float] = (), pure_epsilons: Sequence[float] = (), delta: float
) -> float:
    """Return an epsilon for Gaussian and pure-epsilon releases on the same people together.

    Without the extra ``accounting`` the answer is the plain sum of the exact Gaussian epsilon and
    the pure ones: valid, looser, and said in a warning.
    """
    checks.probability("delta", delta)
    for s in gaussian_s:
        checks.positive("gaussian_s", s)
    for epsilon in pure_epsilons:
        checks.positive("pure_epsilons", epsilon)
    try:
        from dp_accounting.pld import common, privacy_loss_distribution  # noqa: PLC0415 - an extra
    except ImportError:
        warnings.warn(
            "dp-accounting is not installed: the composed epsilon is the plain sum, a looser bound"
            " (pip install 'wattveil[accounting]')",
            WeakGuaranteeWarning,
            stacklevel=2,
        )
        together = calibration.compose_s(*gaussian_s)
        gaussian = calibration.gaussian_epsilon(s=together, delta=delta) if together else 0.0
        return math.inf if math.isinf(gaussian) else rounding.sum_up(gaussian, *pure_epsilons)

    parts = [
        privacy_loss_distribution.from_gaussian_mechanism(standard_deviation=1.0 / s)
        for s in gaussian_s
    ] + [
        privacy_loss_distribution.from_privacy_parameters(common.DifferentialPrivacyParameters(e))
        for e in pure_epsilons
    ]
    whole = privacy_loss_distribution.identity()
    for part in parts:
        whole = whole.compose(part)
    return float(whole.get_epsilon_for_delta(delta))
