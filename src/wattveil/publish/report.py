"""report.html: one page for people, with all it needs inside and no way to the network."""

from collections.abc import Iterator, Mapping
from html import escape

import plotly.graph_objects as go
import plotly.offline

from wattveil.public_estimate import delta_warning
from wattveil.publish import columns, figures
from wattveil.publish.card import citation
from wattveil.publish.cumulative import sentences
from wattveil.publish.manifest import Manifest
from wattveil.publish.request import NOT_STATED
from wattveil.publish.tables import Table

_STYLE = """
:root { --ink: #1c2733; --soft: #5a6875; --line: #dfe5ea; --blue: #0b5394; --paper: #fff; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #f4f6f8; line-height: 1.5;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
header { background: var(--blue); color: #fff; padding: 2.2rem 1.2rem 2.6rem; }
header > div, main { max-width: 70rem; margin: 0 auto; }
header h1 { margin: 0 0 .3rem; font-size: clamp(1.5rem, 4vw, 2.3rem); line-height: 1.2; }
header p { margin: 0; opacity: .9; }
main { padding: 0 1.2rem 3rem; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 10px;
  padding: 1.2rem 1.4rem; margin: 1.2rem 0; }
main > section:first-child { margin-top: -1.4rem; }
h2 { margin: 0 0 .2rem; font-size: 1.25rem; }
h3 { margin: 1rem 0 .2rem; font-size: 1rem; }
section > p { margin: .2rem 0 .8rem; max-width: 46rem; }
.soft { color: var(--soft); }
.tiles { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); }
.tiles div { border-left: 4px solid var(--blue); padding: .1rem .8rem; }
.tiles b { display: block; font-size: 1.5rem; }
.charts { display: grid; gap: .6rem 1.2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(18rem, 100%), 1fr)); }
figure { margin: 0; min-width: 0; }
figcaption { font-weight: 600; margin-bottom: .1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .95rem; }
th, td { text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
blockquote { margin: .4rem 0; padding: .4rem 1rem; border-left: 4px solid var(--line); }
code { background: #eef2f5; padding: .1rem .3rem; border-radius: 4px; overflow-wrap: anywhere; }
ul { margin: .3rem 0; padding-left: 1.2rem; overflow-wrap: anywhere; }
@media (max-width: 40rem) { section { padding: 1rem .9rem; } main { padding: 0 .6rem 2rem; } }
@media print {
  body { background: #fff; font-size: 11pt; }
  header { color: var(--ink); background: #fff; padding: 0 0 1rem; }
  main, header > div { max-width: none; padding: 0; }
  main > section:first-child { margin-top: 0; }
  section { border: 0; border-top: 1px solid var(--line); border-radius: 0; padding: .8rem 0; }
  figure, tr, .tiles { break-inside: avoid; }
  h2 { break-after: avoid; }
}
"""

_MUCH_CLIPPED = 0.2
"""Share of customers scaled back beyond which a mean no longer is one."""

_DRAW = """
// After the whole page is laid out, so that every chart gets the width it will keep.
const charts = document.querySelectorAll("[data-figure]");
for (const chart of charts) {
  const figure = JSON.parse(chart.dataset.figure);
  Plotly.newPlot(chart, figure.data, figure.layout, {responsive: true, displayModeBar: false});
}
const fit = () => charts.forEach(chart => Plotly.Plots.resize(chart));
window.addEventListener("beforeprint", fit);
window.addEventListener("afterprint", fit);
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data: blob:; \
style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
<script>{plotly}</script>
</head>
<body>
<header><div><h1>{title}</h1><p>{byline}</p></div></header>
<main>{sections}</main>
<script>{draw}</script>
</body>
</html>
"""


def report_page(statement: Manifest, tables: Mapping[str, Table]) -> str:
    """Return the page; a section that a release has no numbers for is left out."""
    sections = [
        _promise(statement),
        *_clusters(statement, tables),
        *_synthetic(tables),
        *_load(tables),
        *_shares(statement, tables),
        _budget(statement),
        _limits(statement),
        _cite(statement),
    ]
    known = (statement["curator"], statement["region"], statement["published_at"][:10])
    byline = " · ".join(text for text in known if text != NOT_STATED)
    return _PAGE.format(
        title=escape(statement["title"]),
        byline=escape(byline),
        style=_STYLE,
        plotly=plotly.offline.get_plotlyjs(),
        draw=_DRAW,
        sections="\n".join(sections),
    )


