"""How one budget is split over the parts, and what each part will be worth, before it is spent.

Gaussian parts add up in rho: the budget left beside the labels is divided by weight, and each part
gets the epsilon whose budget grants its share. Grants are fixed here, so their sum is the promise
of the whole release (docs/proofs/accounting.md, section 5).
"""

import decimal
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np

from wattveil import calibration, checks
from wattveil.errors import InvalidParameterError
from wattveil.privacy import rounding
from wattveil.privacy.accounting import RHO_UNITS, Composition
from wattveil.privacy.budget import Budget
from wattveil.privacy.guarantee import Guarantee, Neighbours, Tier, Unit
from wattveil.profiles import Grid
from wattveil.publish.clusters import Clusters
from wattveil.publish.instance import InstanceClusters, InstanceLabels, label_epsilon
from wattveil.publish.labels import Labels, Shares
from wattveil.publish.load import Load
from wattveil.publish.parts import Allotment, Ask, Expectation, Part
from wattveil.publish.request import ReleaseRequest
from wattveil.publish.synthetic import Synthesis

GLOBAL_PARTS: tuple[Part, ...] = (Clusters(), Synthesis(), Load(), Shares(), Labels())
INSTANCE_PARTS: tuple[Part, ...] = (InstanceClusters(), InstanceLabels())

_SHORT_DOWN = decimal.Context(prec=6, rounding=decimal.ROUND_FLOOR)
_TWO_DIGITS_UP = decimal.Context(prec=2, rounding=decimal.ROUND_CEILING)
_HELD_BACK = 1e-6
"""Share of the budget that is held back when parts do not fit."""
_LEAST_TARGET_EPSILON, _MOST_TARGET_EPSILON = 0.01, 50.0
"""Between these an epsilon is looked for: below, nothing is released; above, little is promised."""
_NEARBY, _A_LITTLE = 0.4, 1.02
"""Errors at epsilons within about this logarithm tell where a target is met; one step beyond it."""


@dataclass(frozen=True, kw_only=True)
class ReleasePlan:
    """Parts in order, what each may spend, and what to expect of each."""

    request: ReleaseRequest
    parts: tuple[Part, ...]
    allotments: Mapping[str, Allotment]
    expected: Mapping[str, tuple[Expectation, ...]]

    @property
    def guarantee(self) -> Guarantee:
        """The promise of the whole release."""
        return _promise(self.request, self.request.epsilon, self.request.delta)

    def rho_share(self, part: str) -> float:
        """Return a part's share of the Gaussian budget."""
        whole = sum(allotment.grant.rho_units for allotment in self.allotments.values())
        return self.allotments[part].grant.rho_units / max(whole, 1)

    def to_json(self) -> dict[str, object]:
        """Return the plan as JSON values."""
        return {
            "guarantee": self.guarantee.to_json(),
            "customers_guessed": self.request.customers,
            "warnings": list(self.request.warnings),
            "parts": [
                {
                    "name": part.name,
                    "epsilon": repr(self.allotments[part.name].guarantee.epsilon),
                    "delta": repr(self.allotments[part.name].guarantee.delta),
                    "share_of_rho": self.rho_share(part.name),
                    "expected": [asdict(one) for one in self.expected[part.name]],
                }
                for part in self.parts
            ],
        }


def plan_release(request: ReleaseRequest, grid: Grid) -> ReleasePlan:
    """Split the budget and foresee the error of each part, from public parameters alone."""
    parts = wanted_parts(request)
    allotments = split_budget(request)
    return ReleasePlan(
        request=request,
        parts=parts,
        allotments=allotments,
        expected={
            part.name: part.expected(
                Ask(request=request, allotment=allotments[part.name], grid=grid)
            )
            for part in parts
        },
    )


def wanted_parts(
    request: ReleaseRequest, *, products: Collection[str] | None = None
) -> tuple[Part, ...]:
    """Return the parts that the request asks for, in the order in which they are released.

    One that is asked for by name and cannot be had is refused: the rest would be charged without
    it. ``products`` are the names, for whoever chose parts so; None takes those given a weight.
    """
    known = GLOBAL_PARTS if request.tier is Tier.GLOBAL else INSTANCE_PARTS
    field, wishes = "products", products
    if wishes is None:
        field, wishes = "share", [part for part, weight in request.weights.items() if weight > 0.0]
    parts = tuple(part for part in known if part.wanted(request))
    for part in known:
        if part.name in wishes and part not in parts:
            rule = f"without {part.name}, which needs {part.needs}"
            raise InvalidParameterError(field, rule, [*wishes])
    if not parts:
        raise InvalidParameterError(field, "such that there is at least one part", [*wishes])
    return parts


