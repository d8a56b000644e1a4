"""Grid experiment: the same feeder with real and with synthetic customers.

Steps, numbered as in the paper (section "Standard Test Systems"):

1. Sample houses; classes are weighted by their population.
2. As many synthetic customers of each class.
3. Each house's load at its bus, reactive power 10 % of the active.
4. Power flow; with a held substation and nothing to control, the optimal one is the same
   (`wattveil.grid.opf`).
5. For every snapshot.
6. For the synthetic customers too.

Differs from the paper: a bus has many houses (`Scaling`), figures are compared with the sampling
variability of real customers, and a control shows the result of cluster centroids alone. Very large
customers are set aside (`SetAside`): drawn or not drawn by chance, a single factory among homes
would be most of the sampling variability, and hide any difference.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from wattveil import checks
from wattveil.arrays import Floats, Ints
from wattveil.errors import InvalidDataError, InvalidParameterError, NoPowerFlowError, one_of
from wattveil.grid.feeders import Feeder, read_feeder
from wattveil.grid.grid_metrics import Compared, GridMetric, customer_metrics, network_metrics
from wattveil.grid.large_customers import SetAside, usual_customers
from wattveil.grid.observation import GROUP_ROWS, GridSetting, Observation, observe
from wattveil.grid.placement import CustomerSampler, Scaling, mixed_classes, place_houses
from wattveil.numerics.kmeans.lloyd import k_means
from wattveil.numerics.measures.fidelity_measures import (
    NOISE_QUANTILE,
    ratio_to_noise,
    total_variation,
)
from wattveil.numerics.measures.verdicts import Interval, Verdict, assess
from wattveil.profiles.profiles import Profiles
from wattveil.web.results import PrivateResult, ResultTable, records_table

# --- results --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class GridRow:
    """Results of one metric.

    Attributes
    ----------
    shown
        Which number of a distribution or curve the values are; empty if they are compared.
    compares
        What the distance and the verdict compare: the value (or its ratio), or a distribution of
        which the value is one number.
    real, synthetic
        Value of the real sample, and median of the samples of synthetic customers.
    difference_low, difference_high
        Interval of the difference of these values, 95 %: `difference_interval`.
    distance
        Median distance of several synthetic samples from the real one.
    low, high
        Interval of the distance, 95 %: bootstrap of the real customers.
    noise
        95th percentile of the distances of resampled real customers: sampling variability.
    smallest_detectable
        Smallest true distance that would be found different with probability 80 %.
    ratio, control_ratio
        Distance over noise, of the synthetic customers and of the control; infinite where
        resampled real customers never differ.
    """

    metric: str
    unit: str
    compares: str
    real: float
    synthetic: float
    difference_low: float
    difference_high: float
    distance: float
    low: float
    high: float
    noise: float
    smallest_detectable: float
    ratio: float
    control_ratio: float
    verdict: Verdict
    shown: str = ""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GridComparison(PrivateResult):
    """Comparison of synthetic and real customers on a feeder. PRIVATE, internal use only.

    Attributes
    ----------
    rows
        One per metric.
    setting
        Feeder, houses and other fixed settings.
    real, synthetic, control
        One sample each, for figures.
    class_names
        The classes whose mix was kept.
    class_mix_distance
        Total variation between the class shares of the two files: the experiment keeps the real
        mix and does not measure this difference.
    synthetic_failures
        Snapshots without solution for some sample of synthetic customers, and the message of the
        solver. If half of the samples fail, network metrics are infinite.
    set_aside
        Very large customers, which are in neither sample.
    redraws
        Number of bootstrap samples of real customers.
    """

    rows: tuple[GridRow, ...]
    setting: GridSetting
    real: Observation
    synthetic: Observation
    control: Observation
    class_names: tuple[str, ...]
    class_mix_distance: float
    synthetic_failures: Mapping[int, str]
    set_aside: SetAside
    redraws: int

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"metrics": lambda: records_table(self._records(), "metric")}

    def _public_facts(self) -> Mapping[str, object]:
        return {"feeder": self.setting.feeder.name, "houses": self.setting.placement.houses}

    def to_json(self) -> dict[str, object]:
        """Return everything except the observations as JSON values; null if not finite."""
        return {
            "private": True,
            "feeder": self.setting.feeder.name,
            "houses": self.setting.placement.houses,
            "factor": self.setting.placement.factor,
            "power_factor": self.setting.power_factor,
            "redraws": self.redraws,
            "classes": list(self.class_names),
            "class_mix_distance": self.class_mix_distance,
            "synthetic_failures": {str(k): v for k, v in self.synthetic_failures.items()},
            "set_aside": self.set_aside._asdict(),
            "metrics": [
                {name: _finite(value) for name, value in record.items()}
                for record in self._records()
            ],
        }

    def _records(self) -> list[dict[str, object]]:
        return [{**asdict(row), "verdict": row.verdict.value} for row in self.rows]


class Redraw(NamedTuple):
    """A metric of resampled real customers."""

    distance: float
    """From the real sample: sampling variability."""
    to_synthetic: float
    """From a sample of synthetic customers."""
    value: float


def grid_row(
    metric: GridMetric,
    real: Observation,
    *,
    redraws: Sequence[Redraw],
    synthetic: Sequence[Observation],
    control: Sequence[Observation],
) -> GridRow:
    """Return the row of a metric.

    Parameters
    ----------
    metric, real
        The metric, and the real sample that all others are compared with.
    redraws
        What was measured on resampled real customers.
    synthetic
        Samples of synthetic customers.
    control
        Samples of real customers, each replaced by the centroid of its cluster.
    """
    noise = float(np.quantile([one.distance for one in redraws], NOISE_QUANTILE))
    distance = _typical_distance(metric, synthetic, real)
    margin = _typical_distance(metric, control, real)
    found = assess(
        distance,
        error=_spread([one.to_synthetic for one in redraws]),
        replicates=len(redraws),
        limit=noise,
        margin=margin,
    )
    values = [metric.value(seen) for seen in synthetic]
    low, high = difference_interval(
        metric, metric.value(real), values, [one.value for one in redraws]
    )
    return GridRow(
        metric=metric.name,
        unit=metric.unit,
        shown=metric.shown,
        compares=metric.compares.value,
        real=metric.value(real),
        synthetic=_median(values),
        difference_low=low,
        difference_high=high,
        distance=distance,
        low=found.interval.low,
        high=found.interval.high,
        noise=noise,
        smallest_detectable=found.smallest_detectable,
        ratio=ratio_to_noise(distance, noise),
        control_ratio=ratio_to_noise(margin, noise),
        verdict=found.verdict,
    )


def _median(values: Sequence[float]) -> float:
    """Return the median of the values that a power flow gave; NaN without any."""
    found = np.array(values)
    return float(np.median(found[np.isfinite(found)])) if np.isfinite(found).any() else math.nan


def difference_interval(
    metric: GridMetric, real: float, values: Sequence[float], redrawn: Sequence[float]
) -> Interval:
    """Return the 95 % interval of the synthetic value less the real one.

    By inversion of the test behind the verdict: it reaches the limit to either side, which is the
    95th percentile of ``|t* - t|`` over resampled real customers, so it contains 0 unless the
    values are found different. Ratios are moved on a logarithmic scale::

        log(s/t) ± |s/t - 1|_95 · |log(s/t)| / |s/t - 1|

    so that no interval reaches below -100 %; others end where the smallest possible value is.

    Parameters
    ----------
    metric
        What is compared.
    real
        Value t of the real sample.
    values, redrawn
        Values of samples of synthetic customers, and of resampled real customers.
    """
    away = np.array(values) - real
    solved = np.isfinite(away)
    size = float(np.median(np.where(solved, np.abs(away), math.inf)))
    if not math.isfinite(size):  # half of the power flows have no solution
        return Interval(math.nan, math.nan)
    effect = math.copysign(size, float(np.median(away[solved])))
    limit = float(np.quantile(np.abs(np.array(redrawn) - real), NOISE_QUANTILE))
    if metric.compares is Compared.RATIO and effect > -real:
        log_ratio = math.log1p(effect / real)
        reach = limit / real * (log_ratio / (effect / real) if effect else 1.0)
        highest = min(log_ratio + reach, _MAX_LOG)
        return Interval(real * math.expm1(log_ratio - reach), real * math.expm1(highest))
    return Interval(max(effect - limit, metric.minimum - real), effect + limit)


def _spread(values: Sequence[float]) -> float:
    """Return the standard deviation of the values that a power flow gave; 0 of a single one."""
    found = np.array(values)
    solved = found[np.isfinite(found)]
    return float(np.std(solved, ddof=1)) if solved.size > 1 else 0.0


def _typical_distance(metric: GridMetric, draws: Sequence[Observation], real: Observation) -> float:
    """Return the median over samples; infinite where a power flow has no solution."""
    distance = np.array([metric.distance(seen, real) for seen in draws])
    return float(np.median(np.where(np.isnan(distance), math.inf, distance)))


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- the experiment -------------------------------------------------------------------------------


PAPER_POWER_FACTOR = float(np.cos(np.arctan(0.1)))
"""Reactive power is 10 % of the active power."""
DRAWS = 10
DEFAULT_REDRAWS, _MIN_REDRAWS = 100, 20
_MAX_LOG = 700.0  # exp(709) is the largest float


def compare_on_feeder(
    real: Profiles,
    synthetic: Profiles,
    *,
    feeder: Feeder | str = "case141",
    by: str | None = None,
    n_clusters: int = 6,
    scaling: str = "houses",
    houses: int | None = None,
    power_factor: float = PAPER_POWER_FACTOR,
    transformer_kva: float = 25.0,
    transformer_homes: int = 8,
    redraws: int = DEFAULT_REDRAWS,
    seed: int = 0,
    advance: Callable[[], object] = lambda: None,
) -> GridComparison:
    """Compare real and synthetic customers on a feeder.

    Parameters
    ----------
    real, synthetic
        Profiles on the same grid. The result is private, like the real ones.
    feeder
        A `Feeder`, or what `read_feeder` takes.
    by
        Attribute of both with the class of each customer: the mix of the real classes is kept.
        Without it, all customers are of one class.
    n_clusters
        Of the control: K-means clusters of the real customers, each replaced by its centroid.
    scaling
        How customers become the load of the feeder: ``"houses"`` (many per bus, in proportion to
        its nominal load), ``"factor"`` (one per bus, scaled) or ``"literal"`` (one per bus).
    houses
        Number of houses; enough for the nominal load at their peak if omitted.
    power_factor
        Of all customers.
    transformer_kva, transformer_homes
        Rating of a service transformer, and the homes that it feeds.
    redraws
        Number of bootstrap samples of real customers, which measure sampling variability.
    seed
        Of the random assignment.
    advance
        Called at each draw; there are ``redraws + 2 * DRAWS + 1``.
    """
    if real.grid.without_days != synthetic.grid.without_days:
        raise InvalidParameterError("synthetic", f"on the grid {real.grid!r}", synthetic.grid)
    checks.integer("redraws", redraws, minimum=_MIN_REDRAWS)
    checks.integer("seed", seed, minimum=0)
    if not 0.0 < checks.finite("power_factor", power_factor) <= 1.0:
        raise InvalidParameterError("power_factor", "above 0 and at most 1", power_factor)
    real, synthetic, set_aside = usual_customers(real, synthetic)
    classes = _classes(real, synthetic, by)
    centroid_kw = _centroids(real, n_clusters, seed)
    network = feeder if isinstance(feeder, Feeder) else read_feeder(feeder)
    sampler = CustomerSampler(seed)
    placement = place_houses(
        network,
        mean_kw=classes.mean_kw,
        share=classes.real_share,
        scaling=checks.enum_value("scaling", scaling, Scaling),
        houses=houses,
        sampler=sampler,
    )
    setting = GridSetting(
        feeder=network,
        placement=placement,
        grid=real.grid,
        power_factor=power_factor,
        transformer_kva=checks.positive("transformer_kva", transformer_kva),
        transformer_homes=checks.integer("transformer_homes", transformer_homes, minimum=1),
    )

    # Groups have a sampler of their own: their number does not change the placement.
    group_sampler = CustomerSampler((seed, 1))
    n_rows = max(GROUP_ROWS, placement.houses)
    group_classes = mixed_classes(n_rows, classes.real_share, group_sampler)

    def drawn(load_kw: Floats, of_class: Ints) -> Observation:
        houses_kw = load_kw[sampler.customers(of_class, placement.wanted_class)]
        groups_kw = load_kw[group_sampler.customers(of_class, group_classes)]
        advance()
        return observe(setting, houses_kw, groups_kw)

    def redrawn() -> Observation:
        # Bootstrap: the real customers are a sample themselves and may be fewer than the houses, so
        # customers are resampled before they are assigned to houses.
        others = sampler.customers(classes.real, classes.real)
        return _solved(drawn(real.load_kw[others], classes.real))

    true = _solved(drawn(real.load_kw, classes.real))
    synthetic_draws = [drawn(synthetic.load_kw, classes.synthetic) for _ in range(DRAWS)]
    control_draws = [drawn(centroid_kw, classes.real) for _ in range(DRAWS)]
    metrics = (*network_metrics(setting), *customer_metrics(setting))
    noise: dict[str, list[Redraw]] = {metric.name: [] for metric in metrics}
    for number in range(redraws):
        other, made = redrawn(), synthetic_draws[number % DRAWS]
        for metric in metrics:
            measured = Redraw(
                metric.distance(other, true), metric.distance(made, other), metric.value(other)
            )
            noise[metric.name].append(measured)
    return GridComparison(
        rows=tuple(
            grid_row(
                metric,
                true,
                redraws=noise[metric.name],
                synthetic=synthetic_draws,
                control=control_draws,
            )
            for metric in metrics
        ),
        setting=setting,
        real=true,
        synthetic=synthetic_draws[0],
        control=control_draws[0],
        class_names=classes.names,
        class_mix_distance=classes.mix_distance,
        synthetic_failures={
            snapshot: message
            for seen in synthetic_draws
            for snapshot, message in seen.flow.failures.items()
        },
        set_aside=set_aside,
        redraws=redraws,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Classes:
    """Class of each customer.

    Attributes
    ----------
    real, synthetic : (P,), (S,)
        Class of each customer, from 0.
    mean_kw : (K, d)
        Mean profile of the real customers of each class.
    """

    names: tuple[str, ...]
    real: Ints
    synthetic: Ints
    mean_kw: Floats

    @property
    def real_share(self) -> Floats:
        return np.bincount(self.real, minlength=len(self.names)) / self.real.size

    @property
    def mix_distance(self) -> float:
        """Total variation between the shares of the classes."""
        share = np.bincount(self.synthetic, minlength=len(self.names)) / self.synthetic.size
        return total_variation(share, self.real_share)


def _classes(real: Profiles, synthetic: Profiles, by: str | None) -> _Classes:
    values = [
        ["all"] * len(profiles) if by is None else _attribute(name, profiles, by)
        for name, profiles in (("real", real), ("synthetic", synthetic))
    ]
    names = tuple(sorted(set(values[0]) | set(values[1])))
    number = {name: position for position, name in enumerate(names)}
    label, other = (np.array([number[value] for value in column]) for column in values)
    missing = [names[k] for k in np.setdiff1d(label, other)]
    if missing:
        rule = "customers of every class that the real ones have"
        raise InvalidParameterError("synthetic", rule, f"none of {missing}")
    count = np.bincount(label, minlength=len(names))
    total_kw = np.zeros((len(names), real.grid.columns))
    np.add.at(total_kw, label, real.load_kw)
    mean_kw = total_kw / np.maximum(count, 1)[:, None]
    return _Classes(names=names, real=label, synthetic=other, mean_kw=mean_kw)


def _centroids(real: Profiles, n_clusters: int, seed: int) -> Floats:
    """Return the control: every real customer replaced by the centroid of its cluster."""
    checks.integer("n_clusters", n_clusters, minimum=1, maximum=len(real))
    clusters = k_means(real.load_kw, n_clusters, seed=seed)
    centroid_kw: Floats = clusters.centroids[clusters.labels]
    return centroid_kw


def _attribute(name: str, profiles: Profiles, by: str) -> list[str]:
    """Return the attribute value of each customer."""
    if by not in profiles.attributes:
        rule = f"an attribute of the {name} customers, {one_of(sorted(profiles.attributes))}"
        if name == "synthetic":
            rule += (
                ". Customers of `wattveil synthesize` have no other: omit it, or synthesize the"
                " customers of each class from a release of that class, and join the files with a"
                f" column {by}"
            )
        raise InvalidParameterError("by", rule, by)
    values = profiles.attributes[by]
    unknown = [who for who, own in zip(profiles.customer_ids, values, strict=True) if own is None]
    if unknown:
        raise InvalidDataError(f"each of the {name} customers has a {by}", unknown)
    return [str(value) for value in values]


def _solved(seen: Observation) -> Observation:
    """Refuse a feeder without solution for the real customers."""
    if seen.flow.failures:
        raise NoPowerFlowError(seen.flow.failures)
    return seen
