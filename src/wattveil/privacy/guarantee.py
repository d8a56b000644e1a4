"""What is promised to a customer, as a record that computes and explains itself.

>>> promise = Guarantee(epsilon=1.0, delta=1e-6, tier=Tier.GLOBAL,
...                     neighbours=Neighbours.ZERO_OUT, unit=Unit.CUSTOMER)
>>> print(promise.sentence)
The release is (1.0, 1e-06)-differentially private for each customer: whatever the data, an event \
of probability p has probability at most 2.719 p + 1e-06 once one customer's data are removed or \
put back.
"""

import dataclasses
import decimal
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.privacy import rounding


class Tier(StrEnum):
    """Over which data sets the promise holds."""

    GLOBAL = "global"
    """Over every data set: this, and only this, is differential privacy."""
    INSTANCE = "instance"
    """For the data set at hand against each of its leave-one-out neighbours (the paper)."""


class Neighbours(StrEnum):
    """Which two data sets an observer must not tell apart."""

    ZERO_OUT = "zero-out"
    """One customer's data become "no data"; for sums and counts the same as add/remove."""
    REPLACE_ONE = "replace-one"
    """One customer's data become any other data; the number of customers is public."""


class Unit(StrEnum):
    """Whose data change between neighbours; a promise about one unit covers those after it."""

    CUSTOMER = "customer"
    CUSTOMER_MONTH = "customer-month"
    CUSTOMER_DAY = "customer-day"


_ROUND_UP = decimal.Context(prec=4, rounding=decimal.ROUND_CEILING)

_LARGEST_EXPONENT = 700.0
"""e^700 is still a float; a promise that weak says nothing anyway."""


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """An (epsilon, delta) promise with its tier, neighbouring relation and unit.

    Formal guarantee
    ----------------
    For neighbours X, X' and every set of outcomes O: P[M(X) in O] <= e^epsilon P[M(X') in O] +
    delta, and the same with X and X' exchanged. Tier `GLOBAL`: for all X. Tier `INSTANCE`: for the
    X that was released from, with the noise scale computed from X treated as known; this is not
    differential privacy.
    """

    epsilon: float
    delta: float
    tier: Tier
    neighbours: Neighbours
    unit: Unit

    def __post_init__(self) -> None:
        """Refuse numbers that promise nothing and fields of the wrong kind."""
        object.__setattr__(self, "epsilon", checks.epsilon("epsilon", self.epsilon))
        object.__setattr__(self, "delta", checks.probability_or_zero("delta", self.delta))
        checks.member("tier", self.tier, Tier)
        checks.member("neighbours", self.neighbours, Neighbours)
        checks.member("unit", self.unit, Unit)
        # Leave-one-out noise says nothing of data that were never there.
        if self.tier is Tier.INSTANCE and self.neighbours is not Neighbours.ZERO_OUT:
            raise InvalidParameterError("neighbours", "zero-out for this tier", self.neighbours)

    @property
    def sentence(self) -> str:
        """The promise in plain words, built from the fields."""
        change = {
            Neighbours.ZERO_OUT: f"one {self.unit}'s data are removed or put back",
            Neighbours.REPLACE_ONE: f"one {self.unit}'s data are replaced by any other",
        }[self.neighbours]
        factor = f"e^{self.epsilon}"
        if self.epsilon < _LARGEST_EXPONENT:
            factor = str(_ROUND_UP.create_decimal(math.exp(self.epsilon)))
        slip = f" + {self.delta}" if self.delta else ""
        limit = f"an event of probability p has probability at most {factor} p{slip} once {change}"
        numbers, whom = f"({self.epsilon}, {self.delta})", f"for each {self.unit}: "
        if self.tier is Tier.GLOBAL:
            start = f"The release is {numbers}-differentially private {whom}whatever the data, "
            return f"{start}{limit}."
        start = f"For this data set alone, the release is {numbers}-indistinguishable {whom}"
        end = "The noise scale is itself computed from the data, so this is weaker than a guarantee"
        return f"{start}{limit}. {end} over all data sets."

    def implies(self, other: Self) -> bool:
        """Whether everyone who was promised ``other`` is at least as safe with this."""
        epsilon, delta, neighbours = self.epsilon, self.delta, self.neighbours
        if (neighbours, other.neighbours) == (Neighbours.ZERO_OUT, Neighbours.REPLACE_ONE):
            epsilon, delta, neighbours = self._twice()
        return (
            self.tier == other.tier
            and neighbours == other.neighbours
            and list(Unit).index(self.unit) <= list(Unit).index(other.unit)
            and epsilon <= other.epsilon
            and delta <= other.delta
        )

    def as_replace_one(self) -> Self:
        """Return the replace-one promise that a zero-out promise implies: 2 epsilon at most."""
        if self.neighbours is Neighbours.REPLACE_ONE:
            return self
        epsilon, delta, neighbours = self._twice()
        return replace(self, epsilon=epsilon, delta=delta, neighbours=neighbours)

    def compose(self, *others: Self) -> Self:
        """Return the guarantee of several releases on the same customers (sequential composition).

        The plain sum of epsilons and of deltas, rounded up; it holds for any mechanisms.
        `accounting.Composition` gives less for Gaussian ones. Tiers, units and neighbours never
        mix.
        """
        parts = (self, *others)
        for field in ("tier", "neighbours", "unit"):
            kinds = {getattr(part, field).value for part in parts}
            if len(kinds) > 1:
                raise InvalidParameterError(field, "the same in every part", sorted(kinds))
        epsilon = rounding.sum_up(*(part.epsilon for part in parts))
        return replace(self, epsilon=epsilon, delta=rounding.sum_up(*(p.delta for p in parts)))

    def to_json(self) -> dict[str, str]:
        """Return the fields as strings; floats in the shortest form that reads back exactly."""
        kinds = {field: getattr(self, field).value for field in ("tier", "neighbours", "unit")}
        return {"epsilon": repr(self.epsilon), "delta": repr(self.delta), **kinds}

    @classmethod
    def from_json(cls, fields: object) -> Self:
        """Read what `to_json` wrote; refuse missing, unknown and malformed fields."""
        expected = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(fields, Mapping) or set(fields) != set(expected):
            raise InvalidParameterError(
                "guarantee", f"an object with the fields {expected}", fields
            )
        return cls(
            epsilon=checks.decimal("epsilon", fields["epsilon"]),
            delta=checks.decimal("delta", fields["delta"]),
            tier=checks.enum_value("tier", fields["tier"], Tier),
            neighbours=checks.enum_value("neighbours", fields["neighbours"], Neighbours),
            unit=checks.enum_value("unit", fields["unit"], Unit),
        )

    def _twice(self) -> tuple[float, float, Neighbours]:
        """Zero out the old data, then put the new data in: two steps of group privacy.

        epsilon' = 2 epsilon and delta' = (1 + e^epsilon) delta (Dwork & Roth 2014, theorem 2.2).
        """
        if self.delta == 0.0:
            return 2.0 * self.epsilon, 0.0, Neighbours.REPLACE_ONE
        # Three operations, each within an ulp of the truth, lose less than the factor adds.
        weak = self.epsilon > _LARGEST_EXPONENT
        factor = math.inf if weak else 1.0 + math.exp(self.epsilon)
        delta = rounding.up(factor * self.delta * (1.0 + 2.0**-50))
        return 2.0 * self.epsilon, delta, Neighbours.REPLACE_ONE