def split_budget(request: ReleaseRequest) -> dict[str, Allotment]:
    """Return what each part may spend; together within the promise of the release."""
    if request.tier is Tier.INSTANCE:
        labels = label_epsilon(request)
        clusters = _promise(request, request.epsilon - labels, request.delta)
        return {"clusters": Allotment.of(clusters), "labels": _label_allotment(request, labels)}
    names = [part.name for part in wanted_parts(request)]
    aside = {}
    if request.label_epsilon is not None:
        aside["labels"] = _label_allotment(request, request.label_epsilon)
    whole = Budget(
        _promise(request, request.epsilon, request.delta),
        response_epsilon=request.label_epsilon or 0.0,
    )
    gaussian = [name for name in names if name not in aside]
    total = sum(request.weight(name) for name in gaussian)

    def split(held_back: float) -> dict[str, Allotment] | None:
        """Share all but so much of the budget; None if that is still too much."""
        units = (1.0 - held_back) * whole.rho_units
        shares = {name: units * request.weight(name) / total for name in gaussian}
        parts = {name: _gaussian_allotment(request, share) for name, share in shares.items()}
        parts = {name: {**parts, **aside}[name] for name in names}
        keeps = composed_epsilon(parts.values(), request.delta) <= request.epsilon
        return parts if keeps else None

    # The discretisation that each part sets aside adds up to more than that of one budget: a
    # millionth is held back for it, or as much more as it takes.
    too_little, enough = 0.0, _HELD_BACK
    while (found := split(enough)) is None:
        too_little, enough = enough, 2.0 * enough
        if enough >= 1.0:
            raise _too_small(request)
    while enough - too_little > _HELD_BACK:
        middle = 0.5 * (too_little + enough)
        better = split(middle)
        too_little, enough = (middle, enough) if better is None else (too_little, middle)
        found = better or found
    return found


def plan_for_error(request: ReleaseRequest, target_kw: float, grid: Grid) -> ReleasePlan:
    """Return the plan of the least epsilon whose worst expected error in kW meets the target.

    By bisection on a logarithmic scale. Plans rehearse with noise of their own, so all errors on
    the way say where the target is met, not the last alone. Epsilon has two digits, rounded up, and
    is raised until a plan meets the target: that very one is returned, as another may miss it.
    """
    target = checks.positive("target_error", target_kw)
    least = low = max(_LEAST_TARGET_EPSILON, 1.01 * (request.label_epsilon or 0.0))
    high = _MOST_TARGET_EPSILON
    seen: dict[float, float] = {}

    def planned(epsilon: float) -> ReleasePlan | None:
        """Plan, and remember the error; None if it is above the target."""
        plan = plan_release(replace(request, epsilon=epsilon), grid)
        seen[epsilon] = _worst_error_kw(plan)
        return plan if seen[epsilon] <= target else None

    if planned(high) is None:
        raise _out_of_reach(target_kw, seen[high])
    while high / low > 1.05:  # noqa: PLR2004 - half of the second digit
        middle = math.sqrt(low * high)
        low, high = (middle, high) if planned(middle) is None else (low, middle)
    epsilon = max(_crossing(seen, target, near=high), least)
    while (plan := planned(float(_TWO_DIGITS_UP.create_decimal(epsilon)))) is None:
        epsilon *= _A_LITTLE
        if epsilon > _MOST_TARGET_EPSILON:
            raise _out_of_reach(target_kw, seen[_MOST_TARGET_EPSILON])
    return plan


def _crossing(seen: Mapping[float, float], target: float, *, near: float) -> float:
    """Return where a line through the logarithms of errors meets the target; near ones count."""
    away = np.log([epsilon / near for epsilon in seen])
    errors = np.log([error / target for error in seen.values()])
    weights = np.exp(-0.25 * np.square(away / _NEARBY))  # polyfit squares them
    slope, height = np.polyfit(away, errors, 1, w=weights).tolist()
    if slope >= 0.0:  # noise alone
        return near
    return near * math.exp(min(max(-height / slope, -_NEARBY), _NEARBY))


def _out_of_reach(target_kw: float, left: float) -> InvalidParameterError:
    rule = f"at least the {left:.2g} kW that epsilon = {_MOST_TARGET_EPSILON:g} leaves"
    return InvalidParameterError("target_error", rule, target_kw)


def _worst_error_kw(plan: ReleasePlan) -> float:
    """Return the largest error in kW that any part is expected to have."""
    errors = [
        one.value
        for part in plan.expected.values()
        for one in part
        if one.unit == "kW" and one.value is not None
    ]
    if not errors:
        rule = "left out when no part has an error in kW that can be foreseen"
        raise InvalidParameterError("target_error", rule, "given")
    return max(errors)


def _gaussian_allotment(request: ReleaseRequest, rho_units: float) -> Allotment:
    """Return a promise, in a few digits, whose budget grants at most so much."""
    s = math.sqrt(2.0 * rho_units / RHO_UNITS)
    epsilon = calibration.gaussian_epsilon(s=s, delta=request.delta)
    short = float(_SHORT_DOWN.create_decimal(epsilon))
    if short == 0.0:
        raise _too_small(request)
    return Allotment.of(_promise(request, short, request.delta))


def _too_small(request: ReleaseRequest) -> InvalidParameterError:
    """Say that delta alone grants more than the share of a part, which cannot be made smaller."""
    rule = f"large enough beside delta = {request.delta!r} to be split over the parts"
    return InvalidParameterError("epsilon", rule, request.epsilon)


def _label_allotment(request: ReleaseRequest, epsilon: float) -> Allotment:
    return Allotment.of(_promise(request, epsilon, 0.0), response_epsilon=epsilon)


def composed_epsilon(allotments: Iterable[Allotment], delta: float) -> float:
    """Return the epsilon of all grants together, by the closed form."""
    grants = [allotment.grant for allotment in allotments]
    return Composition(
        rho_units=sum(grant.rho_units for grant in grants),
        response_epsilon=rounding.sum_up(*(grant.response_epsilon for grant in grants)),
        eta=rounding.sum_up(*(grant.eta for grant in grants)),
    ).epsilon(delta)


def _promise(request: ReleaseRequest, epsilon: float, delta: float) -> Guarantee:
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        tier=request.tier,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit.CUSTOMER,
    )
