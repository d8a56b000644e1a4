"""Response models of the HTTP API. Routes return them, and OpenAPI is derived from them.

Amounts of privacy can exceed 2^53, so they are sent as text: some JSON parsers would round them.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from wattveil.bundle.plan import PlanSummary
from wattveil.privacy.guarantee import Tier
from wattveil.server.auth.principals import PrincipalAction
from wattveil.server.dataset_choices import PublicChoices
from wattveil.server.ledger.administration import PrincipalKind
from wattveil.server.ledger.journal import EntryKind


class ResponseModel(BaseModel):
    """Base of all response models: no field but those that are declared."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Health(ResponseModel):
    """State of the server."""

    status: Literal["ok"]
    """Always ok: a server that cannot compute releases answers with a problem."""


class Ready(ResponseModel):
    """Readiness of the server."""

    status: Literal["ok", "degraded"]
    """Degraded: what is stored can be read, and orders may be refused or wait."""
    failing: list[str]
    """The components that fail, without the database and the key: then it is a problem."""


class Me(ResponseModel):
    """Principal that a token belongs to."""

    name: str
    """Name of the principal."""
    kind: PrincipalKind
    """Role of the principal."""


# --- data sets, budgets and quotes ----------------------------------------------------------------


class ProfileGrid(ResponseModel):
    """Time grid of the profiles of a data set."""

    minutes: int
    """Length of an interval."""
    split: str
    """Which days are averaged together."""
    closing_midnight: bool
    """Whether the midnight that ends a day is an interval of its own."""
    first_day: str | None = None
    """First of the days that are kept one by one, for synthetic years; null if none are."""
    n_days: int = 0
    """Number of these days."""


