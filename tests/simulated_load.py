"""Simulated homes, made once a process: many tests look at the same ones."""

from functools import cache

from wattveil.arrays import Floats
from wattveil.simulate import simulate_load_kw


def simulated_homes(customers: int, seed: int = 1) -> Floats:
    """Return the average weekday of so many homes in kW, a copy of its own for each test."""
    return _made_once(customers, seed).copy()


@cache
def _made_once(customers: int, seed: int) -> Floats:
    return simulate_load_kw(customers=customers, seed=seed)
