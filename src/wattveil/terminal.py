"""Terminal output common to all commands: consoles, error messages and progress bars.

Colours and progress bars appear on a terminal only, and colours only without NO_COLOR. An error is
one line on standard error: option or file, its rule, what was given, and what to do.
"""

import difflib
import json
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import typer
from rich import console as rich_console
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

from wattveil.errors import (
    UNKNOWN_FIELD,
    AlreadyExistsError,
    InvalidFileError,
    InvalidParameterError,
    ServerRefusalError,
    WattveilError,
    WattveilWarning,
    one_of,
)

UsageError: Any = typer.BadParameter.__base__
"""Base of all errors of Typer about what was typed; it has no public name."""

_WHOLE_FILE = {"file", "content", "source", "folder", "schema metadata"}
"""Places in a file that say no more than its name."""
_DESTRUCTIVE = {"close", "disable", "erase", "restore", "revoke"}
_RELEASES = {"publish", "release"}
_OF_RELEASE = {"--epsilon", "--delta", "--clusters", "--clip-kw", "--by", "--levels"}
"""Options of a later command that are expected at `profiles`."""
_OTHER_NAMES = {
    **dict.fromkeys(("--tz", "--zone", "--time-zone"), "--timezone"),
    **dict.fromkeys(("--k", "--n-clusters", "--segments"), "--clusters"),
    **dict.fromkeys(("-o", "--output", "--outfile"), "--out"),
}
"""Names of options in other programs."""
_NEAR = 0.7  # similarity above which another option is suggested
_KINDS = {
    "float_parsing": "a number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
}
"""Rules of the types that Typer reads, by the kind of error that Pydantic reports."""
_ALREADY_DONE = 3
"""Exit code if the output already exists, so that a scheduler can tell it from a mistake."""
JSON_ERRORS = ContextVar("JSON_ERRORS", default=False)
"""Whether errors are printed as JSON, too: the command was given ``--json``."""
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


class Console(rich_console.Console):
    """Console whose sentences are not wrapped in files and pipes, so that scripts can search them.

    Tables have the width that ``COLUMNS`` states there.
    """

    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401 - those of Rich
        """Print texts and tables."""
        if not self.is_terminal and all(isinstance(one, str) for one in objects):
            options.setdefault("soft_wrap", True)
        super().print(*objects, **options)


class InvalidOption(typer.BadParameter):
    """An invalid option or argument; its message is complete, and ``param`` is the option."""

    def format_message(self) -> str:
        """Return the message as it is."""
        return self.message


