"""The filtering pitfall: white noise on a smooth curve, and what a filter makes of it."""

import numpy as np
from scipy.signal import savgol_filter

from wattveil.clustering.ellipsoid import minimum_trace_ellipsoid
from wattveil.clustering.geometry import Floats
from wattveil.profiles.page import Shown
from wattveil.reproduce.figure import Outcome, Reproduction
from wattveil.reproduce.mechanism import symmetric_root
from wattveil.reproduce.plots import BLUE, GREY, ORANGE, Line, curves
from wattveil.reproduce.study import Study

SIGMA, ORDER, WINDOW = 0.75, 1, 300  # the paper's
MINUTES = 1440


def run(study: Study) -> Outcome:
    """Add white and coloured noise of one promise to the mean day, minute by minute; filter."""
    load_kw = study.customers.homes_kw
    source = study.lots("filtering")
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

    def panel(title: str, noisy: Floats, smooth: Floats) -> Shown:
        lines = [
            Line("released", hours, noisy, GREY),
            Line("true", hours, true, BLUE),
            Line("filtered", hours, smooth, ORANGE),
        ]
        return Shown(title, curves(lines), "hour", "kW")

    return Outcome(
        numbers={**errors, "s": s, "sigma": SIGMA, "window": WINDOW},
        panels=[
            panel("White noise, σ = 0.75 kW", white, filtered),
            panel("Coloured noise of the same promise", coloured, coloured_filtered),
        ],
        found=(
            f"White noise is off by {errors['white_rmse_kw']:.2f} kW (root mean square), after the"
            f" filter by {errors['filtered_rmse_kw']:.3f} kW: it leaves"
            f" {errors['white_noise_left_by_filter']:.1%} of the noise, where 1/√{WINDOW} is"
            f" {WINDOW**-0.5:.1%}. Coloured noise that hides every customer as well as that white"
            f" noise does is off by {errors['coloured_rmse_kw']:.3f} kW, and the filter leaves"
            f" {errors['coloured_noise_left_by_filter']:.0%} of it."
        ),
        differs=(
            "The picture is the same. The conclusion is not: a filter reads nothing but what was"
            " released, so it takes nothing from the guarantee. White noise on a smooth curve is"
            " no less private, it is wasteful: most of it lies where no customer's load ever"
            " lies. Coloured noise lies where the loads do, so there is little to filter, and far"
            " less of it makes the same promise. The paper's minute readings are not public: here"
            " the mean day of the customers is interpolated to minutes. `wattveil attack filter`"
            " does the same to released clusters."
        ),
    )


def _interpolation(slots: int) -> Floats:
    """Return the matrix that draws straight lines from the middle of each slot to the next."""
    at = np.linspace(0.0, slots - 1.0, MINUTES)
    rows: Floats = np.array([np.interp(at, np.arange(slots), unit) for unit in np.eye(slots)])
    return rows.T


def _coloured(to_minutes: Floats, moves: Floats, s: float) -> Floats:
    """Return F: noise F z of least power over the minutes with v_p' S^-1 v_p <= s^2 for every p."""
    length = symmetric_root(to_minutes.T @ to_minutes)  # |length v| is the length of v in minutes
    found = minimum_trace_ellipsoid(moves @ length, gamma_c=s**2)
    slots = np.linalg.solve(length, found.factor)
    factor: Floats = to_minutes @ symmetric_root(slots @ slots.T)
    return factor


def _rmse(curve: Floats, other: Floats) -> float:
    return float(np.sqrt(np.square(curve - other).mean()))


FIGURE = Reproduction(
    name="filtering",
    title="The pitfall of white noise on smooth curves",
    paper=(
        "The mean daily load of a feeder with white noise of σ = 0.75, and what a Savitzky-Golay"
        " filter (order 1, window 300) makes of it: the curve comes back. So white noise, the"
        " paper says, is often not enough."
    ),
    run=run,
)
