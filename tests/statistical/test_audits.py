"""Every mechanism under a black-box audit, and the same audit on planted faults."""

import pytest

from tests.statistical import faults
from tests.statistical.auditing import exceeds_claim, keeps_claim
from tests.statistical.mechanism_cases import CASES, ZERO_OUT, of_cells, response
from wattveil.lab.audit.epsilon_bounds import PairedRelease
from wattveil.privacy.mechanisms.contributions import NO_DATA

RUNS_OF_FAR = 400

pytestmark = pytest.mark.usefixtures("repeated_runs")


def is_far(name: str) -> bool:
    """Whether the customer of a case is far outside the unit ball."""
    return name.endswith("far")


every_case = pytest.mark.parametrize("name", CASES)
with_other_noise = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * is_far(name)) for name in CASES],
)
"""Rows that are clipped have the noise of those that need not be: `make soak` adds them."""


@every_case
def test_an_audit_does_not_refute_the_claim(name: str) -> None:
    """On worst-case neighbours the empirical lower bound does not exceed the claim."""
    case = CASES[name]()
    # A far customer is there for forgotten clipping, which fewer runs find.
    keeps_claim(case, runs=RUNS_OF_FAR if is_far(name) else runs_for_half_the_noise(case))


@with_other_noise
def test_an_audit_catches_half_the_noise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same audit refutes the same claim when the noise has half its scale."""
    faults.weaker_noise(monkeypatch)
    case = CASES[name]()
    exceeds_claim(case, runs=runs_for_half_the_noise(case))


@pytest.mark.parametrize(
    "name",
    [
        "sum",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("sum by cells", "histogram")),
        "answer",
    ],
)
def test_an_audit_catches_three_quarters_of_the_noise(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a claim where an audit has most power, a quarter of the noise missing is enough."""
    faults.weaker_noise(monkeypatch, 0.75)
    exceeds_claim(CASES[name](), runs=6_000)


@pytest.mark.parametrize(
    "name", ["sum, far", "sum, replaced", "sum by cells, far", "mean load shape, far"]
)
def test_an_audit_catches_forgotten_clipping(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row far outside the unit ball is detected when it is not clipped."""
    faults.no_clipping(monkeypatch)
    exceeds_claim(CASES[name](), runs=RUNS_OF_FAR)


@pytest.mark.long  # `test_series_chain` shows the same fault exactly, in one run
def test_an_audit_catches_an_allowance_for_each_period(monkeypatch: pytest.MonkeyPatch) -> None:
    """An observer of all periods finds the customer whose allowance begins afresh in each."""
    faults.fresh_allowances(monkeypatch)
    exceeds_claim(CASES["series"](), runs=3_000)


@pytest.mark.parametrize("name", ["sum, replaced", "histogram, replaced"])
def test_an_audit_catches_the_sensitivity_of_the_wrong_relation(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replacement priced as a removal costs more than was claimed."""
    faults.removal_priced_for_replacement(monkeypatch)
    exceeds_claim(CASES[name](), runs=5_000)


@pytest.mark.parametrize("name", ["sum", "sum by cells", "histogram, replaced", "response"])
def test_an_audit_catches_shared_noise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One draw for all coordinates cancels in their difference."""
    faults.shared_noise(monkeypatch)
    exceeds_claim(CASES[name](), runs=1_000)


def test_an_audit_catches_labels_kept_as_for_removal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under replace-one the keep probability of zero-out distinguishes two labels too well."""
    faults.removal_labels_for_replacement(monkeypatch)
    exceeds_claim(CASES["response, replaced"]())


def test_an_audit_catches_absent_customers_with_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """A customer without data must get a uniform label, not label 0."""
    faults.absent_is_label_0(monkeypatch)
    case = of_cells(response, [NO_DATA, 0, 1], ZERO_OUT, 0.0, x=(1, 0, 1))
    exceeds_claim(case)


def test_an_audit_catches_label_noise_for_one_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five changed labels need more noise than one."""
    faults.one_changed_label(monkeypatch)
    exceeds_claim(CASES["modulo"]())


def test_an_audit_catches_a_transposed_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    """W'^-1 in place of W^-1 leaves some difference longer than 1."""
    faults.transposed_factor(monkeypatch)
    exceeds_claim(CASES["answer"](), runs=1_000)


def test_an_audit_catches_an_exact_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count without noise reveals membership, whatever noise the sum has."""
    faults.exact_count(monkeypatch)
    exceeds_claim(CASES["mean load shape"](), runs=400)


def runs_for_half_the_noise(case: PairedRelease) -> int:
    """Return how many runs refute the claim if half the noise is missing; `make soak` takes more.

    Of sums at (1, 0.5) it is 7 deviations beyond the decision with 1,500 runs.
    """
    return min(case.runs, 1_500) if case.claim.delta == 0.5 else case.runs
