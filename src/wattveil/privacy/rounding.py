"""Numbers rounded to a known side: costs and scales up, budgets down."""

import math
import struct
from collections.abc import Callable
from fractions import Fraction


def up(value: float) -> float:
    """Return the next float above."""
    return math.nextafter(value, math.inf)


def fraction_up(value: Fraction) -> float:
    """Return the least float not below ``value``."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else up(nearest)


def sum_up(*values: float) -> float:
    """Return the least float not below the exact sum."""
    return fraction_up(sum(map(Fraction, values), Fraction(0)))


def last_accepted(accepts: Callable[[int], bool], low: int, high: int) -> int:
    """Return the largest accepted integer of [low, high).

    ``accepts`` goes from true to false once; ``low`` is taken as accepted, ``high`` as refused.
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if accepts(middle) else (low, middle)
    return low


def largest_float(accepts: Callable[[float], bool], *, low: float, high: float) -> float:
    """Return the largest accepted float of [low, high); see `last_accepted`."""
    last = last_accepted(lambda i: accepts(_float_at(i)), _ordinal(low), _ordinal(high))
    return _float_at(last)


def least_float(accepts: Callable[[float], bool], *, low: float, high: float) -> float:
    """Return the least accepted float of (low, high]; ``accepts`` goes from false to true once."""
    refused = last_accepted(lambda i: not accepts(_float_at(i)), _ordinal(low), _ordinal(high))
    return _float_at(refused + 1)


def _ordinal(value: float) -> int:
    """Return the place of a float >= 0 among all floats: neighbours differ by one."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def _float_at(ordinal: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", ordinal))[0])
