"""The whole of a release in two worlds: with one giant on the list who has data, or has none.

Everything runs as in `wattveil release`, part after part under one budget; what an observer looks
at is taken from the released tables.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from wattveil.clustering.transforms import clip_rms
from wattveil.evaluation.canaries import giant
from wattveil.privacy.guarantee import Guarantee, Tier
from wattveil.profiles import Profiles
from wattveil.publish import columns
from wattveil.publish.parts import ReleasedPart
from wattveil.publish.plan import ReleasePlan, composed_epsilon, split_budget, wanted_parts
from wattveil.publish.produce import release_parts
from wattveil.publish.request import ReleaseRequest
from wattveil.publish.tables import Table

Floats = NDArray[np.float64]

WHOLE = "whole release"
_CANARY = "canary customer"
_PLACES = {"cluster", "slot", "rank", "customer", "label"}
"""Columns that say where a number stands, not what it is."""
_LEAST_SPREAD = 1e-9
_ALONE = {"clusters", "load"}
"""Parts that stand on no other; the rest builds on released clusters."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleaseWorlds:
    """A release that can be made again and again, with the canary and without."""

    plan: ReleasePlan
    profiles: Profiles
    """Without the canary; customers of the request's groups, if it has any."""

    @classmethod
    def of(cls, request: ReleaseRequest, profiles: Profiles) -> "ReleaseWorlds":
        """Split the budget; nothing is rehearsed."""
        if request.label_epsilon is not None and request.tier is Tier.GLOBAL:
            request = replace(request, real_ids=True)  # the observer knows whom he looks for
        plan = ReleasePlan(
            request=request,
            parts=wanted_parts(request),
            allotments=split_budget(request),
            expected={},
        )
        return cls(plan=plan, profiles=profiles)

    @cached_property
    def claims(self) -> dict[str, Guarantee]:
        """What is promised of each part, with the parts it builds on, and of the whole.

        In the instance tier that is the centroids alone: a list of labels names its customers.
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
        """Release once; return what is looked at, of each part and of the whole."""
        names = (*self.profiles.customer_ids, _CANARY)
        rows = self._with_canary() if canary else self.profiles
        parts = release_parts(rows, self.plan, customer_list=names)
        tables = {table.name: table for part in parts for table in part.tables}
        nearest = self._nearest_cluster(tables["centroids"]) if "centroids" in tables else 0
        found = {
            part.name: self._look_at(part, nearest) for part in parts if part.name in self.claims
        }
        if WHOLE in self.claims:
            found[WHOLE] = np.concatenate(list(found.values()))
        return found

    def _with_canary(self) -> Profiles:
        profiles = self.profiles
        level = self.plan.request.levels[0] if self.plan.request.levels else None
        return replace(
            profiles,
            customer_ids=(*profiles.customer_ids, _CANARY),
            load_kw=np.vstack([profiles.load_kw, giant(profiles.load_kw.shape[1])]),
            attributes={name: (*own, level) for name, own in profiles.attributes.items()},
            estimated_share=None,
        )

    def _nearest_cluster(self, centroids: Table) -> int:
        """Return the cluster whose released centroid is nearest to the canary."""
        readings = self._clipped(giant(self.profiles.load_kw.shape[1]))
        name, _ = columns.curve_names(centroids)
        curves = centroids.data[name].to_numpy().reshape(-1, readings.size)
        return int(np.argmin(np.linalg.norm(curves - readings, axis=1)))

    def _look_at(self, part: ReleasedPart, nearest: int) -> Floats:
        """Return a few numbers of every table, whatever the order of the clusters."""
        seen: list[float] = []
        for table in part.tables:
            seen += _extremes(table)
            if table.name == "labels":
                own = table.data["customer"].to_pylist().index(_CANARY)
                seen += [float(table.data["label"][own].as_py() == nearest)]
            if table.name == "synthetic":
                readings = giant(self.profiles.load_kw.shape[1])
                seen += [_copies(table, [readings, self._clipped(readings)])]
        return np.array(seen)

    def _clipped(self, readings: Floats) -> Floats:
        """Return the readings scaled back to the public bound, as the clusters see them."""
        clip_kw = self.plan.request.clip_kw
        return readings if clip_kw is None else clip_rms(readings[None, :], clip_kw)[0]


def _extremes(table: Table) -> list[float]:
    """Return mean, least and largest value and the spread of every column of numbers."""
    found: list[float] = []
    for name in table.data.column_names:
        values = table.data[name].to_numpy()
        if name not in _PLACES and values.dtype == np.float64:
            known = np.nan_to_num(values)  # an empty cell says that a number is not known
            spread = math.log(known.std() + _LEAST_SPREAD)
            found += [known.mean(), known.min(), known.max(), spread]
    return found


def _copies(table: Table, rows: Sequence[Floats]) -> float:
    """Return how many synthetic values equal a reading of the canary, to the last digits."""
    synthetic = np.sort(table.data["load_kw"].to_numpy())
    readings = np.concatenate(rows)
    near = 1e-9 * np.abs(readings)
    return float(
        (
            np.searchsorted(synthetic, readings + near)
            - np.searchsorted(synthetic, readings - near)
        ).sum()
    )
