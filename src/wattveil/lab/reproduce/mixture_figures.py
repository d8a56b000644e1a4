"""Figures on the Gaussian mixture: the set L, changed labels, noise, loss and label errors."""

from functools import cache

import numpy as np
from plotly.graph_objects import Figure

from wattveil import calibration
from wattveil.arrays import Floats, Ints
from wattveil.lab.reproduce.figure import Outcome, Reproduction
from wattveil.lab.reproduce.paper_mechanism import (
    N_CLUSTERS,
    PaperMechanism,
    paper_lemma_noise,
    paper_mechanism,
)
from wattveil.lab.reproduce.study import Study
from wattveil.lab.seeded_draws import named_generator
from wattveil.numerics.kmeans.lloyd import k_means
from wattveil.numerics.leave_one_out.leave_one_out_runs import LeaveOneOut, leave_one_out
from wattveil.privacy.mechanisms.modulo import modulo_delta, modulo_flip
from wattveil.products.labels import plan_labels
from wattveil.web.charts import (
    GREY,
    ORANGE,
    Line,
    ReportFigure,
    colour,
    line_figure,
    new_figure,
    panel,
)

# --- the composition of L -------------------------------------------------------------------------


LABEL_SET_POINTS, LABEL_SET_CLUSTERS = 20, 3
_DIFFERENT, _MIN_SET = 3, 4
_TRIES = 20_000


def run_label_set(study: Study) -> Outcome:
    """Find twenty points of which some removals change several labels, and list them."""
    points, runs = label_set_example(study.seed)
    changed = _label_set_changed(runs)
    label_set = runs.label_set.tolist()
    sets = "; ".join(f"without {removal}: {points}" for removal, points in changed.items())
    return Outcome(
        numbers={
            "points": LABEL_SET_POINTS,
            "label_set": label_set,
            "changed_by_removal": {str(removal): own for removal, own in changed.items()},
            "labels_changed": runs.max_labels_changed,
        },
        panels=[
            panel(
                "Labels changed by leaving out a point",
                _label_set_matrix(changed),
                "point",
                "left out",
            ),
            panel("The points; L has a ring", _label_set_map(points, runs), "", ""),
        ],
        found=(
            f"Of {LABEL_SET_POINTS} points in the plane and {LABEL_SET_CLUSTERS} clusters: {sets}."
            f" The union is L = {label_set}, and Δ_l = {runs.max_labels_changed}."
        ),
        differs=(
            "The paper's sets are an illustration; these are computed, by leaving out every"
            " point. L hides how the others' labels depend on one customer. It does not hide a"
            f" customer's own label: the labels of the {LABEL_SET_POINTS - len(label_set)} points"
            " outside L are published unchanged, and L itself is computed from the data. The"
            " guarantee therefore holds for this data set only (instance tier)."
        ),
    )


@cache
def label_set_example(seed: int) -> tuple[Floats, LeaveOneOut]:
    """Return the first points of a seed of which three removals change different labels."""
    source = named_generator(seed, "label-set")
    for _ in range(_TRIES):
        points = source.standard_normal((LABEL_SET_POINTS, 2))
        runs = leave_one_out(points, k_means(points, LABEL_SET_CLUSTERS, seed=0))
        changed = {tuple(own) for own in _label_set_changed(runs).values()}
        if len(changed) >= _DIFFERENT and runs.label_set.size >= _MIN_SET:
            return points, runs
    raise RuntimeError(f"no such points in {_TRIES} tries of seed {seed}")


def _label_set_changed(runs: LeaveOneOut) -> dict[int, list[int]]:
    """Return the points whose label changes, for each removal that changes any."""
    return {
        int(removal): sorted(runs.changed_point[runs.changed_removal == removal].tolist())
        for removal in np.unique(runs.changed_removal)
    }


def _label_set_matrix(changed: dict[int, list[int]]) -> Figure:
    figure = new_figure()
    pairs = [(point, removal) for removal, points in changed.items() for point in points]
    figure.add_scatter(
        x=[point for point, _ in pairs],
        y=[str(removal) for _, removal in pairs],
        mode="markers",
        marker={"symbol": "square", "size": 14, "color": ORANGE},
        showlegend=False,
    )
    figure.update_xaxes(range=[-0.6, LABEL_SET_POINTS - 0.4], dtick=1, tickangle=0)
    figure.update_yaxes(type="category")
    return figure


