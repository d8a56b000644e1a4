"""Exceptions and warnings of Wattveil, in one tree.

::

    WattveilError
    ├── InvalidParameterError   a public argument breaks its rule (also a ValueError)
    │   ├── AlreadyExistsError      the bundle or period to be made exists; nothing was spent
    │   └── ProductNeedsError       a product was chosen without what it needs
    ├── InvalidFileError        a file has unexpected content; quotes it (a ValueError)
    │   └── NoUsableReadingError    no row of it is usable
    ├── InvalidDataError        rows break a rule; names them: internal (a ValueError)
    ├── NoPowerFlowError        the power flow has no solution for the load (also a ValueError)
    ├── BudgetExceededError     the grant does not cover the charge; nothing was computed
    ├── SimulatedNoiseError     a value with simulated noise must not be published
    ├── ChargeRefusedError      the ledger refuses, with a code of a closed list; nothing was spent
    ├── KeyConflictError        an idempotency key was used for another request
    ├── LedgerUnavailableError  the database cannot be used; nothing is released
    ├── LedgerBehindError       the database is older than what was last seen of it
    │   └── HighWaterMarkMissingError   nothing was seen of it: perhaps it is of another folder
    ├── SeriesStateError        the state of a series is old, copied, changed or missing: internal
    │   └── PeriodRefusedError      a server cannot compute a period; states a fixed text
    ├── ServerRefusalError      a server refuses, with a code of a closed list
    ├── MissingExtraError       an optional dependency is not installed (also an ImportError)
    ├── ModelSelectionError     a search over parameters would fit private data many times
    └── MissingJavaError        Spark needs Java, which was not found

    WattveilWarning
    ├── WeakGuaranteeWarning    the requested parameters protect less than they claim
    ├── UnprotectedStepWarning  a Pipeline step learns from private rows without noise
    ├── AssumedTimeZoneWarning  time stamps are local time of an unknown zone, read as UTC
    ├── IgnoredColumnsWarning   a CSV table of a planner has columns that are not used
    ├── ImplausibleTemperatureWarning  temperatures are probably in degrees Fahrenheit
    ├── UnmatchedAttributesWarning  ids of a table of attributes match few customers: internal
    ├── UnknownCustomersWarning  most ids of a period are new to its series: internal
    ├── ErasedCustomersWarning  erased customers were excluded from a period: internal
    └── UnstatedDaysWarning     profiles of a period do not state their days
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

_SHOWN_PROBLEMS = 5
_NUMERIC = re.compile(r"u?int|float|double|halffloat|bool|decimal", re.IGNORECASE)
"""Beginning of the names of numeric types, in pandas, Polars and Arrow."""
_PRODUCT_NEEDS = re.compile(r"without (\w+), which needs (.+)")
"""Rule of `ProductNeedsError`."""
UNKNOWN_FIELD = "omitted: unknown field"
"""Rule, or beginning of the rule, of a name that is no field."""


def one_of(choices: Iterable[object]) -> str:
    """Return the choices of a rule as text, such as "one of: local, spark"."""
    listed = ", ".join(map(str, choices))
    return f"one of: {listed}" if listed else "one of the available values (there are none)"


class WattveilError(Exception):
    """Base of every error that Wattveil raises on purpose."""


class InvalidParameterError(WattveilError, ValueError):
    """A public argument breaks its rule.

    The text contains public information only (name, rule and value of the argument), so it may be
    shown to any user.

    Parameters
    ----------
    field, rule, value
        Name of the argument, what it must be, and what it is.
    text
        The whole text, where "field must be rule, got field=value" would not read well; with an
        empty rule also on the command line.
    remedy
        What to do, as a sentence of its own.
    """

    def __init__(
        self,
        field: str,
        rule: str,
        value: object,
        *,
        text: str | None = None,
        remedy: str = "",
    ) -> None:
        self.field = field
        self.rule = rule
        self.value = value
        self.remedy = remedy
        if text is None and rule.startswith(UNKNOWN_FIELD):
            text = f"unknown field {field}{rule.removeprefix(UNKNOWN_FIELD)}"
        text = text or f"{field} must be {rule}, got {field}={value!r}"
        super().__init__(f"{text}. {remedy}" if remedy else text)


class AlreadyExistsError(InvalidParameterError):
    """What is to be made exists: a bundle, or a released period. Nothing was spent."""


class ProductNeedsError(InvalidParameterError):
    """A product was chosen, and the request lacks what it needs.

    Parameters
    ----------
    field, value
        Name of the argument that chooses products, and its value.
    product, needs
        Name of the product, and what it needs.
    """

    def __init__(self, field: str, product: str, needs: str, value: object) -> None:
        self.product = product
        rule = f"without {product}, which needs {needs}"
        super().__init__(field, rule, value, text=f"the product {product} needs {needs}")


class InvalidFileError(WattveilError, ValueError):
    """A file has unexpected content. The text quotes the file: for the data holder only.

    Parameters
    ----------
    path, where
        File, and place in it.
    expected
        What should be there.
    found
        What is there; None if nothing is.
    problem
        What is wrong, as the rest of a sentence that begins with the file, where "expected …,
        found …" would not read well: "is not UTF-8".
    remedy
        What to do, as a sentence of its own, which follows the finding.
    """

    def __init__(
        self,
        path: object,
        where: str,
        expected: str,
        found: object,
        *,
        problem: str = "",
        remedy: str = "",
    ) -> None:
        self.path = path
        self.where = where
        self.expected = expected
        self.found = found
        self.problem = problem
        self.remedy = remedy
        seen = "found nothing" if found is None else f"found {found!r}"
        said = self.stated(problem) if problem else f"{path}, {where}: expected {expected}, {seen}"
        super().__init__(f"{said}. {remedy}" if remedy else said)

    def stated(self, problem: str) -> str:
        """Return a sentence about the file."""
        return f"{self.path}{'' if problem.startswith((',', ':')) else ' '}{problem}"

    def renamed(self, path: object) -> "InvalidFileError":
        """Return the same error about a file by another name."""
        told = (path, self.where, self.expected, self.found)
        return type(self)(*told, problem=self.problem, remedy=self.remedy)


class NoUsableReadingError(InvalidFileError):
    """No row of a source is usable, or no customer has enough of them."""

    def __init__(
        self,
        path: object,
        where: str,
        expected: str,
        found: object,
        *,
        problem: str = "",
        remedy: str = "",
    ) -> None:
        if isinstance(found, Mapping):  # dropped rows by reason
            counts = ", ".join(f"{rows:,} ({reason})" for reason, rows in found.items())
            problem = f": no reading is usable; dropped: {counts or 'none'}"
        super().__init__(path, where, expected, found, problem=problem, remedy=remedy)


class InvalidDataError(WattveilError, ValueError):
    """Rows break a rule. The text names rows of private data: for the data holder only."""

    def __init__(self, rule: str, row_ids: Sequence[object]) -> None:
        self.rule = rule
        self.row_ids = tuple(row_ids)
        shown = ", ".join(str(row_id) for row_id in self.row_ids[:_SHOWN_PROBLEMS])
        more = len(self.row_ids) - _SHOWN_PROBLEMS
        tail = f" and {more} more" if more > 0 else ""
        which = f"rows {shown}{tail} violate" if self.row_ids else "the data violate"
        super().__init__(f"{which} the rule '{rule}'")


def wrong_width(field: str, columns: int, found: int) -> InvalidParameterError:
    """Return the error of an array with another number of columns."""
    return InvalidParameterError(field, f"an array with {columns} columns", f"{found} columns")


def not_numbers(field: str, types: object) -> InvalidDataError:
    """Return the error about data that are no array of real numbers; it quotes names only.

    ``types`` are those of the columns of a table, by name, or the type of anything else.
    """
    return InvalidDataError(f"{field} is an array of real numbers{_remedy(types)}", [])


def _remedy(types: Any) -> str:  # noqa: ANN401 - of pandas, Polars or Arrow
    """Return what to pass instead of a table with other columns, or of profiles."""
    if isinstance(types, type):
        several = "; pass its load_kw, and slots_per_day if a row has several days"
        return several if types.__name__.endswith("Profiles") else ""
    if isinstance(types, list):  # of Polars: without the names
        return "; leave out columns that are not numbers"
    columns = (
        types.items() if hasattr(types, "items") else zip(types.names, types.types, strict=True)
    )
    wrong = [name for name, kind in columns if not _NUMERIC.match(str(kind))]
    if "load_kw" in wrong:
        return "; column 'load_kw' holds lists: pass Profiles.read_parquet(path) instead"
    return f"; leave out {', '.join(f'column {name!r}' for name in wrong)}" if wrong else ""


class NoPowerFlowError(WattveilError, ValueError):
    """The power flow has no solution for the real customers. Depends on them: internal.

    Parameters
    ----------
    failures
        Message of the solver for each snapshot without solution.
    """

    def __init__(self, failures: Mapping[int, str]) -> None:
        self.failures = dict(failures)
        first, message = next(iter(self.failures.items()))
        reason = message.strip().rstrip(".")
        super().__init__(
            "The power flow did not converge for the real customers in"
            f" {len(self.failures)} snapshots; the first is {first}: {reason}. Use fewer houses,"
            " and check the units of the impedances (r_ohm and x_ohm of a whole branch)"
        )


class BudgetExceededError(WattveilError):
    """The grant does not cover the charge. Raised before private data are read."""

    def __init__(self, resource: str, requested: float, remaining: float) -> None:
        self.resource = resource
        self.requested = requested
        self.remaining = remaining
        super().__init__(
            f"budget exceeded: {resource} requested {requested}, remaining {remaining}"
        )


class SimulatedNoiseError(WattveilError):
    """A value with simulated noise, of a test or the replay audit, must not be published."""


class ChargeRefusedError(WattveilError):
    """The ledger refuses a charge, decided by caps, earlier charges and public parameters alone."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(f"the charge is refused: {code}")


