"""A rule, the attack on it, and the differentially private answer for the same cells. PRIVATE."""

import math
from dataclasses import asdict, dataclass

import numpy as np

from wattveil.evaluation.differencing import Recovery, easiest_victim, recover, relative_error
from wattveil.evaluation.rules import Cells, Floats, Rule, apply_rule, cell_names
from wattveil.profiles import Profiles
from wattveil.release.shapes import LoadShapes, load_shapes


@dataclass(frozen=True, kw_only=True, eq=False)
class RuleReport:
    """What a regulator needs to judge a rule.

    Attributes
    ----------
    found : Cells
        Which cells are published, and who is exposed.
    recovery : Recovery or None
        The attack on the largest customer that is exposed; None if nobody is.
    released : LoadShapes
        The DP answer for all cells: one release under one budget.
    exact_kw : (cells, slots)
        The means themselves.
    errors : (cells,)
        Root-mean-square error of the DP means, over the size of the exact ones.
    hours : (slots,)
        Of the columns, for pictures.
    """

    found: Cells
    recovery: Recovery | None
    released: LoadShapes
    exact_kw: Floats
    errors: Floats
    hours: Floats

    @property
    def median_errors(self) -> dict[str, float]:
        """Median error of the DP means in published and in suppressed cells; NaN of none."""
        published = np.array([cell.published for cell in self.found.cells])
        return {
            name: float(np.median(self.errors[which])) if which.any() else float("nan")
            for name, which in (("published", published), ("suppressed", ~published))
        }

    @property
    def summary(self) -> list[str]:
        """Say in words what the attack recovered and what the DP answer is worth."""
        guarantee, recovery = self.released.guarantee, self.recovery
        if recovery is None:
            said = "No cell stays published without one of its customers: nobody is recovered."
        else:
            said = (
                f"From two published means, one of {recovery.customers:,} customers is recovered"
                f" with an error of {recovery.error:.1e} of its load; from two DP means the"
                f" error is {recovery.protected_error:,.1f} times its load."
            )
        errors = [
            f"{error:.1%} in {name} cells"
            for name, error in self.median_errors.items()
            if not math.isnan(error)
        ]
        cost = f"epsilon {guarantee.epsilon:g}, delta {guarantee.delta:g}"
        answer = f"The DP answer for all cells costs {cost}; its median error is"
        return [said, f"{answer} {', '.join(errors)}."]

    def to_json(self) -> dict[str, object]:
        """Return everything but the curves."""
        guarantee, recovery = self.released.guarantee, self.recovery
        return {
            "private": True,
            "rule": str(self.found.rule),
            "rates": self.found.rates,
            "cells": [
                {**asdict(cell), "published": cell.published, "dp_error": float(error)}
                for cell, error in zip(self.found.cells, self.errors, strict=True)
            ],
            "attack": None
            if recovery is None
            else {
                "customers": recovery.customers,
                "error": recovery.error,
                "protected_error": recovery.protected_error,
            },
            "dp_answer": {
                "epsilon": guarantee.epsilon,
                "delta": guarantee.delta,
                "sentence": guarantee.sentence,
            },
        }


def report_rule(
    profiles: Profiles, *, rule: str, by: list[str], epsilon: float, delta: float
) -> RuleReport:
    """Judge the cells, attack them, and answer for them with differential privacy.

    Parameters
    ----------
    profiles
        Private.
    rule
        ``"N/X"``.
    by
        Attributes whose values make the cells.
    epsilon, delta
        Budget of the DP answer for all cells together.
    """
    names = cell_names(profiles, by)
    found = apply_rule(profiles.load_kw, names, Rule.parse(rule))
    levels = [cell.name for cell in found.cells]
    released = load_shapes(
        profiles.load_kw, groups=names, levels=levels, epsilon=epsilon, delta=delta
    )
    exact_kw = np.stack(
        [profiles.load_kw[found.cell_of == place].mean(axis=0) for place in range(len(levels))]
    )
    victim = easiest_victim(profiles.load_kw, found)
    recovery = None
    if victim is not None:
        members = np.flatnonzero(found.cell_of == found.cell_of[victim])
        recovery = recover(profiles.load_kw, members, victim, epsilon=epsilon, delta=delta)
    return RuleReport(
        found=found,
        recovery=recovery,
        released=released,
        exact_kw=exact_kw,
        errors=np.array(
            [
                relative_error(mean_kw, true_kw)
                for mean_kw, true_kw in zip(released.mean_kw, exact_kw, strict=True)
            ]
        ),
        hours=np.arange(profiles.grid.columns) * profiles.grid.minutes / 60.0,
    )
