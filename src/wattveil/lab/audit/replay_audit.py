"""Replay audit: run a release again with one customer changed, and compare exact integers.

A first run, with seeded noise, records the exact integers, the noisy integers and the noise scale
of each Gaussian query. A second run, on data that differ by one customer, is handed the noisy
integers: it must make the same queries and release the same values, and the exact integers may
differ by one bounded contribution per query. Three checks, none statistical; a seed repeats them:

* per query: ``|m - m'|^2 / 2^50 <= 1``, where 2^50 is the squared sensitivity in steps;
* per part: ``sum |m - m'|^2 / sigma^2 <= 2 rho``, with the rho that its budget grants;
* every released value is identical: one that differs was not computed from noisy numbers alone.

Ratios are exact fractions. For randomised labels the ratio is the epsilon of the channel over the
epsilon charged; the label of the changed customer may differ, all others must be identical.

The audit does not see the sampler (whether noise has its stated scale), run time and memory, or
customers that it did not change. The instance tier is not differential privacy and is not audited.
Exact integers and all results are private: they stay with the data holder.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.bundle.plan import ReleasePlan, requested_products, split_budget
from wattveil.bundle.produce import release_products
from wattveil.errors import InvalidParameterError
from wattveil.lab.audit.canaries import numbered_customers
from wattveil.lab.seeded_draws import named_generator
from wattveil.privacy.accounting import RHO_UNITS, Composition
from wattveil.privacy.guarantee import Budget, Guarantee, Neighbours, Spend, Tier
from wattveil.privacy.mechanisms.contributions import UNIT
from wattveil.privacy.mechanisms.response import Channel
from wattveil.privacy.private_data import PrivateValue, ReleasedRows
from wattveil.privacy.transcript import Draw, Transcript, record
from wattveil.products.product import ReleasedProduct
from wattveil.products.request import ReleaseRequest
from wattveil.products.tables import Table
from wattveil.profiles import Profiles
from wattveil.web.results import PrivateResult, ResultTable, records_table

Data = TypeVar("Data")
_Path = tuple[str, ...]
WHOLE = "release"
"""The name of the only part, where a release has one."""

_ADDED = "hostile customer"
_FROM_LABELS = ("sizes", "sizes_std", "shares", "shares_std", "label_sizes")
"""Values beside a list of labels that are computed from it: equal where the lists are equal."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Neighbour(Generic[Data]):
    """Data that differ from the audited data by one customer."""

    name: str
    data: Data
    customer_id: str | None = None
    """The changed customer, where labels are released under real ids: the only label that may
    change. None permits any one label to change."""
    adds_nothing: bool = False
    """Whether the change is from no data to no data: then every ratio must be 0."""


@dataclass(frozen=True, kw_only=True)
class QueryReplay:
    """One query: the worst ratio over all neighbours."""

    tag: str
    ratio: Fraction


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A difference between the two runs that noisy numbers do not explain."""

    part: str
    neighbour: str
    text: str

    def __str__(self) -> str:
        """Return the fault as one line."""
        return f"{self.part}, {self.neighbour}: {self.text}"


@dataclass(frozen=True, kw_only=True)
class PartReplay:
    """One part of a release under all neighbours."""

    part: str
    queries: tuple[QueryReplay, ...]
    budget_ratio: Fraction
    """Worst ratio of ``sum |m - m'|^2 / sigma^2`` to 2 rho; of labels, epsilon to its grant."""
    faults: tuple[Fault, ...]

    @property
    def worst_ratio(self) -> Fraction:
        """The largest of all ratios; 0 without queries."""
        return max((self.budget_ratio, *(query.ratio for query in self.queries)))

    @property
    def holds(self) -> bool:
        """Whether every ratio is at most 1 and there is no fault."""
        return self.worst_ratio <= 1 and not self.faults

    @property
    def verdict(self) -> str:
        """Verdict as a short text."""
        if self.worst_ratio > 1:
            return "sensitivity exceeded"
        return "exact value released" if self.faults else "within the bound"

    def to_json(self) -> dict[str, object]:
        """Return the part as JSON values; ratios as the nearest floats."""
        worst = max(self.queries, key=lambda query: query.ratio, default=None)
        return {
            "part": self.part,
            "queries": len(self.queries),
            "worst_ratio": float(self.worst_ratio),
            "worst_query": None if worst is None else worst.tag,
            "budget_ratio": float(self.budget_ratio),
            "verdict": self.verdict,
        }


