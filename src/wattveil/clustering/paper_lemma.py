"""The paper's closed form for the colour of the noise. It is wrong; kept to show how wrong.

The paper takes the Kd differences of smallest norm that are independent, C = [v_1 … v_Kd], sets

    M = ((C'C)^1/2)_ij ^2,   u = gamma_c M^-1 1,   lambda_i = u_i^-2,
    Gamma = (sum_i lambda_i v_i v_i')^-1/2,

and claims that Gamma is the optimum of ``min tr Gamma^-1`` subject to ``v' Gamma v <= gamma_c`` for
*all* differences. Binding the smallest differences says nothing about the large ones: on load-like
data the constraint of others is violated many thousand times over.

What the paper means by the root of a rectangular matrix is not said; the reading above depends on
the units of the data, one with (C'C)^1/4 would not, and neither meets the constraint.
"""

import numpy as np
from scipy.linalg import sqrtm

from wattveil.clustering._columns import Columns
from wattveil.clustering._kernels import Floats
from wattveil.errors import InvalidParameterError

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
    """Return the first independent differences in order of their norm, one a dimension."""
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
