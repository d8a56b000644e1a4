"""The grant of one release, charged before anything is computed.

A `Budget` turns an (epsilon, delta) promise into amounts that add exactly: whole units of rho for
Gaussian parts, and a plain (epsilon, delta) set aside for randomised labels. Every mechanism
charges it first and touches the data afterwards; a crash in between costs budget, never privacy.
The list of charges is the transcript that a release statement shows.

>>> from wattveil.privacy.guarantee import Guarantee, Neighbours, Tier, Unit
>>> kind = {"tier": Tier.GLOBAL, "neighbours": Neighbours.ZERO_OUT, "unit": Unit.CUSTOMER}
>>> budget = Budget(Guarantee(epsilon=1.0, delta=1e-6, **kind))
>>> budget.rho_units  # 1e-18 each: rho = 0.028
28014...
"""

import threading
from dataclasses import dataclass, field, replace
from fractions import Fraction

from wattveil import checks
from wattveil.errors import BudgetExceededError, InvalidParameterError
from wattveil.privacy import rounding
from wattveil.privacy.accounting import Composition
from wattveil.privacy.guarantee import Guarantee

# The share of epsilon kept for the difference between discrete and continuous noise. On our grids
# the true difference is below 1e-10; what is kept covers 10^9 released numbers.
_ETA_SHARE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Spend:
    """One charge: who asked, through which mechanism, and what it may learn."""

    tag: str
    mechanism: str
    rho_units: int = 0
    response_epsilon: float = 0.0
    response_delta: float = 0.0
    eta: float = 0.0
    drawn: dict[str, float] = field(default_factory=dict)
    """For a release statement, of a Gaussian draw: how many ``numbers``, and on the integer grid
    the ``squared`` sensitivity, the noise ``scale`` and the size of a ``step``."""

    def __post_init__(self) -> None:
        """Keep Python's own integers: they do not overflow when added up."""
        object.__setattr__(self, "rho_units", checks.integer("rho_units", self.rho_units, least=0))


class Budget:
    """What one release may spend, and what it has spent.

    Parameters
    ----------
    guarantee : Guarantee
        The promise of the whole release.
    response_epsilon, response_delta : float
        The part set aside in advance for mechanisms with a plain (epsilon, delta) price. What the
        exact composition leaves beside it becomes `rho_units`.

    Formal guarantee
    ----------------
    However the charges are ordered and chosen, also by earlier answers, what is computed under
    this budget satisfies ``guarantee``. Proof: docs/proofs/accounting.md.
    """

    def __init__(
        self, guarantee: Guarantee, *, response_epsilon: float = 0.0, response_delta: float = 0.0
    ) -> None:
        self.guarantee = guarantee
        aside = Composition(
            response_epsilon=response_epsilon,
            response_delta=response_delta,
            eta=_ETA_SHARE * guarantee.epsilon,
        )
        self.rho_units = self._largest_rho(aside)
        self.grant = replace(aside, rho_units=self.rho_units)
        self._spends: list[Spend] = []
        self._lock = threading.Lock()

    @property
    def spends(self) -> tuple[Spend, ...]:
        """Every charge so far, in order."""
        return tuple(self._spends)

    @property
    def remaining_rho_units(self) -> int:
        """What is left for Gaussian mechanisms."""
        return self.rho_units - sum(spend.rho_units for spend in self._spends)

    def share(self, fraction: float) -> int:
        """Return this part of the whole Gaussian grant in units, rounded down."""
        return int(Fraction(checks.positive("fraction", fraction)) * self.rho_units)

    def charge(self, spend: Spend) -> Spend:
        """Record the charge or refuse it; only then may the caller touch the data."""
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
        """Return the most units of rho that keep the promise beside what is set aside."""
        epsilon, delta = self.guarantee.epsilon, self.guarantee.delta

        def keeps_the_promise(units: int) -> bool:
            return replace(aside, rho_units=units).delta(epsilon) <= delta

        if replace(aside, eta=0.0).delta(epsilon) > delta:
            raise InvalidParameterError(
                "response_epsilon, response_delta",
                f"within the promise ({epsilon}, {delta})",
                (aside.response_epsilon, aside.response_delta),
            )
        above = 1
        while keeps_the_promise(above):
            above *= 2
        return rounding.last_accepted(keeps_the_promise, 0, above)
