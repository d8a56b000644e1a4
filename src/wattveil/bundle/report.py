"""report.html: the page of a release for people, made from its manifest and tables alone.

It is a standalone page: it makes no request and may be mailed or archived. `wattveil verify`
renders it again and compares.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from plotly.graph_objects import Figure

from wattveil.bundle.card import citation
from wattveil.bundle.cumulative import sentences
from wattveil.bundle.manifest import Manifest, choice_of
from wattveil.products.public_estimate import delta_warning
from wattveil.products.registry import product_named
from wattveil.products.request import NOT_STATED
from wattveil.products.tables import Table
from wattveil.web.charts import ReportFigure, colour, new_figure
from wattveil.web.pages import MAIN, render_file


class ReportSection(NamedTuple):
    """The figures of one product under its title."""

    title: str
    figures: Sequence[ReportFigure]


def report_page(manifest: Manifest, tables: Mapping[str, Table]) -> str:
    """Return the page as HTML; a product without tables has no section."""
    guarantee, public = manifest["guarantee"], manifest["request"]
    stated = (manifest["curator"], manifest["region"], manifest["published_at"][:10])
    cited, software = citation(manifest)
    return render_file(
        "report.html",
        manifest=manifest,
        byline=" · ".join(text for text in stated if text != NOT_STATED),
        facts=[
            (guarantee["epsilon"], "epsilon"),
            (guarantee["delta"], "delta"),
            (f"each {guarantee['unit']}", "protected"),
            (manifest["guarantee_scope"], "holds for"),
        ],
        warning=delta_warning(float(public["delta"]), public["customers"]),
        sections=[*_sections(manifest, tables)],
        budget=_budget(manifest),
        limits=[
            ("Not protected", manifest["unprotected"]),
            ("Processing before the noise", manifest["preprocessing"]),
            ("Limits", manifest["known_limits"]),
            ("Combined with other releases", sentences(manifest["cumulative"])),
        ],
        citation=cited,
        software=software,
    )


def sections_of(page: str) -> str:
    """Return the content of a report as HTML, for another page with the same stylesheet."""
    return page.rpartition(MAIN)[2].partition("</main>")[0]


def _sections(manifest: Manifest, tables: Mapping[str, Table]) -> Iterator[ReportSection]:
    """Yield a section for each product that has figures."""
    choice = choice_of(manifest)
    for record in manifest["products"]:
        product = product_named(record["name"], choice.request.tier)
        if figures := [*product.figures(tables, choice)]:
            yield ReportSection(product.title, figures)


def _budget(manifest: Manifest) -> ReportFigure:
    caption = (
        "The budget was allocated before anything was computed. Each area is one query, as large as"
        " its privacy cost (rho)."
    )
    if sum(int(part["grant"]["rho_units"]) > 0 for part in manifest["products"]) > 1:
        caption += (
            " Costs add up in rho, not in epsilon: the standalone epsilons of the products add up"
            " to more than the epsilon of the release."
        )
    if aside := [part for part in manifest["products"] if not int(part["grant"]["rho_units"])]:
        names = ", ".join(f"{part['name']} (epsilon {part['epsilon']})" for part in aside)
        caption += f" Not shown, since allocated from epsilon directly: {names}."
    return ReportFigure("Budget by product and query", _budget_figure(manifest), caption)


def _budget_figure(manifest: Manifest) -> Figure:
    """Return a treemap of the Gaussian budget: products, and the queries of each."""
    labels, parents, values, colours = [], [], [], []
    gaussian = [product for product in manifest["products"] if int(product["grant"]["rho_units"])]
    for number, product in enumerate(gaussian):
        labels.append(product["name"])
        parents.append("")
        values.append(0.0)
        colours.append(colour(number))
        for mechanism in product["runs"][0]["mechanisms"]:
            labels.append(mechanism["tag"])
            parents.append(product["name"])
            values.append(int(mechanism["rho_units"]) * 1e-18)
            colours.append(colour(number))
    figure = new_figure(height=360, legend=False)
    figure.add_treemap(
        ids=[
            f"{above}/{own}" if above else own for above, own in zip(parents, labels, strict=True)
        ],
        labels=labels,
        parents=parents,
        values=values,
        marker={"colors": colours, "line": {"width": 1, "color": "#fff"}},
        branchvalues="remainder",
        textinfo="label+percent root",
        hovertemplate="%{label}: rho %{value:.3g}<extra></extra>",
        tiling={"pad": 2},
    )
    figure.update_layout(
        margin={"l": 0, "r": 0, "t": 10, "b": 0}, uniformtext={"minsize": 9, "mode": "hide"}
    )
    return figure
