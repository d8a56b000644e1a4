"""What the server answers to owners, field by field; see `answers`."""

from wattveil.privacy.guarantee import Tier
from wattveil.serve.answers import Account, Answer, Me
from wattveil.serve.ledger.acts import PrincipalKind
from wattveil.serve.ledger.journal import Kind
from wattveil.serve.people import Act


class AccountOf(Account):
    """An account, as its owner sees it."""

    whose: str | None
    """A person; null for everybody together."""
    tier: Tier
    """Which promise it is about."""


class Accounts(Answer):
    """Accounts of a data set."""

    accounts: list[AccountOf]
    """By tier and person."""


class BudgetSet(Answer):
    """Whose cap was set."""

    dataset: str
    """On which it may be spent."""
    tier: Tier
    """Which promise it is about."""
    whose: str | None
    """A person; null for everybody together."""


class Closed(Answer):
    """A data set that takes no new question."""

    dataset: str
    """Its name."""
    closed: bool
    """True."""


class Entry(Answer):
    """An entry of the ledger. Amounts are whole numbers of units."""

    book_id: int
    """The book: data sets about the same people share one."""
    seq: int
    """Its place in the book, from 1."""
    at: str
    """When, in UTC."""
    kind: Kind
    """What it says."""
    principal_id: int
    """Who acted."""
    dataset_id: int | None
    """On which data set."""
    account_id: int | None
    """Of a charge: the account of everybody. Of a cap: the account that has it."""
    own_account_id: int | None
    """Of a charge: the analyst's account."""
    rho: int
    """Of noise that is Gaussian."""
    epsilon: int
    """Of labels."""
    delta: int
    """What is missed by."""
    eta: int
    """Of the integer grid."""
    request_key: str | None
    """Under which a charge may be repeated for free."""
    request_sha256: str | None
    """Of the canonical request."""
    source_seq: int | None
    """The charge whose release answers this one, too."""
    detail: str
    """JSON: request, reason or parameters."""
    prev_sha256: str
    """Hash of the entry before."""
    row_sha256: str
    """Hash of this one."""


class Entries(Answer):
    """Entries of the ledger."""

    entries: list[Entry]
    """In order, a thousand at most."""


class Principal(Answer):
    """Somebody who may act or ask."""

    name: str
    """Of the person."""
    kind: PrincipalKind
    """What the person may do."""
    disabled_at: str | None
    """Since when no longer, in UTC."""


class Principals(Answer):
    """Everybody who is known."""

    principals: list[Principal]
    """By name."""


class ActDone(Answer):
    """What was done about somebody."""

    at: str
    """When, in UTC."""
    by: str
    """Who did it."""
    what: Act
    """What."""
    name: str
    """About whom."""


class Acts(Answer):
    """What was done about people."""

    acts: list[ActDone]
    """The newest first, a thousand at most."""


class Admitted(Me):
    """Somebody new, with a token."""

    token: str
    """Shown this once."""


class TokenGiven(Answer):
    """A further token."""

    name: str
    """Whose."""
    token: str
    """Shown this once."""


class Revoked(Answer):
    """Tokens that are worthless now."""

    name: str
    """Whose."""
    revoked: int
    """How many were good."""


class Disabled(Answer):
    """Somebody who was sent away."""

    name: str
    """Who."""
    disabled: bool
    """True."""
