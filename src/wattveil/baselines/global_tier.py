"""Wattveil's own release under differential privacy, through the interface of the baselines.

The noise is that of `PrivateKMeans`: it has no seed, and the generator is not used; nor are the
bounds, since it buys its own. Epsilon and delta buy the centroids; labels are released beside them
for as much epsilon again.
"""

from numpy.random import Generator
from numpy.typing import ArrayLike

from wattveil.baselines.outcome import Outcome, PublicChoices, checked
from wattveil.release.kmeans import PrivateKMeans


def fit(
    load_kw: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    public: PublicChoices,
    generator: Generator,  # noqa: ARG001 - the interface of all
) -> Outcome:
    """Return released centroids and labels."""
    rows = checked(load_kw, epsilon=epsilon, delta=delta, public=public)
    model = PrivateKMeans(n_clusters=public.n_clusters, epsilon=epsilon, delta=delta).fit(rows)
    digits = len(str(len(rows)))
    labels = model.release_labels(
        rows,
        epsilon=epsilon,
        customer_ids=[f"{row:0{digits}}" for row in range(len(rows))],
        real_ids=True,  # these sort as the rows do
    )
    return Outcome(
        centroids_kw=model.cluster_centers_,
        labels=labels.labels,
        claimed=model.guarantee_,
        true=model.guarantee_,
        true_with_labels=model.guarantee_with(labels),
        doubts=(),
    )
