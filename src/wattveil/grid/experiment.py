"""The paper's experiment: the same feeder with real and with synthetic customers.

Its steps, numbered as in the paper (section "Standard Test Systems"):

1. Sample houses, the classes weighed by their population.
2. As many synthetic customers of each class.
3. Each house's load at its bus, reactive power 10 % of the active.
4. Power flow; with a held substation and nothing to control, the optimal one is the same
   (`wattveil.grid.opf`).
5. For every snapshot.
6. For the synthetic customers too.

Differs from the paper: houses are many to a bus (`Scaling`), the figures are judged against
redraws of real customers, and a control shows what cluster centroids alone would do.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wattveil import checks
from wattveil.clustering.lloyd import k_means
from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.grid.comparison import GridComparison, judge
from wattveil.grid.customer_metrics import customer_metrics
from wattveil.grid.draws import Urn
from wattveil.grid.feeders import read_feeder
from wattveil.grid.houses import Scaling, place_houses
from wattveil.grid.network import Feeder, Floats, Ints
from wattveil.grid.network_metrics import network_metrics
from wattveil.grid.observe import Observation, Setting, observe
from wattveil.measures.samples import total_variation
from wattveil.profiles.table import Profiles

# Reactive power is 10 % of the active one: cos(arctan(0.1)).
PAPER_POWER_FACTOR = float(np.cos(np.arctan(0.1)))
DRAWS = 10
_LEAST_REDRAWS = 20


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
    redraws: int = 100,
    seed: int = 0,
    advance: Callable[[], object] = lambda: None,
) -> GridComparison:
    """Put real and synthetic customers on a feeder and say where they differ.

    Parameters
    ----------
    real, synthetic
        Profiles on the same grid. The result is private, like the real ones.
    feeder
        A `Feeder`, or what `read_feeder` takes.
    by
        Attribute of both that names the class of each customer: the mix of the real classes is
        kept. Without it, synthetic customers are drawn as they come.
    n_clusters
        Of the control: K-means clusters of the real customers, each replaced by its centroid.
    scaling
        How customers become the load of the feeder: ``"houses"`` (many a bus, in proportion to its
        nominal load), ``"factor"`` (one a bus, times one factor) or ``"literal"`` (one a bus).
    houses
        How many houses; as many as carry the nominal load at their peak, if not given.
    power_factor
        Of all customers.
    transformer_kva, transformer_homes
        Rating of a service transformer, and the homes that it feeds.
    redraws
        How many other draws of real customers tell what chance does.
    seed
        Of the draws.
    advance
        Called after each draw; there are ``redraws + 2 * DRAWS + 1``.
    """
    if real.grid != synthetic.grid:
        raise InvalidParameterError("synthetic", f"on the grid {real.grid}", synthetic.grid)
    checks.integer("redraws", redraws, least=_LEAST_REDRAWS)
    checks.integer("seed", seed, least=0)
    if not 0.0 < checks.finite("power_factor", power_factor) <= 1.0:
        raise InvalidParameterError("power_factor", "above 0 and at most 1", power_factor)
    classes = _classes(real, synthetic, by)
    centroid_kw = _centroids(real, n_clusters, seed)
    network = feeder if isinstance(feeder, Feeder) else read_feeder(feeder)
    urn = Urn(seed)
    placement = place_houses(
        network,
        mean_kw=classes.mean_kw,
        share=classes.real_share,
        scaling=checks.enum_value("scaling", scaling, Scaling),
        houses=houses,
        urn=urn,
    )
    setting = Setting(
        feeder=network,
        placement=placement,
        grid=real.grid,
        power_factor=power_factor,
        transformer_kva=checks.positive("transformer_kva", transformer_kva),
        transformer_homes=checks.integer("transformer_homes", transformer_homes, least=1),
    )

    def drawn(load_kw: Floats, of_class: Ints) -> Observation:
        seen = observe(setting, load_kw[urn.customers(of_class, placement.wanted_class)])
        advance()
        return seen

    def redrawn() -> Observation:
        # The real customers are a sample themselves, and may be fewer than the houses: a redraw
        # stands for another such sample, so it draws the customers anew before the houses.
        others = urn.customers(classes.real, classes.real)
        return _solved(drawn(real.load_kw[others], classes.real))

    true = _solved(drawn(real.load_kw, classes.real))
    synthetic_draws = [drawn(synthetic.load_kw, classes.synthetic) for _ in range(DRAWS)]
    control_draws = [drawn(centroid_kw, classes.real) for _ in range(DRAWS)]
    metrics = (*network_metrics(setting), *customer_metrics(setting))
    noise: dict[str, list[float]] = {metric.name: [] for metric in metrics}
    for _ in range(redraws):
        other = redrawn()
        for metric in metrics:
            noise[metric.name].append(metric.distance(other, true))
    return GridComparison(
        rows=tuple(
            judge(
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
            snapshot: said
            for seen in synthetic_draws
            for snapshot, said in seen.flow.failures.items()
        },
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Classes:
    """Who is of which class.

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
    for name, profiles in (("real", real), ("synthetic", synthetic)):
        if not len(profiles):
            raise InvalidParameterError(name, "at least one customer", 0)
    words = [
        ["all"] * len(profiles) if by is None else _words(name, profiles, by)
        for name, profiles in (("real", real), ("synthetic", synthetic))
    ]
    names = tuple(sorted(set(words[0]) | set(words[1])))
    number = {name: position for position, name in enumerate(names)}
    label, other = (np.array([number[word] for word in column]) for column in words)
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
    checks.integer("n_clusters", n_clusters, least=1, most=len(real))
    clusters = k_means(real.load_kw, n_clusters, seed=seed)
    centroid_kw: Floats = clusters.centroids[clusters.labels]
    return centroid_kw


def _words(name: str, profiles: Profiles, by: str) -> list[str]:
    """Return the class of each customer as the attribute has it."""
    if by not in profiles.attributes:
        rule = f"an attribute of the {name} customers, one of {sorted(profiles.attributes)}"
        raise InvalidParameterError("by", rule, by)
    words = profiles.attributes[by]
    unknown = [who for who, word in zip(profiles.customer_ids, words, strict=True) if word is None]
    if unknown:
        raise InvalidDataError(f"each of the {name} customers has a {by}", unknown)
    return [str(word) for word in words]


def _solved(seen: Observation) -> Observation:
    """Refuse a feeder that does not carry the real customers."""
    if seen.flow.failures:
        rule = "one that carries the real customers in every snapshot; take fewer houses"
        raise InvalidParameterError("feeder", rule, dict(seen.flow.failures))
    return seen
