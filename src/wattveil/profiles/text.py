"""Numbers and curves as text."""

import math

import numpy as np
from numpy.typing import NDArray

_MARKS = "▁▂▃▄▅▆▇█"
_WHOLE = 1000.0  # from here on, no decimals


def shown(number: float) -> str:
    """Return a number as tables show it."""
    if math.isnan(number):
        return "none"
    if math.isinf(number):
        return "∞" if number > 0.0 else "-∞"
    return f"{number:,.0f}" if abs(number) >= _WHOLE else f"{number:.3g}"


def line_of(curve: NDArray[np.float64]) -> str:
    """Draw a curve in one line, from its least to its largest value."""
    height = max(float(np.ptp(curve)), 1e-12)
    return "".join(_MARKS[round(7 * (value - curve.min()) / height)] for value in curve)
