"""The price of a release: what its parts are granted, known before any row is looked at.

A release is split over its parts by `bundle.plan.split_budget`, which sees the request alone. Each
part then spends from a budget of just that grant. So the sum of the grants bounds what the release
spends, whatever the data, and it is a function of public parameters.
"""

import decimal
import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from wattveil.bundle.plan import requested_products, split_budget, stated_request
from wattveil.errors import BudgetExceededError, InvalidParameterError
from wattveil.privacy.guarantee import Neighbours, Tier, Unit
from wattveil.products.product import Allotment, Product
from wattveil.products.registry import default_weights, products_of
from wattveil.products.request import ReleaseRequest
from wattveil.server.ledger.amounts import MEASURES, Amounts
from wattveil.server.ledger.order import Order

_VERSION = "2"
"""Of the canonical request. It names the format, not the software: a release stays free for those
who have it after an upgrade."""

MIN_PART_EPSILON = 1e-3
"""Of each part of a release. The discrete Gaussian has a largest scale: at the smallest deltas
estimators fail from a thirtieth of this on."""

_TRIES = 12
_CLOSE, _AIM = 1.0 - 2e-6, 1.0 - 1e-6
"""Of what is left: so much of it is all of it, and what is aimed at."""
_SHORT_DOWN = decimal.Context(prec=6, rounding=decimal.ROUND_FLOOR)


def order_release(request: ReleaseRequest, *, dataset: str, principal: str, key: str) -> Order:
    """Return the order of a release, with its price and the split of it."""
    chosen = _resolved(request)
    allotments, price = _priced(chosen, requested_products(chosen))
    return Order(
        dataset=dataset,
        principal=principal,
        key=key,
        request=canonical_request(request),
        price=price,
        tier=request.tier,
        neighbours=Neighbours.ZERO_OUT,  # those of every release, see `bundle.plan`
        unit=Unit.CUSTOMER,
        allotments=allotments,
    )


def release_price(request: ReleaseRequest) -> Amounts:
    """Return what a release costs."""
    chosen = _resolved(request)
    return _priced(chosen, requested_products(chosen))[1]


@lru_cache(maxsize=1000)
def _priced(
    request: ReleaseRequest,
    products: tuple[Product, ...],  # noqa: ARG001 - the registry may change, and the split with it
) -> tuple[Mapping[str, Allotment], Amounts]:
    """Return the split of a budget and its price: once for a quote and the orders that follow."""
    allotments = MappingProxyType(split_budget(request))
    least = min(allotment.guarantee.epsilon for allotment in allotments.values())
    if least < MIN_PART_EPSILON:
        # The computation would refuse it after the charge: no noise of that size can be drawn.
        rule = f"large enough that each part has {MIN_PART_EPSILON:g} of it"
        raise InvalidParameterError("epsilon, label_epsilon", rule, least)
    return allotments, _granted(allotments)


def check_paid(allotments: Mapping[str, Allotment], paid: Amounts) -> None:
    """Refuse grants beyond what was paid: an upgrade may split a budget in another way."""
    granted = _granted(allotments)
    for measure, asked, have in zip(MEASURES, granted.values, paid.values, strict=True):
        if asked > have:
            raise BudgetExceededError(measure, asked, have)


def _granted(allotments: Mapping[str, Allotment]) -> Amounts:
    return Amounts.price(allotment.grant for allotment in allotments.values())


def largest_epsilon(request: ReleaseRequest, left: Amounts) -> float | None:
    """Return the largest epsilon at which such a release is covered by what is left, or None.

    The price grows with epsilon, like epsilon or like its square. So the logarithm of the tightest
    measure is followed to 0 by the secant, and the result is rounded down to six digits. What is
    found depends on the kind of the request and on what is left, not on the epsilon it asks for.
    """
    epsilon, slope, best = left.composition.epsilon(request.delta), 2.0, 0.0
    before: tuple[float, float] | None = None
    for _ in range(_TRIES):
        tight = _tightness(request, epsilon, left)
        if not 0.0 < tight < math.inf:
            break
        best = max(best, epsilon) if tight <= 1.0 else best
        if _CLOSE <= tight <= 1.0:
            break
        here = (math.log(epsilon), math.log(tight))
        if before is not None and before[0] != here[0]:
            slope = min(max((here[1] - before[1]) / (here[0] - before[0]), 0.5), 3.0)
        before = here
        epsilon *= (_AIM / tight) ** (1.0 / slope)
    short = float(_SHORT_DOWN.create_decimal_from_float(best))
    return short if short > 0.0 else None


