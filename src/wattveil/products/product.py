"""Interface of a product: one component of a release, in one class.

A product states when it is requested, its tables, its expected error, the query that passes private
rows to a release function, and what `verify` recomputes and the report shows. To add one, write a
subclass of `Product` in a module of its own and add its entry to `products.registry`: plan,
manifest, report, `verify`, command line and server follow from it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, final

from wattveil.arrays import Floats, Texts
from wattveil.declaration import Declaration
from wattveil.engines.local import DistributedProfiles, Values, listed_rows, load_rows, value_rows
from wattveil.errors import InvalidParameterError, one_of
from wattveil.privacy.accounting import RHO_UNITS, Composition
from wattveil.privacy.guarantee import Budget, Guarantee, Neighbours, Spend, Tier, Unit
from wattveil.privacy.private_data import Rows
from wattveil.products.findings import Finding
from wattveil.products.group_labels import value_text
from wattveil.products.request import NO_RULE, ReleaseRequest
from wattveil.products.tables import Table, TableLayout
from wattveil.profiles import Profiles, TimeGrid
from wattveil.release.rows.load_features import comparable_rows
from wattveil.web.charts import ReportFigure
from wattveil.web.formatting import format_number

if TYPE_CHECKING:
    from wattveil.release.instance import LeaveOneOutKMeans
    from wattveil.release.kmeans import PrivateKMeans
    from wattveil.web.pages import PageTable

DAYS_NEEDED = "every day kept beside the average (wattveil profiles --first-day --days)"
CLIPPED = "means that exceed the public bound because of noise are clipped to it"


@dataclass(frozen=True, kw_only=True)
class Allotment:
    """Privacy budget of a product: its own guarantee, and the grant that is composed."""

    guarantee: Guarantee
    grant: Composition

    @classmethod
    def of(cls, guarantee: Guarantee, *, response_epsilon: float = 0.0) -> "Allotment":
        """Return the grant of a budget with this guarantee."""
        grant = grant_of(guarantee, response_epsilon=response_epsilon)
        # A grant without rho admits no Gaussian draw, and so no discretisation.
        eta = grant.eta if grant.rho_units else 0.0
        return cls(guarantee=guarantee, grant=replace(grant, eta=eta))

    @property
    def count_std(self) -> float:
        """Standard error of counts, if one histogram spends all of it: rho = 1 / (2 std^2)."""
        return math.sqrt(RHO_UNITS / (2.0 * self.grant.rho_units))


@lru_cache(maxsize=1024)  # a plan is checked as often as it is handed on
def grant_of(
    guarantee: Guarantee, *, response_epsilon: float = 0.0, response_delta: float = 0.0
) -> Composition:
    """Return what a budget with this guarantee may spend, beside what is set aside."""
    return Budget(guarantee, response_epsilon=response_epsilon, response_delta=response_delta).grant


def guarantee_of(request: ReleaseRequest, *, epsilon: float, delta: float) -> Guarantee:
    """Return a guarantee of the tier of the request, for zero-out of one customer."""
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        tier=request.tier,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit.CUSTOMER,
    )


def response_allotment(request: ReleaseRequest, epsilon: float) -> Allotment:
    """Return the allotment of randomised responses: a plain epsilon, at delta 0."""
    guarantee = guarantee_of(request, epsilon=epsilon, delta=0.0)
    return Allotment.of(guarantee, response_epsilon=epsilon)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Public choices of a release: they determine its products and tables."""

    request: ReleaseRequest
    grid: TimeGrid


@dataclass(frozen=True)
class Expectation:
    """Expected error of a product, from public parameters alone."""

    quantity: str
    value: float | None
    """None: it cannot be computed before the release."""
    unit: str
    low: float | None = None
    high: float | None = None
    """Range in which the value is expected; None: none is stated."""
    warning: str = ""
    """That noise will hide the result, from public numbers alone; empty if it will not."""

    def __post_init__(self) -> None:
        """Replace a value that is not finite by None, and its range too."""
        if self.value is not None and not math.isfinite(self.value):
            for name in ("value", "low", "high"):
                object.__setattr__(self, name, None)

    def __str__(self) -> str:
        """Return value and unit, and the range if one is stated; signs if it begins below 0."""
        if self.value is None:
            return self.unit
        is_signed = self.low is not None and self.low < 0.0

        def number(value: float) -> str:
            return "+" * (is_signed and value > 0.0) + format_number(value, 2)

        shown = f"{number(self.value)} {self.unit}".rstrip()
        if self.low is None or self.high is None:
            return shown
        return f"{shown} ({number(self.low)} to {number(self.high)})"


