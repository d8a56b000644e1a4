"""What a dossier says of the guarantee of a release, and of what can be checked, by its tier.

The manifest of the instance tier states charges only: its sensitivity and noise scale are private.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from wattveil.bundle.replaced_data import bound_text, replace_one
from wattveil.privacy.guarantee import Guarantee, Tier
from wattveil.web.formatting import format_count


def mechanisms_of(manifest: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield every draw of a release, as the manifest states it."""
    for part in manifest["products"]:
        for run in part["runs"]:
            yield from run["mechanisms"]


def draws_text(manifest: Mapping[str, Any]) -> str:
    """Return how many draws there are, and what the manifest states of each."""
    if manifest["variant"] == "instance":
        draws = format_count(sum(1 for _ in mechanisms_of(manifest)), "draw")
        return f"{draws} with stated charges; sensitivity and noise scale are not published"
    drawn = [one["gaussian"] for one in mechanisms_of(manifest) if "gaussian" in one]
    plain = sum("response_epsilon" in one for one in mechanisms_of(manifest))
    return (
        f"{format_count(len(drawn), 'Gaussian draw')} with sensitivity and noise scale, and"
        f" {format_count(plain, 'randomised response') if plain else 'no randomised responses'}"
    )


def recomputed_text(manifest: Mapping[str, Any]) -> str:
    """Return what the verification recomputes the privacy cost from."""
    if manifest["variant"] == "instance":
        return "The stated charges were added up; the noise cannot be checked."
    return "The privacy cost was recomputed from these by two independent accountants."


def inference_text(manifest: Mapping[str, Any]) -> str:
    """Return the bound on inferences about a unit; the instance tier claims none."""
    if manifest["variant"] == "instance":
        return (
            "No bound on inferences is claimed: the guarantee of the instance tier is not"
            " differential privacy, and the noise cannot be checked."
        )
    stated = Guarantee.from_json(manifest["guarantee"])
    return (
        f"Epsilon {stated.epsilon} at delta {stated.delta} bounds how much the data of one"
        f" {stated.unit.value} can change the probability of any published result. Inferences about"
        " the value of these data compare them with any others (replace-one):"
        f" {_replaced_text(stated)}."
    )


def variant_text(manifest: Mapping[str, Any]) -> str:
    """Return the variant of differential privacy; the instance tier is none."""
    if manifest["variant"] == "instance":
        return "none, because the guarantee of the instance tier is not differential privacy"
    return "approximate differential privacy"


def neighbours_text(manifest: Mapping[str, Any]) -> str:
    """Return the relation with its definition, and the guarantee for replacing data."""
    stated = Guarantee.from_json(manifest["guarantee"])
    text = (
        f"{stated.neighbours.value}, that is, the data set is compared with the same one without"
        f" the data of one {stated.unit.value}, who stays on the list of customers (for the data,"
        " this is the add/remove or unbounded relation of NIST SP 800-226, with the list held"
        " fixed)"
    )
    if stated.tier is not Tier.GLOBAL:
        return f"{text}. No guarantee is claimed for replacing these data by others"
    return (
        f"{text}. If these data are replaced by any others (replace-one, the bounded relation; two"
        f" steps of zero-out), {_replaced_text(stated)}"
    )


def erasure_text(manifest: Mapping[str, Any]) -> str:
    """Return what a published release means for a customer who objects or asks for erasure."""
    stated = Guarantee.from_json(manifest["guarantee"])
    if manifest.get("request", {}).get("real_ids", False):
        return (
            "The table labels names each listed customer by its real id. If a customer objects or"
            " asks for erasure, the release is to be withdrawn; copies that others hold cannot be"
            " recalled."
        )
    text = (
        "If a customer objects or asks for erasure, recomputing a published release would not undo"
        " it, and would cost all other customers more"
    )
    if stated.tier is not Tier.GLOBAL:
        return (
            f"{text}. No bound holds for what it reveals of that customer: in the instance tier the"
            " noise scale, and which labels have no noise, are computed from the data."
        )
    return (
        f"{text}. The guarantee (epsilon {stated.epsilon}) continues to hold for that customer, and"
        " the privacy loss remains spent."
    )


def _replaced_text(stated: Guarantee) -> str:
    """Return the replace-one guarantee that follows by group privacy, or that none follows."""
    other = replace_one(stated)
    if other is None:
        return (
            "group privacy gives no guarantee at this epsilon and delta: delta would be 1 or more"
        )
    return f"the guarantee is {bound_text(other)}"


def overlap_text(manifest: Mapping[str, Any]) -> str:
    """Return whether the guarantee holds for overlapping aggregates: that of the global tier."""
    if manifest["variant"] != "approximate":
        return "No protection from them is claimed: the guarantee is not differential privacy."
    return f"This guarantee does: {manifest['composition']}"
