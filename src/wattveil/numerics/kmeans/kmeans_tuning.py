"""Tuning constants of private K-means: every number that was chosen by measurement.

None of them touches the guarantee: they decide how a granted budget is divided and how released
numbers are read. What each brings was measured as the geometric mean of the accuracy loss over
seven data sets of 1,000 to 4,200 customers at epsilon 0.3 / 1 / 3; "full" is .243 / .101 / .048.
Four coarse steps, the smoothing pass (`DRIFTS`) and the merge selection came later: their
effect is stated beside them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

COUNT_SHARE = 0.01
"""Share of rho for the number of customers, unless it is public, which is no more accurate."""

SIZE_SHARE = (0.05, 0.25)
"""Minimum and maximum share of rho for the sizes; between them (10 / (n mu))^2. The maximum is for
a wide range."""

WIDE_RANGE = 1000.0
"""Ratio of maximum to minimum plausible size. Sizes that are better known in advance get less of
rho."""

POPULATION_MEAN_SIGNAL = (9.0, 30.0)
"""Signals n mu at which half of what is left is for the population mean, and from which on
nothing is. Before it was there, one mean profile lost a fifth to two fifths less on customers
without clusters where n mu is below 10."""

MAX_POPULATION_MEAN_SHARE = 0.9
"""Maximum share for the population mean: the stages after it need some budget."""

POPULATION_MEAN_RADII = (0.35, 0.25, 0.15)
"""Clip radius of its steps, in sizes: as it is known better, offsets from it are shorter. With one
step of the first radius, 100 customers at epsilon 0.3 and 246 at 0.1 around one shape lose 1.46
times as much (four populations, 30 runs)."""

POPULATION_MEAN_SPREAD = 0.4
"""Prior standard deviation of the population mean, in sizes; with 0.6, 100 customers around one
shape at epsilon 0.1 lose 1.12 times as much."""

SHAPE_MEAN_SHARE = 0.1
"""Minimum share for the population mean of shapes, around which the codebook is placed."""

CENTRED_BELOW = 500.0
"""Signal nu above which it is not queried: library shapes do as well (10,000 customers)."""

LOAD_MEAN_SHARE = 0.05
LOAD_MEAN_RADII = (0.5, 0.35)
CENTRED_LOAD_BELOW = 100.0
"""The same for load in kW, whose codebook is placed around the direction of the mean."""

LOAD_SCALE = 0.6
LOAD_RADIUS = 0.65
"""Of the cells around that direction, at every size level: scale of the offsets, and clip radius of
all cells as a share of the size level. Chosen on the tuning families of benchmarks/families.py;
benchmarks/bench_families.py measures the loss with all choices on the others."""

SHAPE_MEAN_RADII = (0.35, 0.25)
"""Clip radius of the steps of that mean."""

FAR = 0.55
FAR_COUNT_PART = 0.6
WIDE_SHARE = 0.18
"""Shapes differ widely if more than WIDE_SHARE of the customers are farther than FAR from the mean;
FAR_COUNT_PART of the last step for the mean is for their count. In homes without panels it is 2
to 8 %, in the tuning families with panels 25 to 75 %."""

WIDE_COARSE_STEPS = 1
"""Number of coarse steps of such shapes with little signal: with two the loss is 1.08 of that, in
three tuning families."""

CENTRED_SHAPES = 12
CENTRED_SCALE = 0.5
CENTRED_RADIUS = 0.3
"""Other shapes are alike: a codebook around their mean. Number of library shapes whose offsets from
the mean of the library, times the scale, are added to the population mean; and the clip radius
there. Beside them are the mean itself and as many library shapes. Chosen like `LOAD_RADIUS`."""

LIBRARY_RADIUS = 0.4
"""Clip radius of library shapes beside those around the mean."""

COARSE_SHARE = 0.35
"""Of rho for the coarse stage. Without the stage .307 / .189 / .118, from a random start
.690 / .555 / .546."""

COARSE_COUNT_PART = 0.6
"""Of a coarse step for counts: where customers are matters more than their exact centre."""

REFINE_COUNT_PART = 0.12
"""Of a refining step for counts: the counts of all steps add up in the filter."""

CELL_RADIUS = 0.55
"""Clip radius of a coarse cell, as a share of its size level."""

LIBRARY_SPREAD = 0.6
CENTRE_SPREAD = 0.55
"""Prior standard deviation of the centre of a cell before the coarse and the refining stage, in
radii. Without a filter over the steps (no prior, no averaging) 1.02 / .330 / .157."""

DRIFT = 0.6
DRIFT_DECAY = 0.6
"""A step may move a centre by DRIFT DRIFT_DECAY^t radii, as customers change cells."""

DRIFTS = (0.0, 0.15, 0.3, 0.6, 1.0)
"""In place of DRIFT, in the smoothing pass over all refining steps. Paired, over 56 cells (14
data sets, epsilon 0.3 to 10, 6 runs) the loss is .976 of that without, at most 1.03 in one cell."""

COUNT_DRIFT = 0.5
"""The same for counts, as a share of the count."""

ROUGH_DECAY = 5.0
ROUGH_IN_COMMON = 2e-4
ROUGH_OF_SHAPES = 4e-4
ROUGH_OF_LOAD = 1e-4
"""Prior variance of the centroids in a rough coordinate, in squared lengths of a centroid: of the
part that clusters share and of the part of each, times (6 / (1 + harmonic))^ROUGH_DECAY. Read off
exact clusters of the tuning families (`rough_coordinates`)."""

PRIOR_ROUGHNESS = 2.0
"""Prior variance of coordinate j falls as (1 + harmonic)^-2; flat .330 / .137 / .057."""

COUNT_PRIOR = 1.5
"""Prior standard deviation of a coarse cell's count, as a share of its expectation."""

