"""The API as it describes itself at `/v1/openapi.json`: answers and problems of every route."""

from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from wattveil.serve import answers, answers_owner
from wattveil.serve.files import MEDIA_TYPES
from wattveil.serve.problems import MEDIA_TYPE, Code

_REFERENCE = "#/components/schemas/{model}"
_JSON = "application/json"

ANY = (
    Code.UNAUTHORIZED,
    Code.TOO_SLOW,
    Code.TOO_LARGE,
    Code.BUSY,
    Code.INTERNAL,
    Code.UNAVAILABLE,
)
"""Problems of every address below `/v1`."""


@dataclass(frozen=True)
class Said:
    """What a route says: fields, or files of these kinds; and the problems of its own."""

    answer: type[BaseModel] | tuple[str, ...]
    problems: tuple[Code, ...] = ()


_FILE = (Code.NOT_FOUND, Code.NOT_READY, Code.FAILED)
_ACT = (Code.FORBIDDEN, Code.INVALID_REQUEST)

ROUTES: dict[str, Said] = {
    "GET /healthz": Said(answers.Health, (Code.UNAVAILABLE,)),
    "GET /v1/me": Said(answers.Me),
    "GET /v1/datasets": Said(answers.Datasets),
    "GET /v1/datasets/{dataset}": Said(answers.Dataset, (Code.FORBIDDEN,)),
    "GET /v1/datasets/{dataset}/budget": Said(answers.Budget, _ACT),
    "POST /v1/datasets/{dataset}/quotes": Said(answers.Quote, _ACT),
    "POST /v1/datasets/{dataset}/releases": Said(
        answers.Release, (*_ACT, Code.BUDGET_REFUSED, Code.REFUSED, Code.KEY_CONFLICT)
    ),
    "GET /v1/releases": Said(answers.Releases),
    "GET /v1/releases/{release}": Said(answers.Release, (Code.NOT_FOUND,)),
    "POST /v1/releases/{release}/shares": Said(
        answers.Shared, (Code.NOT_FOUND, Code.FORBIDDEN, Code.INVALID_REQUEST)
    ),
    "POST /v1/verify": Said(answers.Verdict, (Code.INVALID_REQUEST,)),
    "GET /v1/releases/{release}/manifest": Said((_JSON,), _FILE),
    "GET /v1/releases/{release}/report": Said(("text/html",), _FILE),
    "GET /v1/releases/{release}/bundle.zip": Said(("application/zip",), _FILE),
    "GET /v1/releases/{release}/payload/{file}": Said(tuple(MEDIA_TYPES.values()), _FILE),
    "POST /v1/admin/datasets": Said(answers.Dataset, _ACT),
    "POST /v1/admin/datasets/{dataset}/budgets": Said(answers_owner.BudgetSet, _ACT),
    "GET /v1/admin/datasets/{dataset}/accounts": Said(answers_owner.Accounts, (Code.FORBIDDEN,)),
    "POST /v1/admin/datasets/{dataset}/close": Said(answers_owner.Closed, _ACT),
    "GET /v1/admin/ledger": Said(answers_owner.Entries, _ACT),
    "GET /v1/admin/principals": Said(answers_owner.Principals, (Code.FORBIDDEN,)),
    "POST /v1/admin/principals": Said(answers_owner.Admitted, _ACT),
    "POST /v1/admin/principals/{name}/tokens": Said(answers_owner.TokenGiven, _ACT),
    "POST /v1/admin/principals/{name}/revoke": Said(answers_owner.Revoked, _ACT),
    "POST /v1/admin/principals/{name}/disable": Said(answers_owner.Disabled, _ACT),
    "GET /v1/admin/acts": Said(answers_owner.Acts, (Code.FORBIDDEN,)),
}


class DescribedApi(FastAPI):
    """FastAPI knows what may be sent; what is answered is told here."""

    def openapi(self) -> dict[str, Any]:
        """Return the description; made once, when somebody asks for it."""
        if self.openapi_schema is None:
            self.openapi_schema = _with_answers(super().openapi())
        return self.openapi_schema


def _with_answers(api: dict[str, Any]) -> dict[str, Any]:
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            said = ROUTES[f"{method.upper()} {path}"]
            good = [status for status in operation["responses"] if status.startswith("2")]
            if said.answer is answers.Release and method == "post":
                good = ["200", "202"]  # there, or still computed
            operation["responses"] = {
                **dict.fromkeys(good, _answered(said.answer)),
                **_refused(said.problems if path == "/healthz" else (*said.problems, *ANY)),
            }
    schemas = api["components"]["schemas"]
    for own in ("HTTPValidationError", "ValidationError"):  # FastAPI's; ours are problems
        schemas.pop(own)
    schemas.update(_schemas())
    return api


def _answered(answer: type[BaseModel] | tuple[str, ...]) -> dict[str, Any]:
    if isinstance(answer, tuple):
        return {"description": "A file.", "content": {kind: {} for kind in answer}}
    return {"description": answer.__doc__, "content": {_JSON: {"schema": _named(answer.__name__)}}}


def _refused(codes: tuple[Code, ...]) -> dict[str, Any]:
    """Return the problems of a route, by their status."""
    found: dict[str, list[Code]] = {}
    for code in sorted(codes, key=lambda one: one.status):
        found.setdefault(str(code.status), []).append(code)
    return {
        status: {
            "description": "; ".join(code.title for code in own),
            "content": {MEDIA_TYPE: {"schema": _with_code(own)}},
        }
        for status, own in found.items()
    }


def _with_code(codes: list[Code]) -> dict[str, Any]:
    names = [code.name.lower() for code in codes]
    only = {"type": "object", "properties": {"code": {"enum": names}}}
    return {"allOf": [_named(answers.ProblemAnswer.__name__), only]}


def _named(model: str) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(model=model)}


def _schemas() -> dict[str, Any]:
    models: dict[type[BaseModel], None] = {answers.ProblemAnswer: None}
    models |= {one.answer: None for one in ROUTES.values() if not isinstance(one.answer, tuple)}
    _, found = models_json_schema(
        [(model, "serialization") for model in models], ref_template=_REFERENCE
    )
    schemas: dict[str, Any] = found["$defs"]
    return schemas
