"""The AMI customers in the plane, with and without outliers, and what outliers do to Delta c."""

import numpy as np
from plotly.graph_objects import Figure
from scipy.spatial.distance import cdist
from sklearn.manifold import smacof

from wattveil import calibration
from wattveil.clustering.geometry import Floats
from wattveil.profiles.page import Shown
from wattveil.reproduce.customers import farthest
from wattveil.reproduce.figure import Outcome, Reproduction
from wattveil.reproduce.mechanism import Mechanism, paper_mechanism
from wattveil.reproduce.mixture_scatter import scatter
from wattveil.reproduce.study import Study

EPSILON, DELTA = 30.0, 0.2  # the paper's, for the centroids; the labels have the same and no delta
PAPER_BEFORE, PAPER_AFTER = 39.20, 2.13


def run(study: Study) -> Outcome:
    """Find the sensitivities before and after outliers go, and draw both data sets."""
    customers, source = study.customers, study.lots("ami-scatter")
    before, after = paper_mechanism(customers.load_kw, noise="white"), study.white
    paper = calibration.paper_calibration(epsilon=EPSILON, delta=DELTA)
    noisy = study.coloured.centroids(paper.s, source)
    labels = study.coloured.labels(EPSILON, source)
    moved = float(np.sqrt(np.square(noisy - study.coloured.exact.centroids).mean()))
    alone = int((before.exact.sizes == 1).sum())
    far = farthest(customers.load_kw, int(customers.outlier.sum()))
    found = int((far & customers.outlier).sum())
    fall = before.sensitivity / after.sensitivity
    rounds = 20 if study.fast else 60
    return Outcome(
        numbers={
            "customers": len(customers.load_kw),
            "outliers": int(customers.outlier.sum()),
            "outliers_found_by_neighbours": found,
            "sensitivity_before": before.sensitivity,
            "sensitivity_after": after.sensitivity,
            "sensitivity_ratio": fall,
            "sizes_before": before.exact.sizes.tolist(),
            "sizes_after": after.exact.sizes.tolist(),
            "clusters_of_one_before": alone,
            "label_set_before": int(before.exact.label_set.size),
            "label_set_after": int(after.exact.label_set.size),
            "labels_changed_after": after.exact.labels_changed,
            "noise_rms_kw": moved,
            "noise_true_delta": paper.true_delta,
        },
        panels=[
            Shown(f"All, Δc = {before.sensitivity:.1f}", _map(before, rounds), "", ""),
            Shown(
                f"Without outliers, Δc = {after.sensitivity:.2f}",
                _map(study.coloured, rounds, noisy=noisy, changed=labels != after.exact.labels),
                "",
                "",
            ),
        ],
        found=(
            f"{customers.words}: Δc = {before.sensitivity:.2f} with outliers, of which there are"
            f" {int(customers.outlier.sum())}, and {after.sensitivity:.2f} without."
            + (
                ""
                if customers.private
                else f" The 20-nearest-neighbour rule finds {found} of them."
            )
        ),
        differs=(
            f"{_fall_words(fall)} {_alone_words(alone)}Removing customers by looking at them is"
            " itself an answer about them;"
            " a class that is known beforehand is not. The noise drawn at ε_c = 30, δ_c = 0.2"
            f" has a true δ of {paper.true_delta:.6f}; it moves centroids by {moved:.3f} kW an"
            " hour (root mean square)."
        ),
    )


def _fall_words(fall: float) -> str:
    if fall > 1.0:
        return f"Δc falls {fall:.1f} times, in the paper 18 times."
    return (
        "Δc does not fall, as it does in the paper: without outliers K-means makes other small"
        " clusters, and the sensitivity is that of the smallest."
    )


def _alone_words(alone: int) -> str:
    if alone == 0:
        return ""
    return (
        f"K-means gives {alone} of the customers a cluster of their own, which keeps its centroid"
        " when they are left out: Δc does not see them, and their profile is published all but"
        " exactly. "
    )


def _map(
    mechanism: Mechanism,
    rounds: int,
    *,
    noisy: Floats | None = None,
    changed: np.ndarray | None = None,
) -> Figure:
    """Draw customers and centroids in the plane by multidimensional scaling."""
    rows, exact = mechanism.rows, mechanism.exact
    released = np.empty((0, rows.shape[1])) if noisy is None else noisy
    plane = _in_the_plane(np.concatenate([rows, exact.centroids, released]), rounds)
    customers, centroids = plane[: len(rows)], plane[len(rows) :]
    inside = np.isin(np.arange(len(rows)), exact.label_set)
    figure = scatter(customers, exact.labels, inside=inside, changed=changed)
    for name, own, symbol in (
        ("centroid", centroids[: len(exact.centroids)], "circle-open"),
        ("noisy centroid", centroids[len(exact.centroids) :], "x-thin"),
    ):
        if len(own):
            marker = {"symbol": symbol, "size": 11, "color": "#1c2733", "line": {"width": 2}}
            figure.add_scatter(x=own[:, 0], y=own[:, 1], mode="markers", marker=marker, name=name)
    return figure


def _in_the_plane(points: Floats, rounds: int) -> Floats:
    """Scale down to two dimensions: SMACOF from the two main directions, the same every time."""
    centred = points - points.mean(axis=0)
    start = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    placed, _ = smacof(
        cdist(points, points),
        n_components=2,
        init=start,
        n_init=1,
        max_iter=rounds,
        normalized_stress=False,
    )
    plane: Floats = placed
    return plane


FIGURE = Reproduction(
    name="ami-scatter",
    title="AMI customers in the plane, with and without outliers",
    paper=(
        f"1,416 customers by multidimensional scaling: Δc = {PAPER_BEFORE:.2f}, driven by about"
        f" seven outliers. Without them (commercial customers, 1,409 left) Δc = {PAPER_AFTER}, a"
        " factor close to 20. Noisy centroids at (ε_c, δ_c, ε_l, δ_l) = (30, 0.2, 30, 0)."
    ),
    run=run,
)
