"""The commands of `admin series`: series of periods on a server, under a reserved budget.

They are not in `cli.admin` because the model of a series loads NumPy.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from wattveil.bundle.series_request import SeriesRequest
from wattveil.cli.admin import LOCAL_SERVER, AsJson, Reason, Url, get, post, print_result
from wattveil.cli.model_options import model_options
from wattveil.web.budget_texts import erasure_text
from wattveil.web.formatting import format_count

EPILOGS = {
    "open": (
        "Example: wattveil admin series open --dataset homes --name quarters --periods 20"
        " --first 2026-Q1 --epsilon 2 --delta 1e-6"
    ),
    "plan": (
        "Example: wattveil admin series plan --dataset homes --periods 20 --first 2026-Q1"
        " --epsilon 2 --delta 1e-6 --group-customers 1000"
    ),
    "add": (
        "Example: wattveil admin series add --dataset homes --name quarters --period 2026-Q1"
        " --file homes-2026-q1.parquet"
    ),
    "list": "Example: wattveil admin series list --dataset homes",
    "erase": "Example: wattveil admin series erase --dataset homes --name quarters --ids ids.txt",
    "close": (
        "Example: wattveil admin series close --dataset homes --name quarters"
        " --reason 'end of the programme'"
    ),
}

DatasetName = Annotated[str, typer.Option(help="Name of the data set.")]
SeriesName = Annotated[str, typer.Option(help="Name of the series.")]
GroupCustomers = Annotated[
    list[int] | None, typer.Option(help="Public number of customers of a group; repeatable.")
]


@model_options(common=("epsilon", "delta", "periods", "first"), groups={"request": "Calendar"})
def open(  # noqa: A001 - the name of the command
    *,
    dataset: DatasetName,
    name: SeriesName,
    request: SeriesRequest,
    url: Url = LOCAL_SERVER,
    as_json: AsJson = False,
) -> None:
    """Open a series: the budget of all its periods is charged to the data set at once."""
    body = {"name": name, **request.model_dump(mode="json")}
    made = post(url, ("datasets", dataset, "series"), body)
    periods = format_count(request.periods, "period")
    text = f"{name} is open: the budget of {periods} is charged to {dataset}."
    print_result(made, text, as_json=as_json)


@model_options(common=("epsilon", "delta", "periods", "first"), groups={"request": "Calendar"})
def plan(
    *,
    dataset: DatasetName,
    request: SeriesRequest,
    group_customers: GroupCustomers = None,
    url: Url = LOCAL_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show the price and the expected errors of a series; nothing is charged."""
    body = {**request.model_dump(mode="json"), "group_customers": group_customers or []}
    found = post(url, ("datasets", dataset, "series", "plan"), body)
    rho = int(found["price"]["rho"]) / 10**12
    head = f"Opening it charges rho {rho:.4g}, of epsilon {request.epsilon:g} in all, to {dataset}."
    print_result(found, "\n".join([head, *map(_planned, found["groups"])]), as_json=as_json)


def add(
    *,
    dataset: DatasetName,
    name: SeriesName,
    period: Annotated[
        str,
        typer.Option(help="Name of the period, such as 2026-Q3; periods before it are skipped."),
    ],
    file: Annotated[
        str, typer.Option(help="Profiles of the period, in the server's folder of profiles.")
    ],
    recluster: Annotated[
        bool, typer.Option("--recluster", help="Find the segments anew: a public decision.")
    ] = False,
    url: Url = LOCAL_SERVER,
    as_json: AsJson = False,
) -> None:
    """Release a period of a series; nothing further is charged."""
    body = {"period": period, "file": file, "recluster": recluster}
    made = post(url, ("datasets", dataset, "series", name, "periods"), body)
    text = f"{period} is being computed: release {made['release']}."
    print_result(made, text, as_json=as_json)


def list(  # noqa: A001 - the name of the command
    *, dataset: DatasetName, url: Url = LOCAL_SERVER, as_json: AsJson = False
) -> None:
    """List the series of a data set, with their periods."""
    found = get(url, ("datasets", dataset, "series"))
    text = "\n".join(_lines(one) for one in found["series"]) or f"{dataset} has no series."
    print_result(found, text, as_json=as_json)


def erase(
    *,
    dataset: DatasetName,
    name: SeriesName,
    ids: Annotated[Path, typer.Option(help="File of customer ids, one per line.")],
    url: Url = LOCAL_SERVER,
    as_json: AsJson = False,
) -> None:
    """Delete customers from the private state; keyed hashes and odometers stay."""
    lines = ids.read_text("utf-8-sig").splitlines()
    body = {"customer_ids": [line.strip() for line in lines if line.strip()]}
    erased = post(url, ("datasets", dataset, "series", name, "erase"), body)
    print_result(erased, erasure_text(excluded=erased["excluded"]), as_json=as_json)


def close(
    *,
    dataset: DatasetName,
    name: SeriesName,
    reason: Reason,
    url: Url = LOCAL_SERVER,
    as_json: AsJson = False,
) -> None:
    """Close a series and delete its private state; its releases stay readable."""
    closed = post(url, ("datasets", dataset, "series", name, "close"), {"reason": reason})
    print_result(closed, f"{name} is closed.", as_json=as_json)


def _planned(group: dict[str, Any]) -> str:
    """Return the expected accuracy of a group as text."""
    change = group["visible_kw_per_year"]
    seen = "no trend below two years" if change is None else f"{change:.4f} kW per year"
    return (
        f"  {group['customers']:,} customers: standard error of an hour in the last period"
        f" {100.0 * group['level_error']:.1f} % of the typical load, smallest visible change {seen}"
    )


def _lines(one: dict[str, Any]) -> str:
    """Return a series and its periods as text."""
    state = "open" if one["closed"] is None else f"closed: {one['closed']}"
    head = f"{one['name']}, {format_count(one['request']['periods'], 'period')}, {state}"
    periods = [
        f"  {period['period']}: {period['state']}, release {period['release']}"
        + (f", waits for the missing file {missing}" if missing else "")
        for period in one["periods"]
        for missing in [period.get("missing_file")]
    ]
    return "\n".join([head, *periods])
