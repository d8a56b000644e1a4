"""Registry of products: the one list of what a release may contain.

A product is one module with a subclass of `Product`, and one entry here. Plans, manifests, reports,
checks, options of the command line and fields of the server are derived from the registry. Modules
of products are imported when the registry is first read, so that reading a request does not wait
for estimators.

>>> {*default_weights()} <= {product.name for product in products_of(Tier.GLOBAL)}
True
"""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from wattveil.declaration import Declaration, check_options
from wattveil.errors import InvalidParameterError, one_of
from wattveil.privacy.guarantee import Tier

if TYPE_CHECKING:
    from wattveil.products.product import Product

_BUILT_IN = (
    "clusters.Clusters",
    "synthesis.Synthesis",
    "load.Load",
    "years.Years",
    "shares.Shares",
    "labels.Labels",
    "instance_tier.InstanceClusters",
    "instance_tier.InstanceLabels",
)
"""Module and class of each product, in the order of release: a later one may use an earlier one."""

_added: "list[Product]" = []


def register(product: "Product") -> None:
    """Add a product; it is released after those that are registered already.

    Parameters
    ----------
    product
        Its name must be new in its tier. Its options must have defaults and immutable types.
    """
    if product.Options is not None:
        check_options(product.Options)
    if product.name in {known.name for known in products_of(product.tier)}:
        rule = f"a new name in the {product.tier.value} tier"
        raise InvalidParameterError("product", rule, product.name)
    if product_options().get(product.name, product.Options) is not product.Options:
        rule = "one with the options of the product of this name in another tier"
        raise InvalidParameterError("product", rule, product.name)
    _added.append(product)


def unregister(product: "Product") -> None:
    """Remove a product that was added with `register`."""
    _added.remove(product)


def products_of(tier: Tier) -> "tuple[Product, ...]":
    """Return the products of a tier, in the order of release."""
    return tuple(product for product in (*_built_in(), *_added) if product.tier is tier)


def added_products() -> "tuple[Product, ...]":
    """Return the products that `register` added in this process; others may lack them."""
    return tuple(_added)


def product_named(name: str, tier: Tier) -> "Product":
    """Return the product of this name; an unknown name is refused."""
    known = {product.name: product for product in products_of(tier)}
    if name not in known:
        raise InvalidParameterError("product", one_of(known), name)
    return known[name]


def default_weights() -> dict[str, float]:
    """Return the default weight of each product that shares the Gaussian budget, by name."""
    return {
        product.name: product.default_weight
        for product in products_of(Tier.GLOBAL)
        if product.default_weight is not None
    }


def named_weights() -> dict[str, float]:
    """Return the weight of each product that is released only where it is named, by name."""
    return {
        product.name: product.named_weight
        for product in products_of(Tier.GLOBAL)
        if product.default_weight == 0.0
    }


def product_options() -> dict[str, type[Declaration]]:
    """Return the model of the options of each product that has options, by name."""
    return {
        product.name: product.Options
        for product in (*_built_in(), *_added)
        if product.Options is not None
    }


@cache
def _built_in() -> "tuple[Product, ...]":
    found = []
    for entry in _BUILT_IN:
        module, _, name = entry.partition(".")
        found.append(getattr(import_module(f"wattveil.products.{module}"), name)())
    return tuple(found)
