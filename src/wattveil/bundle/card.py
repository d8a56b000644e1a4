"""CARD.md of a bundle: guarantee, contents, method, limits and citation, in one page."""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from wattveil.bundle.cumulative import sentences
from wattveil.bundle.label_texts import customer_texts, label_warnings
from wattveil.bundle.manifest import Manifest
from wattveil.bundle.replaced_data import inference_sentence
from wattveil.privacy.guarantee import Guarantee
from wattveil.products.request import NOT_STATED
from wattveil.release.weak_guarantees import choice_warnings, guarantee_warnings
from wattveil.web.formatting import escape_markdown

NOT_ADDITIVE = "Standalone epsilons do not add up to the total."
"""Stated beside the epsilons of several products."""
_CARD = """# {title}

Publisher: {curator}. Date: {date}. Region: {region}. Contact: {contact}.

Readings: {period}.

## Privacy guarantee

{warning}{guarantee_text}{inferences}

{weaknesses}{verification}

## Contents

{tables}

Each table is provided as Parquet and as CSV. `manifest.json` is the manifest of the release, and
`report.html` shows the results.

## Method

{preprocessing}

Noise was added by the mechanisms {mechanisms}.
The budget of epsilon {epsilon} at delta {delta} is divided among {parts}.{adding}

Post-processing, which uses released numbers only:

{postprocessing}

## Intended use and limitations

* Intended use: {intended_use}.
* {noise} Columns that end in `std` or `std_kw` are standard errors. Small segments and groups are
  the least accurate.
{about_customers}

## What is not protected

{unprotected}

## Limits

{limits}

Other releases about the same people, as stated by the publisher: {other}.
{cumulative}

## How to cite

> {citation}
"""


def card_text(manifest: Manifest) -> str:
    """Return the card of a release."""
    parts = manifest["products"]
    mechanisms = {
        mechanism["mechanism"]
        for part in parts
        for run in part["runs"]
        for mechanism in run["mechanisms"]
    }
    return _CARD.format(
        title=escape_markdown(manifest["title"]),
        curator=escape_markdown(manifest["curator"]),
        date=manifest["published_at"][:10],
        region=escape_markdown(manifest["region"]),
        contact=escape_markdown(manifest["contact"]),
        period=period_text(manifest),
        warning="".join(f"**{line}**\n\n" for line in choice_banners(manifest)),
        guarantee_text=manifest["guarantee_text"],
        inferences=f" {inference_sentence(Guarantee.from_json(manifest['guarantee']))}".rstrip(),
        weaknesses="".join(f"**Warning:** {line}\n\n" for line in all_warnings(manifest)),
        verification=_verification_text(manifest),
        noise=noise_text(manifest),
        about_customers=_bullets(customer_texts(manifest)),
        tables="\n".join(_table(table) for part in parts for table in part["tables"]),
        preprocessing=_bullets(manifest["preprocessing"]),
        mechanisms=_enumerated([f"`{name}`" for name in sorted(mechanisms)]),
        epsilon=manifest["guarantee"]["epsilon"],
        delta=manifest["guarantee"]["delta"],
        parts=", ".join(f"{part['name']} (standalone epsilon {part['epsilon']})" for part in parts),
        adding=f" {NOT_ADDITIVE}" if number_of_gaussian_parts(manifest) > 1 else "",
        postprocessing=_bullets([step for part in parts for step in part["postprocessing"]]),
        intended_use=escape_markdown(manifest["intended_use"]),
        unprotected=_bullets(manifest["unprotected"]),
        limits=_bullets(manifest["known_limits"]),
        other=escape_markdown(manifest["other_releases_on_same_people"]),
        cumulative=" ".join(sentences(manifest["cumulative"])),
        citation=escape_markdown(" ".join(citation(manifest))),
    )