class KeyConflictError(WattveilError):
    """An idempotency key was used before, for another request."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"key {key!r} stands for another request already: choose a new key")


class LedgerUnavailableError(WattveilError):
    """The database cannot be used. Nothing is released; retry with the same key."""

    def __init__(self, cause: str) -> None:
        self.cause = cause
        super().__init__(f"the ledger cannot be used: {cause}; no result was returned")


class LedgerBehindError(WattveilError):
    """The database has lost charges: an old backup was restored, or a replica fell behind."""

    def __init__(
        self,
        journal: int | None,
        seen: int,
        found: int,
        *,
        what: str = "entries",
        remedy: str = (
            "Restore the newest database, or run `wattveil admin ledger accept`, which treats the"
            " remaining budget as spent"
        ),
    ) -> None:
        self.journal = journal
        """Number of the journal; None if registrations of data sets are lost."""
        self.seen = seen
        self.found = found
        self.what = what
        whose = "it" if journal is None else f"journal {journal}"
        super().__init__(
            "the database does not match this folder's high-water mark:"
            f" {whose} had {seen:,} {what}, and the database holds {found:,} of them. {remedy}"
        )


class HighWaterMarkMissingError(LedgerBehindError):
    """The database has entries, and the data folder has no high-water mark.

    Most often the folder is not that of the server: accepting a loss is not the first remedy.
    """

    def __init__(self, journal: int, found: int) -> None:
        super().__init__(journal, 0, found)
        text = (
            f"the database holds {found:,} entries of journal {journal}, and this folder has no"
            " high-water mark: this database belongs to another data folder, or ledger.heads was"
            " lost. Give --data the folder of the server that uses the database, or put its"
            " ledger.heads back; if it is lost for good, restore a backup"
            " (`wattveil admin restore --help`) or accept the loss of the remaining budget"
        )
        self.args = (text,)


class SeriesStateError(WattveilError):
    """The private state of a series is not the one that its last period left.

    Continuing would give customers allowances back that they have used. For the data holder only.
    """

    def __init__(self, problem: str, way_out: str) -> None:
        self.problem = problem
        self.way_out = way_out
        super().__init__(f"the private state of the series cannot be used: {problem}; {way_out}")


class PeriodRefusedError(SeriesStateError):
    """A server cannot compute a period of a series; the reason is a fixed text, without rows."""


class ServerRefusalError(WattveilError):
    """A server responded with a problem (RFC 9457), or not at all.

    Parameters
    ----------
    code, title, details
        As the server sends them.
    more
        What explains the details, or helps further.
    """

    def __init__(
        self, code: str, title: str, details: Mapping[str, object], *, more: str = ""
    ) -> None:
        self.code, self.title = code, title
        self.details = dict(details)
        listed = "".join(f"; {name}: {_listed(value)}" for name, value in details.items())
        what = _NO_REFUSALS.get(code, "the server refused the request")
        super().__init__(f"{what} ({code}): {title}{listed}{f'; {more}' if more else ''}")


_NO_REFUSALS = {
    "unreachable": "the server cannot be reached",
    "invalid_response": "the response cannot be used",
    "response_too_large": "the response cannot be used",
}
"""Codes of the client itself: the server refused nothing."""


def _listed(detail: object) -> str:
    """Return a detail of a problem as text: field and rule of each error, without brackets."""
    if isinstance(detail, Mapping) and detail.keys() == {"field", "rule"}:
        field, rule = str(detail["field"]), str(detail["rule"])
        if rule.startswith(UNKNOWN_FIELD):
            return f"unknown field {field}{rule.removeprefix(UNKNOWN_FIELD)}"
        if needed := _PRODUCT_NEEDS.fullmatch(rule):
            return f"{needed[1]} needs {needed[2]}"
        return f"{field} must be {rule}"
    if isinstance(detail, Mapping):
        return ": ".join(map(_listed, detail.values()))
    if isinstance(detail, list):
        return "; ".join(map(_listed, detail))
    return str(detail)


class MissingExtraError(WattveilError, ImportError):
    """A required optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        self.extra = extra
        super().__init__(
            f'{feature} needs packages that are not installed: pip install "wattveil[{extra}]"'
        )


