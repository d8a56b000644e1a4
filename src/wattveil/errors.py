"""Everything Wattveil raises or warns of, in one tree.

::

    WattveilError
    ├── InvalidParameterError   a public argument breaks its rule (also a ValueError)
    ├── InvalidFileError        a file is not what it should be; quotes it (a ValueError)
    │   └── NoUsableReadingError    no row of it can stay
    ├── InvalidDataError        rows break a rule; names them: stays in house (a ValueError)
    ├── BudgetExceededError     the grant does not cover the charge; nothing was computed
    ├── RehearsalError          something drawn from a test source was about to leave
    ├── ChargeRefusedError      the ledger says no, by a code of a closed list; nothing was spent
    ├── KeyConflictError        an idempotency key stands for another request already
    ├── LedgerUnavailableError  the database cannot be used; nothing may be answered
    ├── LedgerBehindError       the database is older than what was last seen of it
    ├── ServerRefusalError      a server of ours says no, by a code of a closed list
    ├── MissingExtraError       an optional dependency is not installed (also an ImportError)
    └── MissingJavaError        Spark is to run, and there is no Java for it

    WattveilWarning
    ├── WeakGuaranteeWarning    what was asked for protects less than it claims
    └── UnprotectedStepWarning  a Pipeline step learns from private rows without noise
"""

from collections.abc import Mapping, Sequence

_SHOWN_PROBLEMS = 5


class WattveilError(Exception):
    """Base of every error that Wattveil raises on purpose."""


class InvalidParameterError(WattveilError, ValueError):
    """A public argument breaks its rule.

    The text is made of public things alone (name, rule, value of the argument), so it may be shown
    to anybody.
    """

    def __init__(self, field: str, rule: str, value: object) -> None:
        self.field = field
        self.rule = rule
        self.value = value
        super().__init__(f"{field} must be {rule}, got {field}={value!r}")


class InvalidFileError(WattveilError, ValueError):
    """A file is not what it should be. Quotes the file, so it stays in house."""

    def __init__(self, path: object, where: str, expected: str, found: object) -> None:
        self.path = path
        self.where = where
        self.expected = expected
        self.found = found
        super().__init__(f"{path}, {where}: expected {expected}, found {found!r}")


class NoUsableReadingError(InvalidFileError):
    """No row of a source can stay."""


class InvalidDataError(WattveilError, ValueError):
    """Rows break a rule. The text names rows of private data: it never leaves the house."""

    def __init__(self, rule: str, row_ids: Sequence[object]) -> None:
        self.rule = rule
        self.row_ids = tuple(row_ids)
        shown = ", ".join(str(row_id) for row_id in self.row_ids[:_SHOWN_PROBLEMS])
        more = len(self.row_ids) - _SHOWN_PROBLEMS
        tail = f" and {more} more" if more > 0 else ""
        which = f"rows {shown}{tail} break" if self.row_ids else "the data break"
        super().__init__(f"{which} the rule '{rule}'")


class BudgetExceededError(WattveilError):
    """The grant does not cover the charge. Raised before the data are touched."""

    def __init__(self, resource: str, requested: float, remaining: float) -> None:
        self.resource = resource
        self.requested = requested
        self.remaining = remaining
        super().__init__(
            f"budget exceeded: {resource} requested {requested}, remaining {remaining}"
        )


class RehearsalError(WattveilError):
    """A value drawn from an injected test source was about to be published."""


class ChargeRefusedError(WattveilError):
    """The ledger refuses a charge. Caps, what was spent and public parameters alone decide it."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(f"the charge is refused: {code}")


class KeyConflictError(WattveilError):
    """An idempotency key was used before, for another request."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"key {key!r} stands for another request already: choose a new key")


class LedgerUnavailableError(WattveilError):
    """The database cannot be used. Nothing is answered; the same key may be tried again."""

    def __init__(self, cause: str) -> None:
        self.cause = cause
        super().__init__(f"the ledger cannot be used: {cause}; nothing was answered")


class LedgerBehindError(WattveilError):
    """The database has lost charges: an old backup was restored, or a replica fell behind."""

    def __init__(self, book: int, seen: int, found: int, *, what: str = "entries") -> None:
        self.book = book
        self.seen = seen
        self.found = found
        super().__init__(
            f"the ledger is not the one last seen: book {book} had {seen:,} {what}, and the"
            f" database holds {found:,} of them. Restore the newest database, or let"
            " `wattveil admin ledger accept` count as spent whatever may be lost"
        )


class ServerRefusalError(WattveilError):
    """A server answers with a problem (RFC 9457), or not at all."""

    def __init__(self, code: str, title: str, details: Mapping[str, object]) -> None:
        self.code = code
        self.details = dict(details)
        more = "".join(f"; {name}: {value}" for name, value in details.items())
        super().__init__(f"the server refuses ({code}): {title}{more}")


class MissingExtraError(WattveilError, ImportError):
    """An optional dependency is needed and absent."""

    def __init__(self, feature: str, extra: str) -> None:
        self.extra = extra
        command = f"pip install --editable '.[{extra}]'"
        super().__init__(
            f"{feature} needs the extra '{extra}': {command} in the folder of the repository"
        )


class MissingJavaError(WattveilError):
    """Spark is to run, and there is no Java for it."""

    def __init__(self, least: int, found: str) -> None:
        self.least = least
        self.found = found
        super().__init__(
            f"Spark needs Java {least} or later, found {found!r}: install it "
            f"(Debian: apt install openjdk-{least}-jre-headless) or set JAVA_HOME"
        )


class WattveilWarning(UserWarning):
    """Base of every warning that Wattveil gives."""


class WeakGuaranteeWarning(WattveilWarning):
    """What was asked for protects less than it claims."""


class UnprotectedStepWarning(WattveilWarning):
    """A Pipeline step learns from private rows without noise; the guarantee does not cover it."""
