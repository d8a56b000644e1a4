"""What is asked for: every choice that shapes a release. All of it is public."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from wattveil import checks
from wattveil.clustering.sizes import LEAST_KW, MOST_KW
from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Tier
from wattveil.public_estimate import MAX_CUSTOMERS, delta_warning, rounded_customers

DEFAULT_WEIGHTS: Mapping[str, float] = {
    "clusters": 3.0,
    "synthesis": 2.0,
    "load": 1.0,
    "shares": 1.0,
}
"""How the Gaussian budget is shared. Clusters answer the most questions and need the most."""


NOT_STATED = "not stated"
_LONGEST_TEXT = 2000
_NAME_OF_GLOBAL = re.compile(r"differential(ly)?\W+priva", re.IGNORECASE)

LEAST_SIZE_KW, MOST_SIZE_KW = 0.04, 40.0
"""Sizes of customers that are looked for, unless the public bound is larger."""


def _check_text(name: str, text: object) -> None:
    """Refuse what cannot stand in one line of a page: a second one could pass for another fact."""
    if (
        not isinstance(text, str)
        or not 0 < len(text.strip()) <= _LONGEST_TEXT
        or not text.isprintable()
    ):
        rule = f"one line of 1 to {_LONGEST_TEXT} letters, without hidden ones"
        raise InvalidParameterError(name, rule, text)


@dataclass(frozen=True, kw_only=True)
class About:
    """Who publishes what, in their own words, for the statement and the card."""

    title: str = "Load profiles of electricity customers"
    curator: str = NOT_STATED
    region: str = NOT_STATED
    intended_use: str = "planning, research and teaching"
    contact: str = NOT_STATED
    other_releases_on_same_people: str = "unknown"
    """Other releases about the same people: their privacy losses add up."""
    supersedes: str = "none"
    """The release_id of an earlier release that this one stands for, if any; its loss remains."""

    def __post_init__(self) -> None:
        """Refuse what the statement has no room for, before anything is spent."""
        for name, text in asdict(self).items():
            _check_text(name, text)


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest:
    """A release, before anything is computed.

    Parameters
    ----------
    epsilon, delta
        The budget of the whole release.
    tier
        ``global`` is differential privacy, ``instance`` the paper's weaker promise.
    n_clusters, clip_kw, normalise
        As in `PrivateKMeans`. Parts see customers scaled back to ``clip_kw``; the load sees all of
        them, so that it can say how many are larger, and scales them back to ``clip_kw`` at most.
    by, levels
        A public attribute of the customers, and the public list of its values: load shapes and
        cluster shares are released for each.
    clusters_by_group
        Cluster each group by itself.
    label_epsilon
        The part of epsilon for one label a customer. None releases no labels in the global tier;
        the instance tier always has labels, and None is half of epsilon for them.
    real_ids
        Publish labels under the customers' own ids instead of pseudonyms.
    weights
        How the rest of the budget is shared over the other parts; 0 leaves a part out.
    customers, typical_kw
        Public estimates of the number of customers and of their median size, for the plan alone.
        The number is rounded to 1, 2 or 5 times a power of ten: plan and manifest show it, and an
        exact number would tell whether one customer is in the data.
    """

    epsilon: float
    delta: float
    n_clusters: int = 6
    tier: Tier = Tier.GLOBAL
    clip_kw: float | None = None
    normalise: bool = False
    by: str | None = None
    levels: tuple[str, ...] = ()
    clusters_by_group: bool = False
    label_epsilon: float | None = None
    real_ids: bool = False
    weights: Mapping[str, float] = field(default_factory=dict)
    customers: int = 1000
    typical_kw: float = 0.5
    about: About = field(default_factory=About)

    def __post_init__(self) -> None:
        """Refuse what cannot be asked for; estimators check the rest of their parameters."""
        checks.member("tier", self.tier, Tier)
        for part in self.weights:
            if part not in DEFAULT_WEIGHTS:
                raise InvalidParameterError("share", f"for one of {[*DEFAULT_WEIGHTS]}", part)
        plain = {
            "epsilon": checks.positive_epsilon("epsilon", self.epsilon),
            "delta": checks.probability("delta", self.delta),
            "n_clusters": checks.integer("n_clusters", self.n_clusters, least=1, most=1000),
            "customers": rounded_customers(
                checks.integer("customers", self.customers, least=1, most=MAX_CUSTOMERS)
            ),
            "typical_kw": checks.positive("typical_kw", self.typical_kw),
            "weights": {
                part: checks.non_negative(f"share of {part}", weight)
                for part, weight in self.weights.items()
            },
        }
        if self.clip_kw is not None:
            plain["clip_kw"] = clip_kw = checks.positive("clip_kw", self.clip_kw)
            if not LEAST_KW <= clip_kw <= MOST_KW:
                rule = f"between {LEAST_KW:g} and {MOST_KW:g}: sizes are looked for up to it"
                raise InvalidParameterError("clip_kw", rule, self.clip_kw)
        if self.label_epsilon is not None:
            plain["label_epsilon"] = checks.positive_epsilon("label_epsilon", self.label_epsilon)
        for name, number in plain.items():  # as the statement writes them: 2 is 2.0
            object.__setattr__(self, name, number)
        self._check_groups()
        self._check_labels()
        for name, text in asdict(self.about).items():
            if self.tier is Tier.INSTANCE and _NAME_OF_GLOBAL.search(text):
                rule = "without the name of a promise that the instance tier does not make"
                raise InvalidParameterError(name, rule, text)
        if self.tier is Tier.INSTANCE and (self.by or self.weights or self.normalise):
            rule = "left out in the instance tier, which has clusters and labels only"
            raise InvalidParameterError("by, share, normalise", rule, "given")

    def _check_groups(self) -> None:
        """Refuse groups without a public list: one taken from the data would tell who is there."""
        if bool(self.by) != bool(self.levels):
            rule = "given together: an attribute, and the public list of its values"
            raise InvalidParameterError("by, levels", rule, (self.by, self.levels))
        for text in (*self.levels, *([self.by] if self.by else [])):
            _check_text("by, levels", text)
        if len(set(self.levels)) < len(self.levels):
            raise InvalidParameterError("levels", "each value once", self.levels)
        if self.clusters_by_group and (not self.by or self.label_epsilon is not None):
            rule = "given with by, and without labels: those belong to clusters of all customers"
            raise InvalidParameterError("clusters_by_group", rule, self.clusters_by_group)

    def _check_labels(self) -> None:
        if self.label_epsilon is None:
            if self.real_ids:
                raise InvalidParameterError("real_ids", "with labels only", self.real_ids)
            return
        if self.label_epsilon >= self.epsilon:
            rule = f"below epsilon = {self.epsilon}, of which it is a part"
            raise InvalidParameterError("label_epsilon", rule, self.label_epsilon)
        if self.weight("clusters") == 0.0:
            rule = "left out without clusters: labels name them"
            raise InvalidParameterError("label_epsilon", rule, self.label_epsilon)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What weakens the guarantee that was asked for; from public numbers alone."""
        found = delta_warning(self.delta, self.customers)
        return () if found is None else (found,)

    @property
    def plausible_kw(self) -> tuple[float, float]:
        """The public range in which sizes are looked for: it reaches up to the public bound."""
        return (LEAST_SIZE_KW, max(MOST_SIZE_KW, self.clip_kw or 0.0))

    def weight(self, part: str) -> float:
        """Return how much of the Gaussian budget a part gets, in relation to the others."""
        return self.weights.get(part, DEFAULT_WEIGHTS[part])
