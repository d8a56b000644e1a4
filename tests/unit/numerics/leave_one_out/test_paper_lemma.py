"""The paper's closed form, computed a second time, and how wrong it is."""

import numpy as np
import pytest
from scipy.linalg import sqrtm

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.numerics.leave_one_out.ellipsoid import minimum_trace_ellipsoid, paper_lemma
from wattveil.numerics.leave_one_out.leave_one_out_runs import Columns


def lemma_precision(chosen: Floats) -> Floats:
    """Return the lemma's Gamma for gamma_c = 1 from the chosen differences, given as rows."""
    c = chosen.T
    m = np.real(sqrtm(c.T @ c)) ** 2
    u = np.linalg.inv(m) @ np.ones(len(chosen))
    moment = sum(
        (np.outer(v, v) / ui**2 for v, ui in zip(chosen, u, strict=True)), np.zeros((2, 2))
    )
    return np.asarray(np.linalg.inv(np.real(sqrtm(moment))))


def test_equals_the_formula() -> None:
    """W W' / violation is Gamma^-1 of the two smallest differences; the violation is the largest
    v' Gamma v over all.
    """
    rows = np.random.default_rng(5).normal(size=(40, 2))
    colour, violation = paper_lemma(Columns.of_rows(rows))
    smallest = rows[np.argsort(np.square(rows).sum(axis=1))[:2]]
    gamma = lemma_precision(smallest)
    np.testing.assert_allclose(colour @ colour.T / violation, np.linalg.inv(gamma), rtol=1e-9)
    exceeded = np.einsum("pi,ij,pj->p", rows, gamma, rows).max()
    assert violation == pytest.approx(exceeded, rel=1e-8)
    assert violation > 10.0


def test_every_difference_lies_inside_the_scaled_colour() -> None:
    """|W^-1 v| <= 1 for every difference, with equality for the worst."""
    rows = np.random.default_rng(6).normal(size=(60, 4)) * [1.0, 0.1, 3.0, 0.01]
    colour, _ = paper_lemma(Columns.of_rows(rows))
    lengths = np.linalg.norm(np.linalg.solve(colour, rows.T), axis=0)
    assert 1.0 - 1e-6 < lengths.max() <= 1.0


def test_unit_differences_are_a_case_where_it_is_right() -> None:
    """With D orthogonal differences of length 1 the lemma is the optimum: the identity."""
    rows = np.eye(3)
    colour, violation = paper_lemma(Columns.of_rows(rows))
    assert violation == pytest.approx(1.0, rel=1e-8)
    np.testing.assert_allclose(colour @ colour.T, np.eye(3), rtol=1e-8, atol=1e-12)
    assert minimum_trace_ellipsoid(rows, gamma_c=1.0).trace == pytest.approx(3.0, rel=1e-4)


def test_orthogonal_differences_by_hand() -> None:
    """For orthogonal differences M = diag |v|^2, lambda = |v|^4 and Gamma^-1 = diag |v|^3, where
    the optimum is diag |v|^2: at lengths 0.5, 2 and 5 too little noise by 2, and too much.
    """
    rows = np.diag([0.5, 2.0, 5.0])
    colour, violation = paper_lemma(Columns.of_rows(rows))
    assert violation == pytest.approx(2.0, rel=1e-8)
    np.testing.assert_allclose(
        colour @ colour.T / violation, np.diag([0.125, 8.0, 125.0]), rtol=1e-8, atol=1e-12
    )


def test_repeated_and_opposite_differences_are_passed_over() -> None:
    """Differences that add no direction are not chosen: (1, 0) twice, its opposite and 0 make way
    for (0, 2).
    """
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    colour, violation = paper_lemma(Columns.of_rows(rows))
    assert violation == pytest.approx(1.0, rel=1e-8)
    np.testing.assert_allclose(colour @ colour.T, np.diag([1.0, 8.0]), rtol=1e-8, atol=1e-12)


def test_missing_directions_are_refused() -> None:
    """Without D independent differences there is no formula, and the error counts them."""
    rows = np.outer(np.arange(1.0, 6.0), [1.0, 2.0, 0.0])
    with pytest.raises(InvalidParameterError, match="span its 3 directions") as error:
        paper_lemma(Columns.of_rows(rows))
    assert (error.value.field, error.value.value) == ("X", "1 directions")
