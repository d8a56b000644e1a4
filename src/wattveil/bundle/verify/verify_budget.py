"""Verify the budget: recompute every epsilon and delta of a manifest from its mechanisms.

Two accountants that share no code: the certified closed form of the kernel on the grants, and
privacy loss distributions (Google's dp-accounting) on the mechanisms. The second is slow and never
decides whether a charge is admitted; it composes many pure-epsilon releases more tightly than their
plain sum.
"""

import decimal
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dp_accounting.pld import common, privacy_loss_distribution
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from wattveil import checks
from wattveil.bundle.cumulative import ALONE, Cumulative
from wattveil.bundle.manifest import CHANNEL_MECHANISMS
from wattveil.privacy import accounting
from wattveil.privacy.accounting import RHO_UNITS, Composition
from wattveil.privacy.guarantee import Guarantee
from wattveil.products.findings import Finding, gathered
from wattveil.web.formatting import format_count

_PARTS = 2**62
"""Probabilities of a channel are whole multiples of 2^-62."""
_TOLERANCE = 0.005
"""Privacy loss distributions round losses up to a grid, and so overestimate slightly."""

_RESOLVED = 10.0
"""Their tails are truncated and counted as failures: a delta below this multiple is not tested."""

_MAX_LOSS = 50
_MIN_OTHER_ENTRIES = 3
"""Entries before the first charge: a data set, its cap, and the cap of the analyst."""
_SHORT_UP = decimal.Context(prec=9, rounding=decimal.ROUND_CEILING)

SUM = "total with other releases"
"""Name of a check, which is not run if the manifest states no sum."""

Record = dict[str, Any]


def budget_findings(manifest: dict[str, Any]) -> Iterator[Finding]:
    """Check every privacy claim, from single draws to the whole release."""
    products: list[Record] = manifest["products"]
    claimed = Guarantee.from_json(manifest["guarantee"])
    mechanisms = [
        (f"{product['name']}, {mechanism['tag']}", product, mechanism)
        for product in products
        for run in product["runs"]
        for mechanism in run["mechanisms"]
    ]
    check, basis = "the charge for each draw matches its noise", "from sensitivity and noise scale"
    if manifest.get("variant") == "instance":  # whose manifest has neither of them
        check, basis = "charges as stated", "added up; the noise cannot be checked"
    yield gathered(
        check,
        (problem for where in mechanisms for problem in _draw_problems(*where)),
        f"{format_count(len(mechanisms), 'draw')}, {basis}",
    )
    yield gathered(
        "no product spent more than its grant",
        (problem for product in products for problem in _grant_problems(product)),
        f"{format_count(len(products), 'product')}, in exact fractions",
    )
    whole: PrivacyLossDistribution | None = loss_distribution()
    for product in products:
        losses = _losses(product)
        whole = None if whole is None or losses is None else whole.compose(losses)
        epsilon, delta = _number(product["epsilon"]), _number(product["delta"])
        yield from _both_accountants(
            f"product {product['name']}", [product], losses, epsilon, delta
        )
    yield from _both_accountants("the release", products, whole, claimed.epsilon, claimed.delta)
    if manifest["cumulative"] != ALONE:
        yield cumulative_finding(manifest, granted(products))


def _both_accountants(
    what: str,
    products: Sequence[Record],
    losses: PrivacyLossDistribution | None,
    epsilon: float,
    delta: float,
) -> Iterator[Finding]:
    """Compare a claim with the closed form on grants and with distributions on mechanisms."""
    total = granted(products)
    seen = f"claimed {epsilon!r} at delta {delta!r}, closed form {total.epsilon(delta):.6g}"
    yield Finding(f"{what}: epsilon and delta", total.delta(epsilon) <= delta, seen)
    if not delta:  # labels alone, whose cost is a plain epsilon
        return
    check = f"{what}: independent accountant (privacy loss distributions)"
    if losses is None:
        yield Finding(check, holds=True, seen="not computed: epsilon is too large")
    elif delta < _RESOLVED * losses.get_delta_for_epsilon(math.inf):
        yield Finding(check, holds=True, seen="not computed: delta is too small")
    else:
        other = float(losses.get_epsilon_for_delta(delta))
        agrees = other <= epsilon * (1.0 + _TOLERANCE) + 1e-3
        yield Finding(check, agrees, f"epsilon = {other:.6g} at delta = {delta!r}")


