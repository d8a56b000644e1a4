"""Public estimates of the number and size of customers.

Estimates are published. An exact number would reveal whether one customer is in the data: number
and median differ with and without that customer. So estimates are rounded before they are stored or
shown.

>>> rounded_customers(1409)
1000
>>> rounded_kw(0.5417)
0.5
>>> rounded_meters(1409)
1400
>>> rounding_notes({"customers": 1409, "typical_kw": 0.5})
['public estimate of the number of customers: 1,409, rounded to 1,000']
"""

import itertools
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

MAX_CUSTOMERS = 10**12
"""Largest estimate that is accepted; on the 1-2-5 grid."""
MIN_TYPICAL_KW, MAX_TYPICAL_KW = 1e-6, 1e6
"""Range of the median size that is accepted; powers of ten."""

ROUNDING_RULE = "rounded to 1, 2 or 5 times a power of ten"
KW_ROUNDING_RULE = (
    "rounded to 1, 1.25, 1.6, 2, 2.5, 3.15, 4, 5, 6.3 or 8 times a power of ten (R10 of ISO 3)"
)

_STEPS = ("1", "2", "5", "10")
_FEW_METERS = 1_000
_KW_STEPS = ("1", "1.25", "1.6", "2", "2.5", "3.15", "4", "5", "6.3", "8", "10")
"""Finer than those of customers: expected errors are in proportion to the size, and the epsilon of
a target error of clusters grows with about its fourth power."""


def rounded_customers(customers: int) -> int:
    """Return the nearest of 1, 2, 5, 10, 20, 50, ... on a logarithmic scale, for at least 1."""
    return int(_nearest_step(Decimal(customers), _STEPS))


def rounded_kw(kw: float) -> float:
    """Return the nearest of the preferred numbers R10 on a logarithmic scale, for a positive kw."""
    return float(_nearest_step(Decimal(kw), _KW_STEPS))


def rounded_meters(meters: int) -> int:
    """Return a positive number rounded to two significant digits: finer, since a share follows.

    Two digits of a number below 1,000 may distinguish one customer more: those are coarser.
    """
    return (
        rounded_customers(meters) if meters < _FEW_METERS else round(meters, 2 - len(str(meters)))
    )


def _nearest_step(value: Decimal, steps: Sequence[str]) -> Decimal:
    """Return the nearest of these steps, from 1 to 10, times a power of ten; computed exactly.

    A number x is nearer to ``low`` than to ``high`` where x^2 < low high. There are no ties, since
    no such product is the square of a fraction.
    """
    power = value.adjusted()
    for low, high in itertools.pairwise(Decimal(step).scaleb(power) for step in steps):
        if Fraction(value) ** 2 < Fraction(low) * Fraction(high):
            return low
    return Decimal(steps[-1]).scaleb(power)


def rounding_notes(given: Mapping[str, object]) -> list[str]:
    """Return one line for each estimate, by the name of its field, that is rounded."""
    notes = []
    customers, typical_kw = given.get("customers"), given.get("typical_kw")
    if isinstance(customers, int) and (whole := rounded_customers(customers)) != customers:
        notes += [
            f"public estimate of the number of customers: {customers:,}, rounded to {whole:,}"
        ]
    if isinstance(typical_kw, float) and (size := rounded_kw(typical_kw)) != typical_kw:
        notes += [f"public estimate of the median size: {typical_kw!r} kW, rounded to {size!r} kW"]
    return notes
