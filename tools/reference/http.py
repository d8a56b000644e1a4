"""The HTTP API as a page: generated from `/v1/openapi.json`."""

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tools.reference.schema import fields_of, kind_of
from tools.reference.table import table
from wattveil.server.auth.access import Access, Limits
from wattveil.server.auth.sessions import Sessions
from wattveil.server.http.app import make_api
from wattveil.server.http.problems import COMMON_PROBLEMS, MEDIA_TYPE
from wattveil.server.observe.server_metrics import ServerMetrics
from wattveil.server.server_state import ServerState


def addresses() -> str:
    """Return every address, its parameters, body and response, as Markdown."""
    api = description()
    parts = [
        _operation(method.upper(), path, said)
        for path, methods in api["paths"].items()
        for method, said in methods.items()
    ]
    parts.append("## Request and response bodies")
    names = api["components"]["schemas"]
    for name, schema in sorted(names.items()):
        rows = [one.row for one in fields_of(schema)]
        parts += [f"### {name}", schema.get("description", "")]
        parts += [
            table(["field", "value", "required", "meaning"], rows) if rows else kind_of(schema)
        ]
    return "\n\n".join(parts)


_ANYWHERE = {code.name.lower() for code in COMMON_PROBLEMS}
"""Problems that the page describes once, for all addresses."""


@cache
def description() -> dict[str, Any]:
    """Return the OpenAPI description of a new server."""
    with tempfile.TemporaryDirectory() as folder, ServerState.open(Path(folder)) as state:
        return make_api(
            state, Access(state, Limits()), Sessions(state), ServerMetrics(state)
        ).openapi()


def _operation(method: str, path: str, said: dict[str, Any]) -> str:
    parts = [f"## {method} {path}", said.get("description", "")]
    if parameters := said.get("parameters"):
        rows = [
            [f"`{one['name']}`", one["in"], kind_of(one["schema"]), _given(one)]
            for one in parameters
        ]
        parts.append(table(["parameter", "in", "value", "required"], rows))
    bodies = said.get("requestBody", {}).get("content", {}).values()
    parts += [f"Body: {kind_of(body['schema'])}." for body in bodies]
    answers = [
        f"{status} with {_content(answer['content'])}"
        for status, answer in said["responses"].items()
        if status.startswith("2")
    ]
    parts.append(f"Answer: {'; '.join(answers)}.")
    problems = [
        f"`{code}` ({status})"
        for status, answer in said["responses"].items()
        for code in problem_codes(answer)
        if code not in _ANYWHERE
    ]
    parts += [f"Problems: {', '.join(problems)}."] if problems else []
    return "\n\n".join(parts)


def problem_codes(answer: dict[str, Any]) -> list[str]:
    """Return the problem codes of a response; none for a success."""
    said = answer["content"].get(MEDIA_TYPE)
    if said is None:
        return []
    codes: list[str] = said["schema"]["allOf"][1]["properties"]["code"]["enum"]
    return codes


def _content(content: dict[str, Any]) -> str:
    """Describe the content of a response: named fields, or a file."""
    named = [kind_of(one["schema"]) for one in content.values() if "schema" in one]
    kinds = [f"`{kind.partition(';')[0]}`" for kind in content]
    return named[0] if named else f"a file ({' or '.join(kinds)})"


def _given(parameter: dict[str, Any]) -> str:
    if parameter.get("required"):
        return "yes"
    return f"else `{json.dumps(parameter['schema']['default'])}`"
