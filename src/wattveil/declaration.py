"""Declared choices: base class of models whose fields are written in one place.

A field of a `Declaration` carries its type, bounds, default, help text and unit. Command-line
options (`cli.model_options`), HTTP bodies, canonical text, JSON schemas and reference pages are
derived from it.

>>> from pydantic import Field
>>> class Choices(Declaration):
...     n_clusters: Annotated[int, Field(ge=1, le=1000), CommandLine(option="--clusters")] = 6
>>> Choices(n_clusters=0)
Traceback (most recent call last):
...
wattveil.errors.InvalidParameterError: n_clusters must be a whole number of at least 1 and at \
most 1,000, got n_clusters=0
"""

import datetime as dt
import difflib
import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema, to_json

from wattveil.errors import UNKNOWN_FIELD, InvalidParameterError, one_of


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """How a field appears on the command line, where that does not follow from the field.

    Parameters
    ----------
    option
        Name of the option; None is ``--`` and the name of the field.
    parameter
        Name that stands for the field where models of one command share names; the option follows.
    group
        Panel of ``--help`` in which it is listed.
    metavar
        What stands for the value in ``--help``; None follows from the type.
    help
        Text of ``--help`` where a default differs on the command line; None is that of the field.
    read
        Converts the text of the option; None follows from the type.
    keys
        Of a mapping: returns its keys, which ``--help`` lists.
    models
        Of a mapping to models: returns the model of each key. Each of their fields is an option
        ``--<key>-<field>``.
    """

    option: str | None = None
    parameter: str | None = None
    group: str | None = None
    metavar: str | None = None
    help: str | None = None
    read: Callable[[str], object] | None = None
    keys: Callable[[], Iterable[str]] | None = None
    models: "Callable[[], Mapping[str, type[Declaration]]] | None" = None


_AS_TEXT = {"as_text": True}
"""Context of a validation that accepts values in text form."""
_MAX_SHOWN_FIELDS = 6
"""A model with more fields shows in its text only those that are not their defaults."""


@dataclass(frozen=True)
class Rule:
    """The rule of a field in words, for error messages; else they follow from type and bounds."""

    text: str


class Declaration(BaseModel):
    """Frozen model whose errors are `InvalidParameterError`.

    Types are strict: a text is no number. A member of an enum may be given as its text, a tuple as
    a list. `parse` reads decimal numbers too.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,  # the help text of a field
        revalidate_instances="subclass-instances",  # they may have further fields
        json_schema_serialization_defaults_required=True,
    )

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """Return the model that values in text form stand for."""
        try:
            return cls.model_validate(_plain_numbers(values), strict=False, context=_AS_TEXT)
        except ValidationError as error:
            raise parameter_error(cls, error) from None

    def __hash__(self) -> int:
        """Return a hash of all values: equal models, equal hashes."""
        values = (getattr(self, name) for name in type(self).model_fields)
        return hash((type(self), *(_hashable(value) for value in values)))

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        """Yield the fields of the text; of a model with many, those that are not their defaults."""
        fields = type(self).model_fields
        for name, field in fields.items():
            value = getattr(self, name)
            default = field.get_default(call_default_factory=True, validated_data={})
            if len(fields) <= _MAX_SHOWN_FIELDS or _without_defaults(value) not in (default, {}):
                yield name, value

    def as_plain(self) -> dict[str, Any]:
        """Return the fields as JSON values in canonical form, as `to_plain` does."""
        fields: dict[str, Any] = to_plain(self)
        return fields

    def replace(self, **changes: object) -> Self:
        """Return a copy with other values, checked as a whole."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**{**given, **changes})


def _without_defaults(value: object) -> object:
    """Return a mapping without models of defaults alone, and any other value as it is."""
    if not isinstance(value, Mapping):
        return value
    return {
        key: one
        for key, one in value.items()
        if not isinstance(one, Declaration) or one != type(one)()
    }


def _checked_init(self: Declaration, /, **given: object) -> None:
    try:
        BaseModel.__init__(self, **_declared_types(type(self), _plain_numbers(given)))
    except ValidationError as error:
        raise parameter_error(type(self), error) from None


