"""Which released segments the noise supports: curves that differ, sizes above their noise.

Post-processing: everything is computed from released curves, counts and their standard errors, so
that it costs no privacy and anyone with the tables of a bundle can compute it again.
"""

from typing import NamedTuple

import numpy as np

from wattveil.arrays import Bools, Floats

STANDARD_ERRORS = 2.0
"""Standard errors that a difference, or a size, must exceed."""


class SegmentSupport(NamedTuple):
    """Two flags per segment."""

    curve: Bools
    """Whether the curve is distinguishable from those of the other segments."""
    size: Bools
    """Whether the number of customers exceeds 2 standard errors."""

    @property
    def supported(self) -> Bools:
        """Whether both hold: noise explains neither the curve nor the size."""
        return self.curve & self.size


def segment_support(
    curves: Floats, curves_std: Floats, counts: Floats, counts_std: Floats
) -> SegmentSupport:
    """Return the flags of all segments of one group of customers.

    Parameters
    ----------
    curves, curves_std
        Released curves with their standard errors: one row per segment, one column per slot.
    counts, counts_std
        Released numbers of customers with their standard errors.
    """
    variance = np.square(curves_std).sum(axis=1)
    return SegmentSupport(
        curve=distinguishable_curves(curves, variance, counts, counts_std),
        size=counts > STANDARD_ERRORS * counts_std,
    )


def distinguishable_curves(
    curves: Floats, variance: Floats, counts: Floats, counts_std: Floats
) -> Bools:
    r"""Return which curves differ pairwise by more than noise.

    The squared standard error of the difference of curves i and j, over all T slots together, is
    V_i + V_j with V_i = sum_t std_i(t)^2. The two are distinguishable if

        sqrt(sum_t (c_i(t) - c_j(t))^2) > 2 sqrt(V_i + V_j).

    Curves are taken in order of V, the most certain first, and one is distinguishable if it differs
    so from every curve that was found distinguishable before it. Of two curves that agree, one
    thus counts; a curve so uncertain that it may be any of the others takes nothing from them. A
    segment whose count is within one standard error of 0 may be empty, and does not count. If
    all may be empty, the most certain curve counts.

    Parameters
    ----------
    curves
        One row per segment: slots, or coordinates in an orthonormal basis.
    variance
        V, the noise variance of each curve, summed over its columns.
    counts, counts_std
        Numbers of customers with their standard errors.
    """
    differ = differing_pairs(curves, variance)
    by_certainty = np.argsort(variance, kind="stable")
    taken: list[int] = []
    for segment in by_certainty[(counts > counts_std)[by_certainty]]:
        if differ[segment, taken].all():
            taken.append(int(segment))
    found = np.zeros(len(curves), dtype=np.bool_)
    found[taken or by_certainty[:1]] = True
    return found


def differing_pairs(curves: Floats, variance: Floats) -> Bools:
    """Return for each pair of curves whether they differ by more than 2 standard errors.

    Parameters
    ----------
    curves, variance
        As in `distinguishable_curves`.
    """
    apart = np.square(curves[:, None] - curves[None]).sum(axis=2)
    found: Bools = apart > STANDARD_ERRORS**2 * (variance[:, None] + variance[None])
    return found
