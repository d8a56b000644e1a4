"""Tuning constants of the synthesis: every number that was chosen by measurement.

None of them touches the guarantee. Those of a day were chosen on three simulated populations
(smooth random curves, 1,000 and 4,000 customers; homes among businesses, 1,400) at epsilon 1, 3 and
10, with the queries simulated in NumPy and export transformed by asinh. A figure is the geometric
mean over these nine cells of W1 per hour over its standard deviation, or of the mean absolute error
of a correlation. Each pair was measured with the other numbers as they were at the time: only
figures of one pair compare. The accuracy of the present release is in docs/synthesis.md.
"""

CLUSTER_SHARE = 0.5
"""Of rho for the clusters; the shares below are of the rest."""
COUNT_SHARE = 0.05
RADIUS_SHARE = 0.04
MARGIN_SHARE = 0.15
"""For the margins. Without them W1 was .232 beside .186; with .2 it was .158 as with .15."""
MEAN_PART = 0.2
"""Of the moments for the means; the rest is for the second moments. With twice as much the error
of correlations was .094 beside .091, with W1 the same."""

SCALE = 0.7
"""Scale of asinh, in root-mean-square loads of the cluster. With 1 W1 was .158 beside .149, with .5
.148; correlations were the same."""
PRIOR_LEVEL, PRIOR_SPREAD, PRIOR_PERSISTENCE, PRIOR_ROUGH = 0.12, 0.4, 0.8, 0.03
"""Public prior of the covariance within a cluster, after the transform: standard deviation of the
whole day; of an hour; its correlation with the next hour; of what is not shared with any."""
PRIOR_SAME_DAY = 0.8
"""Correlation of one hour on two days of a row with several days."""
COLOUR = 0.35
"""Exponent of the colour: coordinate j is queried with weight (its prior variance)^0.35. With 0
the error of correlations was .125 beside .104 with 0.25; 0.35 was .094 beside .101."""
COORDINATES_OF_DAY, COORDINATES_OF_DAYS = 24, 40
"""Maximum coordinates of rows of one day and of several; beyond them the prior's form is kept."""
KEPT_INSIDE = 0.8
"""Share of the customers that lie within the clip radius. From .65 to .9 W1 was .162 to
.165."""

COSINES = 8
"""Numbers that describe a margin. With 6 W1 was .162 beside .158."""
DAILY_WAVES = 2
"""Number of waves by which a margin changes over the day."""
MARGIN_PRIOR = 0.25
"""Expected size of the first number of a margin; the j-th is expected j^-0.5 times as large, the
w-th wave (1 + w)^-1 times."""
MARGIN_RADIUS = 1.0
"""Clip radius of a margin's numbers, in lengths of a row that sits at one quantile all day."""

