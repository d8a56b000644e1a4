"""The command line: the same functions as the Python API.

The module of a command is loaded when the command is used: the list of commands loads none of them.
"""

import gc
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from wattveil.errors import require_release_extra
from wattveil.terminal import JSON_ERRORS, refusals, usage_errors

_INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells expect it: 128 plus the number of the signal."""
_BROKEN_PIPE = 141
"""Exit code of a program whose output is no longer read, such as by `head`: 128 plus SIGPIPE.

The signal itself stays ignored: in a server it would end the process with any connection."""

_OBJECTS_PER_COLLECTION = 10_000
"""New objects before garbage is collected. Loading the modules of a command makes many objects and
no garbage: with Python's 700, a sixth of the time to start was spent on looking for it."""


@contextmanager
def _quiet_pipe() -> Iterator[None]:
    """End without a message when nobody reads the output any more."""
    try:
        yield
    except BrokenPipeError:
        pass
    except SystemExit as ending:  # Rich ends the program itself, with 1
        if not isinstance(ending.__context__, BrokenPipeError):
            raise
    else:
        return
    with suppress(OSError, ValueError):  # what is still buffered is flushed at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(_BROKEN_PIPE)


_TYPES = {"%Y-%m-%d": "date", "int range": "int", "list[Path]": "path"}
"""Types in the help that Typer names after its classes; a list is named after its elements."""


def _shown_types(params: list[Any]) -> list[Any]:
    """Return options whose help shows no type where they take no value, and else a plain one."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
        if "display_type" not in vars(param):
            param.display_type = partial(_shown_type, param.display_type)
    return params


def _shown_type(display_type: Callable[[Any], str | None], ctx: Any) -> str | None:  # noqa: ANN401 - Typer's context has no public type here
    shown = display_type(ctx)
    for name, plain in _TYPES.items():
        shown = shown and shown.replace(name, plain)
    return shown and re.sub(r"list\[(\w+)\]", r"\1", shown)


class _Command(TyperCommand):
    """Command whose help shows flags without a value."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - Typer's context has no public type here
        """Return arguments and options."""
        return _shown_types(super().get_params(ctx))


class _Group(TyperGroup):
    """Command group whose help shows flags without a value."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - as above
        """Return the options of the group."""
        return _shown_types(super().get_params(ctx))


class _Root(_Group):
    """Command group that ends with one line after Ctrl-C and after an error of what was typed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer's context has no public type here
        """Read the options before the command."""
        with _quiet_pipe(), usage_errors():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> object:  # noqa: ANN401 - as above
        """Run the command."""
        gc.set_threshold(_OBJECTS_PER_COLLECTION)
        typed = [*getattr(ctx, "_protected_args", ()), *ctx.args]
        before = JSON_ERRORS.set("--json" in typed)
        try:
            with _quiet_pipe(), usage_errors():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(_INTERRUPTED) from None
        finally:
            JSON_ERRORS.reset(before)


app = typer.Typer(
    cls=_Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # they would print local variables: private rows
    help="Publish smart-meter statistics with differential privacy.",
)
admin_app = typer.Typer(
    cls=_Group,
    name="admin",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Administer a server: keys, tokens, data sets, the ledger.",
)
ledger_app = typer.Typer(
    cls=_Group,
    name="admin ledger",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="The budget ledger of a server.",
)
admin_series_app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Series of periods on a server, under a reserved budget.",
)
attack_app = typer.Typer(
    cls=_Group,
    name="attack",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Demonstrate attacks on your own profiles or on simulated homes.",
)
series_app = typer.Typer(
    cls=_Group,
    name="series",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Publish every month or quarter under one privacy budget.",
)


_WITHOUT_RELEASES = (
    "cli.admin",
    "cli.admin_backup",
    "cli.admin_dataset",
    "cli.bundles",
    "cli.dossier",
    "cli.metadata",
    "cli.total",
)
"""Modules of commands that need no extra, or name the one that they need."""
_PUBLISHED_ONLY = ("wattveil series show", "wattveil series verify")
"""Commands of other modules that read published files alone."""


class _Unloaded(TyperCommand):
    """Placeholder of a command until it is used; its callback returns the command."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: object = None, **extra: object
    ) -> typer.Context:
        """Load the command, and let it parse its arguments; it runs in place of this object."""
        context: typer.Context = self.loaded().make_context(info_name, args, parent, **extra)
        return context

    def loaded(self) -> Any:  # noqa: ANN401 - a command, of Typer's own
        """Return the command."""
        return cast("Any", self.callback)()


def _add(group: typer.Typer, name: str, module: str, summary: str) -> None:
    """Add the function `name` of a module; `-` stands for `_`.

    Its epilog, an example, is in the `EPILOGS` of the module; the prefix of variables that its
    options are read from, if there is one, in `VARIABLES`.
    """

    def load() -> object:
        command = " ".join(filter(None, ("wattveil", group.info.name, name)))
        if module not in _WITHOUT_RELEASES and command not in _PUBLISHED_ONLY:
            with refusals():
                require_release_extra(command)
        code = import_module(f"wattveil.{module}")
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        function = getattr(code, name.replace("-", "_"))
        prefix = getattr(code, "VARIABLES", {}).get(name)
        settings = {} if prefix is None else {"auto_envvar_prefix": prefix}
        made = alone.command(
            name, cls=_Command, epilog=code.EPILOGS[name], context_settings=settings
        )
        made(function)
        return typer.main.get_command(alone)

    group.command(name, cls=_Unloaded, short_help=summary)(load)


def _version(given: bool) -> None:  # noqa: FBT001 - Typer calls it so
    if given:
        typer.echo(f"wattveil {version('wattveil')}")
        raise typer.Exit


@app.callback()
def main(
    *,
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Publish smart-meter statistics with differential privacy."""


