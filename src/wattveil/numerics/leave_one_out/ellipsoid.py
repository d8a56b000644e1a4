"""Minimum-trace noise covariance for leave-one-out differences, with an optimality certificate.

Given differences ``v_1 … v_P`` in R^D find the covariance S of minimum trace with
``v_p' S^-1 v_p <= gamma_c`` for every p (the paper's Gamma is S^-1). With weights ``w >= 0``::

    R = sum_p w_p v_p v_p'      q_p = v_p' R^-1/2 v_p      t = tr R^1/2
    dual:    max over w of  phi(w) = 2 t - sum_p w_p,      gradient q - 1
    primal:  S = (q_max / gamma_c) R^1/2                   feasible for any w
    certificate:  tr S / optimum <= q_max sum_p w_p / t    equal to 1 at the optimum

(w on the simplex gives the usual dual; free scale removes that constraint.)

**Newton on few columns.** Only some 2 D columns carry weight. Each round maximises phi over a
working set, computes q for all columns, adds those with q > 1, and stops when the certificate over
*all* columns is within the requested gap; what was never added was screened by its q. Inside,
projected Newton steps use a bound on the curvature,

    -phi''_pq = sum_ij a_pi a_pj a_qi a_qj / (s_i s_j (s_i + s_j))  <=  1/2 (v_p' R^-3/4 v_q)^2

in the sense of matrices, a = U'v in the eigenvectors U of ``R^1/2 = U diag(s) U'``, because
``s_i + s_j >= 2 sqrt(s_i s_j)``; one product of matrices instead of D.

**Blocks.** A removal that moves one centroid touches one block of d coordinates, so removals
without label changes give K problems in R^d. Removals that move several centroids are checked
against the K solutions; the blocks of those that break them are solved jointly, and so on until
none does. A bound from some columns bounds all, so the certificate still covers the full set.

**Floor.** Eigenvalues of S below ``floor`` times the largest are raised to it: the optimum puts no
noise where no difference points. More noise keeps every constraint.

**Paper's lemma.** The closed form of the source paper is here for comparison (`paper_lemma`). It
takes the Kd differences of smallest norm that are independent, C = [v_1 … v_Kd], sets

    M = ((C'C)^1/2)_ij ^2,   u = gamma_c M^-1 1,   lambda_i = u_i^-2,
    Gamma = (sum_i lambda_i v_i v_i')^-1/2,

and claims that Gamma is the optimum for *all* differences. Constraints of the smallest differences
do not bound the large ones: on load-like data others are violated many thousand times over. The
paper does not define the root of a rectangular matrix; the reading above depends on the units of
the data, one with (C'C)^1/4 would not, and neither meets the constraint.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve, eigh, sqrtm
from threadpoolctl import threadpool_limits

from wattveil.arrays import Floats, Ints
from wattveil.compiled import compiled
from wattveil.errors import InvalidParameterError
from wattveil.numerics.kmeans.lloyd import checked_points
from wattveil.numerics.leave_one_out.leave_one_out_runs import Columns, LeaveOneOut

_ROUNDS = 100
_NEWTON_STEPS = 50
_PIVOTS = 10
_SWEEPS = 100
_FIXED_POINT_STEPS = 15
_SMALLEST = 1e-9  # of the largest eigenvalue of R^1/2: below, rounding hides the direction
_UNIT_ROUNDOFF = 2.0**-53


@dataclass(frozen=True, kw_only=True)
class Ellipsoid:
    """Coloured Gaussian noise that covers every leave-one-out difference.

    Attributes
    ----------
    whitening : (D, D)
        W with ``W' W = S^-1`` and ``|W v_p|^2 <= gamma_c`` for every p, checked with this matrix.
    factor : (D, D)
        F with ``F F' = S``, the inverse of W: white noise z in whitened coordinates becomes F z.
    gap
        Certified: ``tr S <= (1 + gap)`` times the minimum trace, the cost of the floor included.
    active, weights : (m,), (m,)
        The columns that carry weight; where blocks were solved apart, weights compare in a block.
    rounds
        Working sets solved.
    """

    whitening: Floats
    factor: Floats
    gap: float
    active: Ints
    weights: Floats
    rounds: int

    @property
    def trace(self) -> float:
        """The noise power, ``tr S``."""
        return float(np.square(self.factor).sum())


def minimum_trace_ellipsoid(
    differences: ArrayLike, *, gamma_c: float, gap: float = 1e-4, floor: float = 1e-6
) -> Ellipsoid:
    """Find the noise of minimum power for differences given as rows.

    Parameters
    ----------
    differences : (P, D)
        One row v_p' per neighbour; not all zero.
    gamma_c
        The right-hand side of every constraint: s^2 of the calibrated Gaussian mechanism.
    gap
        The relative gap to stop at; ``Ellipsoid.gap`` is the one reached.
    floor
        Minimum eigenvalue of S as a fraction of the largest.
    """
    return _ellipsoid(
        Columns.of_rows(checked_points(differences, field="differences")), gamma_c, gap, floor
    )


def leave_one_out_ellipsoid(
    runs: LeaveOneOut, *, gamma_c: float, gap: float = 1e-4, floor: float = 1e-6
) -> Ellipsoid:
    """Find the noise of minimum power for the K x d centroids, row after row, from their removals.

    Parameters are those of `minimum_trace_ellipsoid`.
    """
    return _ellipsoid(Columns.of_removals(runs), gamma_c, gap, floor)


@dataclass(frozen=True)
class _Part:
    """The optimum for gamma_c = 1 on some coordinates: ``S = U diag(eigenvalues) U'``."""

    coordinates: Ints
    eigenvectors: Floats
    eigenvalues: Floats
    trace_lower_bound: float  # a lower bound of the optimum
    active: Ints
    weights: Floats
    rounds: int


