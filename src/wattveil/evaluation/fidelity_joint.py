"""Fidelity of whole profiles: F14 to F18 of docs/evaluation.md. PRIVATE.

All slots together, as points in d dimensions. What needs all pairs looks at 2,000 rows of each.
"""

import numpy as np
from sklearn.linear_model import RidgeClassifier

from wattveil.clustering.lloyd import assign
from wattveil.evaluation.metric import Metric
from wattveil.evaluation.sample import Floats, Sample, squared_distances
from wattveil.measures.samples import total_variation

_NEIGHBOURS = 5
_FOR_WIDTH = 500
_RIDGE = 0.1


def mmd(real: Sample, other: Sample) -> tuple[float]:
    """F14: unbiased ``MMD^2 = mean k(r, r') + mean k(s, s') - 2 mean k(r, s)``.

    ``k(x, y) = exp(-|x - y|^2 / (2 h^2))``, h the median distance of two real rows; pairs of a row
    with itself are left out.
    """
    some = real.own_squares[:_FOR_WIDTH, :_FOR_WIDTH]
    width = float(np.median(some[np.triu_indices(len(some), 1)])) or 1.0

    def kernel(squared: Floats) -> Floats:
        found: Floats = np.exp(squared / (-2.0 * width))
        return found

    own = [
        (kernel(sample.own_squares).sum() - len(sample.few))
        / (len(sample.few) * (len(sample.few) - 1))
        for sample in (real, other)
    ]
    across = kernel(squared_distances(real.few, other.few)).mean()
    return (float(own[0] + own[1] - 2.0 * across),)


def two_sample_classifier(real: Sample, other: Sample) -> tuple[float]:
    """F15: ``A - 1/2``, A the accuracy of a classifier of real against other rows.

    It learns on one half and is tested on the other: ``z = (A - 1/2) / sqrt(1/4 / n_test)``. Ridge
    regression on loads, their squares, products of neighbouring slots and sizes of steps: on
    synthetic homes it sees more than trees on the loads do, for a twentieth of the time.
    """
    count = min(len(real.few), len(other.few))
    both = _features(np.concatenate([real.few[:count], other.few[:count]]), real.few)
    is_other = np.repeat([0, 1], count)
    learn = np.arange(2 * count) % 2 == 0
    both -= both[learn].mean(axis=0)
    both /= np.maximum(both[learn].std(axis=0), 1e-12)
    model = RidgeClassifier(alpha=_RIDGE * count).fit(both[learn], is_other[learn])
    accuracy = (model.predict(both[~learn]) == is_other[~learn]).mean()
    return (float(accuracy) - 0.5,)


def frechet(real: Sample, other: Sample) -> tuple[float]:
    """F16: ``(|m_R - m_S|^2 + tr(S_R + S_S - 2 (S_R S_S)^1/2)) / tr(S_R)``.

    The eigenvalues of ``S_R S_S`` are those of ``S_R^1/2 S_S S_R^1/2``, which is symmetric.
    """
    values, vectors = np.linalg.eigh(real.covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    inner = np.linalg.eigvalsh(root @ other.covariance @ root)
    trace = np.trace(real.covariance)
    shift = np.square(real.mean_kw - other.mean_kw).sum()
    spread = trace + np.trace(other.covariance) - 2.0 * np.sqrt(np.maximum(inner, 0.0)).sum()
    return (float((shift + spread) / max(trace, 1e-12)),)


def neighbourhoods(real: Sample, other: Sample) -> tuple[float, float, float, float]:
    """F17: what precision, recall, density and coverage lack of 1 (Naeem et al. 2020), k = 5.

    B_i is the ball around row i that reaches to its k-th nearest neighbour among its own kind::

        precision = mean_j [s_j in some B(r_i)]       density  = 1/(k m) sum_j #{i: s_j in B(r_i)}
        recall    = mean_i [r_i in some B(s_j)]       coverage = mean_i [some s_j in B(r_i)]
    """
    across = squared_distances(real.few, other.few)
    inside = across < _squared_radius(real)[:, None]
    inside_other = across < _squared_radius(other)[None, :]
    precision, recall = inside.any(axis=0).mean(), inside_other.any(axis=1).mean()
    density = inside.sum() / (_NEIGHBOURS * inside.shape[1])
    coverage = inside.any(axis=1).mean()
    return tuple(1.0 - float(found) for found in (precision, recall, density, coverage))  # type: ignore[return-value]


def cluster_shares(real: Sample, other: Sample) -> tuple[float]:
    """F18: ``1/2 sum_k |share_R(k) - share_S(k)|`` of the customers nearest to each centroid."""
    shares = []
    for sample in (real, other):
        counts = np.bincount(
            assign(sample.typical, sample.centroids), minlength=len(sample.centroids)
        )
        shares.append(counts / counts.sum())
    return (total_variation(*shares),)


def _features(rows: Floats, real: Floats) -> Floats:
    """Return what the classifier sees, of loads in standard deviations of the real ones."""
    z = np.arcsinh((rows - real.mean(axis=0)) / np.maximum(real.std(axis=0), 1e-12))
    before, after = z[:, :-1], z[:, 1:]
    return np.column_stack([z, np.square(z), before * after, np.abs(after - before)])


def _squared_radius(sample: Sample) -> Floats:
    """Return the squared distance of each row to its k-th nearest other row."""
    place = min(_NEIGHBOURS, len(sample.few) - 1)  # place 0 is the row itself
    return np.partition(sample.own_squares, place, axis=1)[:, place]


JOINT_METRICS = (
    Metric(figures=(("F14 MMD squared", ""),), measure=mmd),
    Metric(figures=(("F15 classifier, accuracy above 1/2", ""),), measure=two_sample_classifier),
    Metric(figures=(("F16 Frechet distance", "of the variance"),), measure=frechet),
    Metric(
        figures=tuple(
            (f"F17 {name} below 1", "") for name in ("precision", "recall", "density", "coverage")
        ),
        measure=neighbourhoods,
    ),
    Metric(figures=(("F18 shares of clusters", ""),), measure=cluster_shares),
)
