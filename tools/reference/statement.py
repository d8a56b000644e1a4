"""The release statement as a page: every field of its JSON schema."""

import json
from importlib.resources import files
from typing import Any

from tools.reference.schema import fields_of, kind_of
from tools.reference.table import table

_HEAD = ["field", "value", "needed", "meaning"]


def statement_schema() -> dict[str, Any]:
    """Return the schema that every statement is checked against."""
    path = files("wattveil.publish").joinpath("manifest.schema.json")
    schema: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return schema


def fields() -> str:
    """Return every field as Markdown, then the kinds of value that fields share."""
    schema = statement_schema()
    names = schema["$defs"]
    parts = [schema["description"], table(_HEAD, [one.row for one in fields_of(schema)])]
    plain = []
    for name, own in names.items():
        rows = [one.row for one in fields_of(own)]
        for number, choice in enumerate(own.get("oneOf", ()), start=1):
            rows += [[f"kind {number}", "", "", ""], *(f.row for f in fields_of(choice))]
        if rows:
            parts += [f"## {name}", own["description"], table(_HEAD, rows)]
        else:
            pattern = f"`{own['pattern']}`" if "pattern" in own else ""
            plain.append([f"*{name}*", kind_of(own), pattern, own["description"]])
    return "\n\n".join(
        [*parts, "## Kinds of value", table(["name", "value", "pattern", "meaning"], plain)]
    )
