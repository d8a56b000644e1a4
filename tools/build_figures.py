"""Build the pictures of docs/images from runs: `make figures`. Customers are simulated.

A picture shows the output of a command; `PICTURES` maps pictures to commands. The noise
has no seed, so numbers differ a little from run to run.
"""

import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page
from plotly.graph_objects import Figure

from tools.drawing import chromium, drawing_in
from wattveil.bundle.bundle_files import read_table
from wattveil.products.curve_figures import group_curves_figure
from wattveil.products.tables import Table
from wattveil.server.client_transport import Transport

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDTH, MARGIN = 1000, 20

DEMO = "wattveil demo --out wattveil-demo"
SERVE = "wattveil serve --data server --port 0"
TOKEN = "wattveil admin token --data server --name owner --role admin"  # noqa: S105 - a command
PROFILES = (
    "wattveil simulate --customers 1409 --days 21 --out readings.parquet",
    "wattveil profiles readings.parquet --timezone Europe/London --out homes.parquet",
)
PICTURES = {
    "report.png": DEMO,
    "curves.svg": DEMO,
    "duration.svg": DEMO,
    "quote.png": SERVE,
    "ledger.png": SERVE,
}
"""Each picture, and the command that it shows the outcome of."""

_DATASET = {
    "name": "homes",
    "file": "homes.parquet",
    "title": "Homes of a town",
    "curator": "Town power",
    "region": "Town",
    "clip_kw": 10.0,
    "customers": 1409,
    "allowance": {"epsilon": 4.0, "delta": 1e-6},
}
_BUDGET = {"principal": "ann", "allowance": {"epsilon": 2.0, "delta": 1e-6}, "reason": "thesis"}


def main() -> None:
    """Run the commands and store pictures of their output."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        folder = Path(name)
        _run(folder, DEMO)
        of_a_release(folder / "wattveil-demo", browser)
        for command in PROFILES:
            _run(folder, command)
        (folder / "server" / "profiles").mkdir(parents=True)
        (folder / "homes.parquet").rename(folder / "server" / "profiles" / "homes.parquet")
        with _serving(folder) as (url, token):
            of_a_server(url, token, browser)


def of_a_release(bundle: Path, browser: Browser) -> None:
    """Take a picture of the report, and draw two of its tables."""
    page = browser.new_page(viewport={"width": WIDTH, "height": 1250})
    page.goto((bundle / "report.html").absolute().as_uri())
    kinds = page.locator("main > section").nth(2).bounding_box()
    height = kinds["y"] + kinds["height"] + MARGIN if kinds else WIDTH
    page.screenshot(
        path=IMAGES / "report.png",
        full_page=True,
        clip={"x": 0, "y": 0, "width": WIDTH, "height": height},
    )
    draw = drawing_in(browser)
    curves = group_curves_figure(_table(bundle, "centroids"), unit="kW")
    curves.for_each_trace(lambda line: line.update(name=f"cluster {line.name}"))
    duration = group_curves_figure(_table(bundle, "load_duration"), unit="kW", falling=True)
    for name, figure in {"curves": curves, "duration": duration}.items():
        (IMAGES / f"{name}.svg").write_text(draw(_on_paper(figure)) + "\n", encoding="utf-8")


def of_a_server(url: str, owner: str, browser: Browser) -> None:
    """Register a data set, admit an analyst, and take pictures up to a release."""
    acting = Transport(url, owner)
    acting.post("/v1/admin/datasets", _DATASET)
    ann = acting.post("/v1/admin/principals", {"name": "ann"})["token"]
    acting.post("/v1/admin/datasets/homes/budgets", _BUDGET)

    page = _signed_in(browser, url, ann)
    page.goto(f"{url}/datasets/homes")
    page.wait_for_selector("#quote[aria-busy=false] .main-svg", timeout=120_000)
    page.click("#review")
    page.click("#order")
    page.wait_for_selector("text=Privacy guarantee", timeout=120_000)
    page.goto(f"{url}/datasets/homes")
    page.check("input[value=clusters]")
    page.wait_for_selector(
        "#quote[aria-busy=false] >> text=distinguishable segments", timeout=120_000
    )
    page.wait_for_selector("#quote .main-svg")
    page.locator("main").screenshot(path=IMAGES / "quote.png")

    page = _signed_in(browser, url, owner)
    page.click("text=Ledger")
    page.locator("main").screenshot(path=IMAGES / "ledger.png")


def _on_paper(figure: Figure) -> Figure:
    """Set a white background, so that the figure is readable on a dark page."""
    return figure.update_layout(paper_bgcolor="#fff", plot_bgcolor="#fff", height=360)


def _table(bundle: Path, name: str) -> Table:
    return Table(name=name, text="", columns=(), data=read_table(bundle, name))


def _signed_in(browser: Browser, url: str, token: str) -> Page:
    page = browser.new_context(viewport={"width": WIDTH, "height": 700}).new_page()
    page.goto(url)
    page.fill("[name=token]", token)
    page.keyboard.press("Enter")
    page.wait_for_selector("nav")
    return page


def _run(folder: Path, command: str) -> None:
    subprocess.run(_words(command), cwd=folder, check=True)  # noqa: S603 - the commands above


@contextmanager
def _serving(folder: Path) -> Iterator[tuple[str, str]]:
    """Run a server until the block ends; yield its address and a token of its owner."""
    with subprocess.Popen(  # noqa: S603 - the command above
        _words(SERVE), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        said = iter(server.stdout or ())
        next(said)  # no token is printed to a pipe
        url = re.findall(r"http\S+", next(said))[0]
        issued = subprocess.run(  # noqa: S603 - as above
            _words(TOKEN), cwd=folder, stdout=subprocess.PIPE, text=True, check=True
        )
        token = re.findall(r": (\S+)$", issued.stdout.strip())[0]
        try:
            yield url, token
        finally:
            server.terminate()


def _words(command: str) -> list[str]:
    return [sys.executable, "-m", *shlex.split(command)]


if __name__ == "__main__":
    main()
