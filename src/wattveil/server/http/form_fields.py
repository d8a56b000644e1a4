"""Fields of web forms, derived from declared models: the model is the only list of its fields.

A template draws a `FormField`; `read_fields` reads what a browser sends for it. Name, help text,
bounds and default are those of the model, which also validates the values.

==============================  ============================================
type of the field               in a form
==============================  ============================================
``bool``                        a check box
``int``, ``float``              a number
``tuple``, with ``choices``     a check box per choice
other, with ``choices``         a list to choose from
``Mapping[str, tuple]``         lines of ``name: value, value``
``Declaration``                 its fields, in its place
other                           a text
==============================  ============================================
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, TypeVar, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from wattveil.declaration import CommandLine, field_type, number_bounds, parameter_error
from wattveil.server.http.server_pages import Form


class FieldKind(StrEnum):
    """How a field is drawn and read."""

    CHECK = "check"
    NUMBER = "number"
    INTEGER = "integer"
    TEXT = "text"
    SELECT = "select"
    SEVERAL = "several"
    GROUPS = "groups"


@dataclass(frozen=True, kw_only=True)
class FormField:
    """One field of a form.

    Attributes
    ----------
    name
        In the body of the form: the path to the field, with dots.
    label, help
        Name and description for people.
    minimum, maximum
        Bounds of a number, if the model has any; whether they may be reached is left to the model.
    value
        Default, as text; empty if the field is required or has none, or is an unticked box.
    choices
        Values to choose from, each with its text.
    chosen
        Those that are chosen at first, of several.
    """

    name: str
    label: str
    help: str
    kind: FieldKind
    required: bool
    minimum: float | None = None
    maximum: float | None = None
    value: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    chosen: tuple[str, ...] = ()


Model = TypeVar("Model", bound=BaseModel)
_NUMBERS = {int: FieldKind.INTEGER, float: FieldKind.NUMBER, bool: FieldKind.CHECK}


def form_fields(
    model: type[BaseModel],
    *,
    choices: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    values: Mapping[str, str] = MappingProxyType({}),
    labels: Mapping[str, str] = MappingProxyType({}),
    helps: Mapping[str, str] = MappingProxyType({}),
    omit: Collection[str] = (),
    prefix: str = "",
) -> list[FormField]:
    """Return the fields of a model; those of nested models in their place.

    Parameters
    ----------
    choices
        Of fields whose values are known when the form is shown: each value with its text.
    values
        Defaults of this form, by the name of the form field, instead of those of the model.
    labels
        Names for people, by the name of the form field, instead of the words of the option.
    helps
        Help texts of this form, likewise.
    omit
        Fields that the form does not offer; they have the default of the model.
    prefix
        Before every name.
    """
    found = _fields(model, choices, omit, prefix)
    return [
        replace(
            one,
            value=values.get(one.name, one.value),
            label=labels.get(one.name, one.label),
            help=helps.get(one.name, one.help),
        )
        for one in found
    ]


def _fields(
    model: type[BaseModel],
    choices: Mapping[str, Mapping[str, str]],
    omit: Collection[str],
    prefix: str,
) -> Iterator[FormField]:
    for name, declared in model.model_fields.items():
        kind = field_type(declared)
        if name in omit:
            continue
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            inner = _fields(kind, choices, omit, f"{prefix}{name}.")
            optional = not declared.is_required()
            for one in inner:
                label = f"{_label(name, declared)}: {one.label.lower()}"
                yield replace(one, label=label, required=one.required and not optional)
        else:
            yield _field(name, declared, choices.get(name), prefix)


def _field(
    name: str, declared: FieldInfo, choices: Mapping[str, str] | None, prefix: str
) -> FormField:
    kind, default = field_type(declared), declared.get_default(call_default_factory=True)
    bounds = number_bounds(declared)
    drawn = FormField(
        name=prefix + name,
        label=_label(name, declared),
        help=_help(declared),
        kind=_NUMBERS.get(kind, FieldKind.TEXT),
        required=declared.is_required(),
        minimum=bounds.get("ge", bounds.get("gt")),
        maximum=bounds.get("le", bounds.get("lt")),
    )
    if choices is None and isinstance(kind, type) and issubclass(kind, Enum):
        choices = {one.value: one.value for one in kind}
    if get_origin(kind) is tuple:
        given = {} if choices is None else choices
        chosen = tuple(one for one in default or () if one in given)
        return replace(drawn, kind=FieldKind.SEVERAL, choices=given, chosen=chosen)
    if choices is not None:
        value = default.value if isinstance(default, Enum) else default or ""
        return replace(drawn, kind=FieldKind.SELECT, choices=choices, value=str(value))
    if isinstance(get_origin(kind), type) and issubclass(get_origin(kind), Mapping):
        return replace(drawn, kind=FieldKind.GROUPS)
    shown = "" if declared.is_required() or default is None or default is False else f"{default}"
    return replace(drawn, value=shown)


def _help(declared: FieldInfo) -> str:
    """Return the description as plain text; a field that is None is an empty one here."""
    words = " ".join((declared.description or "").split())
    return words.replace("None: ", "Empty: ").replace("`", "")


def _label(name: str, declared: FieldInfo) -> str:
    """Return the name for people: that of the command-line option, as words."""
    options = [
        one.option for one in declared.metadata if isinstance(one, CommandLine) and one.option
    ]
    words = (options[0].lstrip("-") if options else name).replace("-", " ").replace("_", " ")
    if words.endswith(" kw"):
        words = f"{words.removesuffix(' kw')} (kW)"
    return words[:1].upper() + words[1:]


def filled_in(fields: Sequence[FormField], sent: Mapping[str, Sequence[str]]) -> list[FormField]:
    """Return fields with the values of a form that was sent; those it lacks keep their default."""
    return [_filled_in(one, sent) for one in fields]


def _filled_in(field: FormField, sent: Mapping[str, Sequence[str]]) -> FormField:
    values = tuple(sent.get(field.name, ()))
    if field.kind is FieldKind.SEVERAL:
        return replace(field, chosen=values)
    return replace(field, value=values[0]) if values else field


def validated(model: type[Model], values: Mapping[str, Any]) -> Model:
    """Return the model of values of a form; one that breaks a rule is refused in its words."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise parameter_error(model, error) from None


def read_fields(form: Form, fields: Sequence[FormField]) -> dict[str, Any]:
    """Return what a form sends for fields, nested as the model is; empty ones are omitted."""
    values: dict[str, Any] = {}
    for one in fields:
        value = _read(form, one)
        if value is None:
            continue
        *path, name = one.name.split(".")
        inner = values
        for step in path:
            inner = inner.setdefault(step, {})
        inner[name] = value
    return values


def _read(form: Form, asked: FormField) -> object:
    """Return the value of a field; None if nothing was filled in."""
    match asked.kind:
        case FieldKind.CHECK:
            return form.checked(asked.name)
        case FieldKind.NUMBER:
            return form.number(asked.name)
        case FieldKind.INTEGER:
            return form.integer(asked.name)
        case FieldKind.SEVERAL:
            return form.fields.get(asked.name)
        case FieldKind.GROUPS:
            return read_groups(form.text(asked.name))
        case FieldKind.TEXT | FieldKind.SELECT:
            return form.text(asked.name) or None


def read_groups(text: str) -> dict[str, list[str]]:
    """Parse one attribute per line: its name, a colon, its values separated by commas."""
    groups = {}
    for line in filter(str.strip, text.splitlines()):
        name, _, values = line.partition(":")
        groups[name.strip()] = [value.strip() for value in values.split(",") if value.strip()]
    return groups
