"""HTTP bodies. Those that describe releases are derived from `ReleaseRequest`.

A data set fixes some choices at its registration (`server.dataset_choices`). All other fields of a
request are fields of the body of a quote or an order, with the same types, bounds, defaults and
help texts.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from wattveil.bundle.series_request import SeriesRequest
from wattveil.privacy.guarantee import Tier
from wattveil.products.request import Delta, ReleaseRequest
from wattveil.server.auth.principals import DEFAULT_TOKEN_DAYS
from wattveil.server.dataset_choices import (
    FIXED,
    WITHOUT_SOURCE,
    AllowanceBody,
    Name,
    ProductName,
    Text,
    derived_field,
)
from wattveil.server.ledger.administration import PrincipalKind
from wattveil.server.ledger.amounts import Allowance

MAX_CLUSTERS = 100
"""Of a request to a server: a thousand would occupy it for minutes."""


class _Body(BaseModel):
    """Base of all bodies: types are strict, and unknown fields are refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,  # the reference of the API is made of them
    )


TierChoice = Annotated[Tier, Field(strict=False)]
KindChoice = Annotated[PrincipalKind, Field(strict=False)]

_NOT_OFFERED = ("weights", "real_ids")
"""Fields of a request that a server does not offer; it offers products by name."""

_CHOICES = ReleaseRequest.model_fields
_Choices: Any = create_model(
    "_Choices",
    __base__=_Body,
    __cls_kwargs__=WITHOUT_SOURCE,
    **{
        **{
            name: derived_field(field, required=field.is_required())
            for name, field in _CHOICES.items()
            if name not in (*FIXED, *_NOT_OFFERED)
        },
        "n_clusters": derived_field(_CHOICES["n_clusters"], Field(le=MAX_CLUSTERS)),
    },
)


class ReleaseBody(_Choices):  # type: ignore[misc] # its fields are those of the request
    """A quote or a release that an analyst requests."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    delta: Delta | None = None
    """Slack added to every probability beyond the factor e^epsilon. Leave empty to use the
    delta of the data set."""
    products: Annotated[list[ProductName], Field(max_length=10)] | None = None
    """None: all that the data set offers and the other choices permit; shares need `by`, labels a
    part of epsilon. One that is named and not permitted is refused."""


_SERIES = SeriesRequest.model_fields
_SeriesChoices: Any = create_model(
    "_SeriesChoices",
    __base__=_Body,
    __cls_kwargs__=WITHOUT_SOURCE,
    **{name: derived_field(field, required=field.is_required()) for name, field in _SERIES.items()},
)


class SeriesBody(_SeriesChoices):  # type: ignore[misc] # its fields are those of the series
    """A series of periods to open: its whole budget is charged at once."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    name: Name
    """Its name: a-z, 0-9, dot, dash and underscore."""

    def request(self) -> SeriesRequest:
        """Return the choices of the series, checked as a whole."""
        return SeriesRequest(**{name: getattr(self, name) for name in _SERIES})


class SeriesPlanBody(_SeriesChoices):  # type: ignore[misc] # its fields are those of the series
    """A series to plan: nothing is charged."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    group_customers: Annotated[
        list[Annotated[int, Field(ge=1, le=10**12)]], Field(max_length=20, default_factory=list)
    ]
    """Public numbers of customers of groups; if omitted, the customers divided by the groups."""

    def request(self) -> SeriesRequest:
        """Return the choices of the series, checked as a whole."""
        return SeriesRequest(**{name: getattr(self, name) for name in _SERIES})


class ErasureBody(_Body):
    """Customers to delete from the private state of a series."""

    customer_ids: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=1000)]],
        Field(min_length=1, max_length=10_000),
    ]
    """Their ids, written as in the profiles."""


class PeriodBody(_Body):
    """A period of a series to release."""

    period: Annotated[str, Field(max_length=20)]
    """Its name, such as 2026-Q3. Periods between the last one and this one are skipped."""
    file: Text
    """A Parquet file of `wattveil profiles` for the period, in the folder `profiles` of the
    server's data."""
    recluster: bool = False
    """Find the segments anew in this period: a public decision."""


class BudgetBody(_Body):
    """The cap of an account, from now on."""

    allowance: AllowanceBody
    """Budget from the first release on."""
    reason: Text
    """Kept in the ledger."""
    tier: TierChoice = Tier.GLOBAL
    """Privacy guarantee that it is about."""
    principal: Name | None = None
    """None: the budget of all principals together."""
    lost_epsilon: Annotated[float, Field(gt=0.0)] | None = None
    """Only after entries of the ledger were lost: the largest epsilon, at this delta, that can have
    been charged in this tier. It counts as spent. Needed to raise a budget or to open a tier."""
    lost_label_epsilon: Annotated[float, Field(ge=0.0)] = 0.0
    """The part of it for randomised labels."""

    def lost(self) -> Allowance | None:
        """Return the declared total of lost charges."""
        if self.lost_epsilon is None:
            return None
        return Allowance(
            epsilon=self.lost_epsilon,
            delta=self.allowance.delta,
            label_epsilon=self.lost_label_epsilon,
        )


class PrincipalBody(_Body):
    """A principal to admit."""

    name: Name
    """Of a-z, 0-9, dot, dash and underscore."""
    kind: KindChoice = PrincipalKind.ANALYST
    """Its rights."""
    token_days: int = DEFAULT_TOKEN_DAYS
    """Validity of the token in days."""


class TokenBody(_Body):
    """A further token of a principal."""

    days: int = DEFAULT_TOKEN_DAYS
    """Validity in days."""


class ShareBody(_Body):
    """Principal with whom a release is shared."""

    reader: Name
    """A principal, or ``*`` for all who have a token."""


class ReasonBody(_Body):
    """Reason of an irreversible act."""

    reason: Text
    """Kept in the ledger."""
