"""The differencing attack: two aggregates of many customers give one customer away.

PRIVATE. If q(X) is the mean load of P customers and q(X') that of the same without customer 0,
then, whatever P is::

    x_0 = P q(X) - (P - 1) q(X')

The rule that both aggregates have at least 15 customers does not touch it. Differential privacy
does: each of two released means carries noise that P multiplies.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from wattveil.errors import InvalidParameterError
from wattveil.evaluation.attack_data import attacked
from wattveil.evaluation.attack_options import PRIVATE, AsJson, Delta, Epsilon, OwnProfiles, Page
from wattveil.evaluation.rules import Cells, Floats, Ints, Rule, apply_rule, cell_names
from wattveil.measures.page import BLUE, GREY, ORANGE, new_figure
from wattveil.profiles import Profiles
from wattveil.profiles.page import Shown, figure_html, private_page
from wattveil.profiles.text import line_of, shown
from wattveil.release.shapes import load_shapes
from wattveil.terminal import check_folders, plain, refusals

EPILOG = "Example: wattveil attack fifteen-fifteen profiles.parquet --rule 15/15 --by zip"

_GROUPS = (20, 100, 1000, 10_000, 100_000)
_EVERYBODY = "all customers"


@dataclass(frozen=True, kw_only=True, eq=False)
class Recovery:
    """What came out for one customer.

    Attributes
    ----------
    customers : int
        P: how many the aggregate hides the customer among.
    true_kw, recovered_kw : (d,)
        The customer's load, and what the two aggregates give.
    protected_kw : (d,)
        What the same attack gives on two differentially private means.
    """

    customers: int
    true_kw: Floats
    recovered_kw: Floats
    protected_kw: Floats

    @property
    def error(self) -> float:
        """Root-mean-square error of what was recovered, over the customer's own size."""
        return relative_error(self.recovered_kw, self.true_kw)

    @property
    def protected_error(self) -> float:
        """The same for the DP means; 1 is what guessing 0 gives."""
        return relative_error(self.protected_kw, self.true_kw)


def recovered(mean_kw: Floats, customers: int, mean_without_kw: Floats) -> Floats:
    """Return ``x_0 = P q(X) - (P - 1) q(X')``."""
    found: Floats = customers * mean_kw - (customers - 1) * mean_without_kw
    return found


def relative_error(found_kw: Floats, true_kw: Floats) -> float:
    """Return ``|found - true| / |true|``, root-mean-square over slots."""
    size = float(np.sqrt(np.square(true_kw).mean()))
    return float(np.sqrt(np.square(found_kw - true_kw).mean())) / max(size, 1e-12)


def recover(
    load_kw: Floats, members: Ints, victim: int, *, epsilon: float, delta: float
) -> Recovery:
    """Take one customer out of a group, and the difference of the two means.

    Parameters
    ----------
    load_kw : (customers, slots)
    members
        Row numbers of the group, the victim among them.
    victim
        Row number.
    epsilon, delta
        Of each of the two DP means that stand beside it.
    """
    rest = members[members != victim]

    def protected(rows: Ints) -> Floats:
        mean_kw: Floats = load_shapes(load_kw[rows], epsilon=epsilon, delta=delta).mean_kw[0]
        return mean_kw

    return Recovery(
        customers=members.size,
        true_kw=load_kw[victim],
        recovered_kw=recovered(
            load_kw[members].mean(axis=0), members.size, load_kw[rest].mean(axis=0)
        ),
        protected_kw=recovered(protected(members), members.size, protected(rest)),
    )


def easiest_victim(load_kw: Floats, found: Cells) -> int | None:
    """Return the largest customer that the rule gives away; None if it gives nobody away."""
    size = np.where(found.exposed, np.square(load_kw).sum(axis=1), -1.0)
    return int(np.argmax(size)) if found.exposed.any() else None


def recovery_figure(found: Recovery, hours: Floats) -> Shown:
    """Draw the customer, what the rule gives away, and what the DP means give."""
    figure = new_figure()
    for name, curve, colour, dash in (
        ("from two DP means", found.protected_kw, GREY, "dot"),
        ("the customer", found.true_kw, BLUE, "solid"),
        ("recovered from the rule's aggregates", found.recovered_kw, ORANGE, "dash"),
    ):
        figure.add_scatter(x=hours, y=curve, name=name, line={"color": colour, "dash": dash})
    top = float(np.abs(found.true_kw).max())
    figure.update_yaxes(range=[-1.5 * top, 2.5 * top])  # noise that is larger leaves the frame
    title = f"One of {found.customers:,} customers, from two published means"
    return Shown(title, figure, "hour", "kW")


