"""What the verbs of the ledger share."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from wattveil.errors import MissingExtraError
from wattveil.terminal import refusals

Data = Annotated[Path, typer.Option(help="The server's data folder.")]
Database = Annotated[
    str | None,
    typer.Option(help="postgresql://host/name, without password: PGPASSFILE has it."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@contextmanager
def ledger_refusals() -> Iterator[None]:
    """Turn what is refused, and an extra that is missing, into a message and an exit code."""
    with refusals():
        try:
            yield
        except ModuleNotFoundError as error:
            raise MissingExtraError("the ledger", "serve") from error