def sections_of(page: str) -> str:
    """Return the sections of a report, to stand in another page; charts are in ``data-figure``."""
    return page.rpartition("<main>")[2].partition("</main>")[0]


def _promise(statement: Manifest) -> str:
    guarantee = statement["guarantee"]
    facts = {
        "epsilon": guarantee["epsilon"],
        "delta": guarantee["delta"],
        "protected": f"each {guarantee['unit']}",
        "holds for": statement["guarantee_scope"],
    }
    tiles = "".join(
        f"<div><span class='soft'>{escape(name)}</span><b>{escape(value)}</b></div>"
        for name, value in facts.items()
    )
    text = escape(statement["guarantee_text"])
    public = statement["public_inputs"]
    if warning := delta_warning(float(public["delta"]), public["customers_guessed"]):
        text += f"</p><p><b>Warning:</b> {escape(warning)}"
    return _section("The promise", text, f"<div class='tiles'>{tiles}</div>")


def _clusters(statement: Manifest, tables: Mapping[str, Table]) -> Iterator[str]:
    centroids, counted = tables.get("centroids"), tables.get("cluster_sizes")
    if centroids is None:
        return
    normalised = statement["public_inputs"]["normalise"]
    counts = [""] * centroids.data.num_rows if counted is None else _counts(counted)
    unit = "of a row's length" if normalised else "kW"
    charts = "".join(
        _chart(f"Cluster {curve.name}{count}", figures.one_curve(curve, unit=unit))
        for curve, count in zip(figures.curves(centroids), counts, strict=False)
    )
    banded = columns.curve_names(centroids)[1] in centroids.data.column_names
    words = "The typical day of each kind of customer."
    words += " The band is two standard errors either way." if banded else ""
    words += " Curves are scaled: they show shape, not size." if normalised else ""
    yield _section("Kinds of customers", words, f"<div class='charts'>{charts}</div>")
    charts = _chart("Customers in each cluster", figures.sizes(counted)) if counted else ""
    if len(set(centroids.data["cluster"].to_pylist())) > 1:
        charts += _chart("Map of the clusters", figures.cluster_map(centroids, counted))
    words = "How many customers are of each kind, and how much the kinds differ: near means alike."
    yield _section("How many, how different", words, f"<div class='charts'>{charts}</div>")


def _synthetic(tables: Mapping[str, Table]) -> Iterator[str]:
    if "synthetic" not in tables:
        return
    drawn = set(tables["synthetic"].data["cluster"].to_pylist())
    charts = "".join(
        _chart(
            f"Cluster {curve.name}{'' if curve.number in drawn else ' · too few to draw any'}",
            figures.fan(curve, tables["synthetic"]),
        )
        for curve in figures.curves(tables["centroids"])
    )
    words = (
        "Customers drawn from the released model around each load curve: half of them are in the"
        " dark band, nine of ten in the light one. They are nobody; draw as many as you like, with"
        " <code>wattveil synthesize</code>."
    )
    yield _section("Synthetic customers", words, f"<div class='charts'>{charts}</div>")


def _counts(table: Table) -> list[str]:
    """Return the size of each cluster in words."""
    data = table.data.to_pydict()
    errors = data.get("customers_std")
    words = []
    for row, count in enumerate(data["customers"]):
        margin = 1.96 * errors[row] if errors else 0.0
        sure = f" ± {margin:,.0f} customers" if errors else " customers"
        words.append(f" · {count:,.0f}{sure}" + (", if any" if count < margin else ""))
    return words