def granted(products: Sequence[Record]) -> Composition:
    """Add the grants of the products of a release up."""
    grants = [product["grant"] for product in products]
    return Composition(
        rho_units=sum(int(grant["rho_units"]) for grant in grants),
        response_epsilon=_sum_up(grants, "response_epsilon"),
        response_delta=_sum_up(grants, "response_delta"),
        eta=_sum_up(grants, "eta"),
    )


def _sum_up(grants: Sequence[Record], field: str) -> float:
    return accounting.sum_up(*(_number(grant[field]) for grant in grants))


def _losses(product: Record) -> PrivacyLossDistribution | None:
    """Compose the mechanisms of a product; of disjoint groups, those of the most expensive.

    None where a distribution would not fit into memory: such losses give no protection.
    """
    mechanisms = max(product["runs"], key=_rho)["mechanisms"]
    rho = [_drawn_rho(one) for one in mechanisms if "rho_units" in one]
    pure = [_number(one.get("response_epsilon", "0.0")) for one in mechanisms]
    if sum(rho) + sum(map(Fraction, pure)) > _MAX_LOSS:
        return None
    # Rounded up to a few digits: draws of the same cost are composed at once.
    s = [float(_SHORT_UP.create_decimal(math.sqrt(2.0 * float(one)))) for one in rho]
    return loss_distribution(gaussian_s=s, pure_epsilons=list(filter(None, pure)))


def _draw_problems(where: str, product: Record, mechanism: Record) -> Iterator[str]:
    """Recompute the cost of one draw."""
    if "gaussian" in mechanism:
        yield from _gaussian_problems(where, mechanism)
    elif mechanism["mechanism"] in CHANNEL_MECHANISMS:
        cost = channel_epsilon(product.get("channel", []))
        if cost > _number(mechanism["response_epsilon"]) * (1.0 + 1e-12):
            yield f"{where}: the channel costs {cost:.6g}"


def _gaussian_problems(where: str, mechanism: Record) -> Iterator[str]:
    gaussian = mechanism["gaussian"]
    squared, scale = (
        int(gaussian["squared_sensitivity_steps"]),
        _number(gaussian["noise_scale_steps"]),
    )
    step, numbers = _number(gaussian["grid_step"]), int(gaussian["numbers"])
    # A customer is counted once in a histogram and adds a vector of norm at most 1 to a sum.
    if squared * Fraction(step) ** 2 < 1:
        yield f"{where}: a customer changes more than squared_sensitivity_steps states"
    if _drawn_rho(mechanism) > Fraction(int(mechanism["rho_units"]), RHO_UNITS):
        yield f"{where}: the noise is too small for rho_units"
        return
    # eta = D / (24 sigma^2) + (sqrt(D) + 40 + s)^2 / (24 sigma^2)
    reach = math.sqrt(numbers) + 40.0 + math.sqrt(squared) / scale
    if (numbers + reach**2) / (24.0 * scale**2) > _number(gaussian["eta"]):
        yield f"{where}: eta is too small for the grid"


def _drawn_rho(mechanism: Record) -> Fraction:
    """Return rho = sensitivity^2 / (2 sigma^2), exactly; as charged where sigma is private."""
    if "gaussian" not in mechanism:
        return Fraction(int(mechanism["rho_units"]), RHO_UNITS)
    gaussian = mechanism["gaussian"]
    scale = Fraction(checks.positive("noise_scale_steps", _number(gaussian["noise_scale_steps"])))
    return int(gaussian["squared_sensitivity_steps"]) / (2 * scale**2)


def _grant_problems(product: Record) -> Iterator[str]:
    """Compare the sum of the charges of each run with the grant."""
    grant = product["grant"]
    for run in product["runs"]:
        if _rho(run) > int(grant["rho_units"]):
            yield f"{product['name']}: rho charged {_rho(run)}, granted {grant['rho_units']}"
        for field, charges in (
            ("response_epsilon", [one.get("response_epsilon", "0.0") for one in run["mechanisms"]]),
            ("eta", [one.get("gaussian", {}).get("eta", "0.0") for one in run["mechanisms"]]),
        ):
            charged = sum(Fraction(_number(charge)) for charge in charges)
            if charged > Fraction(_number(grant[field])):
                yield f"{product['name']}: {field} charged {float(charged)}, granted {grant[field]}"


