"""Recompute every epsilon and delta of a statement from the parameters of its mechanisms.

Two roads that share no code: the kernel's certified closed form on the grants, and privacy loss
distributions (Google's dp-accounting) on the mechanisms themselves.
"""

import decimal
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from wattveil import checks, cross_check
from wattveil.privacy import rounding
from wattveil.privacy.accounting import RHO_UNITS, Composition
from wattveil.privacy.guarantee import Guarantee
from wattveil.publish.findings import Finding, gathered
from wattveil.publish.manifest import THROUGH_A_CHANNEL
from wattveil.publish.verify_cumulative import cumulative_finding

_PARTS = 2**62
"""Chances of a channel are whole multiples of 2^-62."""
_TOLERANCE = 0.005
"""Privacy loss distributions round losses up to a grid: they come out a hair high."""

_RESOLVED = 10.0
"""Their tails are cut, and what is cut off counts as lost: nothing is said of a delta near that."""

_MOST_LOSS = 50
_SHORT_UP = decimal.Context(prec=9, rounding=decimal.ROUND_CEILING)

Part = dict[str, Any]


def budget_findings(manifest: dict[str, Any]) -> Iterator[Finding]:
    """Check every claim about privacy, from single draws to the whole release."""
    parts: list[Part] = manifest["parts"]
    claimed = Guarantee.from_json(manifest["guarantee"])
    mechanisms = [
        (f"{part['name']}, {mechanism['tag']}", part, mechanism)
        for part in parts
        for run in part["runs"]
        for mechanism in run["mechanisms"]
    ]
    yield gathered(
        "every draw costs what was charged",
        (problem for where in mechanisms for problem in _draw_problems(*where)),
        f"{len(mechanisms)} draws, from sensitivity and noise scale",
    )
    yield gathered(
        "no part spent more than its grant",
        (problem for part in parts for problem in _grant_problems(part)),
        f"{len(parts)} parts, in exact fractions",
    )
    whole: PrivacyLossDistribution | None = cross_check.loss_distribution()
    for part in parts:
        losses = _losses(part)
        whole = None if whole is None or losses is None else whole.compose(losses)
        epsilon, delta = _number(part["epsilon"]), _number(part["delta"])
        yield from _two_roads(f"part {part['name']}", [part], losses, epsilon, delta)
    yield from _two_roads("the release", parts, whole, claimed.epsilon, claimed.delta)
    yield cumulative_finding(manifest, _composition(parts))


def _two_roads(
    what: str,
    parts: Sequence[Part],
    losses: PrivacyLossDistribution | None,
    epsilon: float,
    delta: float,
) -> Iterator[Finding]:
    """Compare a claim with the closed form on grants and with distributions on mechanisms."""
    total = _composition(parts)
    says = f"claimed {epsilon!r} at delta {delta!r}, closed form {total.epsilon(delta):.6g}"
    yield Finding(f"{what}: epsilon and delta", total.delta(epsilon) <= delta, says)
    if not delta:  # labels alone, whose price is a plain epsilon
        return
    road = f"{what}: by a second road"
    if losses is None:
        yield Finding(road, holds=True, seen="not taken: epsilon is too large")
    elif delta < _RESOLVED * losses.get_delta_for_epsilon(math.inf):
        yield Finding(road, holds=True, seen="not taken: delta is too small")
    else:
        other = float(losses.get_epsilon_for_delta(delta))
        agrees = other <= epsilon * (1.0 + _TOLERANCE) + 1e-3
        yield Finding(road, agrees, f"privacy loss distributions {other:.6g}")


def _composition(parts: Sequence[Part]) -> Composition:
    """Add the grants up."""
    grants = [part["grant"] for part in parts]
    return Composition(
        rho_units=sum(int(grant["rho_units"]) for grant in grants),
        response_epsilon=_sum_up(grants, "response_epsilon"),
        response_delta=_sum_up(grants, "response_delta"),
        eta=_sum_up(grants, "eta"),
    )


def _sum_up(grants: Sequence[Part], field: str) -> float:
    return rounding.sum_up(*(_number(grant[field]) for grant in grants))


