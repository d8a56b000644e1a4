"""Edge cases that mutation testing of the kernel found untested."""

import threading
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from wattveil.errors import BudgetExceededError
from wattveil.privacy.guarantee import Budget, Guarantee, Spend, Tier
from wattveil.privacy.mechanisms import modulo
from wattveil.privacy.private_data import Secret

Ample = Callable[..., Budget]


class Hesitant(Spend):
    """A charge that waits between being checked and being recorded."""

    def __getattribute__(self, name: str) -> object:
        """Wait where the last amount is read, so that another thread can run."""
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


def test_a_tiny_flip_probability_is_not_rounded_to_zero(
    make_guarantee: Callable[..., Guarantee], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However small the flip probability, no label in L is released with certainty."""
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
        budget=Budget(make_guarantee(epsilon=60.0, tier=Tier.INSTANCE), response_epsilon=50.0),
        tag="t",
        **labels,  # type: ignore[arg-type]  # the shape of the label noise
    )
    smallest = modulo.modulo_flip(epsilon=50.0, **labels)  # type: ignore[arg-type]  # same
    assert 0.0 < Fraction(smallest) <= flips[0]