def _label_set_map(points: Floats, runs: LeaveOneOut) -> Figure:
    inside = np.isin(np.arange(LABEL_SET_POINTS), runs.label_set)
    figure = new_figure()
    figure.add_scatter(
        x=points[:, 0],
        y=points[:, 1],
        mode="markers+text",
        text=[str(point) for point in range(LABEL_SET_POINTS)],
        textposition="top center",
        marker={
            "size": 10,
            "color": [colour(int(label)) for label in runs.labels],
            "line": {"color": "#e6b800", "width": (3 * inside).tolist()},
        },
        showlegend=False,
    )
    return figure


LABEL_SET_FIGURE = Reproduction(
    name="label-set",
    title="The composition of L",
    paper=(
        "Twenty points. Without point 1 the labels of {2, 7, 17} change, without 5 those of {2, 9,"
        " 13}, without 14 those of {4, 15}; the union is L, the points whose labels get noise."
    ),
    run=run_label_set,
)


# --- changed labels -------------------------------------------------------------------------------


EPSILON_L = 1.0
"""Not stated in the paper; chosen so that the effect is visible."""


def run_mixture_scatter(study: Study) -> Outcome:
    """Draw the labels of the paper's mechanism, and those of randomised response beside them."""
    mechanism, source = study.mixture_mechanism, study.generator("mixture-scatter")
    exact, customers = mechanism.exact, len(mechanism.rows)
    flip = mechanism.flip(EPSILON_L)
    changed = mechanism.labels(EPSILON_L, source) != exact.labels
    plan = plan_labels(
        n_clusters=N_CLUSTERS,
        epsilon=EPSILON_L,
        n_customers=customers,
        sizes=exact.sizes.astype(np.float64),
    )
    private_changed = _mixture_scatter_through(
        plan.channel.parts, exact.labels, source.random(customers)
    )
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
            panel(
                f"The paper's labels at ε_l = {EPSILON_L:g}: L ringed, changed ones square",
                scatter(rows, labels, inside=inside, changed=changed),
                "",
                "",
            ),
            panel(
                f"Differentially private labels at ε = {EPSILON_L:g}: changed ones square",
                scatter(rows, labels, changed=private_changed),
                "",
                "",
            ),
        ],
        found=(
            f"{customers:,} points, {N_CLUSTERS} clusters, Δc = {mechanism.sensitivity:.4f}. L has"
            f" {exact.label_set.size} points, one removal changes up to {exact.labels_changed}"
            f" labels. At ε_l = {EPSILON_L:g} a label in L changes with probability ρ = {flip:.2f}:"
            f" {int(changed.sum())} labels changed."
        ),
        differs=(
            f"The figure agrees with the paper's, which does not state the means of the mixture."
            f" The other"
            f" {customers - exact.label_set.size} labels are published unchanged, so there is no"
            f" guarantee for these customers' own records. Labels that protect every customer at"
            f" the same ε are wrong for {plan.label_error:.0%} (second panel)."
        ),
    )


def scatter(
    rows: Floats,
    labels: Ints,
    *,
    inside: np.ndarray | None = None,
    changed: np.ndarray | None = None,
) -> Figure:
    """Draw points in the colour of their cluster; L has a ring, changed labels are squares."""
    figure = new_figure()
    none = np.zeros(len(rows), dtype=np.bool_)
    ring = none if inside is None else inside
    square = none if changed is None else changed
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


def _mixture_scatter_through(parts: Ints, labels: Ints, coins: Floats) -> np.ndarray:
    """Return whose label a channel changes: one row of probabilities per true label."""
    ends = np.cumsum(parts[:-1] / parts[0].sum(), axis=1)
    drawn = (coins[:, None] >= ends[labels]).sum(axis=1)
    changed: np.ndarray = drawn != labels
    return changed


MIXTURE_SCATTER_FIGURE = Reproduction(
    name="mixture-scatter",
    title="Gaussian mixture: the set L and the labels that changed",
    paper=(
        "1,000 points of six round Gaussians in the plane. The points of L lie where clusters"
        " meet; some of them get another label."
    ),
    run=run_mixture_scatter,
)


# --- noise and loss -------------------------------------------------------------------------------


MIXTURE_EPSILONS = (1.0, 5.0, 10.0, 30.0)
MIXTURE_DELTAS = (0.01, 0.2)
SENSITIVITIES = (1, 3, 10, 30)
HEADLINE = (30.0, 0.2)  # the paper's epsilon_c and delta_c
_CHANGED, _FLIP, _EPSILON_L = 10, 0.3, 10.0  # where two deltas of labels are compared


