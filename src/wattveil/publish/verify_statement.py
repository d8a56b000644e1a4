"""Compare what a statement says twice: promise, words, request, parts and draws."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from wattveil import checks
from wattveil.privacy.guarantee import Guarantee, Tier
from wattveil.public_estimate import ROUNDING_RULE, rounded_customers
from wattveil.publish import keys
from wattveil.publish.findings import Finding, gathered
from wattveil.publish.manifest import PROOFS, THROUGH_A_CHANNEL
from wattveil.publish.plan import split_budget, wanted_parts
from wattveil.publish.request import About, ReleaseRequest

_ASKS = {
    "synthesis": {"customers by cluster and export", "lengths", "moments", "margins"},
    "load": {"number of customers", "sizes", "customers by group", "sums of load"},
    "shares": {"clusters by group"},
    "labels": {"labels"},
}
"""What no part of a global release can be made without: a draw left unstated is missed."""
_FURTHER = re.compile("(middle|coarse|refining) step [0-9]{1,3}: (counts|offsets)|choice of merge")
"""Of clusters there may be more draws: further steps, those around the middle of everybody if there
is little signal, and the choice of a merge if it was open."""


def consistency(manifest: dict[str, Any]) -> Finding:
    """Compare what the statement says twice."""
    return gathered(
        "the statement agrees with itself",
        _contradictions(manifest),
        "promise, words, request and parts",
    )


def _contradictions(manifest: dict[str, Any]) -> Iterator[str]:
    promise, public = Guarantee.from_json(manifest["guarantee"]), manifest["public_inputs"]
    is_global = promise.tier is Tier.GLOBAL
    if manifest["guarantee_text"] != promise.sentence:
        yield "guarantee_text does not say what guarantee says"
    for field in ("epsilon", "delta", "tier"):
        if public[field] != manifest["guarantee"][field]:
            yield f"{field} was asked for as {public[field]}"
    if manifest["request_sha256"] != hashlib.sha256(keys.canonical(public)).hexdigest():
        yield "request_sha256 is not that of public_inputs"
    words = ("approximate", "every data set") if is_global else ("instance", "this data set only")
    if (manifest["variant"], manifest["guarantee_scope"]) != words:
        yield "variant and guarantee_scope are those of another tier"
    if public["customers_guessed"] != rounded_customers(public["customers_guessed"]):
        yield f"customers_guessed is {public['customers_guessed']}, not {ROUNDING_RULE}"
    request = request_of(manifest)
    names = [part["name"] for part in manifest["parts"]]
    due = [part.name for part in wanted_parts(request)]
    if names != due:
        yield f"the parts are {names}, asked for were {due}"
        return
    for part in manifest["parts"]:
        yield from _run_contradictions(part, public)
        if is_global:
            yield from _global_contradictions(part, public)
        else:
            yield from _instance_contradictions(part, request)


def _run_contradictions(part: dict[str, Any], public: dict[str, Any]) -> Iterator[str]:
    """Compare what parts of both tiers have in common."""
    apart = public["clusters_by_group"] and part["name"] == "clusters"
    groups = [run["group"] for run in part["runs"]]
    if groups != (public["levels"] if apart else [None]):
        yield f"{part['name']}: runs of {groups}; only disjoint groups count once"
    # An epsilon at another delta could not be compared with that of the release.
    if part["delta"] != ("0.0" if part["name"] == "labels" else public["delta"]):
        yield f"{part['name']}: its epsilon is at delta {part['delta']}, not at that of the release"
    for run in part["runs"]:
        for mechanism in run["mechanisms"]:
            if mechanism["proof"] != PROOFS[mechanism["mechanism"]]:
                yield f"{part['name']}: another proof than that of {mechanism['mechanism']}"


def _clusters_due(tags: Sequence[str], public: dict[str, Any]) -> set[str]:
    """Return the draws that no such clusters can be made without."""
    # With little signal the middle of everybody is asked for, in three steps; one cluster is then
    # that middle, for which no cells are counted.
    steps = {"refining": 1, "middle": 3 if any("middle" in tag for tag in tags) else 0}
    steps["coarse"] = 0 if steps["middle"] and public["n_clusters"] == 1 else 1
    due = {
        f"{stage} step {step + 1}: {what}"
        for stage, number in steps.items()
        for step in range(number)
        for what in ("counts", "offsets")
    }
    return due | {"number of customers"} | (set() if public["normalise"] else {"sizes"})


def _global_contradictions(part: dict[str, Any], public: dict[str, Any]) -> Iterator[str]:
    """Compare the draws of a part with those that it takes."""
    name = part["name"]
    used = [one["mechanism"] for run in part["runs"] for one in run["mechanisms"]]
    if not {*used} <= {"gaussian_histogram", "gaussian_cell_sums", *THROUGH_A_CHANNEL}:
        yield f"{name}: a mechanism of the instance tier in a global release"
    for run in part["runs"]:
        tags = [one["tag"] for one in run["mechanisms"]]
        due = _clusters_due(tags, public) if name == "clusters" else _ASKS[name]
        if missing := sorted(due - {*tags}):
            yield f"{name}: no draw is stated for {missing}"
        more = {tag for tag in tags if name == "clusters" and _FURTHER.fullmatch(tag)}
        if {*tags} - due - more or len({*tags}) < len(tags):
            yield f"{name}: draws that such a part does not have"
    if name != "labels":
        if {*used} & {*THROUGH_A_CHANNEL} or "channel" in part:
            yield f"{name}: labels leave in the part of that name only"
    elif (
        used not in [[one] for one in THROUGH_A_CHANNEL]
        or part["epsilon"] != public["label_epsilon"]
    ):
        yield "labels: not one channel at the epsilon that was asked for"
    elif len(part.get("channel", [])) != public["n_clusters"] + 1:
        yield "labels: the channel is of another number of clusters"


def _instance_contradictions(part: dict[str, Any], request: ReleaseRequest) -> Iterator[str]:
    """Compare a part with the one draw that it has: all that was granted is charged for it.

    The noise is private, so nothing else would tell a charge that is too small.
    """
    allotment, grant = split_budget(request)[part["name"]], part["grant"]
    if part["name"] == "clusters":
        price = {"rho_units": str(allotment.grant.rho_units)}
        kind = ("centroids", "gaussian_answer")
    else:
        price = {"response_epsilon": repr(allotment.grant.response_epsilon)}
        kind = ("labels", "modulo_labels")
    drawn = [one for run in part["runs"] for one in run["mechanisms"]]
    if [(one["tag"], one["mechanism"]) for one in drawn] != [kind] or "channel" in part:
        yield f"{part['name']}: not one draw of {kind[1]}"
    elif part["epsilon"] != repr(allotment.guarantee.epsilon) or any(
        stated.get(field) != due for field, due in price.items() for stated in (grant, drawn[0])
    ):
        yield f"{part['name']}: another price than that of the epsilon that was asked for"


def request_of(manifest: dict[str, Any]) -> ReleaseRequest:
    """Return what was asked for."""
    public = manifest["public_inputs"]
    label = public["label_epsilon"]
    return ReleaseRequest(
        epsilon=checks.decimal("epsilon", public["epsilon"]),
        delta=checks.decimal("delta", public["delta"]),
        tier=checks.enum_value("tier", public["tier"], Tier),
        n_clusters=public["n_clusters"],
        clip_kw=public["clip_kw"],
        normalise=public["normalise"],
        by=public["by"],
        levels=tuple(public["levels"]),
        clusters_by_group=public["clusters_by_group"],
        label_epsilon=None if label is None else checks.decimal("label_epsilon", label),
        real_ids=public["real_ids"],
        weights=public["weights"],
        customers=public["customers_guessed"],
        typical_kw=public["typical_kw_guessed"],
        about=About(**{field.name: manifest[field.name] for field in fields(About)}),
    )
