"""Power of paired audits: the number of runs detects the violation, and far fewer do not."""

import numpy as np
import pytest

from wattveil import calibration
from wattveil.errors import InvalidParameterError
from wattveil.lab.audit.audit_power import POWER, runs_to_detect
from wattveil.lab.audit.epsilon_bounds import paired_bound
from wattveil.privacy.guarantee import Guarantee, global_guarantee

CLAIM = global_guarantee(epsilon=1.0, delta=0.01)
LEVEL = 0.05


def share_refuted(claim: Guarantee, *, true_epsilon: float, runs: int, repeats: int) -> float:
    """Audit Gaussian noise with this epsilon again and again; return how often it is refuted."""
    shift = calibration.gaussian_s(epsilon=true_epsilon, delta=claim.delta)
    generator = np.random.default_rng(3)
    refuted = 0
    for _ in range(repeats):
        first, second = generator.normal(size=(2, runs, 1))
        refuted += paired_bound(first + shift, second, claim=claim, level=LEVEL).refutes
    return refuted / repeats


def test_the_stated_number_of_runs_detects_the_violation() -> None:
    """By whole audits, which choose the event themselves; an eighth of the runs rarely does."""
    runs = runs_to_detect(CLAIM, excess=3.0, level=LEVEL)
    assert runs is not None
    found = share_refuted(CLAIM, true_epsilon=4.0, runs=runs, repeats=200)
    few = share_refuted(CLAIM, true_epsilon=4.0, runs=runs // 8, repeats=200)
    kept = share_refuted(CLAIM, true_epsilon=1.0, runs=runs, repeats=200)
    assert found > POWER - 0.1  # 3 standard deviations of 200 audits
    assert few < 0.3
    assert kept <= LEVEL


def test_smaller_violations_need_more_runs() -> None:
    """So do a smaller level and more power."""
    counts = [runs_to_detect(CLAIM, excess=excess, level=LEVEL) for excess in (3.0, 1.0, 0.5, 0.1)]
    assert None not in counts
    assert counts == sorted(counts, key=lambda count: count or 0)
    base = counts[1] or 0
    assert (runs_to_detect(CLAIM, excess=1.0, level=LEVEL / 10.0) or 0) > base
    assert (runs_to_detect(CLAIM, excess=1.0, level=LEVEL, power=0.99) or 0) > base


def test_a_violation_may_be_beyond_detection() -> None:
    """At a tiny delta, a slightly larger epsilon differs in events that hardly ever occur."""
    claim = global_guarantee(epsilon=1.0, delta=1e-12)
    assert runs_to_detect(claim, excess=0.01, level=LEVEL) is None
    with pytest.raises(InvalidParameterError, match="excess"):
        runs_to_detect(CLAIM, excess=0.0, level=LEVEL)
