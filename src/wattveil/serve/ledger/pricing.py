"""The price of a release: what its parts are granted, known before any row is looked at.

A release is split over its parts by `publish.plan.split_budget`, which sees the request alone. Each
part then spends from a budget of just that grant. So the sum of the grants bounds what the release
spends, whatever the data, and it is a function of public parameters.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from wattveil.privacy.guarantee import Neighbours, Tier, Unit
from wattveil.publish.plan import split_budget
from wattveil.publish.request import DEFAULT_WEIGHTS, About, ReleaseRequest
from wattveil.serve.ledger.amounts import Amounts
from wattveil.serve.ledger.order import Order

_VERSION = "1"
"""Of the canonical request. It names the format, not the software: a release stays free for those
who have it after an upgrade."""


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
    return Amounts.price(allotment.grant for allotment in split_budget(request).values())


def canonical_request(request: ReleaseRequest) -> dict[str, object]:
    """Return every choice of a request, defaults filled in, floats as the text that ``repr`` gives.

    Two requests that ask for the same thing in other words are the same here.
    """
    fields = asdict(request)
    fields["tier"] = request.tier.value
    fields["weights"] = {part: float(request.weight(part)) for part in DEFAULT_WEIGHTS}
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