def _ellipsoid(columns: Columns, gamma_c: float, gap: float, floor: float) -> Ellipsoid:
    """Validate, then solve with one thread of BLAS.

    The matrices are small: threads of BLAS wait for each other longer than they work, fifty times
    longer on a busy machine. Columns are divided between threads instead.
    """
    if not (np.isfinite(gamma_c) and gamma_c > 0.0):
        raise InvalidParameterError("gamma_c", "positive and finite", gamma_c)
    if not 0.0 < gap < 1.0:
        raise InvalidParameterError("gap", "between 0 and 1", gap)
    if not 0.0 < floor <= 1.0:
        raise InvalidParameterError("floor", "above 0 and at most 1", floor)
    if columns.largest_norm == 0.0:
        raise InvalidParameterError("differences", "not all zero", 0.0)
    with threadpool_limits(limits=1, user_api="blas"):
        return _join_and_solve(columns, gamma_c, gap, floor)


def _join_and_solve(columns: Columns, gamma_c: float, gap: float, floor: float) -> Ellipsoid:
    """Solve block by block; join the blocks that a broken difference couples; scale and check."""
    blocks = [frozenset([k]) for k in range(columns.n_blocks)]
    solved: dict[frozenset[int], _Part] = {}
    while True:
        for block in blocks:
            if block not in solved:
                solved[block] = _solve(columns.within(sorted(block)), gap / 2.0)
        parts = [solved[block] for block in blocks]
        # The longest difference is a lower bound of the largest eigenvalue, also while no part
        # holds it: every removal may move several clusters.
        largest = max(columns.largest_norm**2, *(part.eigenvalues.max() for part in parts))
        whitening, factor = _matrices(parts, floor * largest)
        norms = columns.squared_norms(whitening)
        broken = columns.supports(np.flatnonzero(norms > 1.0 + gap / 2.0))
        joined = _join(blocks, broken)
        if joined == blocks:
            break
        blocks = joined
    # |W v| is computed to (D + 2) u |W| |v|; the scale covers that, and the check shows it.
    dimension = whitening.shape[0]
    rounding = (dimension + 2) * _UNIT_ROUNDOFF * np.linalg.norm(whitening) * columns.largest_norm
    scale = (np.sqrt(norms.max()) + 2.0 * rounding) / np.sqrt(gamma_c)
    while columns.squared_norms(whitening / scale).max() > gamma_c:
        scale *= 1.0 + 4.0 * _UNIT_ROUNDOFF
    whitening, factor = whitening / scale, factor * scale
    trace_lower_bound = sum(part.trace_lower_bound for part in parts) / gamma_c
    return Ellipsoid(
        whitening=whitening,
        factor=factor,
        gap=float(np.square(factor).sum() / trace_lower_bound - 1.0),
        active=np.concatenate([part.active for part in parts]),
        weights=np.concatenate([part.weights for part in parts]),
        rounds=max(part.rounds for part in parts),
    )


