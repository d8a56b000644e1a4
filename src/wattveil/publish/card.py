"""CARD.md: what somebody who downloads a bundle needs to know, in one page."""

from typing import Any

from wattveil.publish.cumulative import sentences
from wattveil.publish.manifest import Manifest
from wattveil.publish.request import NOT_STATED

_CARD = """# {title}

{curator}, {date}. Region: {region}. Contact: {contact}.

## The promise

{guarantee_text}

Check it yourself, without the data: `wattveil verify` with the path of this folder.

## What is in it

{tables}

Every table is there as Parquet and as CSV. `manifest.json` is the release statement,
`report.html` shows the numbers.

## How it was made

{preprocessing}

Noise was added by {mechanisms}.
The budget of epsilon {epsilon} at delta {delta} is shared by {parts}.

Afterwards, on released numbers only:

{postprocessing}

## What it is good for, and what not

* Made for {intended_use}.
* Numbers carry noise; columns that end in `std` or `std_kw`, where there are any, say how much.
  Small clusters and groups are the least sure.
* It is about groups of customers. Labels, where there are any, are drawn by chance around the
  truth: none of them may be taken for a fact about its customer.

## What is not protected

{unprotected}

## Limits

{limits}

Other releases about the same people, as far as the publisher says: {other}.
{cumulative}

## How to cite

> {citation}
"""


def card_text(statement: Manifest) -> str:
    """Return the card of a release."""
    parts = statement["parts"]
    mechanisms = {
        mechanism["mechanism"]
        for part in parts
        for run in part["runs"]
        for mechanism in run["mechanisms"]
    }
    return _CARD.format(
        title=statement["title"],
        curator=statement["curator"],
        date=statement["published_at"][:10],
        region=statement["region"],
        contact=statement["contact"],
        guarantee_text=statement["guarantee_text"],
        tables="\n".join(_table(table) for part in parts for table in part["tables"]),
        preprocessing=_bullets(statement["preprocessing"]),
        mechanisms=" and ".join(f"`{name}`" for name in sorted(mechanisms)),
        epsilon=statement["guarantee"]["epsilon"],
        delta=statement["guarantee"]["delta"],
        parts=", ".join(f"{part['name']} (epsilon {part['epsilon']} by itself)" for part in parts),
        postprocessing=_bullets([step for part in parts for step in part["postprocessing"]]),
        intended_use=statement["intended_use"],
        unprotected=_bullets(statement["unprotected"]),
        limits=_bullets(statement["known_limits"]),
        other=statement["other_releases_on_same_people"],
        cumulative=" ".join(sentences(statement["cumulative"])),
        citation=" ".join(citation(statement)),
    )


def citation(statement: Manifest) -> tuple[str, str]:
    """Return how to cite a release, and what it was made with."""
    curator, year = statement["curator"], statement["published_at"][:4]
    who = "Publisher not stated" if curator == NOT_STATED else curator
    version = statement["implementation"]["software"]["wattveil"]
    cited = f"{who} ({year}). {statement['title']}. Release {statement['release_id']}."
    return cited, f"Made with Wattveil {version}."


def _table(table: dict[str, Any]) -> str:
    columns = ", ".join(
        f"`{column['name']}` ({column['text']}{', ' + column['unit'] if 'unit' in column else ''})"
        for column in table["columns"]
    )
    return f"* **{table['name']}**: {table['text']} Columns: {columns}."


def _bullets(lines: list[str]) -> str:
    return "\n".join(f"* {line}" for line in dict.fromkeys(lines)) or "* nothing"
