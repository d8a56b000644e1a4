"""Sizes and peaks of synthetic customers, corrected by noisy histograms of the real ones.

The model of typical days has the spread of sizes only as accurately as its clusters, and the
largest load of a year is a tail that no moment of days determines. Histograms of both, over all
customers, are queries of low noise. Quantiles of the figure among synthetic customers are mapped to
those of the histogram. Where counts are noisy, they are shrunk towards a log-normal curve and, for
sizes, the distribution of the model.
"""

import math

import numpy as np
from scipy.special import ndtr

from wattveil.arrays import Floats
from wattveil.numerics.size_distribution import fit_log_normal
from wattveil.numerics.synthesis import synthesis_tuning
from wattveil.numerics.synthesis.population_model import SyntheticModel

_RATIO = 1.25
_SAMPLE = 20_000
_PEAK_RANGE = 10.0
"""Peaks are counted up to so many times the largest plausible root-mean-square load."""
_BEYOND_NOISE = 2.0
"""Standard deviations of the noise of a count that are not credible."""
_CHANCES = np.concatenate([[1e-3, 3e-3], np.linspace(0.01, 0.99, 99), [0.997, 0.999]])


def year_size_edges(plausible_kw: tuple[float, float]) -> Floats:
    """Return the bounds of the cells in which customers' root-mean-square loads are counted."""
    min_kw, max_kw = plausible_kw
    return np.asarray(np.exp(np.arange(math.log(min_kw), math.log(max_kw), math.log(_RATIO))))


def peak_edges(plausible_kw: tuple[float, float]) -> Floats:
    """Return the bounds of the cells in which customers' largest loads are counted."""
    min_kw, max_kw = plausible_kw
    return year_size_edges((min_kw, _PEAK_RANGE * max_kw))


def customer_sizes(typical_kw: Floats) -> Floats:
    """Return the root-mean-square load of each synthetic customer."""
    return np.asarray(np.sqrt(np.square(typical_kw).mean(axis=1)))


def size_map(
    counts: tuple[Floats, float], edges: Floats, model: SyntheticModel, columns: Floats
) -> Floats:
    """Return (2, points): sizes of the model's customers before and after the correction.

    ``columns`` are factors of the typical load.
    """
    drawn = model.sample(_SAMPLE, random_state=0)[0] * columns
    return figure_map(counts, edges, np.maximum(customer_sizes(drawn), 1e-9), trust=0.5)


def figure_map(counts: tuple[Floats, float], edges: Floats, own: Floats, *, trust: float) -> Floats:
    """Return (2, points): quantiles of a figure of synthetic customers, and of the counted ones."""
    cells = np.searchsorted(edges, own, side="right")
    own_shares = np.bincount(cells, minlength=edges.size + 1) / own.size
    shares = _shares(*counts, edges, own_shares, trust)
    return np.array([np.quantile(own, _CHANCES), _quantiles(shares, edges, _CHANCES)])


def mapped_sizes(sizes: Floats, table: Floats) -> Floats:
    """Return the factors that bring customers of these sizes to their new ones."""
    own, target = np.log(table)
    logs = np.log(np.maximum(sizes, 1e-9))
    return np.asarray(np.exp(np.interp(logs, own, target - own)))


def _shares(counts: Floats, std: float, edges: Floats, own_shares: Floats, trust: float) -> Floats:
    """Return the share of each cell: the count, shrunk towards its prior estimate by the noise."""
    median, spread, total = fit_log_normal(counts, np.log(edges), std)
    below = ndtr((np.log(edges) - median) / spread)
    curve = np.diff(below, prepend=0.0, append=1.0)
    prior = total * ((1.0 - trust) * curve + trust * own_shares)
    # A second group of customers is where the curve has none: what noise cannot explain counts.
    credible = np.maximum(prior, counts - _BEYOND_NOISE * std)
    expected = np.square(synthesis_tuning.SIZE_GUESS_ERROR * credible)
    weight = expected / (expected + std**2 + prior + 1e-12)
    shares = np.maximum(weight * counts + (1.0 - weight) * prior, 1e-9 * total)
    return np.asarray(shares / shares.sum())


def _quantiles(shares: Floats, edges: Floats, chances: Floats) -> Floats:
    """Return quantiles of a histogram; sizes are log-uniform within a cell."""
    logs = np.log(edges)
    step = math.log(_RATIO)
    ends = np.concatenate([[logs[0] - step], logs, [logs[-1] + step]])
    below = np.concatenate([[0.0], np.cumsum(shares)])
    return np.asarray(np.exp(np.interp(chances, below, ends)))