@dataclass(frozen=True, kw_only=True, repr=False)  # faults describe neighbours of private data
class ReplayAudit(PrivateResult):
    """A release under all neighbours."""

    parts: tuple[PartReplay, ...]
    faults: tuple[Fault, ...]
    """Those of the parts, and those of the release as a whole."""
    replays: int

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"parts": lambda: records_table([one.to_json() for one in self.parts], "part")}

    @property
    def worst_ratio(self) -> Fraction:
        """The largest ratio of all parts."""
        return max(part.worst_ratio for part in self.parts)

    @property
    def holds(self) -> bool:
        """Whether every ratio is at most 1 and there is no fault."""
        return self.worst_ratio <= 1 and not self.faults


def hostile_rows(load_kw: Floats) -> dict[str, Floats]:
    """Return ten rows for a customer that a faulty sum does not bound, as wide as the others."""
    width = load_kw.shape[1]
    finite = load_kw[np.isfinite(load_kw).all(axis=1)]
    others = finite if len(finite) else np.linspace(0.1, 1.0, width)[None, :]
    flat = np.ones(width)
    spike = np.where(np.arange(width) == width // 2, 1e6, 0.0)
    return {
        "1e6 kW": 1e6 * flat,
        "-1e5 kW": -1e5 * flat,
        "zeros": 0.0 * flat,
        "1e300 kW": 1e300 * flat,
        "-1e300 kW": -1e300 * flat,
        "subnormal": 1e-310 * flat,
        "one spike": spike,
        "alternating signs": 1e3 * np.where(np.arange(width) % 2, -1.0, 1.0),
        "mean of the others": others.mean(axis=0),
        "copy of another": others[0].copy(),
    }


def rows_without_data(width: int) -> dict[str, Floats]:
    """Return two rows that mean "no data" in every release: they must not change any query."""
    return {"NaN": np.full(width, math.nan), "infinity": np.full(width, math.inf)}


def replay_audit(
    release: Callable[[Data], object],
    data: Data,
    neighbours: Iterable[Neighbour[Data]],
    *,
    seed: int = 0,
) -> ReplayAudit:
    """Run a release on data, run it again on each neighbour, and compare.

    Parameters
    ----------
    release
        Releases data and returns everything that may be published: an estimator, a result, a
        mapping of estimators by class, or the parts of a bundle.
    data
        What the first run reads.
    neighbours
        Data that differ by one customer; one is held at a time.
    seed
        Of the noise of the first run, so that the audit can be repeated. What is released under it
        is compared, and cannot be published.

    Returns
    -------
    ReplayAudit
        Ratios and faults. An error in the first run is raised; one in a second run is a fault,
        since whether a release stops would depend on the changed customer.
    """
    checks.integer("seed", seed, minimum=0)
    first = _observe(release, data, seed=seed)
    comparison = _Comparison(first)
    replays = 0
    for neighbour in neighbours:
        replays += 1
        try:
            second = _observe(release, neighbour.data, handed=first.transcript)
        except Exception as error:  # noqa: BLE001 - whatever it is, the first run had none
            own = isinstance(error, ValueError) and str(error).startswith("the second run")
            text = str(error) if own else f"the second run stopped: {type(error).__name__}"
            comparison.report(WHOLE, neighbour.name, text)
        else:
            comparison.add(second, neighbour)
    return comparison.result(replays)


def replay_release(
    request: ReleaseRequest,
    profiles: Profiles,
    *,
    removals: int = 10,
    seed: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> ReplayAudit:
    """Replay a whole release: with each hostile customer added, and with real customers removed.

    Parameters
    ----------
    request
        A release of the global tier.
    profiles
        Private.
    removals
        How many real customers are removed, one at a time, evenly spaced over the file.
    seed
        Of the noise of the first run: see `replay_audit`.
    advance
        Called after every release.
    """
    checks.integer("removals", removals, minimum=0)
    if request.tier is not Tier.GLOBAL:
        rule = "global: the instance tier is not differential privacy and is not replayed"
        raise InvalidParameterError("tier", rule, request.tier.value)
    request = request.replace(real_ids=request.label_epsilon is not None)  # to match labels
    plan = ReleasePlan(
        request=request,
        products=requested_products(request),
        allotments=split_budget(request),
        expected={},
    )
    profiles = numbered_customers(profiles)
    listed = (*profiles.customer_ids, _ADDED) if request.real_ids else ()

    def release(customers: Profiles) -> object:
        released = release_products(customers, plan, customer_list=listed)
        advance()
        return released

    return replay_audit(release, profiles, _neighbours(profiles, request, removals), seed=seed)


def _neighbours(
    profiles: Profiles, request: ReleaseRequest, removals: int
) -> Iterator[Neighbour[Profiles]]:
    """Yield profiles with each hostile customer before the others, then with one removed."""
    level, ids = request.levels[0] if request.levels else None, profiles.customer_ids
    days_kw, width = profiles.days_kw, profiles.grid.n_days * profiles.grid.slots
    for name, row in hostile_rows(profiles.load_kw).items():
        added = replace(
            profiles,
            customer_ids=(_ADDED, *ids),
            load_kw=np.vstack([row, profiles.load_kw]),
            days_kw=None if days_kw is None else np.vstack([np.resize(row, width), days_kw]),
            attributes={own: (level, *values) for own, values in profiles.attributes.items()},
            estimated_share=None,
        )
        yield Neighbour(name=f"{name} added", data=added, customer_id=_ADDED)
    for number, place in enumerate(_evenly_spaced(len(profiles), removals), start=1):
        kept = [row for row in range(len(profiles)) if row != place]
        removed = profiles.selected(kept)
        yield Neighbour(name=f"removal {number}", data=removed, customer_id=ids[place])


def _evenly_spaced(customers: int, count: int) -> list[int]:
    """Return up to `count` row numbers, evenly spaced, including the first and the last."""
    return sorted(set(np.linspace(0, customers - 1, min(count, customers)).astype(int).tolist()))


@dataclass(frozen=True, eq=False)
class _Observed:
    """One run: its transcript, what it returned, and the values in that by path."""

    transcript: Transcript
    result: object
    values: Mapping[_Path, object]


def _observe(
    release: Callable[[Data], object],
    data: Data,
    handed: Transcript | None = None,
    *,
    seed: int = 0,
) -> _Observed:
    results: list[object] = []
    generator = named_generator(seed, "replay")
    transcript = record(lambda: results.append(release(data)), handed, generator=generator)
    return _Observed(transcript, results[0], dict(_values((), results[0])))


@dataclass(frozen=True, eq=False)
class _Charges:
    """The charges of a part, its grant, and the channel of its labels."""

    part: str
    spends: tuple[Spend, ...]
    grant: Composition
    channel: Channel | None = None


class _Comparison:
    """The worst ratios and all faults of second runs beside a first one."""

    def __init__(self, first: _Observed) -> None:
        self._first = first
        self._charges = _charges(first.result)
        self._queried = [
            (one.part, spend) for one in self._charges for spend in one.spends if spend.drawn
        ]
        self._ratios = [Fraction(0)] * len(self._queried)
        self._totals = {one.part: Fraction(0) for one in self._charges}
        self._faults: list[Fault] = []
        charged = [spend.drawn["scale"] for _, spend in self._queried]
        if charged != [draw.scale for draw in first.transcript.draws]:
            self.report(WHOLE, "first run", "noise was not drawn with the scales that were charged")

    def report(self, part: str, neighbour: str, text: str) -> None:
        """Keep a fault."""
        self._faults.append(Fault(part=part, neighbour=neighbour, text=text))

    def add(self, second: _Observed, neighbour: Neighbour[Any]) -> None:
        """Compare a second run with the first."""
        draws = zip(self._first.transcript.draws, second.transcript.draws, strict=False)
        squares = [_squared_distance(one, two) for one, two in draws]
        if len(second.transcript.draws) != len(self._first.transcript.draws):
            self.report(WHOLE, neighbour.name, "the second run made fewer queries than the first")
        if neighbour.adds_nothing and any(squares):
            self.report(WHOLE, neighbour.name, "a row without data changed a query")
        losses = dict.fromkeys(self._totals, Fraction(0))
        queried = zip(self._queried, squares, strict=False)
        for place, ((part, spend), squared) in enumerate(queried):
            self._ratios[place] = max(self._ratios[place], Fraction(squared, UNIT**2))
            losses[part] += Fraction(squared) / Fraction(spend.drawn["scale"]) ** 2
        for part, loss in losses.items():
            self._totals[part] = max(self._totals[part], loss)
        for path in _differences(self._first.values, second.values, neighbour.customer_id):
            part = path[0] if path[0] in self._totals else WHOLE
            self.report(part, neighbour.name, f"{'.'.join(path)} is not the same in both runs")

    def result(self, replays: int) -> ReplayAudit:
        """Return the result of all comparisons."""
        parts = tuple(map(self._part, self._charges))
        return ReplayAudit(parts=parts, faults=tuple(self._faults), replays=replays)

    def _part(self, own: _Charges) -> PartReplay:
        queries = [
            QueryReplay(tag=spend.tag, ratio=ratio)
            for (part, spend), ratio in zip(self._queried, self._ratios, strict=True)
            if part == own.part
        ]
        budget_ratio = _ratio(self._totals[own.part], Fraction(2 * own.grant.rho_units, RHO_UNITS))
        if own.channel is not None:
            epsilon = Fraction(own.channel.epsilon(Neighbours.ZERO_OUT))
            charged = sum(Fraction(spend.response_epsilon) for spend in own.spends)
            queries.append(QueryReplay(tag="labels", ratio=_ratio(epsilon, charged)))
            budget_ratio = _ratio(epsilon, Fraction(own.grant.response_epsilon))
        return PartReplay(
            part=own.part,
            queries=tuple(queries),
            budget_ratio=budget_ratio,
            faults=tuple(fault for fault in self._faults if fault.part == own.part),
        )


def _ratio(used: Fraction, granted: Fraction | int) -> Fraction:
    """Return a ratio that is far above 1 where something was used and nothing granted."""
    return used / max(Fraction(granted), Fraction(1, 10**30))


def _squared_distance(one: Draw, two: Draw) -> int:
    """Return |m - m'|^2 in whole steps; the difference wraps at 2^63, as the noisy sums do."""
    difference = one.exact - two.exact
    return sum(step * step for step in difference[difference != 0].tolist())


def _charges(result: Any) -> list[_Charges]:  # noqa: ANN401 - whatever a release returns
    """Return charges and grant of each part of a release, in the order of the queries."""
    if isinstance(result, tuple) and all(isinstance(part, ReleasedProduct) for part in result):
        return [_of_part(part) for part in result]
    if isinstance(result, Mapping):  # a customer is in one class: all have the grant of one
        own = [_charges(one)[0] for one in result.values()]
        return [replace(own[0], spends=tuple(spend for one in own for spend in one.spends))]
    channel: Channel | None = getattr(result, "channel", None)
    is_fit = hasattr(result, "spends_")
    spends: tuple[Spend, ...] = result.spends_ if is_fit else result.spends
    guarantee: Guarantee = result.guarantee_ if is_fit else result.guarantee
    aside = 0.0 if channel is None else guarantee.epsilon
    return [_Charges(WHOLE, spends, Budget(guarantee, response_epsilon=aside).grant, channel)]


def _of_part(part: ReleasedProduct) -> _Charges:
    spends = tuple(spend for run in part.runs for spend in run.spends)
    channel = Channel(np.array(part.channel)) if part.channel else None
    return _Charges(part.name, spends, part.allotment.grant, channel)


@dataclass(frozen=True)
class _Labels:
    """A released list of labels by name."""

    label_of: dict[str, int]


def _differences(
    first: Mapping[_Path, object], second: Mapping[_Path, object], customer_id: str | None
) -> list[_Path]:
    """Return the paths of released values that differ and must not, and of private values."""
    permitted: set[_Path] = set()
    for path, value in first.items():
        names = _changed_names(value, second.get(path))
        if names and len(names) == 1 and customer_id in {None, *names}:
            permitted |= {path, *((*path[:-1], name) for name in _FROM_LABELS)}
    found = []
    for path in sorted({*first, *second}):
        one, two = first.get(path), second.get(path)
        may_differ = any(path[: len(above)] == above for above in permitted)
        is_private = isinstance(one, PrivateValue) or isinstance(two, PrivateValue)
        if is_private or (not may_differ and one != two):
            found.append(path)
    return found


def _changed_names(first: object, second: object) -> set[str] | None:
    """Return whose labels differ; None unless both are labels of the same customers."""
    if not isinstance(first, _Labels) or not isinstance(second, _Labels):
        return None
    one, two = first.label_of, second.label_of
    differ = {name for name, label in one.items() if two.get(name) != label}
    return differ if one.keys() == two.keys() else None


def _values(path: _Path, value: Any) -> Iterator[tuple[_Path, object]]:  # noqa: ANN401 - of any type
    """Yield everything that a released object holds, to the last bit, by path."""
    if isinstance(value, PrivateValue):
        yield path, value  # nothing private may be in a release
    elif isinstance(value, ReleasedRows):
        yield path, _Labels(dict(zip(*(column.tolist() for column in value.here()), strict=True)))
    elif isinstance(value, Table) and value.name == "labels":
        columns = [value.data[name].to_pylist() for name in ("customer", "label")]
        yield path, _Labels(dict(zip(*columns, strict=True)))
    elif isinstance(value, pa.Table):
        for name in value.column_names:
            yield (*path, name), repr(value[name].to_pylist())
    elif isinstance(value, np.ndarray) and value.dtype != np.object_:
        yield path, (value.dtype.str, value.shape, value.tobytes())
    elif isinstance(value, str | bytes | int | float | np.generic | None | type):
        yield path, repr(value)  # NaN is like NaN, 0.0 is not like -0.0
    else:
        for name, inner in _inside(value):
            yield from _values((*path, name), inner)


def _inside(value: Any) -> list[tuple[str, Any]]:  # noqa: ANN401 - of any type
    """Return what an object holds, by name."""
    if isinstance(value, Mapping):
        return [(str(key), inner) for key, inner in value.items()]
    if isinstance(value, tuple | list | np.ndarray):
        return [
            (inner.name if isinstance(inner, ReleasedProduct | Table) else str(place), inner)
            for place, inner in enumerate(value)
        ]
    if is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in fields(value)]
    return list(getattr(value, "__dict__", {"": repr(value)}).items())
