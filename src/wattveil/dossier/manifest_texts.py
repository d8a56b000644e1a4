"""Texts of a dossier that follow from the manifest of a release: accuracy, bias, groups, dates."""

from collections.abc import Mapping
from typing import Any

from wattveil.bundle.card import period_text
from wattveil.bundle.cumulative import sentences
from wattveil.bundle.report import number_text, released_errors
from wattveil.products.request import NO_RULE, ReleaseRequest
from wattveil.profiles import Split, TimeGrid
from wattveil.release.weak_guarantees import delta_warning


def delta_text(manifest: Mapping[str, Any]) -> str:
    """Return delta beside one over the public estimate of the number of customers."""
    request = manifest["request"]
    warning = delta_warning(float(request["delta"]), request["customers"])
    limit = 1.0 / request["customers"]
    text = warning or f"delta {request['delta']} is below 1/customers = {limit:g}"
    if request["customers"] != ReleaseRequest.model_fields["customers"].default:
        return text
    return (
        f"{text.rstrip('.')}. {request['customers']:,} customers is the default of the software,"
        " used if no estimate is given: confirm that it fits the data"
    )


def quality_table(manifest: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return expected and achieved quality: a row for each quantity of a product."""
    found, errors = [], released_errors(manifest)
    for part in manifest["products"]:
        expected = dict(text.split(": ", 1) for text in part["expected"])
        counted = part.get("achieved", [])
        rows = {one["quantity"] for one in counted}
        found += [
            _row(part, quantity, expected=value, achieved=errors.get(quantity, ""))
            for quantity, value in expected.items()
            if quantity not in rows
        ]
        for one in counted:
            of = f"{one['count']} of {one['of']}"
            name = one["quantity"]
            found.append(_row(part, name, expected=expected.get(name, ""), achieved=of))
    return found


def _row(
    part: Mapping[str, Any], quantity: str, *, expected: str = "", achieved: str = ""
) -> dict[str, str]:
    return {
        "product": part["name"],
        "quantity": quantity,
        "expected": expected,
        "achieved": achieved,
    }


def bias_table(manifest: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return bias and errors: a row for each source."""
    return [
        {
            "source": one["source"],
            "quantity": one["quantity"],
            "kind": one["kind"],
            "number": number_text(one),
            "how it is known": one["basis"],
        }
        for one in manifest["bias"]
    ]


def groups_text(manifest: Mapping[str, Any]) -> str:
    """Return the attribute of groups with its values."""
    request = manifest["request"]
    if request["by"] is None:
        return "no attribute: all customers together"
    return f"{request['by']}: {', '.join(request['levels'])}"


def rule_text(manifest: Mapping[str, Any]) -> str:
    """Return the threshold that the release applied, or that it applied none."""
    rule: str = manifest["request"]["rule"]
    applied = {NO_RULE: "none was applied: cells of any size are published, with noise"}
    return applied.get(rule, f"{rule}, by noisy counts and released load")


def published_text(manifest: Mapping[str, Any]) -> str:
    """Return what is published: labels are the only values about individual customers."""
    names = {part["name"] for part in manifest["products"]}
    found = []
    if "labels" in names:
        label = "randomised label"
        if manifest["variant"] == "instance":
            label = "label, without noise if the removal of any one customer leaves it unchanged,"
        under = "real identifiers" if manifest["request"]["real_ids"] else "pseudonyms"
        found += [
            f"Aggregates and models are published, and one {label} per customer, under {under}."
        ]
    else:
        found += ["Only aggregates and models are published. No labels are published."]
    if names & {"synthesis", "years"}:
        found += ["Synthetic customers are sampled from a released model."]
    return " ".join(found)


def stated_period(manifest: Mapping[str, Any]) -> str | None:
    """Return the stated days of the readings; None if they are not stated."""
    stated = manifest["profiles"]["reading_rules"]["period"]
    return None if stated is None else period_text(dict(manifest))


def grid_text(manifest: Mapping[str, Any]) -> str:
    """Return slots and days of a profile."""
    grid = TimeGrid.from_json(manifest["profiles"]["grid"])
    every = "hourly" if grid.minutes == 60 else f"every {grid.minutes} minutes"  # noqa: PLR2004 - an hour
    closed = ", with the first interval repeated at the end" if grid.closing_midnight else ""
    days = f", and {grid.n_days} consecutive days" if grid.n_days else ""
    return f"{every}, {_SPLITS[grid.split]}{closed}{days}"


_SPLITS = {
    Split.DAY: "one average day",
    Split.WEEKDAY_WEEKEND: "average days of weekdays and weekends",
    Split.SEASON: "an average day of each season",
    Split.SEASON_WEEKDAY_WEEKEND: "average days of weekdays and weekends of each season",
    Split.WEEK: "an average week",
}


def over_releases_text(manifest: Mapping[str, Any]) -> str:
    """Return what is known of other releases: counted by a ledger, or stated by the curator."""
    stated = manifest["other_releases_on_same_people"]
    replaced = manifest["supersedes"]
    return " ".join(
        [
            *sentences(manifest["cumulative"]),
            f"Other releases about the same customers, as stated by the curator: {stated}.",
            *([] if replaced == "none" else [f"Replaces release {replaced}."]),
        ]
    )
