"""Whatever a statement claims: a budget below the truth is never accepted."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from wattveil.bundle.cumulative import ALONE
from wattveil.bundle.verify import verify_budget
from wattveil.bundle.verify.verify_budget import budget_findings

GRID = 2**25  # steps of a unit


def true_epsilon(s: float, delta: float) -> float:
    """Return the minimum epsilon of Gaussian noise, computed independently in floating point."""

    def excess(epsilon: float) -> float:
        curve = stats.norm.sf(epsilon / s - s / 2)
        return float(curve - math.exp(epsilon) * stats.norm.sf(epsilon / s + s / 2) - delta)

    return 0.0 if excess(0.0) <= 0.0 else float(optimize.brentq(excess, 0.0, 500.0, xtol=1e-12))


def statement(s: list[float], epsilon: float, delta: float) -> dict[str, Any]:
    """Return a statement on draws of these strengths, consistent in all but its claim."""
    mechanisms = []
    for number, one in enumerate(s):
        scale = GRID / one
        rho = math.ceil(one * one / 2 * 10**18 * (1 + 1e-12))
        eta = (1 + (41 + one) ** 2) / (24 * scale * scale) * (1 + 1e-9)
        mechanisms.append(
            {
                "tag": f"draw {number}",
                "mechanism": "gaussian_cell_sums",
                "rho_units": str(rho),
                "gaussian": {
                    "numbers": 1,
                    "squared_sensitivity_steps": str(GRID**2),
                    "noise_scale_steps": repr(scale),
                    "grid_step": repr(1 / GRID),
                    "eta": repr(eta),
                },
            }
        )
    total = sum(int(one["rho_units"]) for one in mechanisms)  # type: ignore[call-overload]
    claim = {"epsilon": repr(epsilon), "delta": repr(delta)}
    kind = {"tier": "global", "neighbours": "zero-out", "unit": "customer"}
    grant = {
        "rho_units": str(total),
        "response_epsilon": "0.0",
        "response_delta": "0.0",
        "eta": repr(1e-6 * epsilon),
    }
    part = {"name": "load", **claim, "grant": grant, "runs": [{"mechanisms": mechanisms}]}
    return {"guarantee": {**claim, **kind}, "products": [part], "cumulative": ALONE}


@settings(max_examples=60, deadline=None)
@given(
    s=st.lists(st.floats(0.05, 1.5), min_size=1, max_size=5),
    log_delta=st.floats(-10.0, -2.0),
    claimed=st.floats(0.05, 1.5),
    shrink=st.sampled_from(["nothing", "grant", "charges"]),
)
def test_an_understated_budget_is_never_accepted(
    s: list[float], log_delta: float, claimed: float, shrink: str
) -> None:
    """A claim is accepted if and only if it is not below the true epsilon, computed independently.

    Grants or charges that were made smaller to fit the claim do not help it.
    """
    delta = 10.0**log_delta
    truth = true_epsilon(math.hypot(*s), delta)
    epsilon = max(truth * claimed, 1e-3)
    manifest = statement(s, epsilon, delta)
    (part,) = manifest["products"]
    smaller = min(claimed, 1.0) ** 2 * 0.9
    if shrink != "nothing":
        part["grant"]["rho_units"] = str(int(int(part["grant"]["rho_units"]) * smaller))
    if shrink == "charges":
        for mechanism in part["runs"][0]["mechanisms"]:
            mechanism["rho_units"] = str(int(int(mechanism["rho_units"]) * smaller))
    with pytest.MonkeyPatch.context() as patch:
        # By the closed form alone: it must not depend on the independent accountant.
        patch.setattr(verify_budget, "_losses", lambda _: verify_budget.loss_distribution())
        accepted = all(finding.holds for finding in budget_findings(manifest))
    if epsilon < truth * (1.0 - 1e-4):
        assert not accepted
    if shrink == "nothing" and epsilon > truth * (1.0 + 1e-4) + 1e-9:
        assert accepted