def _matrices(parts: list[_Part], lowest: float) -> tuple[Floats, Floats]:
    """Return the whitening and its inverse for gamma_c = 1, no eigenvalue below ``lowest``."""
    dimension = sum(part.coordinates.size for part in parts)
    whitening = np.zeros((dimension, dimension))
    factor = np.zeros((dimension, dimension))
    for part in parts:
        root = np.sqrt(np.maximum(part.eigenvalues, lowest))
        square = np.ix_(part.coordinates, part.coordinates)
        whitening[square] = (part.eigenvectors / root).T
        factor[square] = part.eigenvectors * root
    return whitening, factor


def _join(blocks: list[frozenset[int]], broken: set[frozenset[int]]) -> list[frozenset[int]]:
    """Unite the blocks that a broken difference touches together."""
    for support in broken:
        touched = [block for block in blocks if block & support]
        if len(touched) > 1:
            rest = [block for block in blocks if not block & support]
            blocks = [*rest, frozenset().union(*touched)]
    return blocks


def _solve(columns: Columns, gap: float) -> _Part:
    """Find the optimum for gamma_c = 1 by rounds of a growing working set."""
    dimension = columns.dimension
    if columns.largest_norm == 0.0:
        nothing = np.zeros(0)
        empty = np.zeros(0, np.int64)
        identity = np.eye(dimension)
        return _Part(columns.coordinates, identity, np.zeros(dimension), 0.0, empty, nothing, 0)
    unit = columns.largest_norm  # differences are solved in units of the largest
    working = _first_working_set(columns)
    vectors = columns.rows(working) / unit
    weights = np.full(working.size, 1.0 / working.size)
    rounds = 0
    while True:
        rounds += 1
        state = _newton(vectors, _fixed_point(vectors, weights), gap / 2.0)
        weights = state.weights
        q = columns.squared_norms((state.eigenvectors / np.sqrt(state.roots)).T) / unit**2
        outside = q > 1.0 + gap / 4.0
        outside[working] = False
        done = q.max() * weights.sum() <= (1.0 + gap) * state.safe_trace
        if done or rounds == _ROUNDS or not outside.any():
            break
        added = _largest(np.where(outside, q, 0.0), min(2 * dimension, int(outside.sum())))
        working = np.concatenate([working, added])
        vectors = np.concatenate([vectors, columns.rows(added) / unit])
        weights = np.concatenate([weights, np.full(added.size, weights[weights > 0.0].mean())])
    carry = weights > 0.0
    return _Part(
        coordinates=columns.coordinates,
        eigenvectors=state.eigenvectors,
        eigenvalues=q.max() * unit**2 * state.roots,
        trace_lower_bound=unit**2 * state.safe_trace**2 / weights.sum(),
        active=columns.identities[working[carry]],
        weights=weights[carry] / weights.sum(),
        rounds=rounds,
    )


def _first_working_set(columns: Columns) -> Ints:
    """Choose the columns that reach farthest along each principal axis of all."""
    _, axes = eigh(columns.second_moment(), driver="evd")
    return columns.farthest(axes.T, 4)


def _largest(values: Floats, count: int) -> Ints:
    return np.argpartition(values, values.size - count)[values.size - count :]


