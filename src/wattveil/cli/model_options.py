"""Command-line options derived from a model: one option per field of a `Declaration`.

A command takes the model as a parameter; the decorator replaces it by options::

    @model_options
    def release(context: typer.Context, profiles: str, *, request: ReleaseRequest) -> None: ...

Name, help, default, type and panel of each option follow from the field (`CommandLine` states
where they differ); fields of a nested model are options as well. Fields of one name in two models
of a command share an option, which the first declares. The command receives validated models; what
breaks a rule is reported by the name of its option.

======================  ==================================================
type of the field       on the command line
======================  ==================================================
``bool``                a flag
``StrEnum``             one of its texts
``tuple[X, ...]``       texts between commas
``tuple[X, Y]``         two values
``Mapping[str, X]``     ``key=value``, may be repeated; tuples as above
with ``models``         ``--<key>-<field>`` for each field of each model
other                   as Typer reads it
======================  ==================================================
"""

import datetime as dt
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_origin, get_type_hints, overload

import typer
from pydantic.fields import FieldInfo

from wattveil.declaration import (
    CommandLine,
    Declaration,
    bounds_of,
    field_type,
    rule_of,
    without_none,
)
from wattveil.errors import InvalidParameterError
from wattveil.terminal import refusals

Command = Callable[..., None]


@dataclass(frozen=True, kw_only=True)
class _Changes:
    """Differences between the options of a command and the fields of its models."""

    defaults: Mapping[str, object]
    fallbacks: Mapping[str, object]
    omit: Collection[str]
    common: Collection[str]
    groups: Mapping[str, str]


@overload
def model_options(command: Command, /) -> Command: ...
@overload
def model_options(
    *,
    defaults: Mapping[str, object] = ...,
    fallbacks: Mapping[str, object] = ...,
    omit: Collection[str] = ...,
    common: Collection[str] = ...,
    groups: Mapping[str, str] = ...,
) -> Callable[[Command], Command]: ...
def model_options(
    command: Command | None = None,
    /,
    *,
    defaults: Mapping[str, object] = MappingProxyType({}),
    fallbacks: Mapping[str, object] = MappingProxyType({}),
    omit: Collection[str] = (),
    common: Collection[str] = (),
    groups: Mapping[str, str] = MappingProxyType({}),
) -> Command | Callable[[Command], Command]:
    """Replace parameters of a command that are models by the options of their fields.

    Parameters
    ----------
    command
        Its parameters that are annotated by a subclass of `Declaration` are replaced.
    defaults
        Defaults of this command, by field, instead of those of the model.
    fallbacks
        Values of required fields whose option may be left out; ``context.params`` holds None then.
    omit
        Fields without an option: they have the default of the model.
    common
        Fields whose options are in the first panel of ``--help``, whatever group they declare.
    groups
        Panel of the other fields of a model that declare no group, by parameter of the command.

    Returns
    -------
    callable
        The command as Typer registers it.
    """
    changes = _Changes(
        defaults=defaults, fallbacks=fallbacks, omit=omit, common=common, groups=groups
    )
    if command is None:
        return lambda one: _expanded(one, changes)
    return _expanded(command, changes)


def _expanded(command: Command, changes: _Changes) -> Command:
    hints = get_type_hints(command, include_extras=True)
    signature = inspect.signature(command)
    models = {name: hint for name, hint in hints.items() if _is_model(hint)}
    parameters: list[inspect.Parameter] = []
    context = next((name for name, hint in hints.items() if hint is typer.Context), None)
    for name, parameter in signature.parameters.items():
        if name in models:
            known = {one.name for one in parameters}
            own = _parameters(models[name], changes, changes.groups.get(name))
            parameters += [one for one in own if one.name not in known]
        else:
            parameters.append(parameter.replace(annotation=hints[name]))
    if context is None:
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter("context_", keyword, annotation=typer.Context))

    @wraps(command)
    def run(*args: Any, **given: Any) -> None:  # noqa: ANN401 - what Typer read
        at = given[context] if context is not None else given.pop("context_")
        with refusals(at):
            built = {
                name: model.parse(_values(model, given, changes)) for name, model in models.items()
            }
        fields = {one for model in models.values() for one, _ in leaves(model)}
        rest = {name: value for name, value in given.items() if name not in fields}
        command(*args, **rest, **built)

    expanded: Any = run
    expanded.__signature__ = signature.replace(parameters=parameters)
    expanded.__annotations__ = {one.name: one.annotation for one in parameters}
    del expanded.__wrapped__  # the signature of the command itself is another one
    return run


def leaves(
    model: type[Declaration], omit: Collection[str] = (), prefix: str = ""
) -> Iterator[tuple[str, FieldInfo]]:
    """Yield every field of a model with its name; those of nested models in its place."""
    for name, field in model.model_fields.items():
        inner, shown = field_type(field), _shown(field)
        if name in omit:
            continue
        if shown.models is not None:
            for key, one in shown.models().items():
                yield from leaves(one, prefix=f"{key}_")
        elif _is_model(inner):
            yield from leaves(inner, omit, prefix)
        else:
            yield prefix + (shown.parameter or name), field


