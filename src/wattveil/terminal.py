"""Terminal output common to all commands: error messages and progress bars."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from wattveil.errors import InvalidParameterError, WattveilError


@contextmanager
def refusals(context: typer.Context | None = None) -> Iterator[None]:
    """Convert errors of Wattveil to a message and an exit code, without a traceback.

    With the context of the command, the message names options as they are typed.
    """
    try:
        yield
    except InvalidParameterError as error:
        hint = None if context is None else _options(context, error.field)
        raise typer.BadParameter(str(error), param_hint=hint) from error
    except (WattveilError, OSError) as error:
        Console(stderr=True).print(f"[red]Error:[/] {plain(str(error))}", highlight=False)
        raise typer.Exit(1) from error


def plain(text: str) -> str:
    """Return untrusted text with control characters and Rich markup escaped.

    A file name may contain terminal escape sequences, and brackets that Rich reads as markup.
    """
    letters = (
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )
    return escape("".join(letters))


def check_folders(written: Mapping[str, Path | None]) -> None:
    """Raise before any computation if the folder of an output file does not exist."""
    for name, path in written.items():
        if path is not None and not path.absolute().parent.is_dir():
            raise InvalidParameterError(name, "a file in a folder that exists", str(path))


def counting_bar(*, quiet: bool) -> Progress:
    """Return a progress bar for a known number of steps."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=quiet,
    )


@contextmanager
def copying_bar(name: str, size: int | None) -> Iterator[Callable[[int], None]]:
    """Show how much of a file is copied, on standard error if it is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("copying {task.description}"), BarColumn(), DownloadColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with bar:
        task = bar.add_task(plain(name), total=size)
        yield lambda done: bar.update(task, completed=done)


def _options(context: typer.Context, fields: str) -> str | None:
    """Return the options that give these fields, or None if there are none."""
    typed = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    typed.setdefault("n_clusters", typed.get("clusters", ""))
    names = []
    for field in fields.split(", "):
        first, _, rest = field.partition(".")
        names.append(first if first in typed else rest.replace(".", "_"))
    return ", ".join(typed[name] for name in names if typed.get(name)) or None


@contextmanager
def working(console: Console) -> Iterator[Callable[[str], None]]:
    """Show a spinner with the current activity and the elapsed time."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting")
        yield lambda what: progress.update(task, description=what)
