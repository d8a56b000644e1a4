"""What a distance says once chance and a control stand beside it."""

import math
from enum import StrEnum

NOISE_QUANTILE = 0.95


class Verdict(StrEnum):
    """What a metric says of synthetic customers."""

    INSIDE = "inside noise"
    """No farther from real customers than other real ones are, and the control is farther."""
    DETECTABLE = "detectable"
    """Farther than 95 % of other real customers."""
    NO_PROOF = "control passes too"
    """Inside noise, but so are customers that only follow cluster centroids: it proves nothing."""


def ratio_to_noise(distance: float, noise: float) -> float:
    """Return distance over noise: 0 without distance, infinite where real ones never differ."""
    if distance == 0.0:
        return 0.0
    return distance / noise if noise > 0.0 else math.copysign(math.inf, distance)


def verdict_of(ratio: float, control_ratio: float) -> Verdict:
    """Return the verdict for the ratios of the synthetic customers and of the control."""
    if ratio > 1.0:
        return Verdict.DETECTABLE
    return Verdict.INSIDE if control_ratio > 1.0 else Verdict.NO_PROOF
