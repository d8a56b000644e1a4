"""Figures on pitfalls: the 15/15 rule, white noise on smooth curves, and Wishart noise.

Jiang, Xie and Zhang (2016) publish M = A + W, A = 1/n sum x x' of rows no longer than 1, with
W ~ Wishart_d(d + 1, 3 / (2 n epsilon) I), and claim epsilon-DP. W is positive definite, so M - A
always is. Of the data with one row x more, A' = A + (x x' - A) / (n + 1), some M have M - A' with a
negative direction: they cannot come from it, which reveals that x is not in the data.
"""

import numpy as np
from scipy.signal import savgol_filter

from wattveil.arrays import Floats
from wattveil.lab.attacks.differencing import recovered
from wattveil.lab.reproduce.figure import Outcome, Reproduction
from wattveil.lab.reproduce.paper_mechanism import ALPHA_KW, symmetric_root, wishart_noise
from wattveil.lab.reproduce.study import Study
from wattveil.numerics.leave_one_out.ellipsoid import minimum_trace_ellipsoid
from wattveil.web.charts import BLUE, GREY, ORANGE, Line, ReportFigure, line_figure, panel

# --- the 15/15 rule -------------------------------------------------------------------------------


_SIZES, _SIZES_FAST = (15, 50, 150, 500, 1409), (15, 400)
_SHARE = 0.15


def run_differencing(study: Study) -> Outcome:
    """Recover one customer from averages with and without, for groups of several sizes."""
    load_kw = study.customers.homes_kw
    sizes = [min(size, len(load_kw)) for size in (_SIZES_FAST if study.fast else _SIZES)]
    victim = load_kw[0]
    groups = [load_kw[:size] for size in sizes]
    # Averages rounded to a watt, as a table would have them, and exact ones.
    errors = [
        float(np.abs(_differencing_recovered(group, decimals=3) - victim).max()) for group in groups
    ]
    exact = float(np.abs(_differencing_recovered(load_kw) - victim).max())
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
            panel(
                f"Customer recovered from two averages of {sizes[0]}",
                line_figure(
                    [
                        Line("true", hours, victim, BLUE),
                        Line("recovered", hours, _differencing_recovered(groups[0]), ORANGE, "dot"),
                    ]
                ),
                "hour",
                "kW",
            )
        ],
        found=(
            f"From exact averages of {len(load_kw):,} customers one customer is recovered to within"
            f" {exact:.0e} kW. With averages rounded to the nearest watt, the error"
            f" grows with the size of the group: {errors[0]:.3f} kW at {sizes[0]} customers and"
            f" {errors[-1]:.2f} kW at {sizes[-1]:,}."
        ),
        differs=(
            "The algebra is the paper's and holds for any P. Rounding adds an error in large"
            " groups, which is no protection: it averages out over repeated queries. The"
            f" largest share of one customer in these groups is {max(shares):.0%}; the rule"
            f" allows at most {_SHARE:.0%}."
        ),
    )


def _differencing_recovered(group: Floats, decimals: int = 15) -> Floats:
    """Return the first customer of a group, from averages with so many decimals."""
    whole, without = (np.round(rows.mean(axis=0), decimals) for rows in (group, group[1:]))
    return recovered(whole, len(group), without)


DIFFERENCING_FIGURE = Reproduction(
    name="differencing",
    title="The 15/15 rule",
    paper=(
        "No figure: x_0 = P q(X) − (P − 1) q(X') recovers a customer from two averages that the"
        " 15/15 rule permits, for any P."
    ),
    run=run_differencing,
)


# --- white noise on smooth curves -----------------------------------------------------------------


SIGMA, ORDER, WINDOW = 0.75, 1, 300  # the paper's
MINUTES = 1440


def run_filtering(study: Study) -> Outcome:
    """Add white and coloured noise of one guarantee to the mean day, minute by minute; filter."""
    load_kw = study.customers.homes_kw
    source = study.generator("filtering")
    to_minutes = _interpolation(load_kw.shape[1])
    true = to_minutes @ load_kw.mean(axis=0)
    # Without customer p the mean moves by v_p = (x_p - mean) / (P - 1).
    moves = (load_kw - load_kw.mean(axis=0)) / (len(load_kw) - 1)
    s = float(np.sqrt(np.square(moves @ to_minutes.T).sum(axis=1).max())) / SIGMA

    white = true + SIGMA * source.standard_normal(MINUTES)
    coloured = true + _coloured(to_minutes, moves, s) @ source.standard_normal(load_kw.shape[1])
    filtered, coloured_filtered = (
        savgol_filter(noisy, WINDOW, ORDER) for noisy in (white, coloured)
    )
    errors = {
        "white_rmse_kw": _rmse(white, true),
        "filtered_rmse_kw": _rmse(filtered, true),
        "filter_bias_rmse_kw": _rmse(savgol_filter(true, WINDOW, ORDER), true),
        "coloured_rmse_kw": _rmse(coloured, true),
        "coloured_filtered_rmse_kw": _rmse(coloured_filtered, true),
        "coloured_noise_left_by_filter": _rmse(
            coloured_filtered, savgol_filter(true, WINDOW, ORDER)
        )
        / _rmse(coloured, true),
        "white_noise_left_by_filter": _rmse(filtered, savgol_filter(true, WINDOW, ORDER)) / SIGMA,
    }
    hours = np.arange(MINUTES) / 60.0

    def noise_panel(title: str, noisy: Floats, smooth: Floats) -> ReportFigure:
        lines = [
            Line("released", hours, noisy, GREY),
            Line("true", hours, true, BLUE),
            Line("filtered", hours, smooth, ORANGE),
        ]
        return panel(title, line_figure(lines), "hour", "kW")

    return Outcome(
        numbers={**errors, "s": s, "sigma": SIGMA, "window": WINDOW},
        panels=[
            noise_panel("White noise, σ = 0.75 kW", white, filtered),
            noise_panel("Coloured noise of the same guarantee", coloured, coloured_filtered),
        ],
        found=(
            f"White noise has an error"
            f" of {errors['white_rmse_kw']:.2f} kW (root mean square), and after the filter"
            f" of {errors['filtered_rmse_kw']:.3f} kW. The filter leaves"
            f" {errors['white_noise_left_by_filter']:.1%} of the noise (1/√{WINDOW} is"
            f" {WINDOW**-0.5:.1%}). Coloured noise of the same guarantee has an error"
            f" of {errors['coloured_rmse_kw']:.3f} kW, and the filter leaves"
            f" {errors['coloured_noise_left_by_filter']:.0%} of it."
        ),
        differs=(
            "The figure is the same; the conclusion is not: filtering is post-processing and does"
            " not weaken the guarantee. White noise on a smooth curve is no less private, but"
            " inefficient: most of it is in directions in which no customer's load varies. Coloured"
            " noise is concentrated where load varies, so a filter removes little of it, and far"
            " less noise gives the same guarantee. The paper's minute readings are not public: here"
            " the mean day of the customers is interpolated to minutes. `wattveil attack filter`"
            " applies the same filter to released clusters."
        ),
    )


