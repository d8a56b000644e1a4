"""Audit of a whole release: empirical lower bounds on epsilon per product and for all together.

For paired audits, everything runs as in `wattveil release`, product after product under one budget,
with and without one canary on the list of customers; the observer reads the released tables. A
lower bound above the claim refutes it. One below proves nothing: docs/proofs is the proof, this is
an independent check.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from wattveil import checks
from wattveil.arrays import Floats
from wattveil.bundle.plan import ReleasePlan, composed_epsilon, requested_products, split_budget
from wattveil.bundle.produce import release_products
from wattveil.lab.audit.canaries import ONE_RUN, canary_load_kw, numbered_customers
from wattveil.lab.audit.epsilon_bounds import OneRunAudit, PairedAudit, audit_one_run, paired_bound
from wattveil.lab.seeded_draws import RandomAssignment
from wattveil.numerics.kmeans.instance_query import clip_rms
from wattveil.numerics.measures.verdicts import Verdict
from wattveil.privacy.guarantee import Guarantee, Tier
from wattveil.products.product import ReleasedProduct
from wattveil.products.request import ReleaseRequest
from wattveil.products.tables import Table, curve_names
from wattveil.profiles import Profiles
from wattveil.web.results import PrivateResult, ResultTable, records_table

WHOLE = "whole release"
_CANARY = "canary customer"
_PLACES = {"cluster", "slot", "rank", "customer", "label"}
"""Key columns, which hold no released number."""
_MIN_STD = 1e-9
_ALONE = {"clusters", "load", "years"}
"""Products that use no other; the rest uses released clusters."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PairedReleases:
    """A release that can be repeated with and without the canary."""

    plan: ReleasePlan
    profiles: Profiles
    """Customers without the canary."""

    @classmethod
    def of(cls, request: ReleaseRequest, profiles: Profiles) -> "PairedReleases":
        """Plan the release: split the budget without a simulation."""
        if request.label_epsilon is not None and request.tier is Tier.GLOBAL:
            request = request.replace(real_ids=True)  # the observer identifies the canary
        plan = ReleasePlan(
            request=request,
            products=requested_products(request),
            allotments=split_budget(request),
            expected={},
        )
        return cls(plan=plan, profiles=numbered_customers(profiles))

    @cached_property
    def claims(self) -> dict[str, Guarantee]:
        """Guarantee of each product, including the products it uses, and of the whole release.

        In the instance tier only the centroids: a list of labels names its customers.
        """
        allotments, request = self.plan.allotments, self.plan.request
        if request.tier is Tier.INSTANCE:
            return {"clusters": allotments["clusters"].guarantee}
        claims = {}
        for name, allotment in allotments.items():
            claims[name] = allotment.guarantee
            if name not in _ALONE:
                both = composed_epsilon((allotments["clusters"], allotment), request.delta)
                claims[name] = replace(allotment.guarantee, epsilon=both, delta=request.delta)
        return {**claims, WHOLE: self.plan.guarantee}

    def observe(self, *, canary: bool) -> dict[str, Floats]:
        """Release once; return the observed numbers of each product and of the whole release."""
        names = (*self.profiles.customer_ids, _CANARY)
        rows = self._with_canary() if canary else self.profiles
        parts = release_products(rows, self.plan, customer_list=names)
        tables = {table.name: table for part in parts for table in part.tables}
        nearest = self._nearest_cluster(tables["centroids"]) if "centroids" in tables else 0
        found = {
            part.name: self._observed(part, nearest) for part in parts if part.name in self.claims
        }
        if WHOLE in self.claims:
            found[WHOLE] = np.concatenate(list(found.values()))
        return found

    def _with_canary(self) -> Profiles:
        profiles = self.profiles
        level = self.plan.request.levels[0] if self.plan.request.levels else None
        days_kw, width = profiles.days_kw, profiles.grid.n_days * profiles.grid.slots
        return replace(
            profiles,
            customer_ids=(*profiles.customer_ids, _CANARY),
            days_kw=None if days_kw is None else np.vstack([days_kw, canary_load_kw(width)]),
            load_kw=np.vstack([profiles.load_kw, canary_load_kw(profiles.load_kw.shape[1])]),
            attributes={name: (*own, level) for name, own in profiles.attributes.items()},
            estimated_share=None,
        )

    def _nearest_cluster(self, centroids: Table) -> int:
        """Return the cluster whose released centroid is nearest to the canary."""
        readings = self._clipped(canary_load_kw(self.profiles.load_kw.shape[1]))
        name, _ = curve_names(centroids)
        curves = centroids.data[name].to_numpy().reshape(-1, readings.size)
        return int(np.argmin(np.linalg.norm(curves - readings, axis=1)))

    def _observed(self, part: ReleasedProduct, nearest: int) -> Floats:
        """Return a few numbers of every table that do not depend on the order of clusters."""
        seen: list[float] = []
        for table in part.tables:
            seen += _extremes(table)
            if table.name == "labels":
                own = table.data["customer"].to_pylist().index(_CANARY)
                seen += [float(table.data["label"][own].as_py() == nearest)]
            if table.name == "synthetic":
                readings = canary_load_kw(self.profiles.load_kw.shape[1])
                seen += [_copies(table, [readings, self._clipped(readings)])]
        return np.array(seen)

    def _clipped(self, readings: Floats) -> Floats:
        """Return the readings clipped to the public bound, as in the clustering."""
        clip_kw = self.plan.request.clip_kw
        return readings if clip_kw is None else clip_rms(readings[None, :], clip_kw)[0]


