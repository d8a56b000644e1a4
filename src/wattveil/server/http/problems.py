"""RFC 9457 problems: the closed list of error responses of the server.

A problem and every byte of it depend on public values alone: the request, the caps, and what was
spent. Two servers whose data differ in one customer therefore send the same problems.
"""

import re
from collections.abc import Collection
from enum import Enum
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from wattveil.declaration import unknown_field
from wattveil.errors import (
    ChargeRefusedError,
    InvalidFileError,
    InvalidParameterError,
    KeyConflictError,
    LedgerBehindError,
    LedgerUnavailableError,
)
from wattveil.server.ledger.admission import Refusal

MEDIA_TYPE = "application/problem+json"

_FIELD_NAME = re.compile(r"[A-Za-z_-]{1,40}")
_MAX_ERRORS = 10


class Code(Enum):
    """The closed list. Each code has an HTTP status and a title."""

    INVALID_REQUEST = (422, "the request is invalid")
    UNAUTHORIZED = (401, "a valid token is required")
    FORBIDDEN = (403, "not permitted for this token, or not found")
    BUDGET_REFUSED = (
        403,
        "the budget does not cover the price; nothing was charged",
    )
    REFUSED = (403, "the charge is refused; nothing was charged")
    NOT_FOUND = (404, "not found")
    METHOD_NOT_ALLOWED = (405, "method not allowed")
    TOO_SLOW = (408, "the request took too long to arrive")
    KEY_CONFLICT = (409, "the idempotency key belongs to another request")
    NOT_READY = (409, "the release is still being computed")
    FAILED = (410, "the computation failed; it stays charged; a new key computes and charges again")
    TOO_LARGE = (413, "the request is too large")
    HEADERS_TOO_LARGE = (431, "the header fields of the request are too large")
    BUSY = (429, "too many requests; try again later")
    INTERNAL = (500, "internal server error")
    BUNDLE_MISSING = (
        503,
        "files of the release are missing or damaged; it stays paid; the operator can restore them",
    )
    NOT_CLOSED = (503, "the series has ended, and closing it is not complete; close it again")
    NOT_ERASED = (503, "the erasure is not complete: correct the cause, and erase again")
    NOT_RECORDED = (
        503,
        "the release is stored and waits to be recorded; the operator makes ledger.heads writable",
    )
    UNAVAILABLE = (
        503,
        (
            "the ledger or the data are unavailable; an order may have been charged:"
            " repeat it later, unchanged; it is charged once"
        ),
    )

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.value[0]

    @property
    def title(self) -> str:
        """The text for people."""
        return self.value[1]


class Problem(Exception):  # noqa: N818 - RFC 9457 calls it so
    """Error response. ``details`` contain public values alone."""

    def __init__(self, code: Code, **details: object) -> None:
        self.code = code
        self.details = details
        super().__init__(code.title)

    @property
    def body(self) -> dict[str, object]:
        """The JSON body; its fields are declared by `ProblemBody`."""
        name = self.code.name.lower()
        return {
            "type": f"urn:wattveil:problem:{name}",
            "title": self.code.title,
            "status": self.code.status,
            "code": name,
            **self.details,
        }

    @property
    def headers(self) -> dict[str, str]:
        """Headers that belong to the status."""
        if self.code is Code.UNAUTHORIZED:
            return {"WWW-Authenticate": "Bearer"}
        later = (Code.BUSY, Code.NOT_RECORDED, Code.UNAVAILABLE)
        return {"Retry-After": "5"} if self.code in later else {}

    def response(self) -> JSONResponse:
        """Return the response of the API."""
        return JSONResponse(self.body, self.code.status, self.headers, media_type=MEDIA_TYPE)


def problem_of(error: Exception, *, fields: Collection[str] = ()) -> Problem:
    """Return the problem for an error; unexpected errors reveal nothing.

    Parameters
    ----------
    fields
        Fields of the body that was expected, to name the nearest one to an unknown field.
    """
    match error:
        case Problem():
            problem = error
        case InvalidParameterError():
            problem = invalid((error.field, error.rule))
        case InvalidFileError():  # named by an administrator; its content is private
            problem = invalid(("file", error.expected))
        case RequestValidationError():
            problem = invalid(*(_broken_rule(one, fields) for one in error.errors()[:_MAX_ERRORS]))
        case ChargeRefusedError():
            problem = _refused(error)
        case KeyConflictError():
            problem = Problem(Code.KEY_CONFLICT)
        case LedgerUnavailableError() | LedgerBehindError():
            problem = Problem(Code.UNAVAILABLE)
        case HTTPException():
            problem = Problem(_OF_STATUS.get(error.status_code, Code.INVALID_REQUEST))
        case _:
            problem = Problem(Code.INTERNAL)
    return problem


def invalid(*broken: tuple[str, str]) -> Problem:
    """Return a problem that names fields and the rules they break; values are not repeated."""
    rules = [{"field": field, "rule": rule} for field, rule in broken]
    return Problem(Code.INVALID_REQUEST, errors=rules)


