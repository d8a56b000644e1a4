"""report.html: the page of a release for people, made from its manifest and tables alone.

It is a standalone page without scripts: it makes no request, prints, and may be mailed or archived.
`wattveil verify` renders it again and compares.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from plotly.graph_objects import Figure

from wattveil.bundle.card import (
    all_warnings,
    choice_banners,
    citation,
    noise_text,
    number_of_gaussian_parts,
    period_text,
)
from wattveil.bundle.cumulative import sentences
from wattveil.bundle.label_texts import customer_texts
from wattveil.bundle.manifest import Manifest, choice_of
from wattveil.bundle.replaced_data import inference_sentence
from wattveil.bundle.statistical_bias import INCLUDED, NOISE
from wattveil.privacy.guarantee import Guarantee, Tier
from wattveil.products.group_labels import labelled, request_labels
from wattveil.products.load import MEAN_LOAD_ERROR
from wattveil.products.product import Product
from wattveil.products.registry import product_named
from wattveil.products.request import NOT_STATED
from wattveil.products.tables import Table
from wattveil.web.charts import ReportFigure, colour, new_figure
from wattveil.web.formatting import format_number, format_share
from wattveil.web.pages import MAIN, PageTable, render_file


class ReportSection(NamedTuple):
    """The figures of one product under its title."""

    title: str
    population: str
    """Which customers it counts; empty if the release has no groups."""
    figures: Sequence[ReportFigure]
    text: str = ""
    table: PageTable | None = None
    """Below the figures, if there are any."""


def report_page(manifest: Manifest, tables: Mapping[str, Table]) -> str:
    """Return the page as HTML; a product without tables has no section."""
    guarantee = manifest["guarantee"]
    stated = (manifest["curator"], manifest["region"], manifest["published_at"][:10])
    cited, software = citation(manifest)
    choice = choice_of(manifest)
    products = [product_named(one["name"], choice.request.tier) for one in manifest["products"]]
    products.sort(key=lambda product: not product.is_first_in_report)
    labels = request_labels(manifest["request"])
    tables = {name: labelled(table, labels) for name, table in tables.items()}
    headlines = [product.headline(tables, choice) for product in products]
    return render_file(
        "report.html",
        manifest=manifest,
        byline=" · ".join(text for text in stated if text != NOT_STATED),
        banners=choice_banners(manifest),
        is_instance=manifest["variant"] == "instance",
        noise=noise_text(manifest),
        about_customers=customer_texts(manifest),
        period=period_text(manifest),
        findings=[one.sentence for one in headlines if one.sentence],
        privacy=_plain_guarantee(Guarantee.from_json(guarantee)),
        facts=[
            *(fact for one in headlines for fact in one.facts),
            *_achieved_facts(manifest),
            (guarantee["epsilon"], f"{_epsilon_name(manifest)} at delta {guarantee['delta']}"),
        ],
        warnings=all_warnings(manifest),
        sections=[*_sections(products, manifest, tables)],
        budget=_budget(manifest),
        quality=_quality_table(manifest, products, tables),
        bias=_bias_table(manifest),
        limits=[
            ("Not protected", manifest["unprotected"]),
            ("Processing before the noise", manifest["preprocessing"]),
            ("Limits", manifest["known_limits"]),
            ("Combined with other releases", sentences(manifest["cumulative"])),
        ],
        cumulative=sentences(manifest["cumulative"]),
        citation=cited,
        contact="" if manifest["contact"] == NOT_STATED else manifest["contact"],
        software=software,
    )


def sections_of(page: str) -> str:
    """Return the content of a report as HTML, for another page with the same stylesheet."""
    return page.rpartition(MAIN)[2].partition("</main>")[0]


def _epsilon_name(manifest: Manifest) -> str:
    if manifest["variant"] == "instance":
        return "instance epsilon (not differential privacy)"
    return "epsilon (privacy loss)"


def _plain_guarantee(guarantee: Guarantee) -> str:
    """Return the guarantee in plain words; the exact statement follows further below."""
    factor = guarantee.sentence.partition("at most ")[2].partition(" p")[0]
    if guarantee.tier is not Tier.GLOBAL:
        return f"This is not differential privacy. {guarantee.sentence}"
    return (
        f"Including or excluding the data of one {guarantee.unit} changes the"
        f" probability of any result in this report by a factor of at most {factor}"
        f" (epsilon {guarantee.epsilon:g}), plus at most {guarantee.delta:g} (delta)."
        f" {inference_sentence(guarantee)}"
    )


def _sections(
    products: Sequence[Product], manifest: Manifest, tables: Mapping[str, Table]
) -> Iterator[ReportSection]:
    """Yield a section for each product that has figures or a text."""
    choice = choice_of(manifest)
    records = {record["name"]: record for record in manifest["products"]}
    for product in products:
        figures = [*product.figures(tables, choice)]
        text, table = product.report_text(records[product.name], tables)
        if figures or text:
            whose = product.population(choice.request)
            yield ReportSection(product.title, whose, figures, text, table)


def _planned(record: Mapping[str, Any]) -> dict[str, str]:
    """Return what was expected of a product, by quantity."""
    pairs = (text.partition(": ") for text in record["expected"])
    return {quantity: value for quantity, _, value in pairs}


def _achieved_facts(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield each quality that was planned: achieved over all groups, beside the planned number."""
    for record in manifest["products"]:
        for quantity, planned in _planned(record).items():
            found = [one for one in record.get("achieved", []) if one["quantity"] == quantity]
            if found:
                count, of = (sum(one[field] for one in found) for field in ("count", "of"))
                each = " in each group" if len(found) > 1 else ""
                yield f"{count} of {of}", f"{quantity} (planned: {_count_text(planned)}{each})"


