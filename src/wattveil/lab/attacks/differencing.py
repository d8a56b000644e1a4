"""Differencing attacks: two aggregates of many customers reveal one customer.

PRIVATE. If q(X) is the mean load of P customers and q(X') that of the same without customer 0,
then, whatever P is::

    x_0 = P q(X) - (P - 1) q(X')

A rule that both aggregates have at least 15 customers does not prevent this. Differential privacy
does: each of two released means carries noise that is multiplied by P.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from wattveil.arrays import Floats, Ints
from wattveil.errors import InvalidParameterError
from wattveil.lab.attacks.aggregation_rules import (
    Rule,
    RuledCells,
    apply_rule,
    cell_names,
)
from wattveil.profiles import Profiles
from wattveil.release.group_load import LoadShapes, load_shapes
from wattveil.web.formatting import format_share

_GROUPS = (20, 100, 1000, 10_000, 100_000)
RELEASES = 20
"""Pairs of DP means in the whole cell: an interval of the median error follows from them."""
_ALL_CUSTOMERS = "all customers"


# --- recovery of one customer ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Recovery:
    """Load of one customer, recovered from two means.

    Attributes
    ----------
    customers
        Number of customers in the aggregate, P.
    true_kw, recovered_kw : (d,)
        True load of the customer, and the load recovered from two exact means.
    repeated_kw : (releases, d)
        Result of the same attack on two differentially private means, of repeated releases.
    """

    customers: int
    true_kw: Floats
    recovered_kw: Floats
    repeated_kw: Floats

    @property
    def protected_kw(self) -> Floats:
        """Result of the same attack on two differentially private means."""
        first: Floats = self.repeated_kw[0]
        return first

    @property
    def error(self) -> float:
        """Relative error of the recovery from exact means."""
        return relative_error(self.recovered_kw, self.true_kw)

    @property
    def protected_errors(self) -> Floats:
        """Relative error of the recovery from each pair of DP means."""
        return np.array([relative_error(made_kw, self.true_kw) for made_kw in self.repeated_kw])

    @property
    def protected_error(self) -> float:
        """Median of these errors; an estimate of 0 has an error of 1."""
        return float(np.median(self.protected_errors))

    def to_json(self) -> dict[str, object]:
        """Return size of the aggregate and both errors as JSON values."""
        return {
            "customers": self.customers,
            "error": self.error,
            "protected_error": self.protected_error,
        }


def recovered(mean_kw: Floats, customers: int, mean_without_kw: Floats) -> Floats:
    """Return ``x_0 = P q(X) - (P - 1) q(X')``."""
    found: Floats = customers * mean_kw - (customers - 1) * mean_without_kw
    return found


def relative_error(found_kw: Floats, true_kw: Floats) -> float:
    """Return ``|found - true| / |true|``, root-mean-square over slots."""
    size = float(np.sqrt(np.square(true_kw).mean()))
    return float(np.sqrt(np.square(found_kw - true_kw).mean())) / max(size, 1e-12)


def recover(
    load_kw: Floats,
    members: Ints,
    target: int,
    *,
    epsilon: float,
    delta: float,
    releases: int = 1,
) -> Recovery:
    """Recover one customer of a group from the means with and without that customer.

    Parameters
    ----------
    load_kw : (P, d)
        Load of all customers.
    members
        Row numbers of the group, including the target.
    target
        Row number of the customer to recover.
    epsilon, delta
        Budget of each of the two DP means of the comparison.
    releases
        Number of pairs of DP means.
    """
    rest = members[members != target]

    def protected(rows: Ints) -> Floats:
        mean_kw: Floats = load_shapes(load_kw[rows], epsilon=epsilon, delta=delta).mean_kw[0]
        return mean_kw

    return Recovery(
        customers=members.size,
        true_kw=load_kw[target],
        recovered_kw=recovered(
            load_kw[members].mean(axis=0), members.size, load_kw[rest].mean(axis=0)
        ),
        repeated_kw=np.array(
            [recovered(protected(members), members.size, protected(rest)) for _ in range(releases)]
        ),
    )


def largest_exposed(load_kw: Floats, cells: RuledCells) -> int | None:
    """Return the row of the largest exposed customer; None if no customer is exposed."""
    size = np.where(cells.exposed, np.square(load_kw).sum(axis=1), -1.0)
    return int(np.argmax(size)) if cells.exposed.any() else None


# --- the attack on an N/X rule --------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class DifferencingAttack:
    """Recovery of one customer from means that an N/X rule permits. PRIVATE.

    Attributes
    ----------
    customer
        Identifier of the recovered customer.
    cells
        The cells under the rule.
    recoveries
        For groups of increasing size within the customer's cell; the whole cell is last.
    """

    customer: str
    cells: RuledCells
    recoveries: Sequence[Recovery]
    epsilon: float

    def to_json(self) -> dict[str, object]:
        """Return rule, cells, errors and the recovered curve as JSON values."""
        last = self.recoveries[-1]
        return {
            "private": True,
            "rule": str(self.cells.rule),
            "customer": self.customer,
            "cells": [asdict(cell) for cell in self.cells.cells],
            "attacks": [each.to_json() for each in self.recoveries],
            "true_kw": last.true_kw.tolist(),
            "recovered_kw": last.recovered_kw.tolist(),
        }


def differencing_attack(
    profiles: Profiles,
    *,
    rule: str,
    by: Sequence[str] | None,
    customer: str | None,
    epsilon: float,
    delta: float,
) -> DifferencingAttack:
    """Recover one customer from means that the rule permits, in groups of increasing size.

    Parameters
    ----------
    profiles
        Private.
    rule
        ``"N/X"``.
    by
        Attributes whose values define the cells; None puts all customers into one cell.
    customer
        Identifier of the customer to recover; None takes the largest exposed one.
    epsilon, delta
        Budget of each of the DP means of the comparison.
    """
    names = [_ALL_CUSTOMERS] * len(profiles) if by is None else cell_names(profiles, by)
    cells = apply_rule(profiles.load_kw, names, Rule.parse(rule))
    target = _target(profiles, cells, customer)
    groups = list(_growing_groups(profiles.load_kw, cells, target))
    repeats = [*(1 for _ in groups[1:]), RELEASES]  # the last one is the headline
    return DifferencingAttack(
        customer=profiles.customer_ids[target],
        cells=cells,
        recoveries=[
            recover(
                profiles.load_kw,
                members,
                target,
                epsilon=epsilon,
                delta=delta,
                releases=releases,
            )
            for members, releases in zip(groups, repeats, strict=True)
        ],
        epsilon=epsilon,
    )


def _target(profiles: Profiles, cells: RuledCells, customer: str | None) -> int:
    """Return the row of the customer to recover."""
    if customer is None:
        target = largest_exposed(profiles.load_kw, cells)
        if target is None:
            rule = f"such that a cell stays published under {cells.rule} without a customer"
            raise InvalidParameterError("by", rule, "no such cell")
        return target
    if customer not in profiles.customer_ids:
        raise InvalidParameterError("customer", "one of the profiles", customer)
    target = profiles.customer_ids.index(customer)
    if not cells.exposed[target]:
        rule = "in a cell that is published with and without that customer"
        raise InvalidParameterError("customer", rule, customer)
    return target


def _growing_groups(load_kw: Floats, cells: RuledCells, target: int) -> list[Ints]:
    """Return groups of the target's cell of increasing size, the whole cell last.

    Only groups that the rule permits with and without the target: in a small group its share may
    be too large.
    """
    members = np.flatnonzero(cells.cell_of == cells.cell_of[target])
    others = members[members != target]
    groups = [np.append(others[: size - 1], target) for size in _GROUPS if size < members.size]

    def permitted(group: Ints) -> bool:
        alone = apply_rule(load_kw[group], [_ALL_CUSTOMERS] * group.size, cells.rule)
        return bool(alone.exposed[-1])

    return [*filter(permitted, groups), members]


# --- report on an N/X rule ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class RuleReport:
    """An N/X rule, the attack on it, and the differentially private answer for the same cells.

    Attributes
    ----------
    cells
        Published and suppressed cells, and exposed customers.
    recovery
        The attack on the largest exposed customer; None if no customer is exposed.
    released
        The DP means of all cells: one release under one budget.
    exact_kw : (cells, slots)
        The exact means.
    errors : (cells,)
        Relative error of each DP mean.
    hours : (slots,)
        Hour of each slot, for figures.
    """

    cells: RuledCells
    recovery: Recovery | None
    released: LoadShapes
    exact_kw: Floats
    errors: Floats
    hours: Floats

    @property
    def median_errors(self) -> dict[str, float]:
        """Median error of the DP means in published and in suppressed cells; NaN without cells."""
        published = np.array([cell.published for cell in self.cells.cells])
        return {
            name: float(np.median(self.errors[which])) if which.any() else float("nan")
            for name, which in (("published", published), ("suppressed", ~published))
        }

    @property
    def summary(self) -> list[str]:
        """Sentences on what the attack recovered and on the accuracy of the DP means."""
        guarantee, recovery = self.released.guarantee, self.recovery
        if recovery is None:
            attack = (
                "No cell stays published without one of its customers: no customer is recovered."
            )
        else:
            attack = (
                "The rule permits the mean of a cell both with and without one of its customers."
                f" From two published means, one of {recovery.customers:,} customers is recovered"
                f" with a relative error of {recovery.error:.1e}; from two DP means the relative"
                f" error is {recovery.protected_error:,.1f} (1 is the error of guessing 0)."
            )
        errors = [
            f"{format_share(error)} in {name} cells"
            for name, error in self.median_errors.items()
            if not math.isnan(error)
        ]
        cost = f"epsilon {guarantee.epsilon:g}, delta {guarantee.delta:g}"
        answer = f"The DP means of all cells cost {cost}; their median relative error is"
        return [attack, f"{answer} {' and '.join(errors)}."]

    def to_json(self) -> dict[str, object]:
        """Return everything except the curves as JSON values."""
        guarantee, recovery = self.released.guarantee, self.recovery
        return {
            "private": True,
            "rule": str(self.cells.rule),
            "rates": self.cells.rates,
            "cells": [
                {**asdict(cell), "published": cell.published, "dp_error": float(error)}
                for cell, error in zip(self.cells.cells, self.errors, strict=True)
            ],
            "attack": None if recovery is None else recovery.to_json(),
            "dp_answer": {
                "epsilon": guarantee.epsilon,
                "delta": guarantee.delta,
                "sentence": guarantee.sentence,
            },
        }


def report_rule(
    profiles: Profiles, *, rule: str, by: list[str], epsilon: float, delta: float
) -> RuleReport:
    """Apply a rule, attack it, and release the same cells with differential privacy.

    Parameters
    ----------
    profiles
        Private.
    rule
        ``"N/X"``.
    by
        Attributes whose values define the cells.
    epsilon, delta
        Budget of the DP means of all cells together.
    """
    names = cell_names(profiles, by)
    cells = apply_rule(profiles.load_kw, names, Rule.parse(rule))
    levels = [cell.name for cell in cells.cells]
    released = load_shapes(
        profiles.load_kw, groups=names, levels=levels, epsilon=epsilon, delta=delta
    )
    exact_kw = np.stack(
        [profiles.load_kw[cells.cell_of == place].mean(axis=0) for place in range(len(levels))]
    )
    target = largest_exposed(profiles.load_kw, cells)
    recovery = None
    if target is not None:
        members = np.flatnonzero(cells.cell_of == cells.cell_of[target])
        recovery = recover(profiles.load_kw, members, target, epsilon=epsilon, delta=delta)
    return RuleReport(
        cells=cells,
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