MERGED_COUNT_PRIOR = (0.5, 0.05)
"""The same after the merge: of its own count, and of all customers."""

CONFIRMED = 0.7
"""Standard deviations above 0 of the count of a coarse cell that takes part in the merge."""

MERGED_RADIUS = 1.0
"""The clip radius after the merge, as a share of the spread found. With .85 the loss is the same
(tuning families of few customers) and bands of load cover .86 in place of .88."""

RADIUS_DAMPING = 0.7
"""Exponent by which a radius follows the shell quantile."""

OWN_SPREAD = 0.5
"""Of a cell's squared radius: what its customers add to the spread of the merged cluster."""

SIZE_OFFSET = 0.65
"""In the merge of load, a cell is three points: its centre, and this many radii towards and away
from 0, as its customers differ in size. With the centre alone a cell of many customers is never
divided, and what it loses does not count. In nine tuning families in kW, epsilon 0.3 to 3, the loss
is .87 of that without, at most 1.24 in one cell (10 runs under the same noise); two points, or .6
radii, do about the same. Three points along smooth coordinates of shapes: .99, up to 1.18."""

SELECTION_SHARE = 0.05
"""Of rho for the selection among local optima of the merge, if there is any. Under the same
noise the mean loss is .87 of that of the cheapest merge, the median .91, and 12 in place of 31 of
1,080 runs are above three medians + 0.02; with little signal .98, 1.00, and 3 in place of 4 of 960
(`benchmarks/bench_stages.py selection --runs 60`)."""

MAX_MERGES = 12
PLAUSIBLE = 2.0
"""Maximum number of local optima that are compared, and maximum distance of their predicted cost
from the cheapest, in standard deviations."""

BAND_COUNTS = (1.0, 2.0, 3.0, 6.0, 12.0)
SHAPE_BAND_FACTORS = (1.65, 1.6, 1.05, 0.95, 0.85)
LOAD_BAND_FACTORS = (1.37, 1.29, 1.17, 0.98, 1.06)
SHAPE_BIAS_AT = 60.0
LOAD_BIAS_AT = 34.0
BAND_SIZES = (0.5, 0.9, 1.3, 2.0, 3.5)
SIZE_BAND_FACTORS = (0.74, 0.82, 0.92, 1.26, 1.41)
EXPORT_BAND_FACTOR = 1.79
"""Factors of the standard errors of centroids, by the count of a cluster in standard errors, and
the count at which bias equals noise; for load, factors by the size of a centroid in mean sizes, and
of one that exports (`band_calibration`). Those of load are from 27 cells of the tuning families
with 8 runs (`benchmarks/fit_bands.py`). Those of shapes are 2 to 15 % above what that script finds:
they include 12 cells of 5,772 and 10,000 customers, where the bias counts more."""

COUNT_BIAS = 0.015
"""Standard error of the count of a cluster that remains without noise, as a share of the count:
customers change clusters after the last step. Without it, size bands of 100,000 customers at
epsilon 3 cover .36 (tuning families of 5,772 to 100,000 customers)."""

LEVEL_RATIO = 1.8
"""Between neighbouring size levels of the codebook."""