def _count_text(planned: str) -> str:
    """Return a planned count and its range, without the number of clusters, which stands beside.

    >>> _count_text("3 of 4 (2 to 4)"), _count_text("3 of 4")
    ('3, range 2 to 4', '3')
    """
    count, _, rest = planned.partition(" of ")
    _, _, limits = rest.partition(" (")
    return f"{count}, range {limits.removesuffix(')')}" if limits else count


def _quality_table(
    manifest: Manifest, products: Sequence[Product], tables: Mapping[str, Table]
) -> PageTable:
    """Return budget and expected quality of each product, beside what was achieved."""
    errors: dict[str, str] = {}
    for product in products:
        errors.update(product.released_errors(tables))
    rows: list[tuple[str, ...]] = []
    for record in manifest["products"]:
        name, first = record["name"], f"standalone epsilon at delta {record['delta']}"
        found = [row for row in quality_rows(manifest, errors) if row.product == name]
        rows += [(name, first, record["epsilon"], ""), *(("", *row[1:]) for row in found)]
    head = ("product", "quantity", "planned", "achieved")
    return PageTable("", head, rows, text_columns=range(len(head)))


class QualityRow(NamedTuple):
    """A quality of a product: what was planned, and what was achieved."""

    product: str
    quantity: str
    planned: str
    achieved: str


def quality_rows(
    manifest: Manifest, errors: Mapping[str, str] = MappingProxyType({})
) -> Iterator[QualityRow]:
    """Yield planned and achieved qualities; ``errors`` are those that tables show."""
    known = {**released_errors(manifest), **errors}
    labels = request_labels(manifest["request"])
    for record in manifest["products"]:
        planned, found = _planned(record), record.get("achieved", [])
        counted = {one["quantity"] for one in found}
        for name, value in planned.items():
            if name not in counted:
                yield QualityRow(record["name"], name, value, known.get(name, ""))
        for one in found:
            group = labels.get(one["group"], "")  # not of all customers
            name = one["quantity"] + (f", {group}" if group else "")
            achieved = f"{one['count']} of {one['of']}"
            yield QualityRow(record["name"], name, planned.get(one["quantity"], ""), achieved)


