"""What a release says about individual customers: labels, ids, and what the total epsilon covers.

Labels are the only values about single customers. Card, report and dossier state the same.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from wattveil.products.released_channel import DISTINGUISHED, MIN_NAMED, named_labels, stated_parts
from wattveil.web.formatting import format_factor, format_share, format_upper_bound


def has_labels(manifest: Mapping[str, Any]) -> bool:
    """Whether a release has one label per customer."""
    return any(part["name"] == "labels" for part in manifest["products"])


def customer_text(manifest: Mapping[str, Any]) -> str:
    """Return what is published about individual customers."""
    if not has_labels(manifest):
        return (
            "Results describe groups of customers. No labels are published, and no value is a fact"
            " about an individual customer."
        )
    names = "real identifiers" if manifest["request"]["real_ids"] else "pseudonyms"
    if manifest["variant"] == "instance":
        label = "label per customer"
        meaning = "a label that was released without noise is a fact about its customer"
    else:
        label, meaning = "randomised label per customer", _correct_text(manifest)
    return f"One {label} is published, under {names}: {meaning}. Other results describe groups."


def customer_texts(manifest: Mapping[str, Any]) -> list[str]:
    """Return the same and, beside labels, what the total epsilon covers: for card and report."""
    return [customer_text(manifest), *([total_text(manifest)] if has_labels(manifest) else [])]


def label_warnings(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a warning if the released channel lets labels say little; often nothing.

    The channel is public, and the number of segments that labels distinguish was computed from
    released values.
    """
    if not has_labels(manifest) or manifest["variant"] == "instance":
        return ()
    (record,) = (part for part in manifest["products"] if part["name"] == "labels")
    parts = stated_parts(record["channel"])[:-1]  # the last row: no readings
    if len(parts) == 1:
        return ()
    named = named_labels(parts / parts.sum(axis=1, keepdims=True))
    apart = [one["count"] for one in record.get("achieved", []) if one["quantity"] == DISTINGUISHED]
    rarely = f"with a probability below {format_share(MIN_NAMED, 0)}"
    unnamed = [str(label) for label in range(len(parts)) if label not in named]
    text = ""
    if len(named) == 1:
        text = (
            f"The labels carry no information: every customer has the label {named[0]}, whatever"
            f" the segment; other labels are published {rarely}."
        )
    elif apart == [1]:
        text = (
            "The labels carry little information: whatever the label of a customer, the same"
            " segment is the most probable one."
        )
    elif unnamed:
        text = (
            f"Labels name {len(named)} of {len(parts)} segments: labels of segment"
            f"{'s' * (len(unnamed) > 1)} {', '.join(unnamed)} are published {rarely}, also for"
            " customers of that segment."
        )
    return (text,) if text else ()


def real_ids_text(manifest: Mapping[str, Any]) -> str:
    """Return whether a release contains real ids or can be linked to them, and its tier."""
    tier = manifest["guarantee"]["tier"]
    if not has_labels(manifest):
        return (
            f"Real ids: no, {tier} tier. No table has a row per customer, under an id or under a"
            " pseudonym: there is nothing to link to an id."
        )
    if manifest["request"]["real_ids"]:
        return (
            f"Real ids: yes, {tier} tier. The table labels names each listed customer by its real"
            " id, with one label: customers are identified directly."
        )
    return (
        f"Real ids: no, {tier} tier. The table labels has one row per customer, under pseudonyms:"
        " keyed hashes of the ids (HMAC-SHA256), whose key was drawn for this release and not"
        " stored. They cannot be converted to ids or matched with the pseudonyms of another"
        " release. A reader who knows the load of a customer may still guess which rows could be"
        " those of that customer."
    )


def total_text(manifest: Mapping[str, Any]) -> str:
    """Return which values the total epsilon covers, and what labels beside it reveal."""
    epsilon, delta = (manifest["guarantee"][name] for name in ("epsilon", "delta"))
    if not has_labels(manifest):
        return (
            f"The total, epsilon {epsilon} at delta {delta}, covers every published value. No"
            " labels are published."
        )
    if manifest["variant"] == "instance":
        return (
            f"The total, epsilon {epsilon} at delta {delta}, is that of the instance tier. No total"
            " of the global tier covers these labels. A label reveals the segment of its customer,"
            " and so a typical daily curve; one that was released without noise reveals it exactly."
        )
    (own,) = (part["epsilon"] for part in manifest["products"] if part["name"] == "labels")
    factor = format_factor(float(own))
    between = format_upper_bound(segment_ratio(_channel(manifest)), 4)
    return (
        f"The total, epsilon {epsilon} at delta {delta}, includes these labels (standalone epsilon"
        f" {own}); releases of the instance tier are not counted. A label reveals the segment of"
        " its customer, and so a typical daily curve, as far as it is correct. Compared with a"
        " release without that customer's readings, the probability of any published label changes"
        f" by a factor of at most {factor}. Compared with another segment of the same customer, it"
        f" changes by a factor of at most {between}: a label can change the odds that its customer"
        " is in one segment rather than another by that factor."
    )


def segment_ratio(channel: Sequence[Sequence[int]]) -> float:
    """Return the largest ratio of the probabilities of one label in two segments.

    A label changes the odds of two segments by the ratio of two entries of its column: at most
    e^(2 epsilon). Infinite if a label is possible in some segments only, which is no channel.
    """
    ratios = [Fraction(1)]
    for column in zip(*channel[:-1], strict=True):  # the last row: no readings
        if min(column):
            ratios.append(Fraction(max(column), min(column)))
        elif max(column):
            return math.inf
    return float(max(ratios))


def _correct_text(manifest: Mapping[str, Any]) -> str:
    """Return with which probability a label is correct: the diagonal of the published channel."""
    rows = _channel(manifest)[:-1]  # the last one: no readings
    correct = [row[cluster] / sum(row) for cluster, row in enumerate(rows)]
    low, high = format_share(min(correct)), format_share(max(correct))
    chance = low if low == high else f"{low} to {high}, depending on the segment"
    return f"the label of a customer with readings is correct with a probability of {chance}"


def _channel(manifest: Mapping[str, Any]) -> list[list[int]]:
    """Return the published channel: a row per segment, and the last one without readings."""
    (channel,) = (part["channel"] for part in manifest["products"] if part["name"] == "labels")
    return [[int(parts) for parts in row] for row in channel]
