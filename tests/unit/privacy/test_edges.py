"""Edges where one symbol decides: found by mutating the kernel and seeing what went unnoticed."""

import threading
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from wattveil.errors import BudgetExceededError
from wattveil.privacy import noise
from wattveil.privacy.budget import Budget, Spend
from wattveil.privacy.guarantee import Guarantee, Tier
from wattveil.privacy.mechanisms import modulo
from wattveil.privacy.mechanisms.quantile import noisy_quantile
from wattveil.privacy.noise import NoiseSource
from wattveil.privacy.secret import Secret

Ample = Callable[..., Budget]


class Hesitant(Spend):
    """A charge that takes its time between being checked and being recorded."""

    def __getattribute__(self, name: str) -> object:
        """Wait where the last amount is read: another thread may come in between."""
        if name == "eta":
            time.sleep(0.002)
        return super().__getattribute__(name)


def test_two_threads_cannot_both_take_the_last_unit(ample: Ample) -> None:
    """Check and record are one step: of eight charges of the whole grant, one is admitted."""
    budget = ample()
    refused: list[BudgetExceededError] = []

    def charge() -> None:
        try:
            budget.charge(Hesitant(tag="t", mechanism="m", rho_units=budget.rho_units))
        except BudgetExceededError as error:
            refused.append(error)

    threads = [threading.Thread(target=charge) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(budget.spends) == 1
    assert len(refused) == 7


def test_a_tiny_chance_to_move_is_not_rounded_away(
    promise: Callable[..., Guarantee], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However small the flip chance, labels in L never leave for sure."""
    flips: list[Fraction] = []

    def record(values: NDArray[np.int64], *, n_labels: int, flip: Fraction) -> NDArray[np.int64]:
        assert n_labels == 3
        flips.append(flip)
        return values

    monkeypatch.setattr(modulo, "_move_labels", record)
    labels = {"n_labels": 3, "changed": 1, "delta": 0.0}
    modulo.modulo_labels(
        Secret(np.array([0, 1])),
        unstable=Secret(np.array([0])),
        epsilon=50.0,
        budget=Budget(promise(epsilon=60.0, tier=Tier.INSTANCE), response_epsilon=50.0),
        tag="t",
        **labels,  # type: ignore[arg-type]  # the shape of the label noise
    )
    least = modulo.modulo_flip(epsilon=50.0, **labels)  # type: ignore[arg-type]  # same
    assert 0.0 < Fraction(least) <= flips[0]


def test_a_value_at_the_threshold_lies_below_it(ample: Ample, silent: NoiseSource) -> None:
    """#{x <= t}: with all values at the first middle, the search goes down."""
    with noise.rehearse(silent):
        found = noisy_quantile(
            Secret(np.ones(10)),
            quantile=0.5,
            interval=(0.0, 2.0),
            n_steps=3,
            rho_units=3 * 10**15,
            budget=ample(),
            tag="t",
        )
    assert found.value < 1.0
