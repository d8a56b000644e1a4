"""All refining steps once more, when they are over.

Post-processing: it sees what the steps released, nothing else. While the steps are asked for, the
filter (`cells`) must guess how many customers a cluster has and how far its middle may still drift.
At the end both are known better. Where nobody changed cells all steps saw the same middle, and
their plain average is best; where many did, the last steps are. So each cluster's steps are
filtered under several drifts g, and the results are weighed by the likelihood of what was seen::

    L(g) = prod_t N(y_t; c_t, v_t + n_t^2)

with y_t seen in step t, noise n_t, and c_t and v_t foreseen by the filter.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wattveil.clustering import tuning
from wattveil.clustering.cells import Cells, Statistics, drift_variance, seen_middles
from wattveil.clustering.geometry import Floats

Steps = Sequence[tuple[Cells, Statistics]]
"""The cells that each step asked about, and what it released of them."""


def look_back(last: Cells, steps: Steps, *, colour: Floats) -> Cells:
    """Return the last cells with middles by all steps and their own counts.

    Their variance is not below that of the last cells: clipping and counts err too, which no
    likelihood of the steps sees.
    """
    passes = [_filter(last, steps, colour, drift) for drift in tuning.DRIFTS]
    middles, variance, misfit = (np.array(one) for one in zip(*passes, strict=True))
    chance = np.exp(-0.5 * (misfit - misfit.min(axis=0)))[..., None]
    chance /= chance.sum(axis=0)
    mean = (chance * middles).sum(axis=0)
    found = (chance * (variance + np.square(middles - mean))).sum(axis=0)
    return replace(last, middles=mean, variance=np.maximum(found, last.variance))


def _filter(
    last: Cells, steps: Steps, colour: Floats, drift: float
) -> tuple[Floats, Floats, Floats]:
    """Return middles, their variance, and minus twice the log-likelihood of each cluster."""
    middles, variance = steps[0][0].middles, steps[0][0].variance
    misfit = np.zeros(len(middles))
    for step, (cells, seen) in enumerate(steps):
        if step:
            variance = variance + drift_variance(cells, drift * tuning.DRIFT_DECAY**step)
        found, noise = seen_middles(cells, seen, counts=last, colour=colour)
        apart, spread = found - middles, variance + noise
        misfit += (np.log(spread) + np.square(apart) / spread).sum(axis=1)
        gain = variance / spread
        middles, variance = middles + gain * apart, (1.0 - gain) * variance
    return middles, variance, misfit
