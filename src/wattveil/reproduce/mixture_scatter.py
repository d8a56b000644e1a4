"""The Gaussian mixture: its clusters, the set L, and the labels that noise changed."""

import numpy as np
from plotly.graph_objects import Figure

from wattveil.clustering._kernels import Indices
from wattveil.clustering.geometry import Floats
from wattveil.planning.labels import plan_labels
from wattveil.profiles.page import Shown
from wattveil.publish.figures import colour
from wattveil.reproduce.figure import Outcome, Reproduction
from wattveil.reproduce.mechanism import N_CLUSTERS
from wattveil.reproduce.plots import new_figure
from wattveil.reproduce.study import Study

EPSILON_L = 1.0
"""The paper does not say; here the one at which most is seen."""


def run(study: Study) -> Outcome:
    """Draw the labels of the paper's mechanism, and those of randomised response beside them."""
    mechanism, source = study.mixture_mechanism, study.lots("mixture-scatter")
    exact, customers = mechanism.exact, len(mechanism.rows)
    flip = mechanism.flip(EPSILON_L)
    changed = mechanism.labels(EPSILON_L, source) != exact.labels
    plan = plan_labels(
        n_clusters=N_CLUSTERS,
        epsilon=EPSILON_L,
        n_customers=customers,
        sizes=exact.sizes.astype(np.float64),
    )
    private_changed = _through(plan.channel.parts, exact.labels, source.random(customers))
    inside = np.isin(np.arange(customers), exact.label_set)
    rows, labels = mechanism.rows, exact.labels
    return Outcome(
        numbers={
            "points": customers,
            "sensitivity": mechanism.sensitivity,
            "label_set": int(exact.label_set.size),
            "labels_changed": exact.labels_changed,
            "flip": flip,
            "epsilon_l": EPSILON_L,
            "expected_changed": flip * exact.label_set.size,
            "changed": int(changed.sum()),
            "global_label_error": plan.label_error,
            "global_changed": int(private_changed.sum()),
        },
        panels=[
            Shown(
                f"The paper's labels at ε_l = {EPSILON_L:g}: L ringed, changed ones square",
                scatter(rows, labels, inside=inside, changed=changed),
                "",
                "",
            ),
            Shown(
                f"Differentially private labels at ε = {EPSILON_L:g}: changed ones square",
                scatter(rows, labels, changed=private_changed),
                "",
                "",
            ),
        ],
        found=(
            f"{customers:,} points, {N_CLUSTERS} clusters, Δc = {mechanism.sensitivity:.4f}. L has"
            f" {exact.label_set.size} points, one removal changes up to {exact.labels_changed}"
            f" labels. At ε_l = {EPSILON_L:g} a label in L moves with ρ = {flip:.2f}:"
            f" {int(changed.sum())} labels changed."
        ),
        differs=(
            f"The picture is the paper's; where its means lie is not said. The other"
            f" {customers - exact.label_set.size} labels are published as they are, so for these"
            " customers' own records nothing is promised. Labels that protect the customer they"
            f" are about, at the same ε, are wrong for {plan.label_error:.0%} (second picture)."
        ),
    )


def scatter(
    rows: Floats,
    labels: Indices,
    *,
    inside: np.ndarray | None = None,
    changed: np.ndarray | None = None,
) -> Figure:
    """Draw points in the colour of their cluster; L has a ring, changed labels are squares."""
    figure = new_figure()
    nobody = np.zeros(len(rows), dtype=np.bool_)
    ring = nobody if inside is None else inside
    square = nobody if changed is None else changed
    for name, own, marker in (
        ("others", ~ring & ~square, {"size": 4}),
        ("in L", ring & ~square, {"size": 6, "line": {"color": "#e6b800", "width": 2}}),
        (
            "label changed",
            square,
            {"size": 7, "symbol": "square", "line": {"color": "#0000cc", "width": 1.5}},
        ),
    ):
        if own.any():
            figure.add_scatter(
                x=rows[own, 0].round(3),
                y=rows[own, 1].round(3),
                mode="markers",
                marker={**marker, "color": [colour(int(label)) for label in labels[own]]},
                name=name,
            )
    return figure


def _through(parts: Indices, labels: Indices, coins: Floats) -> np.ndarray:
    """Tell whose label a channel changes: one row of chances a true label."""
    ends = np.cumsum(parts[:-1] / parts[0].sum(), axis=1)
    drawn = (coins[:, None] >= ends[labels]).sum(axis=1)
    changed: np.ndarray = drawn != labels
    return changed


FIGURE = Reproduction(
    name="mixture-scatter",
    title="Gaussian mixture: the set L and the labels that changed",
    paper=(
        "1,000 points of six round Gaussians in the plane. The points of L lie where clusters"
        " meet; some of them get another label."
    ),
    run=run,
)