def _broken_rule(error: dict[str, Any], fields: Collection[str]) -> tuple[str, str]:
    """Return field and rule of a validation error of Pydantic, without the value."""
    place: tuple[object, ...] = error["loc"]
    # Names that the sender chose are not repeated: they might not be valid text.
    names = [
        str(one) if isinstance(one, int) or _FIELD_NAME.fullmatch(str(one)) else "?"
        for one in place[1:]
    ]
    if error["type"] == "extra_forbidden":
        return ".".join(names), unknown_field(names[-1], fields if len(names) == 1 else ())
    return ".".join(names) or str(place[0]), _rule(error)


def _rule(error: dict[str, Any]) -> str:
    """Return the rule that a value breaks, from what the model declares."""
    words = _RULES.get(error["type"], "a value that the schema permits")
    return words.format(**error.get("ctx", {}))


def _refused(error: ChargeRefusedError) -> Problem:
    refusal = Refusal(error.code)
    if refusal in (Refusal.NOT_ADMITTED, Refusal.DISABLED):
        return Problem(Code.FORBIDDEN)
    if refusal is Refusal.KEYS:
        return Problem(Code.BUSY)
    if refusal is Refusal.DATASET_BUDGET:
        return Problem(Code.BUDGET_REFUSED, account_scope="dataset")
    if refusal is Refusal.OWN_BUDGET:
        return Problem(Code.BUDGET_REFUSED, account_scope="own")
    return Problem(Code.REFUSED, reason=refusal.value)


_OF_STATUS = {
    404: Code.NOT_FOUND,
    405: Code.METHOD_NOT_ALLOWED,
}
_RULES = {
    "missing": "given",
    "json_invalid": "valid JSON",
    "greater_than": "above {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "below {lt:g}",
    "less_than_equal": "at most {le:g}",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "text",
    "string_too_long": "at most {max_length} characters long",
    "list_type": "a list",
    "dict_type": "an object",
    "too_long": "a list of at most {max_length} items",
    "literal_error": "one of {expected}",
    "enum": "one of {expected}",
    "model_attributes_type": "a JSON object",
}


# --- OpenAPI --------------------------------------------------------------------------------------

COMMON_PROBLEMS = (
    Code.UNAUTHORIZED,
    Code.TOO_SLOW,
    Code.TOO_LARGE,
    Code.HEADERS_TOO_LARGE,
    Code.BUSY,
    Code.INTERNAL,
    Code.UNAVAILABLE,
)
"""Problems of every address below `/v1`."""


class BrokenRule(BaseModel):
    """Field that breaks a rule; its value is not repeated."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    field: str
    """Name of the field."""
    rule: str
    """What it must be."""


class ProblemBody(BaseModel):
    """Body of a problem (RFC 9457)."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    type: str
    """URN: urn:wattveil:problem: and the code."""
    title: str
    """Text for people."""
    status: int
    """HTTP status."""
    code: str
    """One of a closed list."""
    errors: list[BrokenRule] = Field(default_factory=list)
    """Of invalid_request: the fields and rules."""
    account_scope: str = Field(default_factory=str)
    """Of budget_refused: the account that does not cover the price, dataset or own."""
    short_of: str = Field(default_factory=str)
    """Of budget_refused: the choice that needs more than is left, epsilon or label_epsilon."""
    largest_epsilon: str = Field(default_factory=str)
    """Of budget_refused: the maximum epsilon that both budgets cover, if there is one."""
    reason: str = Field(default_factory=str)
    """Of refused, not_closed and not_erased: the reason."""
    failing: list[str] = Field(default_factory=list)
    """Of /readyz: the components that are not ready."""
    id: str = Field(default_factory=str)
    """Of internal: identifier of the error in the server's log."""


def problem_responses(*codes: Code) -> dict[int | str, dict[str, Any]]:
    """Return problems by status, for the parameter ``responses`` of FastAPI."""
    by_status: dict[int | str, list[Code]] = {}
    for code in sorted(codes, key=lambda one: one.status):
        by_status.setdefault(code.status, []).append(code)
    return {
        status: {
            "description": "; ".join(code.title for code in own),
            "content": {MEDIA_TYPE: {"schema": _schema(own)}},
        }
        for status, own in by_status.items()
    }


def _schema(codes: list[Code]) -> dict[str, Any]:
    names = [code.name.lower() for code in codes]
    only = {"type": "object", "properties": {"code": {"enum": names}}}
    return {"allOf": [{"$ref": f"#/components/schemas/{ProblemBody.__name__}"}, only]}


def use_problems(api: dict[str, Any]) -> None:
    """Declare `ProblemBody` in an OpenAPI document, in the place of FastAPI's own errors."""
    schemas = api["components"]["schemas"]
    for fastapi_own in ("HTTPValidationError", "ValidationError"):
        schemas.pop(fastapi_own)
    for methods in api["paths"].values():
        for operation in methods.values():
            # FastAPI adds 422 to every operation with parameters, also where no value is invalid.
            if "application/json" in operation["responses"].get("422", {}).get("content", {}):
                del operation["responses"]["422"]
    template = "#/components/schemas/{model}"
    body = ProblemBody.model_json_schema(ref_template=template, mode="serialization")
    schemas.update(body.pop("$defs"))
    schemas[ProblemBody.__name__] = body
