"""The release request: every choice that shapes a release, declared once. All of it is public.

Command-line options, HTTP bodies, canonical text, manifest, JSON schema, OpenAPI and reference
pages are derived from the fields of `ReleaseRequest`. To add a choice, add a field and use it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator

from wattveil import checks
from wattveil.declaration import CommandLine, Declaration, ModelByKey, Rule
from wattveil.errors import InvalidParameterError, one_of
from wattveil.numerics.groups.aggregation_rule import AggregationRule
from wattveil.numerics.size_distribution import MAX_KW, MIN_KW
from wattveil.privacy.guarantee import Tier
from wattveil.products.plan_calibration import Roughness
from wattveil.products.public_estimate import (
    KW_ROUNDING_RULE,
    MAX_CUSTOMERS,
    MAX_TYPICAL_KW,
    MIN_TYPICAL_KW,
    ROUNDING_RULE,
    rounded_customers,
    rounded_kw,
    rounded_meters,
)
from wattveil.products.registry import default_weights, product_options
from wattveil.release.weak_guarantees import choice_warnings, guarantee_warnings

NOT_STATED = "not stated"
MAX_TEXT = 2000
"""Characters of a text in a request."""
MIN_CUSTOMERS_PER_CLUSTER = 10
"""On average; below it, accuracy is poor: counts of clusters are within their noise."""
_NAME_OF_GLOBAL = re.compile(r"differential(ly)?\W+priva", re.IGNORECASE)

MIN_SIZE_KW, MAX_SIZE_KW = 0.04, 40.0
"""Range of customer sizes in which the median is looked for, unless the public bound is larger."""


def _one_line(text: str) -> str:
    """Accept one printable line: a second one could imitate other text of a page."""
    if not text.strip() or not text.isprintable():
        raise ValueError(text)
    return text


ALL_CUSTOMERS_SELECTED = "all customers"
"""Selection of customers without a sampling error."""
_SELECTIONS = (NOT_STATED, ALL_CUSTOMERS_SELECTED, "random sample")


def _selection(text: str) -> str:
    if text not in _SELECTIONS:
        raise ValueError(text)
    return text


def _rounded_meters(text: str) -> str:
    if text == NOT_STATED:
        return text
    if not re.fullmatch(r"[1-9][0-9]{0,11}", text):
        raise ValueError(text)
    return str(rounded_meters(int(text)))


def _licence(text: str) -> str:
    if text != NOT_STATED and not re.fullmatch(
        r"[A-Za-z0-9][A-Za-z0-9.-]*\+?|https?://[^\s<>\"]+", text
    ):
        raise ValueError(text)
    return text


def _doi(text: str) -> str:
    if text != NOT_STATED and not re.fullmatch(r"10\.[0-9]{4,9}/[A-Za-z0-9._;()/:-]+", text):
        raise ValueError(text)
    return text


Line = Annotated[
    str,
    Field(min_length=1, max_length=MAX_TEXT),
    AfterValidator(_one_line),
    Rule(f"one line of 1 to {MAX_TEXT} printable characters"),
]
_COMPUTED = "=+-@"


def is_computed(text: str) -> bool:
    """Whether a spreadsheet would evaluate a cell of a CSV file as a formula.

    A number with a sign is no formula.
    """
    shown = text.strip()
    if not shown.startswith(tuple(_COMPUTED)):
        return False
    return re.fullmatch(r"[+-][0-9]+([.,][0-9]+)?", shown) is None


def check_published_ids(name: str, ids: Iterable[str]) -> None:
    """Refuse ids that a spreadsheet would evaluate; ``name`` is the parameter that has them."""
    for one in filter(is_computed, ids):
        rule = "without ids that begin with =, +, - or @: spreadsheets take them for formulas"
        raise InvalidParameterError(name, rule, one)


def _cell(text: str) -> str:
    if is_computed(text):
        raise ValueError(text)
    return text


GroupName = Annotated[
    Line,
    AfterValidator(_cell),
    Rule(
        f"one line of 1 to {MAX_TEXT} printable characters that does not begin with {_COMPUTED[0]},"
        f" {', '.join(_COMPUTED[1:-1])} or {_COMPUTED[-1]}: spreadsheets take it for a formula"
    ),
]
"""Name of a group, which is a cell of released tables."""
KW: dict[str, JsonValue] = {"unit": "kW"}
Epsilon = Annotated[
    float,
    Field(ge=checks.MIN_EPSILON, le=checks.MAX_EPSILON),
    Rule(
        "a number above 0, where 1 or less is considered strong (at least"
        f" {checks.MIN_EPSILON:g} and at most {checks.MAX_EPSILON:g})"
    ),
]
Delta = Annotated[
    float,
    Field(gt=0.0, lt=1.0),
    Rule("above 0 and below 1, and should be far below 1/customers, such as 1e-6"),
]
NO_RULE = "none"


def _aggregation_rule(text: str) -> str:
    """Accept an N/X rule, in its shortest form."""
    if text == NO_RULE:
        return text
    try:
        return str(AggregationRule.parse(text))
    except InvalidParameterError as error:
        raise ValueError(text) from error  # the rule of the field says what is accepted


Weight = Annotated[float, Field(ge=0.0)]

_BUDGET = CommandLine(group="Privacy budget")
_GROUPS = CommandLine(group="Groups of customers")
_LABELS = CommandLine(group="Labels")
_ESTIMATES = CommandLine(group="Public estimates, for the plan")
_TEXTS = CommandLine(group="Description of the release")


class FixedByDataset:
    """Mark of a field that a server fixes for a data set, when it is registered."""


FIXED_BY_DATASET = FixedByDataset()


class About(Declaration):
    """Description of a release by its publisher, for the manifest and the card."""

    title: Annotated[Line, _TEXTS] = "Load profiles of electricity customers"
    """Title of the release."""
    curator: Annotated[Line, _TEXTS] = NOT_STATED
    """Organisation that holds the data and publishes the release."""
    region: Annotated[Line, _TEXTS] = NOT_STATED
    """Region of the customers."""
    intended_use: Annotated[Line, _TEXTS] = "planning, research and teaching"
    """Intended use of the release."""
    contact: Annotated[Line, _TEXTS] = NOT_STATED
    """Contact for questions."""
    selection: Annotated[
        Line,
        AfterValidator(_selection),
        Rule("all customers, random sample or not stated"),
        _TEXTS,
    ] = NOT_STATED
    """How the customers were selected from the population: all customers, or random sample. States
    whether there is a sampling error."""
    all_meters: Annotated[
        Line,
        AfterValidator(_rounded_meters),
        Rule("a whole number above 0, or not stated"),
        _TEXTS,
    ] = NOT_STATED
    """Public number of all meters of the population, of which the release covers a share; it is
    rounded to two significant digits."""
    licence: Annotated[
        Line,
        AfterValidator(_licence),
        Rule("an SPDX identifier such as CC-BY-4.0, the address of a licence, or not stated"),
        _TEXTS,
    ] = NOT_STATED
    """Licence of the release: an SPDX identifier such as CC-BY-4.0, or the address of its text."""
    doi: Annotated[
        Line, AfterValidator(_doi), Rule("a DOI such as 10.1234/abc, or not stated"), _TEXTS
    ] = NOT_STATED
    """Digital object identifier that was reserved for the release."""
    other_releases_on_same_people: Annotated[
        Line, CommandLine(option="--other-releases", group=_TEXTS.group)
    ] = "unknown"
    """Other releases about the same customers, as stated by the publisher: their privacy losses
    add up."""
    supersedes: Annotated[Line, _TEXTS] = "none"
    """release_id of an earlier release that this one replaces; its privacy loss remains."""


class ReleaseRequest(Declaration):
    """A release, before anything is computed."""

    epsilon: Annotated[Epsilon, _BUDGET]
    """Total privacy budget of the release: a smaller epsilon protects more and adds more noise."""
    delta: Annotated[Delta, _BUDGET] = 1e-6
    """Slack that is added to every probability beyond the factor e^epsilon: choose it far below one
    over the number of customers."""
    tier: Annotated[Tier, _BUDGET] = Tier.GLOBAL
    """Kind of guarantee. global: differential privacy; instance: that of the source paper, which
    bounds nothing for the release as a whole."""
    weights: Annotated[
        Mapping[str, Weight],
        CommandLine(
            option="--share", group=_BUDGET.group, metavar="product=weight", keys=default_weights
        ),
    ] = Field(default_factory=dict)
    """Relative share of the budget for Gaussian noise that a product receives; 0 omits the product.
    May be repeated."""
    options: Annotated[
        Mapping[str, Any],
        ModelByKey(product_options),
        CommandLine(models=product_options),
    ] = Field(default_factory=dict, validate_default=True)
    """Options of single products, by product name; omitted options have their defaults."""
    n_clusters: Annotated[int, Field(ge=1, le=1000), CommandLine(option="--clusters")] = 6
    """Number of customer segments (clusters)."""
    clip_kw: Annotated[
        Annotated[float, Field(ge=MIN_KW, le=MAX_KW, json_schema_extra=KW)] | None, FIXED_BY_DATASET
    ] = None
    """Public bound on the root-mean-square load of a customer; larger customers are clipped to
    it. If omitted, clipping bounds are chosen from noisy sizes alone."""
    normalise: bool = False
    """Find segments by shape, not by size: each profile is scaled to unit L2 norm."""
    by: Annotated[Line | None, _GROUPS] = None
    """Public attribute that groups the customers, for load and shares of segments by group."""
    levels: Annotated[tuple[GroupName, ...], _GROUPS, FIXED_BY_DATASET] = ()
    """Public list of the groups: the values of that attribute that are released, such as
    single,couple,pv. Customers with another value are in no group. The list is not compared with
    the data, so check its spelling."""
    clusters_by_group: Annotated[bool, _GROUPS] = False
    """Find the segments (clusters) of each group separately."""
    rule: Annotated[
        str,
        AfterValidator(_aggregation_rule),
        Rule("none, or N/X, such as 15/15: N from 2 on, X above 0 and at most 100"),
        _GROUPS,
        FIXED_BY_DATASET,
    ] = NO_RULE
    """Aggregation rule N/X, such as 15/15, applied to the noisy counts: a group is published only
    if, with 99.9 % confidence, it has at least N customers and none of them accounts for more than
    X % of the published, clipped load. Other groups are merged with their neighbours in the list,
    or suppressed. Applies to the product load only."""
    label_epsilon: Annotated[Epsilon | None, _LABELS] = None
    """Part of epsilon that is spent on labels, one segment per customer. Labels of the global tier
    need it; the instance tier, which always has labels, spends half of epsilon if it is omitted."""
    real_ids: Annotated[bool, _LABELS] = False
    """Publish labels under the customers' own ids instead of pseudonyms: the release then
    contains personal data."""
    customers: Annotated[
        int,
        Field(
            ge=1,
            le=MAX_CUSTOMERS,
            description=f"Public estimate of the number of customers, {ROUNDING_RULE}.",
        ),
        AfterValidator(rounded_customers),
        _ESTIMATES,
        FIXED_BY_DATASET,
    ] = 1000
    typical_kw: Annotated[
        float,
        Field(
            ge=MIN_TYPICAL_KW,
            le=MAX_TYPICAL_KW,
            description=f"Public estimate of the median size of customers, {KW_ROUNDING_RULE}.",
            json_schema_extra=KW,
        ),
        AfterValidator(rounded_kw),
        _ESTIMATES,
        FIXED_BY_DATASET,
    ] = 0.5
    roughness: Annotated[Roughness, Field(strict=False), _ESTIMATES, FIXED_BY_DATASET] = (
        Roughness.SOME_WEEKS
    )
    """Period that a profile averages: smooth year (half a year or more), some weeks (five
    weeks or more) or single month (less). The expected accuracy of segments depends on it."""
    about: Annotated[About, FIXED_BY_DATASET] = Field(default_factory=About)
    """Description of the release by its publisher."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Check rules between fields; estimators check the rest of their parameters."""
        for part in self.weights:
            if part not in default_weights():
                raise InvalidParameterError(
                    "weights", f"given for a product, {one_of(default_weights())}", part
                )
        if self._has_clusters and self.n_clusters > self.customers:
            thumb = max(self.customers // MIN_CUSTOMERS_PER_CLUSTER, 1)
            rule, remedy = f"at most `customers` ({self.customers:,})", "Rule of thumb: at most"
            raise InvalidParameterError(
                "n_clusters", rule, self.n_clusters, remedy=f"{remedy} {thumb:,}"
            )
        self._check_groups()
        self._check_labels()
        if self.tier is Tier.INSTANCE:
            self._check_instance()
        return self

    def _check_instance(self) -> None:
        for name in About.model_fields:
            text = getattr(self.about, name)
            if _NAME_OF_GLOBAL.search(text):
                rule = "without the name of a guarantee that the instance tier does not give"
                raise InvalidParameterError(name, rule, text)
        if self.rule != NO_RULE:
            raise InvalidParameterError("rule", "none in the instance tier", self.rule)
        for name in ("by", "weights", "normalise"):
            if given := getattr(self, name):
                rule = "omitted in the instance tier, which has clusters and labels only"
                raise InvalidParameterError(name, rule, given)

    def _check_groups(self) -> None:
        """Require a public list of groups: one taken from the data would reveal who is there."""
        if self.by and not self.levels:
            rule = f"given: the public list of the values of {self.by}, such as single,couple,pv"
            raise InvalidParameterError("levels", rule, None)
        if self.levels and not self.by:
            rule = "given with `by`: the attribute these levels belong to"
            raise InvalidParameterError("levels", rule, self.levels)
        if len(set(self.levels)) < len(self.levels):
            raise InvalidParameterError("levels", "each value once", self.levels)
        if self.clusters_by_group and (not self.by or self.label_epsilon is not None):
            rule = "given with by, and without labels: those belong to segments of all customers"
            raise InvalidParameterError("clusters_by_group", rule, self.clusters_by_group)

    def _check_labels(self) -> None:
        if self.label_epsilon is None:
            if self.real_ids:
                rule = "omitted without label_epsilon: ids are published with labels only"
                raise InvalidParameterError("real_ids", rule, self.real_ids)
            return
        if self.label_epsilon >= self.epsilon:
            rule = f"below epsilon = {self.epsilon}, of which it is a part"
            raise InvalidParameterError("label_epsilon", rule, self.label_epsilon)
        if self.weight("clusters") == 0.0:
            rule = "omitted without clusters: labels name them"
            raise InvalidParameterError("label_epsilon", rule, self.label_epsilon)

    @property
    def customers_per_group(self) -> int:
        """Number of customers that plans assume in each group: groups of equal size."""
        return max(self.customers // max(len(self.levels), 1), 1)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about choices that weaken the guarantee; from public numbers alone."""
        return (
            *choice_warnings(is_instance=self.tier is Tier.INSTANCE, real_ids=self.real_ids),
            *guarantee_warnings(epsilon=self.epsilon, delta=self.delta, customers=self.customers),
        )

    @property
    def clipping(self) -> str:
        """The bound on the load of a customer, in words."""
        if self.clip_kw is not None:
            return f"customers are clipped to {self.clip_kw:g} kW (public bound)"
        if self.tier is Tier.INSTANCE:
            return "customers are not clipped"
        return "no public bound: clipping bounds are chosen from noisy sizes"

    @property
    def accuracy_warnings(self) -> tuple[str, ...]:
        """Warnings about results that noise will hide; from public numbers alone.

        A warning from the true number of customers would influence the number of clusters that is
        chosen next, and that number is published.
        """
        if not self._has_clusters or self.customers >= MIN_CUSTOMERS_PER_CLUSTER * self.n_clusters:
            return ()
        found = (
            f"{self.n_clusters:,} segments for about {self.customers:,} customers (public"
            f" estimate) leave about {self.customers / self.n_clusters:.2g} customers per segment:"
            f" noise will mask most segments. Rule of thumb: at least {MIN_CUSTOMERS_PER_CLUSTER}"
            f" customers per segment, here at most"
            f" {max(self.customers // MIN_CUSTOMERS_PER_CLUSTER, 1):,} segments."
        )
        return (found,)

    @property
    def _has_clusters(self) -> bool:
        """Whether segments are released; in the instance tier they always are."""
        return self.tier is Tier.INSTANCE or self.weight("clusters") > 0.0

    @property
    def plausible_kw(self) -> tuple[float, float]:
        """The public range in which sizes are looked for: it reaches up to the public bound."""
        return (MIN_SIZE_KW, max(MAX_SIZE_KW, self.clip_kw or 0.0))

    def weight(self, part: str) -> float:
        """Return the share of the Gaussian budget of a part, relative to the others."""
        return self.weights[part] if part in self.weights else default_weights()[part]