# Set from outside, so that type checkers see the parameters of each model. The mark keeps Pydantic
# from calling it inside of a validation, where it would lose the strictness that was asked for.
_checked_init.__pydantic_base_init__ = True  # type: ignore[attr-defined] # Pydantic's own mark
Declaration.__init__ = _checked_init  # type: ignore[assignment,method-assign] # see above


def parameter_error(model: type[BaseModel], error: ValidationError) -> InvalidParameterError:
    """Return the first finding of Pydantic as an error that names field, rule and value."""
    found = error.errors(include_url=False)[0]
    own = found.get("ctx", {}).get("error")
    if isinstance(own, InvalidParameterError):
        return own
    place = [str(one) for one in found["loc"]]
    if found["type"] == "missing":
        return InvalidParameterError(place[-1], "given", None)
    if found["type"] == "extra_forbidden":
        known = model.model_fields if len(place) == 1 else ()
        return InvalidParameterError(place[-1], unknown_field(place[-1], known), found["input"])
    name, rule = _broken(model, place, found)
    return InvalidParameterError(name, rule, found["input"])


def unknown_field(name: str, known: Iterable[str]) -> str:
    """Return the rule that an unknown field breaks, with the nearest known field, if one is near.

    >>> unknown_field("clusters", ["epsilon", "n_clusters"])
    'omitted: unknown field; did you mean n_clusters?'
    """
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    if not near and _ABBREVIATED.get(name) in known:
        near = [_ABBREVIATED[name]]
    return f"{UNKNOWN_FIELD}; did you mean {near[0]}?" if near else UNKNOWN_FIELD


_ABBREVIATED = {"tz": "timezone", "zone": "timezone", "freq": "minutes", "interval": "minutes"}
"""Names of other libraries that are near none of ours."""


class ModelByKey:
    """Annotation of a mapping from keys to models that are not known before it is validated.

    Every key is present afterwards, with the defaults of its model.

    Parameters
    ----------
    models
        Returns the model of each key.
    """

    def __init__(self, models: Callable[[], Mapping[str, type[Declaration]]]) -> None:
        self._models = models

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> CoreSchema:
        """Return the schema by which Pydantic validates."""
        del source, handler
        return core_schema.with_info_plain_validator_function(self._validated)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON schema of the models that are known when it is generated."""
        del schema
        models = self._models()
        return {
            "type": "object",
            "properties": {
                key: handler(model.__pydantic_core_schema__) for key, model in models.items()
            },
            "additionalProperties": False,
        }

    def _validated(self, given: object, info: ValidationInfo) -> Mapping[str, Declaration]:
        name, models = info.field_name or "mapping", self._models()
        if not isinstance(given, Mapping):
            raise InvalidParameterError(name, "a mapping", given)
        for key in given:
            if key not in models:
                raise InvalidParameterError(name, f"for {one_of(models)}", key)
        as_text = bool((info.context or {}).get("as_text"))
        found = {}
        for key, model in models.items():
            try:
                found[key] = _one_model(model, given.get(key, {}), as_text=as_text)
            except InvalidParameterError as error:
                at = f"{name}.{key}.{error.field}"
                raise InvalidParameterError(at, error.rule, error.value) from None
        return found


def _one_model(model: type[Declaration], given: Any, *, as_text: bool) -> Declaration:  # noqa: ANN401 - whatever was given
    if type(given) is model:  # a subclass may have fields that no text and no table knows
        return given
    if as_text and isinstance(given, Mapping):
        return model.parse(given)
    try:
        return model.model_validate_json(to_json(given))  # JSON has lists and texts for some types
    except ValidationError as error:
        raise parameter_error(model, error) from None


def _broken(
    model: type[BaseModel], place: Sequence[str], found: Mapping[str, Any]
) -> tuple[str, str]:
    """Return the name of a field, and its rule in words."""
    field = model.model_fields.get(place[0]) if place else None
    if field is None:
        return ".".join(place) or model.__name__, found["msg"]
    inner = field_type(field)
    if len(place) > 1 and isinstance(inner, type) and issubclass(inner, BaseModel):
        return _broken(inner, place[1:], found)
    name = ".".join(one for one in place if one != "[key]")
    return name, rule_of(field.annotation, field.metadata, below=len(place) > 1)


def rule_of(annotation: Any, metadata: Sequence[object], *, below: bool = False) -> str:  # noqa: ANN401 - any type
    """Return the rule of a type and its bounds, in words; ``below`` that of its elements."""
    kind, inner = without_none(annotation)
    notes = [*metadata, *inner]
    if below and get_args(kind):
        return rule_of(get_args(kind)[-1 if _is_mapping(kind) else 0], ())
    for declared in (metadata, inner):
        # A type that narrows another one states its rule after that of the other.
        if rules := [note.text for note in declared if isinstance(note, Rule)]:
            return rules[-1]
    limits = dict(_bounds(notes))  # a derived field may narrow those of its origin
    bounds = [f"{_WORDS[name]} {_number(bound)}" for name, bound in limits.items()]
    words = " and ".join(bounds)
    if kind is float and len(bounds) == 2:  # noqa: PLR2004 - a lower and an upper one
        return words
    if kind in (int, float):
        number = "a whole number" if kind is int else "a finite number"
        of = " of" if words.startswith("at") else ""
        return f"{number}{of} {words}".rstrip()
    if isinstance(kind, type) and issubclass(kind, Enum):
        return one_of(member.value for member in kind)
    named = {
        bool: "true or false",
        str: "text",
        Path: "a path",
        dt.date: "a date such as 2025-03-03",
    }
    return named.get(kind, "a list" if get_origin(kind) is tuple else f"a {_name(kind)}")


def number_bounds(field: FieldInfo) -> dict[str, float]:
    """Return the bounds of a number, by the name of Pydantic's attribute: gt, ge, lt, le."""
    return dict(_bounds((*field.metadata, *without_none(field.annotation)[1])))