def _rho(run: Record) -> int:
    return sum(int(mechanism.get("rho_units", "0")) for mechanism in run["mechanisms"])


def channel_epsilon(channel: Sequence[Sequence[str]]) -> float:
    """Return the cost of a channel for zero-out: the largest log-ratio of a row to the last row.

    Infinite if it is no channel: rows that do not add up to 2^62, or a label possible in some rows
    only.
    """
    rows = [[int(parts) for parts in row] for row in channel]
    if len(rows) < 2 or any(len(row) != len(rows) - 1 or sum(row) != _PARTS for row in rows):  # noqa: PLR2004 - a true label and no data
        return math.inf
    ratios = []
    for row in rows[:-1]:
        for chance, absent in zip(row, rows[-1], strict=True):
            if bool(chance) != bool(absent):
                return math.inf
            if chance:
                ratios.append(abs(math.log(chance) - math.log(absent)))
    return max(ratios)


def _number(text: str) -> float:
    return checks.decimal("a number of the manifest", text)


def cumulative_finding(manifest: dict[str, Any], own: Composition) -> Finding:
    """Recompute the epsilons of the cumulative sum, and compare it with the release itself.

    Parameters
    ----------
    manifest
        That of the release.
    own
        Sum of the grants of the release.
    """
    stated = manifest["cumulative"]
    if isinstance(stated, str):
        return Finding(SUM, holds=False, seen="not stated as without a ledger")
    return gathered(
        SUM,
        _cumulative_problems(stated, manifest["request"], own),
        f"epsilon {float(stated['epsilon_spent']):.6g} of {float(stated['epsilon_cap']):.6g},"
        f" entry {stated['ledger_seq']} of the ledger",
    )


def _cumulative_problems(
    stated: dict[str, Any], public: dict[str, Any], own: Composition
) -> Iterator[str]:
    for field in ("tier", "delta"):
        if stated[field] != public[field]:
            yield f"its {field} is {stated[field]}, that of the release {public[field]}"
            return
    total = Cumulative.from_json(stated)
    for field, due in total.to_json().items():
        if stated[field] != due:
            yield f"{field} is {stated[field]}, the amounts give {due}"
    if not _fits(total.spent, total.caps):
        yield "more is spent than the cap"
    if not _fits(own, total.spent):
        yield "the release costs more than all releases together"
    if stated["ledger_seq"] < stated["releases"] + _MIN_OTHER_ENTRIES:
        yield "a ledger with so few entries has not counted so many releases"


def _fits(part: Composition, whole: Composition) -> bool:
    """Whether no measure is larger than that of the whole."""
    return all(value <= vars(whole)[name] for name, value in vars(part).items())


def composed_epsilon(
    *, gaussian_s: Sequence[float] = (), pure_epsilons: Sequence[float] = (), delta: float
) -> float:
    """Return the epsilon of Gaussian and pure-epsilon releases together, by loss distributions."""
    checks.probability("delta", delta)
    whole = loss_distribution(gaussian_s=gaussian_s, pure_epsilons=pure_epsilons)
    return float(whole.get_epsilon_for_delta(delta))


def loss_distribution(
    *, gaussian_s: Sequence[float] = (), pure_epsilons: Sequence[float] = ()
) -> PrivacyLossDistribution:
    """Return the privacy loss distribution of such releases together; it is shared."""
    for s in gaussian_s:
        checks.positive("gaussian_s", s)
    for epsilon in pure_epsilons:
        checks.positive("pure_epsilons", epsilon)
    return _loss_distribution(tuple(gaussian_s), tuple(pure_epsilons))


@lru_cache(maxsize=64)  # the periods of a series, and the parts of a release, cost the same
def _loss_distribution(
    gaussian_s: tuple[float, ...], pure_epsilons: tuple[float, ...]
) -> PrivacyLossDistribution:
    whole = privacy_loss_distribution.identity()
    for s, times in Counter(gaussian_s).items():
        one = privacy_loss_distribution.from_gaussian_mechanism(standard_deviation=1.0 / s)
        whole = whole.compose(one.self_compose(times))
    for epsilon, times in Counter(pure_epsilons).items():
        cost = common.DifferentialPrivacyParameters(epsilon)
        one = privacy_loss_distribution.from_privacy_parameters(cost)
        whole = whole.compose(one.self_compose(times))
    return whole