def released_errors(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the error of released values by the name of what was planned, where it is known."""
    noise = [one for one in manifest["bias"] if one["source"] == NOISE and one["value"] is not None]
    if not noise:
        return {}
    noise.sort(key=lambda one: float(one["value"]))
    largest = number_text(noise[-1])
    if len(noise) > 1:  # what was planned is of a group of mean size
        name = _quantity_text(noise[-1]["quantity"], request_labels(manifest["request"]))
        name = name.partition(", ")[2]
        lowest = format_number(float(noise[0]["value"]))
        largest = f"{lowest} to {largest} by group, largest: {name}"
    return {MEAN_LOAD_ERROR: largest}


def _quantity_text(quantity: str, labels: Mapping[str, str]) -> str:
    """Return a quantity of the manifest with the label of its group, if it is of one."""
    name, comma, group = quantity.partition(", ")
    return f"{name}{comma}{labels.get(group, group)}"


def number_text(one: Mapping[str, Any]) -> str:
    """Return the number of an entry of the bias section, or why there is none."""
    if one["value"] is None:
        return "" if one["kind"] == INCLUDED else "not known"
    return f"{format_number(float(one['value']))} {one['unit']}".rstrip()


def _bias_table(manifest: Manifest) -> PageTable:
    """Return bias and errors: privacy noise and sampling error apart, groups in one row."""
    labels = request_labels(manifest["request"])
    rows: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for one in manifest["bias"]:
        name, _, group = one["quantity"].rpartition(", ")
        is_of_group = bool(name) and group in manifest["request"]["levels"]
        quantity = f"{name}, by group" if is_of_group else one["quantity"]
        row = (one["source"], quantity, one["kind"], one["basis"])
        whose = labels.get(group, group) if is_of_group else ""
        rows.setdefault(row, []).append((whose, number_text(one)))
    shown = [
        (source, quantity, kind, _numbers_text(found), basis)
        for (source, quantity, kind, basis), found in rows.items()
    ]
    head = ("source", "quantity", "kind", "number", "how it is known")
    return PageTable("", head, shown, text_columns=range(len(head)))


def _numbers_text(found: Sequence[tuple[str, str]]) -> str:
    """Return the numbers of groups in one text; one number if all are the same.

    >>> _numbers_text([("home", "1 kW"), ("shop", "2 kW")]), _numbers_text([("", "3 kW")])
    ('home 1 kW; shop 2 kW', '3 kW')
    """
    numbers = {number for _, number in found}
    if len(numbers) == 1:
        return numbers.pop()
    return "; ".join(f"{group} {number}".strip() for group, number in found)


def _budget(manifest: Manifest) -> ReportFigure:
    caption = (
        "The budget was allocated before anything was computed. The bar shows the share of each"
        " product in the privacy cost (rho)."
    )
    if number_of_gaussian_parts(manifest) > 1:
        caption += (
            " Costs add up in rho, not in epsilon: the standalone epsilons of the products add up"
            " to more than the epsilon of the release."
        )
    if aside := [part for part in manifest["products"] if not int(part["grant"]["rho_units"])]:
        names = ", ".join(f"{part['name']} (epsilon {part['epsilon']})" for part in aside)
        caption += f" Not shown, because allocated directly from epsilon: {names}."
    shares = _budget_shares(manifest)
    return ReportFigure(
        "Budget by product",
        _budget_figure(shares),
        caption,
        alt="Share of the budget: "
        + ", ".join(f"{name} {format_share(share, 0)}" for name, share in shares.items()),
        table=_query_table(manifest),
    )


def _budget_shares(manifest: Manifest) -> dict[str, float]:
    """Return the share of each product in the Gaussian budget."""
    units = {part["name"]: int(part["grant"]["rho_units"]) for part in manifest["products"]}
    whole = sum(units.values())
    return {name: rho / whole for name, rho in units.items() if rho}


def _budget_figure(shares: Mapping[str, float]) -> Figure:
    """Return one bar, divided by product."""
    figure = new_figure(height=96)
    for number, (name, share) in enumerate(shares.items()):
        figure.add_bar(
            y=[""],
            x=[100.0 * share],
            name=f"{name} {format_share(share, 0)}",
            orientation="h",
            marker_color=colour(number),
            hovertemplate="%{x:.1f} %<extra></extra>",
        )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(title_text="% of the budget", range=[0, 100])
    return figure


def _query_table(manifest: Manifest) -> PageTable:
    """Return the cost of every query of the Gaussian budget; runs of groups cost the same."""
    rows = [
        (part["name"], one["tag"], f"{int(one['rho_units']) * 1e-18:.3g}")
        for part in manifest["products"]
        for one in part["runs"][0]["mechanisms"]
        if "rho_units" in one
    ]
    return PageTable("Queries", ("product", "query", "rho"), rows, text_columns=(0, 1))