def choice_banners(manifest: Manifest) -> tuple[str, ...]:
    """Return what card and report state first: the instance tier, and real ids; often nothing.

    Manifests of series have neither: no row per customer, and one tier.
    """
    real_ids = manifest.get("request", {}).get("real_ids", False)
    return choice_warnings(is_instance=manifest.get("variant") == "instance", real_ids=real_ids)


def weaknesses(manifest: Manifest) -> tuple[str, ...]:
    """Return what weakens the stated guarantee; its number of customers is the public estimate."""
    return guarantee_warnings(
        epsilon=float(manifest["guarantee"]["epsilon"]),
        delta=float(manifest["guarantee"]["delta"]),
        customers=manifest["request"]["customers"],
    )


def all_warnings(manifest: Manifest) -> tuple[str, ...]:
    """Return what card and report warn of: a weak guarantee, and labels without information."""
    return (*weaknesses(manifest), *label_warnings(manifest))


def noise_text(manifest: Manifest) -> str:
    """Return which values contain noise."""
    if manifest["variant"] == "instance":
        return (
            "Centroids contain random noise whose size was computed from the data. Labels that the"
            " removal of any one customer leaves unchanged contain none."
        )
    return "All numbers contain random noise."


def _verification_text(manifest: Manifest) -> str:
    """Return what a reader can check without the data."""
    if manifest["variant"] == "instance":
        return (
            "`wattveil verify` on this folder adds up the stated charges, without access to the"
            " data. The noise cannot be checked: its size was computed from the data and is not"
            " published."
        )
    return (
        "To check the guarantee without access to the data, run `wattveil verify` on this folder."
    )


def _enumerated(names: list[str]) -> str:
    """Join names: A, B and C."""
    return " and ".join([*filter(None, [", ".join(names[:-1])]), *names[-1:]])


def stated_days(manifest: Mapping[str, Any]) -> tuple[date, date] | None:
    """Return first and last day of the readings, as publicly stated; None if they are not.

    The manifest has the day after the last: the end of the option ``period``.
    """
    stated = manifest["profiles"]["reading_rules"]["period"]
    grid = manifest["profiles"]["grid"]
    if stated is not None:
        first, end = map(date.fromisoformat, stated)
        return first, end - timedelta(days=1)
    if not any(part["name"] == "years" for part in manifest["products"]):
        return None
    first = date.fromisoformat(grid["first_day"])  # days of synthetic years are public
    return first, first + timedelta(days=grid["n_days"] - 1)


def period_text(manifest: Manifest) -> str:
    """Return first and last day of the readings, as publicly stated, or what else is known."""
    days = stated_days(manifest)
    if days is not None:
        return f"{days[0]} to {days[1]}"
    min_days = manifest["profiles"]["min_days"]
    known = "" if min_days is None else f"at least {min_days} days per customer; "
    return f"{known}the publisher did not state their dates"


def number_of_gaussian_parts(manifest: Manifest) -> int:
    """Return how many products share the cost (rho) that adds up, unlike epsilon."""
    return sum(int(part["grant"]["rho_units"]) > 0 for part in manifest["products"])


def citation(manifest: Manifest) -> tuple[str, str]:
    """Return how to cite a release, and what it was made with."""
    curator, year = manifest["curator"], manifest["published_at"][:4]
    who = "Publisher not stated" if curator == NOT_STATED else curator
    version = manifest["implementation"]["software"]["wattveil"]
    cited = f"{who} ({year}). {manifest['title']}. Release {manifest['release_id']}."
    return cited, f"Made with Wattveil {version}."


def _table(table: dict[str, Any]) -> str:
    columns = ", ".join(_column(one) for one in table["columns"])
    return f"* **{table['name']}**: {escape_markdown(table['text'])} Columns: {columns}."


def _column(column: dict[str, Any]) -> str:
    unit = f", {column['unit']}" if "unit" in column else ""
    return f"`{column['name']}` ({escape_markdown(column['text'])}{unit})"


def _bullets(lines: list[str]) -> str:
    return "\n".join(f"* {escape_markdown(line)}" for line in dict.fromkeys(lines)) or "* nothing"