class _State:
    """Everything that follows from weights on a working set.

    ``roots`` are the eigenvalues of R^1/2, ``coordinates`` the vectors in its eigenbasis, ``q`` the
    gradient of phi plus 1, ``leverage`` the share ``w_p v_p' R^-1 v_p`` of a column in its own
    direction: the size of a weight that does not depend on the length of the column.
    """

    def __init__(self, vectors: Floats, weights: Floats) -> None:
        self.weights = weights
        carry = weights > 0.0
        active = vectors[carry] * np.sqrt(weights[carry])[:, None]
        roots, self.eigenvectors, error = _square_root(active)
        self.roots = np.maximum(roots, _SMALLEST * roots[-1])
        self.safe_trace = float(np.maximum(roots - error, 0.0).sum())
        self.phi = 2.0 * float(roots.sum()) - float(weights.sum())
        self.coordinates = vectors @ self.eigenvectors
        squares = np.square(self.coordinates)
        self.q = squares @ (1.0 / self.roots)
        self.leverage = weights * (squares @ self.roots**-2.0)


def _square_root(rows: Floats) -> tuple[Floats, Floats, Floats]:
    """Return eigenvalues and eigenvectors of ``(A'A)^1/2``, ascending, and bounds of the rounding.

    Eigenvalues of A'A are off by a few D u of the largest, so small roots by much more; singular
    values of A are off by a few D u of the largest only. They cost more and are computed if needed.
    """
    dimension = rows.shape[1]
    relative = 4.0 * dimension * _UNIT_ROUNDOFF
    values, vectors = eigh(rows.T @ rows, driver="evd")
    if values[0] > 1e-8 * values[-1]:
        roots = np.sqrt(values)
        return roots, vectors, relative * values[-1] / roots
    triangle = np.linalg.qr(rows, mode="r")
    _, roots, transposed = np.linalg.svd(triangle)
    missing = np.zeros(dimension - roots.size)
    roots = np.concatenate([missing, roots[::-1]])
    return roots, transposed[::-1].T, np.full(dimension, relative * roots[-1])


def _fixed_point(vectors: Floats, weights: Floats) -> _State:
    """Take a few steps of ``w <- w q^2``, then set to zero what they have made small.

    The multiplicative update with its power doubled: one step is exact for orthogonal differences.
    """
    for _ in range(_FIXED_POINT_STEPS):
        weights = weights * np.square(_State(vectors, weights).q)
    state = _State(vectors, weights)
    keep = (state.leverage > 1e-3) | (state.q > 1.0)
    return _State(vectors, np.where(keep, weights, 0.0))


def _newton(vectors: Floats, state: _State, gap: float) -> _State:
    """Maximise phi over ``w >= 0`` on the working set."""
    for _ in range(_NEWTON_STEPS):
        if state.q.max() * state.weights.sum() <= (1.0 + gap) * state.safe_trace:
            break
        better = _line_search(vectors, state, _newton_target(state))
        if better is None:
            break
        state = better
    return state


def _newton_target(state: _State) -> Floats:
    """Maximise the quadratic model ``g'(x - w) - 1/2 (x - w)' H (x - w)`` of phi over ``x >= 0``.

    An initial point is found by solving and dropping negative weights. The better of it and w is
    improved coordinate by coordinate: the model at the result is never below that at w, so phi
    rises on the way to it.
    """
    gradient = state.q - 1.0
    subset = np.flatnonzero((gradient > 0.0) | (state.leverage > 1e-6))
    vectors = state.coordinates[subset]
    curvature = 0.5 * np.square((vectors * state.roots**-1.5) @ vectors.T)
    # Repeated or opposite columns make it singular; any division between them is optimal.
    curvature[np.diag_indices(subset.size)] *= 1.0 + 1e-9
    weights, gradient = state.weights[subset], gradient[subset]
    target = _solve_and_drop(curvature, gradient, weights)
    step = target - weights
    if gradient @ step <= 0.5 * step @ curvature @ step:
        target = weights.copy()
    _improve_by_coordinates(curvature, gradient, weights, target)
    everything = np.zeros_like(state.weights)
    everything[subset] = target
    return everything


