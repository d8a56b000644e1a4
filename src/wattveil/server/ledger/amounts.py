"""Amounts of privacy as whole numbers: prices are rounded up, caps down.

The four measures are those of the kernel's `Composition`. Each adds up over releases in any order,
also if later requests depend on earlier releases, so admission is integer addition: as long as
no total passes its cap, the guarantee of the caps holds (docs/proofs/accounting.md, theorem 3).

>>> caps = Allowance(epsilon=1.0, delta=1e-6).caps
>>> price = Amounts.price([Composition(rho_units=28 * 10**13 + 1)])
>>> price
Amounts(rho=280000001, epsilon=0, delta=0, eta=0)
>>> (caps - price).covers(price)  # further releases of this kind
98
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.privacy import accounting
from wattveil.privacy.accounting import RHO_UNITS, Composition

STEPS = {"rho": 10**12, "epsilon": 10**12, "delta": 10**18, "eta": 10**12}
"""Whole units per 1."""
MEASURES = tuple(STEPS)

MAX_AMOUNT = 4 * 10**18
"""Maximum cap and price, so that a sum of two is a 64-bit integer in any database."""

_ETA_SHARE = Fraction(1, 1000)
"""Of epsilon, kept for the integer grids of the releases. Each release keeps a millionth of its own
epsilon. The epsilons of n equal releases add up to about sqrt(n) times the total: a million fit."""


_GRAIN = 1000
"""Each price is rounded up by less than a unit. So many prices fit into the epsilon that they add
up to: the cap of labels is larger by this, and that of rho smaller, so that the guarantee holds."""


@dataclass(frozen=True)
class Amounts:
    """Amounts of the four measures, in units of `STEPS`."""

    rho: int = 0
    epsilon: int = 0
    """Of parts with a plain price: randomised labels."""
    delta: int = 0
    """Of parts with a plain price."""
    eta: int = 0
    """Privacy loss of sampling on integer grids."""

    def __post_init__(self) -> None:
        """Refuse values that are no amounts, or too large to be added."""
        for measure, value in zip(MEASURES, self.values, strict=True):
            if type(value) is not int or not 0 <= value <= MAX_AMOUNT:  # names the rule
                checks.integer(measure, value, minimum=0, maximum=MAX_AMOUNT)

    @classmethod
    def price(cls, grants: Iterable[Composition]) -> "Amounts":
        """Return the sum of grants, each measure rounded up."""
        given = list(grants)
        return cls(
            rho=-(sum(grant.rho_units for grant in given) * STEPS["rho"] // -RHO_UNITS),
            epsilon=_ceil("epsilon", (grant.response_epsilon for grant in given)),
            delta=_ceil("delta", (grant.response_delta for grant in given)),
            eta=_ceil("eta", (grant.eta for grant in given)),
        )

    @property
    def composition(self) -> Composition:
        """The amounts as a composition of the kernel, rounded up."""
        return Composition(
            rho_units=self.rho * (RHO_UNITS // STEPS["rho"]),
            response_epsilon=accounting.fraction_up(Fraction(self.epsilon, STEPS["epsilon"])),
            response_delta=accounting.fraction_up(Fraction(self.delta, STEPS["delta"])),
            eta=accounting.fraction_up(Fraction(self.eta, STEPS["eta"])),
        )

    @property
    def values(self) -> tuple[int, int, int, int]:
        """All four, in the order of `MEASURES`."""
        return (self.rho, self.epsilon, self.delta, self.eta)

    def __add__(self, other: "Amounts") -> "Amounts":
        """Return the sum."""
        return Amounts(*map(int.__add__, self.values, other.values))

    def __sub__(self, other: "Amounts") -> "Amounts":
        """Return the difference; refuse a negative one."""
        return Amounts(*map(int.__sub__, self.values, other.values))

    def fits(self, other: "Amounts") -> bool:
        """Whether no measure is larger than the other's."""
        return all(map(int.__le__, self.values, other.values))

    def minimum(self, other: "Amounts") -> "Amounts":
        """Return the minimum of each measure: what two accounts both have left."""
        return Amounts(*map(min, self.values, other.values))

    def covers(self, price: "Amounts") -> int:
        """Return how often the price can be paid from this."""
        pairs = zip(self.values, price.values, strict=True)
        return min((have // cost for have, cost in pairs if cost), default=0)


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """Total privacy budget of an account.

    Parameters
    ----------
    epsilon, delta
        The guarantee of all releases charged to the account together.
    label_epsilon
        The part of epsilon for randomised labels.
    """

    epsilon: float
    delta: float
    label_epsilon: float = 0.0

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        checks.positive_epsilon("epsilon", self.epsilon)
        checks.probability("delta", self.delta)
        checks.epsilon("label_epsilon", self.label_epsilon)

    @cached_property
    def caps(self) -> Amounts:
        """The largest totals that keep the guarantee, rounded down."""
        aside = Amounts(
            epsilon=math.floor(Fraction(self.label_epsilon) * STEPS["epsilon"])
            + (_GRAIN if self.label_epsilon else 0),
            eta=math.floor(Fraction(self.epsilon) * _ETA_SHARE * STEPS["eta"]),
        )

        def within_guarantee(rho: int) -> bool:
            return replace(aside, rho=rho).composition.delta(self.epsilon) <= self.delta

        if not within_guarantee(0):
            rule = f"within the guarantee ({self.epsilon}, {self.delta})"
            raise InvalidParameterError("label_epsilon", rule, self.label_epsilon)
        above = 1
        while within_guarantee(above):
            above *= 2
        return replace(aside, rho=accounting.last_accepted(within_guarantee, 0, above))

    def to_json(self) -> dict[str, str]:
        """Return the fields as strings that round-trip exactly."""
        fields = ("epsilon", "delta", "label_epsilon")
        return {name: repr(getattr(self, name)) for name in fields}


def _ceil(measure: str, values: Iterable[float]) -> int:
    """Return the exact sum in units of the measure, rounded up."""
    return math.ceil(sum(map(Fraction, values), Fraction(0)) * STEPS[measure])