def _load(tables: Mapping[str, Table]) -> Iterator[str]:
    if "load_shapes" not in tables:
        return
    charts = _chart(
        "Mean load of a customer", figures.overlaid(tables["load_shapes"], unit="kW a customer")
    ) + _chart(
        "Load duration",
        figures.overlaid(tables["load_duration"], unit="kW, all customers", falling=True),
    )
    groups = tables["groups"].data.to_pydict()
    hidden = max(groups["hidden_kw"])
    pairs = zip(groups["clipped_share"], groups["clipped_share_std"], strict=True)
    clipped = max(share - 2.0 * std for share, std in pairs)
    words = (
        "The mean day, and the load of all customers together from its highest to its lowest. Bands"
        " are two standard errors either way. They hold noise, not giants: customers who were"
        f" scaled back, and a few whom the noise hides, could add up to {hidden:.2g} kW to a mean."
    )
    if clipped > _MUCH_CLIPPED:
        words += (
            f" <b>{clipped:.0%} or more of the customers of a group were scaled back</b>: the range"
            " of sizes that was looked at, or the public bound on customers, does not fit them, and"
            " the means may be too low."
        )
    yield _section("Load", words, f"<div class='charts'>{charts}</div>")


def _shares(statement: Manifest, tables: Mapping[str, Table]) -> Iterator[str]:
    if "cluster_shares" in tables:
        name = escape(str(statement["public_inputs"]["by"]))
        words = f"Of which kinds of customers each {name} is made."
        yield _section(
            "Where the clusters are",
            words,
            _chart("Shares", figures.shares(tables["cluster_shares"])),
        )


def _budget(statement: Manifest) -> str:
    rows = "".join(
        f"<tr><td>{escape(part['name'])}</td><td>{escape(part['epsilon'])}</td>"
        f"<td>{escape(part['delta'])}</td><td>{escape('; '.join(part['expected']))}</td></tr>"
        for part in statement["parts"]
    )
    head = "<tr><th>part</th><th>epsilon by itself</th><th>delta</th><th>expected, before</th></tr>"
    words = (
        "The budget was shared before anything was computed. Each area is one question to the data,"
        " as large as what it cost."
    )
    if sum(int(part["grant"]["rho_units"]) > 0 for part in statement["parts"]) > 1:
        words += (
            " Costs add up in rho, not in epsilon, so the epsilons of the parts add up to more than"
            " that of the release."
        )
    if aside := [part for part in statement["parts"] if not int(part["grant"]["rho_units"])]:
        names = ", ".join(f"{part['name']} (epsilon {part['epsilon']})" for part in aside)
        words += f" Not in the picture, since set aside from epsilon itself: {escape(names)}."
    return _section(
        "What it cost",
        words,
        _chart("The budget", figures.budget(statement))
        + f"<div class='scroll'><table>{head}{rows}</table></div>",
    )


def _limits(statement: Manifest) -> str:
    lists = "".join(
        f"<h3>{escape(title)}</h3><ul>{_items(lines)}</ul>"
        for title, lines in (
            ("Not protected", statement["unprotected"]),
            ("Before the noise", statement["preprocessing"]),
            ("Limits", statement["known_limits"]),
            ("With other releases", sentences(statement["cumulative"])),
        )
    )
    return _section("What to know", "", lists)


def _cite(statement: Manifest) -> str:
    cite, made = citation(statement)
    check = (
        "<p>Anybody can check the promise from <code>manifest.json</code>, without the data:"
        " <code>wattveil verify</code> with the folder of this page.</p>"
    )
    return _section(
        "How to cite, how to check",
        "",
        f"<blockquote>{escape(cite)}</blockquote>{check}<p class='soft'>{escape(made)}</p>",
    )


def _section(title: str, words: str, body: str) -> str:
    paragraph = f"<p>{words}</p>" if words else ""
    return f"<section><h2>{escape(title)}</h2>{paragraph}{body}</section>"


def _chart(caption: str, figure: go.Figure) -> str:
    size = f"style='height: {figure.layout.height}px'"
    return (
        f"<figure><figcaption>{escape(caption)}</figcaption>"
        f'<div {size} data-figure="{escape(figure.to_json())}"></div></figure>'
    )


def _items(lines: list[str]) -> str:
    return "".join(f"<li>{escape(line)}</li>" for line in lines)
