"""Suppression and exposure under N/X rules, and the error of DP means of the same cells.

Run: ``python benchmarks/bench_rules.py``. London homes need the data folder (see `measured_homes`).
All figures are private. Each line is one release at epsilon 1, as `wattveil rules` makes it.
"""

import math

import measured_homes
import numpy as np
from numpy.typing import NDArray

from wattveil.lab.attacks.differencing import RuleReport, report_rule
from wattveil.profiles import Profiles, TimeGrid
from wattveil.simulate import LONDON_MIX, simulate_attributes, simulate_load_kw

EPSILON, DELTA = 1.0, 1e-6
SIMULATED = 1409
RULES = ("15/15", "100/15", "6/40", "4/50")


def main() -> None:
    """Print a line for each set of cells and rule."""
    known = simulate_attributes(customers=SIMULATED, mix=LONDON_MIX, seed=1)
    places = {name: tuple(known[name].to_pylist()) for name in ("zip", "class")}
    simulated = profiles(simulate_load_kw(customers=SIMULATED), places)
    cases = [(simulated, ["zip"], RULES[:1]), (simulated, ["zip", "class"], RULES)]
    if measured_homes.LONDON.exists():
        london = profiles(measured_homes.london_homes(), measured_homes.london_attributes())
        cases.append((london, ["acorn", "tariff"], RULES))
    for customers, by, rules in cases:
        for rule in rules:
            report = report_rule(customers, rule=rule, by=by, epsilon=EPSILON, delta=DELTA)
            print(line(" x ".join(by), report), flush=True)  # noqa: T201


def profiles(load_kw: NDArray[np.float64], attributes: dict[str, tuple[str, ...]]) -> Profiles:
    """Return rows of 24 hours as profiles."""
    return Profiles(
        customer_ids=tuple(map(str, range(len(load_kw)))),
        load_kw=np.array(load_kw),
        grid=TimeGrid(),
        timezone="Europe/London",
        attributes=attributes,
    )


def line(cells: str, report: RuleReport) -> str:
    """Return a row of the table of docs/evaluation.md, followed by the result of the attack."""
    rates, errors, attack = report.cells.rates, report.median_errors, report.recovery
    shares = [rates[f"{what} suppressed"] for what in ("cells", "customers")]
    shares += [rates["customers recovered"], errors["published"], errors["suppressed"]]
    known = ("" if math.isnan(share) else f"{share:.1%}" for share in shares)
    row = " | ".join([cells, str(report.cells.rule), *known])
    if attack is None:
        return f"| {row} |"
    got = f"{attack.customers} customers: {attack.error:.0e}, {attack.protected_error:.1f} with DP"
    return f"| {row} | {got}"


if __name__ == "__main__":
    main()
