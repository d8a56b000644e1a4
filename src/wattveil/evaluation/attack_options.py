"""Options that the verbs of `attack` share."""

from pathlib import Path
from typing import Annotated

import typer

OwnProfiles = Annotated[
    Path | None, typer.Argument(help="Made by `wattveil profiles`; simulated homes unless given.")
]
Epsilon = Annotated[float, typer.Option(help="Of each release.")]
Delta = Annotated[float, typer.Option(help="What its promise may miss by.")]
Page = Annotated[Path | None, typer.Option(help="HTML page with the picture; private.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]

PRIVATE = "[red]Private:[/] exact, not protected."
