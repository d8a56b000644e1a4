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

_HEAD = """# The paper's figures, redrawn

For readers of the paper who want to check its claims. Every figure and
number of Ravi et al., *Differentially Private K-means Clustering Applied to Meter Data Analysis and
Synthesis*, beside what is true. `make reproduction` builds this page from a whole run of

```sh
wattveil reproduce all --out figures
```

which writes the same figures as one page to look at, and all numbers as JSON. `--list` names the
figures, `--fast` is a rougher run, `--data profiles.parquet` shows your own customers: then the
page is private and says so. The paper's customers are not public: these are
{customers}. Dashed curves are the paper's claims, solid ones
are computed. Noise in figures is seeded and never published; products of Wattveil that appear in
them (global tier, synthesis, duration curve) have no seed, so their numbers move a little from run
to run. This run took {seconds:.0f} seconds on two busy cores. The paper's errors,
line by line, are in [the paper](understand/the-paper.md#what-is-wrong).

The paper writes ε_c, δ_c for what centroids cost and ε_l, δ_l for labels; Δc is how far leaving out
one customer moves the centroids, L are the customers whose label can change by it, Δ_l is the most
labels that do. AMI is advanced metering infrastructure: smart meters. *White* noise is alike in all
directions, *coloured* noise lies where customers differ. *True δ* is what the noise really has at
the ε that is claimed. A loss is how much worse released centroids fit than exact ones: 0 is best.
The paper's own method is of the [instance tier](instance-tier.md), not differential privacy.
"""

_LONDON = """
## The same on London households

`wattveil reproduce all --data london`, with the households of the Low Carbon London trial (2013) in
the folder that `WATTVEIL_DATA` names. Their classes are not known: the customers farthest from
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
    """Return what a picture shows, for those who do not see it."""
    return "; ".join([run.figure.title, *(panel.title for panel in run.outcome.panels)])


def on_london(runs: Sequence[Run]) -> str:
    """Return what is found on real homes, in words alone; nothing without the data folder."""
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