def run_mixture_performance(study: Study) -> Outcome:
    """Draw the four panels: the paper's formula dashed, the exact value solid."""
    mechanism = study.mixture_mechanism
    headline = calibration.paper_calibration(epsilon=HEADLINE[0], delta=HEADLINE[1])
    s = calibration.gaussian_s(epsilon=HEADLINE[0], delta=HEADLINE[1])
    lemma = paper_lemma_noise(study.mixture)
    if lemma is None:
        raise RuntimeError("1,000 points in the plane span every direction")
    certified = paper_mechanism(study.mixture, noise="coloured")
    wasted = lemma.feasible_power / certified.power
    colour_power = certified.exact.white_trace_ratio
    measured = _mixture_performance_measured(study, mechanism)
    label_deltas = [
        delta_of(n_labels=N_CLUSTERS, changed=_CHANGED, flip=_FLIP, epsilon=_EPSILON_L)
        for delta_of in (calibration.modulo_delta_probabilistic, modulo_delta)
    ]
    size = mechanism.exact.label_set.size / len(mechanism.rows)
    share = mechanism.exact.sizes.astype(np.float64)
    at_three = plan_labels(n_clusters=N_CLUSTERS, epsilon=3.0, n_customers=1000, sizes=share)
    few = 8 if study.fast else 25
    return Outcome(
        numbers={
            "sensitivity": mechanism.sensitivity,
            "headline_true_delta": headline.true_delta,
            "headline_true_delta_probabilistic": headline.true_delta_probabilistic,
            "headline_variance_paper": (mechanism.sensitivity / headline.s) ** 2,
            "headline_variance_exact": (mechanism.sensitivity / s) ** 2,
            "loss_at_1_paper": mechanism.expected_loss(_paper_s(1.0, MIXTURE_DELTAS[0])),
            "loss_at_1_exact": mechanism.expected_loss(_exact_s(1.0, MIXTURE_DELTAS[0])),
            "loss_measured_over_expected": measured,
            "lemma_violation": lemma.violation,
            "lemma_mended_over_optimum": wasted,
            "certified_gap": certified.exact.gap,
            "coloured_over_white_power": colour_power,
            "label_set_share": size,
            "global_label_error_at_3": at_three.label_error,
            "label_delta_paper": label_deltas[0],
            "label_delta_exact": label_deltas[1],
        },
        panels=[
            _mixture_performance_variance(mechanism, few),
            _mixture_performance_delta(mechanism, few),
            _mixture_performance_loss(mechanism, few),
            _mixture_performance_label_errors(size, share, few),
        ],
        found=(
            f"With Δc = {mechanism.sensitivity:.4f} the paper's formula and the exact curve diverge"
            f" as ε grows. At ε_c = 30, δ_c = 0.2 the formula's noise has a true δ of"
            f" {headline.true_delta:.6f}; δ = 0.2 needs {(headline.s / s) ** 2:.1f} times its"
            f" power. At ε_c = 1 the opposite holds: the formula adds"
            f" {(_exact_s(1.0, MIXTURE_DELTAS[0]) / _paper_s(1.0, MIXTURE_DELTAS[0])) ** 2:.1f}"
            f" times the noise that is needed. Measured losses are {measured:.2f} times the"
            " expected ones."
        ),
        differs=(
            "The formula σ² = 2 Δc² log(2/δ)/ε² is proved for small ε only; where it fails the"
            " solid curve lies above the dashed one. The paper's expected loss Tr Γ⁻¹ ignores that"
            " the noise of a centroid affects its own customers only: the mean is Σ (n_k/P) tr S_k."
            " According to the paper, round clusters need no coloured noise; the certified optimum"
            f" has {colour_power:.2f} of the power of white noise nevertheless. The paper's lemma"
            f" for the noise covariance, on these points, exceeds its own constraint"
            f" by a factor of {lemma.violation:,.0f} (in these units); scaled up until it"
            f" holds, it has {wasted:.3g} times the power of that optimum."
            " Errors in labels grow with Δ_l as in"
            " the paper; the grey curve is the error when every customer's own label is protected,"
            f" for any Δ_l. By the paper's own definition, δ_l"
            f" at Δ_l = {_CHANGED}, ρ = {_FLIP}, ε_l ="
            f" {_EPSILON_L:g} is {label_deltas[0]:.3f}; the exact value is {label_deltas[1]:.3f}."
        ),
    )


def _paper_s(epsilon: float, delta: float) -> float:
    """Return s of the paper's gamma_c = epsilon^2 / (2 log(2 / delta))."""
    return epsilon / float(np.sqrt(2.0 * np.log(2.0 / delta)))


