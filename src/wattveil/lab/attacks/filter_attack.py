"""Filter attack: how much noise a smoothing filter removes from a released load curve.

The paper's figure: white noise on a smooth curve can be filtered out, noise with the covariance of
the data cannot. Both are drawn by the paper's own mechanism (`LeaveOneOutKMeans`, instance tier)
with the same epsilon and delta. Filtering is post-processing and does not weaken the guarantee; it
shows that most of the white noise added no protection and only cost accuracy.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.signal import savgol_filter

from wattveil.arrays import Floats
from wattveil.privacy.opening import reveal
from wattveil.profiles import Profiles
from wattveil.release.instance import LeaveOneOutKMeans

Colour = Literal["white", "coloured"]

_WINDOW_MINUTES, _ORDER = 300, 1
"""The paper's filter: straight lines through five hours."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FilteredCurve:
    """One load curve, released with one kind of noise. The exact curve is private."""

    released_kw: Floats
    filtered_kw: Floats
    noise_kw: float
    """Root-mean-square noise of a slot: sqrt(tr S / d), S its covariance."""
    left_kw: float
    """Root-mean-square noise that the filter F leaves: sqrt(tr F S F' / d)."""
    filtered_error_kw: float
    """Root-mean-square error of the filtered curve: remaining noise and lost detail."""

    @property
    def removed(self) -> float:
        """Share of the noise power that the filter removes."""
        return 1.0 - (self.left_kw / self.noise_kw) ** 2

    def to_json(self) -> dict[str, object]:
        """Return the figures and the curves as JSON values."""
        return {
            "noise_kw": self.noise_kw,
            "left_kw": self.left_kw,
            "removed": self.removed,
            "filtered_error_kw": self.filtered_error_kw,
            "released_kw": self.released_kw.tolist(),
            "filtered_kw": self.filtered_kw.tolist(),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class FilterAttack:
    """Load curve of the largest cluster, under both kinds of noise at the same guarantee."""

    exact_kw: Floats
    found: Mapping[Colour, FilteredCurve]


def filter_attack(
    profiles: Profiles, *, n_clusters: int, epsilon: float, delta: float
) -> FilterAttack:
    """Release the clusters with each kind of noise and filter the curve of the largest one.

    Parameters
    ----------
    profiles
        Private.
    n_clusters
        Number of clusters.
    epsilon, delta
        Budget of the centroids in each release.
    """
    window = _WINDOW_MINUTES // profiles.grid.minutes
    window += 1 - window % 2  # odd: centred on a slot
    columns = profiles.load_kw.shape[1]
    # The day is periodic.
    smooth = savgol_filter(np.eye(columns), window, _ORDER, axis=0, mode="wrap")
    found: dict[Colour, FilteredCurve] = {}
    exact = np.zeros(columns)
    for colour in get_args(Colour):
        fit = LeaveOneOutKMeans(
            n_clusters=n_clusters, epsilon_c=epsilon, delta_c=delta, noise=colour, random_state=0
        ).fit(profiles.load_kw)
        known = reveal(fit.diagnostics_)
        largest = int(np.argmax(known.sizes))
        block = slice(largest * columns, (largest + 1) * columns)
        covariance, exact = known.covariance[block, block], known.centroids[largest]
        released = fit.cluster_centers_[largest]
        filtered = smooth @ released
        found[colour] = FilteredCurve(
            released_kw=released,
            filtered_kw=filtered,
            noise_kw=float(np.sqrt(np.trace(covariance) / columns)),
            left_kw=float(np.sqrt(np.trace(smooth @ covariance @ smooth.T) / columns)),
            filtered_error_kw=float(np.sqrt(np.square(filtered - exact).mean())),
        )
    return FilterAttack(exact_kw=exact, found=found)
