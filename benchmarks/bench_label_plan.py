"""Planned and achieved information of labels, on simulated homes that the plan does not use.

    python benchmarks/bench_label_plan.py

Rows of a Markdown table for docs/labels-and-shares.md: by label epsilon and number of segments, the
median number of segments that labels distinguish and the mean share of wrong labels, and in how
many releases the number is within one of the plan. Segments are released with epsilon 1.
"""

import numpy as np
from global_tier_cases import say

from wattveil import PrivateKMeans
from wattveil.numerics.label_channel import checked_clusters
from wattveil.privacy.mechanisms.response import PARTS
from wattveil.products.labels import Labels
from wattveil.products.product import Choice
from wattveil.products.released_channel import label_channel
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import TimeGrid
from wattveil.release.randomised_labels import label_design
from wattveil.simulate import simulate_load_kw

SEEDS = range(201, 209)  # the plan has 0 to 3
SIZES = (500, 2000)
CLUSTERS = (3, 6)
EPSILONS = (0.2, 0.5, 1.0, 1.5, 2.0, 3.0)


def main() -> None:
    """Print the table, and how often the plan was right."""
    fits = {
        (n_clusters, customers, seed): PrivateKMeans(
            n_clusters=n_clusters, epsilon=1.0, delta=1e-6, clip_kw=10.0
        ).fit(simulate_load_kw(customers=customers, seed=seed))
        for n_clusters in CLUSTERS
        for customers in SIZES
        for seed in SEEDS
    }
    near = releases = 0
    for epsilon in EPSILONS:
        cells = []
        for n_clusters in CLUSTERS:
            apart, wrong = [], []
            for customers in SIZES:
                planned = _planned(n_clusters, customers, epsilon)
                for seed in SEEDS:
                    fit = fits[n_clusters, customers, seed]
                    centres, weights = checked_clusters(fit.cluster_centers_, fit.cluster_sizes_)
                    drawn = label_design(centres, weights, epsilon=epsilon, design="cheapest")
                    found = label_channel(drawn.parts / PARTS, weights)
                    apart.append(len(found.distinguished))
                    wrong.append(found.label_error)
                    near += abs(apart[-1] - planned) <= 1
                    releases += 1
            cells.append(
                f"{np.median(apart):g} ({min(apart)} to {max(apart)}), {np.mean(wrong):.0%}"
            )
        say(f"| {epsilon:g} | {' | '.join(cells)} |".replace("%", " %"))
    say(f"planned number within one: {near} of {releases} releases")


def _planned(n_clusters: int, customers: int, epsilon: float) -> float:
    request = ReleaseRequest(
        epsilon=1.0 + epsilon,
        label_epsilon=epsilon,
        n_clusters=n_clusters,
        customers=customers,
        clip_kw=10.0,
    )
    labels = Labels()
    allotment = labels.fixed_allotment(request)
    if allotment is None:
        raise RuntimeError("labels have a fixed allotment")
    apart, _ = labels.expected(Choice(request=request, grid=TimeGrid()), allotment)
    return float(apart.value or 0.0)


if __name__ == "__main__":
    main()
