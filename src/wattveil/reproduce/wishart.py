"""The paper's noise on covariances, and why it hides nobody.

Jiang, Xie and Zhang (2016) publish M = A + W, A = 1/n sum x x' of rows no longer than 1, with
W ~ Wishart_d(d + 1, 3 / (2 n epsilon) I), and claim epsilon-DP. W is positive definite, so M - A
always is. Of the data with one row x more, A' = A + (x x' - A) / (n + 1), some M have M - A' with a
negative direction: they cannot come from it. Whoever sees such an M knows that x is not in.
"""

import numpy as np

from wattveil.clustering.geometry import Floats
from wattveil.profiles.page import Shown
from wattveil.reproduce.customers import ALPHA_KW
from wattveil.reproduce.draws import Lots
from wattveil.reproduce.figure import Outcome, Reproduction
from wattveil.reproduce.plots import BLUE, ORANGE, Line, curves
from wattveil.reproduce.study import Study

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_CUSTOMERS = 200


def wishart_noise(*, n: int, width: int, epsilon: float, longest: float, lots: Lots) -> Floats:
    """Draw W for n rows no longer than ``longest``: the paper's mechanism, **not private**."""
    scale = 3.0 / (2.0 * n * epsilon) * longest**2
    draws = np.sqrt(scale) * lots.standard_normal((width, width + 1))
    noise: Floats = draws @ draws.T
    return noise


def run(study: Study) -> Outcome:
    """Count releases that are impossible once a customer is in the data."""
    source, repetitions = study.lots("wishart"), 40 if study.fast else 200
    logs = np.log(study.coloured.rows + ALPHA_KW)
    centred = logs - logs.mean(axis=0)
    longest = float(np.linalg.norm(centred, axis=1).max())
    chosen = np.argsort(-np.linalg.norm(centred, axis=1))[:_CUSTOMERS]
    rows, candidate = centred[chosen[1:]], centred[chosen[0]]
    without = rows.T @ rows / len(rows)
    within = (rows.T @ rows + np.outer(candidate, candidate)) / (len(rows) + 1)
    caught = [
        float(
            np.mean(
                [
                    _impossible(
                        without
                        + wishart_noise(
                            n=len(rows),
                            width=rows.shape[1],
                            epsilon=epsilon,
                            longest=longest,
                            lots=source,
                        ),
                        within,
                    )
                    for _ in range(repetitions)
                ]
            )
        )
        for epsilon in EPSILONS
    ]
    allowed = np.zeros(len(EPSILONS))  # an epsilon-DP release has no impossible outputs
    middle = EPSILONS.index(1.0)
    return Outcome(
        numbers={
            "epsilons": list(EPSILONS),
            "impossible_share": caught,
            "customers": len(rows),
            "claimed_delta": 0.0,
        },
        panels=[
            Shown(
                "Releases that prove a customer is not in the data",
                curves(
                    [
                        Line("Wishart noise: δ is at least this", EPSILONS, caught, ORANGE),
                        Line("what ε-DP allows", EPSILONS, allowed, BLUE),
                    ],
                    log_x=True,
                ),
                "claimed ε",
                "share of releases",
            )
        ],
        found=(
            f"Of the covariances of {len(rows)} customers released with Wishart noise at ε = 1,"
            f" {caught[middle]:.0%} are impossible with one certain customer more, at ε = 30"
            f" {caught[-1]:.0%}. That share is a lower bound on δ."
        ),
        differs=(
            "The paper has no such figure; it takes the mechanism as private. It is not, for any"
            " ε: noise that only adds cannot hide a customer that adds too, since what can come"
            " out with and without the customer differs. Symmetric Gaussian noise, made positive"
            " afterwards, is private; Wattveil uses that."
        ),
    )


def _impossible(released: Floats, exact: Floats) -> bool:
    """Whether the difference has a negative direction, which Wishart noise never has."""
    least = np.linalg.eigvalsh(released - exact)[0]
    return bool(least < -1e-12 * np.abs(released).max())


FIGURE = Reproduction(
    name="wishart",
    title="The paper's noise on covariances",
    paper=(
        "No figure: the covariances behind the synthetic loads get Wishart noise (Jiang et al."
        " 2016), which the paper counts as differentially private."
    ),
    run=run,
)