@contextmanager
def private_files() -> Iterator[None]:
    """Make what is written meanwhile readable by its owner alone; for commands on private rows."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def refusals(context: typer.Context | None = None) -> Iterator[None]:
    """Convert errors of Wattveil to a message and an exit code, without a traceback.

    With the context of the command, the message names options as they are typed.
    """
    try:
        yield
    except InvalidParameterError as error:
        option = _parameters(context, error.field)[:1]
        refusal = InvalidOption(explained(error, context), context, *option)
        if isinstance(error, AlreadyExistsError):
            refusal.exit_code = _ALREADY_DONE
        raise refusal from error
    except BrokenPipeError:  # the reader of the output is gone; the command line ends quietly
        raise
    except (WattveilError, OSError) as error:
        message = explained(error, context)
        print_error(message)
        print_json_error(error, message)
        raise typer.Exit(1) from error


@contextmanager
def notices() -> Iterator[None]:
    """Print warnings of Wattveil as lines on standard error, each text once; keep all others."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield
    own = {str(one.message) for one in found if issubclass(one.category, WattveilWarning)}
    for text in sorted(own):
        console = Console(stderr=True, soft_wrap=True)
        console.print(f"[yellow]Warning:[/] {plain(text)}", highlight=False)
    for one in found:
        if not issubclass(one.category, WattveilWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Print errors about what was typed in the same form as all others, and exit with 2."""
    try:
        yield
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
            raise
        message = _typed_wrong(error)
        print_error(message)
        print_json_error(error.__cause__, message, getattr(error, "param", None))
        errors = Console(stderr=True, soft_wrap=True)
        parameter = getattr(error, "param", None)
        if parameter is not None and parameter.help and "Missing" not in type(error).__name__:
            errors.print(f"  {_option(parameter)}: {plain(parameter.help)}", highlight=False)
        if error.ctx is not None:
            errors.print(f"  Help: {plain(error.ctx.command_path)} --help", highlight=False)
        raise typer.Exit(error.exit_code) from error


def print_json_error(
    error: BaseException | None, message: str, parameter: object | None = None
) -> None:
    """Print an error on standard output as well, as JSON, if the command is given ``--json``."""
    if JSON_ERRORS.get():
        typer.echo(json.dumps(error_record(error, message, parameter), default=str))


def error_record(
    error: BaseException | None, message: str, parameter: object | None = None
) -> dict[str, Any]:
    """Return the keys of an error in JSON."""
    field, rule, value = None if parameter is None else _option(parameter), None, None
    match error:
        case InvalidParameterError():
            field, rule, value = field or error.field, error.rule, error.value
        case InvalidFileError():
            field, rule, value = f"{error.path}, {error.where}", error.expected, error.found
        case _:
            pass
    kind = type(error).__name__ if isinstance(error, WattveilError) else "Error"
    return {"error": kind, "message": message, "field": field, "rule": rule, "value": value}


def print_error(message: str) -> None:
    """Print an error on standard error; lines are not broken, so that scripts can search them."""
    text = message if message.endswith((".", "?", "!")) else f"{message}."
    Console(stderr=True, soft_wrap=True).print(f"[red]Error:[/] {plain(text)}", highlight=False)


def explained(error: Exception, context: typer.Context | None = None) -> str:
    """Return the message of an error in terms of the command line: options instead of arguments."""
    match error:
        case InvalidParameterError() if not error.rule.startswith(UNKNOWN_FIELD):
            return _parameter_problem(error, context)
        case InvalidFileError():
            return _file_problem(error, context)
        case ServerRefusalError(code="unreachable"):
            return f"{error}; the address is set by --url or WATTVEIL_URL"
        case OSError(filename=str() | Path() as path, strerror=str()):
            return f"{_given_as(context, path)}{path} {_system_problem(error)}"
        case OSError(strerror=str() as reason):
            return reason
        case _:
            return str(error)


def _parameter_problem(error: InvalidParameterError, context: typer.Context | None) -> str:
    """Return the message about an option: its rule, what was typed, and what to do."""
    if not error.rule:
        return str(error)
    got, rule = _as_typed(error.value), _in_options(error.rule, context)
    then = f". {_in_options(error.remedy, context)}" if error.remedy else ""
    names = _options(context, error.field)
    return f"{names} must be {rule}" + (f"; got {got}" if got else "") + then


def _file_problem(error: InvalidFileError, context: typer.Context | None) -> str:
    """Return the message about a file: whether what was typed exists, or what is wrong in it."""
    cause, typed = error.__cause__, _given_as(context, error.path)
    if typed and "://" not in str(error.path) and not os.path.lexists(str(error.path)):
        return f"{typed}{error.path} does not exist; check the path"
    found, remedy = error.found, _in_options(error.remedy, context)
    then = f". {remedy}" if remedy else ""
    if error.problem:
        return f"{error.stated(_in_options(error.problem, context))}{then}"
    if isinstance(cause, OSError):
        if typed and str(cause.filename) == str(error.path):
            return explained(cause, context)
        found = None if found is None else cause.strerror
    where = "" if error.where in _WHOLE_FILE else f", {error.where}"
    expected, got = _in_options(error.expected, context), _as_typed(found)
    return f"{error.path}{where}: expected {expected}" + (f"; found {got}" if got else "") + then


def _given_as(context: typer.Context | None, path: object) -> str:
    """Return the option or argument that names a path, followed by a colon; empty without one."""
    if context is None:
        return ""
    for parameter in context.command.params:
        value = context.params.get(parameter.name)
        values = value if isinstance(value, list | tuple) else [value]
        if str(path) in map(str, values):
            return f"{_option(parameter)}: "
    return ""


def _system_problem(error: OSError) -> str:
    """Return why the system refused a path, as the end of a sentence that begins with it."""
    match error:
        case FileNotFoundError():
            return "does not exist; check the path"
        case PermissionError():
            return "cannot be used: permission denied"
        case IsADirectoryError():
            return "is a folder; a file is expected"
        case NotADirectoryError():
            return "is a file, or lies in one; a folder is expected"
        case _:
            return f"cannot be used: {str(error.strerror).lower()}"


def _typed_wrong(error: Any) -> str:  # noqa: ANN401 - Typer's own, without a public type
    """Return the message of an error that Typer found: option, rule and value."""
    parameter = getattr(error, "param", None)
    if parameter is None or isinstance(error, InvalidOption):
        return _harmless(str(error.format_message()), error.ctx)
    name, help_text = _option(parameter), (parameter.help or "").strip()
    if "Missing" in type(error).__name__:
        return f"{name} is required: {help_text[:1].lower()}{help_text[1:]}"
    found: list[Any] = getattr(error.__cause__, "errors", list)()
    if not found:
        return f"{name}: {error.message}"
    context, kind = found[0].get("ctx", {}), found[0]["type"]
    _, known, choices = found[0]["msg"].partition("is not one of ")
    if known:
        rule = one_of(choices.strip(".").replace("'", "").split(", "))
    else:
        bounds = [f"{word} {context[bound]}" for bound, word in _BOUNDS.items() if bound in context]
        rule = " and ".join(bounds) or _KINDS.get(kind, found[0]["msg"])
    return f"{name} must be {rule}; got {_as_typed(found[0]['input'])}"


def _harmless(message: str, context: typer.Context | None) -> str:
    """Never suggest a command that deletes or ends something; a period is released by `add`."""
    if option := re.match(r"No such option: (-[a-zA-Z-]+)", message):
        return _unknown_option(option[1], context)
    unknown = re.match(r"(No such command '([^']+)'\.) *(Did you mean .*)?$", message)
    if unknown is None:
        return message
    near = re.findall(r"'([^']+)'", unknown[3] or "")
    near = difflib.get_close_matches(unknown[2], near, n=1, cutoff=0.0)
    names = [name for name in near if name not in _DESTRUCTIVE]
    known = getattr(context and context.command, "commands", {})
    if not names and unknown[2] in _RELEASES and "add" in known:
        names = ["add"]
    hint = " or ".join(map(repr, names))
    return f"{unknown[1]} Did you mean {hint}?" if hint else unknown[1]


def _unknown_option(typed: str, context: typer.Context | None) -> str:
    """Return the message about an option that a command does not have, with the nearest one."""
    if typed in _OF_RELEASE and context and context.info_name == "profiles":
        return f"{typed} is an option of `wattveil release`"
    known = [] if context is None else [name for one in context.command.params for name in one.opts]
    if typed == "--seed" and "--epsilon" in known:
        return "No such option: --seed. Privacy noise cannot be repeated, so it has no seed"
    begun = [name for name in known if len(typed) > len("--") and name.startswith(typed)]
    near = [_OTHER_NAMES[typed]] if _OTHER_NAMES.get(typed) in known else begun
    near = near or difflib.get_close_matches(typed, known, n=1, cutoff=_NEAR)
    hint = f". Did you mean {' or '.join(near)}?" if near else ""
    return f"No such option: {typed}{hint}"


def _as_typed(value: object) -> str:
    """Return a value as a person would type it; empty for None and for flags."""
    match value:
        case None | bool():
            return ""
        case float():
            return f"{value:.12g}"
        case Mapping():
            return ", ".join(f"{key}={_as_typed(one)}" for key, one in value.items())
        case list() | tuple() | set() | frozenset():
            return ", ".join(filter(None, map(_as_typed, value))) or "nothing"
        case _:
            text = str(value)
            return f'"{text}"' if text != "".join(text.split()) else text or "nothing"


def _in_options(advice: str, context: typer.Context | None) -> str:
    """Return a rule with options of the command in place of arguments of Python."""
    advice = re.sub(r"columns=\{([^}]*)\}", lambda found: _column_options(found[1]), advice)
    advice = re.sub(r"words=\{'([^']*)': …\}", r"--word '\1=MEANING'", advice)
    advice = advice.replace("cumulative=True", "--cumulative")
    advice = re.sub(r"(?<!--share )\b([a-z_]+)=(?:(…)|(\d+)|'(\w+)')", _typed_option, advice)
    names = {} if context is None else {one.name: _option(one) for one in context.command.params}
    advice = re.sub(r"`([a-z_]+)`", lambda found: names.get(found[1], found[0]), advice)
    return re.sub(
        r"(?<![-\w])[a-z]+(?:_[a-z]+)+\b", lambda found: names.get(found[0], found[0]), advice
    )


def _typed_option(found: re.Match[str]) -> str:
    """Return an argument of Python as an option; one without a value has its placeholder."""
    name = found[1].replace("_", "-")
    placeholder = name.rpartition("-")[2].upper() if found[2] else ""
    return f"--{name} {placeholder or found[3] or found[4]}"


def _column_options(roles: str) -> str:
    """Return the options that name the columns of roles, ready to be completed."""
    return " ".join(f"--column {role}=NAME" for role in re.findall(r"'(\w+)'", roles))


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
    """Return a progress bar for a known number of steps; it appears on a terminal only."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
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


def _options(context: typer.Context | None, fields: str) -> str:
    """Return the options that give these fields; the name of a field that has none."""
    found = _parameters(context, fields)
    if found:
        return " and ".join(dict.fromkeys(map(_option, found)))
    names = fields.split(", ")
    typed = [f"--{one.replace('_', '-')}" if one.islower() else one for one in names]
    return " and ".join(names if context is not None else typed)


def _parameters(context: typer.Context | None, fields: str) -> list[Any]:
    """Return the parameters of a command that give these fields."""
    known: dict[str, Any] = (
        {} if context is None else {one.name: one for one in context.command.params}
    )
    if "clusters" in known:
        known.setdefault("n_clusters", known["clusters"])
    found = []
    for field in fields.split(", "):
        first, _, rest = field.partition(".")
        names = (field.replace(".", "_"), first, rest.replace(".", "_"))
        found.append(next((known[name] for name in names if name in known), None))
    return [one for one in found if one is not None]


def _option(parameter: Any) -> str:  # noqa: ANN401 - Typer's own, without a public type
    """Return an option, or the placeholder of an argument, as the help shows it."""
    is_option = parameter.param_type_name == "option"
    return str(parameter.opts[0] if is_option else parameter.name.upper())


@contextmanager
def working(console: Console) -> Iterator[Callable[[str], None]]:
    """Show a spinner with the current activity and the elapsed time, on a terminal only."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    is_silent = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=is_silent) as progress:
        task = progress.add_task("starting")
        yield lambda what: progress.update(task, description=what)
