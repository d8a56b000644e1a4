"""Simulated customers: public made-up data for demonstrations and tests.

>>> simulate_load_kw(customers=3).shape
(3, 24)
"""

import numpy as np
from numpy.typing import NDArray

from wattveil import checks

# Share of the population, typical mean load in kW, and the hours and heights of its daily humps.
_KINDS = (
    (0.50, 0.45, ((7.5, 0.9), (19.0, 2.0))),  # away during the day
    (0.25, 0.55, ((12.5, 0.8), (18.5, 1.2))),  # at home
    (0.15, 0.80, ((2.5, 2.2), (19.0, 1.0))),  # night tariff or a car charging
    (0.10, 1.60, ((11.0, 2.0), (15.0, 1.8))),  # small business
)


def simulate_load_kw(*, customers: int, seed: int = 1) -> NDArray[np.float64]:
    """Return the average day of so many made-up customers, in kW, one row a customer."""
    checks.integer("customers", customers, least=1, most=1_000_000)
    generator = np.random.default_rng(seed)
    hours = np.arange(24) + 0.5
    shares = [share for share, _, _ in _KINDS]
    load_kw = np.empty((customers, 24))
    for row, kind in enumerate(generator.choice(len(_KINDS), size=customers, p=shares)):
        _, mean_kw, humps = _KINDS[kind]
        shape = np.full(24, 0.4)
        for peak_hour, height in humps:
            shifted = peak_hour + generator.normal(0.0, 0.7)
            away = (hours - shifted + 12.0) % 24.0 - 12.0  # hours from the peak, around midnight
            shape += height * generator.lognormal(0.0, 0.25) * np.exp(-0.5 * (away / 2.0) ** 2)
        size = mean_kw * generator.lognormal(0.0, 0.5)
        load_kw[row] = size * shape / shape.mean() * generator.lognormal(0.0, 0.1, 24)
    return load_kw