def _extremes(table: Table) -> list[float]:
    """Return mean, minimum, maximum and log standard deviation of every numeric column."""
    found: list[float] = []
    for name in table.data.column_names:
        values = table.data[name].to_numpy()
        if name not in _PLACES and values.dtype == np.float64:
            known = np.nan_to_num(values)  # an empty cell is an unknown number
            log_std = math.log(known.std() + _MIN_STD)
            found += [known.mean(), known.min(), known.max(), log_std]
    return found


def _copies(table: Table, rows: Sequence[Floats]) -> float:
    """Return the number of synthetic values equal to a reading of the canary, up to rounding."""
    synthetic = np.sort(table.data["load_kw"].to_numpy())
    readings = np.concatenate(rows)
    near = 1e-9 * np.abs(readings)
    return float(
        (
            np.searchsorted(synthetic, readings + near)
            - np.searchsorted(synthetic, readings - near)
        ).sum()
    )


METHODS = (
    "Paired: an event is chosen on one half of the releases and counted in the other, because a"
    " bound from the releases on which its event was chosen would be too large. A product that"
    " builds on released clusters is audited together with them. One run: one further release, of"
    " canaries and this product alone, which receives the epsilon of the whole release (labels:"
    " their own): that is the claim of the row."
)
"""What a reader of the table needs to know of both methods."""

NOT_REFUTED = "not refuted"
"""Verdict of an audit that could have refuted the claim, and did not."""
_WEAK_BELOW = 2.0


def is_weak(max_epsilon: float, claimed: float) -> bool:
    """Whether even a perfect attack would have shown less than twice the claimed epsilon.

    A violation by a factor of two would then never be detected, whatever the attack.
    """
    return max_epsilon < _WEAK_BELOW * claimed


@dataclass(frozen=True, kw_only=True)
class AuditRow:
    """One audit of one product."""

    release: str
    method: Literal["paired", "one run"]
    found: PairedAudit | OneRunAudit

    @property
    def name(self) -> str:
        """Product and method."""
        return f"{self.release}, {self.method}"

    @property
    def broken(self) -> bool:
        """Whether a claim of differential privacy is refuted."""
        return self.found.refutes and self.found.claim.tier is Tier.GLOBAL

    @property
    def verdict(self) -> str:
        """Verdict on the claim; without power, not even a perfect attack would refute it."""
        if self.found.refutes:
            return "refuted" if self.broken else "no differential privacy"
        powerless = self.found.max_epsilon <= self.found.claim.epsilon
        return Verdict.INCONCLUSIVE.value if powerless else NOT_REFUTED

    @property
    def is_weak(self) -> bool:
        """Whether the claim was not refuted, by an audit that finds gross violations only."""
        found = self.found
        return self.verdict == NOT_REFUTED and is_weak(found.max_epsilon, found.claim.epsilon)

    def to_json(self) -> dict[str, object]:
        """Return the row as JSON values."""
        return {
            "release": self.release,
            "method": self.method,
            "claim": self.found.claim.to_json(),
            "epsilon_lower_bound": self.found.epsilon,
            "max_epsilon": self.found.max_epsilon,
            "evidence": self.found.evidence,
            "verdict": self.verdict,
            "weak": self.is_weak,
        }


class AuditReport(PrivateResult, tuple[AuditRow, ...]):
    """Audits of a release. PRIVATE, internal use only."""

    __slots__ = ()

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        records = [
            {
                "release": row.release,
                "method": row.method,
                "epsilon_claimed": row.found.claim.epsilon,
                "delta_claimed": row.found.claim.delta,
                "epsilon_lower_bound": row.found.epsilon,
                "evidence": row.found.evidence,
                "verdict": row.verdict,
            }
            for row in self
        ]
        return {"audit": lambda: records_table(records, "release", "method")}


def audit_release(
    request: ReleaseRequest,
    profiles: Profiles,
    *,
    runs: int,
    canaries: int,
    confidence: float,
    seed: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> AuditReport:
    """Audit every requested product by paired and by one-run audits.

    Parameters
    ----------
    profiles
        Customers besides the canary of paired audits. They are private, and so are the results.
    runs
        Number of releases with, and number of releases without the canary.
    canaries
        Number of canaries of each one-run audit.
    confidence
        Joint confidence of all lower bounds (Bonferroni).
    seed
        Of the canary assignment of one-run audits. The noise has no seed.
    advance
        Called after every release.
    """
    checks.integer("runs", runs, minimum=4)
    checks.integer("canaries", canaries, minimum=32, maximum=100_000)
    paired = PairedReleases.of(request, profiles)
    claims = paired.claims
    single = [name for name in ONE_RUN if name in claims and request.tier is Tier.GLOBAL]
    level = (1.0 - checks.probability("confidence", confidence)) / (len(claims) + len(single))

    seen: Mapping[bool, list[Mapping[str, np.ndarray]]] = {True: [], False: []}
    for _ in range(runs):
        for canary in (True, False):
            seen[canary].append(paired.observe(canary=canary))
            advance()
    rows = []
    for name, claim in claims.items():
        first, second = (
            np.array([each[name] for each in seen[canary]]) for canary in (True, False)
        )
        found = paired_bound(first, second, claim=claim, level=level)
        is_alone = name in {*_ALONE, WHOLE}
        audited = name if is_alone else f"clusters + {name}"
        rows.append(AuditRow(release=audited, method="paired", found=found))
    assignment = RandomAssignment(seed)
    for name in single:
        coins = ONE_RUN[name](request, canaries, assignment)
        advance()
        bound = audit_one_run(coins.included, coins.observed, claim=coins.claim, level=level)
        rows.append(AuditRow(release=name, method="one run", found=bound))
    return AuditReport(rows)
