"""Synthetic customers: clusters and a model of each, under one budget.

After the clusters (`PrivateKMeans`) four sums are queried, each customer in its nearest cluster:
how many there are and how many export; how far from their centroid they lie; first and second
moments of the offsets; and the margins of the slots. `release.rows.synthesis_features` has what a
customer contributes, `wattveil.synthesis` reads the noisy sums; sampling from the released model is
post-processing.
"""

import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from wattveil import checks
from wattveil.clustering.calendar import whole_days
from wattveil.clustering.geometry import Floats
from wattveil.clustering.lloyd import checked_points
from wattveil.errors import InvalidParameterError
from wattveil.privacy.budget import Budget
from wattveil.privacy.guarantee import Guarantee
from wattveil.privacy.private_rows import IntArray
from wattveil.privacy.private_table import PrivateTable
from wattveil.release.kmeans import PrivateKMeans
from wattveil.release.queries import SynthesisQueries
from wattveil.synthesis import fit, tuning
from wattveil.synthesis.coordinates import Coordinates, TransformName
from wattveil.synthesis.model import SyntheticModel


class LoadSynthesizer(PrivateKMeans):
    """A model of synthetic customers released under global differential privacy.

    Parameters
    ----------
    n_clusters, epsilon, delta, clip_kw, plausible_kw, public_library
        As in `PrivateKMeans`; the budget is for clusters and model together.
    load_transform : {"asinh", "log"}
        "asinh" takes export (negative load) as it comes; "log" is the paper's log(x + alpha).
    alpha_kw : float
        Public alpha of "log": above the deepest export of any customer.
    slots_per_day : int or None
        For rows of several days (a week, weekday and weekend, seasons); None is one day.
    centroids : (K, d) or None
        Centroids that are public or were released before: nothing is spent on clusters then, and
        the guarantee is of the model alone.

    Attributes
    ----------
    model_ : SyntheticModel
        Released: what `sample` draws from.

    Notes
    -----
    Learned attributes of `PrivateKMeans` are there too; with ``centroids`` given, those alone that
    are not about finding them. Rows with NaN or infinity contribute nothing, by rule.

    **Formal guarantee.** (epsilon, delta)-DP for zero-out of one customer, for any data: clusters,
    two histograms and two sums by cells under one budget, each customer in one cell of each; the
    rest is post-processing. Proofs: docs/proofs/gaussian-sum.md, their adaptive composition
    docs/proofs/adaptive-transcript.md.
    """

    def __init__(
        self,
        *,
        n_clusters: int = 6,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        clip_kw: float | None = None,
        plausible_kw: tuple[float, float] = (0.04, 40.0),
        public_library: ArrayLike | None = None,
        load_transform: Literal["asinh", "log"] = "asinh",
        alpha_kw: float = 15.0,
        slots_per_day: int | None = None,
        centroids: ArrayLike | None = None,
    ) -> None:
        super().__init__(n_clusters=n_clusters, epsilon=epsilon, delta=delta, clip_kw=clip_kw)
        self.plausible_kw = plausible_kw
        self.public_library = public_library
        self.slots_per_day = slots_per_day
        self.load_transform = load_transform
        self.alpha_kw = alpha_kw
        self.centroids = centroids

    def sample(
        self, n_customers: int, *, seed: int, by: Sequence[float] | None = None
    ) -> tuple[Floats, IntArray]:
        """Draw customers from the released model: free. See `SyntheticModel.sample`."""
        check_is_fitted(self)
        return self.model_.sample(n_customers, seed=seed, by=by)

    def guarantee(self) -> Guarantee:
        """Return what a fit will promise; refuse parameters that scikit-learn wants unchecked."""
        if self.load_transform not in get_args(TransformName):
            rule = f"one of {get_args(TransformName)}"
            raise InvalidParameterError("load_transform", rule, self.load_transform)
        checks.positive("alpha_kw", self.alpha_kw)
        return super().guarantee()

    def _release(self, load_kw: PrivateTable[Floats], budget: Budget, *, share: float) -> None:
        """Release the clusters, unless they are given, then the model with what is left."""
        if self.centroids is None:
            super()._release(load_kw, budget, share=share * tuning.CLUSTER_SHARE)
        else:
            given = checks.numbers("centroids", self.centroids)
            shape = (self.n_clusters, load_kw.width)
            if given.shape != shape:
                raise InvalidParameterError("centroids", f"of shape {shape}", given.shape)
            self.cluster_centers_ = checked_points(given, field="centroids")
            for name in ("cluster_centers_std_", "n_told_apart_", "size_scale_"):
                self.__dict__.pop(name, None)  # of an earlier fit that looked for clusters
        to = Coordinates(
            centroids=self.cluster_centers_,
            transform=self.load_transform,
            alpha_kw=self.alpha_kw,
            n_days=whole_days(load_kw.width, self.slots_per_day or load_kw.width),
        )
        left = budget.share(share) - sum(spend.rho_units for spend in budget.spends)
        queries = SynthesisQueries(load_kw, to, longest=self._longest(load_kw.width))
        self.model_, std = _find_model(queries, to, left, max_kw=self._max_kw())
        self.cluster_sizes_ = self.model_.customers
        self.cluster_sizes_std_ = np.full(self.n_clusters, std)

    def _max_kw(self) -> float:
        """Return the public bound on the root-mean-square load of a synthetic customer."""
        return self.plausible_kw[1] if self.clip_kw is None else self.clip_kw


def _find_model(
    queries: SynthesisQueries, to: Coordinates, left: int, *, max_kw: float
) -> tuple[SyntheticModel, float]:
    """Query counts, lengths, moments and margins with these units of the budget.

    Return the model with the standard error of its numbers of customers.
    """
    count_units, length_units, margin_units = (
        int(part * left) for part in (tuning.COUNT_SHARE, tuning.RADIUS_SHARE, tuning.MARGIN_SHARE)
    )
    counts, std = queries.exports(rho_units=count_units)
    by_cluster = counts.sum(axis=1), math.sqrt(2.0) * std
    edges = fit.radius_edges(to)
    radius = fit.choose_radius(*queries.lengths(edges, rho_units=length_units), edges)
    units = left - count_units - length_units - margin_units
    moments = queries.moments(radius.clip, rho_units=units)
    found = fit.read_clusters(*moments, by_cluster, radius, to)
    means, covariances = fit.in_slots(found, to)
    deviations = np.sqrt(np.einsum("kii->ki", covariances))
    margins = queries.margins(means, deviations, rho_units=margin_units)
    model = fit.make_model(found, to, margins=margins, counts=(counts, std), most_kw=max_kw)
    return model, by_cluster[1]
