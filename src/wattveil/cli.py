"""The command line: the same verbs as the Python API.

A verb's module is loaded when the verb is used: the list of verbs waits for none of them.
"""

from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

_INTERRUPTED = 130
"""What a shell expects of a program that Ctrl-C ended: 128 and the number of the signal."""


class _Interruptible(TyperGroup):
    """Ends with one line when the person says so."""

    def invoke(self, ctx: Any) -> object:  # noqa: ANN401 - Typer's context has no public type here
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(_INTERRUPTED) from None


app = typer.Typer(
    cls=_Interruptible,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # they would print local variables: private rows
    help="Publish what smart meters know, with differential privacy.",
)
admin = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="What the house keeps: keys, tokens, data sets, the ledger.",
)
ledger = typer.Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, help="The budget ledger of a server."
)
attack = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="See what an attacker gets, on your own profiles or on simulated homes.",
)


class _Unloaded(TyperCommand):
    """Stands for a verb until it is used. Its callback returns the verb itself."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: object = None, **extra: object
    ) -> typer.Context:
        """Let the verb read its arguments; from here on it is the one that runs."""
        context: typer.Context = self.loaded().make_context(info_name, args, parent, **extra)
        return context

    def loaded(self) -> Any:  # noqa: ANN401 - a command, of Typer's own
        """Return the verb itself."""
        return cast("Any", self.callback)()


def _add(group: typer.Typer, verb: str, module: str, summary: str) -> None:
    """Add the function `verb` of a module, whose `EPILOG` is an example; `-` stands for `_`."""

    def load() -> object:
        code = import_module(f"wattveil.{module}")
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(verb, epilog=code.EPILOG)(getattr(code, verb.replace("-", "_")))
        return typer.main.get_command(alone)

    group.command(verb, cls=_Unloaded, short_help=summary)(load)


def _version(asked: bool) -> None:  # noqa: FBT001 - Typer calls it so
    if asked:
        typer.echo(f"wattveil {version('wattveil')}")
        raise typer.Exit


@app.callback()
def main(
    *,
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print it, and stop."),
    ] = False,
) -> None:
    """Publish what smart meters know, with differential privacy."""


# A new verb is one line: _add(group, "verb", "package.module", "Its line in the list of verbs.")
_add(
    app, "demo", "publish.demo", "From simulated meters to a release, synthetic customers, checks."
)
_add(app, "simulate", "simulate.command", "Readings of made-up customers.")
_add(app, "profiles", "engines.command", "Meter readings to one load profile a customer.")
_add(
    app, "release", "publish.command", "Load profiles to a folder that anybody may read and check."
)
_add(app, "synthesize", "publish.synthesize", "Synthetic customers from a release, for free.")
_add(
    app, "verify", "publish.verify_command", "Recompute every claim of a release, without the data."
)
_add(app, "evaluate", "evaluation.evaluate_command", "How like real customers synthetic ones are.")
_add(app, "grid", "grid.command", "Real and synthetic customers on the same feeder.")
_add(app, "compare", "baselines.command", "All mechanisms and rivals on the same customers.")
_add(app, "audit", "evaluation.audit_command", "Lower bounds on epsilon beside what is claimed.")
_add(app, "rules", "evaluation.rules_command", "What an N/X rule hides, and what undoes it.")
_add(attack, "fifteen-fifteen", "evaluation.differencing", "A customer, from two averages.")
_add(attack, "filter", "evaluation.attack_filter_command", "White and coloured noise, filtered.")
_add(attack, "copy", "evaluation.attack_copy_command", "Real customers among synthetic ones.")
_add(attack, "solar", "evaluation.attack_solar_command", "The one home with panels, by averages.")
_add(app, "reproduce", "reproduce.command", "The paper's figures, each beside what is true.")
_add(app, "serve", "serve.command", "Answer analysts over HTTP, within budgets.")
_add(admin, "token", "serve.verbs.token", "A new token for anybody, at the machine itself.")
_add(admin, "profiles", "serve.verbs.profiles", "Files or a query, as one file of a server.")
_add(admin, "dataset", "serve.verbs.dataset", "Register a data set at a server.")
_add(admin, "analyst", "serve.verbs.analyst", "Admit somebody who may ask.")
_add(admin, "revoke", "serve.verbs.revoke", "Make every token of somebody worthless.")
_add(admin, "disable", "serve.verbs.disable", "Refuse somebody from now on, for good.")
_add(admin, "budget", "serve.verbs.budget", "Say what may be spent, and by whom.")
_add(admin, "close", "serve.verbs.close", "Have a data set answer nothing new.")
_add(admin, "key", "publish.key_command", "Make a key to sign releases with, and its public half.")
_add(ledger, "audit", "serve.ledger.audit_command", "Check all of it anew: chain, sums, caps.")
_add(ledger, "export", "serve.ledger.export_command", "Every entry, as a file to be checked.")
_add(ledger, "accept", "serve.ledger.accept_command", "Go on with a database that lost entries.")
admin.add_typer(ledger, name="ledger")
app.add_typer(attack, name="attack")
app.add_typer(admin, name="admin")
