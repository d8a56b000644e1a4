"""The command line: the same verbs as the Python API."""

import itertools
import json
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from wattveil.errors import WattveilError
from wattveil.grid import command as feeders
from wattveil.privacy.budget import Budget
from wattveil.privacy.guarantee import Guarantee
from wattveil.profiles import command as readings
from wattveil.release.kmeans import PrivateKMeans
from wattveil.release.labels import composed_guarantee
from wattveil.release.shapes import LoadShapes, load_shapes
from wattveil.simulate import command as simulation
from wattveil.simulate import simulate_load_kw

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # they would print local variables: private rows
    help="Publish what smart meters know, with differential privacy.",
)

_CHART_ROWS = 12
_DELTA = 1e-6
_KINDS = 4


@app.callback()
def main() -> None:
    """Publish what smart meters know, with differential privacy."""


@app.command(epilog="Example: wattveil demo --epsilon 0.5 --json")
def demo(
    customers: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="How many customers to simulate.")
    ] = 1409,
    epsilon: Annotated[float, typer.Option(help="Privacy budget: smaller protects more.")] = 1.0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the release as JSON.")] = False,
) -> None:
    """Simulate customers, release their mean daily load and its kinds, and show what it cost.

    The budget is that of each of the two releases; what they cost together is said.
    """
    try:
        load_kw = simulate_load_kw(customers=customers)
        shape = load_shapes(load_kw, epsilon=epsilon, delta=_DELTA)
        kinds = PrivateKMeans(n_clusters=_KINDS, epsilon=epsilon, delta=_DELTA, normalise=True).fit(
            load_kw
        )
        budgets = Budget(shape.guarantee), Budget(kinds.guarantee_)
        total = composed_guarantee(*budgets, delta=2.0 * _DELTA)
    except WattveilError as error:
        raise typer.BadParameter(str(error)) from error
    if as_json:
        typer.echo(json.dumps(_as_json(shape, kinds, total), indent=2))
        return
    _show(shape, customers)
    _show_kinds(kinds, total)


app.command(epilog=simulation.EPILOG)(simulation.simulate)
app.command(epilog=readings.EPILOG)(readings.profiles)
app.command(epilog=feeders.EPILOG)(feeders.grid)


def _as_json(shape: LoadShapes, kinds: PrivateKMeans, total: Guarantee) -> dict[str, object]:
    """Return what was released, and nothing else."""
    return {
        "mean_kw": shape.mean_kw[0].tolist(),
        "std_kw": shape.std_kw[0].tolist(),
        "customers": shape.customers[0],
        "customers_std": shape.customers_std[0],
        "clip_kw": shape.clip_kw[0],
        "clipped_share": shape.clipped_share[0],
        "clipped_share_std": shape.clipped_share_std[0],
        "kinds": kinds.cluster_centers_.tolist(),
        "kinds_std": kinds.cluster_centers_std_.tolist(),
        "kinds_customers": kinds.cluster_sizes_.tolist(),
        "guarantee": total.to_json(),
        "sentence": total.sentence,
        "spends": [
            {"tag": spend.tag, "mechanism": spend.mechanism, "rho_units": str(spend.rho_units)}
            for spend in (*shape.spends, *kinds.spends_)
        ],
    }


def _show(shape: LoadShapes, customers: int) -> None:
    console = Console(soft_wrap=True)
    console.print(f"[bold]1. Simulated[/] {customers:,} customers. Their data stay private.")
    epsilon = shape.guarantee.epsilon
    console.print(f"[bold]2. Calibrated[/] the noise to epsilon {epsilon}, exactly. Costs add up:")
    budget = Table("released", "by", "cost (rho)", box=None, padding=(0, 3))
    for spend in shape.spends:
        budget.add_row(spend.tag, spend.mechanism, f"{spend.rho_units * 1e-18:.3g}")
    budget.add_row("", "total", f"{sum(spend.rho_units for spend in shape.spends) * 1e-18:.3g}")
    console.print(budget)
    console.print("[bold]3. Released[/] the mean daily load in kW:\n")
    for line in _chart(shape.mean_kw[0], 1.96 * shape.std_kw[0]):
        console.print(line, highlight=False)
    console.print("   ██ mean   ░░ 95 % band")
    counted = f"{shape.customers[0]:,.0f} ± {1.96 * shape.customers_std[0]:,.0f}"
    console.print(f"\n   Customers: {counted}")
    clipped = f"{100 * shape.clipped_share[0]:.1f} ± {196 * shape.clipped_share_std[0]:.1f} %"
    console.print(f"   Larger than {shape.clip_kw[0]:.2g} kW and scaled back to it: {clipped}")
    if shape.customers_std[0] > shape.customers[0] / 4.0:
        console.print("   Too noisy to use: raise epsilon, or release more customers together.")


def _show_kinds(kinds: PrivateKMeans, total: Guarantee) -> None:
    console = Console(soft_wrap=True)
    console.print("\n[bold]4. Released[/] the kinds of days among them, each scaled to its size:\n")
    order = np.argsort(-kinds.cluster_sizes_)
    for size, std, curve in zip(
        kinds.cluster_sizes_[order],
        kinds.cluster_sizes_std_[order],
        kinds.cluster_centers_[order],
        strict=True,
    ):
        customers = f"{size:7,.0f} ± {1.96 * std:,.0f} customers"
        console.print(f"   {_line(curve)}  {customers}", highlight=False)
    console.print("   0     6     12    18   hour")
    if kinds.n_told_apart_ < kinds.n_clusters:
        console.print(f"   Only {kinds.n_told_apart_} of them differ by more than their noise.")
    console.print(f"\n[bold]5. Guarantee.[/] Together: {total.sentence}", soft_wrap=False)


def _line(curve: NDArray[np.float64]) -> str:
    """Draw a curve in one line, from its least to its largest value."""
    marks = "▁▂▃▄▅▆▇█"
    height = max(float(np.ptp(curve)), 1e-12)
    return "".join(marks[round(7 * (value - curve.min()) / height)] for value in curve)


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
        lines.append(f"{(top + bottom) / 2:8.3g} │{''.join(cells)}")
    lines.append("     kW  └" + "──" * mean.size)
    ticks = "".join(f"{hour:<6}" for hour in range(0, mean.size, 3))
    return [*lines, f"   hour   {ticks.rstrip()}"]