def _values(
    model: type[Declaration], given: Mapping[str, Any], changes: _Changes, prefix: str = ""
) -> dict[str, Any]:
    """Return the values of a model that options stand for; one that is None was not given."""
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        inner, shown = field_type(field), _shown(field)
        key = prefix + (shown.parameter or name)
        if name in changes.omit and not prefix:
            continue
        if shown.models is not None:
            values[name] = {
                one: _values(inner_model, given, changes, f"{one}_")
                for one, inner_model in shown.models().items()
            }
        elif _is_model(inner):
            values[name] = _values(inner, given, changes, prefix)
        elif given.get(key) is not None:
            values[name] = _read(name, field, given[key])
        elif key in changes.fallbacks:
            values[name] = changes.fallbacks[key]
    return values


def _parameters(
    model: type[Declaration], changes: _Changes, group: str | None
) -> Iterator[inspect.Parameter]:
    for name, field in leaves(model, changes.omit):
        shown = _shown(field)
        default = changes.defaults.get(name, _default(field))
        if name in changes.fallbacks:
            default = None
        info = typer.Option(
            shown.option or f"--{name.replace('_', '-')}",
            help=_help(field),
            rich_help_panel=None if name in changes.common else shown.group or group,
            metavar=shown.metavar or _metavar(field),
            show_default=default not in (None, False),
        )
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[_typed(field_type(field), default, shown), info],
        )


def _help(field: FieldInfo) -> str:
    """Return the documentation of a field, with the keys of a mapping where they are known."""
    shown = _shown(field)
    text, keys = " ".join((shown.help or field.description or "").split()), shown.keys
    return text if keys is None else f"{text} One of: {', '.join(keys())}."


def _shown(field: FieldInfo) -> CommandLine:
    return next((one for one in field.metadata if isinstance(one, CommandLine)), CommandLine())


def _default(field: FieldInfo) -> object:
    """Return the default of an option; None where a factory makes that of the field."""
    if field.is_required():
        return inspect.Parameter.empty
    if field.default_factory is not None or isinstance(field.default, tuple):
        return None
    return field.default


def _typed(kind: Any, default: object, shown: CommandLine) -> Any:  # noqa: ANN401 - any type
    """Return the type as Typer is to read it."""
    if shown.read is not None:
        found: Any = str
    elif _is_mapping(kind):
        found = list[str]
    elif get_origin(kind) is tuple:
        found = str if Ellipsis in get_args(kind) else tuple[(str,) * len(get_args(kind))]  # type: ignore[misc] # as many as the field has
    elif kind in (bool, int, float, str, Path) or _is_enum(kind):
        found = kind
    else:
        found = str
    return found | None if default is None else found


def _metavar(field: FieldInfo) -> str | None:
    """Return what stands for a value in the help: its type, with bounds if there are any."""
    kind = field_type(field)
    if _is_mapping(kind):
        return "<key=value>"
    if get_origin(kind) is tuple:
        return "<a,b,...>" if Ellipsis in get_args(kind) else None
    if kind is dt.date:
        return "<date>"
    bounds = bounds_of(field)
    if kind in (int, float) and bounds:
        return f"<{kind.__name__} {bounds}>"
    return None


def _read(name: str, field: FieldInfo, given: Any) -> Any:  # noqa: ANN401 - what Typer read
    """Return the value of a field that an option stands for."""
    shown, kind = _shown(field), field_type(field)
    if shown.read is not None:
        return shown.read(given)
    if _is_mapping(kind):
        pairs = (_pair(name, one, shown.metavar or "key=value") for one in given)
        values = without_none(get_args(kind)[1])[0]
        return {key: _listed(values, value) for key, value in pairs}
    if isinstance(given, tuple):
        _check_several(name, field, given)
    return _listed(kind, given)


def _check_several(name: str, field: FieldInfo, given: tuple[Any, ...]) -> None:
    """Refuse an option in the place of a value: one value too few, and the parser takes it."""
    if any(str(one).startswith("--") for one in given):
        typed = [str(one) for one in given if not str(one).startswith("--")]
        rule = (
            f"{rule_of(field.annotation, field.metadata)}: {len(given)} values, separated by spaces"
        )
        raise InvalidParameterError(name, rule, typed)


def _listed(kind: Any, given: Any) -> Any:  # noqa: ANN401 - any type, and what Typer read
    """Return the values of a tuple that a text lists; other values as they are."""
    if get_origin(kind) is tuple and isinstance(given, str):
        return tuple(one.strip() for one in given.split(",")) if given else ()
    return given


def _pair(name: str, text: str, form: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign:
        raise InvalidParameterError(name, form, text)
    return key, value


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Declaration)


def _is_enum(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def _is_mapping(kind: object) -> bool:
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Mapping)
