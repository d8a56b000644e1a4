"""The commands of `admin series`: series of periods on a server, under a reserved budget.

They are not in `cli.admin` because the model of a series loads NumPy.
"""

from typing import Annotated, Any

import typer

from wattveil.bundle.series_request import SeriesRequest
from wattveil.cli.admin import LOCAL_SERVER, AsJson, Reason, Url, get, post, print_result
from wattveil.cli.model_options import model_options
from wattveil.web.formatting import format_count

EPILOGS = {
    "open": (
        "Example: wattveil admin series open --dataset homes --name quarters --periods 20"
        " --first 2026-Q1 --epsilon 2 --delta 1e-6"
    ),
    "add": (
        "Example: wattveil admin series add --dataset homes --name quarters --period 2026-Q1"
        " --file homes-2026-q1.parquet"
    ),
    "list": "Example: wattveil admin series list --dataset homes",
    "close": (
        "Example: wattveil admin series close --dataset homes --name quarters"
        " --reason 'end of the programme'"
    ),
}

DatasetName = Annotated[str, typer.Option(help="Name of the data set.")]
SeriesName = Annotated[str, typer.Option(help="Name of the series.")]


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


def _lines(one: dict[str, Any]) -> str:
    """Return a series and its periods as text."""
    state = "open" if one["closed"] is None else f"closed: {one['closed']}"
    head = f"{one['name']}, {format_count(one['request']['periods'], 'period')}, {state}"
    periods = [
        f"  {period['period']}: {period['state']}, release {period['release']}"
        for period in one["periods"]
    ]
    return "\n".join([head, *periods])
