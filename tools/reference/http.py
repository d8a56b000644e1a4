"""The HTTP API as a page: what the server itself says at `/v1/openapi.json`."""

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tools.reference.schema import fields_of, kind_of
from tools.reference.table import table
from wattveil.serve.app import make_api
from wattveil.serve.house import House


def addresses() -> str:
    """Return every address, its parameters, body and answer, as Markdown."""
    api = description()
    parts = [
        _operation(method.upper(), path, said)
        for path, methods in api["paths"].items()
        for method, said in methods.items()
    ]
    parts.append("## Bodies")
    names = api["components"]["schemas"]
    for name, schema in sorted(names.items()):
        if name not in _OWN_ERRORS:
            rows = [one.row for one in fields_of(schema)]
            parts += [f"### {name}", schema.get("description", "")]
            parts += [
                table(["field", "value", "needed", "meaning"], rows) if rows else kind_of(schema)
            ]
    return "\n\n".join(parts)


_OWN_ERRORS = ("HTTPValidationError", "ValidationError")
"""FastAPI's; ours are problems, and another page lists them."""


@cache
def description() -> dict[str, Any]:
    """Return what a new server says of its API."""
    with tempfile.TemporaryDirectory() as folder, House.open(Path(folder)) as house:
        return make_api(house).openapi()


def _operation(method: str, path: str, said: dict[str, Any]) -> str:
    parts = [f"## {method} {path}", said.get("description", "")]
    if parameters := said.get("parameters"):
        rows = [
            [f"`{one['name']}`", one["in"], kind_of(one["schema"]), _given(one)]
            for one in parameters
        ]
        parts.append(table(["parameter", "in", "value", "needed"], rows))
    bodies = said.get("requestBody", {}).get("content", {}).values()
    parts += [f"Body: {kind_of(body['schema'])}." for body in bodies]
    good = ", ".join(code for code in said["responses"] if code.startswith("2"))
    return "\n\n".join([*parts, f"Status: {good}."])


def _given(parameter: dict[str, Any]) -> str:
    if parameter.get("required"):
        return "yes"
    return f"else `{json.dumps(parameter['schema']['default'])}`"