def bounds_of(field: FieldInfo) -> str:
    """Return the bounds of a number in signs: ``1<=x<=1000``; empty without bounds."""
    found = number_bounds(field)
    below = [f"{found[name]:g}{sign}" for name, sign in _BELOW.items() if name in found]
    above = [f"{sign}{found[name]:g}" for name, sign in _ABOVE.items() if name in found]
    return "x".join(("".join(below), "".join(above))) if found else ""


_BELOW, _ABOVE = {"gt": "<", "ge": "<="}, {"lt": "<", "le": "<="}
_WORDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
"""The bounds that an annotation of Pydantic may carry, by the name of its attribute."""


def _bounds(notes: Sequence[object]) -> Iterator[tuple[str, float]]:
    for note in notes:
        for name in _WORDS:
            if (bound := getattr(note, name, None)) is not None:
                yield name, bound


def _number(bound: object) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"


def _name(kind: Any) -> str:  # noqa: ANN401 - any type
    return "mapping" if _is_mapping(kind) else getattr(kind, "__name__", str(kind))


def _is_mapping(kind: Any) -> bool:  # noqa: ANN401 - any type
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def field_type(field: FieldInfo) -> Any:  # noqa: ANN401 - any type
    """Return the type of a field, without None and annotations."""
    return without_none(field.annotation)[0]


def without_none(annotation: Any) -> tuple[Any, list[object]]:  # noqa: ANN401 - any type
    """Return a type without None and annotations; and the annotations."""
    notes: list[object] = []
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation, *own = get_args(annotation)
            notes += _flat(own)
        elif origin in (Union, types.UnionType):
            inner = [one for one in get_args(annotation) if one is not type(None)]
            if len(inner) != 1:
                return annotation, notes
            (annotation,) = inner
        else:
            return annotation, notes


def _flat(notes: Sequence[object]) -> Iterator[object]:
    for note in notes:
        if isinstance(note, FieldInfo):
            yield from note.metadata
        else:
            yield note


def _hashable(value: object) -> object:
    if isinstance(value, Mapping):
        return frozenset((key, _hashable(one)) for key, one in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, tuple) else value


def check_options(model: type[Declaration]) -> None:
    """Refuse a model of options that could not be left out, hashed or written as canonical text."""
    for name, field in model.model_fields.items():
        where = f"{model.__name__}.{name}"
        if field.is_required():
            raise InvalidParameterError(where, "a field with a default", "a required one")
        if (unfit := _unfit(field.annotation)) is not None:
            rule = (
                "of immutable types with a canonical text: bool, int, float, str, Enum, Literal,"
                " tuple, Mapping, Declaration or None"
            )
            raise InvalidParameterError(where, rule, unfit)


