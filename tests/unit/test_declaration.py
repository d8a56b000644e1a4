"""Declared models: types are strict, errors name field, rule and value, text reads back."""

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import jsonschema
import numpy as np
import pytest
from pydantic import AfterValidator, Field

from wattveil.bundle.plain_schema import json_schema
from wattveil.declaration import (
    Declaration,
    Rule,
    bounds_of,
    to_plain,
)
from wattveil.errors import InvalidParameterError


class Colour(StrEnum):
    """An enum of the models below."""

    RED = "red"
    BLUE = "blue"


def _even(number: int) -> int:
    if number % 2:
        raise ValueError(number)
    return number


def _lower(text: str) -> str:
    if text != text.lower():
        raise InvalidParameterError("label", "in lower case", text)
    return text


class Inner(Declaration):
    """A nested model."""

    label: Annotated[str, AfterValidator(_lower)] = "x"
    """Its label."""


class Outer(Declaration):
    """A model with fields of every kind."""

    epsilon: Annotated[float, Field(ge=1e-12, le=1e6)]
    """Budget."""
    size_kw: Annotated[float, Field(gt=0)] | None = None
    pairs: Annotated[int, Field(ge=0), AfterValidator(_even), Rule("an even number")] = 0
    count: Annotated[int, Field(ge=1, le=1000)] = 1
    free: float = 0.5
    colour: Colour = Colour.RED
    names: tuple[str, ...] = ()
    weights: Mapping[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    path: Path | None = None
    flag: bool = False
    inner: Inner = Field(default_factory=Inner)


@pytest.mark.parametrize(
    ("given", "field", "rule"),
    [
        ({"epsilon": 0}, "epsilon", "at least 1e-12 and at most 1e+06"),
        ({"epsilon": float("nan")}, "epsilon", "at least 1e-12 and at most 1e+06"),
        ({"epsilon": "1"}, "epsilon", "at least 1e-12 and at most 1e+06"),
        ({"epsilon": True}, "epsilon", "at least 1e-12 and at most 1e+06"),
        ({"epsilon": 10**400}, "epsilon", "at least 1e-12 and at most 1e+06"),
        ({"size_kw": -1.0}, "size_kw", "a finite number above 0"),
        ({"pairs": 3}, "pairs", "an even number"),
        ({"count": 0}, "count", "a whole number of at least 1 and at most 1,000"),
        ({"count": 2.0}, "count", "a whole number of at least 1 and at most 1,000"),
        ({"free": float("inf")}, "free", "a finite number"),
        ({"colour": "green"}, "colour", "one of: red, blue"),
        ({"names": "a"}, "names", "a list"),
        ({"names": (1,)}, "names.0", "text"),
        ({"weights": {"load": -1.0}}, "weights.load", "a finite number of at least 0"),
        ({"weights": 3}, "weights", "a mapping"),
        ({"path": 3}, "path", "a path"),
        ({"flag": 1}, "flag", "true or false"),
        ({"inner": 3}, "inner", "a Inner"),
        ({"inner": {"label": 3}}, "label", "text"),
        ({"inner": {"label": "A"}}, "label", "in lower case"),
        ({"other": 3}, "other", "omitted: unknown field"),
        ({"weight": 3}, "weight", "omitted: unknown field; did you mean weights?"),
    ],
)
def test_errors_name_field_rule_and_value(given: dict[str, Any], field: str, rule: str) -> None:
    """What breaks a rule is refused with the name of the field, the rule and the value."""
    with pytest.raises(InvalidParameterError) as caught:
        Outer(**{"epsilon": 1.0, **given})
    assert (caught.value.field, caught.value.rule) == (field, rule)


def test_texts_of_enums_and_lists_are_accepted() -> None:
    """In Python, as on the command line: the text of a member, and a list where order matters."""
    found = Outer.model_validate(Outer(epsilon=1.0, colour="blue", names=["a", "b"]))  # type: ignore[arg-type] # on purpose
    assert (found.colour, found.names) == (Colour.BLUE, ("a", "b"))


def test_models_with_many_fields_show_what_is_not_the_default() -> None:
    """The text has the fields that were chosen; that of a small model has all fields."""
    assert repr(Outer(epsilon=1.0, count=3)) == "Outer(epsilon=1.0, count=3)"
    assert repr(Inner()) == "Inner(label='x')"


def test_a_required_field_is_required() -> None:
    """A field without default must be given."""
    with pytest.raises(InvalidParameterError, match="epsilon must be given"):
        Outer.parse({})


def test_numbers_of_other_libraries_are_numbers() -> None:
    """NumPy's numbers and fractions are taken for Python's."""
    found = Outer(epsilon=np.float32(0.5), count=np.int64(3), free=Fraction(1, 4))  # type: ignore[arg-type] # a fraction on purpose
    assert (found.epsilon, found.count, found.free) == (0.5, 3, 0.25)
    assert type(found.count) is int
    assert Outer.model_validate(found) is found


def test_text_reads_back_and_follows_the_schema() -> None:
    """Floats are text that reads back exactly; what is written follows the JSON schema."""
    given = Outer(
        epsilon=0.1 + 0.2,
        size_kw=1,
        colour=Colour.BLUE,
        names=("a", "b"),
        weights={"load": 2},
        inner=Inner(label="y"),
    )
    record = to_plain(given)
    assert record["epsilon"] == "0.30000000000000004"
    assert record["weights"] == {"load": "2.0"}
    assert (record["colour"], record["names"]) == ("blue", ["a", "b"])
    assert Outer.parse(record) == given
    jsonschema.validate(record, json_schema(Outer))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**record, "epsilon": 0.3}, json_schema(Outer))


def test_replacing_checks_the_whole() -> None:
    """A copy with other values is checked like any other."""
    assert Outer(epsilon=1.0).replace(count=4).count == 4
    with pytest.raises(InvalidParameterError, match="count"):
        Outer(epsilon=1.0).replace(count=0)


def test_bounds_are_shown_in_signs() -> None:
    """The help of the command line shows bounds as an interval."""
    fields = Outer.model_fields
    assert bounds_of(fields["count"]) == "1<=x<=1000"
    assert bounds_of(fields["size_kw"]) == "0<x"
    assert bounds_of(fields["free"]) == ""
