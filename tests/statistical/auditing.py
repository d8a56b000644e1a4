"""How these tests decide about an audit: the claim stands, or the planted fault is caught."""

from tests.statistical.harness import ALPHA, draws
from wattveil.lab.audit.epsilon_bounds import PairedAudit, PairedRelease, audit_pairs


def keeps_claim(paired: PairedRelease, *, runs: int | None = None) -> None:
    """The observer shows no more than was claimed."""
    found = _audit(paired, runs)
    assert not found.refutes, f"the audit refutes the claim: {found}"


def exceeds_claim(paired: PairedRelease, *, runs: int | None = None) -> None:
    """The observer shows that the claim is false."""
    found = _audit(paired, runs)
    assert found.refutes, f"the audit misses the planted fault: {found}"


def _audit(paired: PairedRelease, runs: int | None) -> PairedAudit:
    return audit_pairs(paired, runs=draws(runs or paired.runs), level=ALPHA)