def _unfit(annotation: Any) -> Any:  # noqa: ANN401 - any type
    """Return the first type in an annotation that options must not have; None without one."""
    kind, _ = without_none(annotation)
    inner = get_args(kind)
    if get_origin(kind) is Literal or kind in (bool, int, float, str, type(None), Ellipsis):
        return None
    if get_origin(kind) in (tuple, Union, types.UnionType) or _is_mapping(kind):
        return next((one for one in map(_unfit, inner) if one is not None), None)
    if isinstance(kind, type) and issubclass(kind, Declaration):
        check_options(kind)
        return None
    return None if isinstance(kind, type) and issubclass(kind, Enum) else kind


def _plain_numbers(given: Mapping[str, Any]) -> dict[str, Any]:
    """Take numbers of NumPy for those of Python.

    Not by a validator of the model: one before the others would have Pydantic take the lists and
    texts of JSON for those of Python, and refuse them as tuples and members of an enum.
    """
    return {name: _plain_number(value) for name, value in given.items()}


def _declared_types(model: type[BaseModel], given: Mapping[str, Any]) -> dict[str, Any]:
    """Take the text of a member of an enum for the member, and a list for a tuple."""
    fields = model.model_fields
    kinds = {name: field_type(fields[name]) for name in given if name in fields}
    return {name: _declared_type(kinds.get(name), value) for name, value in given.items()}


def _declared_type(kind: Any, value: object) -> object:  # noqa: ANN401 - any type
    if isinstance(kind, type) and issubclass(kind, Enum) and isinstance(value, str):
        return next((member for member in kind if member.value == value), value)
    return tuple(value) if get_origin(kind) is tuple and isinstance(value, list) else value


def _plain_number(value: object) -> object:
    if isinstance(value, bool | int | float) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def to_plain(value: Any) -> Any:  # noqa: ANN401 - a model or what it holds
    """Return a model as JSON values, floats as the text that ``repr`` gives: it reads back exactly.

    `Declaration.parse` reads it.
    """
    if isinstance(value, BaseModel):
        return {name: to_plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {str(key): to_plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    if isinstance(value, Enum):
        return value.value
    return repr(value) if isinstance(value, float) else value


Function = TypeVar("Function", bound=Callable[..., Any])
Model = TypeVar("Model", bound=Declaration)


def one_model(model: type[Model], given: Model | None, fields: Mapping[str, object]) -> Model:
    """Return the model that was given, or that of keyword arguments; None is an omitted one."""
    for name in fields if given is None else ():
        if name not in model.model_fields:
            rule = unknown_field(name, model.model_fields)
            text = f"unknown argument {name}{rule.removeprefix(UNKNOWN_FIELD)}"
            raise InvalidParameterError(name, rule, fields[name], text=text)
    if given is None:
        return model.parse({name: value for name, value in fields.items() if value is not None})
    if fields:
        rule = f"omitted with a {model.__name__}"
        raise InvalidParameterError(next(iter(fields)), rule, next(iter(fields.values())))
    return given


def takes_fields(model: type[Declaration]) -> Callable[[Function], Function]:
    """Give a function with ``**fields`` the keyword arguments of a model, with their documentation.

    Signature and docstring derive from the model: they list its fields in place of ``**fields``.
    """

    def described(function: Function) -> Function:
        signature = inspect.signature(function)
        kept = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        added = [_parameter(name, field) for name, field in model.model_fields.items()]
        lines = [
            f"{name}\n    {' '.join((field.description or '').split())}"
            for name, field in model.model_fields.items()
        ]
        text = "\n".join(lines).replace("\n", "\n    ")
        short = f"**fields\n        Fields of `{model.__name__}`."
        function.__doc__ = (function.__doc__ or "").replace(short, text)
        target: Any = function
        target.__signature__ = signature.replace(parameters=[*kept, *added])
        return function

    return described


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    default = field.get_default(call_default_factory=True, validated_data={})
    kind = field_type(field)
    annotation = kind | None if default is None else kind
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=default, annotation=annotation)
