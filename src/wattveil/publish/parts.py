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

import numpy as np

from wattveil.clustering.geometry import Floats
from wattveil.engines.inputs import Load, Values, load_rows
from wattveil.engines.kept import KeptProfiles
from wattveil.errors import InvalidParameterError
from wattveil.instance.kmeans import LeaveOneOutKMeans
from wattveil.privacy.accounting import Composition
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.guarantee import Guarantee
from wattveil.privacy.rows import Rows
from wattveil.profiles import Grid, Profiles
from wattveil.publish.request import ReleaseRequest
from wattveil.publish.tables import Layout, Table
from wattveil.release.kmeans import PrivateKMeans
from wattveil.release.rows.projection import comparable_rows

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


@dataclass(kw_only=True, eq=False)
class Work:
    """What the parts of one release share. The rows are private."""

    profiles: Profiles | KeptProfiles
    request: ReleaseRequest
    kmeans: dict[Hashable, PrivateKMeans] = field(default_factory=dict)
    """Released clusters, of each group or of everybody, for the parts that stand on them."""
    leave_one_out: LeaveOneOutKMeans | None = None
    """The fit of the instance tier."""
    customer_list: Sequence[str] = ()
    """The public list of customers to label, also those without a profile."""

    @property
    def choice(self) -> Choice:
        """What was chosen in public."""
        return Choice(request=self.request, grid=self.profiles.grid)

    @property
    def rows(self) -> Rows[Floats]:
        """The customers' load, each scaled back to the public bound."""
        return self._scaled_back(self.profiles.load_kw)

    @property
    def listed(self) -> tuple[Rows[Floats], Values]:
        """A row for each customer on the public list, NaN for one without a profile; and the ids.

        Who has readings enough for a profile is private: so a label is drawn for everybody listed.
        """
        if isinstance(self.profiles, KeptProfiles):
            kept = self.profiles.listed(self.customer_list)
            return self._scaled_back(kept.load_kw), kept.customer_ids
        place = {name: row for row, name in enumerate(self.profiles.customer_ids)}
        rows = np.full((len(self.customer_list), self.profiles.load_kw.shape[1]), np.nan)
        found = [(i, place[name]) for i, name in enumerate(self.customer_list) if name in place]
        if found:
            listed, own = map(list, zip(*found, strict=True))
            rows[listed] = self.profiles.load_kw[own]
        return self._scaled_back(rows), self.customer_list

    def _scaled_back(self, load_kw: Load) -> Rows[Floats]:
        rows, clip_kw = load_rows(load_kw), self.request.clip_kw
        if clip_kw is None:
            return rows
        # Row by row, to the last bit: the parts may take each row for its customer's own.
        longest = clip_kw * math.sqrt(rows.width)
        return rows.map(comparable_rows.bind(normalise=False, longest=longest))

    @property
    def groups(self) -> Values:
        """Each customer's value of the public attribute."""
        name, known = self.request.by, self.profiles.attributes
        if name is None or name not in known:
            rule = f"an attribute of the profiles, one of {sorted(known)}"
            raise InvalidParameterError("by", rule, name)
        return known[name]


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
    def release(self, work: Work, allotment: Allotment) -> ReleasedPart:
        """Ask, and return tables of what was released."""
