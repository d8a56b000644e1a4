"""Everything that the server says when it says no: RFC 9457 problems, from a closed list.

What decides about a problem and about every byte of it is public: the request, the caps, what was
spent. So two servers whose data differ in a customer say the same.
"""

import re
from enum import Enum
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from wattveil.errors import (
    ChargeRefusedError,
    InvalidFileError,
    InvalidParameterError,
    KeyConflictError,
    LedgerBehindError,
    LedgerUnavailableError,
)
from wattveil.serve.ledger.desk import Refusal

MEDIA_TYPE = "application/problem+json"

_PLAIN = re.compile(r"[A-Za-z_-]{1,40}")
_MOST_BROKEN = 10


class Code(Enum):
    """The list. Each has a status and a title."""

    INVALID_REQUEST = (422, "the request breaks a rule")
    UNAUTHORIZED = (401, "a token is needed, and it must be good")
    FORBIDDEN = (403, "not for this token, or there is no such thing")
    BUDGET_REFUSED = (
        403,
        "the budget does not cover the price; nothing was spent; a quote says what fits",
    )
    REFUSED = (403, "the charge is refused; nothing was spent")
    NOT_FOUND = (404, "there is no such thing here")
    METHOD_NOT_ALLOWED = (405, "not done with this method")
    TOO_SLOW = (408, "the request took too long to arrive")
    KEY_CONFLICT = (409, "the idempotency key stands for another request")
    NOT_READY = (409, "the release is still being computed")
    FAILED = (410, "the computation failed; it stays paid, and asking anew draws anew")
    TOO_LARGE = (413, "the request is too large")
    BUSY = (429, "too much at once; try again later")
    INTERNAL = (500, "an error of the server; nothing was answered")
    UNAVAILABLE = (503, "ledger or data cannot be reached; nothing was answered")

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.value[0]

    @property
    def title(self) -> str:
        """What it says."""
        return self.value[1]


class Problem(Exception):  # noqa: N818 - RFC 9457 calls it so
    """A refusal on its way out. ``details`` hold public words alone."""

    def __init__(self, code: Code, **details: object) -> None:
        self.code = code
        self.details = details
        super().__init__(code.title)

    @property
    def body(self) -> dict[str, object]:
        """The JSON of it."""
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
        """What belongs to the status."""
        if self.code is Code.UNAUTHORIZED:
            return {"WWW-Authenticate": "Bearer"}
        return {"Retry-After": "5"} if self.code in (Code.BUSY, Code.UNAVAILABLE) else {}

    def response(self) -> JSONResponse:
        """Return it as the API sends it."""
        return JSONResponse(self.body, self.code.status, self.headers, media_type=MEDIA_TYPE)


def problem_of(error: Exception) -> Problem:
    """Return what is said about an error; one that is not expected says nothing."""
    match error:
        case Problem():
            said = error
        case InvalidParameterError():
            said = invalid((error.field, error.rule))
        case InvalidFileError():  # an administrator named it; its content stays in house
            said = invalid(("file", error.expected))
        case RequestValidationError():
            said = invalid(*(_broken_rule(one) for one in error.errors()[:_MOST_BROKEN]))
        case ChargeRefusedError():
            said = _refused(error)
        case KeyConflictError():
            said = Problem(Code.KEY_CONFLICT)
        case LedgerUnavailableError() | LedgerBehindError():
            said = Problem(Code.UNAVAILABLE)
        case HTTPException():
            said = Problem(_OF_STATUS.get(error.status_code, Code.INVALID_REQUEST))
        case _:
            said = Problem(Code.INTERNAL)
    return said


def invalid(*broken: tuple[str, str]) -> Problem:
    """Name the fields and the rules that they break; values are not repeated."""
    rules = [{"field": field, "rule": rule} for field, rule in broken]
    return Problem(Code.INVALID_REQUEST, errors=rules)


def _broken_rule(error: dict[str, Any]) -> tuple[str, str]:
    """Return field and rule of what Pydantic found, without what it was given."""
    place: tuple[object, ...] = error["loc"]
    # A name that the sender made up is not repeated: it could be no text at all.
    names = (
        str(one) if isinstance(one, int) or _PLAIN.fullmatch(str(one)) else "?" for one in place[1:]
    )
    return ".".join(names) or str(place[0]), _RULES.get(error["type"], "as the schema says")


def _refused(error: ChargeRefusedError) -> Problem:
    refusal = Refusal(error.code)
    if refusal in (Refusal.NOT_ADMITTED, Refusal.DISABLED):
        return Problem(Code.FORBIDDEN)
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
    "extra_forbidden": "left out: it is no field",
    "json_invalid": "JSON",
    "float_type": "a number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "text",
    "string_too_long": "shorter",
    "list_type": "a list",
    "dict_type": "an object",
    "too_long": "shorter",
    "literal_error": "one of the listed words",
    "enum": "one of the listed words",
    "model_attributes_type": "a JSON object",
}
