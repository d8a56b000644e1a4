"""HTTP bodies. Those that describe releases are derived from `ReleaseRequest`.

A data set fixes some choices at its registration. All other fields of a request are fields of the
body of a quote or an order, with the same types, bounds, defaults and help texts.
"""

from enum import Enum
from typing import Annotated, Any, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from wattveil.declaration import without_none
from wattveil.privacy.guarantee import Tier
from wattveil.products.registry import default_weights, products_of
from wattveil.products.request import MAX_TEXT, About, Delta, ReleaseRequest
from wattveil.server.auth.principals import DEFAULT_TOKEN_DAYS
from wattveil.server.ledger.administration import PrincipalKind

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Name = Annotated[str, Field(max_length=63)]

MAX_CLUSTERS = 100
"""Of a request to a server: a thousand would occupy it for minutes."""


def _registered(name: str) -> str:
    """Accept the name of a product of the global tier."""
    if name not in _product_names():
        raise PydanticCustomError("enum", "one of the registered products")
    return name


def _product_names() -> list[str]:
    return [product.name for product in products_of(Tier.GLOBAL)]


def _list_products(schema: dict[str, Any]) -> None:
    """Add the registered products to a JSON schema when it is generated."""
    schema["enum"] = _product_names()


class _Body(BaseModel):
    """Base of all bodies: types are strict, and unknown fields are refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,  # the reference of the API is made of them
    )


ProductName = Annotated[str, AfterValidator(_registered), Field(json_schema_extra=_list_products)]
TierChoice = Annotated[Tier, Field(strict=False)]
KindChoice = Annotated[PrincipalKind, Field(strict=False)]

FIXED = ("clip_kw", "levels", "customers", "typical_kw", "about")
"""Fields of a request that follow from the registration of the data set."""
_NOT_OFFERED = ("weights", "real_ids")
"""Fields of a request that a server does not offer; it offers products by name."""
_BY_THE_SERVER = ("other_releases_on_same_people", "supersedes")
"""Texts of a release that the server writes itself."""


def _body_field(field: FieldInfo, *notes: object, required: bool = False) -> Any:  # noqa: ANN401 - as `create_model` takes it
    """Return a declared field as one of a body; ``notes`` narrow it."""
    kind, own = without_none(field.annotation)
    annotation = kind if required else field.annotation
    notes = (*own, *notes) if required else notes
    if get_origin(kind) is tuple or (isinstance(kind, type) and issubclass(kind, Enum)):
        notes = (*notes, Field(strict=False))  # JSON has lists and texts for them
    text = Field(description=field.description, json_schema_extra=field.json_schema_extra)
    default = ... if required else field.get_default(call_default_factory=True)
    return Annotated[(annotation, *field.metadata, *notes, text)], default


_CHOICES = ReleaseRequest.model_fields
_Choices: Any = create_model(
    "_Choices",
    __base__=_Body,
    **{
        **{
            name: _body_field(field, required=field.is_required())
            for name, field in _CHOICES.items()
            if name not in (*FIXED, *_NOT_OFFERED)
        },
        "n_clusters": _body_field(_CHOICES["n_clusters"], Field(le=MAX_CLUSTERS)),
    },
)


class ReleaseBody(_Choices):  # type: ignore[misc] # its fields are those of the request
    """A quote or a release that an analyst requests."""

    delta: Delta | None = None
    """Probability by which the privacy guarantee may fail. None: that of the data set."""
    products: Annotated[list[ProductName], Field(max_length=10)] | None = None
    """None: all that the data set offers and the other choices permit; shares need `by`, labels a
    part of epsilon. One that is named and not permitted is refused."""


class AllowanceBody(_Body):
    """A total budget."""

    epsilon: float
    """Total epsilon, at the delta beside it."""
    delta: float
    """Probability by which all guarantees together may fail."""
    label_epsilon: float = 0.0
    """Part of epsilon for labels."""


_Registered: Any = create_model(
    "_Registered",
    __base__=_Body,
    **{
        "clip_kw": _body_field(_CHOICES["clip_kw"], required=True),
        **{
            name: _body_field(field)
            for name, field in {**_CHOICES, **About.model_fields}.items()
            if name in ("delta", "customers", "typical_kw", *About.model_fields)
            and name not in _BY_THE_SERVER
        },
    },
)


class PublicChoices(_Registered):  # type: ignore[misc] # its fields are those of the request
    """Public parameters of a data set, fixed at its registration."""

    groups: Annotated[dict[Text, list[Text]], Field(max_length=100)] = Field(default={})
    """Attributes to release by, each with the public list of its values."""
    products: list[ProductName] = Field(default_factory=lambda: [*default_weights()])
    """Products that analysts may request."""


class DatasetBody(PublicChoices):
    """A data set to register. All of it is public but for the names of the files."""

    name: Name
    """Its name: a-z, 0-9, dot, dash and underscore."""
    file: Text
    """A Parquet file of `wattveil profiles`, in the folder `profiles` of the server's data."""
    customer_list_file: Text | None = None
    """For labels: the public list of customers, one id per line, in the same folder."""
    allowance: AllowanceBody | None = None
    """Total budget of all principals together."""
    linked_to: Name | None = None
    """Instead of an allowance: a data set about the same people, whose budget it shares."""


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
