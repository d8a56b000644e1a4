"""Load duration curves: the real one, the paper's from its centroids, and a released one."""

import numpy as np

from wattveil import calibration
from wattveil.clustering.geometry import Floats
from wattveil.profiles.page import Shown
from wattveil.release.duration import load_duration_curve
from wattveil.reproduce.figure import Outcome, Reproduction
from wattveil.reproduce.plots import BLUE, GREY, ORANGE, Line, add_band, curves
from wattveil.reproduce.study import Study

EPSILON, DELTA = 30.0, 0.2  # the paper's
PRIVATE_EPSILON, PRIVATE_DELTA = 1.0, 1e-6


def run(study: Study) -> Outcome:
    """Sort the load of all customers of an average day, exact, by the paper, and released."""
    mechanism, source = study.coloured, study.lots("duration")
    slots = study.customers.profiles.grid.slots
    rows = mechanism.rows[:, :slots]  # without the closing midnight, which is the first hour again
    true = _sorted(rows.sum(axis=0))
    s = calibration.paper_calibration(epsilon=EPSILON, delta=DELTA).s
    noisy = mechanism.centroids(s, source)[:, :slots]
    labels = mechanism.labels(EPSILON, source)
    paper = _sorted(np.bincount(labels, minlength=len(noisy)) @ noisy)
    released = load_duration_curve(
        rows, epsilon=PRIVATE_EPSILON, delta=PRIVATE_DELTA, slots_per_day=slots
    )
    curve, error = released.load_kw[0], released.std_kw[0]
    errors = {
        "paper_nrmse": _nrmse(paper, true),
        "paper_exact_labels_nrmse": _nrmse(_sorted(mechanism.exact.sizes @ noisy), true),
        "released_nrmse": _nrmse(curve, true),
        "released_within_band": float((np.abs(curve - true) <= 1.96 * error).mean()),
    }
    share = 100.0 * (np.arange(slots) + 0.5) / slots
    figure = curves(
        [
            Line("real", share, true, GREY),
            Line("the paper's, ε_c = 30, δ_c = 0.2", share, paper, ORANGE, "dash"),
            Line("differentially private, ε = 1, δ = 10⁻⁶", share, curve, BLUE),
        ]
    )
    band = (curve - 1.96 * error, curve + 1.96 * error)
    add_band(figure, share, *band, name="its 95 % band", colour=BLUE)
    return Outcome(
        numbers={**errors, "peak_kw": float(true[0])},
        panels=[
            Shown("Load duration of the average day", figure, "% of the time at or above", "kW")
        ],
        found=(
            f"Root mean square error over the mean load: {errors['paper_nrmse']:.2%} for the"
            " paper's centroids times released cluster sizes at ε_c = 30, δ_c = 0.2 (true δ"
            f" 0.999999); {errors['released_nrmse']:.2%} for `load_duration_curve` at ε = 1,"
            f" δ = 10⁻⁶, with {errors['released_within_band']:.0%} of the true curve inside its"
            " band."
        ),
        differs=(
            "The paper draws no such figure; its conclusion names load duration curves as an"
            " answer of the mechanism. With exact cluster sizes its curve would be"
            f" {errors['paper_exact_labels_nrmse']:.2%} off, because at its setting there is hardly"
            " any noise on centroids, and hardly any promise; the rest is noise on labels. The"
            " other curve is asked for directly, hides every customer, and says how far off it may"
            " be."
        ),
    )


def _sorted(load_kw: Floats) -> Floats:
    falling: Floats = np.sort(load_kw)[::-1]
    return falling


def _nrmse(curve: Floats, true: Floats) -> float:
    return float(np.sqrt(np.square(curve - true).mean()) / true.mean())


FIGURE = Reproduction(
    name="duration",
    title="Load duration curves",
    paper=(
        "No figure; the conclusion says that the mechanism answers queries such as load duration"
        " curves of the houses."
    ),
    run=run,
)
