"""Cells around public or released middles, and a filter that averages what is released of them.

Post-processing: the filter sees noisy numbers whose noise is known, nothing else. Each cell has a
middle c, a clip radius rho and a count n. A step releases, for every cell, noisy counts and the
noisy sum S of the clipped offsets (z - c) / (rho a) of its customers. With n known, c should move
by rho a S / n; the noise of that move is known exactly, so a Kalman filter weighs it against what
earlier steps and the public prior say::

    v   += (DRIFT_t rho)^2 p_j            customers changed cells since
    w    = v / (v + noise^2)
    c   += w rho a S / n,   v *= 1 - w

So many steps cost hardly more than one, and a cell without signal stays where it was.
"""

from dataclasses import dataclass, replace

import numpy as np

from wattveil.clustering import tuning
from wattveil.clustering.geometry import Floats, harmonics


@dataclass(frozen=True, kw_only=True, eq=False)
class Statistics:
    """What one step released of the cells."""

    counts: Floats
    """(K, J): noisy customers in each cell and shell."""
    counts_std: float
    sums: Floats
    """(K, r): noisy sums of clipped offsets, in radii and colour."""
    sums_std: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Cells and what is known of them so far."""

    middles: Floats
    """(K, r) in basis coordinates."""
    radii: Floats
    counts: Floats
    counts_variance: Floats
    variance: Floats
    """(K, r): of the middles."""


def start_cells(
    middles: Floats, radii: Floats, counts: Floats, *, counts_std: Floats, spread: float
) -> Cells:
    """Return cells whose middles are known to within ``spread`` radii."""
    return Cells(
        middles=middles,
        radii=radii,
        counts=counts,
        counts_variance=np.square(np.maximum(counts_std, 1.0)),
        variance=np.square(spread * radii)[:, None] * smoothness(middles.shape[1]),
    )


def smoothness(n_coordinates: int) -> Floats:
    """Return the prior share p_j of each coordinate in a curve's variance: smooth is likelier."""
    falling: Floats = (1.0 + harmonics(n_coordinates)) ** -tuning.PRIOR_ROUGHNESS
    shares: Floats = falling / falling.sum()
    return shares


def noise_colour(n_coordinates: int, exponent: float) -> Floats:
    """Return the public scale a_j of each coordinate's noise, of mean square 1."""
    falling: Floats = (1.0 + harmonics(n_coordinates)) ** -exponent
    colour: Floats = falling / np.sqrt(np.mean(np.square(falling)))
    return colour


def update(cells: Cells, seen: Statistics, *, step: int, colour: Floats) -> Cells:
    """Return the cells after one released step."""
    drift = tuning.DRIFT_DECAY**step if step else 0.0
    n_shells = seen.counts.shape[1]
    count_std = seen.counts_std * np.sqrt(n_shells)

    counts_variance = cells.counts_variance + np.square(
        tuning.COUNT_DRIFT * drift * np.maximum(cells.counts, 0.0)
    )
    weight = counts_variance / (counts_variance + count_std**2)
    counts = cells.counts + weight * (seen.counts.sum(axis=1) - cells.counts)
    counts_variance = (1.0 - weight) * counts_variance
    counted = replace(cells, counts=counts, counts_variance=counts_variance)
    found, noise = seen_middles(counted, seen, counts=counted, colour=colour)
    variance = cells.variance + drift_variance(cells, tuning.DRIFT * drift)
    gain = variance / (variance + noise)
    return replace(
        counted,
        middles=cells.middles + gain * (found - cells.middles),
        variance=(1.0 - gain) * variance,
    )


def seen_middles(
    cells: Cells, seen: Statistics, *, counts: Cells, colour: Floats
) -> tuple[Floats, Floats]:
    """Return where a step saw the middles, c + rho a S / n, and the variance of that noise."""
    # A count near 0 would blow the move up; half its own error is a floor that cannot.
    error = np.sqrt(counts.counts_variance)
    divisor = np.maximum(counts.counts, np.maximum(0.5 * error, 1.0))
    scale = (cells.radii / divisor)[:, None] * colour
    return cells.middles + seen.sums * scale, np.square(seen.sums_std * scale)


def drift_variance(cells: Cells, radii: float) -> Floats:
    """Return the variance of middles that moved by so many radii as customers changed cells."""
    moved: Floats = np.square(radii * cells.radii)[:, None] * smoothness(cells.middles.shape[1])
    return moved


def follow_shells(cells: Cells, seen: Statistics, how: tuning.Tuning) -> Cells:
    """Return the cells with radii moved towards the radius that holds a share of the customers."""
    if not how.shells:
        return cells
    factors = np.ones_like(cells.radii)
    for cell, counts in enumerate(seen.counts):
        # A cell that shows nothing keeps its radius.
        if counts.sum() > 3.0 * seen.counts_std * np.sqrt(counts.size):
            found = _shell_quantile(np.maximum(counts, 0.0), how.shells, how.clip_quantile)
            factors[cell] = np.clip(found, 0.5, 1.6) ** tuning.RADIUS_DAMPING
    return replace(cells, radii=cells.radii * factors)


def _shell_quantile(counts: Floats, shells: tuple[float, ...], quantile: float) -> float:
    """Return the radius, in present radii, that holds a share of the counted customers."""
    outer = np.array([*shells, 1.4 * shells[-1]])
    share = np.cumsum(counts) / max(float(counts.sum()), 1e-9)
    shell = min(int(np.searchsorted(share, quantile)), outer.size - 1)
    share_inside, inner = (0.0, 0.1) if shell == 0 else (share[shell - 1], outer[shell - 1])
    part = (quantile - share_inside) / max(float(share[shell] - share_inside), 1e-9)
    return float(inner + (outer[shell] - inner) * part)
