"""Audit lower bounds beside the claims: every mechanism, every part of a release, and the whole.

Run: ``PYTHONPATH=. python benchmarks/audit_table.py``; it is part of `make soak`. The mechanisms
are those of tests/statistical, each on its worst pair, once as they are and once with half the
noise. WATTVEIL_SOAK=n multiplies the number of runs by n.
"""

import numpy as np
import pytest

from tests import repeated_runs
from tests.statistical import faults
from tests.statistical.harness import draws
from tests.statistical.mechanism_cases import CASES
from wattveil.lab.audit.epsilon_bounds import audit_pairs
from wattveil.lab.audit.release_audit import audit_release
from wattveil.privacy.guarantee import Tier
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import Profiles, TimeGrid
from wattveil.simulate import simulate_load_kw

LEVEL = 0.01
RUNS, CANARIES = 60, 4000
HOMES = 30


def main() -> None:
    """Print both tables."""
    print("| mechanism | claimed ε, δ | ε lower bound | with half the noise |")  # noqa: T201
    print("| --- | --- | --- | --- |")  # noqa: T201
    for name in CASES:
        print(mechanism(name), flush=True)  # noqa: T201
    print("| part | claimed ε, δ | ε lower bound | evidence |")  # noqa: T201
    print("| --- | --- | --- | --- |")  # noqa: T201
    groups = {"by": "district", "levels": ("north", "south")}
    for request in (
        ReleaseRequest(epsilon=1.0, delta=1e-6, n_clusters=3, label_epsilon=0.3, **groups),
        ReleaseRequest(epsilon=8.0, delta=1e-6, n_clusters=3, label_epsilon=2.0, **groups),
        ReleaseRequest(epsilon=1.0, delta=1e-6, n_clusters=3, tier=Tier.INSTANCE),
    ):
        for line in parts(request):
            print(line, flush=True)  # noqa: T201


def mechanism(name: str) -> str:
    """Return the row of a mechanism."""
    bounds = []
    for plant in (lambda _: None, faults.weaker_noise):
        with pytest.MonkeyPatch.context() as patch:
            repeated_runs.remember_constants(patch)
            repeated_runs.draw_in_blocks(patch)
            plant(patch)
            case = CASES[name]()
            found = audit_pairs(case, runs=draws(case.runs), level=LEVEL)
            bounds.append(f"{found.epsilon:.2f}")
    return f"| {name} | {case.claim.epsilon:g}, {case.claim.delta:g} | {' | '.join(bounds)} |"


def parts(request: ReleaseRequest) -> list[str]:
    """Return the rows of a release."""
    homes = Profiles(
        customer_ids=tuple(map(str, range(HOMES))),
        load_kw=np.array(simulate_load_kw(customers=HOMES)),
        grid=TimeGrid(),
        timezone="Europe/London",
        attributes={"district": ("north", "south") * (HOMES // 2)},
    )
    with pytest.MonkeyPatch.context() as patch:
        repeated_runs.remember_constants(patch)
        rows = audit_release(
            request, homes, runs=draws(RUNS), canaries=CANARIES, confidence=1.0 - LEVEL
        )
    return [
        f"| {request.tier}: {row.name} | {row.found.claim.epsilon:.3g}, {row.found.claim.delta:g}"
        f" | {row.found.epsilon:.2f} | {row.found.evidence} |"
        for row in rows
    ]


if __name__ == "__main__":
    main()
