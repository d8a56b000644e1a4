"""What may be sent to the server, field by field.

Numbers have their rules where they are used.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from wattveil.privacy.guarantee import Tier
from wattveil.public_estimate import MAX_CUSTOMERS, rounded_customers
from wattveil.publish.request import About
from wattveil.serve.ledger.acts import PrincipalKind
from wattveil.serve.tokens import USUAL_DAYS

Text = Annotated[str, Field(max_length=2000)]
Name = Annotated[str, Field(max_length=63)]


class Product(StrEnum):
    """What a data set may be asked for; the parts of a release."""

    CLUSTERS = "clusters"
    SYNTHESIS = "synthesis"
    LOAD = "load"
    SHARES = "shares"
    LABELS = "labels"


class _Body(BaseModel):
    """Nothing is guessed: no text for a number, no field that nobody knows."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,  # the reference of the API is made of them
    )


Choice = Annotated[Product, Field(strict=False)]
TierChoice = Annotated[Tier, Field(strict=False)]
Estimate = Annotated[int, Field(ge=1, le=MAX_CUSTOMERS), AfterValidator(rounded_customers)]
KindChoice = Annotated[PrincipalKind, Field(strict=False)]


class AskBody(_Body):
    """A quote or a release that an analyst asks for."""

    epsilon: float
    """Budget of the whole release: smaller protects more."""
    delta: float | None = None
    """None: that of the data set."""
    clusters: Annotated[int, Field(ge=1, le=100)] = 6
    """Number of kinds of customers; a thousand would keep everybody else waiting for minutes."""
    products: Annotated[list[Choice], Field(max_length=10)] | None = None
    """None: all that the data set offers and the rest of the question allows; shares need `by`,
    labels a part of epsilon. One that is named and cannot be had is refused."""
    by: Text | None = None
    """A public attribute of the data set, to release by."""
    clusters_by_group: bool = False
    """Cluster each group by itself."""
    normalise: bool = False
    """Cluster shapes, whatever the size."""
    label_epsilon: float | None = None
    """Part of epsilon for a label of each customer."""
    tier: TierChoice = Tier.GLOBAL
    """Which promise: global, or the paper's."""


class AllowanceBody(_Body):
    """What may be spent in all."""

    epsilon: float
    """In all, at the delta beside it."""
    delta: float
    """What all promises together may miss by."""
    label_epsilon: float = 0.0
    """Of it, for labels."""


class PublicChoices(_Body):
    """What is public of a data set, and fixed for good."""

    clip_kw: float
    """The public bound on customers."""
    delta: float = 1e-6
    """What promises may miss by, unless a request says otherwise."""
    groups: Annotated[dict[Text, list[Text]], Field(max_length=100)] = {}
    """Attributes to release by, each with the public list of its values."""
    products: list[Choice] = [
        Product.CLUSTERS,
        Product.SYNTHESIS,
        Product.LOAD,
        Product.SHARES,
    ]
    """What analysts may ask for."""
    customers: Estimate = 1000
    """Public estimate of the number of customers, for plans alone; it is rounded to 1, 2 or 5 times
    a power of ten before it is stored."""
    typical_kw: float = 0.5
    """A public guess of their median size; for plans alone."""
    title: Text = About.title
    """What it is, in a line."""
    curator: Text = About.curator
    """Who holds the data and publishes."""
    region: Text = About.region
    """Where the customers live."""
    contact: Text = About.contact
    """Whom to ask."""
    intended_use: Text = About.intended_use
    """What releases are made for."""


class DatasetBody(PublicChoices):
    """A data set to register. All of it is public but for the names of the files."""

    name: Name
    """How it is asked for: a-z, 0-9, dot, dash and underscore."""
    file: Text
    """A Parquet file of `wattveil profiles`, in the folder `profiles` of the server's data."""
    customer_list_file: Text | None = None
    """For labels: the public list of customers, one id a line, in the same folder."""
    allowance: AllowanceBody | None = None
    """What may be spent in all, by everybody together."""
    linked_to: Name | None = None
    """Instead of an allowance: a data set about the same people, whose budget it shares."""


class BudgetBody(_Body):
    """The cap of an account, from now on."""

    allowance: AllowanceBody
    """What may be spent, from the first release on."""
    reason: Text
    """Kept in the ledger."""
    tier: TierChoice = Tier.GLOBAL
    """Which promise it is about."""
    whose: Name | None = None
    """None: the budget of everybody together."""


class PrincipalBody(_Body):
    """Somebody who may act or ask."""

    name: Name
    """Of a-z, 0-9, dot, dash and underscore."""
    kind: KindChoice = PrincipalKind.ANALYST
    """What the person may do."""
    token_days: int = USUAL_DAYS
    """For how long the token is good."""


class TokenBody(_Body):
    """A further token."""

    days: int = USUAL_DAYS
    """For how long it is good."""


class ShareBody(_Body):
    """With whom a release is shared."""

    reader: Name
    """A principal, or ``*`` for everybody who has a token."""


class ReasonBody(_Body):
    """Why something is done for good."""

    reason: Text
    """Kept in the ledger."""