def _tightness(request: ReleaseRequest, epsilon: float, left: Amounts) -> float:
    """Return the largest share of what is left that a release takes; infinite if it never fits."""
    try:
        price = release_price(request.replace(epsilon=epsilon))
    except InvalidParameterError:  # nothing is left, or too little for its labels or parts
        return math.inf
    fixed = ("delta",) if request.label_epsilon is None else ("delta", "epsilon")
    shares = [0.0]
    for measure in MEASURES:
        cost, have = getattr(price, measure), getattr(left, measure)
        if cost > have and (have == 0 or measure in fixed):
            return math.inf
        if cost and measure not in fixed:
            shares.append(cost / have)
    return max(shares)


def canonical_request(request: ReleaseRequest) -> dict[str, object]:
    """Return every choice of a request, defaults filled in, floats as the text that ``repr`` gives.

    Requests that differ in their form alone are equal here: in defaults that are written out, in
    the scale of the weights, and in weights and options of products that are not included. Products
    and weights are those that the request includes: a product that is registered later changes
    neither the text nor what is released.
    """
    chosen = _resolved(request)
    fields = stated_request(chosen)
    fields["weights"] = {
        name: fields["weights"][name] for name, weight in chosen.weights.items() if weight > 0.0
    }
    names = [product.name for product in requested_products(chosen)]
    return {"version": _VERSION, "products": names, **fields}


def _resolved(request: ReleaseRequest) -> ReleaseRequest:
    """Return the request without effects of products that it does not include.

    Weights of all products are stated, in lowest terms and 0 for one that is not included, except
    in the instance tier, which has no weights; options of a product that is not included are the
    defaults.
    """
    included = {product.name for product in requested_products(request)}
    options = {name: one for name, one in request.options.items() if name in included}
    if request.tier is Tier.INSTANCE:
        return request.replace(options=options)
    weights = {
        name: request.weight(name) if name in included else 0.0 for name in default_weights()
    }
    return request.replace(weights=_lowest_terms(weights), options=options)


def _lowest_terms(weights: Mapping[str, float]) -> dict[str, float]:
    """Return whole numbers in the same ratio, without a common divisor.

    The split is computed from these, so that weights of one ratio have one split. It is exact: a
    divisor of all weights divides the significand of each, so that quotients are floats again.
    """
    exact = {name: Fraction(weight) for name, weight in weights.items()}
    common = math.lcm(*(one.denominator for one in exact.values()))
    divisor = math.gcd(*(int(one * common) for one in exact.values())) or 1
    try:
        return {name: float(one * common / divisor) for name, one in exact.items()}
    except OverflowError:
        rule = "in ratios below 1e300"
        raise InvalidParameterError("weights", rule, dict(weights)) from None


def read_request(record: Mapping[str, Any]) -> ReleaseRequest:
    """Return the request that `canonical_request` wrote; refuse one that has other products now."""
    known = [product.name for product in products_of(Tier(record["tier"]))]
    if unknown := [name for name in record["products"] if name not in known]:
        rule = f"of {known}, which are registered in the process that computes"
        raise InvalidParameterError("products", rule, unknown)
    fields = {name: value for name, value in record.items() if name not in {"version", "products"}}
    if fields["tier"] == Tier.GLOBAL.value:
        fields["weights"] = dict.fromkeys(default_weights(), 0.0) | fields["weights"]
    request = ReleaseRequest.parse(fields)
    if (found := [product.name for product in requested_products(request)]) != record["products"]:
        raise InvalidParameterError("products", f"{found}, as registered", record["products"])
    return request
