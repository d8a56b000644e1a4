"""Fields of forms follow from the declared models, and what is read passes their validation."""

import re
from collections.abc import Mapping
from urllib.parse import urlencode

import pytest

from tests.toy_product import Toy
from wattveil.bundle.plan import requested_products
from wattveil.errors import InvalidParameterError, ProductNeedsError
from wattveil.privacy.guarantee import Tier
from wattveil.products.registry import product_named, products_of, register, unregister
from wattveil.products.request import ReleaseRequest
from wattveil.server.dataset_choices import DatasetBody
from wattveil.server.http.form_fields import FieldKind, form_fields, read_fields
from wattveil.server.http.pages_admin import budget_fields, registration_fields
from wattveil.server.http.pages_order import release_body, stated_choices
from wattveil.server.http.requests import BudgetBody, PrincipalBody, ReleaseBody
from wattveil.server.http.server_pages import (
    FIELD_LABELS,
    FIELD_NEEDS,
    PRODUCT_NEEDS,
    Form,
    error_text,
)


def sent(fields: Mapping[str, object]) -> Form:
    """Return a form as a browser sends it."""
    return Form(urlencode(fields, doseq=True).encode())


@pytest.mark.parametrize("model", [DatasetBody, BudgetBody, PrincipalBody])
def test_a_form_has_every_field_of_its_model(model: type[DatasetBody]) -> None:
    """No more and no fewer; nested models in the place of their field."""
    names = {one.name.partition(".")[0] for one in form_fields(model)}
    assert names == {*model.model_fields}
    for one in form_fields(model):
        assert one.label
        assert one.help


def test_bounds_defaults_and_kinds_are_those_of_the_model() -> None:
    """Of a number, a flag, an enum, a list and a mapping."""
    fields = {one.name: one for one in form_fields(ReleaseBody)}
    clusters = fields["n_clusters"]
    assert (clusters.kind, clusters.minimum, clusters.maximum, clusters.value) == (
        FieldKind.INTEGER,
        1,
        100,
        "6",
    )
    assert fields["epsilon"].required
    assert fields["normalise"].kind is FieldKind.CHECK
    assert [*fields["tier"].choices] == ["global", "instance"]
    registered = {one.name: one for one in registration_fields(["town"])}
    assert registered["groups"].kind is FieldKind.GROUPS
    assert {*registered["products"].choices} == {one.name for one in products_of(Tier.GLOBAL)}
    assert "town" in registered["linked_to"].choices
    assert not registered["allowance.epsilon"].required  # it may be shared instead


def test_what_a_form_sends_is_read_as_the_model_has_it() -> None:
    """Numbers, lists, groups and nested models; empty fields have the default."""
    form = sent(
        {
            "name": "town",
            "file": "town.parquet",
            "clip_kw": "5",
            "customers": "",
            "groups": "class: home, shop",
            "products": ["load", "clusters"],
            "allowance.epsilon": "2.5",
            "allowance.delta": "1e-7",
        }
    )
    body = DatasetBody.model_validate(read_fields(form, registration_fields([])))
    assert (body.clip_kw, body.customers, body.products) == (5.0, 1000, ("load", "clusters"))
    assert body.groups == {"class": ("home", "shop")}
    assert body.allowance is not None
    assert (body.allowance.epsilon, body.allowance.delta) == (2.5, 1e-7)
    budget = {"allowance.epsilon": "1", "allowance.delta": "1e-6", "reason": "x", "principal": ""}
    read = BudgetBody.model_validate(read_fields(sent(budget), budget_fields(["ann"])))
    assert read.principal is None


ALL = {"n_clusters": "3", "normalise": "yes", "by": "class", "label_epsilon": "0.1"}


@pytest.mark.parametrize(
    ("products", "used"),
    [
        (["load"], {"by"}),
        (["clusters"], {"n_clusters", "normalise", "by"}),
        (["clusters", "labels"], {"n_clusters", "normalise", "by", "label_epsilon"}),
        (["shares"], {"by"}),
        ([], set()),
    ],
)
def test_only_fields_of_ticked_products_are_read(products: list[str], used: set[str]) -> None:
    """Others have their default, whatever is sent: they would make another request of it."""
    body = release_body(sent({"epsilon": "1", "products": products, **ALL}))
    default = ReleaseBody(epsilon=1.0)
    changed = {name for name in ALL if getattr(body, name) != getattr(default, name)}
    assert changed == used
    assert body.products == products
    assert len(stated_choices(body)) == len(used)


def test_the_instance_tier_has_its_own_fields() -> None:
    """Products, groups and normalisation are not among them."""
    body = release_body(sent({"epsilon": "1", "tier": "instance", "products": "load", **ALL}))
    assert (body.products, body.by, body.normalise) == (None, None, False)
    assert (body.n_clusters, body.label_epsilon) == (3, 0.1)


def test_options_of_an_added_product_are_fields_of_the_form() -> None:
    """They are read with the product alone."""
    toy = Toy()
    register(toy)
    try:
        fields = {"epsilon": "1", "options.toy.multiple": "10"}
        body = release_body(sent({**fields, "products": "toy"}))
        assert body.options["toy"].multiple == 10
        assert ("Number of customers: multiple", "10") in stated_choices(body)
        other = release_body(sent({**fields, "products": "load"}))
        assert "toy" not in other.options
    finally:
        unregister(toy)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"epsilon": "0"}, "epsilon must be a number above 0"),
        ({"epsilon": ""}, "epsilon must be given"),
        (
            {"epsilon": "1", "n_clusters": "0"},
            "“Number of segments” must be a whole number",
        ),
        ({"epsilon": "1", "n_clusters": "101"}, "at most 100."),
        ({"epsilon": "1", "tier": "local"}, "tier must be one of: global, instance"),
    ],
)
def test_a_form_is_refused_in_words(fields: dict[str, str], text: str) -> None:
    """Names of fields are words, rules those of the model, and one bound is stated once."""
    with pytest.raises(InvalidParameterError) as refused:
        release_body(sent({"products": ["clusters"], **fields}))
    shown = error_text(refused.value)
    assert text in shown
    assert shown.startswith("Please correct the form: ")
    assert "_" not in shown
    assert shown.count("at most") <= 1


@pytest.mark.parametrize("name", PRODUCT_NEEDS)
def test_a_form_says_what_a_product_needs_in_its_own_words(name: str) -> None:
    """Titles of the page, no field of the API."""
    request = ReleaseRequest(epsilon=1.0, delta=1e-6, normalise=True)
    with pytest.raises(ProductNeedsError, match=f"^the product {name} needs") as refused:
        requested_products(request, names=["clusters", name])
    shown = error_text(refused.value)
    assert product_named(name, Tier.GLOBAL).title in shown
    assert "which needs" not in shown


def test_texts_of_the_form_quote_names_that_are_on_it() -> None:
    """Labels of fields and titles of products; separate segments need a grouping."""
    titles = {one.title for one in products_of(Tier.GLOBAL)}
    for text in (*PRODUCT_NEEDS.values(), *FIELD_NEEDS.values()):
        named = re.findall("“([^”]+)”", text)
        assert named
        assert {*named} <= titles | {*FIELD_LABELS.values(), "Products"}
    with pytest.raises(InvalidParameterError) as refused:
        ReleaseRequest(epsilon=1.0, delta=1e-6, clusters_by_group=True)
    assert error_text(refused.value) == (
        "Please correct the form: “Separate segments for each group” needs a choice under “Group"
        " customers by”, and excludes “Labels”."
    )
