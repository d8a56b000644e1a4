"""Plan of a release: split of the budget over products, and expected error of each.

Gaussian products compose in rho: the budget that fixed allotments leave is divided by weight, and
each product gets the epsilon whose budget grants its share. Grants are fixed here, so their sum is
the guarantee of the whole release (docs/proofs/accounting.md, section 5).
"""

import decimal
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from wattveil import calibration, checks
from wattveil.bundle.release_tables import plan_tables
from wattveil.declaration import to_plain
from wattveil.errors import InvalidParameterError, ProductNeedsError
from wattveil.privacy import accounting
from wattveil.privacy.accounting import RHO_UNITS, Composition
from wattveil.privacy.guarantee import Guarantee, Neighbours, Tier, Unit
from wattveil.products.product import (
    Allotment,
    Choice,
    Expectation,
    Product,
    grant_of,
    guarantee_of,
)
from wattveil.products.registry import products_of
from wattveil.products.request import NO_RULE, ReleaseRequest
from wattveil.profiles import TimeGrid
from wattveil.web.formatting import format_number
from wattveil.web.results import Result, ResultTable

_SHORT_DOWN = decimal.Context(prec=6, rounding=decimal.ROUND_FLOOR)
_TWO_DIGITS_UP = decimal.Context(prec=2, rounding=decimal.ROUND_CEILING)
_HELD_BACK = 1e-6
"""Share of the budget that is held back when products do not fit."""
_MIN_TARGET_EPSILON, _MAX_TARGET_EPSILON = 0.01, 50.0
"""Range in which epsilon is searched: below, nothing is released; above, the guarantee is weak."""
_NEARBY, _A_LITTLE = 0.4, 1.02
"""Errors at epsilons within about this logarithm tell where a target is met; one step beyond it."""


