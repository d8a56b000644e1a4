"""Cumulative privacy loss of all releases about the same customers, as a manifest states it.

The sum is that of one tier, at the charge of the release. The position and the hash of its ledger
entry are stated, so that anyone with the ledger can recompute the sum.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wattveil import checks
from wattveil.privacy.accounting import Composition
from wattveil.privacy.guarantee import Tier

ALONE = "not known, because this release was made without a ledger"
"""Stated for a release without a ledger."""

OTHER_TIER = {
    False: "closed",
    True: "open; its releases are accounted separately, and this total does not cover them",
}


@dataclass(frozen=True, kw_only=True)
class Cumulative:
    """Sum of a ledger at the charge of a release, that release included."""

    tier: str
    delta: float
    """At which the epsilons are stated: that of the release."""
    spent: Composition
    caps: Composition
    releases: int
    ledger_seq: int
    chain_head: str
    """The hash of the entry at ``ledger_seq``, which seals all before it."""
    other_tier_open: bool

    @classmethod
    def from_json(cls, stated: Mapping[str, Any]) -> "Cumulative":
        """Read the record of a manifest; its epsilons follow from its amounts."""
        return cls(
            tier=stated["tier"],
            delta=checks.decimal("delta", stated["delta"]),
            spent=_composition(stated["spent"]),
            caps=_composition(stated["caps"]),
            releases=stated["releases"],
            ledger_seq=stated["ledger_seq"],
            chain_head=stated["chain_head"],
            other_tier_open=stated["other_tier"] == OTHER_TIER[True],
        )

    def to_json(self) -> dict[str, object]:
        """Return the record for a manifest."""
        return {
            "tier": self.tier,
            "delta": repr(self.delta),
            "epsilon_spent": repr(self.spent.epsilon(self.delta)),
            "epsilon_cap": repr(self.caps.epsilon(self.delta)),
            "spent": _amounts(self.spent),
            "caps": _amounts(self.caps),
            "releases": self.releases,
            "ledger_seq": self.ledger_seq,
            "chain_head": self.chain_head,
            "other_tier": OTHER_TIER[self.other_tier_open],
        }


def sentences(stated: str | Mapping[str, Any]) -> list[str]:
    """Return the record of a manifest as sentences."""
    if isinstance(stated, str):
        return [f"The total privacy loss including other releases is {stated}."]
    counted = (
        f"Releases of the {stated['tier']} tier about the same people, including this one:"
        f" {stated['releases']}. Together they have spent about epsilon"
        f" {float(stated['epsilon_spent']):.4g} at delta {stated['delta']}, of a total budget of"
        f" {float(stated['epsilon_cap']):.4g}."
    )
    place = f"Ledger entry: {stated['ledger_seq']}, hash {stated['chain_head']}."
    other = Tier.INSTANCE if stated["tier"] == Tier.GLOBAL.value else Tier.GLOBAL
    return [counted, f"The {other.value} tier is {stated['other_tier']}.", place]


def _composition(amounts: Mapping[str, str]) -> Composition:
    plain = {
        name: checks.decimal(name, amounts[name])
        for name in ("response_epsilon", "response_delta", "eta")
    }
    return Composition(rho_units=int(amounts["rho_units"]), **plain)


def _amounts(total: Composition) -> dict[str, str]:
    return {
        "rho_units": str(total.rho_units),
        "response_epsilon": repr(total.response_epsilon),
        "response_delta": repr(total.response_delta),
        "eta": repr(total.eta),
    }