def _exact_s(epsilon: float, delta: float) -> float:
    return calibration.gaussian_s(epsilon=epsilon, delta=delta)


def _mixture_performance_variance(mechanism: PaperMechanism, few: int) -> ReportFigure:
    deltas = np.geomspace(1e-4, 0.5, few)
    lines = []
    for number, epsilon in enumerate(MIXTURE_EPSILONS):
        for name, s_of, dash in (("paper", _paper_s, "dash"), ("exact", _exact_s, "solid")):
            variance = [(mechanism.sensitivity / s_of(epsilon, delta)) ** 2 for delta in deltas]
            label = f"ε = {epsilon:g}, {name}"
            lines.append(Line(label, deltas, variance, colour(number), dash))
    figure = line_figure(lines, log_x=True, log_y=True)
    return panel("Noise variance that δ_c requires", figure, "δ_c", "variance")


def _mixture_performance_delta(mechanism: PaperMechanism, few: int) -> ReportFigure:
    deviations = mechanism.sensitivity / np.geomspace(20.0, 0.2, few)  # Delta c / s
    lines = []
    for number, epsilon in enumerate(MIXTURE_EPSILONS):
        s = mechanism.sensitivity / deviations
        claimed = np.minimum(2.0 * np.exp(-0.5 * (epsilon / s) ** 2), 1.0)
        true = [calibration.gaussian_delta(epsilon=epsilon, s=float(one)) for one in s]
        for name, delta, dash in (("paper", claimed, "dash"), ("exact", true, "solid")):
            label = f"ε = {epsilon:g}, {name}"
            lines.append(Line(label, deviations**2, delta, colour(number), dash))
    figure = line_figure(lines, log_x=True, log_y=True)
    figure.update_yaxes(range=[-6, 0.1])
    return panel("δ_c that a noise variance gives", figure, "variance", "δ_c")


def _mixture_performance_loss(mechanism: PaperMechanism, few: int) -> ReportFigure:
    epsilons = np.geomspace(0.1, 30.0, few)
    lines = []
    for number, delta in enumerate(MIXTURE_DELTAS):
        for name, s_of, dash in (("paper", _paper_s, "dash"), ("exact", _exact_s, "solid")):
            loss = [mechanism.expected_loss(s_of(epsilon, delta)) for epsilon in epsilons]
            lines.append(Line(f"δ = {delta:g}, {name}", epsilons, loss, colour(number), dash))
    figure = line_figure(lines, log_x=True, log_y=True)
    return panel("Expected DP accuracy loss", figure, "ε_c", "loss")


def _mixture_performance_label_errors(share: float, sizes: Floats, few: int) -> ReportFigure:
    epsilons = np.geomspace(0.3, 30.0, few)
    lines = []
    for number, changed in enumerate(SENSITIVITIES):
        errors = [
            100.0
            * share
            * modulo_flip(n_labels=N_CLUSTERS, changed=changed, epsilon=epsilon, delta=0.0)
            for epsilon in epsilons
        ]
        lines.append(Line(f"Δ_l = {changed}", epsilons, errors, colour(number), "dash"))
    honest = [
        100.0
        * plan_labels(
            n_clusters=N_CLUSTERS, epsilon=epsilon, n_customers=1000, sizes=sizes
        ).label_error
        for epsilon in epsilons
    ]
    lines.append(Line("all labels protected", epsilons, honest, GREY))
    figure = line_figure(lines, log_x=True, log_y=True)
    figure.update_yaxes(range=[-3, 2])
    return panel("Expected errors in labels", figure, "ε_l", "% of the customers")


def _mixture_performance_measured(study: Study, mechanism: PaperMechanism) -> float:
    """Return the mean drawn loss over the expected one, exact labels, at epsilon = 1."""
    s, source = _exact_s(1.0, MIXTURE_DELTAS[0]), study.generator("mixture-performance")
    draws = [
        mechanism.accuracy_loss(mechanism.centroids(s, source), mechanism.exact.labels)
        for _ in range(400)
    ]
    return float(np.mean(draws)) / mechanism.expected_loss(s)


MIXTURE_PERFORMANCE_FIGURE = Reproduction(
    name="mixture-performance",
    title="Gaussian mixture: noise, delta, epsilon and accuracy",
    paper=(
        "Noise variance against δ_c, δ_c against noise variance, the accuracy loss, and the"
        " expected errors in labels for several sensitivities Δ_l: more budget, less noise."
    ),
    run=run_mixture_performance,
)