def fifteen_fifteen(
    profiles: OwnProfiles = None,
    *,
    rule: Annotated[str, typer.Option(help="N/X, such as 15/15.")] = "15/15",
    by: Annotated[
        str | None, typer.Option(help="Attributes that make the cells: zip or zip,class.")
    ] = None,
    customer: Annotated[
        str | None, typer.Option(help="Whom to recover; the largest that can be, otherwise.")
    ] = None,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    page: Page = None,
    as_json: AsJson = False,
) -> None:
    """Recover a customer from two means that an N/X rule lets out, however many they hide among."""
    with refusals():
        check_folders({"page": page})
        rows = attacked(profiles)
        names = [_EVERYBODY] * len(rows) if by is None else cell_names(rows, by.split(","))
        found = apply_rule(rows.load_kw, names, Rule.parse(rule))
        victim = _victim(rows, found, customer)
        groups = _growing(rows.load_kw, found, victim)
        attacks = [
            recover(rows.load_kw, members, victim, epsilon=epsilon, delta=delta)
            for members in groups
        ]
        if page is not None:
            hours = np.arange(rows.grid.columns) * rows.grid.minutes / 60.0
            body = figure_html(recovery_figure(attacks[-1], hours))
            title = f"What the {found.rule} rule gives away"
            text = private_page(title, _facts(attacks[-1], epsilon), body)
            page.write_text(text, encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(_as_json(rows.customer_ids[victim], found, attacks), indent=2))
    else:
        _show(Console(), rows.customer_ids[victim], found, attacks)


def _victim(rows: Profiles, found: Cells, customer: str | None) -> int:
    """Return the row of the customer to recover."""
    if customer is None:
        victim = easiest_victim(rows.load_kw, found)
        if victim is None:
            rule = f"such that a cell stays published under {found.rule} without a customer"
            raise InvalidParameterError("by", rule, "no cell does")
        return victim
    if customer not in rows.customer_ids:
        raise InvalidParameterError("customer", "one of the profiles", customer)
    victim = rows.customer_ids.index(customer)
    if not found.exposed[victim]:
        rule = "in a cell that is published with and without that customer"
        raise InvalidParameterError("customer", rule, customer)
    return victim


def _growing(load_kw: Floats, found: Cells, victim: int) -> list[Ints]:
    """Return groups of the victim's cell, larger and larger, the whole cell last.

    Only such as the rule lets out with the victim and without: among few it may be too large.
    """
    members = np.flatnonzero(found.cell_of == found.cell_of[victim])
    others = members[members != victim]
    groups = [np.append(others[: size - 1], victim) for size in _GROUPS if size < members.size]

    def let_out(group: Ints) -> bool:
        alone = apply_rule(load_kw[group], [_EVERYBODY] * group.size, found.rule)
        return bool(alone.exposed[-1])

    return [*filter(let_out, groups), members]


def _facts(attack: Recovery, epsilon: float) -> Sequence[tuple[str, str]]:
    return [
        (f"{attack.customers:,}", "customers in the aggregate"),
        (shown(attack.error), "error of what was recovered, of the customer's load"),
        (shown(attack.protected_error), f"the same from two means with epsilon {epsilon:g}"),
    ]


def _as_json(customer: str, found: Cells, attacks: Sequence[Recovery]) -> dict[str, object]:
    return {
        "private": True,
        "rule": str(found.rule),
        "customer": customer,
        "cells": [asdict(cell) for cell in found.cells],
        "attacks": [
            {
                "customers": attack.customers,
                "error": attack.error,
                "protected_error": attack.protected_error,
            }
            for attack in attacks
        ],
        "true_kw": attacks[-1].true_kw.tolist(),
        "recovered_kw": attacks[-1].recovered_kw.tolist(),
    }


def _show(console: Console, customer: str, found: Cells, attacks: Sequence[Recovery]) -> None:
    console.print(
        f"Customer {plain(customer)}, from two means that {found.rule} lets out. {PRIVATE}",
        highlight=False,
    )
    table = Table("hidden among", "error of the recovered load", "with DP means")
    for attack in attacks:
        table.add_row(
            f"{attack.customers:,}", f"{attack.error:.1e}", f"{attack.protected_error:,.1f}"
        )
    console.print(table)
    last = attacks[-1]
    for name, curve in (
        ("the customer", last.true_kw),
        ("recovered", last.recovered_kw),
        ("from DP means", last.protected_kw),
    ):
        console.print(f"{name:>20}  {line_of(curve)}", highlight=False)
    console.print("Errors are shares of the customer's own load: 1 is what guessing nothing gives.")
