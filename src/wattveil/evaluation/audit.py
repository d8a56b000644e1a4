"""Lower bounds on epsilon beside what is claimed, for every part of a release and for the whole.

A lower bound above the claim refutes it. One below proves nothing: docs/proofs is the proof, this
is the alarm.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from wattveil import checks
from wattveil.evaluation.audit_canaries import ONE_RUN
from wattveil.evaluation.audit_one_run import OneRunAudit, audit_one_run
from wattveil.evaluation.audit_parts import ReleaseWorlds
from wattveil.evaluation.audit_two_worlds import TwoWorldAudit, judge_worlds
from wattveil.evaluation.canaries import Lots
from wattveil.privacy.guarantee import Tier
from wattveil.profiles import Profiles
from wattveil.publish.request import ReleaseRequest


@dataclass(frozen=True, kw_only=True)
class AuditRow:
    """One audit of one part."""

    release: str
    method: Literal["two worlds", "one run"]
    found: TwoWorldAudit | OneRunAudit

    @property
    def name(self) -> str:
        """Part and method."""
        return f"{self.release}, {self.method}"

    @property
    def broken(self) -> bool:
        """Whether a promise of differential privacy is shown to be false."""
        return self.found.refutes and self.found.claim.tier is Tier.GLOBAL

    @property
    def verdict(self) -> str:
        """What the bound means for the claim, in a word or two."""
        if self.broken:
            return "refuted"
        return "no differential privacy" if self.found.refutes else "not refuted"

    def to_json(self) -> dict[str, object]:
        """Return the row as JSON values."""
        return {
            "release": self.release,
            "method": self.method,
            "claim": self.found.claim.to_json(),
            "epsilon_lower_bound": self.found.epsilon,
            "evidence": self.found.evidence,
            "verdict": self.verdict,
        }


def audit_release(
    request: ReleaseRequest,
    profiles: Profiles,
    *,
    runs: int,
    canaries: int,
    confidence: float,
    seed: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> tuple[AuditRow, ...]:
    """Audit every part that the request asks for, in two worlds and in one run.

    Parameters
    ----------
    profiles
        Customers beside whom the canary stands in two worlds. They are private, and so is what an
        audit says of them.
    runs
        Releases in each of the two worlds.
    canaries
        In each single run.
    confidence
        That no row of the table overstates: the rows share what is left (Bonferroni).
    seed
        Of the coins of one run. The noise has no seed.
    advance
        Is called after every release.
    """
    checks.integer("runs", runs, least=4)
    checks.integer("canaries", canaries, least=32, most=100_000)
    worlds = ReleaseWorlds.of(request, profiles)
    claims = worlds.claims
    single = [name for name in ONE_RUN if name in claims and request.tier is Tier.GLOBAL]
    level = (1.0 - checks.probability("confidence", confidence)) / (len(claims) + len(single))

    seen: Mapping[bool, list[Mapping[str, np.ndarray]]] = {True: [], False: []}
    for _ in range(runs):
        for canary in (True, False):
            seen[canary].append(worlds.observe(canary=canary))
            advance()
    rows = []
    for name, claim in claims.items():
        first, second = (
            np.array([each[name] for each in seen[canary]]) for canary in (True, False)
        )
        found = judge_worlds(first, second, claim=claim, level=level)
        rows.append(AuditRow(release=name, method="two worlds", found=found))
    lots = Lots(seed)
    for name in single:
        coins = ONE_RUN[name](request, canaries, lots)
        advance()
        bound = audit_one_run(coins.included, coins.observed, claim=coins.claim, level=level)
        rows.append(AuditRow(release=name, method="one run", found=bound))
    return tuple(rows)
