"""What a part of a release is: it plans, it asks, and it leaves tables.

A part is one small class. It hands private rows to an estimator and returns a `ReleasedPart`:
tables of released numbers, and the charges that paid for them. To add a part, write its class, list
it in `plan.GLOBAL_PARTS` and, if it draws on the Gaussian budget, give it a weight in
`request.DEFAULT_WEIGHTS`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, final

from wattveil.clustering.geometry import Floats
from wattveil.engines.inputs import Values, listed_rows, load_rows, value_rows
from wattveil.engines.kept import KeptProfiles
from wattveil.errors import InvalidParameterError
from wattveil.privacy.accounting import Composition
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.guarantee import Guarantee, Tier
from wattveil.privacy.private_rows import Rows, Texts
from wattveil.profiles import Grid, Profiles
from wattveil.publish.request import ReleaseRequest
from wattveil.publish.tables import Layout, Table
from wattveil.release.rows.projection import comparable_rows

if TYPE_CHECKING:
    from wattveil.instance.kmeans import LeaveOneOutKMeans
    from wattveil.release.kmeans import PrivateKMeans

CLIPPED = "means that noise carried beyond the public bound on customers are scaled back to it"


@dataclass(frozen=True, kw_only=True)
class Allotment:
    """What a part may spend: a promise of its own, and the grant that counts in the total."""

    guarantee: Guarantee
    grant: Composition

    @classmethod
    def of(cls, guarantee: Guarantee, *, response_epsilon: float = 0.0) -> "Allotment":
        """Return what a budget with this promise grants."""
        grant = Budget(guarantee, response_epsilon=response_epsilon).grant
        # A grant without rho admits no Gaussian draw, and so no discretisation.
        eta = grant.eta if grant.rho_units else 0.0
        return cls(guarantee=guarantee, grant=replace(grant, eta=eta))


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What was chosen in public: it decides which tables there are."""

    request: ReleaseRequest
    grid: Grid


@dataclass(frozen=True, kw_only=True)
class Ask(Choice):
    """What a part is going to be asked for: public, so that its worth can be foreseen."""

    allotment: Allotment


@dataclass(frozen=True)
class Expectation:
    """What to expect of a part, from public parameters alone."""

    quantity: str
    value: float | None
    """None: it cannot be known beforehand."""
    unit: str

    def __post_init__(self) -> None:
        """Take what is beyond all numbers for what it is: not known."""
        if self.value is not None and not math.isfinite(self.value):
            object.__setattr__(self, "value", None)

    def __str__(self) -> str:
        """Say it in words."""
        return self.unit if self.value is None else f"{self.value:.2g} {self.unit}"


@dataclass(frozen=True, kw_only=True)
class Run:
    """Charges on one group of customers; runs of a part have no customer in common."""

    group: str | None
    spends: tuple[Spend, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleasedPart:
    """What a part released. Everything in it may be published."""

    name: str
    allotment: Allotment
    runs: tuple[Run, ...]
    tables: tuple[Table, ...]
    documents: Mapping[str, str] = field(default_factory=dict)
    """Released values that are no table, as JSON, by file name."""
    channel: tuple[tuple[int, ...], ...] = ()
    """Of labels: what is drawn for each true label, in parts of 2^62."""


@dataclass(frozen=True, kw_only=True)
class PublicFacts:
    """What a manifest states of profiles: how they were made, and nothing of any customer."""

    grid: Grid
    timezone: str
    rules: Mapping[str, object]

    @classmethod
    def of(cls, profiles: Profiles | KeptProfiles) -> "PublicFacts":
        """Return the public facts of profiles."""
        return cls(grid=profiles.grid, timezone=profiles.timezone, rules=profiles.rules)


@final
class Work:
    """Shared inputs of the parts of one release: private rows, and released clusters.

    Parts receive rows as `Rows`, which only a mechanism can read, so that what a part returns was
    released by a mechanism or is public.

    Parameters
    ----------
    profiles : Profiles or KeptProfiles
        The customers.
    request : ReleaseRequest
        What was chosen in public.
    customer_list : sequence of str
        The public list of customers to label, also those without a profile.
    """

    def __init__(
        self,
        *,
        profiles: Profiles | KeptProfiles,
        request: ReleaseRequest,
        customer_list: Sequence[str] = (),
    ) -> None:
        self._profiles = profiles
        self._customer_list = customer_list
        self.request = request
        self.kmeans: dict[Hashable, PrivateKMeans] = {}
        """Released clusters, of each group or of all customers, for the parts that need them."""
        self.leave_one_out: LeaveOneOutKMeans | None = None
        """The fit of the instance tier."""

    @property
    def choice(self) -> Choice:
        """What was chosen in public."""
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
    def listed(self) -> tuple[Rows[Floats], Values]:
        """A row for each customer on the public list, NaN for one without a profile; and the ids.

        Who has enough readings for a profile is private: so a label is drawn for all on the list.
        """
        if isinstance(self._profiles, KeptProfiles):
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
            rule = f"an attribute of the profiles, one of {sorted(known)}"
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


class Part(ABC):
    """One part of a release."""

    name: str
    needs: str = ""
    """Without what it cannot be had, in words."""
    documents: tuple[str, ...] = ()
    """Files it leaves beside its tables."""
    postprocessing: tuple[str, ...] = ()
    """What happens to drawn numbers before they stand in the tables."""

    @abstractmethod
    def wanted(self, request: ReleaseRequest) -> bool:
        """Whether the request asks for it."""

    @abstractmethod
    def layouts(self, choice: Choice) -> tuple[Layout, ...]:
        """Return the tables that it will leave, without their numbers."""

    def done_afterwards(self, choice: Choice) -> tuple[str, ...]:
        """Return all that happens to drawn numbers before they stand in the tables."""
        bounded = any(layout.most_rms is not None for layout in self.layouts(choice))
        return (*self.postprocessing, *((CLIPPED,) if bounded else ()))

    def expected(self, ask: Ask) -> tuple[Expectation, ...]:  # noqa: ARG002 - for those who can
        """Return what to expect; nothing is foreseen unless a part says how."""
        return (Expectation("error", None, "not foreseen"),)

    @abstractmethod
    def query(self, work: Work, allotment: Allotment) -> Any:  # noqa: ANN401 - each part's own
        """Release with this allotment: the only method that handles private rows."""

    @abstractmethod
    def tabulate(self, released: Any, choice: Choice, allotment: Allotment) -> ReleasedPart:  # noqa: ANN401 - what `query` returns
        """Return the tables of what `query` released: post-processing."""

    def release(self, work: Work, allotment: Allotment) -> ReleasedPart:
        """Query, and return tables of what was released."""
        return self.tabulate(self.query(work, allotment), work.choice, allotment)