class Headline(NamedTuple):
    """Main result of a product, for readers who read nothing else."""

    sentence: str = ""
    facts: Sequence[tuple[str, str]] = ()
    """Numbers, each with its name."""


@dataclass(frozen=True, kw_only=True)
class Achievement:
    """A number of released values that a quality holds for, counted after the release."""

    quantity: str
    group: str
    """Group of customers; ``all``: every customer."""
    count: int
    of: int


@dataclass(frozen=True, kw_only=True)
class Run:
    """Charges on one group of customers; runs of a product have no customer in common."""

    group: str | None
    spends: tuple[Spend, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleasedProduct:
    """What a product released. All of it may be published."""

    name: str
    allotment: Allotment
    runs: tuple[Run, ...]
    tables: tuple[Table, ...]
    documents: Mapping[str, str] = field(default_factory=dict)
    """Released values that are no table, as JSON, by file name."""
    channel: tuple[tuple[int, ...], ...] = ()
    """Of labels: probability of each released label, by true label, in multiples of 2^-62."""


@dataclass(frozen=True, kw_only=True)
class PublicFacts:
    """Public facts about profiles: how they were made, and nothing about any customer."""

    grid: TimeGrid
    timezone: str
    rules: Mapping[str, object]

    @classmethod
    def of(cls, profiles: Profiles | DistributedProfiles) -> "PublicFacts":
        """Return the public facts of profiles."""
        return cls(grid=profiles.grid, timezone=profiles.timezone, rules=profiles.rules)


@final
class Work:
    """Shared inputs of the products of one release: private rows, and released clusters.

    Products receive rows as `Rows`, which only a mechanism can read, so that what a product returns
    was released by a mechanism or is public.

    Parameters
    ----------
    profiles : Profiles or DistributedProfiles
        The customers.
    request : ReleaseRequest
        Public choices.
    customer_list : sequence of str
        The public list of customers to label, also those without a profile.
    """

    def __init__(
        self,
        *,
        profiles: Profiles | DistributedProfiles,
        request: ReleaseRequest,
        customer_list: Sequence[str] = (),
    ) -> None:
        self._profiles = profiles
        self._customer_list = customer_list
        self.request = request
        self.kmeans: dict[Hashable, PrivateKMeans] = {}
        """Released clusters, of each group or of all customers, for products that need them."""
        self.leave_one_out: LeaveOneOutKMeans | None = None
        """The fit of the instance tier."""

    @property
    def choice(self) -> Choice:
        """Public choices."""
        return Choice(request=self.request, grid=self._profiles.grid)

    @property
    def load_kw(self) -> Rows[Floats]:
        """The customers' load, unchanged."""
        return load_rows(self._profiles.load_kw)

    @property
    def rows(self) -> Rows[Floats]:
        """The customers' load, clipped to the public bound."""
        return self._clipped(self.load_kw)

    @property
    def days_kw(self) -> Rows[Floats]:
        """The customers' load in every slot of consecutive days."""
        if self._profiles.days_kw is None:
            raise InvalidParameterError("profiles", f"made with {DAYS_NEEDED}", "others")
        return load_rows(self._profiles.days_kw)

    @property
    def listed(self) -> tuple[Rows[Floats], Values]:
        """A row for each customer on the public list, NaN for one without a profile; and the ids.

        Who has enough readings for a profile is private: so a label is drawn for all on the list.
        """
        if isinstance(self._profiles, DistributedProfiles):
            kept = self._profiles.listed(self._customer_list)
            return self._clipped(kept.load_kw), kept.customer_ids
        ids, load_kw = self._profiles.customer_ids, self._profiles.load_kw
        rows = listed_rows(load_kw, ids, customer_list=self._customer_list)
        return self._clipped(rows), self._customer_list

    @property
    def groups(self) -> Rows[Texts]:
        """Each customer's value of the public attribute."""
        name, known = self.request.by, self._profiles.attributes
        if name is None or name not in known:
            rule = f"an attribute of the profiles, {one_of(sorted(known))}"
            raise InvalidParameterError("by", rule, name)
        return value_rows(known[name])

    @property
    def instance_profiles(self) -> Profiles:
        """The unchanged profiles, for the instance tier: its noise needs all customers at once.

        A request for the global tier is refused.
        """
        if self.request.tier is not Tier.INSTANCE or not isinstance(self._profiles, Profiles):
            rule = "local in the instance tier, whose noise needs all customers at once"
            raise InvalidParameterError("engine", rule, "another")
        return self._profiles

    def _clipped(self, rows: Rows[Floats]) -> Rows[Floats]:
        clip_kw = self.request.clip_kw
        if clip_kw is None:
            return rows
        longest = clip_kw * math.sqrt(rows.width)
        return rows.map(comparable_rows.bind(normalise=False, longest=longest))


class Contents(NamedTuple):
    """Contents of a bundle from which `verify` recomputes the numbers of a product."""

    record: dict[str, Any]
    """The product in the manifest."""
    tables: Mapping[str, Table]
    """Every table of the bundle that is intact, by name."""
    choice: Choice
    folder: Path
    """The bundle, for files that are no tables."""

    @property
    def noise_std(self) -> float:
        """Stated standard deviation of the noise of the first draw of the product."""
        return _drawn_std(self.record["runs"][0]["mechanisms"][0])

    def drawn_std(self, tag: str) -> float:
        """Stated standard deviation of the noise of a draw of the first run."""
        drawn = self.record["runs"][0]["mechanisms"]
        return _drawn_std(next(one for one in drawn if one["tag"] == tag))


def _drawn_std(mechanism: Mapping[str, Any]) -> float:
    gaussian = mechanism["gaussian"]
    return float(gaussian["noise_scale_steps"]) * float(gaussian["grid_step"])


class Product(ABC):
    """One component of a release."""

    name: str
    """Of one word: the name in requests, manifests, options and pages."""
    title: str
    """Heading of its section in the report."""
    is_first_in_report: bool = False
    """Whether its section precedes those of the other products."""
    tier: Tier = Tier.GLOBAL
    default_weight: float | None = None
    """Default share of the Gaussian budget, in relation to other products; None: it has none, and
    `fixed_allotment` states its budget. 0: it is released only where it is named."""
    named_weight: float = 1.0
    """Its share where a server offers it by name and `default_weight` is 0."""
    Options: ClassVar[type[Declaration] | None] = None
    """Fields of a request that concern this product alone, each with a default; None: there are
    none. `request.options[name]` holds the validated model. Products of one name in two tiers share
    it."""
    choices: tuple[str, ...] = ()
    """Fields of a request that shape it, beside the privacy budget and its own options. Forms offer
    and send a field only with a product that it shapes."""
    needs: str = ""
    """What a request must contain for it, in words."""
    applies_rule: bool = False
    """Whether it publishes only what the aggregation rule of the request permits."""
    needs_customer_list: bool = False
    """Whether it releases one value per customer of a public list."""
    needs_days: bool = False
    """Whether it needs profiles that keep every slot of consecutive days."""
    documents: tuple[str, ...] = ()
    """Files that it writes beside its tables."""
    postprocessing: tuple[str, ...] = ()
    """Steps from drawn numbers to the values of the tables."""
    unprotected: tuple[str, ...] = ()
    """What it reveals without protection."""
    mechanisms: frozenset[str] = frozenset({"gaussian_histogram", "gaussian_cell_sums"})
    """Mechanisms of the kernel that its query uses."""

    def is_of_listed_groups(self, request: ReleaseRequest) -> bool:  # noqa: ARG002 - by default of all
        """Whether it counts only customers whose group the request lists; else it counts all."""
        return False

    @final
    def population(self, request: ReleaseRequest) -> str:
        """Return which customers it counts, in words; empty if a request lists no groups."""
        if not request.levels:
            return ""
        if self.is_of_listed_groups(request):
            listed = ", ".join(map(value_text, request.levels))
            if request.rule != NO_RULE:
                rest = f"that the rule {request.rule} permits to be published"
                return f"customers in those listed groups ({request.by}: {listed}) {rest}"
            return f"customers in the listed groups ({request.by}: {listed})"
        return f"all customers, including those of groups (by {request.by}) that are not listed"

    def is_requested(self, request: ReleaseRequest) -> bool:
        """Whether the request includes it; by default, whether it has a share of the budget."""
        return request.weight(self.name) > 0.0

    def fixed_allotment(self, request: ReleaseRequest) -> Allotment | None:  # noqa: ARG002 - by default none
        """Return the budget that the request sets for it; None for a share by weight."""
        return None

    @abstractmethod
    def layouts(self, choice: Choice) -> tuple[TableLayout, ...]:
        """Return its tables without their values."""

    def all_postprocessing(self, choice: Choice) -> tuple[str, ...]:
        """Return every step from drawn numbers to the values of the tables."""
        bounded = any(layout.max_rms is not None for layout in self.layouts(choice))
        return (*self.postprocessing, *((CLIPPED,) if bounded else ()))

    def expected(self, choice: Choice, allotment: Allotment) -> tuple[Expectation, ...]:  # noqa: ARG002 - by default none
        """Return the expected errors, from public parameters; by default they are not known."""
        return (Expectation("error estimate", None, "not available"),)

    @abstractmethod
    def query(self, work: Work, allotment: Allotment) -> Any:  # noqa: ANN401 - each product's own
        """Release with this allotment: the only method that handles private rows."""

    @abstractmethod
    def tabulate(self, released: Any, choice: Choice, allotment: Allotment) -> ReleasedProduct:  # noqa: ANN401 - what `query` returns
        """Return the tables of what `query` released: post-processing."""

    def release(self, work: Work, allotment: Allotment) -> ReleasedProduct:
        """Query, and return tables of what was released."""
        return self.tabulate(self.query(work, allotment), work.choice, allotment)

    def run_groups(self, request: ReleaseRequest) -> tuple[str | None, ...]:  # noqa: ARG002 - by default one
        """Return the disjoint groups of customers that are queried one by one; None is all."""
        return (None,)

    @abstractmethod
    def draws(self, tags: Sequence[str], choice: Choice) -> Mapping[str, int]:
        """Return the draws that its query makes in a run, each with its minimum of numbers.

        Parameters
        ----------
        tags
            Draws that a manifest states, where their number depends on earlier answers.
        choice
            Public choices.
        """

    def n_labels(self, choice: Choice) -> int | None:  # noqa: ARG002 - by default none
        """Return the number of labels of its randomised response; None if it has none."""
        return None

    def recompute(self, contents: Contents) -> Iterator[Finding]:  # noqa: ARG002 - by default none
        """Recompute the released numbers that follow from other released numbers."""
        yield from ()

    def achieved(
        self,
        record: Mapping[str, Any],  # noqa: ARG002 - by default nothing
        tables: Mapping[str, Table],  # noqa: ARG002
    ) -> tuple[Achievement, ...]:
        """Return qualities of the release for the manifest, from released values alone.

        Parameters
        ----------
        record
            The product in the manifest.
        tables
            Released tables of all products, by name.
        """
        return ()

    def released_errors(
        self,
        tables: Mapping[str, Table],  # noqa: ARG002 - by default nothing
    ) -> Mapping[str, str]:
        """Return errors of released values, by the name of what was planned."""
        return {}

    def headline(
        self,
        tables: Mapping[str, Table],  # noqa: ARG002 - by default nothing
        choice: Choice,  # noqa: ARG002
    ) -> Headline:
        """Return the main result in ordinary words, for the first lines of the report."""
        return Headline()

    def figures(
        self,
        tables: Mapping[str, Table],  # noqa: ARG002 - by default none
        choice: Choice,  # noqa: ARG002
    ) -> Iterator[ReportFigure]:
        """Return its figures for the report, from released tables alone."""
        yield from ()

    def report_text(
        self,
        record: Mapping[str, Any],  # noqa: ARG002 - by default none
        tables: Mapping[str, Table],  # noqa: ARG002
    ) -> "tuple[str, PageTable | None]":
        """Return text and table of its section of the report, from its record in the manifest."""
        return "", None