def require_release_extra(feature: str) -> None:
    """Raise if the packages that a release needs are not installed; `verify` needs none of them."""
    if any(find_spec(name) is None for name in ("duckdb", "numba", "opendp", "sklearn")):
        raise MissingExtraError(feature, "release")


class MissingJavaError(WattveilError):
    """Spark needs Java, which was not found."""

    def __init__(self, minimum: int, found: str | None) -> None:
        self.minimum = minimum
        self.found = found
        seen = "but none was found" if found is None else f"but found {found}"
        super().__init__(
            f"Spark needs Java {minimum} or later, {seen}. Install Java"
            f" (Debian: apt install openjdk-{minimum}-jre-headless) or set JAVA_HOME"
        )


class ModelSelectionError(WattveilError, TypeError):
    """A search over parameters, such as `GridSearchCV`, would fit private data many times."""

    def __init__(self, caller: str, reason: str) -> None:
        self.caller = caller
        super().__init__(f"{caller} cannot be used with a private estimator: {reason}")


class WattveilWarning(UserWarning):
    """Base of every warning of Wattveil."""


class WeakGuaranteeWarning(WattveilWarning):
    """The requested parameters protect less than they claim."""


class UnprotectedStepWarning(WattveilWarning):
    """A Pipeline step is fitted on private rows without noise; the guarantee does not cover it."""


class AssumedTimeZoneWarning(WattveilWarning):
    """Time stamps have no offset, no time zone is given, and they are read as UTC."""


class IgnoredColumnsWarning(WattveilWarning):
    """A CSV table of a planner has columns that are not used."""


class ImplausibleTemperatureWarning(WattveilWarning):
    """Temperatures are probably in degrees Fahrenheit, not in degrees Celsius."""


class UnmatchedAttributesWarning(WattveilWarning):
    """Many customers are not in the table of attributes. For the data holder only."""


class UnknownCustomersWarning(WattveilWarning):
    """Most customer ids of a period are new to its series. For the data holder only."""


class ErasedCustomersWarning(WattveilWarning):
    """Erased customers of the profiles were excluded from a period. For the data holder only."""


class UnstatedDaysWarning(WattveilWarning):
    """Profiles do not state their days, so they are not compared with the period of a series."""


def __dir__() -> list[str]:
    own = globals().items()
    return sorted(name for name, one in own if isinstance(one, type) and one.__module__ == __name__)
