"""The minimum-trace ellipsoid against closed forms, CVXPY and its own certificate."""

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.kmeans.lloyd import LloydResult, k_means
from wattveil.numerics.leave_one_out.ellipsoid import (
    Ellipsoid,
    leave_one_out_ellipsoid,
    minimum_trace_ellipsoid,
)
from wattveil.numerics.leave_one_out.leave_one_out_runs import LeaveOneOut, leave_one_out

cp = pytest.importorskip("cvxpy")  # typed in part only: Any here


def assert_hides(ellipsoid: Ellipsoid, differences: Floats, gamma_c: float) -> None:
    """Check every constraint with the whitening itself, and that the factor is its inverse."""
    assert np.square(differences @ ellipsoid.whitening.T).sum(axis=1).max() <= gamma_c
    np.testing.assert_allclose(
        ellipsoid.whitening @ ellipsoid.factor, np.eye(differences.shape[1]), atol=1e-8
    )


def dense(runs: LeaveOneOut) -> Floats:
    """Return all differences as rows."""
    return np.stack([runs.difference(p).ravel() for p in range(runs.labels.size)])


def load_like(seed: int, n_points: int, d: int, n_clusters: int) -> tuple[Floats, LloydResult]:
    """Return smooth positive profiles of different sizes, clustered."""
    generator = np.random.default_rng(seed)
    hours = np.linspace(0.0, 24.0, d, endpoint=False)
    peaks = generator.uniform([6, 16], [11, 22], size=(n_clusters, 2))
    shapes = 0.3 + np.exp(-0.5 * np.square((hours - peaks[:, :1]) / 2.5))
    shapes += 1.5 * np.exp(-0.5 * np.square((hours - peaks[:, 1:]) / 3.0))
    sizes = np.exp(0.3 * generator.normal(size=(n_points, 1)))
    noise = np.exp(0.25 * generator.normal(size=(n_points, d)))
    points = shapes[generator.integers(n_clusters, size=n_points)] * sizes * noise
    return points, k_means(points, n_clusters, seed=generator, n_init=2)


def optimum_by_cvxpy(differences: Floats) -> float:
    """Solve the semidefinite program for gamma_c = 1: min tr T, [[T, I], [I, Gamma]] >= 0."""
    d = differences.shape[1]
    scale = np.linalg.norm(differences, axis=1).max()
    both = cp.Variable((2 * d, 2 * d), PSD=True)
    gamma = both[d:, d:]
    rows = differences / scale
    forms = cp.sum(cp.multiply(rows @ gamma, rows), axis=1)
    problem = cp.Problem(
        cp.Minimize(cp.trace(both[:d, :d])), [both[:d, d:] == np.eye(d), forms <= 1]
    )
    return float(problem.solve(solver=cp.CLARABEL) * scale**2)


def test_single_direction() -> None:
    """One difference v: S = v v' / gamma_c, trace |v|^2 / gamma_c, the rest is floor."""
    v = np.array([[3.0, 4.0]])
    ellipsoid = minimum_trace_ellipsoid(v, gamma_c=2.0)
    assert ellipsoid.trace == pytest.approx(12.5, rel=1e-5)
    assert_hides(ellipsoid, v, 2.0)
    smallest, largest = np.linalg.eigvalsh(ellipsoid.factor @ ellipsoid.factor.T)
    assert smallest / largest == pytest.approx(1e-6)


def test_orthogonal_columns() -> None:
    """Columns a_i e_i: v_i' S^-1 v_i = a_i^2 / S_ii <= gamma_c gives S_ii = a_i^2 / gamma_c."""
    lengths = np.array([1.0, 2.0, 5.0, 0.1])
    ellipsoid = minimum_trace_ellipsoid(np.diag(lengths), gamma_c=3.0, gap=1e-8)
    np.testing.assert_allclose(
        ellipsoid.factor @ ellipsoid.factor.T, np.diag(lengths**2) / 3.0, atol=1e-7
    )
    assert ellipsoid.gap <= 1e-8
    np.testing.assert_allclose(ellipsoid.weights.sum(), 1.0)