def _losses(part: Part) -> PrivacyLossDistribution | None:
    """Compose the mechanisms of a part one by one; of disjoint groups, those of the dearest.

    None where a distribution would not fit into memory: losses that large promise nothing anyway.
    """
    mechanisms = max(part["runs"], key=_rho)["mechanisms"]
    rho = [_drawn_rho(one) for one in mechanisms if "rho_units" in one]
    pure = [_number(one.get("response_epsilon", "0.0")) for one in mechanisms]
    if sum(rho) + sum(map(Fraction, pure)) > _MOST_LOSS:
        return None
    # In a few digits, upwards: draws of the same price are composed at once.
    s = [float(_SHORT_UP.create_decimal(math.sqrt(2.0 * float(one)))) for one in rho]
    return cross_check.loss_distribution(gaussian_s=s, pure_epsilons=list(filter(None, pure)))


def _draw_problems(where: str, part: Part, mechanism: Part) -> Iterator[str]:
    """Recompute the price of one draw."""
    if "gaussian" in mechanism:
        yield from _gaussian_problems(where, mechanism)
    elif mechanism["mechanism"] in THROUGH_A_CHANNEL:
        cost = channel_epsilon(part.get("channel", []))
        if cost > _number(mechanism["response_epsilon"]) * (1.0 + 1e-12):
            yield f"{where}: the channel costs {cost:.6g}"


def _gaussian_problems(where: str, mechanism: Part) -> Iterator[str]:
    gaussian = mechanism["gaussian"]
    squared, scale = (
        int(gaussian["squared_sensitivity_steps"]),
        _number(gaussian["noise_scale_steps"]),
    )
    step, numbers = _number(gaussian["grid_step"]), int(gaussian["numbers"])
    # A customer counts once in a histogram and adds a vector of length 1 at most to a sum.
    if squared * Fraction(step) ** 2 < 1:
        yield f"{where}: a customer moves more than squared_sensitivity_steps says"
    if _drawn_rho(mechanism) > Fraction(int(mechanism["rho_units"]), RHO_UNITS):
        yield f"{where}: the noise is too small for rho_units"
        return
    # eta = D / (24 sigma^2) + (sqrt(D) + 40 + s)^2 / (24 sigma^2)
    reach = math.sqrt(numbers) + 40.0 + math.sqrt(squared) / scale
    if (numbers + reach**2) / (24.0 * scale**2) > _number(gaussian["eta"]):
        yield f"{where}: eta is too small for the grid"


def _drawn_rho(mechanism: Part) -> Fraction:
    """Return rho = sensitivity^2 / (2 sigma^2), exactly; as charged where sigma is private."""
    if "gaussian" not in mechanism:
        return Fraction(int(mechanism["rho_units"]), RHO_UNITS)
    gaussian = mechanism["gaussian"]
    scale = Fraction(checks.positive("noise_scale_steps", _number(gaussian["noise_scale_steps"])))
    return int(gaussian["squared_sensitivity_steps"]) / (2 * scale**2)


def _grant_problems(part: Part) -> Iterator[str]:
    """Add up what each run was charged."""
    grant = part["grant"]
    for run in part["runs"]:
        if _rho(run) > int(grant["rho_units"]):
            yield f"{part['name']}: rho charged {_rho(run)}, granted {grant['rho_units']}"
        for field, charges in (
            ("response_epsilon", [one.get("response_epsilon", "0.0") for one in run["mechanisms"]]),
            ("eta", [one.get("gaussian", {}).get("eta", "0.0") for one in run["mechanisms"]]),
        ):
            charged = sum(Fraction(_number(charge)) for charge in charges)
            if charged > Fraction(_number(grant[field])):
                yield f"{part['name']}: {field} charged {float(charged)}, granted {grant[field]}"


def _rho(run: Part) -> int:
    return sum(int(mechanism.get("rho_units", "0")) for mechanism in run["mechanisms"])


def channel_epsilon(channel: Sequence[Sequence[str]]) -> float:
    """Return what a channel costs for zero-out: the largest log-ratio of a row to the last row.

    Infinite if it is no channel: rows that are not 2^62 parts, or a label possible in some rows
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
    return checks.decimal("a number of the statement", text)