class Dataset(PublicChoices):
    """Public parameters of a data set."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)  # all are sent

    name: str
    """Name of the data set in requests."""
    closed: bool
    """Whether further charges are refused."""
    grid: ProfileGrid
    """Time grid of its profiles."""


class Datasets(ResponseModel):
    """Data sets."""

    datasets: list[Dataset]
    """Data sets for which the principal has an account, by name; for administrators all."""


class Amounts(ResponseModel):
    """Amounts of the four measures of the ledger, in whole units, as text."""

    rho: str
    """Of Gaussian noise; 10¹² units are 1."""
    epsilon: str
    """Of randomised labels; 10¹² units are 1."""
    delta: str
    """Of randomised labels; 10¹⁸ units are 1."""
    eta: str
    """Of integer grids; 10¹² units are 1."""


class Account(ResponseModel):
    """Caps of an account, and what was spent."""

    epsilon_cap: str
    """Epsilon of the caps, at the delta of the data set."""
    epsilon_spent: str
    """Epsilon of what was spent, at the same delta. Epsilons do not add up; amounts do."""
    share_spent: float
    """Share of the most used measure that is spent, from 0 to 1."""
    caps: Amounts
    """What may be spent in all."""
    spent: Amounts
    """What was spent."""


class NamedAccount(Account):
    """Account of a data set or of a principal."""

    principal: str | None
    """Name of the principal; null for the account of the data set."""
    tier: Tier
    """Tier of the account."""


class Accounts(ResponseModel):
    """Accounts of a data set."""

    accounts: list[NamedAccount]
    """By tier and principal."""


class Budget(ResponseModel):
    """Accounts that pay for the releases of a principal."""

    tier: Tier
    """Tier of the accounts."""
    delta: str
    """Delta at which epsilons are stated."""
    dataset: Account | None
    """Account of the data set; null if the tier is not open."""
    own: Account | None
    """Account of the principal; null if there is none."""


class BudgetSet(ResponseModel):
    """Account whose cap was set."""

    dataset: str
    """Name of the data set."""
    tier: Tier
    """Tier of the account."""
    principal: str | None
    """Name of the principal; null for the account of the data set."""


class Closed(ResponseModel):
    """Data set that was closed."""

    dataset: str
    """Name of the data set."""
    closed: Literal[True]
    """Always true."""


class AlreadyPaid(ResponseModel):
    """Whether the same request was charged before."""

    dataset: bool
    """By any principal: then the account of the data set is not charged."""
    own: bool
    """By this principal: then nothing is charged."""


class MoreOfThisKind(ResponseModel):
    """How often a price can still be paid."""

    dataset: int
    """From the account of the data set."""
    own: int
    """From the account of the principal."""


class Quote(ResponseModel):
    """Price and expected quality of a release; nothing is charged."""

    dataset: str
    """Name of the data set."""
    tier: Tier
    """Tier of the guarantee."""
    epsilon: str
    """Epsilon of the release."""
    delta: str
    """Delta of the release."""
    price: Amounts
    """What would be charged."""
    already_paid: AlreadyPaid
    """Which accounts have paid for the same request."""
    more_of_this_kind: MoreOfThisKind
    """How often the price can be paid."""
    largest_epsilon: str | None
    """Largest epsilon at which such a request is covered by what is left; null if none is."""
    left: Amounts | None
    """What is left in the accounts that would be charged; null if there is no such account."""
    plan: PlanSummary
    """Split of the budget and expected quality."""


# --- releases -------------------------------------------------------------------------------------


class Release(ResponseModel):
    """State of a release."""

    id: str
    """Identifier in addresses."""
    dataset: str
    """Name of the data set."""
    ordered_by: str
    """Principal that was charged."""
    state: Literal["computing", "ok", "failed"]
    """computing: until it is stored and recorded. A failed release stays charged."""
    ordered_at: str
    """Time of the charge, in UTC."""
    request: dict[str, Any]
    """Canonical request: every choice, defaults filled in, numbers as text."""
    price: Amounts
    """What was charged."""
    warnings: list[str]
    """What weakens its guarantee, as the quote states it, such as the instance tier; often none."""
    same_as: str = ""
    """Identifier of the release whose result this repeats; sent for repeats only: not charged."""
    tables: list[str] = Field(default_factory=list)
    """Names of its tables; sent for one release by its id, once its state is ok."""


class Releases(ResponseModel):
    """Releases that a principal may read."""

    releases: list[Release]
    """The newest first, at most as many as `limit`."""


class Shared(ResponseModel):
    """Reader with whom a release was shared."""

    id: str
    """Identifier of the release."""
    reader: str
    """Name of a principal, or * for all principals."""


class Finding(ResponseModel):
    """Check of a bundle."""

    check: str
    """What was checked."""
    holds: bool
    """Whether it holds."""
    seen: str
    """What was found."""


class NotRun(ResponseModel):
    """Check of a bundle that was not run."""

    check: str
    """What would have been checked."""
    reason: str
    """Why it was not run."""
    remedy: str
    """What the reader can do."""


class BundleVerification(ResponseModel):
    """Verification of a bundle, without its data."""

    accepted: bool
    """Whether every check passed."""
    summary: str
    """How many checks passed or failed, and how many warnings there are."""
    findings: list[Finding]
    """The checks."""
    not_run: list[NotRun]
    """Checks that were not run, such as that of a missing signature: neither passed nor failed."""
    not_proved: list[str]
    """What cannot be verified from the bundle."""
    warnings: list[str]
    """What weakens the guarantee, although every check may have passed; often none."""
    of_this_server: bool
    """Whether this server signed it, and its entry is in the ledger."""


# --- administration -------------------------------------------------------------------------------


class Entry(ResponseModel):
    """Entry of the ledger. Amounts are whole numbers of units."""

    journal_id: int
    """Journal: data sets about the same people share one."""
    seq: int
    """Position in the journal, from 1."""
    at: str
    """Time, in UTC."""
    kind: EntryKind
    """Kind of entry."""
    principal_id: int
    """Principal who acted."""
    dataset_id: int | None
    """Data set concerned."""
    account_id: int | None
    """Of a charge: the account of the data set. Of a cap: the account that has it."""
    own_account_id: int | None
    """Of a charge: the account of the principal."""
    rho: int
    """Of Gaussian noise."""
    epsilon: int
    """Of randomised labels."""
    delta: int
    """Of randomised labels."""
    eta: int
    """Of integer grids."""
    request_key: str | None
    """Idempotency key of a charge."""
    request_sha256: str | None
    """Hash of the canonical request."""
    source_seq: int | None
    """Earlier charge of the same request, whose release is returned."""
    detail: str
    """JSON: request, reason or parameters."""
    prev_sha256: str
    """Hash of the entry before."""
    row_sha256: str
    """Hash of this entry."""


class Entries(ResponseModel):
    """Entries of the ledger."""

    entries: list[Entry]
    """In order, at most 1000."""


class PrincipalRecord(ResponseModel):
    """Principal: an administrator or an analyst."""

    name: str
    """Name of the principal."""
    kind: PrincipalKind
    """Role of the principal."""
    disabled_at: str | None
    """Time at which it was disabled, in UTC."""


class Principals(ResponseModel):
    """All principals."""

    principals: list[PrincipalRecord]
    """By name."""


class PrincipalEvent(ResponseModel):
    """Administrative action on a principal."""

    at: str
    """Time, in UTC."""
    by: str
    """Administrator who acted."""
    action: PrincipalAction
    """What was done."""
    name: str
    """Principal concerned."""


class PrincipalEvents(ResponseModel):
    """Administrative actions on principals."""

    events: list[PrincipalEvent]
    """The newest first, at most 1000."""


class NewPrincipal(Me):
    """New principal, with a token."""

    token: str
    """Shown once."""


class NewToken(ResponseModel):
    """Further token of a principal."""

    name: str
    """Name of the principal."""
    token: str
    """Shown once."""


class TokenRecord(ResponseModel):
    """Valid token of a principal; its text is not stored."""

    id: int
    """Number of the token."""
    made_at: str
    """Time at which it was issued, in UTC."""
    expires_at: str
    """Time until which it is valid, in UTC."""


class Tokens(ResponseModel):
    """Valid tokens of a principal."""

    tokens: list[TokenRecord]
    """The newest first. Those of 8 hours are sessions of an identity provider."""


class Revoked(ResponseModel):
    """Principal whose tokens were revoked."""

    name: str
    """Name of the principal."""
    revoked: int
    """Number of tokens that were valid."""


class Disabled(ResponseModel):
    """Principal that was disabled."""

    name: str
    """Name of the principal."""
    disabled: Literal[True]
    """Always true."""
