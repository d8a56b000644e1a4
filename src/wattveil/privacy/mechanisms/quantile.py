"""A noisy quantile, by bisection in a fixed number of steps."""

import numpy as np

from wattveil import checks
from wattveil.errors import BudgetExceededError, InvalidParameterError
from wattveil.privacy.budget import Budget
from wattveil.privacy.mechanisms.gaussian import gaussian_sum
from wattveil.privacy.secret import Released, Secret
from wattveil.privacy.sensitivity import Box, FloatArray


def noisy_quantile(
    values: Secret[FloatArray],
    *,
    quantile: float,
    interval: tuple[float, float],
    n_steps: int,
    rho_units: int,
    budget: Budget,
    tag: str,
) -> Released[float]:
    """Release a point of ``interval`` below which about this share of customers' values lies.

    Each step asks at the middle t of what is left whether g(t) = #{x <= t} - q n is negative. A
    customer contributes 1 - q or -q to g, so the number of customers need not be known. The number
    of steps is fixed: no early stop could tell anything.

    Formal guarantee
    ----------------
    The caller ensures that a customer has one value at most. The steps are `gaussian_sum` releases
    in the box [-q, 1-q] whose charges add up to ``rho_units``; the rest is post-processing. Proof:
    docs/proofs/quantile.md.
    """
    checks.probability("quantile", quantile)
    checks.integer("n_steps", n_steps, least=1)
    region = Box(low=(-quantile,), high=(1.0 - quantile,))
    below, above = interval
    if not -1e300 < below < above < 1e300:  # noqa: PLR2004 - so that their distance is a float
        raise InvalidParameterError("interval", "finite, its lower end first", interval)
    # A vector becomes a column; a matrix becomes three axes, which `gaussian_sum` refuses.
    column = checks.numbers("values", values.reveal())[:, np.newaxis]

    parts = _split(rho_units, n_steps)
    if rho_units > budget.remaining_rho_units:  # before the first step, not in the middle of them
        raise BudgetExceededError("rho_units", rho_units, budget.remaining_rho_units)
    answers = []
    for rho in parts:
        middle = below + (above - below) / 2.0
        side = np.where(column <= middle, 1.0 - quantile, -quantile)
        # NaN compares as false to everything; it is handed on as NaN, to be refused once charged.
        contribution = Secret(np.where(np.isfinite(column), side, np.nan))
        answer = gaussian_sum(contribution, region=region, rho_units=rho, budget=budget, tag=tag)
        below, above = (middle, above) if answer.value.steps[0] < 0 else (below, middle)
        answers.append(answer)
    return Released(
        value=below + (above - below) / 2.0,
        spends=tuple(spend for answer in answers for spend in answer.spends),
        rehearsal=any(answer.rehearsal for answer in answers),
    )


def _split(rho_units: int, parts: int) -> list[int]:
    """Divide whole units into parts that differ by at most one and add up exactly."""
    share, rest = divmod(checks.integer("rho_units", rho_units, least=parts), parts)
    return [share + (i < rest) for i in range(parts)]