def test_regular_polygon_is_white() -> None:
    """Directions all around the circle: by symmetry S = s I, and |v|^2 / s = gamma_c."""
    angle = np.linspace(0.0, np.pi, 12, endpoint=False)
    ellipsoid = minimum_trace_ellipsoid(
        2.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1), gamma_c=0.5, gap=1e-9
    )
    np.testing.assert_allclose(ellipsoid.factor @ ellipsoid.factor.T, 8.0 * np.eye(2), atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_cvxpy(seed: int) -> None:
    """An independent interior-point solution of the same program has the same trace."""
    generator = np.random.default_rng(seed)
    colours = np.exp(generator.normal(size=6))
    differences = generator.standard_t(3, size=(40, 6)) * colours
    ellipsoid = minimum_trace_ellipsoid(differences, gamma_c=1.7, gap=1e-6)
    assert_hides(ellipsoid, differences, 1.7)
    assert ellipsoid.trace == pytest.approx(optimum_by_cvxpy(differences) / 1.7, rel=1e-4)


def test_the_certificate_bounds_what_cvxpy_finds() -> None:
    """A loose gap is honest: the trace lies between the optimum and (1 + gap) times it."""
    differences = np.random.default_rng(9).normal(size=(200, 5))
    optimum = optimum_by_cvxpy(differences)
    ellipsoid = minimum_trace_ellipsoid(differences, gamma_c=1.0, gap=0.2)
    assert optimum * (1 - 1e-6) <= ellipsoid.trace <= optimum * (1.0 + ellipsoid.gap) * (1 + 1e-6)


def test_beats_white_noise_on_loads() -> None:
    """At equal guarantee the coloured noise has a small part of the power of white noise."""
    points, fit = load_like(0, 1_409, 25, 6)
    runs = leave_one_out(points, fit)
    ellipsoid = leave_one_out_ellipsoid(runs, gamma_c=1.0)
    differences = dense(runs)
    assert_hides(ellipsoid, differences, 1.0)
    assert ellipsoid.gap <= 1e-4
    white = differences.shape[1] * np.square(differences).sum(axis=1).max()
    assert white / ellipsoid.trace > 5.0


@pytest.mark.parametrize("seed", [1, 2])
def test_blocks_equal_the_joint_problem(seed: int) -> None:
    """K problems in R^d, joined where removals move several centroids, give the joint optimum."""
    points, fit = load_like(seed, 1_000, 4, 5)
    runs = leave_one_out(points, fit)
    assert runs.other_removal.size > 0
    differences = dense(runs)
    blocks = leave_one_out_ellipsoid(runs, gamma_c=1.0, gap=1e-6)
    joint = minimum_trace_ellipsoid(differences, gamma_c=1.0, gap=1e-6)
    assert blocks.trace == pytest.approx(joint.trace, rel=1e-4)
    assert_hides(blocks, differences, 1.0)


def runs_of(differences: Floats, labels: list[int]) -> LeaveOneOut:
    """Return leave-one-out runs with given (P, K, d) differences."""
    own = np.array(labels, np.int32)
    removal, cluster = np.nonzero(
        differences.any(axis=2) & (np.arange(differences.shape[1]) != own[:, None])
    )
    nothing = np.zeros(0, np.int64)
    return LeaveOneOut(
        labels=own,
        own_shift=differences[np.arange(own.size), own],
        other_removal=removal,
        other_cluster=cluster,
        other_shift=differences[removal, cluster],
        changed_removal=nothing,
        changed_point=nothing,
        changed_label=nothing,
        n_clusters=differences.shape[1],
    )


@pytest.mark.parametrize("length", [0.5, 0.99, 3.0])
def test_a_difference_across_blocks(length: float) -> None:
    """Below the blocks' ellipsoids it changes nothing; beyond them the blocks are joined."""
    generator = np.random.default_rng(0)
    differences = np.zeros((41, 2, 3))
    differences[:20, 0] = generator.normal(size=(20, 3))
    differences[20:40, 1] = generator.normal(size=(20, 3))
    apart = leave_one_out_ellipsoid(
        runs_of(differences[:40], [0] * 20 + [1] * 20), gamma_c=1.0, gap=1e-6
    )
    across = generator.normal(size=6)
    across *= length / np.linalg.norm(apart.whitening @ across)
    differences[40] = across.reshape(2, 3)
    runs = runs_of(differences, [0] * 20 + [1] * 21)
    together = leave_one_out_ellipsoid(runs, gamma_c=1.0, gap=1e-6)
    joint = minimum_trace_ellipsoid(dense(runs), gamma_c=1.0, gap=1e-6)
    assert_hides(together, dense(runs), 1.0)
    assert together.trace == pytest.approx(joint.trace, rel=1e-5)
    assert (40 in together.active) == (length > 1.0)


def test_a_cluster_that_never_moves_gets_the_floor() -> None:
    """A block without differences has no noise but the floor."""
    differences = np.zeros((10, 2, 2))
    differences[:, 0] = np.random.default_rng(0).normal(size=(10, 2))
    ellipsoid = leave_one_out_ellipsoid(runs_of(differences, [0] * 10), gamma_c=1.0, floor=1e-4)
    covariance = ellipsoid.factor @ ellipsoid.factor.T
    np.testing.assert_allclose(
        covariance[2:, 2:], 1e-4 * np.linalg.eigvalsh(covariance).max() * np.eye(2)
    )


def test_repeated_opposite_and_zero_columns_change_nothing() -> None:
    """v, -v and 0 constrain no more than v."""
    differences = np.random.default_rng(3).normal(size=(30, 4))
    once = minimum_trace_ellipsoid(differences, gamma_c=1.0, gap=1e-7)
    more = np.concatenate([differences, -differences, differences, np.zeros((3, 4))])
    again = minimum_trace_ellipsoid(more, gamma_c=1.0, gap=1e-7)
    assert again.trace == pytest.approx(once.trace, rel=1e-6)


def test_missing_directions_get_the_floor_and_no_more() -> None:
    """Differences in a plane of R^8: the rest has eigenvalue floor x largest; still feasible."""
    generator = np.random.default_rng(4)
    plane = np.linalg.qr(generator.normal(size=(8, 2)))[0]
    differences = generator.normal(size=(50, 2)) @ plane.T
    ellipsoid = minimum_trace_ellipsoid(differences, gamma_c=1.0)
    values = np.linalg.eigvalsh(ellipsoid.factor @ ellipsoid.factor.T)
    np.testing.assert_allclose(values[:6] / values[-1], 1e-6, rtol=1e-6)
    assert_hides(ellipsoid, differences, 1.0)


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e9])
def test_units_do_not_matter(unit: float) -> None:
    """Differences in other units give the noise in other units."""
    differences = np.random.default_rng(5).normal(size=(60, 5))
    one = minimum_trace_ellipsoid(differences, gamma_c=1.0, gap=1e-6)
    other = minimum_trace_ellipsoid(unit * differences, gamma_c=1.0, gap=1e-6)
    assert other.trace == pytest.approx(one.trace * unit**2, rel=1e-5)


