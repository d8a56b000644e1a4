"""The sum of a ledger in a manifest: recomputed, and every planted fault found."""

from typing import Any

import pytest

from wattveil.bundle.cumulative import ALONE, OTHER_TIER, Cumulative, sentences
from wattveil.bundle.manifest import check_schema
from wattveil.bundle.verify.verify_budget import cumulative_finding
from wattveil.calibration import gaussian_epsilon
from wattveil.privacy.accounting import RHO_UNITS, Composition

OWN = Composition(rho_units=RHO_UNITS // 100, response_epsilon=0.25, eta=1e-9)


def stated(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - of any field
    """Return what the ledger of an honest server had counted."""
    fields: dict[str, Any] = {
        "tier": "global",
        "delta": 1e-6,
        "spent": Composition(rho_units=RHO_UNITS // 50, response_epsilon=0.5, eta=1e-8),
        "caps": Composition(rho_units=RHO_UNITS // 10, response_epsilon=1.0, eta=1e-3),
        "releases": 2,
        "ledger_seq": 5,
        "chain_head": "0" * 64,
        "other_tier_open": False,
    }
    return Cumulative(**{**fields, **changes}).to_json()


def manifest(cumulative: object) -> dict[str, Any]:
    """Return the part of a manifest that is checked."""
    public = {"tier": "global", "delta": "1e-06"}
    return {"cumulative": cumulative, "request": public}


def test_an_honest_sum_holds() -> None:
    """Epsilon without labels by independent computation."""
    found = cumulative_finding(manifest(stated()), OWN)
    assert found.holds, found.seen
    assert "entry 5" in found.seen
    rho = Composition(rho_units=RHO_UNITS // 50)
    epsilon = float(stated(spent=rho)["epsilon_spent"])
    assert epsilon == pytest.approx(gaussian_epsilon(s=(2 * 0.02) ** 0.5, delta=1e-6), rel=1e-6)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("some other words", "not stated"),
        ({**stated(), "epsilon_spent": "0.1"}, "epsilon_spent is 0.1"),
        ({**stated(), "epsilon_cap": "99.0"}, "epsilon_cap is 99.0"),
        ({**stated(), "other_tier": "open"}, "other_tier"),
        (stated(tier="instance"), "its tier is instance"),
        (stated(delta=1e-5), "its delta is 1e-05"),
        (stated(caps=OWN), "more is spent than the cap"),
        (stated(spent=Composition(rho_units=1)), "costs more than all"),
        (stated(releases=3), "so few entries"),
    ],
)
def test_a_fault_is_found(wrong: object, says: str) -> None:
    """Each of them by itself."""
    found = cumulative_finding(manifest(wrong), OWN)
    assert not found.holds
    assert says in found.seen


def test_the_schema_has_room_for_both_and_nothing_else() -> None:
    """Also the words of the other tier, which stand in the code and in the schema."""

    def problems(cumulative: object) -> list[str]:
        found = check_schema({"cumulative": cumulative})
        return [one for one in found if one.startswith("cumulative")]

    assert problems(ALONE) == []
    for is_open in OTHER_TIER:
        assert problems(stated(other_tier_open=is_open)) == []
    assert problems({**stated(), "customers": 300}) != []
    assert problems({**stated(), "chain_head": "x"}) != []


def test_people_read_the_sum() -> None:
    """In the card and on the page: how many, how much of how much, and what is not covered."""
    text = " ".join(sentences(stated(other_tier_open=True)))
    assert "global tier" in text
    assert ": 2." in text  # releases, this one included
    assert "does not cover" in text
    assert sentences(ALONE) == [f"The total privacy loss including other releases is {ALONE}."]
