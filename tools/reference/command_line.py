"""Reference page of the command line: every command with its options, from Typer."""

from collections.abc import Iterator
from typing import Any

import typer

from tools.reference.table import table
from wattveil.cli import app


def command_reference() -> str:
    """Return every command with its arguments, options, defaults and example, as Markdown."""
    return "\n\n".join(_section(name, command) for name, command in commands(app))


def commands(group: typer.Typer) -> Iterator[tuple[str, Any]]:
    """Yield every command with its full name."""
    yield from _below("wattveil", typer.main.get_command(group))


def _below(name: str, command: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - Typer's own
    if hasattr(command, "commands"):
        for own, inner in command.commands.items():
            yield from _below(f"{name} {own}", inner)
    elif hasattr(command, "loaded"):
        yield name, command.loaded()
    else:
        yield name, command


def _section(name: str, command: Any) -> str:  # noqa: ANN401 - Typer's own
    shown = [one for one in command.params if not one.hidden and one.name != "help"]
    places = [one for one in shown if one.param_type_name == "argument"]
    options = [one for one in shown if one.param_type_name == "option"]
    usage = " ".join([name, *(one.name.upper() for one in places), "[OPTIONS]" if options else ""])
    parts = [f"## {name}", command.help, f"```text\n{usage.strip()}\n```"]
    if shown:
        parts += [
            table(["option", "default", "meaning", "group"], [_row(one) for one in _grouped(shown)])
        ]
    if command.epilog:
        parts += [f"```console\n{command.epilog.removeprefix('Example: ')}\n```"]
    return "\n\n".join(parts)


def _row(parameter: Any) -> list[str]:  # noqa: ANN401 - Typer's own
    named = parameter.param_type_name == "option"
    names = [*parameter.opts, *parameter.secondary_opts] if named else [parameter.name.upper()]
    text = parameter.help or ""
    return [", ".join(f"`{name}`" for name in names), _default(parameter), text, _group(parameter)]


def _grouped(parameters: list[Any]) -> list[Any]:
    """Return arguments, then options as `--help` lists them: the common ones first."""
    options = [one for one in parameters if one.param_type_name == "option"]
    order = ["", *dict.fromkeys(filter(None, map(_group, options)))]
    arguments = [one for one in parameters if one.param_type_name == "argument"]
    return [*arguments, *sorted(options, key=lambda one: order.index(_group(one)))]


def _group(parameter: Any) -> str:  # noqa: ANN401 - Typer's own
    return getattr(parameter, "rich_help_panel", None) or ""


def _default(parameter: Any) -> str:  # noqa: ANN401 - Typer's own
    if parameter.required:
        return "required"
    if parameter.default in (None, False, (), []) or callable(parameter.default):
        return ""
    return f"`{parameter.default}`"