# A new command is one line: _add(group, "name", "package.module", "Its line in the list.")
_add(app, "demo", "cli.demo", "Simulate meters, publish a release, sample customers, verify.")
_add(app, "simulate", "cli.data", "Simulate meter readings.")
_add(app, "profiles", "cli.data", "Average meter readings into one load profile per customer.")
_add(
    app,
    "release",
    "cli.release",
    "Publish statistics of load profiles with differential privacy.",
)
_add(
    app,
    "synthesize",
    "cli.bundles",
    "Sample synthetic customers from a release at no privacy cost.",
)
_add(app, "export", "cli.bundles", "Write released load curves as standard profiles or as a map.")
_add(app, "verify", "cli.bundles", "Recompute every claim of a release, without the data.")
_add(app, "total", "cli.total", "Compute the total epsilon of releases about the same customers.")
_add(app, "metadata", "cli.metadata", "Write records of a release for catalogues and registries.")
_add(app, "dossier", "cli.dossier", "Answer the clauses of a standard from the files of a release.")
_add(app, "evaluate", "cli.evaluate", "Compare synthetic with real customers.")
_add(app, "grid", "cli.evaluate", "Compare real and synthetic customers on a feeder.")
_add(app, "compare", "cli.compare", "Compare mechanisms and baselines on the same customers.")
_add(app, "audit", "cli.audit", "Compute empirical lower bounds on epsilon, or replay a release.")
_add(app, "rules", "cli.attack", "Compare an N/X aggregation rule with differential privacy.")
_add(attack_app, "fifteen-fifteen", "cli.attack", "Recover one customer from two means.")
_add(attack_app, "filter", "cli.attack", "Filter white and coloured noise.")
_add(attack_app, "copy", "cli.attack", "Search synthetic customers for real ones.")
_add(attack_app, "solar", "cli.attack", "Find a home with solar panels.")
_add(series_app, "init", "cli.series", "Begin a series: horizon, groups and one budget.")
_add(series_app, "plan", "cli.series", "Show expected errors before anything is spent.")
_add(series_app, "add", "cli.series", "Release the next period.")
_add(series_app, "show", "cli.series", "Show levels, trends with bands, and the remaining budget.")
_add(series_app, "erase", "cli.series", "Delete customers from the private state.")
_add(series_app, "close", "cli.series", "End a series and delete its private state.")
_add(series_app, "verify", "cli.series", "Check all periods of a series, without the data.")
_add(app, "reproduce", "cli.reproduce", "Reproduce the figures of the paper.")
_add(app, "serve", "cli.serve", "Serve releases to analysts over HTTP, within budgets.")
_add(admin_app, "token", "cli.admin", "Issue a token, with access to the data folder.")
_add(admin_app, "profiles", "cli.admin", "Write files or a query to one profile file of a server.")
_add(admin_app, "dataset", "cli.admin_dataset", "Register a data set.")
_add(admin_app, "analyst", "cli.admin", "Create an analyst.")
_add(admin_app, "tokens", "cli.admin", "List the valid tokens of a principal.")
_add(admin_app, "revoke", "cli.admin", "Revoke one or every token of a principal.")
_add(admin_app, "disable", "cli.admin", "Disable a principal permanently.")
_add(admin_app, "budget", "cli.admin_dataset", "Set the budget of a data set or of an analyst.")
_add(admin_app, "close", "cli.admin", "Close a data set permanently.")
_add(admin_app, "key", "cli.admin", "Create a key pair for signing releases.")
_add(admin_app, "backup", "cli.admin_backup", "Back up a server while it runs.")
_add(admin_app, "restore", "cli.admin_backup", "Restore a backup without losing any charge.")
_add(admin_series_app, "plan", "cli.admin_series", "Show price and expected errors of a series.")
_add(admin_series_app, "open", "cli.admin_series", "Open a series: its budget is charged.")
_add(admin_series_app, "add", "cli.admin_series", "Release a period of a series.")
_add(admin_series_app, "list", "cli.admin_series", "List the series of a data set.")
_add(admin_series_app, "erase", "cli.admin_series", "Delete customers from the private state.")
_add(admin_series_app, "close", "cli.admin_series", "Close a series permanently.")
_add(ledger_app, "audit", "cli.admin", "Recompute and check a ledger: chain, sums, caps.")
_add(ledger_app, "export", "cli.admin", "Write every entry to a file that can be checked.")
_add(ledger_app, "accept", "cli.admin", "Accept a database that has lost entries.")
admin_app.add_typer(admin_series_app, name="series")
admin_app.add_typer(ledger_app, name="ledger")
app.add_typer(attack_app)
app.add_typer(series_app)
app.add_typer(admin_app)
