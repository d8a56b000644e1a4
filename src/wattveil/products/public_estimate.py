"""Public estimate of the number of customers: how it is rounded, and which delta it permits.

The estimate is published. The exact number would reveal whether one customer is in the data: it
differs with and without that customer. So an estimate is rounded before it is stored or shown.

>>> rounded_customers(1409)
1000
>>> rounding_note(1409)
'public estimate of customers: 1,409 rounded to 1,000'
"""

import itertools

MAX_CUSTOMERS = 10**12
"""Largest estimate that is accepted; on the 1-2-5 grid."""

ROUNDING_RULE = "rounded to 1, 2 or 5 times a power of ten"


def rounded_customers(customers: int) -> int:
    """Return the nearest of 1, 2, 5, 10, 20, 50, ... on a logarithmic scale, for at least 1.

    In whole numbers: n is nearer to ``low`` than to ``high`` where n^2 < low high. There are no
    ties, since no such product (2, 10 or 50 times a power of 100) is a square.
    """
    power: int = 10 ** (len(str(customers)) - 1)
    steps = (power, 2 * power, 5 * power, 10 * power)
    for low, high in itertools.pairwise(steps):
        if customers * customers < low * high:
            return low
    return steps[-1]


def rounding_note(customers: int) -> str | None:
    """Return one line that states how an estimate was rounded; None if it was not."""
    rounded = rounded_customers(customers)
    if rounded == customers:
        return None
    return f"public estimate of customers: {customers:,} rounded to {rounded:,}"


def delta_warning(delta: float, customers: int) -> str | None:
    """Return a warning if delta is at or above 1/customers; None below it.

    A mechanism that publishes the whole record of each customer with probability delta satisfies
    (0, delta)-differential privacy; at delta = 1/customers it exposes one customer on average. Both
    numbers are public.
    """
    if delta < 1.0 / customers:
        return None
    return (
        f"delta = {delta:g} is not below 1/customers = {1.0 / customers:g}, for the public estimate"
        f" of {customers:,} customers: such a guarantee permits the exposure of whole customers."
        " Rule of thumb: choose delta well below 1/customers."
    )
