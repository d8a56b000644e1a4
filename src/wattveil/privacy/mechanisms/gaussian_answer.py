"""Gaussian noise on an answer that is not a sum (instance tier).

An `Ellipsoid` contains the differences of the answer between neighbours. Noise is isotropic in the
coordinates in which the ellipsoid is the unit ball; transforming back is post-processing.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from operator import mul

import numpy as np

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.privacy import noise
from wattveil.privacy.guarantee import Budget, Spend, Tier
from wattveil.privacy.mechanisms.contributions import STEP, UNIT
from wattveil.privacy.mechanisms.gaussian import charge_gaussian
from wattveil.privacy.opening import reveal
from wattveil.privacy.private_data import Released, Secret

_MAX_STEP = 2**61
"""Answers saturate here: int64 cannot overflow, and no distance between answers increases."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Ellipsoid:
    """The vectors x with |W^-1 x| <= 1 for a matrix W: noise has the covariance of W W'."""

    shape: Floats

    def __post_init__(self) -> None:
        """Refuse a matrix whose inverse cannot be computed accurately."""
        if self.shape.ndim != 2 or len(set(self.shape.shape)) != 1:  # noqa: PLR2004 - a matrix
            raise InvalidParameterError("shape", "a square matrix", self.shape.shape)
        own = np.array(self.shape, dtype=np.float64)  # a copy that no other code can change
        own.setflags(write=False)
        finite = np.isfinite(own).all()
        axes = np.linalg.svd(own, compute_uv=False) if finite else np.array([math.inf])
        # Within 1e-100 and 1e100 nothing overflows; a ratio of 1e10 leaves 6 digits to the inverse.
        if not 1e-100 < axes[-1] <= axes[0] < min(1e100, 1e10 * axes[-1]):  # noqa: PLR2004 - see rule
            rule = "finite and of condition number below 1e10, semi-axes between 1e-100 and 1e100"
            raise InvalidParameterError("shape", rule, f"semi-axes {axes[-1]:.1e} to {axes[0]:.1e}")
        object.__setattr__(self, "shape", own)

    @cached_property
    def whiten(self) -> Floats:
        """W^-1."""
        return np.asarray(np.linalg.inv(self.shape), dtype=np.float64)

    def round_answer(self, vector: Floats) -> Ints:
        """Return an answer whitened and rounded to whole steps."""
        # In fractions: a float product errs by more than a step when the answer is long.
        answer = [Fraction(entry) / Fraction(STEP) for entry in vector.tolist()]
        steps = [round(sum(map(mul, map(Fraction, row), answer))) for row in self.whiten.tolist()]
        return np.array([min(max(step, -_MAX_STEP), _MAX_STEP) for step in steps])

    @cached_property
    def answer_sensitivity(self) -> int:
        """The maximum distance, in steps, of two rounded answers that differ within the ellipsoid.

        With A the computed inverse |A W u| <= 1 + |A W - I|; the second term of ``error`` bounds
        the rounding error of this product. Rounding moves each answer by at most sqrt(D)/2 steps.
        """
        numbers = len(self.shape)
        error = float(np.linalg.norm(self.whiten @ self.shape - np.eye(numbers)))
        sizes = float(np.linalg.norm(self.whiten) * np.linalg.norm(self.shape))
        longest = 1.0 + 1.01 * (error + numbers * 2.0**-52 * sizes)
        return math.ceil(UNIT * longest) + math.isqrt(numbers - 1) + 1


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyAnswer:
    """A released answer: integers on the grid of whitened coordinates, with their scale."""

    steps: Ints
    noise_scale: float
    """Standard deviation of the noise of each integer, in steps."""
    differences: Ellipsoid

    @cached_property
    def value(self) -> Floats:
        """The answer in the coordinates of the data: W (k step)."""
        return self.differences.shape @ (self.steps * STEP)

    @cached_property
    def covariance(self) -> Floats:
        """The covariance of the noise in ``value``: known, not estimated."""
        factor = self.differences.shape * (self.noise_scale * STEP)
        return factor @ factor.T


def gaussian_answer(
    answer: Secret[Floats], *, differences: Ellipsoid, rho_units: int, budget: Budget, tag: str
) -> Released[NoisyAnswer]:
    """Release an answer that is not a sum, with noise shaped like its differences.

    Formal guarantee
    ----------------
    The caller ensures that the answers on any two neighbours differ by a vector inside
    ``differences``. Then the released integers are rho-zCDP for those neighbours. ``differences``
    is computed from the data, so this holds for the data at hand only: a budget of the global tier
    is refused. Proof: docs/proofs/coloured-gaussian.md.
    """
    if budget.guarantee.tier is not Tier.INSTANCE:
        raise InvalidParameterError("tier", "instance for an answer that is not a sum", "global")
    scale, spend = charge_gaussian(
        Spend(tag=tag, mechanism="gaussian_answer", rho_units=rho_units),
        budget,
        squared_sensitivity=differences.answer_sensitivity**2,
        numbers=len(differences.shape),
    )
    vector = checks.numbers("answer", reveal(answer))
    if vector.shape != (len(differences.shape),):
        rule = f"a vector of {len(differences.shape)} numbers"
        raise InvalidParameterError("answer", rule, f"{vector.ndim} axes")
    if not np.isfinite(vector).all():
        raise InvalidDataError("every value is finite (no NaN, no infinity)", [])
    steps = noise.add_discrete_gaussian(differences.round_answer(vector), scale=scale)
    noisy = NoisyAnswer(steps=steps, noise_scale=scale, differences=differences)
    return Released(value=noisy, spends=(spend,), simulated=noise.is_simulated())
