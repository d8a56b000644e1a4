"""Reference page of the manifest: every field of its JSON schema."""

from tools.reference.schema import fields_of, kind_of
from tools.reference.table import table
from wattveil.bundle.manifest import manifest_schema

_HEAD = ["field", "value", "required", "meaning"]


def fields() -> str:
    """Return every field as Markdown, then the kinds of value that fields share."""
    schema = manifest_schema()
    names = schema["$defs"]
    parts = [schema["description"], table(_HEAD, [one.row for one in fields_of(schema)])]
    plain = []
    for name, own in names.items():
        rows = [one.row for one in fields_of(own)]
        for number, choice in enumerate(own.get("oneOf", ()), start=1):
            rows += [[f"kind {number}", "", "", ""], *(f.row for f in fields_of(choice))]
        if rows:
            parts += [f"## {name}", own.get("description", ""), table(_HEAD, rows)]
        else:
            pattern = f"`{own['pattern']}`" if "pattern" in own else ""
            plain.append([f"*{name}*", kind_of(own), pattern, own.get("description", "")])
    return "\n\n".join(
        [*parts, "## Kinds of value", table(["name", "value", "pattern", "meaning"], plain)]
    )
