"""The total with other releases as evidence: computed from the manifests that a person names."""

from typing import Any

from wattveil.bundle.replaced_data import bound_text, inference_sentence
from wattveil.bundle.total_loss import CountedRelease, TotalLoss
from wattveil.web.formatting import format_count

FILES = "manifests of the named releases"
CITED = "guarantee, products[].grant"
"""The fields from which a total follows."""


def total_values(found: TotalLoss) -> dict[str, Any]:
    """Return the total in words, and the releases that it is about, as a table."""
    named = [*found.counted, *found.not_counted]
    number = format_count(len(named), "release")
    if found.not_counted:
        number = f"{len(found.counted)} of {number} (none covers those of the instance tier)"
    summary = (
        f"Total of {number} about the same customers, computed from their manifests:"
        f" {bound_text(found.guarantee)}. {inference_sentence(found.guarantee)} A series is counted"
        " in full. The list is the curator's; files and signatures of the other releases were not"
        " checked"
    )
    return {"summary": summary, "releases": [_row(one) for one in named]}


def _row(one: CountedRelease) -> dict[str, str]:
    return {
        "release": one.release_id,
        "published": one.published_at[:10],
        "title": one.title,
        "kind": one.kind,
        "tier": one.guarantee.tier.value,
        "epsilon": f"{one.guarantee.epsilon:g}",
        "delta": f"{one.guarantee.delta:g}",
        "of which labels": f"{one.cost.response_epsilon:g}" if one.cost.response_epsilon else "",
    }
