"""Registration of a data set: the choices that a server fixes for all its releases.

Fields of `ReleaseRequest` that a data set fixes (`FIXED_BY_DATASET`) are fields here, with the same
types, bounds, defaults and help texts. The HTTP body, the options of `wattveil admin dataset` and
the description of a data set are derived from these models. The module needs no extra.
"""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, get_origin

from pydantic import AfterValidator, ConfigDict, Field, create_model, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from wattveil.declaration import CommandLine, Declaration, without_none
from wattveil.privacy.guarantee import Tier
from wattveil.products.registry import default_weights, named_weights, products_of
from wattveil.products.request import (
    FIXED_BY_DATASET,
    MAX_TEXT,
    NO_RULE,
    About,
    ReleaseRequest,
)

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Name = Annotated[str, Field(max_length=63)]

FIXED = tuple(
    name for name, one in ReleaseRequest.model_fields.items() if FIXED_BY_DATASET in one.metadata
)
"""Fields of a request that follow from the registration of the data set."""
_BUDGET = CommandLine(group="Privacy budget")
_IF_OMITTED = re.compile(r"\s*If omitted, [^.]*\.")
"""Sentence of a help text that does not apply to a field that must be given."""
WITHOUT_SOURCE: dict[str, Any] = {"use_attribute_docstrings": False}
"""Of a model that no source text defines: Pydantic would search all loaded modules for it."""
_BY_THE_SERVER = ("other_releases_on_same_people", "supersedes")
"""Texts of a release that the server writes itself."""


def derived_field(field: FieldInfo, *notes: object, required: bool = False) -> Any:  # noqa: ANN401 - as `create_model` takes it
    """Return a declared field as one of another model; ``notes`` narrow it."""
    kind, own = without_none(field.annotation)
    annotation = kind if required else field.annotation
    notes = (*own, *notes) if required else notes
    if get_origin(kind) is tuple or (isinstance(kind, type) and issubclass(kind, Enum)):
        notes = (*notes, Field(strict=False))  # JSON has lists and texts for them
    help_text = field.description
    if required and help_text is not None:
        help_text = _IF_OMITTED.sub("", help_text)
    text = Field(description=help_text, json_schema_extra=field.json_schema_extra)
    default = ... if required else field.get_default(call_default_factory=True)
    return Annotated[(annotation, *field.metadata, *notes, text)], default


def _registered_fields() -> dict[str, Any]:
    """Return the fields that a data set fixes; one that is None by default must be given.

    `levels` become groups, and the texts of `about` fields of their own.
    """
    choices = ReleaseRequest.model_fields
    fields = {"delta": derived_field(choices["delta"])}
    for name in FIXED:
        if name == "about":
            texts = {one: text for one, text in About.model_fields.items() if _is_chosen(one)}
            fields |= {one: derived_field(text) for one, text in texts.items()}
        elif name != "levels":
            fields[name] = derived_field(choices[name], required=choices[name].default is None)
    return fields


def _is_chosen(text: str) -> bool:
    return text not in _BY_THE_SERVER


def _product_names() -> list[str]:
    return [product.name for product in products_of(Tier.GLOBAL)]


def _registered_product(name: str) -> str:
    """Accept the name of a product of the global tier."""
    if name not in _product_names():
        known = ", ".join(_product_names())
        raise PydanticCustomError("enum", "one of the registered products", {"expected": known})
    return name


def _list_products(schema: dict[str, Any]) -> None:
    """Add the registered products to a JSON schema when it is generated."""
    schema["enum"] = _product_names()


def offered_products(rule: str, *, has_customer_list: bool) -> tuple[str, ...]:
    """Return what a data set offers by default: under an aggregation rule, what applies it.

    A product that is released only where it is named is offered only where it is named.
    """
    return tuple(
        one.name
        for one in products_of(Tier.GLOBAL)
        if (has_customer_list or not one.needs_customer_list)
        and one.name not in named_weights()
        and (rule == NO_RULE or one.applies_rule)
    )


ProductName = Annotated[
    str, AfterValidator(_registered_product), Field(json_schema_extra=_list_products)
]
_Values = Annotated[tuple[Text, ...], Field(strict=False)]
_Registered: Any = create_model(
    "_Registered", __base__=Declaration, __cls_kwargs__=WITHOUT_SOURCE, **_registered_fields()
)


class PublicChoices(_Registered):  # type: ignore[misc] # its fields are those of the request
    """Public parameters of a data set, fixed at its registration."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    groups: Annotated[
        Mapping[Text, _Values],
        Field(max_length=100),
        CommandLine(option="--group", metavar="attribute=value,..."),
    ] = Field(default_factory=dict)
    """Attributes to release by, each with the public list of its values."""
    products: Annotated[tuple[ProductName, ...], Field(strict=False)] = Field(
        default_factory=lambda: tuple(
            name for name in default_weights() if name not in named_weights()
        )
    )
    """Products that analysts may request."""
    minimum_epsilon: Annotated[float, Field(ge=0.0, le=1.0), _BUDGET] = 0.001
    """Smallest price of a release, as epsilon at the delta of the data set. A request of a tiny
    delta costs nearly nothing, and occupies the computation all the same."""


class AllowanceBody(Declaration):
    """A total budget."""

    epsilon: Annotated[float, _BUDGET]
    """Total epsilon, at the delta beside it."""
    delta: Annotated[float, _BUDGET]
    """Probability by which all guarantees together may fail."""
    label_epsilon: Annotated[float, _BUDGET] = 0.0
    """Part of epsilon for labels."""


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
    """Instead of a budget of its own: a data set about the same people, whose budget it shares."""
    never_charged: Text | None = None
    """After a restore that lost the high-water mark: why these people were never charged."""

    @model_validator(mode="before")
    @classmethod
    def _offer(cls, given: Any) -> Any:  # noqa: ANN401 - as it was sent
        """Offer, unless products are chosen, those that apply the rule of the data set."""
        if isinstance(given, dict) and "products" not in given:
            rule = given.get("rule", NO_RULE)
            if rule != NO_RULE:
                return {**given, "products": offered_products(rule, has_customer_list=False)}
        return given
