"""The command line: the same verbs as the Python API."""

import itertools
import json
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from wattveil.errors import InvalidParameterError
from wattveil.release.shapes import LoadShape, mean_load_shape
from wattveil.simulate import simulate_load_kw

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # they would print local variables: private rows
    help="Publish what smart meters know, with differential privacy.",
)

_CHART_ROWS = 12
_CLIP_KW = 2.0
_DELTA = 1e-6


@app.callback()
def main() -> None:
    """Publish what smart meters know, with differential privacy."""


@app.command(epilog="Example: wattveil demo --epsilon 0.5 --json")
def demo(
    customers: Annotated[int, typer.Option(help="How many customers to simulate.")] = 1409,
    epsilon: Annotated[float, typer.Option(help="Privacy budget: smaller protects more.")] = 1.0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the release as JSON.")] = False,
) -> None:
    """Simulate customers, release their mean daily load privately, and show what it cost."""
    try:
        load_kw = simulate_load_kw(customers=customers)
        shape = mean_load_shape(load_kw, clip_kw=_CLIP_KW, epsilon=epsilon, delta=_DELTA)
    except InvalidParameterError as error:
        raise typer.BadParameter(str(error)) from error
    if as_json:
        typer.echo(json.dumps(_as_json(shape), indent=2))
        return
    _show(shape, customers)


def _as_json(shape: LoadShape) -> dict[str, object]:
    """Return what was released, and nothing else."""
    return {
        "mean_kw": shape.mean_kw.tolist(),
        "std_kw": shape.std_kw.tolist(),
        "customers": shape.customers,
        "customers_std": shape.customers_std,
        "guarantee": shape.guarantee.to_json(),
        "sentence": shape.guarantee.sentence,
        "spends": [
            {"tag": spend.tag, "mechanism": spend.mechanism, "rho_units": str(spend.rho_units)}
            for spend in shape.spends
        ],
    }


def _show(shape: LoadShape, customers: int) -> None:
    console = Console()
    console.print(f"[bold]1. Simulated[/] {customers:,} customers; their readings stay private.")
    console.print(f"[bold]2. Calibrated[/] a budget of epsilon {shape.guarantee.epsilon} exactly:")
    budget = Table("release", "mechanism", "rho", box=None, padding=(0, 3))
    for spend in shape.spends:
        budget.add_row(spend.tag, spend.mechanism, f"{spend.rho_units * 1e-18:.6f}")
    console.print(budget)
    console.print("[bold]3. Released[/] the mean daily load in kW, with its 95 % error band:\n")
    for line in _chart(shape.mean_kw, 1.96 * shape.std_kw):
        console.print(line, highlight=False)
    counted = f"{shape.customers:,.0f} ± {1.96 * shape.customers_std:,.0f}"
    console.print(f"\n   and the number of customers: {counted}")
    console.print(f"\n[bold]4. Guarantee.[/] {shape.guarantee.sentence}")


def _chart(mean: NDArray[np.float64], band: NDArray[np.float64]) -> list[str]:
    """Draw a curve and its band with characters, one column pair an hour."""
    low, high = min(0.0, float((mean - band).min())), float((mean + band).max())
    edges = np.linspace(high, low, _CHART_ROWS + 1)
    lines = []
    for top, bottom in itertools.pairwise(edges):
        cells = [
            "██"
            if bottom <= centre < top or (top == high and centre >= top)
            else "░░"
            if centre + width >= bottom and centre - width <= top
            else "  "
            for centre, width in zip(mean, band, strict=True)
        ]
        lines.append(f"  {(top + bottom) / 2:6.2f} │{''.join(cells)}")
    lines.append("         └" + "──" * mean.size)
    ticks = "".join(f"{hour:<6}" for hour in range(0, mean.size, 3))
    lines.append("          " + ticks.rstrip() + "  hour of the day")
    return lines
