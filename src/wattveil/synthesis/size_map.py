"""Sizes of synthetic customers: as many small and large ones as were counted.

The model of typical days knows the spread of sizes only as well as its clusters. A histogram of the
customers' root-mean-square load is an easy ask and tells it better; synthetic customers are scaled
so that their sizes follow it. Where counts are noisy, half a log-normal curve and half what the
model says are believed.
"""

import math

import numpy as np
from scipy.special import ndtr

from wattveil.clustering._kernels import Floats
from wattveil.clustering.log_normal import fit_log_normal
from wattveil.synthesis import tuning
from wattveil.synthesis.model import SyntheticModel

_RATIO = 1.25
_SAMPLE = 20_000
_CHANCES = np.concatenate([[1e-3, 3e-3], np.linspace(0.01, 0.99, 99), [0.997, 0.999]])


def year_size_edges(plausible_kw: tuple[float, float]) -> Floats:
    """Return the bounds of the cells in which customers' root-mean-square loads are counted."""
    least, most = plausible_kw
    return np.asarray(np.exp(np.arange(math.log(least), math.log(most), math.log(_RATIO))))


def customer_sizes(typical_kw: Floats) -> Floats:
    """Return the root-mean-square load of each synthetic customer."""
    return np.asarray(np.sqrt(np.square(typical_kw).mean(axis=1)))


def size_map(counts: tuple[Floats, float], edges: Floats, model: SyntheticModel) -> Floats:
    """Return (2, points): sizes of the model's customers, and what they become."""
    drawn = model.sample(_SAMPLE, seed=0)[0]
    sizes = np.maximum(customer_sizes(drawn), 1e-9)
    cells = np.searchsorted(edges, sizes, side="right")
    own_shares = np.bincount(cells, minlength=edges.size + 1) / _SAMPLE
    shares = _shares(*counts, edges, own_shares)
    return np.array([np.quantile(sizes, _CHANCES), _quantiles(shares, edges, _CHANCES)])


def mapped_sizes(sizes: Floats, table: Floats) -> Floats:
    """Return the factors that bring customers of these sizes to their new ones."""
    own, target = np.log(table)
    logs = np.log(np.maximum(sizes, 1e-9))
    return np.asarray(np.exp(np.interp(logs, own, target - own)))


def _shares(counts: Floats, std: float, edges: Floats, own_shares: Floats) -> Floats:
    """Return the share of each cell: counted, pulled towards a guess by the noise."""
    median, spread, total = fit_log_normal(counts, np.log(edges), std)
    below = ndtr((np.log(edges) - median) / spread)
    curve = np.diff(below, prepend=0.0, append=1.0)
    guess = 0.5 * total * (curve + own_shares)
    expected = np.square(tuning.SIZE_GUESS_ERROR * guess)
    weight = expected / (expected + std**2 + guess + 1e-12)
    shares = np.maximum(weight * counts + (1.0 - weight) * guess, 1e-9 * total)
    return np.asarray(shares / shares.sum())


def _quantiles(shares: Floats, edges: Floats, chances: Floats) -> Floats:
    """Return quantiles of a histogram; sizes are log-uniform within a cell."""
    logs = np.log(edges)
    step = math.log(_RATIO)
    ends = np.concatenate([[logs[0] - step], logs, [logs[-1] + step]])
    below = np.concatenate([[0.0], np.cumsum(shares)])
    return np.asarray(np.exp(np.interp(chances, below, ends)))
