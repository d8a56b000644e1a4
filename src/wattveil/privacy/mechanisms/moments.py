"""Symmetric Gaussian noise on a second-moment matrix."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wattveil.privacy.budget import Budget
from wattveil.privacy.mechanisms.gaussian import NoisyVector, gaussian_sum
from wattveil.privacy.secret import Released, Secret
from wattveil.privacy.sensitivity import FloatArray, OuterProductBall


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyMatrix:
    """A released symmetric matrix. It may have negative eigenvalues: projecting it is free."""

    triangle: NoisyVector
    """The upper triangle with off-diagonal entries times sqrt 2, as it was drawn."""
    columns: int

    @cached_property
    def value(self) -> FloatArray:
        """The matrix, in squared units of the data."""
        return self._unpack(self.triangle.value)

    @cached_property
    def std(self) -> FloatArray:
        """The standard deviation of the noise of each entry: sqrt 2 less off the diagonal."""
        return self._unpack(self.triangle.std)

    def _unpack(self, triangle: FloatArray) -> FloatArray:
        first, second = np.triu_indices(self.columns)
        matrix = np.zeros((self.columns, self.columns))
        matrix[first, second] = triangle / np.where(first == second, 1.0, np.sqrt(2.0))
        matrix[second, first] = matrix[first, second]
        return matrix


def gaussian_second_moment(
    rows: Secret[FloatArray], *, radius: float, rho_units: int, budget: Budget, tag: str
) -> Released[NoisyMatrix]:
    """Release the sum over customers of x x', with |x| clipped to ``radius``.

    The paper adds Wishart noise instead, which is not differentially private: it only ever adds,
    so an output below the neighbour's exact matrix tells the two apart (see the proof page).

    Formal guarantee
    ----------------
    As `gaussian_sum` over the upper triangle scaled to keep the Frobenius norm: sensitivity
    radius^2 for zero-out, sqrt 2 radius^2 for replace-one. Proof: docs/proofs/second-moment.md.
    """
    released = gaussian_sum(
        rows, region=OuterProductBall(radius=radius), rho_units=rho_units, budget=budget, tag=tag
    )
    matrix = NoisyMatrix(triangle=released.value, columns=rows.reveal().shape[1])
    return Released(value=matrix, spends=released.spends, rehearsal=released.rehearsal)