TYPICAL_SHARE = 0.70
"""Years: of rho for the model of typical days. The shares below are of the whole too; the moments
of the days get the rest."""
SIZE_SHARE = 0.05
FIGURE_SHARE = 0.02
"""For each of four histograms: spreads of shapes and of levels, base loads, peaks."""
LEVEL_SHARE = 0.10
"""For the level common to all customers, day by day."""
LEVEL_LIMIT = 1.0
"""Largest level of a customer's day."""
LEVEL_RADIUS = 0.4
"""Root mean square to which the levels of a customer are clipped."""
LEVEL_LOADING = 1.22
"""Correction of the levels for this clipping. It is 1.15 for 476 London homes (every other one, on
which the constants of a day without another source were chosen), 1.05 for 300 simulated homes; the
rest is lost where loadings are limited."""
SEASON_GUESS_ERROR = 0.1
"""Prior standard deviation of the error of the seasons in the model of typical days."""
STEADY_PATTERN = 0.05
"""Loadings follow the seasons of a customer: over homes, the slope of daily energy on the common
level is .98 (every other London home) and .96 (simulated homes) times the slope of its seasons on
those of all, with a correlation of .76. Below a pattern of 5 % loadings approach 1."""
PEAK_START = 0.55
"""Share of the peak above which load is stretched to the released peaks. With .52 the coincident
peak is 1 to 2 % lower than with .6 (every other London home and 476 simulated ones)."""
BASE_CHANCE = 0.1
"""Quantile of a customer's load that is its base load."""
BELOW_BASE, LOWEST_ROOT = 0.5, 1.5
"""Load per root below the base load, in base loads; and how far below 0 a root may be."""
ROUGHNESS, ROUGHNESS_SPREAD = 0.05, 0.35
"""Mean over customers, and standard deviation, of the log weight of the roughest coordinate of a
day beside the smoothest. Autocorrelation at 1 h is too high in simulated homes and too low in
London at epsilon 3; this mean is between them."""
HABIT, HABIT_SPREAD = -0.15, 0.7
"""Mean and standard deviation of the log of the share of shapes that lasts, beside the released."""
HOLDING, HOLDING_SPREAD, LEAST_STEP = -1.2, 0.7, 0.5
"""Mean over customers and standard deviation of the log of the step, in root-mean-square loads, of
which a quarter is held back (`year_paths`), and the share of the smallest steps that is taken.
Without it the median ramp is 1.47 (every other London home) and 1.54 (476 simulated ones) times the
real one at epsilon 3, and with it 1.10 and 1.16."""
HEAVINESS, SHOCK_SKEWNESS, LEVEL_SKEWNESS = 0.3, 0.2, 0.5
"""Form of the innovations of hours, and of the lasting level of days (`year_paths`). Without
holding, a heaviness of .5 instead of .2 lowers the median ramp of London homes from 1.34
to 1.26 times the real one."""
DAY_PRIOR_LEVEL, DAY_PRIOR_SPREAD, DAY_PRIOR_PERSISTENCE = 0.15, 0.7, 0.6
"""Public prior of the deviation of a day from the typical day: share of the variance common to the
whole day; share that decays over the hours; its autocorrelation after an hour. The rest is white
noise."""
DAY_PARTS = (0.6, 0.2, 0.2)
"""Of a customer's squared length: for the covariance of a day; its products with the days after;
margins."""
DAY_RADII = (1.7, 0.5, 0.3)
"""Clip radii of the three: covariance and products in 1 / sqrt(slots), margins in those of a row
that sits at one quantile all day."""
DAY_LAGS = ((0.45, 0.1), (0.2, 0.1))
"""Expected correlation with the next day, and a week later: of the level of a day, and of the
other coordinates."""
DAY_LAG_SPREAD = 0.15
SIZE_GUESS_ERROR = 0.5
"""Prior standard deviation of the number of customers of a size, relative to its prior estimate.
With the log-normal curve alone as prior estimate, the standard deviation of annual energy is off by
.13, .09 and .07 at epsilon 1, 3 and 10 (1,024 simulated homes, five runs); with the mean of the
curve and the model .08, .08, .04; without any count of sizes .15, .09, .05."""
DAY_FARTHEST = 3.5
"""Largest normal score of a slot: beyond it lie two hours of a year."""
TYPICAL_FLOOR = 0.2
"""Minimum typical load of a customer that does not export, in its root-mean-square loads."""
SPREAD_LINK = -0.4
"""Correlation of the spread of shapes, and of levels beside it, between customers."""
BASE_LINK, SIZE_LINK = 0.9, -0.4
"""Correlation over customers of base loads with the lowest typical loads (.69 in every other London
home, .94 in simulated homes, each relative to the size); and of the spread of shapes with sizes
(-.39 and -.48)."""
LOWEST_TYPICAL = 1.05
"""Minimum typical load of a customer that does not export, in its base loads."""
BEND, BEND_SPREAD = 0.07, 0.2
"""Mean and standard deviation over customers of the bend of margins (`year_paths`). The variance of
a slot in kW is .73 of what its mean, its spread and a normal margin give (median over homes of both
sets), and differs between homes; without a bend it is .85. Load then varies too much around typical
days, and autocorrelation is too low, at 168 h in particular."""
UNEVENNESS = 0.3
"""Standard deviation of the log of the spread of a slot beside that of the other slots."""
DAY_MOMENT_ERROR = 0.05
"""Variance over customers of an entry of the covariance of days, which are means over days."""
ENERGY_LOADING = 1.19
"""Slope of daily energy on the common level, weighted by energy, to which the model is corrected by
half: large homes respond more (1.14 in every other London home, 1.03 in simulated homes). At
epsilon 3 the model has 1.0 and .9. With 1.25 the daily variation of measured simulated homes was
1.17 of the real one; 1.19 was chosen when this was seen."""
