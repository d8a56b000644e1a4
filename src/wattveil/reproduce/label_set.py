"""The composition of L: whose label changes when somebody else is left out."""

from functools import cache

import numpy as np
from plotly.graph_objects import Figure

from wattveil.clustering.geometry import Floats
from wattveil.clustering.leave_one_out import LeaveOneOut, leave_one_out
from wattveil.clustering.lloyd import k_means
from wattveil.profiles.page import Shown
from wattveil.publish.figures import colour
from wattveil.reproduce.draws import lots
from wattveil.reproduce.figure import Outcome, Reproduction
from wattveil.reproduce.plots import ORANGE, new_figure
from wattveil.reproduce.study import Study

POINTS, CLUSTERS = 20, 3
_DIFFERENT, _LEAST_SET = 3, 4
_TRIES = 20_000


def run(study: Study) -> Outcome:
    """Find twenty points of which some removals change several labels, and list who changes."""
    points, runs = example(study.seed)
    changed = _changed(runs)
    label_set = runs.label_set.tolist()
    sets = "; ".join(f"without {removal}: {points}" for removal, points in changed.items())
    return Outcome(
        numbers={
            "points": POINTS,
            "label_set": label_set,
            "changed_by_removal": {str(removal): own for removal, own in changed.items()},
            "labels_changed": runs.most_labels_changed,
        },
        panels=[
            Shown("Who changes when somebody is left out", _matrix(changed), "point", "left out"),
            Shown("The points; L has a ring", _map(points, runs), "", ""),
        ],
        found=(
            f"Of {POINTS} points in the plane and {CLUSTERS} clusters: {sets}. Together that is"
            f" L = {label_set}, and Δ_l = {runs.most_labels_changed}."
        ),
        differs=(
            "The paper's sets are an illustration; these are computed, by leaving out every"
            " point. L hides how the others' labels depend on one customer. It does not hide a"
            f" customer's own label: the labels of the {POINTS - len(label_set)} points outside L"
            " are published as they are, and who is in L is itself found in the data. So what is"
            " promised holds for this data set alone (instance tier)."
        ),
    )


@cache
def example(seed: int) -> tuple[Floats, LeaveOneOut]:
    """Return the first points of a seed of which three removals change different labels."""
    source = lots(seed, "label-set")
    for _ in range(_TRIES):
        points = source.standard_normal((POINTS, 2))
        runs = leave_one_out(points, k_means(points, CLUSTERS, seed=0))
        changed = {tuple(own) for own in _changed(runs).values()}
        if len(changed) >= _DIFFERENT and runs.label_set.size >= _LEAST_SET:
            return points, runs
    raise RuntimeError(f"no such points in {_TRIES} tries of seed {seed}")


def _changed(runs: LeaveOneOut) -> dict[int, list[int]]:
    """Return the points whose label changes, for each removal that changes any."""
    return {
        int(removal): sorted(runs.changed_point[runs.changed_removal == removal].tolist())
        for removal in np.unique(runs.changed_removal)
    }


def _matrix(changed: dict[int, list[int]]) -> Figure:
    figure = new_figure()
    pairs = [(point, removal) for removal, points in changed.items() for point in points]
    figure.add_scatter(
        x=[point for point, _ in pairs],
        y=[str(removal) for _, removal in pairs],
        mode="markers",
        marker={"symbol": "square", "size": 14, "color": ORANGE},
        showlegend=False,
    )
    figure.update_xaxes(range=[-0.6, POINTS - 0.4], dtick=1, tickangle=0)
    figure.update_yaxes(type="category")
    return figure


def _map(points: Floats, runs: LeaveOneOut) -> Figure:
    inside = np.isin(np.arange(POINTS), runs.label_set)
    figure = new_figure()
    figure.add_scatter(
        x=points[:, 0],
        y=points[:, 1],
        mode="markers+text",
        text=[str(point) for point in range(POINTS)],
        textposition="top center",
        marker={
            "size": 10,
            "color": [colour(int(label)) for label in runs.labels],
            "line": {"color": "#e6b800", "width": (3 * inside).tolist()},
        },
        showlegend=False,
    )
    return figure


FIGURE = Reproduction(
    name="label-set",
    title="The composition of L",
    paper=(
        "Twenty points. Without point 1 the labels of {2, 7, 17} change, without 5 those of {2, 9,"
        " 13}, without 14 those of {4, 15}; the union is L, the points whose labels get noise."
    ),
    run=run,
)