class _PlanModel(BaseModel):
    """Base of the models of a plan: no field but those that are declared."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class PrivacyGuarantee(_PlanModel):
    """Privacy guarantee of a release."""

    epsilon: str
    """Privacy loss."""
    delta: str
    """Slack that is added to every probability beyond the factor e^epsilon."""
    tier: Tier
    """Tier of the guarantee."""
    neighbours: Neighbours
    """Neighbouring relation."""
    unit: Unit
    """Unit of protection."""


class ExpectedQuality(_PlanModel):
    """Expected quality of a product, from public parameters alone."""

    quantity: str
    """What is expected."""
    value: float | None
    """Expected value, approximate; null if it cannot be known."""
    unit: str
    """Unit of the value, or why there is none."""
    low: float | None = None
    """Lower end of the range in which the value is expected; null if no range is stated."""
    high: float | None = None
    """Upper end of that range; null if no range is stated."""


class PlannedProduct(_PlanModel):
    """Product of a planned release."""

    name: str
    """Name of the product."""
    epsilon: str
    """Standalone epsilon."""
    delta: str
    """Standalone delta."""
    share_of_rho: float
    """Share of the budget for Gaussian noise, from 0 to 1."""
    expected: list[ExpectedQuality]
    """Expected quality."""


class PlanSummary(_PlanModel):
    """Split of a budget, and the expected quality of each product, as published in JSON."""

    guarantee: PrivacyGuarantee
    """Privacy guarantee of the whole release."""
    customers_estimate: int
    """Public estimate of the number of customers that the plan uses; rounded."""
    groups: list[str]
    """Groups of customers, as the request lists them; empty: all customers together."""
    customers_per_group: int | None
    """Number of customers that is assumed in each group: groups of equal size. None without groups.
    The error of a mean load is inversely proportional to the size of its group."""
    clipping: str
    """Bound on the load of a customer, in words."""
    warnings: list[str]
    """What weakens the guarantee or the accuracy, such as a delta at or above 1/customers, too many
    clusters, or an expected error above the typical load; often none."""
    products: list[PlannedProduct]
    """In the order in which they are released."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ReleasePlan(Result):
    """Products in order, the budget of each, and its expected errors.

    The budgets of a plan add up to at most the guarantee of its request: others are refused.
    """

    request: ReleaseRequest
    products: tuple[Product, ...]
    allotments: Mapping[str, Allotment]
    expected: Mapping[str, tuple[Expectation, ...]]

    def __post_init__(self) -> None:
        """Check the split, and keep it from later changes."""
        _check_split(self.request, self.products, self.allotments)
        object.__setattr__(self, "allotments", MappingProxyType(dict(self.allotments)))

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return plan_tables(self.summary.model_dump()["products"], self.request.customers)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the whole release."""
        request = self.request
        return guarantee_of(request, epsilon=request.epsilon, delta=request.delta)

    def rho_share(self, name: str) -> float:
        """Return the share of a product in the Gaussian budget."""
        whole = sum(allotment.grant.rho_units for allotment in self.allotments.values())
        return self.allotments[name].grant.rho_units / max(whole, 1)

    @property
    def summary(self) -> PlanSummary:
        """The plan as JSON values."""
        products = [
            PlannedProduct(
                name=product.name,
                epsilon=repr(self.allotments[product.name].guarantee.epsilon),
                delta=repr(self.allotments[product.name].guarantee.delta),
                share_of_rho=self.rho_share(product.name),
                expected=[_quality(one) for one in self.expected[product.name]],
            )
            for product in self.products
        ]
        return PlanSummary(
            guarantee=PrivacyGuarantee.model_validate(self.guarantee.to_json()),
            customers_estimate=self.request.customers,
            groups=list(self.request.levels),
            customers_per_group=self.request.customers_per_group if self.request.levels else None,
            clipping=self.request.clipping,
            warnings=_all_warnings(self),
            products=products,
        )


def noise_warnings(plan: ReleasePlan) -> tuple[str, ...]:
    """Return warnings that noise will hide a result; from public numbers alone."""
    found = (one.warning for expected in plan.expected.values() for one in expected)
    return tuple(filter(None, found))


def _all_warnings(plan: ReleasePlan) -> list[str]:
    request = plan.request
    return [*request.warnings, *request.accuracy_warnings, *noise_warnings(plan)]


def _quality(one: Expectation) -> ExpectedQuality:
    fields = asdict(one)
    return ExpectedQuality(**{name: fields[name] for name in ExpectedQuality.model_fields})


def plan_release(
    request: ReleaseRequest,
    grid: TimeGrid,
    *,
    allotments: Mapping[str, Allotment] | None = None,
) -> ReleasePlan:
    """Split the budget and simulate the error of each product, from public parameters alone.

    ``grid`` is `Profiles.grid`; ``allotments`` is a split that was made before, for a quote.
    """
    _check_type("grid", grid, TimeGrid, "the grid of the profiles: pass profiles.grid")
    choice = Choice(request=request, grid=grid)
    granted = granted_plan(request, split_budget(request) if allotments is None else allotments)
    found = {
        one.name: one.expected(choice, granted.allotments[one.name]) for one in granted.products
    }
    return replace(granted, expected=found)


def requested(plan: ReleasePlan) -> ReleaseRequest:
    """Return the request of a plan; refuse what is no plan, such as the request itself."""
    rule = "the plan of a request: pass plan_release(request, profiles.grid)"
    _check_type("plan", plan, ReleasePlan, rule)
    return plan.request


def _check_type(field: str, value: object, kind: type, rule: str) -> None:
    """Refuse an argument of another type, and say what to pass."""
    if not isinstance(value, kind):
        raise InvalidParameterError(field, rule, type(value).__name__)


def granted_plan(
    request: ReleaseRequest,
    allotments: Mapping[str, Allotment],
    expected: Mapping[str, tuple[Expectation, ...]] = MappingProxyType({}),
) -> ReleasePlan:
    """Return the plan of a split that was made before; nothing is split or simulated.

    ``expected`` is what was simulated for a quote, if there was one. A split that is not one of
    this request is refused.
    """
    return ReleasePlan(
        request=request,
        products=requested_products(request),
        allotments=allotments,
        expected=expected,
    )


def _check_split(
    request: ReleaseRequest, products: Sequence[Product], allotments: Mapping[str, Allotment]
) -> None:
    """Refuse budgets that are not those of the request, or together exceed its guarantee.

    A product spends by the guarantee of its allotment, and a ledger charges the grant: so the grant
    must be the one that follows from the guarantee.
    """
    names = [product.name for product in products]
    if [*allotments] != names:
        raise InvalidParameterError("allotments", f"those of {names}", [*allotments])
    for product in products:
        found = allotments[product.name]
        due = product.fixed_allotment(request)
        if due is None:
            own = guarantee_of(request, epsilon=found.guarantee.epsilon, delta=request.delta)
            due = Allotment.of(own)
        if found != due:
            field = f"allotments.{product.name}"
            raise InvalidParameterError(field, f"{due}, as the request grants", found)
    total = composed_epsilon(allotments.values(), request.delta)
    if total > request.epsilon:
        rule = f"within epsilon = {request.epsilon!r} at delta = {request.delta!r} together"
        raise InvalidParameterError("allotments", rule, total)


def allotments_to_json(allotments: Mapping[str, Allotment]) -> dict[str, object]:
    """Return a split as JSON values that read back exactly."""
    return {
        name: {
            "guarantee": one.guarantee.to_json(),
            "grant": {measure: repr(value) for measure, value in vars(one.grant).items()},
        }
        for name, one in allotments.items()
    }


def allotments_from_json(record: Mapping[str, Any]) -> dict[str, Allotment]:
    """Return the split that `allotments_to_json` wrote."""
    return {
        name: Allotment(
            guarantee=Guarantee.from_json(one["guarantee"]),
            grant=Composition(
                rho_units=int(one["grant"]["rho_units"]),
                response_epsilon=float(one["grant"]["response_epsilon"]),
                response_delta=float(one["grant"]["response_delta"]),
                eta=float(one["grant"]["eta"]),
            ),
        )
        for name, one in record.items()
    }


def requested_products(
    request: ReleaseRequest, *, names: Collection[str] | None = None
) -> tuple[Product, ...]:
    """Return the products that the request includes, in the order of release.

    A product that is named and cannot be released is refused: the rest would be charged without it.

    Parameters
    ----------
    request
        Public choices.
    names
        Names of the products that were chosen; None for those to which the request gives a weight.
    """
    known = products_of(request.tier)
    field, chosen = "products", names
    if chosen is None:
        field = "weights"
        chosen = [name for name, weight in request.weights.items() if weight > 0.0]
    products = tuple(product for product in known if product.is_requested(request))
    for product in known:
        if product.name in chosen and product not in products:
            raise ProductNeedsError(field, product.name, product.needs, [*chosen])
    if request.rule != NO_RULE and not all(product.applies_rule for product in products):
        rule = "omitted unless load is the only product: give clusters the weight 0 with --share"
        raise InvalidParameterError("rule", rule, request.rule)
    if not products:
        text = f"{field}: select at least one product"
        raise InvalidParameterError(field, "at least one product", [*chosen], text=text)
    return products


def stated_request(request: ReleaseRequest) -> dict[str, Any]:
    """Return a request as JSON values, with the options of the products that it includes alone."""
    names = [product.name for product in products_of(request.tier) if product.is_requested(request)]
    fields: dict[str, Any] = to_plain(request)
    options = {name: chosen for name, chosen in fields["options"].items() if name in names}
    return {**fields, "options": options}


def split_budget(request: ReleaseRequest) -> dict[str, Allotment]:
    """Return the budget of each product; together within the guarantee of the release."""
    fixed, gaussian, names = {}, [], []
    for product in requested_products(request):
        names.append(product.name)
        allotment = product.fixed_allotment(request)
        if allotment is None:
            gaussian.append(product.name)
        else:
            fixed[product.name] = allotment
    set_aside = _composed(fixed.values())
    if (least := _epsilon_of(set_aside, request.delta)) > request.epsilon:
        rule = f"at least the {least:g} that its products take at delta = {request.delta!r}"
        raise InvalidParameterError("epsilon", rule, request.epsilon)
    if not gaussian:
        return fixed
    whole = grant_of(
        guarantee_of(request, epsilon=request.epsilon, delta=request.delta),
        response_epsilon=set_aside.response_epsilon,
        response_delta=set_aside.response_delta,
    )
    left = whole.rho_units - set_aside.rho_units
    if left <= 0:
        raise _too_small(request)
    total = sum(request.weight(name) for name in gaussian)

    def split(held_back: float) -> dict[str, Allotment] | None:
        """Share all but this fraction of the budget; None if that is still too much."""
        units = (1.0 - held_back) * left
        shares = {name: units * request.weight(name) / total for name in gaussian}
        split_over = {name: _gaussian_allotment(request, share) for name, share in shares.items()}
        allotments = {name: {**split_over, **fixed}[name] for name in names}
        keeps = composed_epsilon(allotments.values(), request.delta) <= request.epsilon
        return allotments if keeps else None

    # Each product reserves budget for discretisation, together more than one budget would: a
    # millionth is held back for it, or as much as needed.
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


def plan_for_error(request: ReleaseRequest, target_kw: float, grid: TimeGrid) -> ReleasePlan:
    """Return the plan of the smallest epsilon whose largest expected error in kW meets the target.

    By bisection on a logarithmic scale. Simulated plans have noise of their own, so all errors on
    the way determine where the target is met, not the last alone. Epsilon has two digits, rounded
    up, and is raised until a plan meets the target; that plan is returned, as another may miss it.
    """
    target = checks.positive("target_error", target_kw)
    least = low = max(_MIN_TARGET_EPSILON, 1.01 * (request.label_epsilon or 0.0))
    high = _MAX_TARGET_EPSILON
    seen: dict[float, float] = {}

    def planned(epsilon: float) -> ReleasePlan | None:
        """Plan, and remember the error; None if it is above the target."""
        plan = plan_release(request.replace(epsilon=epsilon), grid)
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
        if epsilon > _MAX_TARGET_EPSILON:
            raise _out_of_reach(target_kw, seen[_MAX_TARGET_EPSILON])
    return plan


def _crossing(seen: Mapping[float, float], target: float, *, near: float) -> float:
    """Return where a weighted line through the logarithms of errors meets the target."""
    away = np.log([epsilon / near for epsilon in seen])
    errors = np.log([error / target for error in seen.values()])
    weights = np.exp(-0.25 * np.square(away / _NEARBY))  # polyfit squares them
    slope, height = np.polyfit(away, errors, 1, w=weights).tolist()
    if slope >= 0.0:  # noise alone
        return near
    return near * math.exp(min(max(-height / slope, -_NEARBY), _NEARBY))


def _out_of_reach(target_kw: float, left: float) -> InvalidParameterError:
    rule = f"at least the {format_number(left, 2)} kW that epsilon = {_MAX_TARGET_EPSILON:g} leaves"
    return InvalidParameterError("target_error", rule, target_kw)


def _worst_error_kw(plan: ReleasePlan) -> float:
    """Return the largest expected error in kW of any product."""
    errors = [
        one.value
        for expected in plan.expected.values()
        for one in expected
        if one.unit == "kW" and one.value is not None
    ]
    if not errors:
        rule = "omitted when no product has an expected error in kW"
        raise InvalidParameterError("target_error", rule, "given")
    return max(errors)


def _gaussian_allotment(request: ReleaseRequest, rho_units: float) -> Allotment:
    """Return the allotment whose guarantee, in a few digits, grants at most this rho."""
    epsilon = _epsilon_of_rho(rho_units, request.delta)
    short = float(_SHORT_DOWN.create_decimal(epsilon))
    if short == 0.0:
        raise _too_small(request)
    return Allotment.of(guarantee_of(request, epsilon=short, delta=request.delta))


def _too_small(request: ReleaseRequest) -> InvalidParameterError:
    """Return the error for a delta that alone grants more than the share of a product."""
    rule = (
        f"small enough beside epsilon = {request.epsilon!r} to be split over the products,"
        " such as 1e-6; it should be below 1 / customers"
    )
    return InvalidParameterError("delta", rule, request.delta)


def composed_epsilon(allotments: Iterable[Allotment], delta: float) -> float:
    """Return the epsilon of all grants together, by the closed form."""
    return _epsilon_of(_composed(allotments), delta)


# A plan is checked as often as it is handed on, and a search for a budget comes back to it.
@lru_cache(maxsize=1024)
def _epsilon_of(cost: Composition, delta: float) -> float:
    return cost.epsilon(delta)


@lru_cache(maxsize=1024)
def _epsilon_of_rho(rho_units: float, delta: float) -> float:
    return calibration.gaussian_epsilon(s=math.sqrt(2.0 * rho_units / RHO_UNITS), delta=delta)


def _composed(allotments: Iterable[Allotment]) -> Composition:
    """Return the sum of all grants, rounded up."""
    grants = [allotment.grant for allotment in allotments]
    return Composition(
        rho_units=sum(grant.rho_units for grant in grants),
        response_epsilon=accounting.sum_up(*(grant.response_epsilon for grant in grants)),
        response_delta=accounting.sum_up(*(grant.response_delta for grant in grants)),
        eta=accounting.sum_up(*(grant.eta for grant in grants)),
    )