def test_one_dimension() -> None:
    """In one dimension the variance is the largest squared difference over gamma_c."""
    ellipsoid = minimum_trace_ellipsoid([[1.0], [-3.0], [2.0]], gamma_c=4.0)
    assert ellipsoid.trace == pytest.approx(9.0 / 4.0, rel=1e-9)
    assert ellipsoid.trace >= 9.0 / 4.0


def test_less_noise_breaks_a_constraint() -> None:
    """The bound is tight: a tenth of a percent less noise and some difference shows."""
    differences = np.random.default_rng(6).normal(size=(300, 6))
    ellipsoid = minimum_trace_ellipsoid(differences, gamma_c=1.0)
    shown = np.square(differences @ ellipsoid.whitening.T / np.sqrt(0.999)).sum(axis=1)
    assert shown.max() > 1.0


@pytest.mark.parametrize(
    ("field", "differences", "changes"),
    [
        ("differences", [[0.0, 0.0]], {}),
        ("differences", [[np.nan]], {}),
        ("differences", [1.0], {}),
        ("gamma_c", [[1.0]], {"gamma_c": 0.0}),
        ("gamma_c", [[1.0]], {"gamma_c": np.inf}),
        ("gap", [[1.0]], {"gap": 0.0}),
        ("floor", [[1.0]], {"floor": 0.0}),
        ("floor", [[1.0]], {"floor": 2.0}),
    ],
)
def test_bad_input_is_named(field: str, differences: object, changes: dict[str, float]) -> None:
    """No difference at all, NaN, a vector, budgets and gaps out of range: refused by name."""
    with pytest.raises(InvalidParameterError) as caught:
        minimum_trace_ellipsoid(differences, **{"gamma_c": 1.0, **changes})  # type: ignore[arg-type]
    assert caught.value.field == field
