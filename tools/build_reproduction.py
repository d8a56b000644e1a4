"""Build docs/reproduction.md and its pictures from a whole run of `wattveil reproduce all`.

Run `make reproduction`. The pictures are the page's own, drawn by Plotly in the distribution's
Chromium and kept as SVG. Customers are simulated.
"""

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from tools.drawing import COLUMNS, HEIGHT, WIDTH, Draw, chromium, drawing_in
from wattveil.lab.reproduce import FIGURES, Study
from wattveil.lab.reproduce.reproduction_page import Run
from wattveil.lab.reproduce.study import LONDON
from wattveil.web.charts import ReportFigure
from wattveil.web.pages import PageTable

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PICTURES = DOCS / "reproduction.md", DOCS / "reproduction"
TITLE = 26
AMI = ("ami-scatter", "ami-performance", "histograms", "load-shapes")

_HEAD = """# Reproduction of the paper's figures

This page is for readers of the paper who want to check its claims. It reproduces every figure and
number of Ravi et al., *Differentially Private K-means Clustering Applied to Meter Data Analysis and
Synthesis*, and compares it with the exact result. `make reproduction` builds this page from a full
run of

```sh
wattveil reproduce all --out figures
```

which also writes the figures as one HTML page and all numbers as JSON. `--list` lists the figures,
`--fast` is a coarser run, and `--data profiles.parquet` uses your own customers, which makes the
page private. The paper's customers are not public; those of this page are
{customers}. Dashed curves are the paper's claims, solid ones
are computed. Noise in figures is seeded and never published. Products of Wattveil in
the figures (global tier, synthesis, duration curve) have no seed, so their numbers vary slightly
between runs. This run took {seconds:.0f} seconds on two busy cores. The paper's errors are listed
in [the paper](understand/the-paper.md#what-is-wrong).

In the paper, ε_c and δ_c are the budget of the centroids, ε_l and δ_l that of the labels. Δc is the
maximum change of the centroids when one customer is left out, L is the set of customers whose label
can change by it, and Δ_l is the maximum number of labels that do. AMI is advanced metering
infrastructure (smart meters). *White* noise has the same variance in all directions; *coloured*
noise is concentrated in the directions in which customers differ. *True δ* is the actual δ of the
noise at the claimed ε. The loss is the relative increase of the mean squared distance to the
centroids over exact K-means; 0 is best. The paper's own method belongs to the
[instance tier](instance-tier.md), which is not differential privacy.
"""

_LONDON = """
## Results on London households

`wattveil reproduce all --data london`, with the households of the Low Carbon London trial (2013) in
the folder given by `WATTVEIL_DATA`. Their classes are unknown: the customers farthest from
their neighbours count as outliers.
"""


def main() -> None:
    """Draw all figures and write the page."""
    study = Study()
    runs = all_of(study, FIGURES)
    london = all_of(Study(data=LONDON), AMI) if "WATTVEIL_DATA" in os.environ else []
    PICTURES.mkdir(exist_ok=True)
    with chromium() as browser:
        draw = drawing_in(browser)
        for run in runs:
            (PICTURES / f"{run.figure.name}.svg").write_text(
                picture(run.outcome.panels, draw), encoding="utf-8"
            )
    PAGE.write_text(page(study, runs) + on_london(london), encoding="utf-8")


def all_of(study: Study, names: Iterable[str]) -> list[Run]:
    """Draw some figures."""
    runs = []
    for name in names:
        start = time.perf_counter()
        runs.append(Run(FIGURES[name], FIGURES[name].run(study), time.perf_counter() - start))
    return runs


def page(study: Study, runs: Sequence[Run]) -> str:
    """Return the page as Markdown."""
    seconds = sum(run.seconds for run in runs)
    parts = [_HEAD.format(customers=study.customers.description, seconds=seconds)]
    for run in runs:
        parts += [
            f"## {run.figure.title}",
            f"**The paper.** {run.figure.paper}",
            f"![{alternative_text(run)}](reproduction/{run.figure.name}.svg)",
            f"**Our result.** {run.outcome.found}",
            f"**Differences and their cause.** {run.outcome.differs}",
            *(table(own) for own in run.outcome.tables),
        ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def alternative_text(run: Run) -> str:
    """Return the alternative text of a picture."""
    return "; ".join([run.figure.title, *(panel.title for panel in run.outcome.panels)])


def on_london(runs: Sequence[Run]) -> str:
    """Return the results on London homes as text; empty without the data folder."""
    if not runs:
        return ""
    found = "\n".join(f"* **{run.figure.title}.** {run.outcome.found}" for run in runs)
    return f"{_LONDON}\n{found}\n"


def table(own: PageTable) -> str:
    """Return a table as Markdown."""
    lines = [own.head, ["---"] * len(own.head), *own.rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def picture(panels: Sequence[ReportFigure], draw: Draw) -> str:
    """Return all panels of a figure in one SVG, side by side, each below its title."""
    places, down, right = [], 0, 0
    for panel in panels:
        figure, tall = panel.figure, panel.figure.layout.height > HEIGHT
        if tall and right:
            right, down = 0, down + HEIGHT + TITLE
        title = f'<text x="{right + 8}" y="{down + 18}">{escape(panel.title)}</text>'
        inner = draw(figure).replace("<svg ", f'<svg x="{right}" y="{down + TITLE}" ', 1)
        places.append(title + inner)
        right += WIDTH
        if tall or right >= COLUMNS * WIDTH:
            right, down = 0, down + figure.layout.height + TITLE
    if right:
        down += HEIGHT + TITLE
    width = COLUMNS * WIDTH if len(panels) > 1 or panels[0].figure.layout.height > HEIGHT else WIDTH
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{down}"'
        f' viewBox="0 0 {width} {down}" font-family="sans-serif" font-size="13">'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(places)}</svg>\n'
    )


if __name__ == "__main__":
    main()