SHELLS = (0.5, 0.8, 1.1, 1.5)
"""Bounds, in radii, of the shells whose counts measure the radius of a cluster."""


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Tuning of a release, determined by nu = n mu / K, the signal per cluster."""

    coordinates: int
    """Working dimension r: number of basis curves."""
    colour: float
    """Exponent g of the noise colour (1 + harmonic)^-g."""
    coarse_steps: int
    refine_steps: int
    shells: tuple[float, ...]
    clip_quantile: float
    """Share of a cluster that should lie within its radius."""
    cells_per_level: tuple[int, int, int]
    """Library shapes at the lowest, each inner and the highest size level."""
    cells_normalised: int
    """Library shapes when there are no sizes."""
    pools_rough: bool
    """Whether rough coordinates are pooled over the clusters."""


def choose_tuning(signal: float, *, n_slots: int, n_clusters: int) -> Tuning:
    """Return the tuning for a signal nu = n mu / K per cluster.

    More signal carries more coordinates, shapes and steps. From 300 on, four coarse steps let the
    cells settle where customers are before they are merged: with two, under the same noise, the
    mean loss was 17 % higher (23 cells of 901 to 11,627 customers, 10 runs, on which the number was
    chosen too). Normalised rows get twice the shapes besides, which was measured only together with
    the steps. From 5,000 on two coarse
    steps do what three did (100,000 customers, seven data sets), and six refining steps stand for
    ten: shapes of 100,000 customers lose .001 more, and a million customers take a third less time.
    """
    weak, strong = signal < 100.0, signal >= 5000.0
    if signal < 80.0:
        coordinates, colour = 13, 0.0
    elif signal < 150.0:
        coordinates, colour = 13, 0.1
    elif signal < 5000.0:
        coordinates, colour = 24, 0.1 if signal < 300.0 else 0.25
    else:
        coordinates, colour = n_slots, 0.25
    k = n_clusters
    return Tuning(
        coordinates=min(coordinates, n_slots),
        colour=colour,
        coarse_steps=2 if weak or strong else 3 if signal < 300.0 else 4,
        pools_rough=signal < 80.0,
        refine_steps=10 if signal >= 300.0 and not strong else 6,
        shells=() if weak else SHELLS,
        clip_quantile=0.8 if signal < 300.0 else 0.9,
        cells_per_level=(
            (max(4, 2 * k // 3), max(12, 2 * k), max(8, -(-4 * k // 3)))
            if weak
            else (max(8, k), max(20, 2 * k), max(12, 2 * k))
        ),
        cells_normalised=(
            max(20, 2 * k) if weak else max(28, 4 * k) if signal < 300.0 else max(56, 8 * k)
        ),
    )


def size_share(signal: float, *, range_ratio: float) -> float:
    """Return the share of rho for the sizes, by n mu and the ratio of plausible sizes."""
    smallest, largest = SIZE_SHARE
    known_to_within = min(1.0, math.log(range_ratio) / math.log(WIDE_RANGE))
    return max(smallest, min(largest * known_to_within, (10.0 / max(signal, 1.0)) ** 2))


def population_mean_share(signal: float) -> float:
    """Return the share for the population mean, by n mu: of rho without number and sizes."""
    half, none = POPULATION_MEAN_SIGNAL
    return (
        min(MAX_POPULATION_MEAN_SHARE, 1.0 / (1.0 + (signal / half) ** 2)) if signal < none else 0.0
    )


def mean_steps(
    signal: float, *, n_clusters: int, is_shape: bool
) -> tuple[float, tuple[float, ...]]:
    """Return the share and the clip radii of the population mean, by n mu; 0 if there is none."""
    share = population_mean_share(signal)
    least, radii, below = (
        (SHAPE_MEAN_SHARE, SHAPE_MEAN_RADII, CENTRED_BELOW)
        if is_shape
        else (LOAD_MEAN_SHARE, LOAD_MEAN_RADII, CENTRED_LOAD_BELOW)
    )
    if share < least and signal < below * n_clusters:
        return least, radii
    return share, POPULATION_MEAN_RADII


def centred_load_cells(n_clusters: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return library shapes and offsets at the lowest, each inner and the highest size level."""
    k = n_clusters
    library = (max(3, k // 2), max(8, 4 * k // 3), max(6, k))
    return library, (max(2, k // 3), max(4, 2 * k // 3), max(4, 2 * k // 3))


def split_units(units: int, parts: int) -> Iterator[int]:
    """Divide whole units into parts that add up to all of them."""
    for left in range(parts, 0, -1):
        part = units // left
        units -= part
        yield part


def counts_and_sums(units: int, part: float) -> tuple[int, int]:
    """Divide the units of a step into those for counts and those for sums."""
    for_counts = int(units * part)
    return for_counts, units - for_counts