def _interpolation(slots: int) -> Floats:
    """Return the matrix that interpolates linearly from the centre of each slot to the next."""
    at = np.linspace(0.0, slots - 1.0, MINUTES)
    rows: Floats = np.array([np.interp(at, np.arange(slots), unit) for unit in np.eye(slots)])
    return rows.T


def _coloured(to_minutes: Floats, moves: Floats, s: float) -> Floats:
    """Return F: noise F z of minimum power over the minutes, v_p' S^-1 v_p <= s^2 for every p."""
    length = symmetric_root(to_minutes.T @ to_minutes)  # |length v| is the length of v in minutes
    found = minimum_trace_ellipsoid(moves @ length, gamma_c=s**2)
    slots = np.linalg.solve(length, found.factor)
    factor: Floats = to_minutes @ symmetric_root(slots @ slots.T)
    return factor


def _rmse(curve: Floats, other: Floats) -> float:
    return float(np.sqrt(np.square(curve - other).mean()))


FILTERING_FIGURE = Reproduction(
    name="filtering",
    title="The pitfall of white noise on smooth curves",
    paper=(
        "The mean daily load of a feeder with white noise of σ = 0.75, and the same after a"
        " Savitzky-Golay filter (order 1, window 300), which recovers the curve. The paper"
        " concludes that white noise is often not sufficient."
    ),
    run=run_filtering,
)


# --- noise on covariances -------------------------------------------------------------------------


WISHART_EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_WISHART_CUSTOMERS = 200


def run_wishart(study: Study) -> Outcome:
    """Count releases that are impossible once a customer is in the data."""
    source, repetitions = study.generator("wishart"), 40 if study.fast else 200
    logs = np.log(study.coloured.rows + ALPHA_KW)
    centred = logs - logs.mean(axis=0)
    longest = float(np.linalg.norm(centred, axis=1).max())
    chosen = np.argsort(-np.linalg.norm(centred, axis=1))[:_WISHART_CUSTOMERS]
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
                            generator=source,
                        ),
                        within,
                    )
                    for _ in range(repetitions)
                ]
            )
        )
        for epsilon in WISHART_EPSILONS
    ]
    allowed = np.zeros(len(WISHART_EPSILONS))  # an epsilon-DP release has no impossible outputs
    at_one = WISHART_EPSILONS.index(1.0)
    return Outcome(
        numbers={
            "epsilons": list(WISHART_EPSILONS),
            "impossible_share": caught,
            "customers": len(rows),
            "claimed_delta": 0.0,
        },
        panels=[
            panel(
                "Releases that prove a customer is not in the data",
                line_figure(
                    [
                        Line("Wishart noise: δ is at least this", WISHART_EPSILONS, caught, ORANGE),
                        Line("what ε-DP allows", WISHART_EPSILONS, allowed, BLUE),
                    ],
                    log_x=True,
                ),
                "claimed ε",
                "share of releases",
            )
        ],
        found=(
            f"Of the covariances of {len(rows)} customers released with Wishart noise at ε = 1,"
            f" {caught[at_one]:.0%} are impossible if one particular customer is added, and at ε ="
            f" 30"
            f" {caught[-1]:.0%}. That share is a lower bound on δ."
        ),
        differs=(
            "The paper has no such figure; it treats the mechanism as private. It is not private at"
            " any ε: positive noise cannot hide a positive contribution, because the sets of"
            " possible outputs with and without the customer differ. Symmetric Gaussian noise, made"
            " positive semidefinite afterwards, is private; Wattveil uses it."
        ),
    )


def _impossible(released: Floats, exact: Floats) -> bool:
    """Whether the difference has a negative direction, which Wishart noise never has."""
    min_eigenvalue = np.linalg.eigvalsh(released - exact)[0]
    return bool(min_eigenvalue < -1e-12 * np.abs(released).max())


WISHART_FIGURE = Reproduction(
    name="wishart",
    title="The paper's noise on covariances",
    paper=(
        "No figure: the covariances behind the synthetic loads get Wishart noise (Jiang et al."
        " 2016), which the paper counts as differentially private."
    ),
    run=run_wishart,
)
