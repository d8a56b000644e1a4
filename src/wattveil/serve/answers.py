"""What the server answers, field by field: the reference of the API is made of it.

Answers are built elsewhere and sent as they are: nothing here runs when a request does. A test
holds real answers of every route against these fields.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from wattveil.privacy.guarantee import Neighbours, Tier, Unit
from wattveil.serve.bodies import PublicChoices
from wattveil.serve.ledger.acts import PrincipalKind


class Answer(BaseModel):
    """No field but those that are named."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Health(Answer):
    """The server works."""

    status: str
    """The word ok."""


class Me(Answer):
    """Whose token it is."""

    name: str
    """Of the person."""
    kind: PrincipalKind
    """What the person may do."""


class ProfileGrid(Answer):
    """Which times the values of a profile stand for."""

    minutes: int
    """Length of a value."""
    split: str
    """Which days are averaged together."""
    closing_midnight: bool
    """Whether the midnight that ends a day is a value of its own."""


class Dataset(PublicChoices):
    """What is public of a data set."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)  # none is left out

    name: str
    """How it is asked for."""
    closed: bool
    """Whether it takes no new question."""
    grid: ProfileGrid
    """Of its profiles."""


class Datasets(Answer):
    """Data sets."""

    datasets: list[Dataset]
    """Those to which one is admitted, by name; to administrators all."""


class Amounts(Answer):
    """Measures of the ledger in whole units, as text: some readers of JSON would round them."""

    rho: str
    """Of noise that is Gaussian; 10¹² units are 1."""
    epsilon: str
    """Of labels; 10¹² units are 1."""
    delta: str
    """What is missed by; 10¹⁸ units are 1."""
    eta: str
    """Of the integer grid; 10¹² units are 1."""


class Account(Answer):
    """What may be spent and what was."""

    epsilon_cap: str
    """Of all that may be spent, at the delta of the data set."""
    epsilon_spent: str
    """Of all that was spent, at the same delta. Epsilons do not add up; amounts do."""
    share_spent: float
    """Of the measure of which the least is left, from 0 to 1."""
    caps: Amounts
    """What may be spent."""
    spent: Amounts
    """What was."""


class Budget(Answer):
    """The budget of everybody, and one's own."""

    tier: Tier
    """Which promise it is about."""
    delta: str
    """At which epsilons are told."""
    dataset: Account | None
    """Of everybody together; null if the tier is closed."""
    own: Account | None
    """One's own; null if there is none."""


class Promise(Answer):
    """What is promised."""

    epsilon: str
    """How much one customer's data may change the odds."""
    delta: str
    """What the promise may miss by."""
    tier: Tier
    """Which promise."""
    neighbours: Neighbours
    """Between which data it holds."""
    unit: Unit
    """Whose data it hides."""


class Expected(Answer):
    """What to expect of a part, from public numbers alone."""

    quantity: str
    """What it is."""
    value: float | None
    """How much, about; null if nobody can know."""
    unit: str
    """Of the value; or why there is none."""


class PlannedPart(Answer):
    """A part of a release."""

    name: str
    """Clusters, synthesis, load, shares or labels."""
    epsilon: str
    """Of the part by itself."""
    delta: str
    """Of the part by itself."""
    share_of_rho: float
    """Of the budget for Gaussian noise, from 0 to 1."""
    expected: list[Expected]
    """What it will be worth."""


class Plan(Answer):
    """How a budget is split, and what it buys."""

    guarantee: Promise
    """Of the whole release."""
    customers_guessed: int
    """Public estimate of the number of customers that the plan uses; rounded."""
    warnings: list[str]
    """What weakens the guarantee, such as a delta at or above 1/customers; often none."""
    parts: list[PlannedPart]
    """In the order in which they are released."""


class AlreadyPaid(Answer):
    """Whether the same question was paid for."""

    dataset: bool
    """By anybody: then it costs the data set nothing."""
    own: bool
    """By oneself: then it costs nothing."""


class MoreOfThisKind(Answer):
    """How often a price can still be paid."""

    dataset: int
    """From the budget of everybody."""
    own: int
    """From one's own."""


class Quote(Answer):
    """What a question would cost, and what it would be worth."""

    dataset: str
    """That is asked."""
    tier: Tier
    """Which promise."""
    epsilon: str
    """Of the release."""
    delta: str
    """Of the release."""
    price: Amounts
    """What would be charged."""
    already_paid: AlreadyPaid
    """Who has paid for the same question."""
    more_of_this_kind: MoreOfThisKind
    """How often the price can be paid."""
    largest_epsilon: str | None
    """At which such a question is covered by what is left; null if at none."""
    plan: Plan
    """Split and expected error."""


class Release(Answer):
    """How a release stands."""

    id: str
    """Its name in addresses."""
    dataset: str
    """That was asked."""
    ordered_by: str
    """Who paid."""
    state: Literal["computing", "ok", "failed"]
    """Failed or not: it is paid."""
    ordered_at: str
    """When it was charged, in UTC."""
    request: dict[str, Any]
    """Every choice, those of the data set and defaults filled in, numbers as text."""
    price: Amounts
    """What was charged."""
    tables: list[str] = Field(default_factory=list)
    """Names of its tables: of one release by its id, once it is ok."""


class Releases(Answer):
    """Releases that one may read."""

    releases: list[Release]
    """The newest first, 500 at most."""


class Shared(Answer):
    """Who may read a release from now on."""

    id: str
    """Of the release."""
    reader: str
    """A person, or * for everybody with a token."""


class Checked(Answer):
    """A check of a bundle."""

    check: str
    """What was looked at."""
    holds: bool
    """Whether it is so."""
    seen: str
    """What was found."""


class Missing(Answer):
    """What a bundle may have and this one does not."""

    check: str
    """Which check there is nothing for."""
    seen: str
    """What follows from it."""


class Verdict(Answer):
    """What can be said of a bundle without any data."""

    accepted: bool
    """Whether every check holds."""
    findings: list[Checked]
    """The checks."""
    absent: list[Missing]
    """What there is nothing to check of, such as a signature: neither passed nor failed."""
    not_proved: list[str]
    """What has to be taken on trust."""
    of_this_server: bool
    """Whether it was signed here, and its entry is in the ledger."""


class BrokenRule(Answer):
    """A field that breaks a rule; its value is not repeated."""

    field: str
    """Which."""
    rule: str
    """What it must be."""


class ProblemAnswer(Answer):
    """What is refused, by RFC 9457."""

    type: str
    """An address that is none: urn:wattveil:problem: and the code."""
    title: str
    """In words."""
    status: int
    """As in the head of the answer."""
    code: str
    """One of a closed list."""
    errors: list[BrokenRule] = Field(default_factory=list)
    """Of invalid_request: what is wrong."""
    account_scope: str = Field(default_factory=str)
    """Of budget_refused: whose budget does not cover it, dataset or own."""
    reason: str = Field(default_factory=str)
    """Of refused: why."""
    id: str = Field(default_factory=str)
    """Of internal: a number, to find the error in the server's log."""