def _solve_and_drop(curvature: Floats, gradient: Floats, weights: Floats) -> Floats:
    """Solve ``H_FF (x_F - w_F) = g_F + H_FB w_B``, F free and B at zero; drop negatives; repeat."""
    free = np.ones(weights.size, np.bool_)
    target = np.zeros(weights.size)
    for _ in range(_PIVOTS):
        right = gradient[free] + curvature[np.ix_(free, ~free)] @ weights[~free]
        factor = cho_factor(curvature[np.ix_(free, free)], lower=True)
        target[:] = 0.0
        target[free] = weights[free] + cho_solve(factor, right)
        if target.min() >= 0.0:
            break
        free &= target > 0.0
    return np.maximum(target, 0.0)


@compiled
def _improve_by_coordinates(
    curvature: Floats, gradient: Floats, weights: Floats, target: Floats
) -> None:
    """Maximise the model along one coordinate after the other, ``x_i >= 0``, in place."""
    slope = gradient - curvature @ (target - weights)
    for _ in range(_SWEEPS):
        largest = 0.0
        for i in range(target.size):
            step = max(slope[i] / curvature[i, i], -target[i])
            if step != 0.0:
                target[i] += step
                gain = step * step * curvature[i, i]
                largest = max(largest, gain)
                for j in range(target.size):
                    slope[j] -= curvature[i, j] * step
        if largest < 1e-18:
            break


def _line_search(vectors: Floats, state: _State, target: Floats) -> _State | None:
    """Go towards the target until phi rises; None if rounding hides the rise."""
    for length in 0.5 ** np.arange(12):
        trial = _State(vectors, state.weights + length * (target - state.weights))
        if trial.phi > state.phi:
            return trial
    return None


_INDEPENDENT = 1e-8  # of a difference's norm must be new, or rounding would choose


def paper_lemma(columns: Columns) -> tuple[Floats, float]:
    """Return the lemma's colour for gamma_c = 1, and how often its own constraint is exceeded.

    The colour comes as W with W W' = violation Gamma^-1, so that every difference lies in
    |W^-1 v| <= 1. Noise as the paper draws it has covariance W W' / violation.
    """
    chosen = _smallest_independent(columns)
    root = np.real(sqrtm(chosen @ chosen.T))  # (C'C)^1/2 with C' = chosen
    u = np.linalg.solve(np.square(root), np.ones(len(chosen)))
    weighted = chosen / u[:, np.newaxis]  # sqrt(lambda_i) v_i', whatever the sign of u_i
    values, vectors = np.linalg.eigh(weighted.T @ weighted)
    fourth_root = np.maximum(values, values[-1] * 1e-24) ** 0.25  # Gamma^-1 = R^1/2 = W W'
    violation = float(columns.squared_norms((vectors / fourth_root).T).max()) * (1.0 + 1e-9)
    return vectors * fourth_root * np.sqrt(violation), violation


def _smallest_independent(columns: Columns) -> Floats:
    """Return the first independent differences in order of their norm, one per dimension."""
    order = np.argsort(columns.squared_norms(np.eye(columns.dimension)), kind="stable")
    basis = np.zeros((columns.dimension, columns.dimension))
    chosen: list[Floats] = []
    for column in order:
        row = columns.rows(np.array([column]))[0]
        rest = row - basis.T @ (basis @ row)
        rest -= basis.T @ (basis @ rest)  # once more: the first pass leaves rounding errors
        length = np.linalg.norm(rest)
        if length > _INDEPENDENT * np.linalg.norm(row):
            basis[len(chosen)] = rest / length
            chosen.append(row)
        if len(chosen) == columns.dimension:
            return np.array(chosen)
    rule = f"such that removals span its {columns.dimension} directions, for the paper's lemma"
    raise InvalidParameterError("X", rule, f"{len(chosen)} directions")
