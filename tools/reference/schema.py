"""Descriptions of the fields of a JSON schema."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Schema = Mapping[str, Any]


class Field(NamedTuple):
    """A field of a schema."""

    path: str
    kind: str
    needed: bool
    text: str
    default: str

    @property
    def row(self) -> list[str]:
        """The field as a row of a table."""
        given = "yes" if self.needed else self.default or "no"
        return [f"`{self.path}`", self.kind, given, self.text]


def fields_of(schema: Schema, path: str = "") -> Iterator[Field]:
    """Yield every field below a schema; those of a named schema stand under its name instead."""
    for name, own in schema.get("properties", {}).items():
        place = f"{path}.{name}" if path else name
        needed = name in schema.get("required", ())
        default = f"default `{json.dumps(own['default'])}`" if "default" in own else ""
        yield Field(place, kind_of(own), needed, own.get("description", ""), default)
        yield from fields_of(own, place)
        if isinstance(items := own.get("items"), Mapping):
            yield from fields_of(items, f"{place}[]")


def kind_of(schema: Schema) -> str:
    """Describe the values that a schema accepts."""
    match schema:
        case {"$ref": str(name)}:
            words = f"*{name.rpartition('/')[2]}*"
        case {"const": value}:
            words = f"`{json.dumps(value)}`"
        case {"enum": list(values)}:
            words = ", ".join(f"`{json.dumps(value)}`" for value in values)
        case {"anyOf": list(choices)}:
            words = " or ".join(kind_of(choice) for choice in choices)
        case {"type": "array", "items": items}:
            words = f"list of {kind_of(items)}"
        case {"type": "object", "additionalProperties": dict(inner)}:
            words = f"object of {kind_of(inner)}"
        case {"type": str(kind)}:
            words = kind
        case _:
            words = "anything"
    return words + _bounds(schema)


def _bounds(schema: Schema) -> str:
    said = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "maxLength": "up to"}
    found = [f"{sign} {schema[name]}" for name, sign in said.items() if name in schema]
    return f" {', '.join(found)}" if found else ""
