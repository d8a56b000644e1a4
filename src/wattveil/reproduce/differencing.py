"""The 15/15 rule: two permitted averages give a customer away."""

import numpy as np

from wattveil.clustering.geometry import Floats
from wattveil.evaluation.differencing import recovered
from wattveil.profiles.page import Shown
from wattveil.reproduce.figure import Outcome, Reproduction
from wattveil.reproduce.plots import BLUE, ORANGE, Line, curves
from wattveil.reproduce.study import Study

_SIZES, _SIZES_FAST = (15, 50, 150, 500, 1409), (15, 400)
_SHARE = 0.15


def run(study: Study) -> Outcome:
    """Recover one customer from averages with and without, for groups of several sizes."""
    load_kw = study.customers.homes_kw
    sizes = [min(size, len(load_kw)) for size in (_SIZES_FAST if study.fast else _SIZES)]
    victim = load_kw[0]
    groups = [load_kw[:size] for size in sizes]
    # Averages rounded to a watt, as a table would have them, and exact ones.
    errors = [float(np.abs(_recovered(group, decimals=3) - victim).max()) for group in groups]
    exact = float(np.abs(_recovered(load_kw) - victim).max())
    shares = [float((group.sum(axis=1) / group.sum()).max()) for group in groups]
    hours = np.arange(victim.size) * 24.0 / (victim.size // 24 * 24)
    return Outcome(
        numbers={
            "sizes": sizes,
            "largest_error_kw_of_rounded_averages": errors,
            "largest_error_kw_of_exact_averages": exact,
            "largest_share": shares,
        },
        panels=[
            Shown(
                f"A customer and what two averages of {sizes[0]} say of it",
                curves(
                    [
                        Line("true", hours, victim, BLUE),
                        Line("recovered", hours, _recovered(groups[0]), ORANGE, "dot"),
                    ]
                ),
                "hour",
                "kW",
            )
        ],
        found=(
            f"From exact averages of {len(load_kw):,} customers one of them comes back to within"
            f" {exact:.0e} kW. With averages rounded to a watt the error"
            f" grows with the group, {errors[0]:.3f} kW at {sizes[0]} customers,"
            f" {errors[-1]:.2f} kW at {sizes[-1]:,}."
        ),
        differs=(
            "The algebra is the paper's and holds whatever P is. Rounding blurs it in large"
            " groups, which is no protection: it averages out over repeated questions. The"
            f" largest share of one customer in these groups is {max(shares):.0%}; the rule"
            f" allows at most {_SHARE:.0%}."
        ),
    )


def _recovered(group: Floats, decimals: int = 15) -> Floats:
    """Return the first customer of a group, from averages with so many decimals."""
    whole, without = (np.round(rows.mean(axis=0), decimals) for rows in (group, group[1:]))
    return recovered(whole, len(group), without)


FIGURE = Reproduction(
    name="differencing",
    title="The 15/15 rule",
    paper=(
        "No figure: x_0 = P q(X) − (P − 1) q(X') recovers a customer from two averages that the"
        " 15/15 rule permits, no matter what P is."
    ),
    run=run,
)
