"""The price of a release: what its parts are granted, known before any row is looked at.

A release is split over its parts by `publish.plan.split_budget`, which sees the request alone. Each
part then spends from a budget of just that grant. So the sum of the grants bounds what the release
spends, whatever the data, and it is a function of public parameters.
"""

import decimal
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

from wattveil.errors import BudgetExceededError, InvalidParameterError
from wattveil.privacy.guarantee import Neighbours, Tier, Unit
from wattveil.publish.parts import Allotment
from wattveil.publish.plan import split_budget, wanted_parts
from wattveil.publish.request import DEFAULT_WEIGHTS, About, ReleaseRequest
from wattveil.serve.ledger.amounts import MEASURES, Amounts
from wattveil.serve.ledger.order import Order, canonical_text

_VERSION = "1"
"""Of the canonical request. It names the format, not the software: a release stays free for those
who have it after an upgrade."""

LEAST_PART_EPSILON = 1e-3
"""Of each part of a release. The discrete Gaussian has a largest scale: at the smallest deltas
estimators fail from a thirtieth of this on."""

_TRIES = 12
_CLOSE, _AIM = 1.0 - 2e-6, 1.0 - 1e-6
"""Of what is left: so much of it is all of it, and what is aimed at."""
_SHORT_DOWN = decimal.Context(prec=6, rounding=decimal.ROUND_FLOOR)


def order_release(request: ReleaseRequest, *, dataset: str, principal: str, key: str) -> Order:
    """Return the order of a release, with its price."""
    return Order(
        dataset=dataset,
        principal=principal,
        key=key,
        request=canonical_request(request),
        price=release_price(request),
        tier=request.tier,
        neighbours=Neighbours.ZERO_OUT,  # those of every release, see `publish.plan`
        unit=Unit.CUSTOMER,
    )


def release_price(request: ReleaseRequest) -> Amounts:
    """Return what a release costs."""
    return _price(canonical_text("request", canonical_request(request)))


@lru_cache(maxsize=1000)
def _price(text: str) -> Amounts:
    """Compute a price once: it takes longer than all else that an order needs."""
    allotments = split_budget(read_request(json.loads(text)))
    least = min(allotment.guarantee.epsilon for allotment in allotments.values())
    if least < LEAST_PART_EPSILON:
        # The computation would refuse it after the charge: no noise of that size can be drawn.
        rule = f"large enough that each part has {LEAST_PART_EPSILON:g} of it"
        raise InvalidParameterError("epsilon, label_epsilon", rule, least)
    return _granted(allotments)


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
        price = release_price(replace(request, epsilon=epsilon))
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

    Two requests that ask for the same thing in other words are the same here. A part that cannot be
    had with the rest has no weight.
    """
    fields = asdict(request)
    fields["tier"] = request.tier.value
    parts = {part.name for part in wanted_parts(request)}
    weights = {part: request.weight(part) if part in parts else 0.0 for part in DEFAULT_WEIGHTS}
    fields["weights"] = weights
    return {"version": _VERSION, **_as_text(fields)}


def read_request(record: Mapping[str, Any]) -> ReleaseRequest:
    """Return the request that `canonical_request` wrote."""
    fields = {name: value for name, value in record.items() if name != "version"}
    for name in _REALS:
        fields[name] = None if fields[name] is None else float(fields[name])
    return ReleaseRequest(
        **{
            **fields,
            "tier": Tier(fields["tier"]),
            "levels": tuple(fields["levels"]),
            "weights": _read_weights(fields),
            "about": About(**fields["about"]),
        }
    )


def _read_weights(fields: Mapping[str, Any]) -> dict[str, float]:
    """Return the weights; the instance tier has none to choose."""
    if fields["tier"] == Tier.INSTANCE.value:
        return {}
    return {part: float(weight) for part, weight in fields["weights"].items()}


def _as_text(fields: dict[str, object]) -> dict[str, object]:
    """Write floats as text, at any depth; a whole number where a float belongs reads the same."""
    plain: dict[str, object] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            plain[name] = _as_text(value)
        elif name in _REALS and value is not None:
            plain[name] = repr(float(str(value)))
        else:
            plain[name] = repr(value) if isinstance(value, float) else value
    return plain


_REALS = ("epsilon", "delta", "clip_kw", "label_epsilon", "typical_kw")
"""Fields for which 1 and 1.0 are the same."""
