"""How these tests decide about an audit: the claim stands, or the planted fault is caught."""

from tests.statistical.harness import ALPHA, draws
from wattveil.evaluation.audit_two_worlds import TwoWorldAudit, TwoWorlds, audit_two_worlds


def keeps_claim(worlds: TwoWorlds, *, runs: int | None = None) -> None:
    """The observer shows no more than was claimed."""
    found = _audit(worlds, runs)
    assert not found.refutes, f"the audit refutes the claim: {found}"


def exceeds_claim(worlds: TwoWorlds, *, runs: int | None = None) -> None:
    """The observer shows that the claim is false."""
    found = _audit(worlds, runs)
    assert found.refutes, f"the audit misses the planted fault: {found}"


def _audit(worlds: TwoWorlds, runs: int | None) -> TwoWorldAudit:
    return audit_two_worlds(worlds, runs=draws(runs or worlds.runs), level=ALPHA)
