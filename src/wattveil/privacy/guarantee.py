"""Privacy guarantee of a release, and the budget that enforces it.

A `Guarantee` states (epsilon, delta) with its tier, neighbouring relation and unit:

>>> guarantee = Guarantee(epsilon=1.0, delta=1e-6, tier=Tier.GLOBAL,
...                     neighbours=Neighbours.ZERO_OUT, unit=Unit.CUSTOMER)
>>> print(guarantee.sentence)
The release is (1.0, 1e-06)-differentially private for each customer: for any data set, adding or \
removing one customer's data can raise the probability of any outcome from p to at most \
2.719 p + 1e-06.

A `Budget` turns it into amounts that add exactly: whole units of rho for Gaussian mechanisms, and
a plain (epsilon, delta) reserved for randomised labels. Every mechanism charges the budget before
it reads private data: a crash in between costs budget, never privacy. The list of charges is the
transcript in the manifest of a release.

>>> Budget(guarantee).rho_units  # 1e-18 each: rho = 0.028
28014...
"""

import dataclasses
import decimal
import math
import threading
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Self, final

from wattveil import checks
from wattveil.errors import BudgetExceededError, InvalidParameterError
from wattveil.privacy import accounting
from wattveil.privacy.accounting import Composition


class Tier(StrEnum):
    """The data sets over which the guarantee holds."""

    GLOBAL = "global"
    """Over every data set: this, and only this, is differential privacy."""
    INSTANCE = "instance"
    """For the data set at hand against each of its leave-one-out neighbours (the paper)."""


class Neighbours(StrEnum):
    """Neighbouring relation: the pairs of data sets that must be indistinguishable."""

    ZERO_OUT = "zero-out"
    """One customer's data become "no data"; for sums and counts the same as add/remove."""
    REPLACE_ONE = "replace-one"
    """One customer's data become any other data; the number of customers is public."""


class Unit(StrEnum):
    """Unit of privacy: the data that change between neighbours; a unit covers those after it."""

    CUSTOMER = "customer"
    CUSTOMER_MONTH = "customer-month"
    CUSTOMER_DAY = "customer-day"


_ROUND_UP = decimal.Context(prec=4, rounding=decimal.ROUND_CEILING)

_LARGEST_EXPONENT = 700.0
"""e^700 is still a float; a guarantee that weak protects nothing."""

