"""What the verbs share at the terminal: refusals, and a sign of life."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from wattveil.errors import InvalidParameterError, WattveilError


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what Wattveil refuses into a message and an exit code, without a traceback."""
    try:
        yield
    except InvalidParameterError as error:
        raise typer.BadParameter(str(error)) from error
    except (WattveilError, OSError) as error:
        Console(stderr=True).print(f"[red]Error:[/] {escape(str(error))}", highlight=False)
        raise typer.Exit(1) from error


@contextmanager
def working(console: Console) -> Iterator[Callable[[str], None]]:
    """Show what is being done, and for how long."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting")
        yield lambda what: progress.update(task, description=what)
