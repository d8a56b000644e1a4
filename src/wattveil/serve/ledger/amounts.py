"""Amounts of privacy as whole numbers: prices are rounded up, caps down.

The four measures are those of the kernel's `Composition`. Each adds up over releases in any order,
also if later requests are chosen by earlier answers, so admission is integer addition: as long as
no total passes its cap, the promise of the caps holds (docs/proofs/accounting.md, theorem 3).

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
from wattveil.privacy import rounding
from wattveil.privacy.accounting import RHO_UNITS, Composition

STEPS = {"rho": 10**12, "epsilon": 10**12, "delta": 10**18, "eta": 10**12}
"""How many whole units make 1."""
MEASURES = tuple(STEPS)

MOST = 4 * 10**18
"""No cap and no price is larger, so that a sum of two stays a 64-bit integer in any database."""

_ETA_SHARE = Fraction(1, 1000)
"""Of epsilon, kept for the integer grids of the releases. Each release keeps a millionth of its own
epsilon. The epsilons of n equal releases add up to about sqrt(n) times the total: a million fit."""


_GRAIN = 1000
"""Each price is rounded up by less than a unit. So many prices fit into the epsilon that they add
up to: the cap of labels is larger by this, and that of rho smaller, so that the promise is kept."""


@dataclass(frozen=True)
class Amounts:
    """So much of each measure, in units of `STEPS`."""

    rho: int = 0
    epsilon: int = 0
    """Of parts with a plain price: randomised labels."""
    delta: int = 0
    """Of parts with a plain price."""
    eta: int = 0
    """What drawing on integer grids may add."""

    def __post_init__(self) -> None:
        """Refuse what is no amount, or too large to be added."""
        for measure, value in zip(MEASURES, self.values, strict=True):
            if type(value) is not int or not 0 <= value <= MOST:  # the slow road says which rule
                checks.integer(measure, value, least=0, most=MOST)

    @classmethod
    def price(cls, grants: Iterable[Composition]) -> "Amounts":
        """Return the sum of what was granted, each measure rounded up."""
        given = list(grants)
        return cls(
            rho=-(sum(grant.rho_units for grant in given) * STEPS["rho"] // -RHO_UNITS),
            epsilon=_ceil("epsilon", (grant.response_epsilon for grant in given)),
            delta=_ceil("delta", (grant.response_delta for grant in given)),
            eta=_ceil("eta", (grant.eta for grant in given)),
        )

    @property
    def composition(self) -> Composition:
        """The kernel's view of these amounts, rounded up."""
        return Composition(
            rho_units=self.rho * (RHO_UNITS // STEPS["rho"]),
            response_epsilon=rounding.fraction_up(Fraction(self.epsilon, STEPS["epsilon"])),
            response_delta=rounding.fraction_up(Fraction(self.delta, STEPS["delta"])),
            eta=rounding.fraction_up(Fraction(self.eta, STEPS["eta"])),
        )

    @property
    def values(self) -> tuple[int, int, int, int]:
        """All four, in the order of `MEASURES`."""
        return (self.rho, self.epsilon, self.delta, self.eta)

    def __add__(self, other: "Amounts") -> "Amounts":
        """Return the sum."""
        return Amounts(*map(int.__add__, self.values, other.values))

    def __sub__(self, other: "Amounts") -> "Amounts":
        """Return what is left; refused if that is less than nothing."""
        return Amounts(*map(int.__sub__, self.values, other.values))

    def fits(self, other: "Amounts") -> bool:
        """Whether no measure is larger than the other's."""
        return all(map(int.__le__, self.values, other.values))

    def least(self, other: "Amounts") -> "Amounts":
        """Return the smaller one of each measure: what two accounts both have left."""
        return Amounts(*map(min, self.values, other.values))

    def covers(self, price: "Amounts") -> int:
        """Return how often the price can be paid from this."""
        pairs = zip(self.values, price.values, strict=True)
        return min((have // cost for have, cost in pairs if cost), default=0)


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """What an account may spend in all, as its owner says it.

    Parameters
    ----------
    epsilon, delta
        The promise that everything charged to the account keeps together.
    label_epsilon
        The part of epsilon that is set aside for randomised labels.
    """

    epsilon: float
    delta: float
    label_epsilon: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a promise that is none."""
        checks.positive_epsilon("epsilon", self.epsilon)
        checks.probability("delta", self.delta)
        checks.epsilon("label_epsilon", self.label_epsilon)

    @cached_property
    def caps(self) -> Amounts:
        """The largest totals that keep the promise, rounded down."""
        aside = Amounts(
            epsilon=math.floor(Fraction(self.label_epsilon) * STEPS["epsilon"])
            + (_GRAIN if self.label_epsilon else 0),
            eta=math.floor(Fraction(self.epsilon) * _ETA_SHARE * STEPS["eta"]),
        )

        def keeps_the_promise(rho: int) -> bool:
            return replace(aside, rho=rho).composition.delta(self.epsilon) <= self.delta

        if not keeps_the_promise(0):
            rule = f"within the promise ({self.epsilon}, {self.delta})"
            raise InvalidParameterError("label_epsilon", rule, self.label_epsilon)
        above = 1
        while keeps_the_promise(above):
            above *= 2
        return replace(aside, rho=rounding.last_accepted(keeps_the_promise, 0, above))

    def to_json(self) -> dict[str, str]:
        """Return the fields as strings that read back exactly."""
        fields = ("epsilon", "delta", "label_epsilon")
        return {name: repr(getattr(self, name)) for name in fields}


def _ceil(measure: str, values: Iterable[float]) -> int:
    """Return the exact sum in units of the measure, rounded up."""
    return math.ceil(sum(map(Fraction, values), Fraction(0)) * STEPS[measure])