_LARGEST_SHOWN = 20.0
"""Up to e^20, 485 million, the factor is written as a number, and above it as a power."""


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """An (epsilon, delta) guarantee with its tier, neighbouring relation and unit.

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
        """Refuse numbers out of range and fields of the wrong type."""
        object.__setattr__(self, "epsilon", checks.epsilon("epsilon", self.epsilon))
        object.__setattr__(self, "delta", checks.probability_or_zero("delta", self.delta))
        checks.member("tier", self.tier, Tier)
        checks.member("neighbours", self.neighbours, Neighbours)
        checks.member("unit", self.unit, Unit)
        # Leave-one-out noise does not cover data that were never present.
        if self.tier is Tier.INSTANCE and self.neighbours is not Neighbours.ZERO_OUT:
            raise InvalidParameterError("neighbours", "zero-out for this tier", self.neighbours)

    @property
    def sentence(self) -> str:
        """The guarantee as an English sentence, built from the fields."""
        is_global = self.tier is Tier.GLOBAL
        # The noise of the instance tier does not cover data that were never present.
        verb = "adding or removing" if is_global else "removing or restoring"
        change = f"{verb} one {self.unit}'s data"
        if self.neighbours is Neighbours.REPLACE_ONE:
            change = f"replacing one {self.unit}'s data with any other data"
        factor = f"e^{self.epsilon}"
        if self.epsilon < _LARGEST_SHOWN:
            factor = f"{_ROUND_UP.create_decimal(math.exp(self.epsilon)):,f}"
        slip = f" + {self.delta}" if self.delta else ""
        effect = f"raise the probability of any outcome from p to at most {factor} p{slip}"
        if is_global:
            start = f"The release is ({self.epsilon}, {self.delta})-differentially private for each"
            return f"{start} {self.unit}: for any data set, {change} can {effect}."
        start = "If the noise scale, and the labels published without noise, were the same with and"
        end = "They are not: both are computed from the data. No bound holds for the release as a"
        return f"{start} without the {self.unit}, {change} could {effect}. {end} whole."

    def implies(self, other: Self) -> bool:
        """Whether this guarantee is at least as strong as ``other``."""
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
        """Return the replace-one guarantee that a zero-out guarantee implies: 2 epsilon at most."""
        if self.neighbours is Neighbours.REPLACE_ONE:
            return self
        epsilon, delta, neighbours = self._twice()
        return replace(self, epsilon=epsilon, delta=delta, neighbours=neighbours)

    def compose(self, *others: Self) -> Self:
        """Return the guarantee of several releases on the same customers (sequential composition).

        The plain sum of epsilons and of deltas, rounded up; it holds for any mechanisms.
        `accounting.Composition` gives a smaller total for Gaussian ones. All parts must have the
        same tier, unit and neighbours.
        """
        parts = (self, *others)
        for field in ("tier", "neighbours", "unit"):
            kinds = {getattr(part, field).value for part in parts}
            if len(kinds) > 1:
                raise InvalidParameterError(field, "the same in every part", sorted(kinds))
        epsilon = accounting.sum_up(*(part.epsilon for part in parts))
        return replace(self, epsilon=epsilon, delta=accounting.sum_up(*(p.delta for p in parts)))

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
        delta = accounting.up(factor * self.delta * (1.0 + 2.0**-50))
        return 2.0 * self.epsilon, delta, Neighbours.REPLACE_ONE


def global_guarantee(*, epsilon: float, delta: float) -> Guarantee:
    """Return (epsilon, delta)-DP for zero-out of one customer: the guarantee of every product."""
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        tier=Tier.GLOBAL,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit.CUSTOMER,
    )


# The share of epsilon kept for the difference between discrete and continuous noise. On our grids
# the true difference is below 1e-10; what is kept covers 10^9 released numbers.
_ETA_SHARE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Spend:
    """One charge to a budget: the query, its mechanism and its privacy cost."""

    tag: str
    mechanism: str
    rho_units: int = 0
    response_epsilon: float = 0.0
    response_delta: float = 0.0
    eta: float = 0.0
    drawn: dict[str, float] = dataclasses.field(default_factory=dict)
    """Parameters of a Gaussian draw, for the manifest: how many ``numbers``, and on the integer
    grid the ``squared`` sensitivity, the noise ``scale`` and the size of a ``step``."""

    def __post_init__(self) -> None:
        """Convert to Python integers: they do not overflow when added up."""
        units = checks.integer("rho_units", self.rho_units, minimum=0)
        object.__setattr__(self, "rho_units", units)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Budget:
    """Privacy budget of one release: what it may spend, and what it has spent.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee of the whole release.
    response_epsilon, response_delta : float
        Reserved in advance for mechanisms with a plain (epsilon, delta) cost. `rho_units` is what
        the exact composition leaves for Gaussian mechanisms.

    Formal guarantee
    ----------------
    However the charges are ordered and chosen, also by earlier answers, what is computed under
    this budget satisfies ``guarantee``. Proof: docs/proofs/accounting.md.
    """

    guarantee: Guarantee
    _: KW_ONLY
    response_epsilon: float = 0.0
    response_delta: float = 0.0
    grant: Composition = dataclasses.field(init=False)
    """What may be spent of each measure."""
    _spends: list[Spend] = dataclasses.field(init=False, default_factory=list)
    _lock: threading.Lock = dataclasses.field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Compute the grant."""
        aside = Composition(
            response_epsilon=self.response_epsilon,
            response_delta=self.response_delta,
            eta=_ETA_SHARE * self.guarantee.epsilon,
        )
        object.__setattr__(self, "grant", replace(aside, rho_units=self._largest_rho(aside)))

    @property
    def rho_units(self) -> int:
        """Units of rho granted to Gaussian mechanisms."""
        return self.grant.rho_units

    @property
    def spends(self) -> tuple[Spend, ...]:
        """Every charge so far, in order."""
        return tuple(self._spends)

    @property
    def remaining_rho_units(self) -> int:
        """Units of rho left for Gaussian mechanisms."""
        return self.rho_units - sum(spend.rho_units for spend in self._spends)

    def share(self, fraction: float) -> int:
        """Return this part of the whole Gaussian grant in units, rounded down."""
        return int(Fraction(checks.positive("fraction", fraction)) * self.rho_units)

    def charge(self, spend: Spend) -> Spend:
        """Record the charge or refuse it; the caller reads private data only afterwards."""
        with self._lock:
            for resource in ("rho_units", "response_epsilon", "response_delta", "eta"):
                spent = [getattr(earlier, resource) for earlier in self._spends]
                remaining = Fraction(getattr(self.grant, resource)) - sum(map(Fraction, spent))
                requested = getattr(spend, resource)
                checks.non_negative(resource, requested)
                if Fraction(requested) > remaining:
                    raise BudgetExceededError(resource, requested, float(remaining))
            self._spends.append(spend)
        return spend

    def _largest_rho(self, aside: Composition) -> int:
        """Return the maximum units of rho that keep the guarantee beside what is reserved."""
        epsilon, delta = self.guarantee.epsilon, self.guarantee.delta

        def keeps_guarantee(units: int) -> bool:
            return replace(aside, rho_units=units).delta(epsilon) <= delta

        if replace(aside, eta=0.0).delta(epsilon) > delta:
            found = (aside.response_epsilon, aside.response_delta)
            rule = f"within the guarantee ({epsilon}, {delta})"
            raise InvalidParameterError("response_epsilon, response_delta", rule, found)
        above = 1
        while keeps_guarantee(above):
            above *= 2
        return accounting.last_accepted(keeps_guarantee, 0, above)
